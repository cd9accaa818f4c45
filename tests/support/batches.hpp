// A ragged batch of trees with the rows of both models, and the host's results.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <vector>

#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/level_batch.hpp"
#include "multidraft/batch/prepared_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/rows/truncation.hpp"
#include "multidraft/testing/small_step.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// The parents of several trees.
struct tree_arrays {
    std::vector<std::int64_t> offsets{0};
    std::vector<node_id> parents;

    void add(std::vector<node_id> const& tree) {
        parents.insert(parents.end(), tree.begin(), tree.end());
        offsets.push_back(static_cast<std::int64_t>(parents.size()));
    }
    [[nodiscard]] tree_batch view() const {
        return {static_cast<std::int32_t>(offsets.size() - 1), offsets.back(), offsets.data(), parents.data()};
    }
};

[[nodiscard]] inline tree_arrays random_trees(std::vector<node_id> const& sizes, std::uint64_t seed) {
    test_numbers numbers(seed);
    tree_arrays trees;
    for (node_id const n : sizes) {
        std::vector<node_id> parents{none};
        for (node_id i = 1; i < n; ++i)
            parents.push_back(std::max(parents.back(), static_cast<node_id>(numbers() * 0.9 * i)));
        trees.add(parents);
    }
    return trees;
}

/// The host's memory for verdicts.
struct verdicts {
    verdicts(std::int32_t requests, std::int64_t stride)
        : path(static_cast<std::size_t>(requests * stride), -7),
          accepted(static_cast<std::size_t>(requests), -7),
          next(static_cast<std::size_t>(requests), -7),
          path_stride(stride) {}

    [[nodiscard]] verdict_batch view() { return {path.data(), path_stride, accepted.data(), next.data()}; }
    [[nodiscard]] node_id node(std::int32_t b, std::int32_t k) const {
        return path[static_cast<std::size_t>(b * path_stride + k)];
    }

    std::vector<node_id> path;
    std::vector<std::int32_t> accepted;
    std::vector<token_id> next;
    std::int64_t path_stride;
};

/// Four trees, one of them its root alone.
inline std::vector<std::vector<node_id>> const trees_of_a_batch{
    {none, 0, 0, 0, 0, 1, 1, 2, 2, 5}, {none, 0, 1, 2, 3}, {none}, {none, 0, 0, 1, 1, 1, 2}};

/// Trees with rows of both models for every node.
template <class T>
struct batch {
    batch(index_t v, sampling_params w_, std::vector<std::vector<node_id>> const& shapes = trees_of_a_batch)
        : vocabulary(v), w(w_) {
        tree_arrays all;
        for (auto const& parents_of : shapes) all.add(parents_of);
        offsets = all.offsets;
        parents = all.parents;
        tokens.assign(parents.size(), 1);
        certain.assign(parents.size(), 0);
        states.resize(parents.size());
        test_numbers numbers(static_cast<std::uint64_t>(v));
        auto const n = parents.size() * static_cast<std::size_t>(v);
        for (std::size_t i = 0; i < n; ++i) {
            float const base = 5.0F * static_cast<float>(numbers() + numbers() - 1.0);
            target.push_back(T(base));
            draft.push_back(T(base + static_cast<float>(numbers())));
        }
    }

    [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(offsets.size() - 1); }
    [[nodiscard]] tree_batch trees() const {
        return {size(),        static_cast<std::int64_t>(parents.size()), offsets.data(), parents.data(), tokens.data(),
                certain.data()};
    }
    [[nodiscard]] request_batch requests() const { return {seeds.data(), positions.data(), ids.data()}; }
    [[nodiscard]] target_rows<logit_batch<T>> target_logits() const { return target_rows(logits(target)); }
    [[nodiscard]] draft_rows<logit_batch<T>> draft_logits() const { return draft_rows(logits(draft)); }
    [[nodiscard]] draft_rows<prepared_batch<T>> prepared() const {
        return draft_rows(prepared_batch<T>{draft.data(), vocabulary, vocabulary, states.data()});
    }

