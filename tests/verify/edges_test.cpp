// Edge cases of verifiers: extreme uniforms, tokens and residuals without mass, input that must be refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/logit_rows.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/speculative_sampling.hpp"
#include "support/scripted.hpp"

namespace edges_test {
namespace {

namespace law = multidraft::law;
namespace verify = multidraft::verify;
using multidraft::addressed_source;
using multidraft::addressed_uniforms;
using multidraft::drafted;
using multidraft::host_group;
using multidraft::index_t;
using multidraft::invalid_input;
using multidraft::logit_rows;
using multidraft::node_id;
using multidraft::none;
using multidraft::probabilities;
using multidraft::probability_rows;
using multidraft::rows_view;
using multidraft::sampling_params;
using multidraft::span;
using multidraft::token_id;
using multidraft::tree_view;
using multidraft::verdict;
using multidraft::testing::scripted_source;
using tokens = std::vector<token_id>;
using row = std::vector<float>;

constexpr double last = 1.0 - 0x1p-53;  // the largest uniform
constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

/// The decision at one node whose draws are the listed uniforms.
template <class Verifier>
verify::node_verdict decide(Verifier const& verifier, row const& p, row const& q, tokens const& candidates,
                            std::vector<double> const& uniforms) {
    scripted_source source(uniforms);
    return verifier.decide(host_group{}, probabilities<float>(p.data(), static_cast<index_t>(p.size())),
                           probabilities<float>(q.data(), static_cast<index_t>(q.size())), candidates, source, {});
}

/// One tree with its rows, to be verified whole.
struct problem {
    std::vector<node_id> parents;
    tokens drafts;
    index_t vocabulary;
    row target;                 ///< one row per node, one after another
    row draft;                  ///< one row per node with children
    std::vector<node_id> path;  ///< what the verifier writes

    [[nodiscard]] static index_t rows_of(row const& rows, index_t vocabulary) {
        return static_cast<index_t>(rows.size()) / vocabulary;
    }

    template <class Verifier, class Source>
    verdict run(Verifier const& verifier, Source& source, std::int32_t position = 0) {
        drafted<typename Verifier::law> const tree{tree_view{parents, drafts}};
        probability_rows<float> const p(target.data(), rows_of(target, vocabulary), vocabulary);
        probability_rows<float> const q(draft.data(), rows_of(draft, vocabulary), vocabulary);
        return verifier(host_group{}, tree, multidraft::target_rows(p), multidraft::draft_rows(q), source, position,
                        span<node_id>(path));
    }

