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

SEEN void standin_begin_capture(std::uintptr_t stream);
void standin_begin_capture(std::uintptr_t stream) {
    static_cast<void>(cudaStreamBeginCapture(reinterpret_cast<cudaStream_t>(stream), cudaStreamCaptureModeGlobal));
}

// The graph that can be launched; 0 if the capture is invalid.
SEEN std::uintptr_t standin_end_capture(std::uintptr_t stream);
std::uintptr_t standin_end_capture(std::uintptr_t stream) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    if (cudaStreamEndCapture(reinterpret_cast<cudaStream_t>(stream), &graph) != cudaSuccess) return 0;
    bool const is_ready = cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess;
    static_cast<void>(cudaGraphDestroy(graph));
    return is_ready ? reinterpret_cast<std::uintptr_t>(executable) : 0;
}

SEEN int standin_launch_graph(std::uintptr_t executable, std::uintptr_t stream);
int standin_launch_graph(std::uintptr_t executable, std::uintptr_t stream) {
    return cudaGraphLaunch(reinterpret_cast<cudaGraphExec_t>(executable), reinterpret_cast<cudaStream_t>(stream));
}

SEEN std::size_t standin_launches();
std::size_t standin_launches() { return standin::launches().size(); }
