// Calls on arrays in device memory. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

/// The end of a sentence: "it needs ..".
#define how_to_build_with_cuda \
    "build the module with CUDA: pip install bindings/python -C cmake.define.MULTIDRAFT_CUDA=ON"

/// Defines the functions cuda_.., in builds without CUDA too: they then fail.
void define_device_calls(nanobind::module_& m);
