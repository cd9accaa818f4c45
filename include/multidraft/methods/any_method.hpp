// Methods chosen by name at run time: a sampler and a verifier behind one small value.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/methods/list.hpp"
#include "multidraft/methods/method_calls.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/rows/remembered_rows.hpp"
#include "multidraft/rows/row_source.hpp"
#include "multidraft/rows/row_view.hpp"
#include "multidraft/rows/sampling_params.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/tree/allowed_trees.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/detail/checks.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/verdict.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace detail {

inline constexpr std::string_view prefix_of_shared_lists = "shared_lists/";

/// Whether a law at run time is that of shared lists.
[[nodiscard]] inline bool is_of_shared_lists(std::string_view law) noexcept {
    return law.substr(0, prefix_of_shared_lists.size()) == prefix_of_shared_lists;
}

/// The rows of the draft models: of one, of several, or of none.
template <class Draft>
[[nodiscard]] span<Draft const> models_of(Draft const& draft) noexcept {
    return {&draft, 1};
}
template <class Draft>
[[nodiscard]] span<Draft const> models_of(span<Draft const> drafts) noexcept {
    return drafts;
}
[[nodiscard]] inline span<verify::no_draft_rows const> models_of(verify::no_draft_rows const& /*none*/) noexcept {
    return {};
}

}  // namespace detail

/// Owned memory for `any_method::verify`: it grows as needed and is reused by later calls of any method. For one thread
/// at a time.
template <class Target, class Draft = Target>
class method_memory {
public:
    verify::scratch_memory scratch;
    row_memory<Target> target;  ///< empty for rows that need no normalising
    row_memory<Draft> draft;
};

/// One of the methods of a list, chosen by name: its sampler and its verifier with their defaults, on the host.
///
/// Holds an index only: copies are free, nothing is allocated, and a call goes through a table. Drawing and verifying
/// take the same decisions, bit for bit, as the sampler and the verifier themselves. The tables are made from the list,
/// one for each type of rows that a program calls `draw` and `verify` with, and each compiles every method of the list,
/// which takes long. So include this header, which includes all samplers and verifiers, in one source file, and use few
/// types of rows there, or your own short list, `any_method_of<method_list<..>>`.
template <class List>
class any_method_of {
public:
    static constexpr std::size_t count = List::size;

    /// The first method of the list.
    any_method_of() = default;

    /// The names of all methods, in the list's order.
    [[nodiscard]] static std::span<std::string_view const> names() noexcept { return all_names; }

    /// The method with this name. Throws `invalid_input` naming `name`, with the nearest names, when none has it.
    [[nodiscard]] static any_method_of parse(std::string_view name) {
        for (std::size_t k = 0; k < count; ++k)
            if (all_names[k] == name) return any_method_of(k);
        detail::refuse_name(name, names());
    }

    /// Its index in `names()`.
    [[nodiscard]] std::size_t index() const noexcept { return index_; }
    /// The name that `parse` takes, such as "nested_ranked_block/stratified".
    [[nodiscard]] std::string_view name() const noexcept { return facts().name; }
    /// One line for users; empty where the list has none.
    [[nodiscard]] std::string_view summary() const noexcept { return facts().summary; }
    /// The law by which the children of a node are drawn.
    [[nodiscard]] std::string_view law_name() const noexcept { return facts().law; }
    /// The trees that it accepts.
    [[nodiscard]] allowed_trees trees() const noexcept { return facts().trees; }
    /// Whether the output has the target's law.
    [[nodiscard]] bool is_lossless() const noexcept { return facts().lossless; }
    /// Whether verifying reads rows of the draft; if not, `verify::no_draft_rows{}` may be passed for them.
    [[nodiscard]] bool reads_draft() const noexcept { return facts().reads_draft; }
    /// Whether trees carry how many children of each node are certain (`any_drafted::certain`).
    [[nodiscard]] bool counts_certain() const noexcept { return facts().counts_certain; }
    /// Whether each child of a node is drawn from its own draft model (law `independent`).
    [[nodiscard]] bool of_several_drafts() const noexcept { return facts().several_drafts; }
    /// Whether it takes trees in which several nodes have the same list of children (`law::shared_lists`).
    [[nodiscard]] bool lists_may_be_shared() const noexcept { return facts().lists_may_be_shared; }
    /// Whether it verifies trees of this law: its own, or its own with shared lists where it allows them.
    [[nodiscard]] bool takes_law(std::string_view law) const noexcept {
        if (!detail::is_of_shared_lists(law)) return law == law_name();
        return lists_may_be_shared() && law.substr(detail::prefix_of_shared_lists.size()) == law_name();
    }

