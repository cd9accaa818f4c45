// What test_cuda.py asks of the stand-in, by ctypes.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "standin.hpp"

#define SEEN extern "C" __attribute__((visibility("default")))

SEEN void standin_reset(int has_device);
void standin_reset(int has_device) { standin::reset(has_device != 0 ? standin::h200() : standin::none()); }

SEEN std::size_t standin_allocated();
std::size_t standin_allocated() { return standin::allocated(); }

SEEN void standin_fail(char const* call, int error);
void standin_fail(char const* call, int error) { standin::fail(call, static_cast<cudaError_t>(error)); }

SEEN std::uintptr_t standin_stream();
std::uintptr_t standin_stream() {
    cudaStream_t stream = nullptr;
    return cudaStreamCreate(&stream) == cudaSuccess ? reinterpret_cast<std::uintptr_t>(stream) : 0;
}

SEEN void standin_capture(std::uintptr_t stream, int begins);
void standin_capture(std::uintptr_t stream, int begins) {
    auto* const captured = reinterpret_cast<cudaStream_t>(stream);
    cudaGraph_t graph = nullptr;
    if (begins != 0)
        static_cast<void>(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal));
    else if (cudaStreamEndCapture(captured, &graph) == cudaSuccess)
        static_cast<void>(cudaGraphDestroy(graph));
}
