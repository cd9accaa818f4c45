// Stochastic beam search: whole sequences drawn without replacement, one level at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>

#include "multidraft/base/config.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"

namespace MULTIDRAFT_NAMESPACE::draft {

/// A sequence on the beam: a node, the logarithm of its probability under the draft, and its perturbed score.
struct beam {
    node_id node = 0;
    double log_probability = 0;  ///< of the tokens from the root to the node
    double score = 0;            ///< the perturbed log-probability, a Gumbel variate: larger is earlier
};

/// A token that extends a sequence of the beam: an element of the next level's beam.
struct beam_step {
    index_t from = 0;  ///< which sequence of the beam
    token_id token = none;
    double log_probability = 0;
    double score = 0;
};

/// log(e^a + e^b), for any a and b below plus infinity.
[[nodiscard]] MULTIDRAFT_HD inline double log_add(double a, double b) noexcept {
    double const larger = a < b ? b : a;
    double const smaller = a < b ? a : b;
    return smaller == minus_infinity<double> ? larger : larger + std::log1p(std::exp(smaller - larger));
}

/// One level of stochastic beam search (Kool et al. 2019; [RSD] 3.2, Algorithms 8 and 9): the `out.size()` sequences of
/// the next level, best score first, drawn without replacement from all continuations of the beam.
///
/// A sequence's score G is a Gumbel variate located at its log-probability, and its children's scores are those of all
/// continuations conditioned on their maximum being G. The papers compute them for every token, as Gumbels truncated at
/// G. Here they are generated in decreasing order, one token at a time, as arrivals of a race with times t = e^-score.
/// The first child arrives at the time of its parent, each next one e / (P left) later: e is exponential, P the
/// parent's probability, `left` the mass of q outside the children so far. The arriving token is drawn from q without
/// these children, independently of the time. The law is the same. The cost is one draw for each child kept, with no
/// pass over the vocabulary, and it is stable: times are kept as logarithms and only added.
///
/// Law: the kept children of one parent, in this order, are `sequential`. How many are kept depends on times and on
/// earlier tokens, never on a token that is not kept, so recursive rejection stays lossless ([RSD] 3.2).
///
/// - `row(i)`, `sums(i)`: the distribution at sequence i of the beam, and the chunk sums of its weights without the
///   first `counts[i]` of its `taken`. These are either a reference to sums that are updated here or, for groups that
///   cannot hold so many, a value recomputed in one pass.
/// - `place_of(i)`: the site of its draws (purposes `draft` and `gumbel`).
/// - `next`: scratch, one number per sequence. `taken`: scratch, `out.size()` tokens per sequence. `counts`: one number
///   per sequence, receives how many children were kept.
///
/// Returns how many sequences there are: fewer than `out.size()` when the support of all rows is exhausted. O(W (W +
/// two chunks of a row)).
template <group G, class Row, class Sums, class PlaceOf, draw_source Source>
MULTIDRAFT_HD index_t stochastic_beam_level(G const& g, span<beam const> beams, Row const& row, Sums const& sums,
                                            PlaceOf const& place_of, Source& source, span<double> next,
                                            span<token_id> taken, span<index_t> counts, span<beam_step> out) {
    constexpr double never = infinity<double>;
    std::size_t const width = out.size();
    for (std::size_t i = 0; i < beams.size(); ++i) {
        next[i] = -beams[i].score;  // log of the time at which the next child arrives
        counts[i] = 0;
    }
    for (std::size_t k = 0; k < width; ++k) {
        std::size_t first = 0;
        for (std::size_t i = 1; i < beams.size(); ++i)
            if (next[i] < next[first]) first = i;
        if (beams.empty() || !(next[first] < never)) return static_cast<index_t>(k);
        auto const i = static_cast<index_t>(first);
        auto const q = row(i);
        weight_of const w{q};
        auto&& row_sums = sums(i);
        draw_site const site = place_of(i);
        span<token_id> const mine = taken.subspan(first * width, width);
        auto const drawn = static_cast<std::size_t>(counts[first]);
        token_id const x = source.categorical(g, row_sums, q.size(), w, span<token_id const>(mine.first(drawn)),
                                              site(purpose::draft, static_cast<index_t>(drawn)));
        if (x == none) {
            next[first] = never;
            --k;
            continue;
        }
        out[k] = {i, x, beams[first].log_probability + std::log(static_cast<double>(q(x))), -next[first]};
        mine[drawn] = x;
        ++counts[first];
        if (k + 1 == width) break;
        double const all = static_cast<double>(q.weight(x)) / static_cast<double>(q(x));
        g.update_chunk(row_sums, q.size(), w, span<token_id const>(mine.first(drawn + 1)), x);
        double const left = static_cast<double>(row_sums.total) / all;
        if (!(left > 0)) {
            next[first] = never;
            continue;
        }
        double const u = source.template uniform<double>(site(purpose::gumbel, static_cast<index_t>(drawn)));
        double const wait = std::log(-std::log1p(-u)) - beams[first].log_probability - std::log(left);
        next[first] = log_add(next[first], wait);
    }
    return static_cast<index_t>(width);
}

}  // namespace MULTIDRAFT_NAMESPACE::draft
