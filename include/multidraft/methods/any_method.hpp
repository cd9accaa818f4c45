// Methods chosen by name at run time: a sampler and a verifier behind one small value.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/group/optional_members.hpp"
#include "multidraft/law/drafted.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/methods/list.hpp"
#include "multidraft/random/address.hpp"
#include "multidraft/random/draw_site.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/rows/remembered_rows.hpp"
#include "multidraft/rows/row_source.hpp"
#include "multidraft/rows/row_view.hpp"
#include "multidraft/rows/sampling_params.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/rows/target_and_draft.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/detail/checks.hpp"
#include "multidraft/verify/no_draft_rows.hpp"
#include "multidraft/verify/node_by_node.hpp"
#include "multidraft/verify/takes_law.hpp"
#include "multidraft/verify/verdict.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The randomness of one step of one request: it makes every draw of the step a pure function of its address.
struct draw_key {
    std::uint64_t seed = 0;
    std::uint32_t request = 0;  ///< distinguishes requests with the same seed
    std::int32_t position = 0;  ///< of the tree's root in the text

    friend bool operator==(draw_key const&, draw_key const&) = default;
};

/// The node whose children are drawn.
struct parent_node {
    node_id node = 0;
    std::int32_t depth = 0;   ///< levels below the root
    index_t first_child = 0;  ///< for law `independent` only: the index of the first child drawn by this call
};

/// A draft tree whose law is known at run time: the counterpart of `drafted<Law>`.
struct any_drafted {
    tree_view tree;
    /// One number for each node, as returned by the sampler; not read for laws without certain children.
    span<index_t const> certain;
    /// How the children were drawn: `law_name()` of the method that drew them, or "shared_lists/" and that name where
    /// several nodes have the same list (`law::shared_lists`).
    std::string_view law;
};

namespace detail {

inline constexpr std::string_view prefix_of_shared_lists = "shared_lists/";

/// Whether a law at run time is that of shared lists.
[[nodiscard]] inline bool is_of_shared_lists(std::string_view law) noexcept {
    return law.substr(0, prefix_of_shared_lists.size()) == prefix_of_shared_lists;
}

/// A method with a summary for users.
template <class Method>
concept has_summary = requires {
    { Method::summary } -> std::convertible_to<std::string_view>;
};

template <class Method>
inline constexpr bool of_several_drafts = std::is_same_v<typename Method::law, law::independent>;

/// Whether a verifier reads rows more than once: all except those that decide node by node.
template <class Method>
inline constexpr bool asks_again = !verify::decides_by_node<typename Method::verifier> &&
                                   !std::is_same_v<typename Method::verifier, verify::shared_randomness>;

/// The properties of a method that do not depend on rows.
struct method_facts {
    std::string_view name;
    std::string_view summary;
    std::string_view law;
    allowed_trees trees;
    bool lossless;
    bool reads_draft;
    bool counts_certain;
    bool several_drafts;
    bool lists_may_be_shared;
    std::size_t (*scratch_bytes)(node_id nodes, std::int32_t depth);
};

template <class Method>
constexpr method_facts facts_of() {
    std::string_view summary;
    if constexpr (has_summary<Method>) summary = Method::summary;
    return {Method::name,
            summary,
            Method::law::name,
            Method::trees,
            Method::verifier::lossless,
            verify::reads_draft<typename Method::verifier>,
            counts_certain<typename Method::law>,
            of_several_drafts<Method>,
            verify::lists_may_be_shared<typename Method::verifier>,
            [](node_id nodes, std::int32_t depth) {
                return verify::scratch_bytes<typename Method::verifier>(nodes, depth);
            }};
}

/// An array for a list: the value of `Of<Method>` for each of its methods.
template <class... Methods>
struct facts_of_methods {
    static constexpr std::array<method_facts, sizeof...(Methods)> facts{facts_of<Methods>()...};
    static constexpr std::array<std::string_view, sizeof...(Methods)> names{Methods::name...};
};

/// The rows of several draft models: child k of a node was drawn from model k modulo their number.
template <class Rows>
struct rows_of_several {
    span<Rows const> models;

    [[nodiscard]] index_t rows() const {
        index_t fewest = models[0].rows();
        for (Rows const& model : models) fewest = std::min(fewest, model.rows());
        return fewest;
    }
    [[nodiscard]] index_t size() const { return models[0].size(); }
    template <group G>
    [[nodiscard]] auto operator()(G const& g, node_id node, index_t k) const {
        return models[static_cast<std::size_t>(k) % models.size()](g, node);
    }
};

template <class Row, class Sums>
struct draw_of {
    using function = drawn_children (*)(Row const& q, Sums const& sums, draw_key const& key, parent_node const& parent,
                                        span<token_id> out);

