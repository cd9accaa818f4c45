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
#include "multidraft/draft/sampler.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/law/drafted.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/draw_site.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/tree/absent_tokens.hpp"
#include "multidraft/tree/mask.hpp"
#include "multidraft/tree/shape_dependence.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE::draft {

/// The next input of the draft model, which returns one row for each node.
///
/// The model's cache holds the context (all tokens before the root) and then an entry for each node in the order read;
/// entry and row have the same index. Views are valid until the tree changes.
struct draft_inputs {
    std::span<node_id const> nodes;           ///< the nodes, numbered as `draw` takes them
    std::span<token_id const> tokens;         ///< their tokens
    std::span<std::int32_t const> positions;  ///< in the text
    index_t first_row = 0;                    ///< the entry and the row of `nodes[0]`; the others follow
    mask_view mask;  ///< row k: the entries after the context that `nodes[k]` attends to, its own included

    /// Whether there is no node to read.
    [[nodiscard]] bool empty() const noexcept { return nodes.empty(); }
    [[nodiscard]] std::size_t size() const noexcept { return nodes.size(); }
};

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
        auto const n = at(nodes);
        added_.reserve(n);
        arranged_.reserve(n);
        for (auto* numbers : {&level_, &order_, &place_, &first_, &next_, &draft_parents_, &node_of_shape_, &kept_,
                              &batch_tokens_, &batch_positions_, &children_})
            numbers->reserve(n);
        drawn_.reserve(n);
        gone_.reserve(n);
        mask_.reset(capacity_);
        masked_ = 0;
        draft_mask_.reset(capacity_);
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
        has_shape_ = true;
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
    /// level by level. Without a shape, all nodes added. Empty when nothing is left to do. O(nodes).
    ///
    /// Throws `invalid_input` if the shape is fixed and the children of a node returned before have not been drawn.
    draft_inputs next_level() {
        if constexpr (fixed)
            for (node_id const v : level_)
                if (!drawn(v)) refuse_undrawn(v);
        level_.clear();
        for (node_id v = seen_; v < added_.size(); ++v)
            if (!drawn(v) && added_.row[at(v)] == none && (!has_shape_ || wanted(v) > 0)) level_.push_back(v);
        seen_ = added_.size();
        return read_level();
    }

    /// The same for nodes of the engine's choice, whose parents the draft has read: for trees that grow where the gain
    /// is largest. Throws `invalid_input`, with nothing changed, for a node that does not exist, was read before or is
    /// listed twice, and for one whose parent was not read.
    draft_inputs read(span<node_id const> nodes) requires(!fixed) {
        for (std::size_t k = 0; k < nodes.size(); ++k) {
            node_id const v = nodes[k];
            auto const index = static_cast<std::int64_t>(k);
            if (v < 0 || v >= added_.size()) refuse("nodes", index, v, "the tree has " + count_of_nodes());
            if (added_.row[at(v)] != none) refuse("nodes", index, v, "the draft has read this node");
            if (v > 0 && added_.row[at(added_.parents[at(v)])] == none)
                refuse("nodes", index, v, "the draft has not read its parent");
            for (std::size_t j = 0; j < k; ++j)
                if (nodes[j] == v) refuse("nodes", index, v, "the node stands here twice");
        }
        level_.assign(nodes.begin(), nodes.end());
        return read_level();
    }

    /// Draws the children of a node from the draft's distribution there, as many as the shape has there; `sums` are the
    /// chunk sums of its weights (`process_logits` gives both). Nodes may share a row and its sums, as those of one
    /// depth do with a block drafter: each draws for itself. Returns the children's numbers.
    ///
    /// Throws `invalid_input` for a node that does not exist or has its children already, and where there is no shape.
    template <sampler Sampler, distribution Q, class Sums, draw_source Source>
    node_range draw(node_id node, Sampler const& sampler, Q const& q, Sums const& sums, Source& source) {
        check_undrawn(node);
        if (!has_shape_) refuse("node", node, "the tree has no shape: say how many children are to be drawn");
        return draw_children(node, wanted(node), sampler, q, sums, source);
    }

    /// Draws up to `count` children, a number that depends on no more than `DependsOn` declares.
    template <sampler Sampler, distribution Q, class Sums, draw_source Source>
    node_range draw(node_id node, index_t count, Sampler const& sampler, Q const& q, Sums const& sums,
                    Source& source) requires(!fixed) {
        check_undrawn(node);
        return draw_children(node, count, sampler, q, sums, source);
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
            if (!has_shape_) refuse("nodes", v, "the tree has no shape: use add_shared");
            if (wanted(v) != wanted(nodes[0]))
                refuse("nodes", v,
                       "it has " + std::to_string(wanted(v)) + " children in the shape, and the first one " +
                           std::to_string(wanted(nodes[0])));
        }
        drawn_children const drawn = draw_list(nodes[0], wanted(nodes[0]), sampler, q, sums, source);
        for (node_id const v : nodes) append(v, span<token_id const>(children_).first(at(drawn.count)), drawn.certain);
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
        return append(node, {&token, 1}, added_.certain[at(node)]).first;
    }

    /// Removes everything below a node, which becomes a leaf; takes effect with `arrange`. The decision may depend on
    /// what `DependsOn` declares and on nothing below the node. Throws `invalid_input` for a node that does not exist.
    void cut_below(node_id node) requires(!fixed) {
        check_node(node);
        gone_[at(node)] |= below_is_gone;
        drawn_[at(node)] = 1;
        change();
        complete_ = false;
    }

    /// Removes everything below each child that has the token of an earlier sibling; takes effect with `arrange`.
    /// Recursive rejection never accepts such a child, so nothing is lost; other verifiers of `law::iid` may accept a
    /// later duplicate. The child itself stays: without it the candidates would have another law. O(nodes x siblings)
    /// if the children of a node are consecutive.
    void cut_below_repeated() requires(DependsOn >= depends_on::earlier_draws) {
        for (node_id v = 1; v < added_.size(); ++v)
            if (is_repeated(v)) cut_below(v);
    }

    /// Removes a node other than the root and everything below it, for any reason; takes effect with `arrange`. Only
    /// for `verify::naive` and other verifiers whose emitted tokens do not depend on the candidates.
    void drop(node_id node) requires(DependsOn == depends_on::everything) {
        check_node(node);
        if (node == 0) refuse("node", node, "the root is no candidate");
        gone_[at(node)] |= is_gone;
        change();
        complete_ = false;
    }

    /// Whether an earlier child of the node's parent has the node's token. O(nodes between them).
    [[nodiscard]] bool is_repeated(node_id node) const {
        check_node(node);
        for (node_id u = added_.parents[at(node)] + 1; node > 0 && u < node; ++u)
            if (added_.parents[at(u)] == added_.parents[at(node)] && added_.tokens[at(u)] == added_.tokens[at(node)])
                return true;
        return false;
    }

    /// Brings the nodes into level order, without those cut or dropped: `drafts` and all other views are in that order
    /// until the tree changes. The numbers that `draw` takes remain valid. O(nodes).
    void arrange() {
        if (is_arranged_) return;
        auto const n = at(added_.size());
        // The children of each node in the order added, as linked lists: the first child, and for each node its next
        // sibling.
        first_.assign(n, none);
        next_.assign(n, none);
        for (std::size_t v = n; v-- > 1;) {
            auto const up = at(added_.parents[v]);
            if ((gone_[v] & is_gone) != 0 || (gone_[up] & below_is_gone) != 0) continue;
            next_[v] = first_[up];
            first_[up] = static_cast<node_id>(v);
        }
        place_.assign(n, none);
        place_[0] = 0;
        order_.assign(1, 0);
        arranged_.clear();
        arranged_.push(added_, 0, none);
        for (std::size_t i = 0; i < order_.size(); ++i) {
            index_t certain = 0;
            index_t const of_node = added_.certain[at(order_[i])];
            for (node_id v = first_[at(order_[i])]; v != none; v = next_[at(v)]) {
                place_[at(v)] = static_cast<node_id>(order_.size());
                order_.push_back(v);
                arranged_.push(added_, v, static_cast<node_id>(i));
                if constexpr (DependsOn == depends_on::everything)
                    certain += rank_of(v) < of_node ? 1 : 0;
                else
                    certain = of_node;
            }
            arranged_.certain[i] = certain;
        }
        is_arranged_ = true;
        masked_ = 0;
    }

    /// The tree with its law, for a verifier. Throws `invalid_input` if nodes are not in level order (`arrange`), or if
    /// a node that has children in the shape was not drawn. Where the shape may depend on draws use
    /// `verify::drafts_for(verifier, tree)`, which checks that the verifier allows it.
    [[nodiscard]] drafted<Law> drafts() const requires(fixed) { return drafts_of_any_shape(); }

    /// The same without that check: with a verifier that does not allow the shape the text has another law.
    [[nodiscard]] drafted<Law> drafts_of_any_shape() const {
        arrays const& a = current();
        if constexpr (fixed)
            for (node_id v = 0; v < added_.size(); ++v)
                if (!drawn(v) && wanted(v) > 0) refuse_undrawn(v);
        return make_drafted<Law>(tree_view{a.parents, a.tokens}, a.certain);
    }

    /// Parents and tokens by the numbers that `draw` takes, in any order: not a tree that a verifier accepts.
    [[nodiscard]] tree_view as_added() const noexcept { return {added_.parents, added_.tokens}; }

    // What the target reads, and other data, one entry for each node. They throw as `drafts` does if nodes are not in
    // level order.

    [[nodiscard]] node_id size() const { return current().size(); }
    /// The parent of each node, `none` for the root.
    [[nodiscard]] std::span<node_id const> parents() const { return current().parents; }
    [[nodiscard]] std::span<token_id const> tokens() const { return current().tokens; }
    /// Levels between each node and the root.
    [[nodiscard]] std::span<std::int32_t const> depths() const { return current().depths; }
    [[nodiscard]] std::span<std::int32_t const> positions() const { return current().positions; }
    /// How many of the first children of each node are certain.
    [[nodiscard]] std::span<index_t const> certain() const { return current().certain; }
    /// The row of the draft's output that each node's children were drawn from, which is also its entry in the draft's
    /// cache after the context; `none`: the draft has not read the node. For `indexed_rows`.
    [[nodiscard]] std::span<index_t const> row_of_node() const { return current().row; }
    /// The node of the shape that each node corresponds to; `none` without a shape.
    [[nodiscard]] std::span<node_id const> shape_nodes() const { return current().shape_node; }
    /// The ancestor mask. Extended by the new nodes at each call. Valid until the tree changes.
    [[nodiscard]] mask_view mask() {
        arrays const& a = current();
        if (masked_ == 0) mask_.reset(std::max(capacity_, a.size()));
        mask_.append(std::span<node_id const>(a.parents).subspan(at(masked_)));
        masked_ = a.size();
        return mask_.view();
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
        return is_arranged_ ? place_[at(added)] : added;
    }
    /// The number with which a node was added.
    [[nodiscard]] node_id added(node_id place) const {
        if (place < 0 || place >= size()) refuse("place", place, "the tree has " + std::to_string(size()) + " nodes");
        return is_arranged_ ? order_[at(place)] : place;
    }

    /// The entries of the draft's cache after the context that belong to these nodes, the root and a path below it
    /// (`accepted_text::nodes`): strictly increasing, up to the first node that the draft has not read. For `compact`.
    /// Valid until the next call.
    [[nodiscard]] std::span<index_t const> draft_entries(span<node_id const> nodes) {
        arrays const& a = current();
        kept_.clear();
        for (std::size_t k = 0; k < nodes.size(); ++k) {
            if (nodes[k] < 0 || nodes[k] >= a.size())
                refuse("nodes", static_cast<std::int64_t>(k), nodes[k],
                       "the tree has " + std::to_string(a.size()) + " nodes");
            if (a.row[at(nodes[k])] == none) break;
            kept_.push_back(a.row[at(nodes[k])]);
        }
        return kept_;
    }

