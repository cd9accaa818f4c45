// The arrays of a step of a batch: requests, trees, the level that is drawn, verdicts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/compact_caches.hpp"
#include "multidraft/batch/level_batch.hpp"
#include "multidraft/batch/step_inputs.hpp"
#include "multidraft/rows/sampling_params.hpp"
#include "multidraft/tree/absent_tokens.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/traits.hpp"

namespace MULTIDRAFT_NAMESPACE::detail {

[[nodiscard]] inline std::size_t index_of(std::int64_t i) noexcept { return static_cast<std::size_t>(i); }

/// The requests of a step.
struct step_requests {
    std::vector<span<token_id const>> text;
    std::vector<std::uint64_t> seeds;
    std::vector<std::uint32_t> ids;
    std::vector<std::int32_t> positions;
    std::vector<sampling_params> sampling, draft_sampling;

    void clear() {
        text.clear();
        seeds.clear();
        ids.clear();
        positions.clear();
        sampling.clear();
        draft_sampling.clear();
    }
    void add(span<token_id const> tokens, std::uint64_t seed, std::uint32_t id, sampling_params const& of_target,
             sampling_params const& of_draft) {
        text.push_back(tokens);
        seeds.push_back(seed);
        ids.push_back(id);
        positions.push_back(static_cast<std::int32_t>(tokens.size()) - 1);
        sampling.push_back(of_target);
        draft_sampling.push_back(of_draft);
    }
    /// A request that only reads.
    void add_reading(span<token_id const> tokens) { text.push_back(tokens); }
    /// The request with this seed and id, which would have the same draws now, or where its text has the same length;
    /// `none` if there is none.
    [[nodiscard]] std::int32_t same_draws(std::uint64_t seed, std::uint32_t id) const noexcept {
        for (std::size_t b = 0; b < seeds.size(); ++b)
            if (seeds[b] == seed && ids[b] == id) return static_cast<std::int32_t>(b);
        return none;
    }
    /// Those from request `first` on.
    [[nodiscard]] request_batch view(std::int32_t first = 0) const noexcept {
        return {seeds.data() + first, positions.data() + first, ids.data() + first};
    }
};

/// The trees of a step: every node of every shape has its place from the beginning.
class step_trees {
public:
    void clear() {
        offsets_.assign(1, 0);
        parents_.clear();
        tokens_.clear();
        certain_.clear();
        shapes_.clear();
        deepest_ = 0;
        largest_ = 0;
    }
    void add(topology const& shape, token_id root) {
        auto const begin = index_of(offsets_.back());
        parents_.insert(parents_.end(), shape.parents().begin(), shape.parents().end());
        tokens_.resize(parents_.size(), padding);
        tokens_[begin] = root;
        certain_.resize(parents_.size(), 0);
        offsets_.push_back(static_cast<std::int64_t>(parents_.size()));
        shapes_.push_back(&shape);
        deepest_ = std::max(deepest_, shape.max_depth());
        largest_ = std::max(largest_, shape.size());
    }
    [[nodiscard]] topology const& shape(std::int32_t b) const noexcept { return *shapes_[index_of(b)]; }
    /// The index of a node among those of all requests; `none` of none.
    [[nodiscard]] std::int64_t index(std::int32_t b, node_id node) const noexcept {
        return node == none ? std::int64_t{none} : offsets_[index_of(b)] + node;
    }
    /// Whether a node was drawn. Below one that was not, nothing is drawn.
    [[nodiscard]] bool is_present(std::int32_t b, node_id node) const noexcept {
        return !is_absent(tokens_[index_of(index(b, node))]);
    }
    [[nodiscard]] token_id token(std::int32_t b, node_id node) const noexcept {
        return tokens_[index_of(index(b, node))];
    }
    [[nodiscard]] std::int64_t nodes() const noexcept { return offsets_.back(); }
    [[nodiscard]] std::int32_t deepest() const noexcept { return deepest_; }
    [[nodiscard]] node_id largest() const noexcept { return largest_; }
    [[nodiscard]] std::int64_t const* offsets() const noexcept { return offsets_.data(); }
    /// Where draws are written.
    [[nodiscard]] token_id* tokens() noexcept { return tokens_.data(); }
    [[nodiscard]] index_t* certain() noexcept { return certain_.data(); }
    [[nodiscard]] tree_batch view() const noexcept {
        return {static_cast<std::int32_t>(shapes_.size()),
                nodes(),
                offsets_.data(),
                parents_.data(),
                tokens_.data(),
                certain_.data()};
    }
    /// The trees of requests [begin, end), whose offsets are written to `offsets`.
    [[nodiscard]] tree_batch view(bool counts_certain, std::int32_t begin, std::int32_t end,
                                  std::vector<std::int64_t>& offsets) const {
        std::int64_t const first = offsets_[index_of(begin)];
        offsets.clear();
        for (std::int32_t b = begin; b <= end; ++b) offsets.push_back(offsets_[index_of(b)] - first);
        return {end - begin,
                offsets.back(),
                offsets.data(),
                parents_.data() + first,
                tokens_.data() + first,
                counts_certain ? certain_.data() + first : nullptr,
                0,
                begin};
    }

private:
    std::vector<std::int64_t> offsets_{0};
    std::vector<node_id> parents_;
    std::vector<token_id> tokens_;
    std::vector<index_t> certain_;
    std::vector<topology const*> shapes_;
    std::int32_t deepest_ = 0;
    node_id largest_ = 0;
};

/// The nodes whose children are drawn in one call, all of one depth.
struct step_level {
    std::vector<std::int32_t> requests, nodes, wanted, depths;
    std::vector<std::int64_t> first, node_index;
    std::int32_t depth = none;

