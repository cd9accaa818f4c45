"""Conan 2 recipe: `conan create . --build=missing` from a checkout, with `-nr` also without a network; then require multidraft/0.2.0.

Beside a conandata.yml (tools/release writes one) it packages the archive that this names by address and hash.
"""
import re
from pathlib import Path

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, get


class Multidraft(ConanFile):
    name = "multidraft"
    license = "Apache-2.0"
    description = "Header-only C++20 library for multi-candidate (tree) speculative decoding"
    topics = ("speculative-decoding", "sampling", "llm", "header-only")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    # What a backend needs (a CUDA toolkit, Kokkos, MPI) is the system's. With an option on, packaging fails where that is not
    # found. The package is the same either way: one package id for all.
    # library: the compiled library too, multidraft::c and multidraft::c_static, of some methods or of all.
    options = {"cuda": [True, False], "kokkos": [True, False], "mpi": [True, False], "library": [True, False],
               "methods": ["ANY"]}
    default_options = {"cuda": False, "kokkos": False, "mpi": False, "library": False, "methods": "all"}
    no_copy_source = True

    def set_version(self):
        if self.conan_data:
            self.version, = self.conan_data["sources"]
            return
        header = Path(self.recipe_folder, "include/multidraft/version.hpp").read_text(encoding="utf-8")
        self.version = ".".join(re.findall(r"MULTIDRAFT_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header))

    def export(self):
        if self.conan_data:
            return
        # set_version runs again from the cache's copy of the recipe.
        target = Path(self.export_folder, "include/multidraft/version.hpp")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(Path(self.recipe_folder, "include/multidraft/version.hpp").read_text(encoding="utf-8"))

    def export_sources(self):
        for part in () if self.conan_data else ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "bindings/c/*"):
            copy(self, part, self.recipe_folder, self.export_sources_folder)

    def source(self):
        if self.conan_data:
            get(self, **self.conan_data["sources"][self.version], strip_root=True)

    def configure(self):
        if self.options.library:
            self.package_type = "shared-library"
        else:
            self.options.rm_safe("methods")

    def layout(self):
        cmake_layout(self)

    def validate(self):
        check_min_cppstd(self, 20)

    def package_id(self):
        if self.info.options.library:
            for backend in ("cuda", "kokkos", "mpi"):
                self.info.options.rm_safe(backend)
        else:
            self.info.clear()

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in ("TESTS", "EXAMPLES", "BENCH"):
            toolchain.cache_variables[f"MULTIDRAFT_BUILD_{part}"] = False
        toolchain.cache_variables["MULTIDRAFT_CUDA"] = "ON" if self.options.cuda else "OFF"
        toolchain.cache_variables["MULTIDRAFT_KOKKOS"] = "ON" if self.options.kokkos else "OFF"
        toolchain.cache_variables["MULTIDRAFT_MPI"] = "ON" if self.options.mpi else "OFF"
        toolchain.cache_variables["MULTIDRAFT_BUILD_LIBRARY"] = bool(self.options.library)
        if self.options.library:
            toolchain.cache_variables["MULTIDRAFT_LIBRARY_METHODS"] = str(self.options.methods)
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        if self.options.library:
            cmake.build()

    def package(self):
        CMake(self).install()

    def package_info(self):
        # The library's own config file is used, so that find_package(multidraft COMPONENTS cuda) is as elsewhere.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["share/cmake/multidraft"]
        self.cpp_info.set_property("pkg_config_name", "multidraft")
        if self.options.library:
            self.cpp_info.set_property("pkg_config_aliases", ["multidraft-c"])
            self.cpp_info.libs = ["multidraft"]
        else:
            self.cpp_info.bindirs = []
            self.cpp_info.libdirs = []
