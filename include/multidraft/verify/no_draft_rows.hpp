// Verifiers that do not read draft rows, and the placeholder for these rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>

#include "multidraft/base/abi.hpp"
#include "multidraft/rows/row_source.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

/// A placeholder for the draft's rows where a verifier never reads them.
struct no_draft_rows {};

/// Whether a verifier reads the draft's rows. One that does not declares a static `reads_draft` that is false.
template <class V>
inline constexpr bool reads_draft = !requires {
    requires !V::reads_draft;
};

/// The draft rows that a verifier which does not read them accepts: those of nodes (`row_source`), those of children
/// (`child_row_source`), or `no_draft_rows`.
template <class Rows, class G>
concept draft_row_source = row_source<Rows, G> || child_row_source<Rows, G> || std::same_as<Rows, no_draft_rows>;

/// Whether a verifier reads a row for each child of a node (`child_row_source`), as they were drawn by several models:
/// it declares a static `reads_rows_of_children` that is true.
template <class V>
concept reads_rows_of_children = requires {
    requires V::reads_rows_of_children;
};

/// The draft rows that a verifier takes: those that it reads, or any where it reads none.
template <class V, class Rows, class G>
concept draft_rows_for = (!reads_draft<V> && draft_row_source<Rows, G>) ||
                         (reads_rows_of_children<V> ? child_row_source<Rows, G> : row_source<Rows, G>);

}  // namespace MULTIDRAFT_NAMESPACE::verify
