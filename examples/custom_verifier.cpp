// A verifier of your own: a decision at one node becomes a verifier of whole trees, and the proof checks it.
//
// The one here is lenient: it accepts a candidate with probability min(1, leniency * p / q). With leniency 1 it is
// speculative sampling and lossless; with more it accepts more and no longer has the target's law.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#include "multidraft/analysis/bootstrap.hpp"
#include "multidraft/analysis/estimate_acceptance.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/testing/node_trial.hpp"
#include "multidraft/testing/prove_lossless.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

namespace md = multidraft;

// Verifies the first candidate. `decide` gets the two rows, the candidates in the order drawn, and the source and site
// of draws.
template <int Leniency>
class lenient : public md::verify::node_by_node<lenient<Leniency>, md::law::iid> {
public:
    static constexpr md::verify::verifier_traits traits{.lossless = Leniency == 1};

    template <md::group G, md::distribution P, md::distribution Q, md::draw_source Source>
    md::verify::node_verdict decide(G const& g, P const& p, Q const& q, md::span<md::token_id const> candidates,
                                    Source& source, md::draw_site site) const {
        md::token_id const x = candidates[0];
        if (!(q(x) > 0)) return {};  // not drawn from q: "no token", an invalid_input on the host
        if (source.bernoulli(site(md::purpose::acceptance, 0), Leniency * p(x), q(x))) return {0, x};
        // (p - q)+, never written out: a function of the token that the group sums and searches.
        md::verify::residual const rest{p, q, md::probability_of<P>(1)};
        auto const sums = g.sum_chunks(p.size(), rest);
        if (!(sums.total > 0)) return {md::none, md::verify::emit_undrafted(g, p, candidates.first(1), source, site)};
        return {md::none, source.categorical(g, sums, p.size(), rest, {}, site(md::purpose::residual, 0))};
    }
};

// A row of 1,000 tokens, some far more likely than others.
std::vector<double> random_row(std::mt19937& numbers) {
    std::vector<double> row(1000);
    double sum = 0;
    for (double& x : row) {
        double const u = static_cast<double>(numbers() >> 8) * 0x1p-24;
        sum += x = u * u * u * u * u * u * u * u;
    }
    for (double& x : row) x /= sum;
    return row;
}

// The acceptance rate on rows too long to enumerate: trials on each, and the interval of the mean over the rows.
template <class Verifier>
md::analysis::estimate acceptance(Verifier verifier) {
    std::mt19937 numbers(1);
    std::vector<double> rates;
    for (std::uint64_t row = 0; row < 20; ++row) {
        std::vector<double> const p = random_row(numbers);
        std::vector<double> q = random_row(numbers);
        for (std::size_t i = 0; i < q.size(); ++i) q[i] = 0.5 * (q[i] + p[i]);
        md::testing::node_trial trial(md::draft::iid{}, verifier, p, q, 1, row);
        rates.push_back(md::analysis::estimate_acceptance(trial, 400).rate);
    }
    return md::analysis::bootstrap_mean(rates);  // rows of few texts: bootstrap_clustered_mean
}

int main() {
    // Every branch of drawing and verifying, over trees of up to six children and three levels, with rows of many
    // kinds, in doubles and in floats.
    auto const right = md::testing::prove_lossless(md::draft::iid{}, lenient<1>{});
    auto const biased = md::testing::prove_lossless(md::draft::iid{}, lenient<3>{});
    std::printf("lenient<1> is lossless: %s, in %d cases\n", right.holds() ? "yes" : "no", right.cases);
    std::printf("lenient<3> is lossless: %s, total variation from the target up to %.2f\n",
                biased.holds() ? "yes" : "no", biased.distance.value);
    // The gain and the bias of leniency on one pair of rows; `biased.report()` names the worst case.
    md::testing::model_pair models{md::testing::small_model(4, 1), md::testing::small_model(4, 1)};
    for (std::size_t context = 0; context < models.target.contexts(); ++context) {
        models.target[context] = {0.40, 0.25, 0.05, 0.30};
        models.draft[context] = {0.10, 0.20, 0.60, 0.10};
    }
    auto const report = [&](char const* name, auto verifier) {
        auto const found = md::testing::law_of_step(md::draft::iid{}, verifier, {1}, models);
        auto const wanted = md::testing::law_of_target(models.target, 2);
        std::printf("%s: acceptance rate %.4f, total variation from the target %.4f\n", name, found.mean_accepted,
                    md::testing::total_variation(found.law, wanted));
    };
    report("lenient<1>", lenient<1>{});
    report("lenient<3>", lenient<3>{});
    // The same for rows of your own models, with intervals; `acceptance` prints it beside the library's verifiers
    // (README.md here, "Your verifier in acceptance").
    auto const estimated = [](char const* name, md::analysis::estimate const& found) {
        std::printf("%s: acceptance rate %.2f over %zu rows of 1000 tokens, 95 %% interval %.2f .. %.2f\n", name,
                    found.value, found.samples, found.low, found.high);
    };
    estimated("lenient<1>", acceptance(lenient<1>{}));
    estimated("lenient<3>", acceptance(lenient<3>{}));
    return right.holds() && !biased.holds() ? 0 : 1;
}

// Output:
// lenient<1> is lossless: yes, in 2112 cases
// lenient<3> is lossless: no, total variation from the target up to 0.90
// lenient<1>: acceptance rate 0.4500, total variation from the target 0.0000
// lenient<3>: acceptance rate 0.5500, total variation from the target 0.1000
// lenient<1>: acceptance rate 0... over 20 rows of 1000 tokens, 95 % interval 0... .. 0...
// lenient<3>: acceptance rate 0... over 20 rows of 1000 tokens, 95 % interval 0... .. 0...
