# The commands of this repository; `make help` lists them. The build itself is CMake's (CMakePresets.json).

SHELL := bash
JOBS ?= $(shell nproc)
TESTED_PRESETS ?= release asan tsan

sources = $(shell git ls-files '*.cpp' '*.hpp')

.PHONY: platform-packages docs deb test-deb test-first-hour test-aarch64 test-memcheck test-platforms
.PHONY: help packages build test stress bench compare compare-net growth format check-format tidy clean
.NOTPARALLEL:  # each build uses every core by itself

help:
	@echo 'make test          install what is missing, then build and test: $(TESTED_PRESETS)'
	@echo 'make stress        run random programs of every primitive for some 12 minutes;  make stress-NAME: another preset'
	@echo 'make bench         run the benchmarks and print their tables'
	@echo 'make compare       run the same work in coir, Go, Boost.Fiber, oneTBB and std, for 21 minutes at most; print the ratios'
	@echo 'make compare-net   the part of it that is about the network, for 6 minutes at most'
	@echo 'make growth        run the work in coir at 2 to 64 processors, for 15 minutes at most; print what costs more at more'
	@echo 'make build         build the release preset'
	@echo 'make test-NAME     build and test one preset (release, debug, asan, tsan, clang)'
	@echo 'make build-NAME    build one preset'
	@echo 'make docs          build the reference and the guides as a site in build/docs/html; a warning fails'
	@echo 'make deb           build Debian packages;  make test-deb: install them in a clean root and use them'
	@echo 'make test-first-hour  do what the documentation tells a newcomer to do, in a clean root'
	@echo 'make test-platforms  build and test with Clang 14, 16 and 19, libc++, LTO, hardening, as shared libraries'
	@echo 'make test-aarch64  build for 64-bit ARM and test under emulation'
	@echo 'make test-memcheck run a part of the tests under Valgrind'
	@echo 'make format        clang-format all sources;  make check-format: fail if that would change any'
	@echo 'make tidy          clang-tidy over all sources'
	@echo 'make clean         remove build/'

packages:
	@.ci/install-packages

platform-packages: packages
	@.ci/install-packages packages-platforms.txt

build: build-release
test: $(addprefix test-,$(TESTED_PRESETS))
	@echo 'All passed: $(TESTED_PRESETS)'

build-%: packages
	@echo '==== $*: build'
	cmake --preset $*
	cmake --build --preset $* -j $(JOBS)

# A build with Clang also compiles each public header by itself.
define build_with_clang
build-$(1): packages
	@echo '==== $(1): build'
	cmake --preset $(1)
	cmake --build --preset $(1) -j $$(JOBS)
	cmake --build --preset $(1) -j $$(JOBS) --target all_verify_interface_header_sets
endef
$(foreach preset,asan clang,$(eval $(call build_with_clang,$(preset))))

test-%: build-%
	@echo '==== $*: test'
	ctest --preset $* -j $(JOBS)

# Links between pages and to parts of pages are checked by Doxygen.
docs: packages
	@mkdir -p build/docs
	COIR_DOCS_OUTPUT=build/docs \
	COIR_VERSION=$$(sed -n 's/^.define COIR_VERSION_[MP][AI][JNT][A-Z]* //p' runtime/include/coir/version.hpp | paste -sd.) \
	  doxygen docs/site/Doxyfile
	@echo 'build/docs/html/index.html'

test-platforms: platform-packages
	.ci/test-platforms

# What emulation can bear: not what counts on signals at stack guards, or on deadlocks that are found: the emulator has
# a thread of its own, which coir cannot know to be idle.
emulated_tests = *:-*Overflow*:*Deadlock*
test-aarch64: platform-packages
	.ci/aarch64-sysroot build/aarch64-sysroot
	cmake -S . -B build/aarch64 -G Ninja --toolchain cmake/toolchains/aarch64-linux-gnu.cmake \
	  -DCMAKE_BUILD_TYPE=Release -DCOIR_WERROR=ON -DCOIR_BUILD_BENCHMARKS=OFF -DCOIR_BUILD_EXAMPLES=OFF -DCOIR_CHECK_MODELS=OFF
	cmake --build build/aarch64 -j $(JOBS) --target coir_platform_tests
	qemu-aarch64 -L /usr/aarch64-linux-gnu build/aarch64/tests/platforms/coir_platform_tests --gtest_brief=1 \
	  --gtest_filter='$(emulated_tests)'

# Valgrind runs one thread at a time. The unbuffered channel, select, tasks and generators are enough to see each switch.
memcheck_tests = *Task*:*Unbuffered*:*SelectBlocking*:*Generator*:-*Million*:*Many*
test-memcheck: platform-packages
	cmake --preset release -DCOIR_BUILD_BENCHMARKS=OFF
	cmake --build --preset release -j $(JOBS) --target coir_platform_tests
	valgrind --quiet --error-exitcode=1 --fair-sched=yes --num-callers=30 \
	  build/release/tests/platforms/coir_platform_tests --gtest_brief=1 --gtest_filter='$(memcheck_tests)'

deb: packages platform-packages
	cmake -S . -B build/deb -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr -DBUILD_SHARED_LIBS=ON \
	  -DCOIR_BUILD_TESTS=OFF -DCOIR_BUILD_BENCHMARKS=OFF -DCOIR_BUILD_EXAMPLES=OFF
	cmake --build build/deb -j $(JOBS)
	cd build/deb && cpack

test-deb: deb
	.ci/test-deb build/deb

test-first-hour: platform-packages
	.ci/test-first-hour

stress: stress-release
stress-%: build-%
	cmake --build --preset $* --target stress

bench: build-release
	benchmarks/run.sh build/release/benchmarks

compare: build-release
	benchmarks/compare.py
	benchmarks/compare.py --net

compare-net: build-release
	benchmarks/compare.py --net

growth: build-release
	benchmarks/growth.py

format: packages
	clang-format-19 -i $(sources)

check-format: packages
	clang-format-19 --dry-run --Werror $(sources)

tidy: build-clang
	run-clang-tidy-14 -quiet -p build/clang -j $(JOBS) '^$(CURDIR)/(runtime|channel|sync|net|explore|tests|examples|benchmarks)/'

clean:
	rm -rf build