    /// Bytes that `verify` needs for trees of up to `nodes` nodes (root included) and `depth` levels below the root,
    /// for rows of any type: 0 for many methods, nondecreasing in both arguments, a multiple of 16. Throws
    /// `invalid_input` for numbers impossible for a tree.
    [[nodiscard]] std::size_t scratch_bytes(node_id nodes, std::int32_t depth) const {
        if (nodes < 1 || nodes > max_nodes) refuse("nodes", nodes, "a tree has 1 to 2^24 nodes");
        if (depth < 0 || depth >= nodes) refuse("depth", depth, "a tree has fewer levels below its root than nodes");
        return facts().scratch_bytes(nodes, depth);
    }

    /// Draws up to `out.size()` children of one node from the draft's distribution after it, writes them in the order
    /// drawn and returns how many there are and how many are certain. `sums` are the chunk sums of the row's weights.
    /// Fewer than `out.size()` mean that the draft's support was exhausted; the remaining entries
    /// of `out` are unspecified.
    ///
    /// All methods draw node by node. Two kinds need more. The sequences of `../sequences` share nodes while they
    /// agree: `draft::share_nodes` returns which children continue, and for how many sequences. For law `independent`
    /// child k comes from draft model k, so there is one call for each model, with the index of the child in
    /// `parent.first_child`.
    ///
    /// Throws `invalid_input` for an impossible node, and as the sampler does.
    template <distribution Row, class Sums>
    [[nodiscard]] drawn_children draw(Row const& q, Sums const& sums, draw_key const& key, parent_node const& parent,
                                      span<token_id> out) const {
        check(key, parent, out.size());
        return detail::table_of<detail::draw_of<Row, Sums>, List>[index_](q, sums, key, parent, out);
    }

    /// The same from a row of logits, to which `w` is applied (see `process_logits`). Throws for a row that is not
    /// a distribution.
    template <class T, class Layout>
    [[nodiscard]] drawn_children draw(row_view<T, Layout> logits, sampling_params const& w, draw_key const& key,
                                      parent_node const& parent, span<token_id> out) const {
        check(key, parent, out.size());
        auto q = process_logits(host_group{}, logits, w);
        return draw(q.row, q.sums, key, parent, out);
    }

    /// The same from a row of probabilities. Throws for a row whose sum is not 1; `validate` detects other faults of a
    /// row.
    template <class T, class Layout>
    [[nodiscard]] drawn_children draw(probabilities<T, Layout> const& q, draw_key const& key, parent_node const& parent,
                                      span<token_id> out) const {
        check(key, parent, out.size());
        validate_row_size(q.size(), "draft");
        host_group const g;
        auto sums = g.sum_chunks(q.size(), weight_of{q});
        // Doubles may have been computed as floats.
        if (!(std::abs(static_cast<double>(sums.total) - 1.0) <= std::max(sum_tolerance<T>, sum_tolerance<float>))) {
            verify::detail::check_row(g, q, "draft", parent.node);
            refuse("draft", parent.node, sums.total, "the probabilities of a row sum to 1");
        }
        return draw(q, sums, key, parent, out);
    }

    /// Verifies one tree: writes the accepted nodes to `path`, which is at least as long as the tree is deep, and
    /// returns how many there are and the token that follows.
    ///
    /// - `drafts`: in level order (see `tree_view`), with this method's law;
    /// - `target`: `target_rows(p)`, one row for each node: `logit_rows`, `probability_rows` or any `row_source`;
    /// - `draft`: `draft_rows(q)`, one row for each node with children; they may have another type. A span of such rows
    ///   for law `independent`: child k of a node was drawn from model k modulo the number of models.
    ///   `draft_rows(verify::no_draft_rows{})` for methods that read none;
    /// - `scratch`: `scratch_bytes(..)` bytes or more, aligned to 16, of any content.
    ///
    /// Throws `invalid_input`, before `path` is changed, for a tree of another law, a shape that the method does not
    /// accept, rows that do not fit, rows that have NaN, infinite or no mass where a decision reads them, and tokens
    /// that cannot have been drawn. So do a path that is too short, and scratch that is misaligned or too small; the
    /// message states the size needed. That rows of probabilities sum to 1 is not checked: `validate` does.
    ///
    /// Nothing is allocated. Methods of whole trees read a row more than once; rows of logits are then normalised again
    /// (the overload with `method_memory` remembers them).
    template <class Target, class Draft>
    requires row_source<std::remove_cvref_t<Target>, host_group>
    [[nodiscard]] verdict verify(any_drafted const& drafts, target_rows<Target> const& target,
                                 draft_rows<Draft> const& draft, draw_key const& key, span<node_id> path,
                                 span<std::byte> scratch) const {
        auto const models = detail::models_of(draft.rows);
        using model = std::remove_const_t<typename decltype(models)::element_type>;
        using calls = detail::verify_of<std::remove_cvref_t<Target>, model>;
        check_law(drafts);
        return detail::table_of<calls, List>[index_](drafts, target.rows, models, key, path, scratch);
    }

