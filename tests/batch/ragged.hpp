// A ragged batch on a host: trees of several requests, drawn level by level, with rows of both models.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "multidraft/base/float16.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/level_batch.hpp"
#include "multidraft/batch/prepared_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/logit_rows.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "multidraft/tree/absent_tokens.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

template <class T>
[[nodiscard]] T entry_of(double x) {
    if constexpr (std::is_same_v<T, double>) return x;
    return T(static_cast<float>(x));
}

/// The outcome of one request.
struct outcome {
    std::vector<node_id> path;
    token_id next = none;
    friend bool operator==(outcome const&, outcome const&) = default;
};

template <class T>
class ragged {
public:
    /// `shapes`: the parents of each request's tree.
    ragged(std::vector<std::vector<node_id>> const& shapes, index_t v, std::vector<sampling_params> sampling_of,
           std::uint64_t seed = 1)
        : vocabulary(v), sampling(std::move(sampling_of)) {
        test_numbers numbers(seed);
        for (std::size_t b = 0; b < shapes.size(); ++b) {
            parents.insert(parents.end(), shapes[b].begin(), shapes[b].end());
            offsets.push_back(static_cast<std::int64_t>(parents.size()));
            seeds.push_back(b % 2 == 0 ? 42 : 1000 + b + seed);
            ids.push_back(static_cast<std::uint32_t>(b));
            positions.push_back(static_cast<std::int32_t>(17 * b));
            if (sampling.size() <= b) sampling.push_back(sampling[b - 1]);
        }
        tokens.assign(parents.size(), 0);
        certain.assign(parents.size(), 0);
        states.resize(parents.size());
        for (std::size_t i = 0; i < parents.size() * static_cast<std::size_t>(v); ++i) {
            double const base = 2.5 * numbers.normal();
            target.push_back(entry_of<T>(base));
            draft.push_back(entry_of<T>(base + numbers.normal()));
        }
    }

    [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(seeds.size()); }
    [[nodiscard]] tree_batch trees() const {
        return {size(),        static_cast<std::int64_t>(parents.size()), offsets.data(), parents.data(), tokens.data(),
                certain.data()};
    }
    [[nodiscard]] request_batch requests() const { return {seeds.data(), positions.data(), ids.data()}; }
    [[nodiscard]] logit_batch<T> target_logits() const { return logits(target); }
    [[nodiscard]] logit_batch<T> draft_logits() const { return logits(draft); }
    [[nodiscard]] prepared_batch<T> prepared() const { return {draft.data(), vocabulary, vocabulary, states.data()}; }

    /// The nodes of one depth that have children, and the output for these.
    struct level {
        std::vector<std::int32_t> requests, wanted, depths;
        std::vector<node_id> nodes;
        std::vector<std::int64_t> first, index;

        [[nodiscard]] level_batch view() const {
            return {static_cast<std::int32_t>(nodes.size()), requests.data(), nodes.data(), wanted.data(),
                    depths.data()};
        }
    };
    [[nodiscard]] level level_of(std::int32_t depth) const {
        level result;
        for (std::int32_t b = 0; b < size(); ++b) {
            tree_view const tree = trees()(b);
            for (node_id v = 0; v < tree.size(); ++v) {
                node_range const children = tree.children(v);
                if (tree.depth(v) != depth || children.empty()) continue;
                result.requests.push_back(b);
                result.nodes.push_back(v);
                result.wanted.push_back(children.count);
                result.depths.push_back(depth);
                result.first.push_back(offsets[static_cast<std::size_t>(b)] + children.first);
                result.index.push_back(offsets[static_cast<std::size_t>(b)] + v);
            }
        }
        return result;
    }
    [[nodiscard]] children_batch children_of(level const& l) {
        return {tokens.data(), l.first.data(), 0, nullptr, certain.data(), states.data(), l.index.data()};
    }

    /// Draws all trees with `draw(level, rows, requests, children)`, level by level.
    template <class Draw>
    void draw_levels(Draw const& draw) {
        for (std::int32_t depth = 0;; ++depth) {
            level const l = level_of(depth);
            if (l.nodes.empty()) return;
            logit_batch<T> rows = draft_logits();
            rows.row_of = l.index.data();
            children_batch out = children_of(l);
            if (!std::is_same_v<real_of<T>, float>) out.states = nullptr;
            draw(l.view(), rows, requests(), out);
        }
    }

    /// The draws of a sampler for every node separately.
    template <class Sampler>
    void draw_alone(Sampler const& sampler) {
        draw_levels([&](level_batch const& l, logit_batch<T> const& rows, request_batch const&,
                        children_batch const& out) {
            for (std::int32_t e = 0; e < l.entries; ++e) {
                auto const b = static_cast<std::size_t>(l.requests[e]);
                auto q = process_logits(host_group{}, rows.view(e), sampling[b]);
                addressed_source source{addressed_uniforms(seeds[b], ids[b])};
                span<token_id> const children(out.tokens + out.first[e], static_cast<std::size_t>(l.wanted[e]));
                drawn_children const drawn = sampler(
                    host_group{}, q.row, q.sums, source,
                    draw_site{positions[b] + (Sampler::law::traits.addressed_by_text ? l.depths[e] : 0), l.nodes[e]},
                    children);
                for (auto k = static_cast<std::size_t>(drawn.count); k < children.size(); ++k)
                    children[k] = support_ended;
                certain[static_cast<std::size_t>(out.node_index[e])] = drawn.certain;
                if constexpr (std::is_same_v<real_of<T>, float>) out.states[out.node_index[e]] = state_of(q.row);
            }
        });
    }

