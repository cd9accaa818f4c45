// The limit of whole trees: the linear program against an independent program's values, and what it refuses.
#include "multidraft/analysis/tree_limit.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "multidraft/analysis/alpha_star.hpp"
#include "multidraft/base/error.hpp"
#include "support/refusal.hpp"
#include "support/tree_cases.hpp"

#if MULTIDRAFT_HAS_GLPK
#include "acceptance/glpk_solver.hpp"
#endif

namespace tree_limit_test {
namespace {

namespace analysis = multidraft::analysis;
using analysis::tree_draw;
using multidraft::token_id;
using multidraft::testing::kind;
using multidraft::testing::print;
using multidraft::testing::random_models;
using multidraft::testing::shape;
using multidraft::testing::small_model;

/// A small model as a function of the prefix.
struct rows_of {
    small_model const& model;
    [[nodiscard]] std::span<double const> operator()(std::span<token_id const> prefix) const {
        small_model::context context = 0;
        for (token_id const x : prefix) context = model.after(context, x);
        return model[context];
    }
};

TEST(tree_limit, draws_are_the_laws) {
    std::array<double, 3> const q{0.5, 0.3, 0.2};
    for (tree_draw const law : {tree_draw::iid, tree_draw::sequential, tree_draw::stratified}) {
        for (int n = 1; n <= 3; ++n) {
            double sum = 0;
            for (auto const& drawn : analysis::detail::draws_of(q, n, law, 0.7)) sum += drawn.chance;
            EXPECT_NEAR(sum, 1, 1e-12);
        }
    }
    auto const sequential = analysis::detail::draws_of(q, 2, tree_draw::sequential, 0.7);
    EXPECT_EQ(sequential.size(), 6U);
    for (auto const& drawn : sequential) {
        if (drawn.tokens == std::vector<token_id>{0, 2}) {
            EXPECT_NEAR(drawn.chance, 0.5 * 0.2 / 0.5, 1e-12);
        }
    }
    // 2 * 0.5 / 1 >= 0.7: the first token is certain, one draw is left.
    EXPECT_EQ(analysis::detail::taken_with_certainty(q, 2, 0.7), std::vector<token_id>{0});
    // 3 * 0.5 >= 0.7 and 2 * 0.3 / 0.5 >= 0.7.
    EXPECT_EQ(analysis::detail::taken_with_certainty(q, 3, 0.7), (std::vector<token_id>{0, 1}));
    EXPECT_TRUE(analysis::detail::taken_with_certainty(q, 1, 0.7).empty());
    std::array<double, 3> const flat{0.34, 0.33, 0.33};
    EXPECT_TRUE(analysis::detail::taken_with_certainty(flat, 2, 0.7).empty());
    // A row that is certain leaves nothing to draw.
    std::array<double, 3> const certain{0, 1, 0};
    auto const one = analysis::detail::draws_of(certain, 3, tree_draw::stratified, 0.7);
    ASSERT_EQ(one.size(), 1U);
    EXPECT_EQ(one[0].tokens, std::vector<token_id>{1});
    EXPECT_EQ(analysis::detail::draws_of(certain, 3, tree_draw::sequential, 0.7).size(), 1U);
}

TEST(tree_limit, program_has_a_column_for_each_node_of_each_tree) {
    auto const models = random_models(kind::plain, 2, 2, 1);
    std::array<int, 2> const children{1, 1};
    auto const program =
        analysis::tree_limit_program(rows_of{models.target}, rows_of{models.draft}, children, tree_draw::iid);
    EXPECT_EQ(program.gain.size(), 8U);           // four paths of two tokens
    EXPECT_EQ(program.bound.size(), 4U * 2 + 6);  // two flows a path, one bound a prefix
    double sum = 0;
    for (double const g : program.gain) sum += g;
    EXPECT_NEAR(sum, 2, 1e-12);
}

TEST(tree_limit, refuses_rows_of_another_vocabulary_below_the_root) {
    auto const models = random_models(kind::plain, 2, 2, 1);
    std::array<int, 2> const children{1, 1};
    auto const refusal = [&](small_model const& target, small_model const& draft) {
        return multidraft::testing::refusal([&] {
            static_cast<void>(analysis::tree_limit_program(rows_of{target}, rows_of{draft}, children, tree_draw::iid));
        });
    };
    auto narrow = models;
    narrow.draft[1] = {1.0};
    narrow.target[2] = {0.5, 0.25, 0.25};
    EXPECT_EQ(refusal(models.target, models.draft), "nothing was thrown");
    EXPECT_EQ(refusal(models.target, narrow.draft), "draft.size = 1: all rows have one vocabulary");
    EXPECT_EQ(refusal(narrow.target, models.draft), "target.size = 3: all rows have one vocabulary");
}

TEST(tree_limit, refuses_what_is_no_tree_and_no_distribution) {
    auto const models = random_models(kind::plain, 2, 1, 1);
    auto broken = models;
    broken.draft[0] = {0.5, 0.6};
    auto const refusal = [&](small_model const& draft, std::vector<int> const& children, double theta) -> std::string {
        try {
            static_cast<void>(analysis::tree_limit_program(rows_of{models.target}, rows_of{draft}, children,
                                                           tree_draw::stratified, theta));
        } catch (multidraft::invalid_input const& refused) {
            return refused.argument();
        }
        return "";
    };
    EXPECT_EQ(refusal(models.draft, {2}, 0.7), "");
    EXPECT_EQ(refusal(models.draft, {}, 0.7), "children.size");
    EXPECT_EQ(refusal(models.draft, {0}, 0.7), "children");
    EXPECT_EQ(refusal(models.draft, {2}, 0.0), "theta");
    EXPECT_EQ(refusal(broken.draft, {2}, 0.7), "sum(draft)");
    EXPECT_EQ(refusal(random_models(kind::plain, 3, 1, 1).draft, {2}, 0.7), "draft.size");
}

#if MULTIDRAFT_HAS_GLPK

double limit_of(multidraft::testing::model_pair const& models, shape const& children, tree_draw law) {
    return analysis::tree_limit(rows_of{models.target}, rows_of{models.draft}, children, law,
                                multidraft::examples::solve_by_glpk);
}

TEST(tree_limit, equals_the_golden_values) {
    double worst = 0;
    for (auto const& one : multidraft::testing::golden_trees()) {
        for (auto const& [law, name] : std::map<tree_draw, char const*>{{tree_draw::iid, "iid"},
                                                                        {tree_draw::sequential, "sequential"},
                                                                        {tree_draw::stratified, "stratified"}}) {
            double const limit = limit_of(one.models, one.children, law);
            EXPECT_NEAR(limit, one.limit(name), 1e-7) << print(one.children) << ", " << name;
            worst = std::max(worst, std::abs(limit - one.limit(name)));
        }
    }
    std::printf("    largest difference %.1e\n", worst);
}

TEST(tree_limit, of_one_level_is_alpha_star) {
    for (kind const k : {kind::plain, kind::no_mass, kind::narrow_draft, kind::one_hot_target, kind::equal}) {
        auto const models = random_models(k, 4, 1, 3);
        auto const& p = models.target[0];
        auto const& q = models.draft[0];
        for (int n = 1; n <= 3; ++n) {
            EXPECT_NEAR(limit_of(models, {n}, tree_draw::iid), analysis::alpha_star_iid(p, q, n), 1e-8) << name_of(k);
            EXPECT_NEAR(limit_of(models, {n}, tree_draw::sequential), analysis::alpha_star_sequential(p, q, n), 1e-6)
                << name_of(k);
        }
    }
}

#endif

}  // namespace
}  // namespace tree_limit_test