    void clear() {
        for (auto* const numbers : {&requests, &nodes, &wanted, &depths}) numbers->clear();
        for (auto* const places : {&first, &node_index}) places->clear();
    }
    void add(std::int32_t request, node_id node, std::int32_t children, std::int32_t below_root,
             std::int64_t first_child, std::int64_t index) {
        requests.push_back(request);
        nodes.push_back(node);
        wanted.push_back(children);
        depths.push_back(below_root);
        first.push_back(first_child);
        node_index.push_back(index);
    }
    [[nodiscard]] bool empty() const noexcept { return nodes.empty(); }
    [[nodiscard]] level_batch view() const noexcept {
        return {static_cast<std::int32_t>(nodes.size()), requests.data(), nodes.data(), wanted.data(), depths.data()};
    }
};

/// What a model has read in a step, and the numbers of its rows, masks and biases in the engine's arrays, for the nodes
/// of a call.
struct step_model {
    step_reader reader;
    std::vector<std::int64_t> rows, allowed, biases;

    /// Writes `number(row)` for the row of each of `count` nodes `node(i)`, and `unread` for a node that was not read:
    /// nothing reads its row.
    template <class Node, class Number>
    std::int64_t const* numbers(std::vector<std::int64_t>& out, std::int64_t count, Node const& node,
                                std::int64_t unread, Number const& number) const {
        out.clear();
        for (std::int64_t i = 0; i < count; ++i) {
            std::int64_t const row = reader.row_of_node()[index_of(node(i))];
            out.push_back(row == none ? unread : number(row));
        }
        return out.data();
    }
};

/// What a cache keeps of a step.
struct step_cache {
    std::vector<index_t> entries;     ///< of the accepted nodes, from the root's on
    std::vector<std::int64_t> roots;  ///< the roots' cache entries
};

/// A state that goes back to `Left` in what was moved from, whose arrays are gone.
template <auto Left>
class state_left_by_moves {
    using state = decltype(Left);

public:
    explicit state_left_by_moves(state now) noexcept : now_(now) {}
    state_left_by_moves(state_left_by_moves const&) = default;
    state_left_by_moves(state_left_by_moves&& other) noexcept : now_(std::exchange(other.now_, Left)) {}
    state_left_by_moves& operator=(state_left_by_moves const&) = default;
    state_left_by_moves& operator=(state_left_by_moves&& other) noexcept {
        now_ = std::exchange(other.now_, Left);
        return *this;
    }
    state_left_by_moves& operator=(state now) noexcept {
        now_ = now;
        return *this;
    }
    [[nodiscard]] operator state() const noexcept { return now_; }

private:
    state now_;
};

/// What a step decided.
struct step_verdicts {
    std::vector<node_id> path;  ///< at the trees' offsets
    std::vector<std::int32_t> accepted;
    std::vector<token_id> next;
    std::vector<token_id> tokens;             ///< added to each text, one request after another
    std::vector<std::int64_t> first_token;    ///< where those of each request begin, and the end
    std::vector<std::int32_t> read_by_draft;  ///< how many of the accepted nodes the draft has read
    step_cache target_cache, draft_cache;
    std::vector<std::int64_t> offsets;  ///< of the trees of one call
    verify::scratch_memory scratch;

    /// Those from a node of all trees and a request on.
    [[nodiscard]] verdict_batch out(std::int64_t node = 0, std::int32_t request = 0) noexcept {
        return {path.data() + node, 0, accepted.data() + request, next.data() + request};
    }
    void make(std::size_t requests, std::size_t nodes) {
        path.resize(nodes);
        accepted.resize(requests);
        next.resize(requests);
    }
    /// Lays out tokens and kept entries; there are none of `refused` requests.
    void lay_out(step_trees const& trees, step_reader const& target, step_reader const& draft,
                 std::vector<std::int32_t> const& refused) {
        for (std::int32_t const b : refused) {
            accepted[index_of(b)] = 0;
            next[index_of(b)] = none;
        }
        auto const requests = static_cast<std::int32_t>(accepted.size());
        tokens.clear();
        first_token.assign(1, 0);
        read_by_draft.assign(accepted.size(), 0);
        target_cache.entries.resize(path.size());
        draft_cache.entries.resize(path.size());
        target_cache.roots.resize(accepted.size());
        draft_cache.roots.resize(accepted.size());
        for (std::int32_t b = 0; b < requests; ++b) {
            auto const begin = index_of(trees.offsets()[b]);
            auto const count = index_of(accepted[index_of(b)]);
            target_cache.roots[index_of(b)] = target.root_entry(b);
            draft_cache.roots[index_of(b)] = draft.root_entry(b);
            auto& read = read_by_draft[index_of(b)];
            for (std::size_t k = 0; k < count; ++k) {
                node_id const v = path[begin + k];
                std::int64_t const node = trees.index(b, v);
                tokens.push_back(trees.token(b, v));
                target_cache.entries[begin + k] = target.entry(node) - target.root_entry(b);
                index_t const entry = draft.entry(node);
                if (entry == none) continue;  // a leaf, the last one
                draft_cache.entries[begin + k] = entry - draft.root_entry(b);
                ++read;
            }
            if (next[index_of(b)] != none) tokens.push_back(next[index_of(b)]);
            first_token.push_back(static_cast<std::int64_t>(tokens.size()));
        }
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::detail
