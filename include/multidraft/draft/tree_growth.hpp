// A draft tree that an engine grows without a model of the library: the engine has the rows, a sampler draws the
// children of each node.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/draft/draft_inputs.hpp"
#include "multidraft/draft/draw_children.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/tree/absent_tokens.hpp"
#include "multidraft/tree/allowed_trees.hpp"
#include "multidraft/tree/mask.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/tree/tree_builder.hpp"

namespace MULTIDRAFT_NAMESPACE::draft {

/// The tree of one step, for engines that call their draft model themselves.
///
///     tree.start(text.back(), position, shape);                       // a root alone
///     for (auto in = tree.next_level(); !in.empty(); in = tree.next_level()) {
///         .. the draft model reads in.tokens, in.positions, in.mask: one row per node ..
///         for (node_id v : in.nodes) tree.draw(v, sampler, q.row, q.sums, source);
///     }
///     verify_tree(verifier, g, drafts_for(verifier, tree), target_rows(p), draft_rows(q), ..);
///
/// A shape is an upper bound: a node has fewer children than in the shape where the draft's support ends, and nothing
/// is below a missing child (`node_of`, `shape_nodes`). `Law` is the law of the children. With the same source the
/// draws are those of `draft_tree`, bit for bit.
///
/// `DependsOn` declares what the number of children of a node depends on. With `nothing` it comes from a shape given to
/// `start`, and a draw of any other number is refused. Otherwise the engine chooses the number, and
/// `verify::drafts_for` compiles only for verifiers that are lossless for such shapes. That the engine keeps to its
/// declaration cannot be checked here.
///
/// The children of each node are drawn for that node alone, also where nodes share a row. One list for several nodes is
/// another law, `law::shared_lists<L>`: a tree of that law has `draw_shared` and `add_shared`, and
/// `verify::drafts_for` compiles only for verifiers that take it. That tokens given to `add` were drawn for their node
/// alone cannot be checked here.
///
/// Nodes may be drawn in any order. They are numbered as they are added; `arrange` brings them into level order, and is
/// not needed if children were drawn level by level, from the first node to the last. Memory is kept from one step to
/// the next: after `reserve`, or after a tree as large, nothing allocates. On the host.
template <draft_law Law, multidraft::shape_depends_on DependsOn = multidraft::shape_depends_on::nothing>
class tree_growth {
    using depends_on = multidraft::shape_depends_on;
    static constexpr bool fixed = DependsOn == depends_on::nothing;
    static constexpr bool child_by_child = DependsOn >= depends_on::earlier_siblings;

public:
    using law = Law;
    static constexpr multidraft::shape_depends_on shape_depends_on = DependsOn;

    /// A root of token 0 at position 0.
    tree_growth() { begin(0, 0); }

    /// Reserves memory for trees of that many nodes, the root included.
    void reserve(node_id nodes) {
        if (nodes < 1 || nodes > max_nodes) refuse("nodes", nodes, "a tree has 1 to 2^24 nodes");
        capacity_ = std::max(capacity_, nodes);
        nodes_.reserve(capacity_);
        reader_.reserve(capacity_);
        for (auto* const numbers : {&node_of_shape_, &drawn_}) numbers->reserve(at(capacity_));
        flags_.reserve(at(capacity_));
    }

    /// Starts a tree with the root alone: the last token of the text, at its position there. The tree will have the
    /// first `depth` levels of `shape`, which is copied. Throws `invalid_input` for an invalid token or position.
    void start(token_id root, std::int32_t position, topology const& shape,
               std::int32_t depth = std::numeric_limits<std::int32_t>::max()) {
        if (depth < 0) refuse("depth", depth, "a tree has 0 levels below the root or more");
        check_root(root, position);
        depth = std::min(depth, shape.max_depth());
        if (position > std::numeric_limits<std::int32_t>::max() - depth)
            refuse("position", position, "the positions of the tree's nodes exceed 2^31 - 1");
        if (!(shape_ == shape)) shape_ = shape;
        capacity_ = std::max(capacity_, shape.size());
        begin(root, position);
        depth_limit_ = depth;
        node_of_shape_.assign(at(shape.size()), none);
        node_of_shape_[0] = 0;
    }