    /// The same with owned memory, which also remembers rows of logits: each is normalised once, however often a method
    /// of whole trees reads it. Allocates when a tree is larger than any before.
    template <class Target, class Draft>
    requires row_source<std::remove_cvref_t<Target>, host_group> && row_source<std::remove_cvref_t<Draft>, host_group>
    [[nodiscard]] verdict verify(any_drafted const& drafts, target_rows<Target> const& target,
                                 draft_rows<Draft> const& draft, draw_key const& key, span<node_id> path,
                                 method_memory<std::remove_cvref_t<Target>, std::remove_cvref_t<Draft>>& memory) const {
        check_law(drafts);
        validate_tree(drafts.tree.parents);
        node_id const nodes = drafts.tree.size();
        if (target.rows.rows() < nodes) refuse("target.rows", target.rows.rows(), "there is one target row per node");
        if (draft.rows.rows() < 0)
            refuse("draft.rows", draft.rows.rows(), "there is one draft row per node with children");
        span<std::byte> const scratch = memory.scratch.of(scratch_bytes(nodes, drafts.tree.depth(nodes - 1)));
        using calls = detail::verify_remembering<std::remove_cvref_t<Target>, std::remove_cvref_t<Draft>>;
        return detail::table_of<calls, List>[index_](drafts, target.rows, draft.rows, key, path, scratch, memory.target,
                                                     memory.draft);
    }

    friend bool operator==(any_method_of const&, any_method_of const&) = default;

private:
    static constexpr std::array<detail::method_facts, count> all = detail::facts_of_list(List{});
    static constexpr std::array<std::string_view, count> all_names = [] {
        std::array<std::string_view, count> result;
        for (std::size_t k = 0; k < count; ++k) result[k] = all[k].name;
        return result;
    }();

    explicit constexpr any_method_of(std::size_t index) noexcept : index_(index) {}

    [[nodiscard]] detail::method_facts const& facts() const noexcept { return all[index_]; }

    static void check(draw_key const& key, parent_node const& parent, std::size_t wanted) {
        if (parent.node < 0 || parent.node >= max_nodes) refuse("parent.node", parent.node, "a node is in [0, 2^24)");
        if (parent.depth < 0 || parent.depth > parent.node)
            refuse("parent.depth", parent.depth, "a node has no more levels above it than its number");
        if (key.position > largest_number<std::int32_t> - parent.depth)
            refuse("key.position", key.position, "the positions of the tree's nodes exceed 2^31 - 1");
        if (parent.first_child < 0 || parent.first_child >= max_nodes)
            refuse("parent.first_child", parent.first_child, "a child is in [0, 2^24)");
        if (wanted > static_cast<std::size_t>(max_nodes))
            refuse("out.size", wanted, "a node has at most 2^24 children");
    }

    void check_law(any_drafted const& drafts) const {
        if (takes_law(drafts.law)) return;
        std::string const shared = detail::is_of_shared_lists(drafts.law) && !lists_may_be_shared()
                                       ? ", whose nodes have lists of their own"
                                       : "";
        refuse("drafts.law", "'" + std::string(drafts.law) + "'",
               std::string(name()) + " verifies trees of law '" + std::string(law_name()) + "'" + shared);
    }

    std::size_t index_ = 0;
};

/// Any method for engines; the default is the library's default method.
using any_method = any_method_of<methods::for_engines>;

/// The method with this name, such as "nested_ranked_block/stratified". Throws `invalid_input` naming `name`, with the
/// nearest names, if there is none.
[[nodiscard]] inline any_method parse_method(std::string_view name) { return any_method::parse(name); }

/// The names that `parse_method` takes, in the order of the list; the first is the default.
[[nodiscard]] inline std::span<std::string_view const> method_names() { return any_method::names(); }

}  // namespace MULTIDRAFT_NAMESPACE
