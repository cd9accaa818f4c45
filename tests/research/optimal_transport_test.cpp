// Optimal transport: lossless, and its acceptance rate equals the bounds, for every law.
#include "support/optimal_transport.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "multidraft/analysis/alpha_star.hpp"
#include "multidraft/draft/conditional_poisson.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/draft/top_paired.hpp"
#include "multidraft/draft/top_then_one.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "support/tree_cases.hpp"

namespace optimal_transport_test {
namespace {

namespace analysis = multidraft::analysis;
namespace draft = multidraft::draft;
namespace verify = multidraft::verify;
using namespace multidraft::testing;
using multidraft::host_group;
using multidraft::index_t;
using multidraft::probabilities;

template <class Sampler>
double best(model_pair const& models, std::size_t n) {
    auto const& p = models.target[0];
    auto const& q = models.draft[0];
    auto const size = static_cast<index_t>(p.size());
    return multidraft::testing::optimal_transport<Sampler>::plan_of(host_group{}, probabilities<double>(p.data(), size),
                                                                    probabilities<double>(q.data(), size), n)
        .acceptance();
}

TEST(optimal_transport, accepts_at_the_bound_of_every_law) {
    for (kind const k : {kind::plain, kind::no_mass, kind::one_hot_target, kind::equal}) {
        for (std::uint64_t seed = 1; seed <= 4; ++seed) {
            auto const models = random_models(k, 6, 0, seed + 60);
            auto const& p = models.target[0];
            auto const& q = models.draft[0];
            for (index_t n = 1; n <= 3; ++n) {
                auto const count = static_cast<std::size_t>(n);
                SCOPED_TRACE(name_of(k));
                EXPECT_NEAR(best<draft::iid>(models, count), analysis::alpha_star_iid(p, q, n), 1e-9);
                EXPECT_NEAR(best<draft::sequential>(models, count), analysis::alpha_star_sequential(p, q, n), 1e-7);
                EXPECT_NEAR(best<draft::conditional_poisson>(models, count),
                            analysis::alpha_star_conditional_poisson(p, q, n), 1e-9);
                EXPECT_NEAR(best<draft::top_n>(models, count), analysis::alpha_star_deterministic(p, q, n), 1e-9);
                double const top_then_one = analysis::alpha_star_stratified(p, q, n, 1);
                EXPECT_NEAR(best<draft::top_then_one>(models, count), top_then_one, 1e-9);
                EXPECT_NEAR(best<draft::top_paired>(models, std::min<std::size_t>(count, 2)),
                            analysis::alpha_star_stratified(p, q, std::min(n, 2), 1), 1e-9);
                // The certainty rule takes one of the numbers of draws.
                double nearest = 1;
                for (index_t j = 1; j <= n; ++j)
                    nearest = std::min(nearest, std::abs(best<draft::stratified>(models, count) -
                                                         analysis::alpha_star_stratified(p, q, n, j)));
                EXPECT_LT(nearest, 1e-9);
            }
        }
    }
}

template <class Sampler>
void expect_lossless_and_best() {
    expect_lossless_trees<Sampler, multidraft::testing::optimal_transport<Sampler>>(
        {{{1}, 3}, {{2}, 3}, {{2}, 4}, {{2, 1}, 3}});
    auto const models = random_models(kind::plain, 4, 1, 5);
    EXPECT_NEAR(
        (law_of_step(Sampler{}, multidraft::testing::optimal_transport<Sampler>{}, shape{2}, models).mean_accepted),
        best<Sampler>(models, 2), 1e-12);
}

TEST(lossless, optimal_transport) {
    expect_lossless_and_best<draft::iid>();
    expect_lossless_and_best<draft::sequential>();
    expect_lossless_and_best<draft::conditional_poisson>();
    expect_lossless_and_best<draft::top_then_one>();
    expect_lossless_and_best<draft::top_paired>();
    expect_lossless_and_best<draft::stratified>();
}

}  // namespace
}  // namespace optimal_transport_test
