// CUB's merge sort on the stand-in: returns the size of its workspace, or is recorded in the stream.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "../../standin.hpp"

namespace cub {

struct DeviceMergeSort {
    template <class Key, class Less>
    static cudaError_t SortKeys(void* workspace, std::size_t& bytes, Key* keys, std::int64_t n, Less less,
                                cudaStream_t stream = nullptr) {
        std::size_t const needed = static_cast<std::size_t>(n) * sizeof(Key) + 1;
        return standin::in_two_calls(workspace, bytes, needed, stream, [=] { std::sort(keys, keys + n, less); });
    }
};

}  // namespace cub
