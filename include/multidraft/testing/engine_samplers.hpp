// Samplers as an engine may implement them: by the definition of their laws, down to tokens of subnormal mass.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

// The library's samplers stop when the remaining weight is below `least_drawable`. An engine's own sampler may go
// further, and verifiers must be lossless for its trees: prove a verifier with these samplers too. For the enumerating
// source, which takes weights as they are.

/// `law::sequential`: as long as a token has any mass.
struct engine_sequential {
    using law = multidraft::law::sequential;

    template <group G, distribution Q, class Sums, draw_source Source>
    drawn_children operator()(G const& g, Q const& q, Sums const& sums, Source& source, draw_site site,
                              span<token_id> out) const {
        for (std::size_t k = 0; k < out.size(); ++k) {
            auto const index = static_cast<index_t>(k);
            token_id const x = source.categorical(g, sums, q.size(), weight_of{q}, span<token_id const>(out).first(k),
                                                  site(purpose::draft, index));
            if (x == none) return {index};
            out[k] = x;
        }
        return {static_cast<index_t>(out.size())};
    }
};

namespace detail {

/// Independent draws for the children after the first `certain` ones, whose tokens are in `out`, from the other tokens.
template <group G, distribution Q, class Sums, draw_source Source>
drawn_children draw_others(G const& g, Q const& q, Sums const& sums, Source& source, draw_site site, span<token_id> out,
                           index_t certain) {
    auto const n = static_cast<index_t>(out.size());
    auto const taken = span<token_id const>(out).first(static_cast<std::size_t>(certain));
    for (index_t k = certain; k < n; ++k) {
        token_id const x = source.categorical(g, sums, q.size(), weight_of{q}, taken, site(purpose::draft, k));
        if (x == none) return {k, certain};
        out[k] = x;
    }
    return {n, certain};
}

}  // namespace detail

/// `law::stratified` (or `law::top_then_one` with one draw): all but `draws` of the children are the most likely
/// tokens, with certainty, the rest draws from the other tokens. Ties go to the higher token, as they may after a sort.
template <class Law>
struct engine_stratified {
    using law = Law;

    index_t draws = 1;

    template <group G, distribution Q, class Sums, draw_source Source>
    drawn_children operator()(G const& g, Q const& q, Sums const& sums, Source& source, draw_site site,
                              span<token_id> out) const {
        std::vector<token_id> order;
        for (token_id x = 0; x < q.size(); ++x)
            if (q.weight(x) > 0) order.push_back(x);
        std::sort(order.begin(), order.end(), [&](token_id a, token_id b) {
            return q.weight(a) > q.weight(b) || (!(q.weight(b) > q.weight(a)) && a > b);
        });
        auto const n = static_cast<index_t>(out.size());
        index_t const certain = std::min(std::max(n - draws, 0), static_cast<index_t>(order.size()));
        for (index_t k = 0; k < certain; ++k) out[k] = order[static_cast<std::size_t>(k)];
        return detail::draw_others(g, q, sums, source, site, out, certain);
    }
};

/// `law::stratified` whose certain tokens come from elsewhere: all but `draws` of the children are tokens by the node's
/// number, likely or not, also where q gives them nothing. The rest are draws from the others.
struct given_stratified {
    using law = multidraft::law::stratified;

    index_t draws = 1;

    template <group G, distribution Q, class Sums, draw_source Source>
    drawn_children operator()(G const& g, Q const& q, Sums const& sums, Source& source, draw_site site,
                              span<token_id> out) const {
        auto const n = static_cast<index_t>(out.size());
        index_t const certain = std::min(std::max(n - draws, 0), q.size());
        for (index_t k = 0; k < certain; ++k) out[k] = (site.node + 1 + k) % q.size();
        return detail::draw_others(g, q, sums, source, site, out, certain);
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::testing
