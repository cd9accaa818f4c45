// Bug: draws that must be independent come from one uniform, and the addresses show it.
#pragma once

#include "bugs/plain_rejection.hpp"

namespace multidraft::bugs {

/// The index of the candidate is left out of the address, so that all candidates of a node share one draw.
template <draft_law Law>
struct one_coin_a_node : verify::node_by_node<one_coin_a_node<Law>, Law> {
    static constexpr multidraft::verify::verifier_traits traits{};
    template <group G, distribution P, distribution Q, draw_source Source>
    [[nodiscard]] verify::node_verdict decide(G const& g, P const& p, Q const& q, span<token_id const> candidates,
                                              Source& source, draw_site site) const {
        auto r = copy_of(p);
        auto d = copy_of(q);
        for (std::size_t k = 0; k < candidates.size(); ++k) {
            token_id const x = candidates[k];
            auto const index = static_cast<index_t>(k);
            if (source.bernoulli(site(purpose::acceptance, 0), r[at(x)], d[at(x)])) return {index, x};
            subtract(r, d);
            if constexpr (std::is_same_v<Law, law::sequential>) take_out(d, x);
        }
        return {none, draw(g, r, source, site(purpose::residual, 0))};
    }
};

/// One generator state serves drafting and verification: the uniform that decides on a candidate is the one with which
/// the candidate was drawn. A large serving engine has shipped this.
template <draft_law Law>
struct coin_of_the_draft : verify::node_by_node<coin_of_the_draft<Law>, Law> {
    static constexpr multidraft::verify::verifier_traits traits{};
    template <group G, distribution P, distribution Q, draw_source Source>
    [[nodiscard]] verify::node_verdict decide(G const& g, P const& p, Q const& q, span<token_id const> candidates,
                                              Source& source, draw_site site) const {
        auto r = copy_of(p);
        auto d = copy_of(q);
        for (std::size_t k = 0; k < candidates.size(); ++k) {
            token_id const x = candidates[k];
            auto const index = static_cast<index_t>(k);
            if (source.bernoulli(site(purpose::draft, index), r[at(x)], d[at(x)])) return {index, x};
            subtract(r, d);
            if constexpr (std::is_same_v<Law, law::sequential>) take_out(d, x);
        }
        return {none, draw(g, r, source, site(purpose::residual, 0))};
    }
};

/// The node is left out of the address, so that a child's draws are its parent's.
template <draft_law Law>
struct one_node_a_tree : verify::node_by_node<one_node_a_tree<Law>, Law> {
    static constexpr multidraft::verify::verifier_traits traits{};
    template <group G, distribution P, distribution Q, draw_source Source>
    [[nodiscard]] verify::node_verdict decide(G const& g, P const& p, Q const& q, span<token_id const> candidates,
                                              Source& source, draw_site site) const {
        draw_site const everywhere{site.position, 0};
        auto r = copy_of(p);
        auto d = copy_of(q);
        for (std::size_t k = 0; k < candidates.size(); ++k) {
            token_id const x = candidates[k];
            auto const index = static_cast<index_t>(k);
            if (source.bernoulli(everywhere(purpose::acceptance, index), r[at(x)], d[at(x)])) return {index, x};
            subtract(r, d);
            if constexpr (std::is_same_v<Law, law::sequential>) take_out(d, x);
        }
        return {none, draw(g, r, source, everywhere(purpose::residual, 0))};
    }
};

}  // namespace multidraft::bugs
