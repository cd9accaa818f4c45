// Rounding in verification by rejection: faults that the exact proofs in double cannot detect.
#include <gtest/gtest.h>

#include <vector>

#include "multidraft/group/host_group.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "support/scripted.hpp"

namespace rounding_test {
namespace {

using namespace multidraft;

/// Decides one node over rows of floats with these uniforms.
template <class Law>
verify::node_verdict decide(std::vector<float> const& p, std::vector<float> const& q,
                            std::vector<token_id> const& candidates, std::vector<double> const& uniforms) {
    multidraft::testing::scripted_source source(uniforms);
    auto const size = static_cast<index_t>(p.size());
    return verify::recursive_rejection<Law>{}.decide(host_group{}, probabilities<float>(p.data(), size),
                                                     probabilities<float>(q.data(), size), candidates, source,
                                                     draw_site{0, 0});
}

TEST(rounding, the_mass_left_of_a_sure_draft_is_summed) {
    // Without token 0, q is {1/4, 3/4}; as a difference the remaining mass is 1 - (1 - 2^-24), 149 times too much.
    std::vector<float> const q{1.0F - 0x1p-24F, 1e-10F, 3e-10F};
    std::vector<float> const p{0.0F, 0.1F, 0.9F};
    // Token 0 is refused; token 1 is accepted with probability 0.1 / (1/4).
    EXPECT_EQ(decide<law::sequential>(p, q, {0, 1}, {0.0, 0.41, 0.5}).child, none);
    EXPECT_EQ(decide<law::sequential>(p, q, {0, 1}, {0.0, 0.39}).child, 1);
}

TEST(rounding, a_residual_of_no_mass_emits_no_refused_token) {
    // p = q up to rounding, and the largest uniform does not lead to a wrong refusal.
    std::vector<float> const q{0.5F, 0.5F, 0.0F};
    std::vector<float> const p{0.5F - 0x1p-25F, 0.5F, 0.0F};
    auto const v = decide<law::iid>(p, q, {0}, {1.0 - 0x1p-26, 0.0});
    EXPECT_EQ(v.child, none);
    EXPECT_EQ(v.token, 1);
}

}  // namespace
}  // namespace rounding_test