    template <class Verifier>
    verdict run(Verifier const& verifier, std::vector<double> const& uniforms) {
        scripted_source source(uniforms);
        return run(verifier, source);
    }
};

/// A chain of two drafted tokens over four, every row uniform.
problem chain_of_two() { return {{none, 0, 1}, {0, 1, 2}, 4, row(12, 0.25F), row(8, 0.25F), {-7, -7}}; }

template <class F>
void for_every_verifier(F f) {
    f(verify::recursive_rejection<law::iid>{});
    f(verify::recursive_rejection<law::sequential>{});
    f(verify::speculative_sampling<law::iid>{});
    f(verify::speculative_sampling<law::sequential>{});
    f(verify::naive<law::iid>{});
    f(verify::naive<law::sequential>{});
    f(verify::naive<law::deterministic>{});
}

template <class F>
void for_every_verifier_by_ratio(F f) {
    f(verify::recursive_rejection<law::iid>{});
    f(verify::recursive_rejection<law::sequential>{});
    f(verify::speculative_sampling<law::iid>{});
    f(verify::speculative_sampling<law::sequential>{});
}

/// Expects `invalid_input` that names an argument and an index, and a path that was left alone.
template <class Verifier>
void expect_refused(problem p, Verifier const& verifier, std::string const& argument, std::int64_t index) {
    auto const path = p.path;
    auto const target = p.target;
    try {
        addressed_source source;
        static_cast<void>(p.run(verifier, source));
        ADD_FAILURE() << argument << " was not refused";
    } catch (invalid_input const& refused) {
        EXPECT_EQ(refused.argument(), argument) << refused.what();
        EXPECT_EQ(refused.index(), index) << refused.what();
    }
    EXPECT_EQ(p.path, path);
}

// --- The ends of the uniforms ----------------------------------------------------------------------------------------

TEST(edges, a_uniform_of_0_does_not_accept_a_token_of_no_mass) {
    for_every_verifier_by_ratio([](auto verifier) {
        auto const v = decide(verifier, {0.0F, 0.0F, 0.5F, 0.5F}, {0.25F, 0.25F, 0.25F, 0.25F}, {1}, {0.0, 0.0});
        EXPECT_EQ(v.child, none);
        EXPECT_EQ(v.token, 2) << "the first token with mass in the residual";
    });
    EXPECT_EQ(decide(verify::naive<law::iid>{}, {0.0F, 0.5F, 0.5F}, {1.0F, 0.0F, 0.0F}, {0}, {0.0}).token, 1);
}

TEST(edges, the_smallest_mass_is_accepted_at_a_uniform_of_0) {
    float const tiny = 0x1p-140F;  // subnormal
    for_every_verifier_by_ratio([tiny](auto verifier) {
        auto const v = decide(verifier, {1.0F, tiny}, {0.5F, 0.5F}, {1}, {0.0});
        EXPECT_EQ(v.child, 0);
        EXPECT_EQ(v.token, 1);
    });
}

TEST(edges, the_largest_uniform_accepts_a_token_that_the_draft_does_not_overrate) {
    for_every_verifier_by_ratio([](auto verifier) {
        EXPECT_EQ(decide(verifier, {0.5F, 0.5F}, {0.5F, 0.5F}, {1}, {last}).child, 0);
        EXPECT_EQ(decide(verifier, {0.25F, 0.75F}, {0.5F, 0.5F}, {1}, {last}).child, 0);
    });
}

TEST(edges, the_emitted_token_has_mass_at_both_ends_of_the_uniforms) {
    row const p{0.0F, 0.25F, 0.5F, 0.25F, 0.0F};
    row const q{0.5F, 0.0F, 0.0F, 0.0F, 0.5F};
    for_every_verifier_by_ratio([&](auto verifier) {
        EXPECT_EQ(decide(verifier, p, q, {0}, {0.0, 0.0}).token, 1);
        EXPECT_EQ(decide(verifier, p, q, {0}, {0.0, last}).token, 3);
        EXPECT_EQ(decide(verifier, p, q, {4}, {last, last}).token, 3);
    });
    EXPECT_EQ(decide(verify::naive<law::deterministic>{}, p, q, {0}, {last}).token, 3);
    EXPECT_EQ(decide(verify::naive<law::deterministic>{}, p, q, {0}, {0.0}).token, 1);
}

// --- Residuals -------------------------------------------------------------------------------------------------------

TEST(edges, equal_rows_accept_whatever_was_drawn) {
    row const p{0.1F, 0.2F, 0.3F, 0.4F};
    for_every_verifier_by_ratio([&](auto verifier) {
        for (token_id x = 0; x < 4; ++x) EXPECT_EQ(decide(verifier, p, p, {x}, {last}).child, 0);
    });
}

// p is below q at the candidate by one unit in the last place and equal elsewhere: refused once in 2^24, and then
// nothing is left of (p - q)+.
TEST(edges, a_residual_without_mass_gives_a_token_that_was_not_drafted) {
    float const below = std::nextafter(0.5F, 0.0F);
    row const p{below, 0.25F, 0.25F, 0.0F};
    row const q{0.5F, 0.25F, 0.25F, 0.0F};
    for_every_verifier_by_ratio([&](auto verifier) {
        auto const first = decide(verifier, p, q, {0}, {last, 0.0});
        EXPECT_EQ(first.child, none);
        EXPECT_EQ(first.token, 1);
        auto const second = decide(verifier, p, q, {0}, {last, last});
        EXPECT_EQ(second.child, none);
        EXPECT_EQ(second.token, 2);
    });
}

TEST(edges, a_residual_without_mass_ends_the_candidates) {
    float const below = std::nextafter(0.5F, 0.0F);
    row const p{below, 0.25F, 0.25F};
    row const q{0.5F, 0.25F, 0.25F};
    auto const v = decide(verify::recursive_rejection<law::sequential>{}, p, q, {0, 1, 2}, {last, 0.0});
    EXPECT_EQ(v.child, none);
    EXPECT_EQ(v.token, 1);
}

TEST(edges, a_residual_without_mass_falls_back_on_the_target_when_every_token_was_drafted) {
    float const below = std::nextafter(1.0F, 0.0F);
    for_every_verifier_by_ratio([&](auto verifier) {
        auto const v = decide(verifier, {below}, {1.0F}, {0}, {last, last});
        EXPECT_EQ(v.child, none);
        EXPECT_EQ(v.token, 0);
    });
}

TEST(edges, a_vocabulary_of_one_token) {
    for_every_verifier([](auto verifier) {
        auto const v = decide(verifier, {1.0F}, {1.0F}, {0}, {last});
        EXPECT_EQ(v.child, 0);
        EXPECT_EQ(v.token, 0);
    });
    problem p{{none, 0}, {0, 0}, 1, {1.0F, 1.0F}, {1.0F}, {-7}};
    EXPECT_EQ(p.run(verify::recursive_rejection<law::iid>{}, {last, last}).accepted, 1);
    EXPECT_EQ(p.path, std::vector<node_id>{1});
}

TEST(edges, duplicates_are_tried_one_by_one) {
    row const p{0.5F, 0.5F, 0.0F};
    row const q{0.25F, 0.25F, 0.5F};
    verify::recursive_rejection<law::iid> const verifier;
    for (double const u : {0.0, last}) {
        auto const v = decide(verifier, p, q, {2, 2, 2}, {u, u, u, u});
        EXPECT_EQ(v.child, none);
        EXPECT_EQ(v.token, u == 0.0 ? 0 : 1);
    }
    // A refused token has no mass left, so its duplicate is refused too; the token after it may be accepted.
    auto const v = decide(verifier, {0.25F, 0.75F, 0.0F}, {0.5F, 0.25F, 0.25F}, {0, 0, 1}, {last, 0.0, last});
    EXPECT_EQ(v.child, 2);
    EXPECT_EQ(v.token, 1);
}

TEST(edges, naive_accepts_the_first_of_equal_children) {
    auto const v = decide(verify::naive<law::iid>{}, {0.0F, 1.0F}, {0.5F, 0.5F}, {0, 1, 1}, {0.5});
    EXPECT_EQ(v.child, 1);
    EXPECT_EQ(v.token, 1);
}

// The hand calculation: p = (1/2, 1/2, 0), q = (1/4, 1/4, 1/2). Without replacement, after 2 was refused: r = (1/2,
// 1/2, 0) and q_2 = (1/2, 1/2, 0), so that every second candidate is accepted.
TEST(edges, the_second_candidate_is_judged_by_what_is_left_of_the_draft) {
    row const p{0.5F, 0.5F, 0.0F};
    row const q{0.25F, 0.25F, 0.5F};
    EXPECT_EQ(decide(verify::recursive_rejection<law::sequential>{}, p, q, {2, 0}, {0.0, last}).child, 1);
    EXPECT_EQ(decide(verify::recursive_rejection<law::sequential>{}, p, q, {2, 1}, {0.0, last}).child, 1);
}

// --- Temperature 0 ---------------------------------------------------------------------------------------------------

TEST(edges, at_temperature_0_a_candidate_is_accepted_exactly_when_it_is_the_largest_logit) {
    host_group const g;
    row const target_logits{0.5F, 2.0F, 2.0F, -1.0F};  // the tie goes to token 1
    row const draft_logits{0.0F, 0.3F, 0.2F, 0.1F};
    logit_rows<float> const p(rows_view<float>(target_logits.data(), 1, 4), sampling_params{.temperature = 0.0F});
    logit_rows<float> const q(rows_view<float>(draft_logits.data(), 1, 4), sampling_params{});
    for_every_verifier([&](auto verifier) {
        for (std::int32_t position = 0; position < 200; ++position) {
            addressed_source source{addressed_uniforms(9)};
            for (token_id x = 0; x < 4; ++x) {
                tokens const candidate{x};
                auto const v = verifier.decide(g, p(g, 0), q(g, 0), candidate, source, {position, 0});
                EXPECT_EQ(v.child, x == 1 ? 0 : none);
                EXPECT_EQ(v.token, 1);
            }
        }
    });
    // Among several candidates the largest logit is found at any index.
    auto const several = [&](auto verifier) {
        for (std::int32_t position = 0; position < 200; ++position) {
            addressed_source source{addressed_uniforms(10)};
            tokens candidates{0, 2, 3, 1};
            for (index_t where = 3; where >= 0; --where) {
                auto const v = verifier.decide(g, p(g, 0), q(g, 0), candidates, source, {position, 0});
                EXPECT_EQ(v.child, where);
                EXPECT_EQ(v.token, 1);
                if (where > 0)
                    std::swap(candidates[static_cast<std::size_t>(where)],
                              candidates[static_cast<std::size_t>(where - 1)]);
            }
            tokens const others{3, 0};
            auto const v = verifier.decide(g, p(g, 0), q(g, 0), others, source, {position, 0});
            EXPECT_EQ(v.child, none);
            EXPECT_EQ(v.token, 1);
        }
    };
    several(verify::recursive_rejection<law::iid>{});
    several(verify::recursive_rejection<law::sequential>{});
    several(verify::naive<law::deterministic>{});
}

// Rows of a greedy draft are one-hot as well: without replacement there is one child at most.
TEST(edges, at_temperature_0_one_hot_drafts_are_accepted_when_both_models_agree) {
    for_every_verifier([](auto verifier) {
        for (double const u : {0.0, 0.5, last}) {
            EXPECT_EQ(decide(verifier, {0.0F, 1.0F, 0.0F}, {0.0F, 1.0F, 0.0F}, {1}, {u, u}).child, 0);
            auto const v = decide(verifier, {0.0F, 0.0F, 1.0F}, {0.0F, 1.0F, 0.0F}, {1}, {u, u});
            EXPECT_EQ(v.child, none);
            EXPECT_EQ(v.token, 2);
        }
    });
}

// --- Logits of minus infinity ----------------------------------------------------------------------------------------

TEST(edges, a_logit_of_minus_infinity_is_never_accepted_or_emitted) {
    host_group const g;
    row const target_logits{minus_infinity, 0.0F, minus_infinity, 0.5F, minus_infinity};
    row const draft_logits{1.0F, 0.0F, minus_infinity, 0.5F, 1.0F};
    logit_rows<float> const p(rows_view<float>(target_logits.data(), 1, 5), sampling_params{});
    logit_rows<float> const q(rows_view<float>(draft_logits.data(), 1, 5), sampling_params{});
    for_every_verifier([&](auto verifier) {
        for (std::int32_t position = 0; position < 300; ++position) {
            addressed_source source{addressed_uniforms(3)};
            for (token_id const x : {0, 1, 3, 4}) {
                tokens const candidate{x};
                auto const v = verifier.decide(g, p(g, 0), q(g, 0), candidate, source, {position, 0});
                EXPECT_TRUE(v.token == 1 || v.token == 3) << v.token;
            }
        }
    });
}

// --- Whole trees -----------------------------------------------------------------------------------------------------

TEST(edges, a_root_alone_gives_a_token_of_the_target) {
    for_every_verifier([](auto verifier) {
        problem p{{none}, {0}, 3, {0.0F, 0.5F, 0.5F}, {0.5F, 0.5F, 0.0F}, {}};
        auto const v = p.run(verifier, {last});
        EXPECT_EQ(v.accepted, 0);
        EXPECT_EQ(v.next, 2);
    });
}

TEST(edges, naive_needs_no_rows_of_the_draft) {
    std::vector<node_id> const parents{none, 0, 0, 2};
    tokens const drafts{0, 1, 2, 0};
    row const target{0.0F, 0.0F, 1.0F, 1.0F, 0.0F, 0.0F, 1.0F, 0.0F, 0.0F, 0.0F, 1.0F, 0.0F};
    std::vector<node_id> path(2, -7);
    addressed_source source;
    auto const v = verify::naive<law::deterministic>{}(
        host_group{}, drafted<law::deterministic>{tree_view{parents, drafts}},
        multidraft::target_rows(probability_rows<float>(target.data(), 4, 3)),
        multidraft::draft_rows(verify::no_draft_rows{}), source, 0, span<node_id>(path));
    EXPECT_EQ(v.accepted, 2);
    EXPECT_EQ(v.next, 1);
    EXPECT_EQ(path, (std::vector<node_id>{2, 3}));
}

TEST(edges, the_path_is_written_as_far_as_it_is_accepted) {
    for_every_verifier([](auto verifier) {
        problem p = chain_of_two();
        p.target = {0.0F, 1.0F, 0.0F, 0.0F, 1.0F, 0.0F, 0.0F, 0.0F, 0.25F, 0.25F, 0.25F, 0.25F};
        addressed_source source;
        auto const v = p.run(verifier, source);
        EXPECT_EQ(v.accepted, 1);
        EXPECT_EQ(v.next, 0);
        EXPECT_EQ(p.path, (std::vector<node_id>{1, -7}));
    });
}

TEST(edges, the_same_seed_gives_the_same_verdict_and_another_request_or_position_others) {
    for_every_verifier([](auto verifier) {
        int const runs = 64;
        auto const outcomes = [&](std::uint64_t seed, std::uint32_t request, std::int32_t from) {
            std::vector<std::vector<node_id>> all;
            for (std::int32_t position = from; position < from + runs; ++position) {
                problem p = chain_of_two();
                p.draft = {0.1F, 0.5F, 0.2F, 0.2F, 0.1F, 0.1F, 0.7F, 0.1F};
                addressed_source source{addressed_uniforms(seed, request)};
                auto const v = p.run(verifier, source, position);
                p.path.push_back(v.accepted);
                p.path.push_back(v.next);
                all.push_back(p.path);
            }
            return all;
        };
        auto const once = outcomes(7, 1, 100);
        EXPECT_EQ(once, outcomes(7, 1, 100));
        EXPECT_NE(once, outcomes(8, 1, 100));
        EXPECT_NE(once, outcomes(7, 2, 100));
        EXPECT_NE(once, outcomes(7, 1, 101));
    });
}

// --- What is refused -------------------------------------------------------------------------------------------------

TEST(refused, more_than_one_child_for_speculative_sampling) {
    problem p{{none, 0, 0}, {0, 1, 2}, 4, row(12, 0.25F), row(4, 0.25F), {-7}};
    expect_refused(p, verify::speculative_sampling<law::iid>{}, "children", 0);
    expect_refused(p, verify::speculative_sampling<law::sequential>{}, "children", 0);
    // The node is found after another was accepted: still nothing is written.
    problem deep{{none, 0, 1, 1}, {0, 1, 2, 3}, 4, row(16, 0.25F), row(8, 0.25F), {-7, -7}};
    expect_refused(deep, verify::speculative_sampling<law::iid>{}, "children", 1);
}

TEST(refused, a_candidate_that_the_draft_cannot_have_drawn) {
    for_every_verifier_by_ratio([](auto verifier) {
        problem p = chain_of_two();
        p.draft = {0.5F, 0.0F, 0.25F, 0.25F, 0.25F, 0.25F, 0.25F, 0.25F};
        expect_refused(p, verifier, "tokens", 1);
        p.draft = {0.25F, 0.25F, 0.25F, 0.25F, 0.5F, 0.25F, 0.0F, 0.25F};
        expect_refused(p, verifier, "tokens", 2);
    });
}

TEST(refused, tokens_outside_the_vocabulary) {
    for_every_verifier([](auto verifier) {
        for (token_id const x : {-1, 4, 1 << 30}) {
            problem p = chain_of_two();
            p.drafts[2] = x;
            try {
                addressed_source source;
                static_cast<void>(p.run(verifier, source));
                ADD_FAILURE() << x << " was not refused";
            } catch (invalid_input const& refused) {
                EXPECT_EQ(refused.argument(), "tokens") << refused.what();
                EXPECT_EQ(refused.value(), std::to_string(x)) << refused.what();
                EXPECT_EQ(refused.index(), 2) << refused.what();
            }
            EXPECT_EQ(p.path, (std::vector<node_id>{-7, -7}));
        }
    });
}

TEST(refused, a_path_that_is_shorter_than_the_tree_is_deep) {
    for_every_verifier([](auto verifier) {
        problem p = chain_of_two();
        p.path = {-7};
        expect_refused(p, verifier, "path.size", -1);
        p.path = {};
        expect_refused(p, verifier, "path.size", -1);
    });
}

TEST(refused, trees_that_are_none) {
    for_every_verifier([](auto verifier) {
        problem p = chain_of_two();
        p.parents = {};
        expect_refused(p, verifier, "parents.size", -1);
        p.parents = {0, 0, 1};
        expect_refused(p, verifier, "parents", 0);
        p.parents = {none, 0, 2};
        expect_refused(p, verifier, "parents", 2);
        p.parents = {none, 0};
        expect_refused(p, verifier, "tokens.size", -1);
        problem unsorted{{none, 0, 1, 0}, {0, 1, 2, 3}, 4, row(16, 0.25F), row(8, 0.25F), {-7, -7}};
        expect_refused(unsorted, verifier, "parents", 3);
    });
}

TEST(refused, too_few_rows) {
    for_every_verifier([](auto verifier) {
        problem p = chain_of_two();
        p.target.resize(8);
        expect_refused(p, verifier, "target.rows", -1);
        p = chain_of_two();
        p.draft.resize(4);
        expect_refused(p, verifier, "draft.rows", -1);
    });
}

TEST(refused, rows_of_different_vocabularies) {
    std::vector<node_id> const parents{none, 0};
    tokens const drafts{0, 1};
    row const target(8, 0.25F);
    row const draft(5, 0.2F);
    for_every_verifier([&](auto verifier) {
        std::vector<node_id> path{-7};
        addressed_source source;
        try {
            static_cast<void>(verifier(
                host_group{}, drafted<typename decltype(verifier)::law>{tree_view{parents, drafts}},
                multidraft::target_rows(probability_rows<float>(target.data(), 2, 4)),
                multidraft::draft_rows(probability_rows<float>(draft.data(), 1, 5)), source, 0, span<node_id>(path)));
            ADD_FAILURE() << "the rows were not refused";
        } catch (invalid_input const& refused) {
            EXPECT_EQ(refused.argument(), "draft.size") << refused.what();
        }
        EXPECT_EQ(path, std::vector<node_id>{-7});
    });
}

TEST(refused, a_target_of_nan) {
    for_every_verifier([](auto verifier) {
        problem p = chain_of_two();
        std::fill(p.target.begin(), p.target.begin() + 4, nan);
        expect_refused(p, verifier, "target", 0);
        // One NaN: at the candidate, which is then refused, so that the row is read whole.
        p = chain_of_two();
        p.target[1] = nan;
        expect_refused(p, verifier, "target", 0);
        // In the row of the last node, from which a token is drawn.
        p = chain_of_two();
        p.target = row{0.0F, 1.0F, 0.0F, 0.0F, 0.0F, 0.0F, 1.0F, 0.0F, 0.25F, 0.25F, 0.25F, nan};
        expect_refused(p, verifier, "target", 2);
    });
    // Beside the candidate: a refusal reads the row, whose NaN must not pass for a token without mass.
    for_every_verifier_by_ratio([](auto verifier) {
        problem p = chain_of_two();
        p.target = row{0.5F, 0.0F, nan, 0.5F, 0.25F, 0.25F, 0.25F, 0.25F, 0.25F, 0.25F, 0.25F, 0.25F};
        expect_refused(p, verifier, "target", 0);
    });
}

TEST(refused, a_draft_of_nan) {
    for_every_verifier_by_ratio([](auto verifier) {
        problem p = chain_of_two();
        p.draft[1] = nan;
        expect_refused(p, verifier, "draft", 0);
        p = chain_of_two();
        p.draft[0] = nan;
        p.target = row{0.5F, 0.0F, 0.25F, 0.25F, 0.25F, 0.25F, 0.25F, 0.25F, 0.25F, 0.25F, 0.25F, 0.25F};
        expect_refused(p, verifier, "draft", 0);
    });
}

TEST(refused, a_target_without_mass) {
    for_every_verifier([](auto verifier) {
        problem p = chain_of_two();
        std::fill(p.target.begin(), p.target.begin() + 4, 0.0F);
        expect_refused(p, verifier, "target", 0);
    });
}

TEST(refused, logits_that_are_no_distribution) {
    std::vector<node_id> const parents{none, 0};
    tokens const drafts{0, 1};
    row const draft(4, 0.0F);
    for (float const wrong : {nan, -minus_infinity}) {
        row target(8, 0.0F);
        target[2] = wrong;
        for (float const temperature : {0.0F, 0.7F}) {
            for_every_verifier([&](auto verifier) {
                std::vector<node_id> path{-7};
                addressed_source source;
                try {
                    static_cast<void>(
                        verifier(host_group{}, drafted<typename decltype(verifier)::law>{tree_view{parents, drafts}},
                                 multidraft::target_rows(logit_rows<float>(rows_view<float>(target.data(), 2, 4),
                                                                           sampling_params{temperature})),
                                 multidraft::draft_rows(
                                     logit_rows<float>(rows_view<float>(draft.data(), 1, 4), sampling_params{})),
                                 source, 0, span<node_id>(path)));
                    ADD_FAILURE() << "the logit was not refused";
                } catch (invalid_input const& refused) {
                    EXPECT_EQ(refused.index(), 2) << refused.what();
                }
                EXPECT_EQ(path, std::vector<node_id>{-7});
            });
        }
    }
}

}  // namespace
}  // namespace edges_test
