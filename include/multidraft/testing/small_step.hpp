// One step of speculative decoding over two small models, with draws from any source.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/law/drafted.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/draw_site.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/testing/shape_rule.hpp"
#include "multidraft/testing/small_models.hpp"
#include "multidraft/tree/absent_tokens.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/verdict.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// The host group under the conditions of a launch: nothing is thrown, and trees have slots for children that could not
/// be drawn.
struct silent_group : host_group {
    static constexpr bool throws = false;
};

/// One step of speculative decoding over two small models: grow a tree level by level, verify it, emit.
///
/// With `silent_group` every node has all its children, as in a launch: the token of those that could not be drawn is
/// `none`, and below them there are arbitrary tokens and rows of NaN.
///
/// Throws `std::logic_error` for an invalid verdict: a path that does not follow the tree, more written of it than
/// was accepted, no token.
template <sampler Sampler, verify::verifier Verifier, class Real = double, group Group = host_group>
class small_step {
public:
    /// The models belong to the caller and must outlive this object. With a rule nodes may have fewer children than in
    /// the shape. With shared lists all nodes of a depth have the list that was drawn for the first of them, from one
    /// row: the draft's after a text of that many tokens 0 (`law::shared_lists`).
    small_step(Sampler sampler, Verifier verifier, basic_model_pair<Real> const& models, shape_rule rule = {},
               bool shared_lists = false)
        : sampler_(sampler),
          verifier_(verifier),
          rule_(std::move(rule)),
          shared_lists_(shared_lists),
          models_(models),
          target_(models.target.vocabulary()),
          draft_(models.draft.vocabulary()),
          nothing_(static_cast<std::size_t>(models.target.vocabulary()), std::numeric_limits<Real>::quiet_NaN()) {}

    /// Appends the emitted tokens to `out` and returns how many of them were drafted. The root is the last token of the
    /// context `root`, at `position`.
    template <class Source>
    std::int32_t operator()(shape const& children, std::size_t root, std::int32_t position, Source& source, text& out) {
        grow(children, root, position, source);
        path_.assign(children.size(), unwritten);
        // Arbitrary content: NaN and negative numbers.
        scratch_.assign(
            verify::scratch_bytes<Verifier>(static_cast<node_id>(parents_.size()), static_cast<int>(children.size())),
            std::byte{0xff});
        verdict const v = verify::verify_tree(
            verifier_, g_, make_drafted<typename Sampler::law>(tree_view{parents_, tokens_}, certain_),
            target_rows(target_), draft_rows(draft_), source, position, span<node_id>(path_),
            span<std::byte>(scratch_));
        node_id node = 0;
        for (std::size_t k = 0; k < path_.size(); ++k) {
            if (k >= static_cast<std::size_t>(v.accepted)) {
                if (path_[k] != unwritten) throw std::logic_error("the path was written beyond the accepted nodes");
                continue;
            }
            if (path_[k] <= 0 || parents_.at(static_cast<std::size_t>(path_[k])) != node)
                throw std::logic_error("the path does not follow the tree");
            node = path_[k];
            out.push_back(tokens_[static_cast<std::size_t>(node)]);
        }
        if (v.next < 0 || v.next >= models_.target.vocabulary()) throw std::logic_error("no token was emitted");
        out.push_back(v.next);
        return v.accepted;
    }

    /// How many children of the root were drawn in the last step, and how many of them are certain.
    [[nodiscard]] drawn_children of_root() const noexcept { return of_root_; }

private:
    static constexpr node_id unwritten = -7;
    static constexpr auto nowhere = ~std::size_t{0};  ///< the context of a child that could not be drawn

    template <class Source>
    void grow(shape const& children, std::size_t root, std::int32_t position, Source& source) {
        parents_.assign(1, none);
        tokens_.assign(1, 0);
        certain_.assign(1, 0);
        contexts_.assign(1, root);
        target_.clear();
        draft_.clear();
        target_.push_back(models_.target[root]);
        of_root_ = {};
        std::size_t begin = 0;
        std::size_t of_depth = root;  // the context of the row that nodes of this depth share
        drawn_children drawn;
        for (std::size_t depth = 0; depth < children.size(); ++depth) {
            int const most = children[depth];
            std::size_t const end = parents_.size();
            bool is_drawn = false;  // the list of this depth, where it is shared
            for (std::size_t v = begin; v < end; ++v) {
                auto const node = static_cast<node_id>(v);
                index_t wanted = most;
                if (contexts_[v] != nowhere)
                    wanted = rule_(tree_view{parents_, tokens_}, node, static_cast<std::int32_t>(depth),
                                   models_.draft[contexts_[v]], most);
                if (contexts_[v] == nowhere) {
                    draft_.push_back(nothing_);
                    certain_[v] = wanted;
                    for (int k = 0; k < wanted; ++k) add(node, 0, nowhere);
                    continue;
                }
                draft_.push_back(models_.draft[shared_lists_ ? of_depth : contexts_[v]]);
                if (wanted == 0) continue;
                if (!shared_lists_ || !is_drawn) {
                    auto const q = draft_(g_, node);
                    auto sums = g_.sum_chunks(q.size(), weight_of{q});
                    drawn_.assign(static_cast<std::size_t>(wanted), unwritten);
                    drawn = sampler_(g_, q, sums, source, draw_site{position, node}, span<token_id>(drawn_));
                    is_drawn = true;
                }
                certain_[v] = drawn.certain;
                if (v == 0) of_root_ = drawn;
                for (index_t k = 0; k < drawn.count; ++k) {
                    token_id const x = drawn_[static_cast<std::size_t>(k)];
                    add(node, x, models_.target.after(contexts_[v], x));
                }
                if constexpr (!Group::throws)
                    for (index_t k = drawn.count; k < wanted; ++k) add(node, support_ended, nowhere);
            }
            begin = end;
            of_depth = models_.draft.after(of_depth, 0);
        }
    }

    void add(node_id parent, token_id token, std::size_t context) {
        parents_.push_back(parent);
        tokens_.push_back(token);
        certain_.push_back(0);
        contexts_.push_back(context);
        target_.push_back(context == nowhere ? nothing_ : models_.target[context]);
    }

    Sampler sampler_;
    Verifier verifier_;
    shape_rule rule_;
    bool shared_lists_;
    basic_model_pair<Real> const& models_;
    Group g_;
    basic_rows_of_nodes<Real> target_;
    basic_rows_of_nodes<Real> draft_;
    std::vector<Real> nothing_;
    std::vector<node_id> parents_;
    std::vector<token_id> tokens_;
    std::vector<index_t> certain_;
    std::vector<std::size_t> contexts_;
    std::vector<token_id> drawn_;
    std::vector<node_id> path_;
    std::vector<std::byte> scratch_;
    drawn_children of_root_;
};

}  // namespace MULTIDRAFT_NAMESPACE::testing
