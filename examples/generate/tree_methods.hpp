// How the parts of the list of methods make their entries.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "generate/methods.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/tree/topology.hpp"
#include "transformer/linear.hpp"

namespace multidraft::examples {

/// Shapes for the kind of CPU that this is.
inline std::string default_tree() { return multiplies_by_tiles() ? "3x1x1x1" : "1x1"; }
inline std::string default_chain() { return multiplies_by_tiles() ? "1x1x1x1" : "1x1"; }

/// A tree of a fixed shape, drawn by a sampler from the draft.
template <class Sampler, class Verifier>
method tree_method(std::string name, std::string summary, std::string tree, bool chains_only = false) {
    return {std::move(name),
            std::string(Sampler::law::name),
            std::move(summary),
            std::move(tree),
            Verifier::lossless,
            chains_only,
            [](transformer& target, transformer& draft, topology const& shape, std::span<token_id const> prompt,
               generation_options const& options, token_callback const& on_tokens) {
                return make_speculative<Sampler, Verifier>(target, draft, shape)(prompt, options, on_tokens);
            }};
}

/// The trees of a drafter that `make(draft, shape)` gives.
template <class Verifier, class Make>
method drafter_method(std::string name, std::string summary, std::string tree, Make make, bool chains_only = false) {
    return {std::move(name),
            std::string(Verifier::law::name),
            std::move(summary),
            std::move(tree),
            Verifier::lossless,
            chains_only,
            [make](transformer& target, transformer& draft, topology const& shape, std::span<token_id const> prompt,
                   generation_options const& options, token_callback const& on_tokens) {
                return make_speculative<Verifier>(target, make(draft, shape))(prompt, options, on_tokens);
            }};
}

/// The largest number of children of a node.
inline std::int32_t most_children(topology const& shape) {
    std::int32_t most = 0;
    for (node_id v = 0; v < shape.size(); ++v) most = std::max(most, shape.child_count(v));
    return most;
}

}  // namespace multidraft::examples
