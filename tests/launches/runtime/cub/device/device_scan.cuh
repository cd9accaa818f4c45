// CUB's scan on the stand-in: returns the size of its workspace, or is recorded in the stream.
#pragma once

#include <cstddef>

#include "../../standin.hpp"

namespace cub {

struct DeviceScan {
    template <class In, class Out, class Add>
    static cudaError_t InclusiveScan(void* workspace, std::size_t& bytes, In in, Out out, Add add, int n,
                                     cudaStream_t stream = nullptr) {
        return standin::in_two_calls(workspace, bytes, static_cast<std::size_t>(n / 16 + 1) * 16, stream, [=] {
            for (int k = 0; k < n; ++k) out[k] = k == 0 ? in[k] : add(out[k - 1], in[k]);
        });
    }
};

}  // namespace cub
