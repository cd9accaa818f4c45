// A verifier of your own: one decision at one node makes a verifier of whole trees, and the enumeration says what it
// costs.
//
// The one here is lenient: it accepts a candidate with probability min(1, leniency * p / q). With leniency 1 it is
// speculative sampling and lossless; with more it accepts more and no longer has the target's law.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "multidraft/draft/iid.hpp"
#include "multidraft/testing/enumerating.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

namespace md = multidraft;

// Verifies the first candidate. `decide` gets the two rows, the candidates in the order drawn, and where draws are
// made.
template <int Leniency>
class lenient : public md::verify::node_by_node<lenient<Leniency>, md::law::iid> {
public:
    static constexpr bool lossless = Leniency == 1;

    template <md::group G, md::distribution P, md::distribution Q, md::draw_source Source>
    md::verify::node_verdict decide(G const& g, P const& p, Q const& q, md::span<md::token_id const> candidates,
                                    Source& source, md::place where) const {
        md::token_id const x = candidates[0];
        if (!(q(x) > 0)) return {};  // not drawn from q: "no token", an invalid_input on the host
        if (source.coin(where(md::purpose::acceptance, 0), Leniency * p(x), q(x))) return {0, x};
        // (p - q)+, never written out: a function of the token that the group sums and searches.
        md::verify::residual const rest{p, q, md::probability_of<P>(1)};
        auto const sums = g.weigh(p.size(), rest);
        if (!(sums.total > 0)) return {md::none, md::verify::emit_undrafted(g, p, candidates.first(1), source, where)};
        return {md::none, source.pick(g, sums, p.size(), rest, {}, where(md::purpose::residual, 0))};
    }
};

// The exact law of the first token, its distance to the target and the acceptance rate.
template <class Verifier>
double report(char const* name, std::vector<double> const& p, std::vector<double> const& q) {
    auto const vocabulary = static_cast<md::index_t>(p.size());
    std::vector<double> law(p.size(), 0.0);
    double accepted = 0;
    md::testing::enumerate([&](md::testing::enumerating_source& source) {
        md::host_group const g;
        md::probabilities<double> const row(q.data(), vocabulary);
        auto sums = g.weigh(vocabulary, md::weight_of{row});
        md::node_id const parents[] = {-1, 0};
        md::token_id tokens[2] = {};
        md::draft::iid{}(g, row, sums, source, {0, 0}, {tokens + 1, 1});
        md::rows_view<double> const target(p.data(), 2, vocabulary, 0);  // stride 0: the same row after every node
        md::rows_view<double> const draft(q.data(), 2, vocabulary, 0);
        md::drafted<md::law::iid> const tree{{parents, tokens}};
        md::node_id path[1];
        auto const v = Verifier{}(g, tree, md::probability_rows<double>(target), md::probability_rows<double>(draft),
                                  source, 0, path);
        law[static_cast<std::size_t>(v.accepted > 0 ? tokens[1] : v.next)] += source.probability();
        accepted += v.accepted * source.probability();
    });
    double distance = 0;
    for (std::size_t i = 0; i < p.size(); ++i) distance += std::abs(law[i] - p[i]) / 2;
    std::printf("%s: acceptance rate %.4f, total variation from the target %.4f\n", name, accepted, distance);
    return distance;
}

int main() {
    std::vector<double> const p{0.40, 0.25, 0.05, 0.30};
    std::vector<double> const q{0.10, 0.20, 0.60, 0.10};
    bool const right = report<lenient<1>>("lenient<1>", p, q) < 1e-12;
    bool const biased = report<lenient<3>>("lenient<3>", p, q) > 0.01;
    return right && biased ? 0 : 1;
}

// Output:
// lenient<1>: acceptance rate 0.4500, total variation from the target 0.0000
// lenient<3>: acceptance rate 0.5500, total variation from the target 0.1000
