// The toy example of Jeon et al. 2024, figure 1: two candidates of two tokens. Recursive rejection without replacement
// always accepts, and no verifier of independent candidates does.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "multidraft/analysis/acceptance.hpp"
#include "multidraft/analysis/alpha_star.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/testing/exact_law.hpp"
#include "multidraft/verify/k_seq.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "support/optimal_transport.hpp"

namespace bernoulli_test {
namespace {

namespace analysis = multidraft::analysis;
namespace draft = multidraft::draft;
namespace law = multidraft::law;
namespace verify = multidraft::verify;
using multidraft::testing::law_of_step;
using multidraft::testing::model_pair;
using multidraft::testing::optimal_transport;
using multidraft::testing::small_model;
using row = std::vector<double>;

constexpr double tolerance = 1e-12;

model_pair bernoulli(double p, double q) {
    model_pair models{small_model(2, 1), small_model(2, 1)};
    for (std::size_t context = 0; context < models.target.contexts(); ++context) {
        models.target[context] = {p, 1 - p};
        models.draft[context] = {q, 1 - q};
    }
    return models;
}

TEST(Bernoulli, HasTheClosedForms) {
    for (int a = 0; a <= 20; ++a) {
        for (int b = 0; b <= 20; ++b) {
            row const p{a / 20.0, 1 - a / 20.0};
            row const q{b / 20.0, 1 - b / 20.0};
            double const apart = std::abs(p[0] - q[0]);
            // After a refusal the residual of p is the one token with too little mass under q.
            double const missing = p[0] >= q[0] ? q[0] : q[1];
            EXPECT_NEAR(analysis::acceptance_recursive_iid(p, q, 2), 1 - apart * (1 - missing), tolerance);
            // Only a set of one token can be short: both candidates are the other one.
            double const best = 1 + std::min({0.0, p[0] - q[0] * q[0], p[1] - q[1] * q[1]});
            EXPECT_NEAR(analysis::alpha_star_iid(p, q, 2), best, tolerance);
            double const k_seq = analysis::acceptance_k_seq(p, q, 2);
            EXPECT_LE(k_seq, best + tolerance);
            double const certain = b == 0 || b == 20 ? 1 - apart : 1.0;  // of a draft with one token, that one is all
            EXPECT_NEAR(analysis::acceptance_recursive_sequential(p, q, 2), certain, tolerance);
        }
    }
    EXPECT_NEAR(analysis::acceptance_recursive_iid(row{0.9, 0.1}, row{0.5, 0.5}, 2), 0.80, tolerance);
    EXPECT_NEAR(analysis::acceptance_k_seq(row{0.9, 0.1}, row{0.5, 0.5}, 2), 0.8150, 5e-5);
    EXPECT_NEAR(analysis::alpha_star_iid(row{0.9, 0.1}, row{0.5, 0.5}, 2), 0.85, tolerance);
}

TEST(Bernoulli, IsWhatTheVerifiersAccept) {
    for (double const p : {0.1, 0.3, 0.5, 0.9}) {
        for (double const q : {0.2, 0.5, 0.8}) {
            auto const models = bernoulli(p, q);
            row const& target = models.target[0];
            row const& drafted = models.draft[0];
            EXPECT_NEAR(law_of_step(draft::iid{}, verify::recursive_rejection<law::iid>{}, {2}, models).mean_accepted,
                        analysis::acceptance_recursive_iid(target, drafted, 2), tolerance);
            EXPECT_NEAR(law_of_step(draft::iid{}, verify::k_seq<law::iid>{}, {2}, models).mean_accepted,
                        analysis::acceptance_k_seq(target, drafted, 2), 2e-6);
            EXPECT_NEAR(law_of_step(draft::iid{}, optimal_transport<draft::iid>{}, {2}, models).mean_accepted,
                        analysis::alpha_star_iid(target, drafted, 2), 1e-11);
            EXPECT_NEAR(law_of_step(draft::sequential{}, verify::recursive_rejection<law::sequential>{}, {2}, models)
                            .mean_accepted,
                        1, tolerance);
        }
    }
}

}  // namespace
}  // namespace bernoulli_test
