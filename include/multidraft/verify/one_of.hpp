// Several verifiers of one law; a number selects which one verifies the next tree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/row_source.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/verdict.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

/// For each tree the verifier with that number, counted from 0. The number belongs to the caller and may change between
/// trees, depending on anything that happened before the tree's draws. Lossless if all the verifiers are. On the host.
template <verifier First, verifier... Others>
class one_of {
    static_assert((std::is_same_v<typename First::law, typename Others::law> && ...),
                  "multidraft: a tree has one law: verifiers to choose from are for the same one");

public:
    using law = typename First::law;
    static constexpr verifier_traits traits{
        .lossless = is_lossless<First> && (is_lossless<Others> && ...),
        .reads_draft = verify::reads_draft<First> || (verify::reads_draft<Others> || ...),
        // What all of them take alike; where they differ, each refuses what it does not take.
        .trees = ((trees_of<Others> == trees_of<First>)&&...) ? trees_of<First> : allowed_trees::any,
        .draws = ((Others::traits.draws == First::traits.draws) && ...) ? First::traits.draws : allowed_draws::any,
        .most_children =
            ((Others::traits.most_children == First::traits.most_children) && ...) ? First::traits.most_children : 0,
        .lists_may_be_shared = verify::lists_may_be_shared<First> && (verify::lists_may_be_shared<Others> && ...),
        .shape_may_depend_on = std::min({verify::shape_may_depend_on<First>, verify::shape_may_depend_on<Others>...})};

    /// `number` must outlive this object.
    explicit one_of(std::int32_t const& number) noexcept : number_(&number) {}
    explicit one_of(std::int32_t const&&) = delete;  // a temporary would not outlive the constructor

    /// The maximum over the verifiers.
    [[nodiscard]] static constexpr std::size_t scratch_bytes(node_id nodes, std::int32_t depth) {
        return std::max({verify::scratch_bytes<First>(nodes, depth), verify::scratch_bytes<Others>(nodes, depth)...});
    }

    /// Verifies one tree; see `whole_tree::operator()` for the arguments and the errors, and throws `invalid_input`
    /// if there is no verifier with that number.
    template <group G, draft_law Drawn, class Target, class Draft, draw_source Source>
    verdict operator()(G const& g, drafted<Drawn> const& tree, target_rows<Target> const& target,
                       draft_rows<Draft> const& draft, Source& source, std::int32_t position, span<node_id> path,
                       span<std::byte> scratch) const {
        std::int32_t const number = *number_;
        std::int32_t at = 0;
        verdict result;
        auto const is_it = [&](auto const& one) {
            if (at++ != number) return false;
            result = verify_tree(one, g, tree, target, draft, source, position, path, scratch);
            return true;
        };
        if (!std::apply([&](auto const&... all) { return (is_it(all) || ...); }, verifiers_))
            refuse("number", number, "there are " + std::to_string(1 + sizeof...(Others)) + " verifiers");
        return result;
    }

private:
    std::int32_t const* number_;
    std::tuple<First, Others...> verifiers_;
};

}  // namespace MULTIDRAFT_NAMESPACE::verify