    template <class Method>
    static drawn_children by(Row const& q, Sums const& sums, draw_key const& key, parent_node const& parent,
                             span<token_id> out) {
        host_group const g;
        addressed_source source{addressed_uniforms(key.seed, key.request)};
        if constexpr (of_several_drafts<Method>) {
            draw_site const site{key.position, parent.node};
            if (!can_draw(sums)) return {};
            for (std::size_t k = 0; k < out.size(); ++k) {
                index_t const child = parent.first_child + static_cast<index_t>(k);
                index_t const x = source.categorical(g, sums, q.size(), weight_of{q}, {}, site(purpose::draft, child));
                if (x == none) return {static_cast<index_t>(k)};
                out[k] = x;
            }
            return {static_cast<index_t>(out.size())};
        } else {
            using sampler = typename Method::sampler;
            if (parent.first_child != 0)
                refuse("parent.first_child", parent.first_child,
                       std::string(Method::name) + " draws the children of a node together");
            std::int32_t const levels = is_addressed_by_text<sampler> ? parent.depth : 0;
            return sampler{}(g, q, sums, source, draw_site{key.position + levels, parent.node}, out);
        }
    }

    template <class... Methods>
    struct table {
        static constexpr std::array<function, sizeof...(Methods)> functions{&by<Methods>...};
    };
};

template <class Target, class Draft>
struct verify_of {
    using function = verdict (*)(any_drafted const& drafts, Target const& target, span<Draft const> draft,
                                 draw_key const& key, span<node_id> path, span<std::byte> scratch);

    template <class Method>
    static verdict by(any_drafted const& drafts, Target const& target, span<Draft const> draft, draw_key const& key,
                      span<node_id> path, span<std::byte> scratch) {
        if constexpr (!verify::reads_draft<typename Method::verifier>) {
            return call<Method>(drafts, target, verify::no_draft_rows{}, key, path, scratch);
        } else if constexpr (std::is_same_v<Draft, verify::no_draft_rows>) {
            refuse("draft", "unread", std::string(Method::name) + " reads the draft's rows");
        } else if constexpr (of_several_drafts<Method>) {
            if (draft.empty()) refuse("draft.size", 0, "there are the rows of one draft model or more");
            for (std::size_t k = 1; k < draft.size(); ++k)
                if (draft[k].size() != draft[0].size())
                    refuse("draft", static_cast<std::int64_t>(k), draft[k].size(),
                           "all draft models have one vocabulary");
            return call<Method>(drafts, target, rows_of_several<Draft>{draft}, key, path, scratch);
        } else {
            if (draft.size() != 1)
                refuse("draft.size", draft.size(), std::string(Method::name) + " is for the rows of one draft model");
            return call<Method>(drafts, target, draft[0], key, path, scratch);
        }
    }

    template <class... Methods>
    struct table {
        static constexpr std::array<function, sizeof...(Methods)> functions{&by<Methods>...};
    };

private:
    template <class Method, class Rows>
    static verdict call(any_drafted const& drafts, Target const& target, Rows const& draft, draw_key const& key,
                        span<node_id> path, span<std::byte> scratch) {
        addressed_source source{addressed_uniforms(key.seed, key.request)};
        return verify::verify_tree(typename Method::verifier{}, host_group{},
                                   make_drafted<typename Method::law>(drafts.tree, drafts.certain), target_rows(target),
                                   draft_rows(draft), source, key.position, path, scratch);
    }
};

/// The edit distance between a and b.
inline std::size_t edits(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            std::size_t const replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
        }
    }
    return row[b.size()];
}

/// Throws `invalid_input` for a name that is not in `names`, listing the nearest ones.
[[noreturn]] inline void refuse_name(std::string_view name, std::span<std::string_view const> names) {
    constexpr std::size_t longest = 100;
    constexpr std::size_t most = 3;
    std::string const shown(name.substr(0, longest));
    std::vector<std::size_t> distance;
    for (std::string_view const other : names)
        distance.push_back(other.find(shown) == std::string_view::npos ? edits(shown, other) : 0);
    std::string list;
    for (std::size_t k = 0; k < std::min(most, names.size()); ++k) {
        auto const best = std::min_element(distance.begin(), distance.end());
        list += (k == 0 ? "" : ", ") + std::string(names[static_cast<std::size_t>(best - distance.begin())]);
        *best = static_cast<std::size_t>(-1);
    }
    refuse("name", shown, "no method has this name; the nearest are " + list + " (method_names() has all)");
}

