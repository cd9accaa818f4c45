// A tree with rows from the fuzzer's bytes, sometimes hostile, and the property of verifiers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "fuzz/bytes.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/logit_rows.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/verdict.hpp"
#include "multidraft/verify/verifier.hpp"

namespace multidraft::fuzz {

struct problem {
    index_t vocabulary = 1;
    std::vector<node_id> parents;
    std::vector<token_id> tokens;
    std::vector<index_t> certain;  ///< of laws with certain children
    std::vector<float> p;
    std::vector<float> q;
    sampling_params w;
    std::uint64_t seed = 0;

    [[nodiscard]] node_id nodes() const { return static_cast<node_id>(parents.size()); }
    [[nodiscard]] rows_view<float> target() const { return {p.data(), nodes(), vocabulary}; }
    [[nodiscard]] rows_view<float> draft() const { return {q.data(), nodes(), vocabulary}; }
};

inline std::vector<float> read_rows(bytes& in, std::size_t count) {
    std::vector<float> result(count);
    auto const kind = in.below(3);
    for (auto& x : result)
        x = kind == 0 ? in.number() : (in.byte() < 4 ? in.number() : static_cast<float>(in.byte()) / 256.0F);
    return result;
}

/// How many children of each node are certain: mostly no more than there are, and one number a node.
inline std::vector<index_t> read_certain(bytes& in, std::vector<node_id> const& parents) {
    std::vector<index_t> result(parents.size());
    for (std::size_t v = 0; v < parents.size(); ++v) {
        auto const children = std::count(parents.begin(), parents.end(), static_cast<node_id>(v));
        result[v] = in.byte() > 250 ? in.index(9) : in.below(static_cast<std::int32_t>(children) + 1);
    }
    auto const kind = in.byte();
    if (kind > 250) result.resize(static_cast<std::size_t>(in.below(10)));
    return result;
}

/// Mostly a tree with mostly drawn tokens, sometimes neither. A third are chains; with `forks` another third are paths
/// that part at the root.
inline problem read_problem(bytes& in, bool forks = false) {
    problem b;
    b.vocabulary = 1 + in.below(9);
    auto const nodes = in.below(9);
    node_id last = 0;
    auto const kind = in.byte();
    bool const is_chain = kind < 80;
    node_id const paths = forks && kind >= 160 ? 1 + kind % 4 : 0;
    for (node_id i = 0; i < nodes; ++i) {
        bool const hostile = in.byte() > 250;
        if (i > 0 && !hostile)
            last = is_chain ? i - 1 : paths > 0 ? std::max<node_id>(i - paths, 0) : last + in.below(i - last);
        b.parents.push_back(hostile ? in.index(9) : (i == 0 ? none : last));
        b.tokens.push_back(in.byte() > 250 ? in.index(9) : in.below(b.vocabulary));
    }
    auto const entries = static_cast<std::size_t>(nodes) * static_cast<std::size_t>(b.vocabulary);
    b.p = read_rows(in, entries);
    b.q = in.byte() < 60 ? b.p : read_rows(in, entries);
    b.w.temperature = in.byte() < 40 ? in.number() : static_cast<float>(in.below(5)) * 0.4F;
    b.w.top_k = in.byte() < 200 ? 0 : in.index(10);
    b.w.top_p = in.byte() < 200 ? 1.0F : in.number();
    b.w.min_p = in.byte() < 200 ? 0.0F : in.number();
    b.seed = in.byte();
    b.certain = read_certain(in, b.parents);
    return b;
}

/// The levels of a tree; for an invalid one an upper bound.
inline std::int32_t depth_of(problem const& b) {
    try {
        validate_tree(b.parents);
        return tree_view{b.parents, b.tokens}.depth(b.nodes() - 1);
    } catch (invalid_input const&) {
        return b.nodes();
    }
}

/// Verifies with scratch that holds `garbage`: nothing for `invalid_input`, which leaves the caller's path alone, else
/// a path of the tree and a token of the vocabulary.
template <class Verifier, class Target, class Draft>
std::optional<verdict> verify_with(Verifier const& verifier, problem const& b, Target const& target, Draft const& draft,
                                   std::uint8_t garbage) {
    addressed_source source{addressed_uniforms(b.seed)};
    std::vector<node_id> path(b.parents.size(), -9);
    std::vector<std::byte> memory(verify::scratch_bytes<Verifier>(b.nodes(), depth_of(b)), std::byte{garbage});
    try {
        auto const v = verify::verify_tree(
            verifier, host_group{}, make_drafted<typename Verifier::law>(tree_view{b.parents, b.tokens}, b.certain),
            target_rows(target), draft_rows(draft), source, 3, span<node_id>(path), span<std::byte>(memory));
        require(v.next >= 0 && v.next < b.vocabulary, "the next token is in the vocabulary");
        require(v.accepted >= 0 && v.accepted < b.nodes(), "no more is accepted than there is");
        node_id parent = 0;
        for (std::int32_t k = 0; k < v.accepted; ++k) {
            node_id const node = path[static_cast<std::size_t>(k)];
            require(node > 0 && node < b.nodes(), "the path is one of nodes");
            require(b.parents[static_cast<std::size_t>(node)] == parent, "the path leads from parent to child");
            parent = node;
        }
        for (auto k = static_cast<std::size_t>(v.accepted); k < path.size(); ++k)
            require(path[k] == -9, "no more is written than was accepted");
        return v;
    } catch (invalid_input const&) {
        for (node_id const node : path) require(node == -9, "nothing of the caller's was changed");
        return {};
    }
}

/// The property of a verifier; what the scratch held before makes no difference.
template <class Verifier, class Target, class Draft>
void verify_one(problem const& b, Target const& target, Draft const& draft, Verifier const& verifier = {}) {
    auto const first = verify_with(verifier, b, target, draft, 0);
    if constexpr (verify::needs_scratch<Verifier>) {
        auto const second = verify_with(verifier, b, target, draft, 0xff);
        require(first.has_value() == second.has_value(), "the scratch's bytes do not matter");
        if (first)
            require(first->accepted == second->accepted && first->next == second->next,
                    "the scratch's bytes do not matter");
    }
}

/// Calls `verify_all(b, target, draft)` with the rows as probabilities, or as logits with sampling parameters.
template <class VerifyAll>
void with_rows(problem const& b, bool as_probabilities, VerifyAll&& verify_all) {
    if (as_probabilities) {
        verify_all(probability_rows<float>(b.target()), probability_rows<float>(b.draft()));
        return;
    }
    try {
        validate(b.w);
    } catch (invalid_input const&) {
        return;
    }
    verify_all(logit_rows<float>(b.target(), b.w), logit_rows<float>(b.draft(), b.w));
}

}  // namespace multidraft::fuzz