    /// The same without a shape: every node gets the children that the engine chooses.
    void start(token_id root, std::int32_t position) requires(!fixed) {
        check_root(root, position);
        begin(root, position);
    }

    /// The nodes added since the last call (at first the root) that will have children: what the draft reads next,
    /// level by level. Without a shape, all nodes added. Empty when nothing is left to do. O(new nodes). Throws
    /// `invalid_input`, with nothing changed, for a node whose parent was not read, and with a fixed shape where the
    /// children of a node returned before were not drawn.
    draft_inputs next_level() {
        for (node_id const v : reader_.nodes())
            if (fixed && !drawn(v)) refuse_undrawn(v);
        auto const next = [&](node_id v) { return !drawn(v) && entry(v) == none && (!has_shape() || wanted(v) > 0); };
        for (node_id v = std::max(seen_, node_id{1}); v < nodes_.size(); ++v)
            if (next(v) && entry(nodes_.added().parents[at(v)]) == none)
                refuse("node", v, "the draft has not read its parent: next_level comes before draw");
        reader_.begin();
        for (; seen_ < nodes_.size(); ++seen_)
            if (next(seen_)) reader_.add(nodes_, seen_);
        return reader_.inputs();
    }

    /// The same for nodes of the engine's choice, whose parents the draft has read: for trees that grow where the gain
    /// is largest. Throws `invalid_input`, with nothing changed, for a node that does not exist, was read before or is
    /// listed twice, and for one whose parent was not read.
    draft_inputs read(span<node_id const> nodes) requires(!fixed) {
        for (std::size_t k = 0; k < nodes.size(); ++k) {
            node_id const v = nodes[k];
            auto const index = static_cast<std::int64_t>(k);
            if (v < 0 || v >= nodes_.size()) refuse("nodes", index, v, "the tree has " + count_of_nodes());
            if (entry(v) != none) refuse("nodes", index, v, "the draft has read this node");
            if (v > 0 && entry(nodes_.added().parents[at(v)]) == none)
                refuse("nodes", index, v, "the draft has not read its parent");
        }
        check_different(nodes);
        reader_.begin();
        for (node_id const v : nodes) reader_.add(nodes_, v);
        return reader_.inputs();
    }

    /// Draws the children of a node from the draft's distribution there, as many as the shape has there; `sums` are the
    /// chunk sums of its weights (`process_logits` gives both). Nodes may share a row and its sums, as those of one
    /// depth do with a block drafter: each draws for itself. Returns the children's numbers.
    ///
    /// Throws `invalid_input` for a node that does not exist or has its children already, and where there is no shape.
    template <sampler Sampler, distribution Q, class Sums, draw_source Source>
    node_range draw(node_id node, Sampler const& sampler, Q const& q, Sums const& sums, Source& source) {
        check_undrawn(node);
        if (!has_shape()) refuse("node", node, "the tree has no shape: say how many children are to be drawn");
        return draw_and_append(node, wanted(node), sampler, q, sums, source);
    }

    /// Draws up to `count` children, a number that depends on no more than `DependsOn` declares.
    template <sampler Sampler, distribution Q, class Sums, draw_source Source>
    node_range draw(node_id node, index_t count, Sampler const& sampler, Q const& q, Sums const& sums,
                    Source& source) requires(!fixed) {
        check_undrawn(node);
        return draw_and_append(node, count, sampler, q, sums, source);
    }