    /// Whether a state keeps the tokens of the draft's row that `states[node]` keeps. Groups may describe the same ones
    /// by different last ties.
    [[nodiscard]] bool keeps_the_same(std::size_t node, row_state const& other) const {
        auto const kept_by = [](row_state const& s) { return truncation_threshold<float>{s.cut_value, s.cut_last}; };
        T const* const row = draft.data() + node * static_cast<std::size_t>(vocabulary);
        for (index_t x = 0; x < vocabulary; ++x) {
            auto const value = static_cast<float>(row[x]);
            if (kept_by(states[node]).keeps(value, x) != kept_by(other).keeps(value, x)) return false;
        }
        return true;
    }

    struct level_range {
        std::int32_t depth;
        std::int32_t deepest;
    };
    [[nodiscard]] level_range levels() const { return {0, 4}; }

    /// The nodes of one depth that have children.
    struct level {
        std::vector<std::int32_t> request, wanted, depths;
        std::vector<node_id> nodes;
        std::vector<std::int64_t> first, row;
    };
    [[nodiscard]] level level_arrays(std::int32_t depth) const {
        level result;
        for (std::int32_t b = 0; b < size(); ++b) {
            tree_view const tree = trees()(b);
            for (node_id v = 0; v < tree.size(); ++v) {
                node_range const children = tree.children(v);
                if (tree.depth(v) != depth || children.empty()) continue;
                result.request.push_back(b);
                result.nodes.push_back(v);
                result.wanted.push_back(children.count);
                result.depths.push_back(depth);
                result.first.push_back(offsets[static_cast<std::size_t>(b)] + children.first);
                result.row.push_back(offsets[static_cast<std::size_t>(b)] + v);
            }
        }
        return result;
    }
    [[nodiscard]] static level_batch entries_of(level const& l) {
        return {static_cast<std::int32_t>(l.request.size()), l.request.data(), l.nodes.data(), l.wanted.data(),
                l.depths.data()};
    }
    [[nodiscard]] children_batch children_of(level const& l) {
        return {tokens.data(), l.first.data(), 0, nullptr, certain.data(), states.data(), l.row.data()};
    }
    /// The rows of a level's entries.
    [[nodiscard]] logit_batch<T> level_rows(level const& l) const {
        logit_batch<T> rows = logits(draft);
        rows.row_of = l.row.data();
        return rows;
    }

    template <class Sampler>
    void draft_on_host(Sampler const& sampler) {
        for (std::int32_t depth = 0; depth < levels().deepest; ++depth) {
            level const l = level_arrays(depth);
            for (std::int32_t e = 0; e < entries_of(l).entries; ++e)
                multidraft::detail::draft_entry(host_group{}, sampler, e, entries_of(l), level_rows(l), requests(),
                                                children_of(l));
        }
    }

    /// Gives all nodes of a depth the same rows, so that equal paths of tokens have equal rows, as with models.
    void share_rows_of_depths() {
        auto const v = static_cast<std::size_t>(vocabulary);
        for (std::int32_t b = 0; b < size(); ++b) {
            auto const first = static_cast<std::size_t>(offsets[static_cast<std::size_t>(b)]);
            tree_view const tree = trees()(b);
            for (node_id node = 1; node < tree.size(); ++node) {
                node_id like = 1;
                while (tree.depth(like) != tree.depth(node)) ++like;
                for (auto* rows : {&target, &draft})
                    std::copy_n(
                        rows->begin() + static_cast<std::ptrdiff_t>((first + static_cast<std::size_t>(like)) * v), v,
                        rows->begin() + static_cast<std::ptrdiff_t>((first + static_cast<std::size_t>(node)) * v));
            }
        }
    }

