"""What `conan create` does with the package it made: a program that uses it, and the backends that were asked for."""
import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout


class MultidraftTest(ConanFile):
    settings = "os", "arch", "compiler", "build_type"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        options = self.dependencies["multidraft"].options
        toolchain = CMakeToolchain(self)
        toolchain.user_presets_path = False
        components = [c for c in ("cuda", "kokkos", "mpi") if options.get_safe(c)]
        if options.get_safe("library"):
            components.append("c")
        toolchain.cache_variables["COMPONENTS"] = ";".join(components)
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if can_run(self):
            self.run(os.path.join(self.cpp.build.bindir, "example"), env="conanrun")
            if self.dependencies["multidraft"].options.get_safe("library"):
                for name in ("example_c", "example_c_static"):
                    self.run(os.path.join(self.cpp.build.bindir, name), env="conanrun")
