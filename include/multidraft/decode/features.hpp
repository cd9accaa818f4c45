// Hidden states of the target for drafters that read them: models that expose them, drafters that observe them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/decode/language_model.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// A model that exposes its features: hidden states of the layers that a drafter was trained on ([EAGLE-3], [DFlash]),
/// one after another, `feature_size()` numbers for each token.
///
/// `features()` are those of all tokens of the last `forward`, row by row in the order of the batch, also where it
/// wrote no logits. They stay valid until the next `forward`, whatever `keep` discards.
template <class M>
concept exposes_features = language_model<M> && requires(M const& model) {
    { model.feature_size() } -> std::convertible_to<std::int32_t>;
    { model.features() } -> std::convertible_to<std::span<float const>>;
};

/// A drafter, or its model, that reads the target's features, of `feature_size()` numbers.
///
/// `observe(features, positions)` gives it those of the tokens at these positions of the text, a row for each. The loop
/// calls it with the prompt before `read`, and after every step with the nodes whose entries the caches keep, after
/// `keep`; never with a node that was refused. So a text's positions come in order, each once, and before `grow` there
/// are features of all tokens but the last one, which the target has not read.
template <class D>
concept observes_features = requires(D& drafter, D const& fixed, std::span<float const> features,
                                     std::span<std::int32_t const> positions) {
    { fixed.feature_size() } -> std::convertible_to<std::int32_t>;
    drafter.observe(features, positions);
};

/// A model of many sequences that exposes its features: those of all inputs of the last `forward`, in their order.
template <class M>
concept exposes_features_of_batch = requires(M const& model) {
    { model.feature_size() } -> std::convertible_to<std::int32_t>;
    { model.features() } -> std::convertible_to<std::span<float const>>;
};

/// A draft of many sequences that reads the target's features. `start(sequence)`: a text begins in it.
/// `observe(sequence, features, first)`: those of its tokens from position `first` on, a row for each; as for
/// `observes_features`, they come in order, each once, and never of a node that was refused.
template <class D>
concept observes_features_of_batch = requires(D& draft, D const& fixed, std::span<float const> features,
                                              std::int32_t sequence) {
    { fixed.feature_size() } -> std::convertible_to<std::int32_t>;
    draft.start(sequence);
    draft.observe(sequence, features, sequence);
};

/// The same of a draft that is called level by level, as a head of EAGLE is, with states of its own where the target's
/// are not there yet. Features that came since may have made entries out of date: `current_length(sequence)` is the
/// number of those that need not be read again.
template <class D>
concept reads_again_of_batch = observes_features_of_batch<D> && requires(D const& fixed, std::int32_t sequence) {
    { fixed.current_length(sequence) } -> std::convertible_to<std::int32_t>;
};

/// Copies the features of the kept nodes of a tree, those of `accepted_text::nodes()`, to `out`, one row after another.
/// `features` has a row of `width` numbers for each node, as the target's call gave them. In the text node k of them
/// stands k after the root. For engines without a loop of the library: after a step these rows, and no others, go to
/// the drafter.
///
/// Throws `invalid_input`, with nothing written, for a width below 1, a node without a row, and an `out` of another
/// size. O(nodes x width).
template <class T>
void copy_features(span<T const> features, std::int64_t width, span<node_id const> nodes, span<T> out) {
    if (width < 1) refuse("width", width, "a token has one feature or more");
    auto const row = static_cast<std::size_t>(width);
    if (out.size() != nodes.size() * row)
        refuse("out.size", out.size(), std::to_string(nodes.size()) + " nodes of " + std::to_string(width));
    for (std::size_t k = 0; k < nodes.size(); ++k)
        if (nodes[k] < 0 || static_cast<std::size_t>(nodes[k]) >= features.size() / row)
            refuse("nodes", static_cast<std::int64_t>(k), nodes[k],
                   "there are features of " + std::to_string(features.size() / row) + " nodes");
    for (std::size_t k = 0; k < nodes.size(); ++k)
        std::copy_n(features.data() + static_cast<std::size_t>(nodes[k]) * row, row, out.data() + k * row);
}

}  // namespace MULTIDRAFT_NAMESPACE
