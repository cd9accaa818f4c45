// The results that files of one program, compiled for different instruction sets, compute from the same row.
#pragma once

#include <cstdint>

namespace abi {

// Plain types only: one of the library's has another name in each file.
struct numbers {
    char const* name;  // of the inline namespace
    bool has_fma;
    std::uint32_t sum;           // of the entries: additions alone, in the fixed order
    std::uint32_t squares;       // what squares lose by rounding: 0 without an FMA, equal with one
    std::uint32_t exponentials;  // the library's own, equal where there is an FMA
};

}  // namespace abi

extern "C" {
abi::numbers unit_base(float const* row, int n);
abi::numbers unit_v3(float const* row, int n);
abi::numbers unit_native(float const* row, int n);
}
