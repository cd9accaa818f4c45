// Batches of trees, rows and requests as the CUDA launches take them: pointers to device memory, nothing owned.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "multidraft/core/config.hpp"
#include "multidraft/core/group.hpp"
#include "multidraft/core/numbers.hpp"
#include "multidraft/core/optional_members.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/distribution/probabilities.hpp"
#include "multidraft/distribution/row_view.hpp"
#include "multidraft/distribution/sampling_params.hpp"
#include "multidraft/distribution/softmax.hpp"
#include "multidraft/distribution/truncation.hpp"
#include "multidraft/draft/law.hpp"
#include "multidraft/random/address.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE::cuda {

/// Trees of any sizes: the nodes of request b are entries `offsets[b]` to `offsets[b + 1]` of the other arrays.
///
/// Within a request nodes are numbered from 0, the root; see `tree_view` for their order. A token `none` at the end of
/// a node's children stands for a child that could not be drawn (see `draft`); it and what is below it are not there.
struct tree_batch {
    std::int32_t requests = 0;
    std::int64_t const* offsets = nullptr;  ///< requests + 1
    node_id const* parents = nullptr;
    token_id const* tokens = nullptr;
    node_id largest = 0;  ///< nodes of the largest tree; read only for verifiers that work in scratch memory
    /// Of each node how many of its first children are certain, as `draft` writes it; null for laws without certain
    /// children.
    index_t const* certain = nullptr;

    /// The tree of request b.
    [[nodiscard]] MULTIDRAFT_HD tree_view operator()(std::int32_t b) const noexcept {
        std::int64_t const begin = offsets[b];
        auto const size = static_cast<std::size_t>(offsets[b + 1] - begin);
        return {span<node_id const>(parents + begin, size), span<token_id const>(tokens + begin, size)};
    }
    /// How many children of each node of request b are certain; empty where the law has none.
    [[nodiscard]] MULTIDRAFT_HD span<index_t const> certain_of(std::int32_t b) const noexcept {
        if (certain == nullptr) return {};
        return {certain + offsets[b], static_cast<std::size_t>(offsets[b + 1] - offsets[b])};
    }
};

/// Trees with the law that all of them were drawn by: what `verify` and `validate` take. The law is part of the type,
/// so that a verifier of another law does not compile.
template <draft_law Law>
struct drafted_batch {
    using law = Law;
    tree_batch trees;
};

/// Says by which law the trees were drawn: that of the sampler, `drawn_by<Sampler::law>(trees)`. Trees that an engine
/// drew by itself have the law that fits its draws (see `draft/law.hpp`).
template <draft_law Law>
[[nodiscard]] MULTIDRAFT_HD constexpr drafted_batch<Law> drawn_by(tree_batch const& trees) noexcept {
    return {trees};
}

/// What every request has of its own: one entry a request in each array.
struct request_batch {
    std::uint64_t const* seeds = nullptr;
    std::uint32_t const* ids = nullptr;       ///< tells requests of one seed apart; may be null: 0
    std::int32_t const* positions = nullptr;  ///< of the root in the text
    multidraft::sampling_params const* sampling =
        nullptr;                                     ///< of target and draft alike; may be null: `default_sampling`
    multidraft::sampling_params default_sampling{};  ///< where `sampling` is null

    /// What the draws of request b are addressed in.
    [[nodiscard]] MULTIDRAFT_HD addressed_uniforms uniforms(std::int32_t b) const noexcept {
        return addressed_uniforms(seeds[b], ids == nullptr ? 0U : ids[b]);
    }
    /// The sampling parameters of request b.
    [[nodiscard]] MULTIDRAFT_HD sampling_params sampling_of(std::int32_t b) const noexcept {
        return sampling == nullptr ? default_sampling : sampling[b];
    }
};

/// The scalars that make a distribution of a row of logits: what `draft` writes and `prepared` reads, so that a
/// verifier need not read the draft's rows again. Trivially copyable; a row of no mass has mass NaN.
struct row_state {
    float largest = 0;
    float scale = 1;
    float mass = 1;
    float cut_value = minus_infinity<float>;
    index_t cut_last = 0;
};

/// Rows of logits: row r begins at `data + r * row_stride` entries. Row r belongs to node r of the batch, all requests
/// counted through.
template <class T>
struct logits {
    using element = T;
    T const* data = nullptr;
    std::int64_t row_stride = 0;
};

/// Rows of logits that were processed before: `states[r]` belongs to row r.
template <class T>
struct prepared {
    using element = T;
    T const* data = nullptr;
    std::int64_t row_stride = 0;
    row_state const* states = nullptr;
};

/// Rows of probabilities.
template <class T>
struct probability_batch {
    using element = T;
    T const* data = nullptr;
    std::int64_t row_stride = 0;
};

/// No rows: for verifiers that never read the draft's.
struct no_draft_rows {};