private:
    static constexpr char is_gone = 1;
    static constexpr char below_is_gone = 2;

    /// The data of each node.
    struct arrays {
        std::vector<node_id> parents;
        std::vector<token_id> tokens;
        std::vector<std::int32_t> depths;
        std::vector<std::int32_t> positions;
        std::vector<index_t> certain;
        std::vector<index_t> row;
        std::vector<node_id> shape_node;

        [[nodiscard]] node_id size() const noexcept { return static_cast<node_id>(parents.size()); }
        void reserve(std::size_t n) {
            for (auto* numbers : {&parents, &tokens, &depths, &positions, &certain, &row, &shape_node})
                numbers->reserve(n);
        }
        void clear() {
            for (auto* numbers : {&parents, &tokens, &depths, &positions, &certain, &row, &shape_node})
                numbers->clear();
        }
        void push(node_id parent, token_id token, std::int32_t depth, std::int32_t position, node_id like) {
            parents.push_back(parent);
            tokens.push_back(token);
            depths.push_back(depth);
            positions.push_back(position);
            certain.push_back(0);
            row.push_back(none);
            shape_node.push_back(like);
        }
        void push(arrays const& from, node_id v, node_id parent) {
            push(parent, from.tokens[at(v)], from.depths[at(v)], from.positions[at(v)], from.shape_node[at(v)]);
            row.back() = from.row[at(v)];
        }
    };

    static std::size_t at(node_id v) noexcept { return static_cast<std::size_t>(v); }

    [[nodiscard]] bool drawn(node_id v) const noexcept { return drawn_[at(v)] != 0; }
    [[nodiscard]] std::string count_of_nodes() const { return std::to_string(added_.size()) + " nodes"; }

    /// How many children a node has in the shape.
    [[nodiscard]] index_t wanted(node_id v) const {
        if (!has_shape_ || added_.shape_node[at(v)] == none || added_.depths[at(v)] >= depth_limit_) return 0;
        return shape_.child_count(added_.shape_node[at(v)]);
    }

    /// Which child of its parent a node is, in the order added.
    [[nodiscard]] index_t rank_of(node_id v) const {
        index_t rank = 0;
        if (added_.certain[at(added_.parents[at(v)])] > 0)
            for (node_id u = added_.parents[at(v)] + 1; u < v; ++u)
                rank += added_.parents[at(u)] == added_.parents[at(v)] ? 1 : 0;
        return rank;
    }

    [[nodiscard]] arrays const& current() const {
        if (is_arranged_) return arranged_;
        if (!in_order_)
            refuse("parents", "not in level order", "the nodes were added in another order: call arrange()");
        if (!complete_) refuse("parents", "some left out", "nodes were cut or dropped: call arrange()");
        return added_;
    }

    static void check_root(token_id root, std::int32_t position) {
        if (root < 0) refuse("root", root, "a token is not negative");
        if (position < 0) refuse("position", position, "a position in the text is not negative");
    }
    void check_node(node_id node) const {
        if (node < 0 || node >= added_.size()) refuse("node", node, "the tree has " + count_of_nodes());
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
        if (has_shape_ && fixed && size != wanted(node))
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
    void check_sharing(span<node_id const> nodes) const {
        for (std::size_t k = 0; k < nodes.size(); ++k) {
            check_undrawn(nodes[k]);
            auto const index = static_cast<std::int64_t>(k);
            if (added_.depths[at(nodes[k])] != added_.depths[at(nodes[0])])
                refuse("nodes", index, nodes[k], "nodes that share a list have one depth");
            for (std::size_t j = 0; j < k; ++j)
                if (nodes[j] == nodes[k]) refuse("nodes", index, nodes[k], "the node stands here twice");
        }
    }
    void check_room(node_id node, index_t children) const {
        if (children > max_nodes - added_.size()) refuse("count", children, "a tree has at most 2^24 nodes");
        if (added_.positions[at(node)] == std::numeric_limits<std::int32_t>::max())
            refuse("node", node, "the position of its children exceeds 2^31 - 1");
    }
    [[noreturn]] void refuse_undrawn(node_id v) const {
        refuse("node", v,
               "the shape has " + std::to_string(wanted(v)) + " children for this node and they were not drawn");
    }

    void begin(token_id root, std::int32_t position) {
        added_.clear();
        added_.push(none, root, 0, position, 0);
        drawn_.assign(1, 0);
        gone_.assign(1, 0);
        level_.clear();
        draft_parents_.clear();
        node_of_shape_.clear();
        draft_mask_.reset(std::max(capacity_, 1));
        masked_ = 0;
        seen_ = 0;
        rows_ = 0;
        depth_limit_ = 0;
        has_shape_ = false;
        is_arranged_ = false;
        in_order_ = true;
        complete_ = true;
    }

    /// Invalidates the arrangement.
    void change() noexcept {
        if (is_arranged_) masked_ = 0;
        is_arranged_ = false;
    }

    /// The inputs of `level_`, which count as read from now on.
    draft_inputs read_level() {
        index_t const first = rows_;
        batch_tokens_.clear();
        batch_positions_.clear();
        draft_parents_.clear();
        for (node_id const v : level_) {
            batch_tokens_.push_back(added_.tokens[at(v)]);
            batch_positions_.push_back(added_.positions[at(v)]);
            draft_parents_.push_back(v == 0 ? none : added_.row[at(added_.parents[at(v)])]);
            added_.row[at(v)] = rows_++;
        }
        if (!level_.empty()) change();
        draft_mask_.append(draft_parents_);
        return {level_, batch_tokens_, batch_positions_, first, draft_mask_.view().from_row(first)};
    }

    template <class Sampler, class Q, class Sums, class Source>
    node_range draw_children(node_id node, index_t count, Sampler const& sampler, Q const& q, Sums const& sums,
                             Source& source) {
        drawn_children const drawn = draw_list(node, count, sampler, q, sums, source);
        return append(node, span<token_id const>(children_).first(at(drawn.count)), drawn.certain);
    }

    /// Draws the children of a node into `children_`.
    template <class Sampler, class Q, class Sums, class Source>
    drawn_children draw_list(node_id node, index_t count, Sampler const& sampler, Q const& q, Sums const& sums,
                             Source& source) {
        static_assert(std::is_same_v<typename Sampler::law, law_of_list<Law>>,
                      "multidraft: this tree is for another law than the sampler's: name the sampler's law, such as "
                      "draft::tree_growth<draft::sequential::law>");
        if (count < 0) refuse("count", count, "a node has 0 children or more");
        check_room(node, count);
        children_.resize(at(count));
        drawn_children result;
        if (count > 0) {
            // Noise that is fixed by a position in the text uses the node's own position.
            constexpr bool by_text = is_addressed_by_text<Sampler>;
            draw_site const site{added_.positions[at(by_text ? node : 0)], node};
            result = sampler(host_group{}, q, sums, source, site, span<token_id>(children_));
        }
        return result;
    }

    node_range append(node_id node, span<token_id const> tokens, index_t certain) {
        node_range const children{added_.size(), static_cast<node_id>(tokens.size())};
        in_order_ = in_order_ && (tokens.empty() || node >= added_.parents.back());
        node_id const like = has_shape_ ? added_.shape_node[at(node)] : none;
        auto const of_shape = like == none ? node_range{} : shape_.children(like);
        index_t rank = first_rank(node);
        for (token_id const x : tokens) {
            node_id const child = added_.size();
            node_id const place = rank < of_shape.count ? of_shape.first + rank : none;
            added_.push(node, x, added_.depths[at(node)] + 1, added_.positions[at(node)] + 1, place);
            drawn_.push_back(0);
            gone_.push_back(0);
            if (place != none) node_of_shape_[at(place)] = child;
            ++rank;
        }
        added_.certain[at(node)] = certain;
        drawn_[at(node)] = 1;
        change();
        return children;
    }

    /// How many children a node has.
    [[nodiscard]] index_t first_rank(node_id node) const {
        index_t count = 0;
        if (child_by_child && drawn(node))
            for (node_id v = node + 1; v < added_.size(); ++v) count += added_.parents[at(v)] == node ? 1 : 0;
        return count;
    }

    arrays added_;     ///< in the order added
    arrays arranged_;  ///< in level order, where `is_arranged_`
    topology shape_;
    std::vector<char> drawn_;  ///< whether a node's children were drawn, by the number added
    std::vector<char> gone_;   ///< whether a node was removed, by the number added
    std::vector<node_id> level_, order_, place_, first_, next_;
    std::vector<node_id> draft_parents_;
    std::vector<node_id> node_of_shape_;
    std::vector<index_t> kept_;
    std::vector<token_id> batch_tokens_;
    std::vector<std::int32_t> batch_positions_;
    std::vector<token_id> children_;
    ancestor_mask mask_;
    ancestor_mask draft_mask_;  ///< over the nodes that the draft has read, in the order read
    node_id capacity_ = 1;
    node_id masked_ = 0;  ///< nodes in `mask_`
    node_id seen_ = 0;    ///< nodes that `next_level` has returned or skipped
    index_t rows_ = 0;    ///< nodes that the draft has read
    std::int32_t depth_limit_ = 0;
    bool has_shape_ = false;
    bool is_arranged_ = false;
    bool in_order_ = true;
    bool complete_ = true;  ///< nothing was cut or dropped
};

}  // namespace MULTIDRAFT_NAMESPACE::draft
