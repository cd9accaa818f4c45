// What the methods of a list do, behind pointers to functions: one for each method and type of rows.
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
#include "multidraft/base/span.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/methods/list.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/rows/remembered_rows.hpp"
#include "multidraft/rows/row_source.hpp"
#include "multidraft/tree/allowed_trees.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/shared_randomness.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/verdict.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::detail {

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

/// Why a method refuses something: its name, and what it does.
[[nodiscard]] MULTIDRAFT_COLD inline std::string reason_of(std::string_view name, std::string_view what) {
    std::string text(name);
    text += ' ';
    text += what;
    return text;
}

/// Throws `invalid_input` for a name that is not in `names`, listing the nearest ones.
[[noreturn]] MULTIDRAFT_COLD inline void refuse_name(std::string_view name, std::span<std::string_view const> names) {
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

}  // namespace MULTIDRAFT_NAMESPACE::detail

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

/// `Of::by<Method>` for each method of a list, by its index.
template <class Of, class... Methods>
[[nodiscard]] constexpr std::array<typename Of::function, sizeof...(Methods)> functions_of(method_list<Methods...>) {
    return {&Of::template by<Methods>...};
}
template <class Of, class List>
inline constexpr auto table_of = functions_of<Of>(List{});

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
            Method::law::traits.name,
            Method::trees,
            Method::verifier::traits.lossless,
            verify::reads_draft<typename Method::verifier>,
            counts_certain<typename Method::law>,
            of_several_drafts<Method>,
            verify::lists_may_be_shared<typename Method::verifier>,
            [](node_id nodes, std::int32_t depth) {
                return verify::scratch_bytes<typename Method::verifier>(nodes, depth);
            }};
}

/// The facts of the methods of a list.
template <class... Methods>
[[nodiscard]] constexpr std::array<method_facts, sizeof...(Methods)> facts_of_list(method_list<Methods...>) {
    return {facts_of<Methods>()...};
}

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
                       detail::reason_of(Method::name, "draws the children of a node together"));
            std::int32_t const levels = sampler::law::traits.addressed_by_text ? parent.depth : 0;
            return sampler{}(g, q, sums, source, draw_site{key.position + levels, parent.node}, out);
        }
    }
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
            refuse("draft", "unread", detail::reason_of(Method::name, "reads the draft's rows"));
        } else if constexpr (of_several_drafts<Method>) {
            if (draft.empty()) refuse("draft.size", 0, "there are the rows of one draft model or more");
            for (std::size_t k = 1; k < draft.size(); ++k)
                if (draft[k].size() != draft[0].size())
                    refuse("draft", static_cast<std::int64_t>(k), draft[k].size(),
                           "all draft models have one vocabulary");
            return call<Method>(drafts, target, rows_of_models<Draft>(draft), key, path, scratch);
        } else {
            if (draft.size() != 1)
                refuse("draft.size", draft.size(),
                       detail::reason_of(Method::name, "is for the rows of one draft model"));
            return call<Method>(drafts, target, draft[0], key, path, scratch);
        }
    }

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

/// The same with rows that are remembered if the method reads them again.
template <class Target, class Draft>
struct verify_remembering {
    using function = verdict (*)(any_drafted const& drafts, Target const& target, Draft const& draft,
                                 draw_key const& key, span<node_id> path, span<std::byte> scratch,
                                 row_memory<Target>& of_target, row_memory<Draft>& of_draft);

    template <class Method>
    static verdict by(any_drafted const& drafts, Target const& target, Draft const& draft, draw_key const& key,
                      span<node_id> path, span<std::byte> scratch, [[maybe_unused]] row_memory<Target>& of_target,
                      [[maybe_unused]] row_memory<Draft>& of_draft) {
        if constexpr (asks_again<Method>) {
            auto const p = remember(target, of_target);
            auto const q = remember(draft, of_draft);
            using verifying = verify_of<std::decay_t<decltype(p)>, std::decay_t<decltype(q)>>;
            return verifying::template by<Method>(drafts, p, {&q, 1}, key, path, scratch);
        } else {
            return verify_of<Target, Draft>::template by<Method>(drafts, target, {&draft, 1}, key, path, scratch);
        }
    }
};

}  // namespace detail

}  // namespace MULTIDRAFT_NAMESPACE
