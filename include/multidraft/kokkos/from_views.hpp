// The structs of `batch/` from Kokkos views, checking extents and the space's access to their memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/level_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/kokkos/on.hpp"
#include "multidraft/rows/row_view.hpp"
#include "multidraft/rows/sampling_params.hpp"

namespace MULTIDRAFT_NAMESPACE::kokkos {

/// A placeholder for an optional view.
struct no_view {};

namespace detail {

/// The entries of a row: adjacent if the view's type guarantees it, else the view's second stride apart.
template <class View>
using layout_of =
    std::conditional_t<std::is_same_v<typename View::array_layout, Kokkos::LayoutRight>, contiguous, strided>;

template <class View>
using entry_of = std::remove_const_t<typename View::value_type>;

template <class Space, class View>
constexpr void require_access() {
    static_assert(Kokkos::SpaceAccessibility<Space, typename View::memory_space>::accessible,
                  "multidraft: the execution space cannot access the memory of this view");
}

template <class View>
void check_extent(View const& view, char const* name, std::int64_t wanted, char const* reason) {
    if (static_cast<std::int64_t>(view.extent(0)) != wanted)
        refuse(std::string(name) + ".extent(0)", view.extent(0),
               std::string(reason) + ": " + std::to_string(wanted) + " are wanted");
}

/// The `wanted` adjacent entries of a view of rank 1; null for `no_view`.
template <class T, class Space, class View>
[[nodiscard]] T* entries_of([[maybe_unused]] View const& view, [[maybe_unused]] char const* name,
                            [[maybe_unused]] std::int64_t wanted, [[maybe_unused]] char const* reason) {
    if constexpr (std::is_same_v<View, no_view>) {
        return nullptr;
    } else {
        require_access<Space, View>();
        static_assert(View::rank == 1 && std::is_same_v<entry_of<View>, std::remove_const_t<T>>,
                      "multidraft: this is a view of rank 1 of the type that the struct points to");
        check_extent(view, name, wanted, reason);
        if (!view.span_is_contiguous())
            refuse(std::string(name) + ".stride(0)", view.stride(0), "entries are adjacent");
        return view.data();
    }
}

/// Sets the rows of a batch of any kind: `wanted` rows, or any number with an index of rows.
template <class Batch, class Space, class Rows, class Index>
void fill_rows(Batch& batch, Rows const& rows, Index const& row_of, std::int64_t wanted, char const* reason) {
    require_access<Space, Rows>();
    static_assert(Rows::rank == 2, "multidraft: rows are a view of rank 2: a row, a token");
    static_assert(
        requires(entry_of<Rows> x) { to_real(x); },
        "multidraft: entries of rows are float, double, or a narrower type that `to_real` reads");
    validate_row_size(rows.extent(1), "rows", ".extent(1)");
    if constexpr (std::is_same_v<Index, no_view>) check_extent(rows, "rows", wanted, reason);
    batch.data = rows.data();
    batch.row_stride = static_cast<std::int64_t>(rows.stride(0));
    batch.vocabulary = static_cast<index_t>(rows.extent(1));
    batch.row_of = entries_of<std::int64_t const, Space>(row_of, "row_of", wanted, reason);
    if constexpr (std::is_same_v<layout_of<Rows>, strided>)
        batch.layout.step = static_cast<std::int64_t>(rows.stride(1));
}

/// Sampling parameters for all requests, an array for each parameter, or a view with one `sampling_params` per request.
template <class Space, class Batch, class Sampling>
void fill_sampling(Batch& batch, Sampling const& sampling, std::int64_t requests) {
    if constexpr (std::is_same_v<Sampling, sampling_arrays>) {
        batch.arrays = sampling;
    } else if constexpr (std::is_same_v<Sampling, sampling_params>) {
        batch.default_sampling = sampling;
    } else {
        std::int64_t const wanted = requests >= 0 ? requests : static_cast<std::int64_t>(sampling.extent(0));
        batch.sampling = entries_of<sampling_params const, Space>(sampling, "sampling", wanted,
                                                                  "there are sampling parameters for every request");
    }
}

}  // namespace detail

/// Trees of R requests and N nodes in all. `offsets`: R + 1 entries; `parents`, `tokens` (`no_view{}` if not read) and
/// `certain` (for laws with certain children): N. `largest`: see `tree_batch`. Throws for other extents.
template <class Space, template <class> class Group, class Offsets, class Parents, class Tokens,
          class Certain = no_view>
[[nodiscard]] tree_batch trees_from_views(space_policy<Space, Group> const&, Offsets const& offsets,
                                          Parents const& parents, Tokens const& tokens, Certain const& certain = {},
                                          node_id largest = 0) {
    auto const entries = static_cast<std::int64_t>(offsets.extent(0));
    if (entries > std::int64_t{0x7fffffff})
        refuse("offsets.extent(0)", entries, "a batch has fewer than 2^31 requests");
    auto const nodes = static_cast<std::int64_t>(parents.extent(0));
    tree_batch trees;
    trees.requests = entries > 0 ? static_cast<std::int32_t>(entries - 1) : 0;
    trees.nodes = nodes;
    trees.offsets = detail::entries_of<std::int64_t const, Space>(offsets, "offsets", entries, "");
    trees.parents = detail::entries_of<node_id const, Space>(parents, "parents", nodes, "");
    trees.tokens = detail::entries_of<token_id const, Space>(tokens, "tokens", nodes, "there is one token per node");
    trees.certain = detail::entries_of<index_t const, Space>(
        certain, "certain", nodes, "of each node it is said how many of its children are certain");
    trees.largest = largest;
    return trees;
}

/// The seeds, positions and ids of the requests: one entry per request in each view. Throws for other extents.
template <class Space, template <class> class Group, class Seeds, class Positions, class Ids = no_view>
[[nodiscard]] request_batch requests_from_views(space_policy<Space, Group> const&, tree_batch const& trees,
                                                Seeds const& seeds, Positions const& positions, Ids const& ids = {}) {
    return {
        detail::entries_of<std::uint64_t const, Space>(seeds, "seeds", trees.requests, "there is one seed a request"),
        detail::entries_of<std::int32_t const, Space>(positions, "positions", trees.requests,
                                                      "there is one position a request"),
        detail::entries_of<std::uint32_t const, Space>(ids, "ids", trees.requests, "there is one number a request")};
}

/// Logits of the nodes of a batch: a view of rank 2 with one row per node or, with an index `row_of` of one entry per
/// node, any number of rows. LayoutRight rows are read as adjacent entries, others with the view's strides, which on a
/// device takes many times the memory traffic. `sampling`: one `sampling_params`, `sampling_arrays` that the space can
/// access, or a view of one `sampling_params` per request. Throws `invalid_input` for other extents.
template <class Space, template <class> class Group, class Rows, class Sampling, class Index = no_view>
[[nodiscard]] auto logits_from_views(space_policy<Space, Group> const&, tree_batch const& trees, Rows const& rows,
                                     Sampling const& sampling, Index const& row_of = {}) {
    logit_batch<detail::entry_of<Rows>, detail::layout_of<Rows>> batch;
    detail::fill_rows<decltype(batch), Space>(batch, rows, row_of, trees.nodes, "there is one row per node");
    detail::fill_sampling<Space>(batch, sampling, trees.requests);
    return batch;
}

/// The same for the entries of a level: one row per entry. A view of sampling parameters has one for each request that
/// the level names, of which nothing is known here: its extent is not checked.
template <class Space, template <class> class Group, class Rows, class Sampling, class Index = no_view>
[[nodiscard]] auto logits_from_views(space_policy<Space, Group> const&, level_batch const& level, Rows const& rows,
                                     Sampling const& sampling, Index const& row_of = {}) {
    logit_batch<detail::entry_of<Rows>, detail::layout_of<Rows>> batch;
    detail::fill_rows<decltype(batch), Space>(batch, rows, row_of, level.entries, "there is one row an entry");
    detail::fill_sampling<Space>(batch, sampling, -1);
    return batch;
}

/// Probabilities of the nodes of a batch; views and errors as for logits.
template <class Space, template <class> class Group, class Rows, class Index = no_view>
[[nodiscard]] auto probabilities_from_views(space_policy<Space, Group> const&, tree_batch const& trees,
                                            Rows const& rows, Index const& row_of = {}) {
    probability_batch<detail::entry_of<Rows>, detail::layout_of<Rows>> batch;
    detail::fill_rows<decltype(batch), Space>(batch, rows, row_of, trees.nodes, "there is one row per node");
    return batch;
}

namespace detail {

/// Throws `invalid_input` for rows that do not follow one another: what is written is as wide as the distance between
/// them.
template <class View>
void refuse_gaps(View const& view, char const* name) {
    if (view.extent(0) > 1 && view.stride(0) != view.extent(1))
        refuse(std::string(name) + ".stride(0)", view.stride(0),
               "rows of " + std::to_string(view.extent(1)) + " entries follow one another: no part of wider rows");
}

}  // namespace detail

/// The outputs of verdicts: `path` of rank 1 with one entry per node, or of rank 2 with one row per request; `accepted`
/// and `next` with one entry per request. Throws `invalid_input` for other extents.
template <class Space, template <class> class Group, class Path, class Accepted, class Next>
[[nodiscard]] verdict_batch verdicts_from_views(space_policy<Space, Group> const&, tree_batch const& trees,
                                                Path const& path, Accepted const& accepted, Next const& next) {
    verdict_batch out;
    if constexpr (Path::rank == 2) {
        detail::require_access<Space, Path>();
        static_assert(std::is_same_v<typename Path::array_layout, Kokkos::LayoutRight>,
                      "multidraft: the nodes of a path are adjacent: LayoutRight");
        detail::check_extent(path, "path", trees.requests, "there is one path a request");
        if (path.extent(1) < 1) refuse("path.extent(1)", path.extent(1), "a path has room for 1 node or more");
        detail::refuse_gaps(path, "path");
        out.path = path.data();
        out.path_stride = static_cast<std::int64_t>(path.extent(1));
    } else {
        out.path = detail::entries_of<node_id, Space>(path, "path", trees.nodes, "there is one entry a node");
    }
    out.accepted =
        detail::entries_of<std::int32_t, Space>(accepted, "accepted", trees.requests, "there is one entry a request");
    out.next = detail::entries_of<token_id, Space>(next, "next", trees.requests, "there is one entry a request");
    return out;
}

/// The nodes whose children are drawn in one call: every view has one entry per node. Without `wanted` each gets as
/// many children as a row of `children_from_views` holds. `depths`: see `level_batch`. Throws for other extents.
template <class Space, template <class> class Group, class Requests, class Nodes, class Wanted = no_view,
          class Depths = no_view>
[[nodiscard]] level_batch level_from_views(space_policy<Space, Group> const&, Requests const& requests,
                                           Nodes const& nodes, Wanted const& wanted = {}, Depths const& depths = {}) {
    auto const entries = static_cast<std::int64_t>(nodes.extent(0));
    if (entries > std::int64_t{0x7fffffff}) refuse("nodes.extent(0)", entries, "a level has fewer than 2^31 entries");
    return {
        static_cast<std::int32_t>(entries),
        detail::entries_of<std::int32_t const, Space>(requests, "requests", entries, "there is one request an entry"),
        detail::entries_of<node_id const, Space>(nodes, "nodes", entries, ""),
        detail::entries_of<std::int32_t const, Space>(wanted, "wanted", entries, "there is one number an entry"),
        detail::entries_of<std::int32_t const, Space>(depths, "depths", entries, "there is one depth an entry")};
}

/// The outputs of children: `tokens` of rank 2, LayoutRight, with one row per entry; `counts`, how many were drawn, and
/// `certain`, how many of these are certain, with one element per entry. Throws `invalid_input` for other extents.
template <class Space, template <class> class Group, class Tokens, class Counts = no_view, class Certain = no_view>
[[nodiscard]] children_batch children_from_views(space_policy<Space, Group> const&, level_batch const& level,
                                                 Tokens const& tokens, Counts const& counts = {},
                                                 Certain const& certain = {}) {
    detail::require_access<Space, Tokens>();
    static_assert(Tokens::rank == 2 && std::is_same_v<typename Tokens::array_layout, Kokkos::LayoutRight>,
                  "multidraft: the children of an entry are adjacent: a view of rank 2, LayoutRight");
    detail::check_extent(tokens, "tokens", level.entries, "there is one row an entry");
    detail::refuse_gaps(tokens, "tokens");
    children_batch out;
    out.tokens = tokens.data();
    out.stride = static_cast<std::int64_t>(tokens.extent(1));
    out.counts = detail::entries_of<index_t, Space>(counts, "counts", level.entries, "there is one count an entry");
    out.certain = detail::entries_of<index_t, Space>(certain, "certain", level.entries, "there is one count an entry");
    return out;
}

/// The bytes of a view of `std::byte`.
template <class Space, template <class> class Group, class Bytes>
[[nodiscard]] workspace workspace_from_view(space_policy<Space, Group> const&, Bytes const& bytes) {
    auto const size = static_cast<std::int64_t>(bytes.extent(0));
    return {detail::entries_of<std::byte, Space>(bytes, "workspace", size, ""), static_cast<std::size_t>(size)};
}

}  // namespace MULTIDRAFT_NAMESPACE::kokkos
