// What published drafters' own rules emit above temperature 0, on examples small enough to follow by hand: the laws
// that docs/drafters.md states.
#include <gtest/gtest.h>

#include <cstdio>
#include <vector>

#include "bugs/argmax_root.hpp"
#include "bugs/deterministic_with_ratio.hpp"
#include "bugs/kept_if_confident.hpp"
#include "bugs/longest_path.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/testing/exact_law.hpp"
#include "multidraft/testing/small_models.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/speculative_sampling.hpp"

namespace published_rules_test {
namespace {

namespace bugs = multidraft::bugs;
namespace draft = multidraft::draft;
namespace law = multidraft::law;
namespace verify = multidraft::verify;
using multidraft::testing::law_of_step;
using multidraft::testing::model_pair;
using multidraft::testing::shape;
using multidraft::testing::small_model;

/// The law of the first emitted token, where all rows of a model are the same.
template <class Sampler, class Verifier>
std::vector<double> first_token(std::vector<double> const& p, std::vector<double> const& q, shape const& children) {
    auto const vocabulary = static_cast<multidraft::index_t>(p.size());
    auto const depth = static_cast<int>(children.size());
    model_pair models{small_model(vocabulary, depth), small_model(vocabulary, depth)};
    for (std::size_t c = 0; c < models.target.contexts(); ++c) {
        models.target[c] = p;
        models.draft[c] = q;
    }
    std::vector<double> found(p.size(), 0.0);
    for (auto const& [text, chance] : law_of_step(Sampler{}, Verifier{}, children, models).law)
        found[static_cast<std::size_t>(text[0])] += chance;
    for (double const x : found) std::printf("    %.4f", x);
    std::printf("\n");
    return found;
}

// Beams are tested by p / q though nothing was drawn, and the longest accepted one wins ([ReDrafter]).
TEST(published_rules, of_redrafter_emit_more_of_the_first_beam) {
    auto const found = first_token<draft::top_n, bugs::longest_path<law::deterministic>>({0.5, 0.5}, {0.9, 0.1}, {2});
    EXPECT_NEAR(found[0], 5.0 / 9, 1e-12);
    EXPECT_NEAR(found[1], 4.0 / 9, 1e-12);
    auto const naive = first_token<draft::top_n, verify::naive<law::deterministic>>({0.5, 0.5}, {0.9, 0.1}, {2});
    EXPECT_NEAR(naive[0], 0.5, 1e-12);
}

// A single beam, and each of several tokens tried in turn, as trees of top tokens with p / q.
TEST(published_rules, of_ratios_without_draws_are_biased_for_one_candidate_too) {
    auto const one = first_token<draft::top_n, bugs::longest_path<law::deterministic>>({0.5, 0.5}, {0.9, 0.1}, {1});
    EXPECT_NEAR(one[0], 5.0 / 9, 1e-12);
    auto const found = first_token<draft::top_n, bugs::deterministic_with_ratio>({0.6, 0.4}, {0.9, 0.1}, {1});
    EXPECT_NEAR(found[0], 2.0 / 3, 1e-12);
}

// [Medusa]: the token after the accepted ones is the argmax; without candidates this is greedy decoding.
TEST(published_rules, of_medusa_emit_the_argmax) {
    auto const root = first_token<draft::top_n, bugs::argmax_root>({0.6, 0.4}, {0.9, 0.1}, {1});
    EXPECT_NEAR(root[0], 1.0, 1e-12);
    // A typical candidate is always taken, however much likelier another token is.
    auto const typical = first_token<draft::top_n, bugs::argmax_root>({0.6, 0.4}, {0.1, 0.9}, {1});
    EXPECT_NEAR(typical[1], 1.0, 1e-12);
}

// [DSpark], appendix A: a token that is dropped after it was drawn.
TEST(published_rules, of_confidence_in_the_drawn_token_are_biased) {
    auto const found =
        first_token<bugs::kept_if_confident, verify::speculative_sampling<law::iid>>({0.7, 0.3}, {0.5, 0.5}, {1});
    EXPECT_NEAR(found[0], 0.85, 1e-12);
    EXPECT_NEAR(found[1], 0.15, 1e-12);
    auto const naive = first_token<bugs::kept_if_confident, verify::naive<law::iid>>({0.7, 0.3}, {0.5, 0.5}, {1});
    EXPECT_NEAR(naive[0], 0.7, 1e-12);
}

}  // namespace
}  // namespace published_rules_test
