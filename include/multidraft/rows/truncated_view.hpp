// A row of logits with one bit for each run of entries: whether truncation keeps a token there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/runs.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/rows/truncation.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// A row of logits, and for each chunk a word of which bit k says whether run k of the chunk (`run_length` entries) has
/// a token that truncation keeps. The host group does not read the other runs (`has_empty_runs`). Without words it
/// reads all.
template <class View>
class truncated_view {
public:
    using real = typename View::real;

    truncated_view() = default;
    /// `chunks_of(row.size())` words, or null.
    MULTIDRAFT_HD explicit truncated_view(View row, std::uint64_t const* runs = nullptr) noexcept
        : row_(row), runs_(runs) {}

    [[nodiscard]] MULTIDRAFT_HD index_t size() const noexcept { return row_.size(); }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real operator()(index_t i) const noexcept { return row_(i); }

    /// See `has_runs`.
    [[nodiscard]] MULTIDRAFT_HD truncated_view in_chunk(index_t, index_t) const noexcept { return *this; }
    /// See `has_empty_runs`.
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool is_empty_run(index_t begin) const noexcept {
        return runs_ != nullptr && (runs_[begin / chunk_size] >> (begin / run_length % 64) & 1U) == 0;
    }
    /// See `has_runs`.
    template <class Body>
    MULTIDRAFT_INLINE MULTIDRAFT_HD void on_run(index_t begin, index_t, Body const& body) const {
        if (is_empty_run(begin))
            body(constant_run<real>(minus_infinity<real>, row_.size()));
        else
            body(row_);
    }

private:
    static_assert(chunk_size == 64 * run_length);

    View row_{};
    std::uint64_t const* runs_ = nullptr;
};

/// The longest rows, in chunks, that `write_kept_runs` takes.
inline constexpr index_t most_chunks_with_runs = 512;

/// Writes the words of a `truncated_view`: which runs of a row may have a token with mass. `row.size()` is at most
/// `most_chunks_with_runs` chunks. One pass.
template <group G, sparse_distribution Row>
MULTIDRAFT_HD void write_kept_runs(G const& g, Row const& row, std::uint64_t* runs) {
    // Sixteen runs are a counter, to which each adds its bit once: at its first token.
    constexpr index_t of_counter = 16;
    constexpr index_t counters_of_chunk = chunk_size / run_length / of_counter;
    index_t const n = row.size();
    index_t const chunks = chunks_of(n);
    auto storage = g.template counters<static_cast<std::size_t>(most_chunks_with_runs * counters_of_chunk)>();
    span<std::uint64_t> const counters(storage.data(), static_cast<std::size_t>(chunks * counters_of_chunk));
    g.histogram(
        n,
        [row](index_t i)
            MULTIDRAFT_INLINE_LAMBDA { return row.may_have_mass(i) ? i / (run_length * of_counter) : none; },
        [row](index_t i) MULTIDRAFT_INLINE_LAMBDA {
            index_t before = i;
            while (before % run_length != 0 && !row.may_have_mass(before - 1)) --before;
            return before % run_length != 0 ? 0 : std::int32_t{1} << (i / run_length % of_counter);
        },
        counters);
    if (!g.leader()) return;
    for (index_t c = 0; c < chunks; ++c) {
        std::uint64_t word = 0;
        for (index_t k = 0; k < counters_of_chunk; ++k)
            word |= counters[static_cast<std::size_t>(c * counters_of_chunk + k)] << (k * of_counter);
        runs[c] = word;
    }
}

}  // namespace MULTIDRAFT_NAMESPACE
