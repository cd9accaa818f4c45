// Draft rows that a verifier does not read: which verifier, and what stands for them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>

#include "multidraft/core/abi.hpp"
#include "multidraft/distribution/row_source.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

/// Stands for the draft's rows where a verifier never reads them.
struct no_draft_rows {};

/// Whether a verifier reads the draft's rows. One that does not says so by a static `reads_draft` that is false.
template <class V>
inline constexpr bool reads_draft = !requires {
    requires !V::reads_draft;
};

/// What a verifier that reads no rows of the draft takes for them: those of the nodes (`row_source`), those of their
/// children (`child_row_source`), or `no_draft_rows`.
template <class Rows, class G>
concept draft_row_source = row_source<Rows, G> || child_row_source<Rows, G> || std::same_as<Rows, no_draft_rows>;

}  // namespace MULTIDRAFT_NAMESPACE::verify