    /// Adds the children of a node that the engine drew itself by `Law`, all that were drawn for this node, in the
    /// order drawn, the certain ones first. With a fixed shape there are as many as it has; where no token was left to
    /// draw, `support_ended` stands in place of the last ones, as `draft_batch` writes it. Leaving a child out because
    /// of its token, or of the draft's confidence in it, gives another law: `shape_depends_on::everything`.
    ///
    /// Throws `invalid_input`, with nothing changed, for a node that does not exist or has its children already,
    /// another number of children than the shape has, negative tokens, and an impossible count of certain children.
    /// Other violations of the law, such as a duplicate token, are refused by verifiers.
    node_range add(node_id node, span<token_id const> tokens, index_t certain = 0) {
        check_added(node, tokens, certain);
        return append(node, drawn_of(tokens), certain);
    }

    /// Draws one list of children and adds it below each of several nodes, which have one row and as many children each
    /// in the shape. The draws have the address of the first of them. Throws `invalid_input`, with nothing changed, as
    /// `draw` does for each node, for one that is listed twice, and where the numbers of children differ.
    template <sampler Sampler, distribution Q, class Sums, draw_source Source>
    void draw_shared(span<node_id const> nodes, Sampler const& sampler, Q const& q, Sums const& sums,
                     Source& source) requires(has_shared_lists<Law>) {
        check_sharing(nodes);
        if (nodes.empty()) return;
        for (node_id const v : nodes) {
            if (!has_shape()) refuse("nodes", v, "the tree has no shape: use add_shared");
            if (wanted(v) != wanted(nodes[0]))
                refuse("nodes", v,
                       "it has " + std::to_string(wanted(v)) + " children in the shape, and the first one " +
                           std::to_string(wanted(nodes[0])));
        }
        drawn_children const drawn = draw_list(nodes[0], wanted(nodes[0]), sampler, q, sums, source);
        for (node_id const v : nodes) append(v, drawn_, drawn.certain);
    }

    /// Adds one list of children, drawn once by the engine, below each of several nodes; otherwise as `add`.
    void add_shared(span<node_id const> nodes, span<token_id const> tokens,
                    index_t certain = 0) requires(has_shared_lists<Law>) {
        check_sharing(nodes);
        for (node_id const v : nodes) check_added(v, tokens, certain);
        check_room(0, static_cast<index_t>(std::min(nodes.size() * tokens.size(), at(max_nodes))));
        for (node_id const v : nodes) append(v, drawn_of(tokens), certain);
    }

    /// Adds one child after the others of a node. Whether it is drawn is up to a stopping rule, which may depend on the
    /// earlier siblings but not on the child.
    node_id add(node_id node, token_id token) requires(child_by_child) {
        check_node(node);
        check_room(node, 1);
        if (token < 0) refuse("token", token, "a token is not negative");
        return append(node, {&token, 1}, nodes_.added().certain[at(node)]).first;
    }

    /// Removes everything below a node, which becomes a leaf; takes effect with `arrange`. The decision may depend on
    /// what `DependsOn` declares and on nothing below the node. Throws `invalid_input` for a node that does not exist.
    void cut_below(node_id node) requires(!fixed) {
        check_node(node);
        nodes_.remove_below(node);
        flag(node, is_drawn);
    }

    /// Removes everything below each child that has the token of an earlier sibling; takes effect with `arrange`.
    /// Recursive rejection never accepts such a child, so nothing is lost; other verifiers of `law::iid` may accept a
    /// later duplicate. The child itself stays: without it the candidates would have another law. O(nodes x siblings)
    /// if the children of a node are consecutive.
    void cut_below_repeated() requires(DependsOn >= depends_on::earlier_draws) {
        for (node_id v = 1; v < nodes_.size(); ++v)
            if (is_repeated(v)) cut_below(v);
    }

    /// Removes a node other than the root and everything below it, for any reason; takes effect with `arrange`. Only
    /// for `verify::naive` and other verifiers whose emitted tokens do not depend on the candidates.
    void drop(node_id node) requires(DependsOn == depends_on::everything) {
        check_node(node);
        if (node == 0) refuse("node", node, "the root is no candidate");
        nodes_.remove(node);
    }