    /// Scratch for one request, full of NaN and of negative numbers.
    template <class Verifier>
    [[nodiscard]] std::vector<std::byte> poisoned_scratch(Verifier const& /*verifier*/) const {
        return std::vector<std::byte>(verify::scratch_bytes<Verifier>(static_cast<node_id>(parents.size()),
                                                                      static_cast<std::int32_t>(path_stride)),
                                      std::byte{0xff});
    }

    /// Every tree, verified by the host.
    template <class Verifier>
    [[nodiscard]] verdicts verify_on_host(Verifier const& verifier) const {
        verdicts result(size(), path_stride);
        for (std::int32_t b = 0; b < size(); ++b) {
            auto scratch = poisoned_scratch(verifier);
            multidraft::detail::verify_request(silent_group{}, verifier, b, drawn_by<typename Verifier::law>(trees()),
                                               target_logits(), draft_logits(), requests(), result.view(),
                                               span<std::byte>(scratch));
        }
        return result;
    }

    /// Rows of NaN for the nodes that were not drawn, and rows without a finite number for those that the target does
    /// not reach; nodes below one that was not drawn get arbitrary tokens. Returns how many nodes of each kind there
    /// are.
    struct spoilt {
        int absent = 0;
        int unreachable = 0;
    };
    spoilt spoil() {
        spoilt result;
        auto const fill = [&](std::size_t row, float value) {
            auto const begin = static_cast<std::ptrdiff_t>(row) * vocabulary;
            std::fill_n(target.begin() + begin, vocabulary, T(value));
            std::fill_n(draft.begin() + begin, vocabulary, T(value));
            states[row] = {value, value, value, value, -1};
        };
        for (std::int32_t b = 0; b < size(); ++b) {
            auto const first = static_cast<std::size_t>(offsets[static_cast<std::size_t>(b)]);
            enum { inside, unreachable, absent };
            std::vector<int> standing(1, inside);
            tree_view const tree = trees()(b);
            for (node_id v = 1; v < tree.size(); ++v) {
                auto const at = static_cast<std::size_t>(v);
                auto const up = static_cast<std::size_t>(tree.parents[at]);
                standing.push_back(standing[up]);
                if (standing[at] == inside) {
                    row_view<T> const x(target.data() + (first + up) * static_cast<std::size_t>(vocabulary),
                                        vocabulary);
                    token_id const token = tree.tokens[at];
                    if (is_absent(token))
                        standing[at] = absent;
                    else if (!(process_logits(host_group{}, x, w).row(token) > 0))
                        standing[at] = unreachable;
                } else if (standing[at] == unreachable && is_absent(tree.tokens[at])) {
                    standing[at] = absent;
                }
                if (standing[up] == absent) {
                    tokens[first + at] = v % vocabulary;
                    certain[first + at] = 5;
                }
            }
            for (std::size_t v = 0; v < standing.size(); ++v) {
                if (standing[v] == absent) {
                    ++result.absent;
                    fill(first + v, std::numeric_limits<float>::quiet_NaN());
                } else if (standing[v] == unreachable) {
                    ++result.unreachable;
                    fill(first + v, v % 2 == 0 ? std::numeric_limits<float>::quiet_NaN()
                                               : -std::numeric_limits<float>::infinity());
                }
            }
        }
        return result;
    }

    index_t vocabulary;
    sampling_params w;
    std::vector<std::int64_t> offsets;
    std::vector<node_id> parents;
    std::vector<token_id> tokens;
    std::vector<index_t> certain;
    std::vector<row_state> states;
    std::vector<T> target, draft;
    std::vector<std::uint64_t> seeds{11, 12, 13, 11};
    std::vector<std::uint32_t> ids{0, 0, 0, 1};
    std::vector<std::int32_t> positions{5, 100, 0, 5};
    std::int64_t path_stride = 6;

private:
    [[nodiscard]] logit_batch<T> logits(std::vector<T> const& rows) const {
        return {rows.data(), vocabulary, vocabulary, nullptr, nullptr, w};
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::testing
