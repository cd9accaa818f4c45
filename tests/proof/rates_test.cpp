// The exact acceptance rate and law of a verifier at one node, by enumeration, against the analysis and golden values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "multidraft/analysis/acceptance.hpp"
#include "multidraft/analysis/alpha_star.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/testing/enumerating.hpp"
#include "multidraft/testing/exact_law.hpp"
#include "multidraft/testing/kinds.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/speculative_sampling.hpp"
#include "support/golden.hpp"

namespace rates_test {
namespace {

namespace analysis = multidraft::analysis;
namespace draft = multidraft::draft;
namespace law = multidraft::law;
namespace verify = multidraft::verify;
using multidraft::index_t;
using multidraft::none;
using multidraft::span;
using multidraft::token_id;
using multidraft::testing::golden_cases;
using multidraft::testing::kind;
using row = std::vector<double>;

constexpr double tolerance = 1e-12;

/// The outcome of a sampler and a verifier at one node, over all their draws.
struct outcome {
    double acceptance = 0;  ///< the probability that a candidate is accepted
    double drafted = 0;     ///< the probability that the emitted token is among the candidates
    row law;                ///< of the emitted token
};

template <class Sampler, class Verifier>
outcome at_one_node(Sampler sampler, Verifier verifier, row const& p, row const& q, index_t n) {
    static_assert(std::is_same_v<typename Sampler::law, typename Verifier::law>);
    multidraft::host_group const g;
    auto const size = static_cast<index_t>(p.size());
    multidraft::probabilities<double> const target(p.data(), size);
    multidraft::probabilities<double> const model(q.data(), size);
    multidraft::draw_site const site{3, 0};
    outcome result;
    result.law.assign(p.size(), 0.0);
    std::vector<token_id> candidates(static_cast<std::size_t>(n));
    multidraft::testing::enumerate([&](multidraft::testing::enumerating_source& source) {
        auto sums = g.sum_chunks(size, multidraft::weight_of{model});
        auto const drawn = sampler(g, model, sums, source, site, span<token_id>(candidates));
        auto const children = span<token_id const>(candidates).first(static_cast<std::size_t>(drawn.count));
        verify::node_verdict const v = verifier.decide(g, target, model, children, source, site);
        ASSERT_GE(v.token, 0);
        ASSERT_LT(v.token, size);
        if (v.child != none) {
            ASSERT_EQ(children[static_cast<std::size_t>(v.child)], v.token);
            result.acceptance += source.probability();
        }
        if (std::find(children.begin(), children.end(), v.token) != children.end())
            result.drafted += source.probability();
        result.law[static_cast<std::size_t>(v.token)] += source.probability();
    });
    return result;
}

/// The rate is the one expected, and the emitted token has the target's law.
void expect_rate(outcome const& got, double expected, row const& p) {
    EXPECT_NEAR(got.acceptance, expected, tolerance);
    EXPECT_NEAR(got.drafted, expected, tolerance);  // a token that was drafted is accepted or never emitted
    for (std::size_t i = 0; i < p.size(); ++i) EXPECT_NEAR(got.law[i], p[i], tolerance) << i;
}

TEST(acceptance_rate, of_recursive_rejection_is_golden) {
    for (auto const& c : golden_cases()) {
        if (!c.has_alpha("naive_iid")) continue;  // too many tokens to enumerate
        expect_rate(at_one_node(draft::iid{}, verify::recursive_rejection<law::iid>{}, c.p, c.q, c.n),
                    c.alpha("recursive_iid"), c.p);
        expect_rate(at_one_node(draft::sequential{}, verify::recursive_rejection<law::sequential>{}, c.p, c.q, c.n),
                    c.alpha("recursive_sequential"), c.p);
    }
}

TEST(acceptance_rate, of_naive_verification_is_golden) {
    for (auto const& c : golden_cases()) {
        if (!c.has_alpha("naive_iid")) continue;
        expect_rate(at_one_node(draft::iid{}, verify::naive<law::iid>{}, c.p, c.q, c.n), c.alpha("naive_iid"), c.p);
        expect_rate(at_one_node(draft::sequential{}, verify::naive<law::sequential>{}, c.p, c.q, c.n),
                    c.alpha("naive_sequential"), c.p);
        expect_rate(at_one_node(draft::top_n{}, verify::naive<law::deterministic>{}, c.p, c.q, c.n),
                    analysis::acceptance_naive_deterministic(c.p, c.q, c.n), c.p);
    }
}

TEST(acceptance_rate, of_speculative_sampling_is_the_overlap) {
    for (auto const& c : golden_cases()) {
        double const overlap = analysis::acceptance_speculative_sampling(c.p, c.q);
        expect_rate(at_one_node(draft::iid{}, verify::speculative_sampling<law::iid>{}, c.p, c.q, 1), overlap, c.p);
        expect_rate(at_one_node(draft::sequential{}, verify::speculative_sampling<law::sequential>{}, c.p, c.q, 1),
                    overlap, c.p);
    }
}

TEST(acceptance_rate, is_that_of_the_analysis_for_rows_of_every_kind) {
    for (kind const k : multidraft::testing::all_kinds) {
        if (k == kind::almost_equal) continue;  // rows that differ by rounding have a rate that is rounding
        for (std::uint64_t seed = 0; seed < 4; ++seed) {
            auto const models = multidraft::testing::random_models(k, 4, 0, 100 + seed);
            row const& p = models.target[0];
            row const& q = models.draft[0];
            for (index_t n = 1; n <= 4; ++n) {
                SCOPED_TRACE(multidraft::testing::name_of(k));
                SCOPED_TRACE(n);
                double const recursive_iid = analysis::acceptance_recursive_iid(p, q, n);
                double const recursive_sequential = analysis::acceptance_recursive_sequential(p, q, n);
                expect_rate(at_one_node(draft::iid{}, verify::recursive_rejection<law::iid>{}, p, q, n), recursive_iid,
                            p);
                expect_rate(at_one_node(draft::sequential{}, verify::recursive_rejection<law::sequential>{}, p, q, n),
                            recursive_sequential, p);
                expect_rate(at_one_node(draft::iid{}, verify::naive<law::iid>{}, p, q, n),
                            analysis::acceptance_naive_iid(p, q, n), p);
                expect_rate(at_one_node(draft::sequential{}, verify::naive<law::sequential>{}, p, q, n),
                            analysis::acceptance_naive_sequential(p, q, n), p);
                expect_rate(at_one_node(draft::top_n{}, verify::naive<law::deterministic>{}, p, q, n),
                            analysis::alpha_star_deterministic(p, q, n), p);
                EXPECT_LE(recursive_iid, analysis::alpha_star_iid(p, q, n) + tolerance);
                EXPECT_LE(recursive_sequential, analysis::alpha_star_sequential(p, q, n) + tolerance);
            }
        }
    }
}

}  // namespace
}  // namespace rates_test
