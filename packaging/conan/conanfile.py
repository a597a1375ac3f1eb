"""The recipe of coir for Conan 2:  conan create COIR/packaging/conan"""
import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load


class CoirConan(ConanFile):
    name = "coir"
    description = "Fibers, channels and select for C++20"
    license = "BSL-1.0"
    topics = ("fibers", "channels", "concurrency", "scheduler")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False]}
    default_options = {"shared": False, "fPIC": True, "boost/*:without_context": False}
    implements = ["auto_shared_fpic"]

    @property
    def _checkout(self):
        return os.path.join(self.recipe_folder, os.pardir, os.pardir)

    def set_version(self):
        header = load(self, os.path.join(self._checkout, "runtime", "include", "coir", "version.hpp"))
        self.version = ".".join(re.findall(r"^#define COIR_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header, re.MULTILINE))

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "runtime/*", "channel/*", "sync/*", "net/*",
                        "explore/*"):
            copy(self, pattern, src=self._checkout, dst=self.export_sources_folder)

    def requirements(self):
        self.requires("boost/[>=1.74 <2]")

    def validate(self):
        check_min_cppstd(self, 20)
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("coir is for Linux")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in ("TESTS", "BENCHMARKS", "EXAMPLES"):
            toolchain.cache_variables[f"COIR_BUILD_{part}"] = False
        toolchain.cache_variables["COIR_INSTALL"] = True
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", src=self.source_folder, dst=os.path.join(self.package_folder, "licenses"))
        CMake(self).install()

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "coir")
        self.cpp_info.set_property("cmake_target_name", "coir::coir")
        self.cpp_info.set_property("pkg_config_name", "coir")
        self.cpp_info.libs = ["coir_net", "coir_sync", "coir_channel", "coir_runtime"]
        self.cpp_info.system_libs = ["pthread", "dl"]