    /// Whether an earlier child of the node's parent has the node's token. O(nodes between them).
    [[nodiscard]] bool is_repeated(node_id node) const {
        check_node(node);
        tree_nodes const& all = nodes_.added();
        node_id u = node;
        for (index_t earlier = all.ranks[at(node)]; earlier > 0;) {
            if (all.parents[at(--u)] != all.parents[at(node)]) continue;
            if (all.tokens[at(u)] == all.tokens[at(node)]) return true;
            --earlier;
        }
        return false;
    }

    /// Brings the nodes into level order, without those cut or dropped: `drafts` and all other views are in that order
    /// until the tree changes. The numbers that `draw` takes remain valid. O(nodes).
    void arrange() { nodes_.arrange(); }

    /// The tree with its law, for a verifier. Throws `invalid_input` if nodes are not in level order (`arrange`), or if
    /// a node that has children in the shape was not drawn. Where the shape may depend on draws use
    /// `verify::drafts_for(verifier, tree)`, which checks that the verifier allows it.
    [[nodiscard]] drafted<Law> drafts() const requires(fixed) { return drafts_of_any_shape(); }

    /// The same without that check: with a verifier that does not allow the shape the text has another law.
    [[nodiscard]] drafted<Law> drafts_of_any_shape() const {
        tree_nodes const& all = nodes_.nodes();
        if constexpr (fixed)
            for (node_id v = 0; v < nodes_.size(); ++v)
                if (!drawn(v) && wanted(v) > 0) refuse_undrawn(v);
        return make_drafted<Law>(all.tree(), all.certain);
    }

    /// Parents and tokens by the numbers that `draw` takes, in any order: not a tree that a verifier accepts.
    [[nodiscard]] tree_view as_added() const noexcept { return nodes_.added().tree(); }

    // What the target reads, and other data, one entry for each node. They throw as `drafts` does if nodes are not in
    // level order.

    [[nodiscard]] node_id size() const { return nodes_.nodes().size(); }
    /// The parent of each node, `none` for the root.
    [[nodiscard]] std::span<node_id const> parents() const { return nodes_.nodes().parents; }
    [[nodiscard]] std::span<token_id const> tokens() const { return nodes_.nodes().tokens; }
    /// Levels between each node and the root.
    [[nodiscard]] std::span<std::int32_t const> depths() const { return nodes_.nodes().depths; }
    [[nodiscard]] std::span<std::int32_t const> positions() const { return nodes_.nodes().positions; }
    /// How many of the first children of each node are certain.
    [[nodiscard]] std::span<index_t const> certain() const { return nodes_.nodes().certain; }
    /// The row of the draft's output that each node's children were drawn from, which is also its entry in the draft's
    /// cache after the context; `none`: the draft has not read the node. For `indexed_rows`.
    [[nodiscard]] std::span<index_t const> row_of_node() const { return nodes_.nodes().entries; }
    /// The node of the shape that each node corresponds to; `none` without a shape.
    [[nodiscard]] std::span<node_id const> shape_nodes() const { return nodes_.nodes().shape_nodes; }
    /// The ancestor mask. Extended by the new nodes at each call. Valid until the tree changes.
    [[nodiscard]] mask_view mask() {
        nodes_.extend_mask(capacity_);
        return nodes_.mask();
    }

    /// The node that corresponds to a node of the shape; `none` if it could not be drawn. Throws for one that the shape
    /// does not have.
    [[nodiscard]] node_id node_of(node_id shape_node) const {
        if (shape_node < 0 || at(shape_node) >= node_of_shape_.size())
            refuse("shape_node", shape_node, "the shape has " + std::to_string(node_of_shape_.size()) + " nodes");
        node_id const v = node_of_shape_[at(shape_node)];
        return v == none ? none : place(v);
    }
    /// The current index of the node that was added with this number; `none` if it was removed.
    [[nodiscard]] node_id place(node_id added) const {
        check_node(added);
        return nodes_.place(added);
    }
    /// The number with which a node was added.
    [[nodiscard]] node_id added(node_id place) const {
        if (place < 0 || place >= size()) refuse("place", place, "the tree has " + std::to_string(size()) + " nodes");
        return nodes_.node_at(place);
    }

