// Rows of logits whose normalisers are known: what is kept of a row, where it is written, and how it is read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/optional_members.hpp"
#include "multidraft/group/runs.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/rows/row_view.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/rows/truncation.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace detail {

/// A row of logits, and for each chunk a word of which bit k says whether run k of the chunk (`run_length` entries) has
/// a token that truncation keeps. The host group does not read the other runs (`has_runs`). Without words it
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
    /// See `has_runs`.
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

}  // namespace detail

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

/// The numbers that turn a row of logits into a distribution, in single precision: `prepare_batch` and `draft_batch`
/// write them and `prepared_batch` reads them, so that a verifier need not read the row again for its normaliser.
/// Token i has the probability exp(scale (x_i - largest)) / mass if truncation keeps it, else 0. Trivially copyable.
/// Where all entries equal to `cut_value` are kept, different machines may write different `cut_last`.
struct row_state {
    float largest = 0;                        ///< the largest logit
    float scale = 1;                          ///< the inverse of the temperature
    float mass = 1;                           ///< the sum of exp(scale (x_i - largest)) over the kept tokens, or NaN
    float cut_value = minus_infinity<float>;  ///< logits above it are kept
    index_t cut_last = 0;                     ///< logits equal to `cut_value` are kept up to this index
};

/// The state of a processed row.
template <class View>
[[nodiscard]] MULTIDRAFT_HD row_state state_of(softmax_row<View> const& row) noexcept {
    static_assert(std::is_same_v<typename View::real, float>,
                  "multidraft: row states are those of rows that are computed in single precision");
    return {row.largest(), row.scale(), row.mass(), row.kept().value, row.kept().last};
}

/// Where `prepare_batch` writes what it finds of each node's row; `prepared_batch` reads it.
struct row_state_batch {
    row_state* states = nullptr;  ///< one for each node
    /// The sums of a row's chunks of 4,096 entries: `kept_sums(vocabulary)` for each node; may be null for the draft.
    float* sums = nullptr;
    /// A bit for each run of 64 entries, whether truncation keeps a token there: `chunks_of(vocabulary)` words for each
    /// node, for rows of at most 512 chunks. May be null; hosts read fewer entries of truncated rows with it.
    std::uint64_t* runs = nullptr;
};

/// Rows of logits with what `prepare_batch` or `draft_batch` wrote about them: `states[i]` is that of node i of the
/// batch. T: float, `float16` or `bfloat16`.
///
/// Verdicts have the same bits as with the `logit_batch` that was prepared. A verifier reads single entries of a row,
/// and all of them only for a residual. The token after the last accepted node is drawn from the chunk sums of the
/// target's row: `kept_sums(vocabulary)` of `sums` for each node. With `runs`, `chunks_of(vocabulary)` words for each
/// node, hosts read of a truncated row only the runs of 64 entries in which it keeps a token (`truncated_view`).
template <class T, class Layout = contiguous>
struct prepared_batch : rows_of_batch<T, Layout> {
    row_state const* states = nullptr;
    float const* sums = nullptr;          ///< of the target's rows; may be null for the draft's
    std::uint64_t const* runs = nullptr;  ///< may be null

    prepared_batch() = default;
    /// The arrays of `rows_of_batch`, the states, and the sums and runs if there are some.
    MULTIDRAFT_HD constexpr prepared_batch(T const* first, std::int64_t stride_of_rows, index_t size,
                                           row_state const* of_rows, std::int64_t const* row_of_node = nullptr,
                                           float const* chunk_sums = nullptr,
                                           std::uint64_t const* kept_runs = nullptr) noexcept
        : prepared_batch({first, stride_of_rows, size, row_of_node}, of_rows, chunk_sums, kept_runs) {}
    /// Rows with what was written about them.
    MULTIDRAFT_HD constexpr prepared_batch(rows_of_batch<T, Layout> const& rows, row_state const* of_rows,
                                           float const* chunk_sums = nullptr,
                                           std::uint64_t const* kept_runs = nullptr) noexcept
        : rows_of_batch<T, Layout>(rows), states(of_rows), sums(chunk_sums), runs(kept_runs) {}

    /// The distribution of node i.
    template <group G>
    [[nodiscard]] MULTIDRAFT_HD softmax_row<detail::truncated_view<row_view<T, Layout>>> operator()(
        G const&, std::int64_t i, std::int32_t) const {
        row_state const& s = states[i];
        truncation_threshold<float> kept;
        kept.value = s.cut_value;
        kept.last = s.cut_last;
        detail::truncated_view<row_view<T, Layout>> const x(
            this->view(i), runs == nullptr ? nullptr : runs + i * chunks_of(this->vocabulary));
        softmax_row<detail::truncated_view<row_view<T, Layout>>> row(x, s.largest, s.scale, kept);
        row.set_mass(s.mass);
        return row;
    }
    /// The same with the chunk sums of its weights. Reads `sums`.
    template <group G>
    [[nodiscard]] MULTIDRAFT_HD processed_row<detail::truncated_view<row_view<T, Layout>>, chunk_sums_of<G, float>>
    with_sums(G const& g, std::int64_t i, std::int32_t b) const {
        return {(*this)(g, i, b),
                g.sums_from(this->vocabulary, sums + i * kept_sums(this->vocabulary), states[i].mass)};
    }
};

}  // namespace MULTIDRAFT_NAMESPACE
