// A function of the entries of a row, shifted to begin at a column: how a rank reads its chunks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/group/optional_members.hpp"

namespace MULTIDRAFT_NAMESPACE::shards::detail {

/// f(begin + i) as a function of i, with the optional members of f. `begin` is a multiple of `chunk_size`.
template <class F>
struct from_column {
    F f;
    index_t begin;

    [[nodiscard]] MULTIDRAFT_INLINE auto operator()(index_t i) const { return f(begin + i); }
    [[nodiscard]] MULTIDRAFT_INLINE bool may_be_nonzero(index_t i) const requires has_may_be_nonzero<F> {
        return f.may_be_nonzero(begin + i);
    }
    [[nodiscard]] MULTIDRAFT_INLINE bool is_dense() const requires has_is_dense<F> { return f.is_dense(); }
    [[nodiscard]] bool is_elsewhere(index_t first, index_t end) const requires has_elsewhere<F> {
        return f.is_elsewhere(begin + first, begin + end);
    }
    [[nodiscard]] auto elsewhere() const requires has_elsewhere<F> {
        return from_column<std::remove_cvref_t<decltype(f.elsewhere())>>{f.elsewhere(), begin};
    }
    [[nodiscard]] from_column in_chunk(index_t first, index_t end) const requires has_runs<F> {
        return {f.in_chunk(begin + first, begin + end), begin};
    }
    template <class Body>
    MULTIDRAFT_INLINE void on_run(index_t first, index_t end, Body const& body) const requires has_runs<F> {
        f.on_run(begin + first, begin + end, [&](auto const& here) MULTIDRAFT_INLINE_LAMBDA {
            body(from_column<std::remove_cvref_t<decltype(here)>>{here, begin});
        });
    }
};
template <class F>
from_column(F, index_t) -> from_column<F>;

}  // namespace MULTIDRAFT_NAMESPACE::shards::detail
