// One function, compiled into one program three times: for any x86-64, for AVX2 with FMA, and for this machine.
#include "abi/unit.hpp"

#include <bit>
#include <cstdint>

#include "multidraft/base/exp_log.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/row_view.hpp"

#define ABI_STRING(x) #x
#define ABI_EXPANDED(x) ABI_STRING(x)

extern "C" abi::numbers UNIT(float const* row, int n) {
    using namespace multidraft;
    host_group const g;
    auto const bits = [](float x) { return std::bit_cast<std::uint32_t>(x); };
    // Files could share the sum of a row of a library type; that of a lambda is local to this file.
    return {ABI_EXPANDED(MULTIDRAFT_ABI), has_fma, bits(g.sum(n, row_view<float>(row, n))),
            bits(g.sum(n, [row](index_t i) { return fp::fma(row[i], row[i], -fp::mul(row[i], row[i])); })),
            bits(g.sum(n, [row](index_t i) { return fp::exp(-row[i]); }))};
}