namespace detail {

/// Rows, and not `no_draft_rows`.
template <class Rows>
concept has_rows = requires(Rows const& rows) {
    rows.row_stride;
};

/// Rows of logits with what processing left of each (`prepared`).
template <class Rows>
concept has_states = requires(Rows const& rows) {
    rows.states;
};

template <class T, class Layout>
[[nodiscard]] MULTIDRAFT_HD softmax_row<row_view<T, Layout>> row_of_state(row_view<T, Layout> x, row_state const& s) {
    truncation_threshold<float> kept;
    kept.value = s.cut_value;
    kept.last = s.cut_last;
    softmax_row<row_view<T, Layout>> row(x, s.largest, s.scale, kept);
    row.set_mass(s.mass);
    return row;
}

template <class Layout, class Rows>
[[nodiscard]] MULTIDRAFT_HD row_view<typename Rows::element, Layout> view_of(Rows const& batch, std::int64_t row,
                                                                             index_t vocabulary) {
    return {batch.data + row * batch.row_stride, vocabulary};
}
template <class Layout, group G, class T>
[[nodiscard]] MULTIDRAFT_HD auto with_sums_of(G const& g, logits<T> const& batch, std::int64_t row, index_t vocabulary,
                                              request_batch const& requests, std::int32_t b) {
    return process_logits(g, view_of<Layout>(batch, row, vocabulary), requests.sampling_of(b));
}
template <class Layout, group G, class T>
[[nodiscard]] MULTIDRAFT_HD auto distribution_of(G const& g, logits<T> const& batch, std::int64_t row,
                                                 index_t vocabulary, request_batch const& requests, std::int32_t b) {
    return with_sums_of<Layout>(g, batch, row, vocabulary, requests, b).row;
}
template <class Layout, group G, class T>
[[nodiscard]] MULTIDRAFT_HD auto distribution_of(G const&, prepared<T> const& batch, std::int64_t row,
                                                 index_t vocabulary, request_batch const&, std::int32_t) {
    return row_of_state(view_of<Layout>(batch, row, vocabulary), batch.states[row]);
}
template <class Layout, group G, class T>
[[nodiscard]] MULTIDRAFT_HD auto distribution_of(G const& g, probability_batch<T> const& batch, std::int64_t row,
                                                 index_t vocabulary, request_batch const&, std::int32_t) {
    probability_rows<T, Layout> const rows(
        rows_view<T, Layout>(batch.data + row * batch.row_stride, 1, vocabulary, batch.row_stride));
    return rows(g, 0);
}

/// A group whose lanes are threads of blocks, such as `simt_group`.
template <class G>
concept threads_of_device = group<G> && requires(G const& g) {
    g.lanes();
};

/// The distributions of the tree of request b. It refers to the launch's arguments and finds the row anew each time:
/// they cost no registers, which a verifier has few of.
template <class Layout, class Rows>
struct request_rows {
    Rows const& batch;
    tree_batch const& trees;
    request_batch const& requests;
    index_t vocabulary;
    std::int32_t b;
    int prefetched = 0;  ///< rows that `prefetch` asks for at most

    static constexpr bool normalised_here = std::is_same_v<Rows, logits<typename Rows::element>>;

    [[nodiscard]] MULTIDRAFT_HD index_t rows() const noexcept { return trees(b).size(); }
    [[nodiscard]] MULTIDRAFT_HD index_t size() const noexcept { return vocabulary; }
    template <group G>
    [[nodiscard]] MULTIDRAFT_HD auto operator()(G const& g, node_id node) const {
        return distribution_of<Layout>(g, batch, trees.offsets[b] + node, vocabulary, requests, b);
    }
    /// Of rows that are normalised here: the row with the chunk sums of its weights (see `verify::emit_at`).
    template <group G>
    [[nodiscard]] MULTIDRAFT_HD auto with_sums(G const& g, node_id node) const requires(normalised_here) {
        return with_sums_of<Layout>(g, batch, trees.offsets[b] + node, vocabulary, requests, b);
    }
    /// Has the rows of the first of some nodes, of which one may be read next, brought into the second-level cache by
    /// the threads of a device group.
    template <threads_of_device G>
    MULTIDRAFT_HD void prefetch([[maybe_unused]] G const& g, [[maybe_unused]] node_range nodes) const
        requires(normalised_here) {
#if defined(__CUDA_ARCH__)
        constexpr std::int64_t line = 128;
        std::int64_t const bytes = std::int64_t{vocabulary} * static_cast<std::int64_t>(sizeof(typename Rows::element));
        std::int64_t const first = line * (g.lanes().rank() * G::threads + g.lanes().thread());
        std::int64_t const step = line * g.lanes().ranks() * G::threads;
        MULTIDRAFT_ROLL
        for (node_id k = 0; k < nodes.count && k < prefetched; ++k) {
            auto const* const row =
                reinterpret_cast<char const*>(batch.data + (trees.offsets[b] + nodes.first + k) * batch.row_stride);
            MULTIDRAFT_ROLL
            for (std::int64_t at = first; at < bytes; at += step)
                asm volatile("prefetch.global.L2 [%0];" ::"l"(row + at));
        }
#endif
    }
};

/// Entries of a row that a thread reads at a time.
template <class Layout, class T>
inline constexpr int read_at_once = [] {
    if constexpr (has_alignment<Layout>)
        return Layout::alignment / static_cast<int>(sizeof(T));
    else
        return 1;
}();

/// Whether every row begins at a multiple of 16 bytes.
template <class Rows>
[[nodiscard]] bool rows_are_aligned(Rows const& rows) noexcept {
    if constexpr (has_rows<Rows>)
        return reinterpret_cast<std::uintptr_t>(rows.data) % 16 == 0 &&
               rows.row_stride * static_cast<std::int64_t>(sizeof(typename Rows::element)) % 16 == 0;
    else
        return true;
}

}  // namespace detail

}  // namespace MULTIDRAFT_NAMESPACE::cuda
