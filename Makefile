# The commands of this repository; `make help` lists them. The build itself is CMake's (CMakePresets.json).

SHELL := bash
JOBS ?= $(shell nproc)
TESTED_PRESETS ?= release asan tsan clang

sources = $(shell git ls-files '*.cpp' '*.hpp')

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
	@echo 'make format        clang-format all sources;  make check-format: fail if that would change any'
	@echo 'make tidy          clang-tidy over all sources'
	@echo 'make clean         remove build/'

packages:
	@.ci/install-packages

build: build-release
test: $(addprefix test-,$(TESTED_PRESETS))
	@echo 'All passed: $(TESTED_PRESETS)'

build-%: packages
	@echo '==== $*: build'
	cmake --preset $*
	cmake --build --preset $* -j $(JOBS)

# The clang build also compiles each public header by itself.
build-clang: packages
	@echo '==== clang: build'
	cmake --preset clang
	cmake --build --preset clang -j $(JOBS)
	cmake --build --preset clang -j $(JOBS) --target all_verify_interface_header_sets

test-%: build-%
	@echo '==== $*: test'
	ctest --preset $* -j $(JOBS)

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
	clang-format-14 -i $(sources)

check-format: packages
	clang-format-14 --dry-run --Werror $(sources)

tidy: build-clang
	run-clang-tidy-14 -quiet -p build/clang -j $(JOBS) '^$(CURDIR)/(runtime|channel|sync|tests|examples|benchmarks)/'

clean:
	rm -rf build
