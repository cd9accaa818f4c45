// Bug: the best of several paths is verified as if it had the law of a single one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bugs/plain_rejection.hpp"
#include "multidraft/verify/block.hpp"
#include "multidraft/verify/verifier.hpp"

namespace multidraft::bugs {

/// Keeps the largest path by p/q and passes it to block verification with the draft's own rows.
struct multi_path_with_draft_law : verify::whole_tree<multi_path_with_draft_law, multidraft::law::iid> {
    static constexpr multidraft::verify::verifier_traits traits{};
    template <class G, class Target, class Draft, class Source>
    verdict decide_tree(G const& g, drafted<law> const& drafts, Target const& target, Draft const& draft,
                        Source& source, std::int32_t position, span<node_id> path) const {
        tree_view const tree = drafts.tree;
        node_id const paths = tree.children(0).count;
        std::vector<node_id> nodes{0};
        std::vector<token_id> tokens{0};
        std::vector<node_id> parents{none};
        std::vector<node_id> alive;
        for (node_id k = 0; k < paths; ++k) alive.push_back(1 + k);
        while (!alive.empty() && alive.back() < tree.size()) {
            node_id best = alive.front();
            auto const ratio = [&](node_id v) {
                token_id const x = tree.tokens[at(v)];
                return target(g, nodes.back())(x) / draft(g, nodes.back())(x);
            };
            for (node_id const v : alive)
                if (ratio(v) > ratio(best)) best = v;
            std::vector<node_id> next;
            for (node_id const v : alive)
                if (tree.tokens[at(v)] == tree.tokens[at(best)]) next.push_back(v + paths);
            parents.push_back(static_cast<node_id>(nodes.size()) - 1);
            nodes.push_back(best);
            tokens.push_back(tree.tokens[at(best)]);
            alive = next;
        }
        struct rows_of_path {
            G const& group;
            decltype(target)& rows_of;
            std::vector<node_id> const& where;
            [[nodiscard]] index_t rows() const { return static_cast<index_t>(where.size()); }
            [[nodiscard]] index_t size() const { return rows_of.size(); }
            auto operator()(G const&, node_id v) const { return rows_of(group, where[at(v)]); }
        };
        struct draft_of_path {
            G const& group;
            decltype(draft)& rows_of;
            std::vector<node_id> const& where;
            [[nodiscard]] index_t rows() const { return static_cast<index_t>(where.size()); }
            [[nodiscard]] index_t size() const { return rows_of.size(); }
            auto operator()(G const&, node_id v) const { return rows_of(group, where[at(v)]); }
        };
        std::vector<std::byte> scratch(verify::block<law>::scratch_bytes(0, static_cast<std::int32_t>(nodes.size())));
        std::vector<node_id> levels(nodes.size());
        verdict const result = verify::block<law>{}(
            g, drafted<law>{tree_view{parents, tokens}}, target_rows(rows_of_path{g, target, nodes}),
            draft_rows(draft_of_path{g, draft, nodes}), source, position, levels, span<std::byte>(scratch));
        // The nodes of the kept path in one column: that of the last accepted one.
        node_id v = result.accepted > 0 ? nodes[at(result.accepted)] : 0;
        for (std::int32_t k = result.accepted; k-- > 0; v = tree.parents[at(v)]) path[at(k)] = v;
        return result;
    }
};

}  // namespace multidraft::bugs