/// Rows that are normalised at each read, and can be remembered.
template <class Rows>
concept made_each_time = has_with_sums<Rows, host_group> && std::default_initializable<row_of<Rows, host_group>>;

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

/// The memory of `method_memory` for one kind of rows: nothing for rows that need no normalising.
template <class Rows>
struct memory_of_rows {};
template <made_each_time Rows>
struct memory_of_rows<Rows> : row_memory<typename remembered_rows<Rows>::row> {};

/// The rows as they are, or remembered.
template <class Rows>
[[nodiscard]] auto remember(Rows const& rows, [[maybe_unused]] memory_of_rows<Rows>& memory) {
    if constexpr (made_each_time<Rows>)
        return remembered_rows<Rows>(rows, memory);
    else
        return rows;
}

}  // namespace detail

/// Owned memory for `any_method::verify`: it grows as needed and is reused by later calls of any method. For one thread
/// at a time.
template <class Target, class Draft = Target>
class method_memory {
public:
    verify::scratch_memory scratch;
    detail::memory_of_rows<Target> target;
    detail::memory_of_rows<Draft> draft;
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
    [[nodiscard]] static std::span<std::string_view const> names() noexcept { return of_all::names; }

    /// The method with this name. Throws `invalid_input` naming `name`, with the nearest names, when none has it.
    [[nodiscard]] static any_method_of parse(std::string_view name) {
        for (std::size_t k = 0; k < count; ++k)
            if (of_all::names[k] == name) return any_method_of(k);
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
        using table = typename List::template as<detail::draw_of<Row, Sums>::template table>;
        check(key, parent, out.size());
        return table::functions[index_](q, sums, key, parent, out);
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

    /// The same from a row of probabilities. Throws for a row without mass, with infinite mass, or with NaN; `validate`
    /// detects other faults of a row.
    template <class T, class Layout>
    [[nodiscard]] drawn_children draw(probabilities<T, Layout> const& q, draw_key const& key, parent_node const& parent,
                                      span<token_id> out) const {
        check(key, parent, out.size());
        validate_row_size(q.size(), "draft");
        host_group const g;
        auto sums = g.sum_chunks(q.size(), weight_of{q});
        if (!(sums.total > 0 && sums.total <= largest_number<real_of<T>>))
            verify::detail::check_row(g, q, "draft", parent.node);
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
    /// accept, rows that do not fit or are not distributions, and tokens that cannot have been drawn. So do a path that
    /// is too short, and scratch that is misaligned or too small; the message states the size needed.
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
        using table = typename List::template as<detail::verify_of<std::remove_cvref_t<Target>, model>::template table>;
        check_law(drafts);
        return table::functions[index_](drafts, target.rows, models, key, path, scratch);
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
        using table = typename List::template as<
            with_memory<std::remove_cvref_t<Target>, std::remove_cvref_t<Draft>>::template table>;
        return table::functions[index_](drafts, target.rows, draft.rows, key, path, scratch, memory);
    }

    friend bool operator==(any_method_of const&, any_method_of const&) = default;

private:
    using of_all = typename List::template as<detail::facts_of_methods>;

    /// Verifying with rows that are remembered if the method reads them again.
    template <class Target, class Draft>
    struct with_memory {
        using function = verdict (*)(any_drafted const& drafts, Target const& target, Draft const& draft,
                                     draw_key const& key, span<node_id> path, span<std::byte> scratch,
                                     method_memory<Target, Draft>& memory);

        template <class Method>
        static verdict by(any_drafted const& drafts, Target const& target, Draft const& draft, draw_key const& key,
                          span<node_id> path, span<std::byte> scratch, method_memory<Target, Draft>& memory) {
            if constexpr (detail::asks_again<Method>) {
                auto const p = detail::remember(target, memory.target);
                auto const q = detail::remember(draft, memory.draft);
                using verifying = detail::verify_of<std::decay_t<decltype(p)>, std::decay_t<decltype(q)>>;
                return verifying::template by<Method>(drafts, p, {&q, 1}, key, path, scratch);
            } else {
                return detail::verify_of<Target, Draft>::template by<Method>(drafts, target, {&draft, 1}, key, path,
                                                                             scratch);
            }
        }

        /// One function for each method of the list.
        template <class... Methods>
        struct table {
            static constexpr std::array<function, sizeof...(Methods)> functions{&by<Methods>...};
        };
    };

    explicit constexpr any_method_of(std::size_t index) noexcept : index_(index) {}

    [[nodiscard]] detail::method_facts const& facts() const noexcept { return of_all::facts[index_]; }

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
