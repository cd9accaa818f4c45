// Verifiers of one node for special laws: lossless on trees, with the acceptance rates of their papers.
#include <gtest/gtest.h>

#include <cstdint>
#include <type_traits>
#include <vector>

#include "multidraft/analysis/acceptance.hpp"
#include "multidraft/analysis/alpha_star.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/top_paired.hpp"
#include "multidraft/draft/top_then_one.hpp"
#include "multidraft/verify/greedy_optimal.hpp"
#include "multidraft/verify/k_seq.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/spec_hub.hpp"
#include "support/golden.hpp"
#include "support/tree_cases.hpp"

namespace one_node_test {
namespace {

namespace analysis = multidraft::analysis;
namespace draft = multidraft::draft;
namespace law = multidraft::law;
namespace verify = multidraft::verify;
using namespace multidraft::testing;
using multidraft::index_t;

std::vector<tree_case> const trees{{{1}, 1},    {{1}, 4},    {{2}, 1},    {{2}, 3},      {{2}, 5},
                                   {{3}, 2},    {{3}, 4},    {{4}, 3},    {{1, 1}, 3},   {{2, 1}, 4},
                                   {{2, 2}, 3}, {{3, 1}, 3}, {{1, 2}, 4}, {{2, 1, 1}, 2}};
std::vector<tree_case> const pairs{{{1}, 1},    {{1}, 4},    {{2}, 1},    {{2}, 2},    {{2}, 5},
                                   {{1, 1}, 3}, {{2, 1}, 4}, {{2, 2}, 3}, {{1, 2}, 4}, {{2, 1, 2}, 2}};

TEST(lossless, k_seq) { expect_lossless_trees<draft::iid, verify::k_seq<law::iid>>(trees); }

TEST(lossless, greedy_optimal) {
    expect_lossless_trees<draft::top_then_one, verify::greedy_optimal<law::top_then_one>>(trees);
}

TEST(lossless, spec_hub) { expect_lossless_trees<draft::top_paired, verify::spec_hub<law::top_paired>>(pairs); }

TEST(lossless, naive_verification_of_further_laws) {
    expect_lossless_trees<draft::top_then_one, verify::naive<law::top_then_one>>(trees);
    expect_lossless_trees<draft::top_paired, verify::naive<law::top_paired>>(pairs);
    expect_lossless_trees<draft::stratified, verify::naive<law::stratified>>(trees);
}

TEST(acceptance, of_k_seq_is_golden) {
    for (auto const& c : golden_cases()) {
        EXPECT_NEAR(analysis::acceptance_k_seq(c.p, c.q, c.n), c.alpha("kseq"), 1e-9);
        EXPECT_LE(analysis::acceptance_k_seq(c.p, c.q, c.n), analysis::alpha_star_iid(c.p, c.q, c.n) + 1e-12);
    }
}

/// The probability that a child of the root is accepted.
template <class Sampler, class Verifier>
double rate(model_pair const& models, int n) {
    return law_of_step(Sampler{}, Verifier{}, shape{n}, models).mean_accepted;
}

TEST(acceptance, of_one_node_is_that_of_the_papers) {
    for (kind const k : all_kinds) {
        if (k == kind::almost_equal) continue;
        for (std::uint64_t seed = 1; seed <= 6; ++seed) {
            auto const models = random_models(k, 5, 1, seed + 200);
            auto const& p = models.target[0];
            auto const& q = models.draft[0];
            for (int n = 1; n <= 4; ++n) {
                // The brackets of rho are a thousandth apart.
                double const best = analysis::acceptance_k_seq(p, q, n);
                double const found = rate<draft::iid, verify::k_seq<law::iid>>(models, n);
                EXPECT_LE(found, best + 1e-12) << name_of(k);
                EXPECT_GE(found, best - 1e-3) << name_of(k);
                // With no draw left over, as where the draft's support is small, the rate is that of the tokens' mass.
                if (k == kind::narrow_draft || k == kind::one_hot_draft || k == kind::greedy || k == kind::disjoint ||
                    k == kind::no_mass)
                    continue;
                EXPECT_NEAR((rate<draft::top_then_one, verify::greedy_optimal<law::top_then_one>>(models, n)),
                            analysis::alpha_star_stratified(p, q, n, 1), 1e-12)
                    << name_of(k) << " " << n;
                if (n > 2) continue;
                EXPECT_NEAR((rate<draft::top_paired, verify::spec_hub<law::top_paired>>(models, n)),
                            analysis::alpha_star_stratified(p, q, n, 1), 1e-12)
                    << name_of(k) << " " << n;
            }
        }
    }
}

}  // namespace
}  // namespace one_node_test