    /// The entries of the draft's cache after the context that belong to these nodes, the root and a path below it
    /// (`accepted_text::nodes`): strictly increasing, up to the first node that the draft has not read. For `compact`.
    /// Valid until the next call.
    [[nodiscard]] std::span<index_t const> draft_entries(span<node_id const> nodes) {
        return reader_.entries_of(nodes_, nodes);
    }

private:
    static constexpr char is_drawn = 1;
    static constexpr char is_listed = 2;

    static std::size_t at(node_id v) noexcept { return static_cast<std::size_t>(v); }

    /// Whether all children of a node were drawn.
    [[nodiscard]] bool drawn(node_id v) const noexcept { return at(v) < flags_.size() && (flags_[at(v)] & is_drawn); }
    void flag(node_id v, char what) {
        if (flags_.size() < at(nodes_.size())) flags_.resize(at(nodes_.size()), 0);
        flags_[at(v)] = static_cast<char>(flags_[at(v)] | what);
    }
    [[nodiscard]] index_t entry(node_id v) const noexcept { return nodes_.added().entries[at(v)]; }
    [[nodiscard]] bool has_shape() const noexcept { return !node_of_shape_.empty(); }
    [[nodiscard]] std::string count_of_nodes() const { return std::to_string(nodes_.size()) + " nodes"; }
    /// How many children a node has in the shape.
    [[nodiscard]] index_t wanted(node_id v) const {
        tree_nodes const& all = nodes_.added();
        if (!has_shape() || all.shape_nodes[at(v)] == none || all.depths[at(v)] >= depth_limit_) return 0;
        return shape_.child_count(all.shape_nodes[at(v)]);
    }

    static void check_root(token_id root, std::int32_t position) {
        if (root < 0) refuse("root", root, "a token is not negative");
        if (position < 0) refuse("position", position, "a position in the text is not negative");
    }
    void check_node(node_id node) const {
        if (node < 0 || node >= nodes_.size()) refuse("node", node, "the tree has " + count_of_nodes());
    }
    void check_undrawn(node_id node) const {
        check_node(node);
        if (drawn(node)) refuse("node", node, "the children of this node have been drawn");
    }
    /// The tokens before those that could not be drawn.
    [[nodiscard]] static span<token_id const> drawn_of(span<token_id const> tokens) noexcept {
        while (!tokens.empty() && tokens[tokens.size() - 1] == support_ended) tokens = tokens.first(tokens.size() - 1);
        return tokens;
    }