    /// Every request separately, with its own rows: `rows_of(matrix, b)`.
    template <class Group, class Verifier, class Rows>
    [[nodiscard]] std::vector<outcome> verify_alone(Verifier const& verifier, Rows const& rows_of) const {
        std::vector<outcome> result;
        for (std::int32_t b = 0; b < size(); ++b) {
            auto const at = static_cast<std::size_t>(b);
            tree_view const tree = trees()(b);
            outcome one;
            one.path.resize(static_cast<std::size_t>(tree.size()));
            std::int32_t const depth = tree.depth(tree.size() - 1);
            verify::scratch_memory scratch;
            addressed_source source{addressed_uniforms(seeds[at], ids[at])};
            verdict const v = verify::verify_tree(
                verifier, Group{}, make_drafted<typename Verifier::law>(tree, trees().certain_of(b)),
                target_rows(rows_of(target, b)), draft_rows(rows_of(draft, b)), source, positions[at],
                span<node_id>(one.path), scratch.template of<Verifier>(tree.size(), depth));
            one.path.resize(static_cast<std::size_t>(v.next == none ? 0 : v.accepted));
            one.next = v.next;
            result.push_back(one);
        }
        return result;
    }
    template <class Group = host_group, class Verifier>
    [[nodiscard]] std::vector<outcome> verify_alone(Verifier const& verifier) const {
        return verify_alone<Group>(verifier, [&](std::vector<T> const& matrix, std::int32_t b) {
            auto const at = static_cast<std::size_t>(b);
            return logit_rows<T>(rows_view<T>(matrix.data() + offsets[at] * vocabulary, trees().size(b), vocabulary),
                                 sampling[at]);
        });
    }

    index_t vocabulary;
    std::vector<std::int64_t> offsets{0};
    std::vector<node_id> parents;
    std::vector<token_id> tokens;
    std::vector<index_t> certain;
    std::vector<row_state> states;
    std::vector<T> target, draft;
    std::vector<std::uint64_t> seeds;
    std::vector<std::uint32_t> ids;
    std::vector<std::int32_t> positions;
    std::vector<sampling_params> sampling;

private:
    [[nodiscard]] logit_batch<T> logits(std::vector<T> const& matrix) const {
        return {matrix.data(), vocabulary, vocabulary, nullptr, sampling.data()};
    }
};

/// Memory for verdicts, filled with values that no verdict writes.
struct verdict_memory {
    static constexpr node_id unwritten = -7;

    /// A stride of 0: one element per node.
    verdict_memory(tree_batch const& trees, std::int64_t stride)
        : path(static_cast<std::size_t>(stride > 0 ? trees.requests * stride : trees.nodes), unwritten),
          accepted(static_cast<std::size_t>(trees.requests), unwritten),
          next(static_cast<std::size_t>(trees.requests), unwritten),
          path_stride(stride) {}

    [[nodiscard]] verdict_batch view() { return {path.data(), path_stride, accepted.data(), next.data()}; }
    [[nodiscard]] std::vector<outcome> outcomes(tree_batch const& trees) {
        std::vector<outcome> result;
        for (std::int32_t b = 0; b < trees.requests; ++b) {
            auto const at = static_cast<std::size_t>(b);
            auto const nodes = view().path_of(trees, b).first(static_cast<std::size_t>(accepted[at]));
            result.push_back({{nodes.begin(), nodes.end()}, next[at]});
        }
        return result;
    }
    [[nodiscard]] bool is_unwritten() const {
        bool result = true;
        for (auto const* all : {&path, &accepted, &next})
            for (std::int32_t const x : *all) result = result && x == unwritten;
        return result;
    }

    std::vector<node_id> path;
    std::vector<std::int32_t> accepted;
    std::vector<token_id> next;
    std::int64_t path_stride;
};

/// Trees of several requests: a chain, branching trees, a root alone, a wide tree.
inline std::vector<std::vector<node_id>> const ragged_shapes{
    {none, 0, 0, 0, 0, 1, 1, 2, 2, 5}, {none, 0, 1, 2, 3},       {none},
    {none, 0, 0, 1, 1, 1, 2},          {none, 0, 0, 0, 0, 0, 0}, {none, 0, 0, 1, 2, 3, 4}};

/// Sampling parameters of every kind.
inline std::vector<sampling_params> const samplings_of_all_kinds{
    {},           {.temperature = 0.6F}, {.temperature = 0.9F, .top_p = 0.9F},
    {.top_k = 2}, {.temperature = 0.0F}, {.temperature = 1.3F, .min_p = 0.02F}};

}  // namespace MULTIDRAFT_NAMESPACE::testing
