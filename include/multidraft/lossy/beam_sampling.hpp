// Beam sampling: a few sequences of high joint likelihood, drawn level by level from all continuations.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/draft/stochastic_beam.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/random/draw_site.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"

namespace MULTIDRAFT_NAMESPACE::draft {

namespace detail {

/// Numbers in memory as the weights of a categorical draw.
struct weight_over {
    span<double const> mass;
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD double operator()(index_t i) const {
        return mass[static_cast<std::size_t>(i)];
    }
};

}  // namespace detail

/// One level of beam sampling ([MTAD] 2, equation (2)): `out.size()` different continuations of the beam, each drawn in
/// proportion to its joint probability among those not drawn yet.
///
/// The law of the final beams has no tractable probabilities for a verifier to divide by: use them with a lossy
/// verifier of joint likelihood, or as deterministic candidates. Arguments as for `stochastic_beam_level`; `mass` is
/// scratch, one number per sequence; `out[k].score` is the log-probability. Returns how many there are.
template <group G, class Row, class Sums, class PlaceOf, draw_source Source>
index_t beam_sampling_level(G const& g, span<beam const> beams, Row const& row, Sums const& sums,
                            PlaceOf const& place_of, Source& source, span<double> mass, span<token_id> taken,
                            span<index_t> counts, span<beam_step> out) {
    std::size_t const width = out.size();
    double largest = -std::numeric_limits<double>::infinity();
    for (beam const& b : beams) largest = b.log_probability > largest ? b.log_probability : largest;
    for (std::size_t i = 0; i < beams.size(); ++i) {
        mass[i] = std::exp(beams[i].log_probability - largest);  // times the mass left after this sequence
        counts[i] = 0;
    }
    for (std::size_t k = 0; k < width; ++k) {
        detail::weight_over const from{mass};
        auto const all = g.sum_chunks(static_cast<index_t>(beams.size()), from);
        if (!(all.total > 0)) return static_cast<index_t>(k);
        // The sequence, then its token. The choice of a sequence is addressed at the first one.
        index_t const i = source.categorical(g, all, static_cast<index_t>(beams.size()), from, {},
                                             place_of(0)(purpose::path, static_cast<index_t>(k)));
        if (i == none) return static_cast<index_t>(k);
        auto const at = static_cast<std::size_t>(i);
        auto const q = row(i);
        weight_of const w{q};
        auto& row_sums = sums(i);
        span<token_id> const mine = taken.subspan(at * width, width);
        auto const drawn = static_cast<std::size_t>(counts[at]);
        token_id const x = source.categorical(g, row_sums, q.size(), w, span<token_id const>(mine.first(drawn)),
                                              place_of(i)(purpose::draft, static_cast<index_t>(drawn)));
        if (x == none) return static_cast<index_t>(k);
        double const log_probability = beams[at].log_probability + std::log(static_cast<double>(q(x)));
        out[k] = {i, x, log_probability, log_probability};
        mine[drawn] = x;
        ++counts[at];
        double const whole = static_cast<double>(q.weight(x)) / static_cast<double>(q(x));
        g.update_chunk(row_sums, q.size(), w, span<token_id const>(mine.first(drawn + 1)), x);
        mass[at] = std::exp(beams[at].log_probability - largest) * static_cast<double>(row_sums.total) / whole;
    }
    return static_cast<index_t>(width);
}

/// The same without draws: the `out.size()` continuations of the largest joint probability, likeliest first, ties to
/// the earlier sequence and the lower token (deterministic beam sampling, [MTAD] 2). One pass over each row.
template <group G, class Row>
index_t beam_top_level(G const& g, span<beam const> beams, Row const& row, span<token_id> taken, span<beam_step> out) {
    std::size_t const width = out.size();
    std::size_t found = 0;
    for (std::size_t i = 0; i < beams.size(); ++i) {
        auto const q = row(static_cast<index_t>(i));
        span<token_id> const mine = taken.subspan(i * width, width);
        for (token_id& x : mine) x = none;
        g.top_k(q.size(), weight_of{q}, mine);
        for (token_id const x : mine) {
            if (x == none || !(q.weight(x) > 0)) break;
            double const joint = beams[i].log_probability + std::log(static_cast<double>(q(x)));
            std::size_t at = found;
            while (at > 0 && out[at - 1].log_probability < joint) --at;
            if (at == width) break;  // the others of this row are even less likely
            for (std::size_t k = found < width ? found : width - 1; k > at; --k) out[k] = out[k - 1];
            out[at] = {static_cast<index_t>(i), x, joint, joint};
            found += found < width ? 1 : 0;
        }
    }
    return static_cast<index_t>(found);
}

}  // namespace MULTIDRAFT_NAMESPACE::draft