    void check_added(node_id node, span<token_id const> tokens, index_t certain) const {
        check_undrawn(node);
        auto const size = static_cast<index_t>(std::min(tokens.size(), at(max_nodes)));
        if (has_shape() && fixed && size != wanted(node))
            refuse(
                "tokens.size", tokens.size(),
                "the shape has " + std::to_string(wanted(node)) + " children for node " + std::to_string(node) +
                    (size > wanted(node) ? "" : ": where no token was left to draw, write support_ended in its place"));
        tokens = drawn_of(tokens);
        auto const n = static_cast<index_t>(std::min(tokens.size(), at(max_nodes)));
        check_room(node, n);
        for (std::size_t k = 0; k < tokens.size(); ++k)
            if (tokens[k] < 0) refuse("tokens", static_cast<std::int64_t>(k), tokens[k], "a token is not negative");
        if (certain < 0 || certain > n)
            refuse("certain", certain, std::to_string(n) + " children are added, of which some are certain");
        if (certain > 0 && !counts_certain<Law>) refuse("certain", certain, "the law has no certain children");
    }
    /// Refuses nodes of the tree that are listed twice. O(nodes listed).
    void check_different(span<node_id const> nodes) {
        std::size_t k = 0;
        for (; k < nodes.size(); ++k) {
            flag(nodes[k], 0);
            if ((flags_[at(nodes[k])] & is_listed) != 0) break;
            flag(nodes[k], is_listed);
        }
        for (std::size_t j = 0; j < k; ++j) flags_[at(nodes[j])] = static_cast<char>(flags_[at(nodes[j])] & ~is_listed);
        if (k < nodes.size()) refuse("nodes", static_cast<std::int64_t>(k), nodes[k], "the node stands here twice");
    }
    void check_sharing(span<node_id const> nodes) {
        for (std::size_t k = 0; k < nodes.size(); ++k) {
            check_undrawn(nodes[k]);
            if (nodes_.added().depths[at(nodes[k])] != nodes_.added().depths[at(nodes[0])])
                refuse("nodes", static_cast<std::int64_t>(k), nodes[k], "nodes that share a list have one depth");
        }
        check_different(nodes);
    }
    void check_room(node_id node, index_t children) const {
        if (children > max_nodes - nodes_.size()) refuse("count", children, "a tree has at most 2^24 nodes");
        if (nodes_.added().positions[at(node)] == std::numeric_limits<std::int32_t>::max())
            refuse("node", node, "the position of its children exceeds 2^31 - 1");
    }
    [[noreturn]] void refuse_undrawn(node_id v) const {
        refuse("node", v,
               "the shape has " + std::to_string(wanted(v)) + " children for this node and they were not drawn");
    }

    void begin(token_id root, std::int32_t position) {
        nodes_.start(root, position);
        reader_.start(capacity_);
        node_of_shape_.clear();
        flags_.clear();
        seen_ = 0;
        depth_limit_ = 0;
    }

    /// Draws the children of a node into `drawn_`.
    template <class Sampler, class Q, class Sums, class Source>
    drawn_children draw_list(node_id node, index_t count, Sampler const& sampler, Q const& q, Sums const& sums,
                             Source& source) {
        static_assert(std::is_same_v<typename Sampler::law, law_of_list<Law>>,
                      "multidraft: this tree is for another law than the sampler's: name the sampler's law, such as "
                      "draft::tree_growth<draft::sequential::law>");
        if (count < 0) refuse("count", count, "a node has 0 children or more");
        check_room(node, count);
        return draw_children(host_group{}, nodes_, node, count, sampler, q, sums, source, drawn_);
    }

    template <class Sampler, class Q, class Sums, class Source>
    node_range draw_and_append(node_id node, index_t count, Sampler const& sampler, Q const& q, Sums const& sums,
                               Source& source) {
        drawn_children const drawn = draw_list(node, count, sampler, q, sums, source);
        return append(node, drawn_, drawn.certain);
    }

    node_range append(node_id node, span<token_id const> tokens, index_t certain) {
        node_range const children = nodes_.add(node, tokens, certain, has_shape() ? &shape_ : nullptr);
        for (node_id v = children.first; v < children.end(); ++v)
            if (node_id const like = nodes_.added().shape_nodes[at(v)]; like != none) node_of_shape_[at(like)] = v;
        flag(node, is_drawn);
        return children;
    }

    tree_builder nodes_;
    draft_reader reader_;
    topology shape_;
    std::vector<node_id> node_of_shape_;  ///< by the number added; empty without a shape
    std::vector<char> flags_;             ///< by the number added; nodes beyond its end have none
    std::vector<token_id> drawn_;         ///< the last list
    node_id capacity_ = 1;
    node_id seen_ = 0;  ///< nodes that `next_level` has returned or skipped
    std::int32_t depth_limit_ = 0;
};

}  // namespace MULTIDRAFT_NAMESPACE::draft
