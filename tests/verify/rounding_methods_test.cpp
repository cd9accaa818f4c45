// Residuals that vanished by rounding, in every listed verifier: the token comes from the target and is not one that
// was refused.
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "multidraft/group/host_group.hpp"
#include "multidraft/methods/list.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/verifier.hpp"
#include "support/scripted.hpp"

namespace rounding_methods_test {
namespace {

using namespace multidraft;

/// A target below the draft everywhere, by more than rounding: its residual has no mass when the draft's token is
/// refused. Token 1 has mass in the draft only.
std::vector<float> const p{0.125F, 0.0F, 0.25F, 0.0F};
std::vector<float> const q{0.25F, 0.25F, 0.5F, 0.0F};

/// The token 0 is drafted, and refused by the first uniforms, near 1; the others are `uniform`.
template <class Verifier>
verdict run(Verifier const& verifier, std::size_t refusals, double uniform) {
    std::vector<node_id> const parents{none, 0};
    std::vector<token_id> const tokens{3, 0};
    std::vector<index_t> const certain{0, 0};
    std::vector<node_id> path(1, -7);
    std::vector<std::byte> scratch(verify::scratch_bytes<Verifier>(2, 1));
    std::vector<double> uniforms(refusals, 0.999);
    uniforms.resize(refusals + 3, uniform);
    multidraft::testing::scripted_source source(uniforms);
    auto p_rows = p;  // the same row after both nodes
    auto q_rows = q;
    p_rows.insert(p_rows.end(), p.begin(), p.end());
    q_rows.insert(q_rows.end(), q.begin(), q.end());
    auto const v = verify::verify_tree(
        verifier, host_group{}, make_drafted<typename Verifier::law>({parents, tokens}, certain),
        target_rows(probability_rows<float>(rows_view<float>(p_rows.data(), 2, 4))),
        draft_rows(probability_rows<float>(rows_view<float>(q_rows.data(), 2, 4))), source, 0, path, scratch);
    if (v.accepted == 0) {
        EXPECT_EQ(path[0], -7);
    }
    return v;
}

/// Calls f with every listed verifier that decides by Bernoulli and categorical draws over rows of p and q, and with
/// how many uniforms refuse its candidate: first its grid point is drawn where histograms rank it.
template <class F>
void for_every_verifier(F f) {
    auto const call = [&](auto listed) {
        using verifier = typename decltype(listed)::verifier;
        if constexpr (verify::reads_draft<verifier> && decltype(listed)::proof == proof_by::enumeration) {
            bool const by_histogram = methods::by_rank::has<verifier>;
            f(verifier{}, std::string(listed.name).c_str(), std::size_t{by_histogram ? 2U : 1U});
        }
    };
    methods::of_shapes::for_each(call);
    methods::of_drafters::for_each(call);
}

TEST(rounding_methods, a_residual_of_no_mass_emits_a_token_of_the_target_that_was_not_refused) {
    for_every_verifier([](auto verifier, char const* name, std::size_t refusals) {
        for (double const uniform : {0.0, 0.4, 0.7, 0.99}) {
            auto const v = run(verifier, refusals, uniform);
            EXPECT_EQ(v.accepted, 0) << name;
            EXPECT_EQ(v.next, 2) << name << ", uniform " << uniform;
        }
    });
}

}  // namespace
}  // namespace rounding_methods_test
