// The proof of losslessness: for every sampler, tree and verifier that fit, the output has exactly the target's law.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/speculative_sampling.hpp"
#include "support/tree_cases.hpp"

#ifndef MULTIDRAFT_DATA_DIR
#define MULTIDRAFT_DATA_DIR "tests/data"
#endif

namespace lossless_test {
namespace {

namespace draft = multidraft::draft;
namespace law = multidraft::law;
namespace verify = multidraft::verify;
using multidraft::index_t;
using multidraft::token_id;
using multidraft::testing::expect_lossless_trees;
using multidraft::testing::kind;
using multidraft::testing::law_of_step;
using multidraft::testing::law_of_target;
using multidraft::testing::model_pair;
using multidraft::testing::print;
using multidraft::testing::shape;
using multidraft::testing::small_model;
using multidraft::testing::total_variation;
using multidraft::testing::tree_case;

// Rounding of some thousand sums of doubles; the smallest bug of bugs_test.cpp is nine orders of magnitude above.
constexpr double tolerance = 1e-12;

std::vector<tree_case> chains() {
    return {{{1}, 1}, {{1}, 2}, {{1}, 5}, {{1, 1}, 3}, {{1, 1}, 4}, {{1, 1, 1}, 2}, {{1, 1, 1}, 3}};
}

std::vector<tree_case> trees() {
    std::vector<tree_case> all = chains();
    for (tree_case const& t : std::vector<tree_case>{{{2}, 1},
                                                     {{2}, 2},
                                                     {{2}, 5},
                                                     {{3}, 2},
                                                     {{3}, 3},
                                                     {{3}, 5},
                                                     {{4}, 3},
                                                     {{2, 1}, 3},
                                                     {{2, 1}, 4},
                                                     {{2, 2}, 2},
                                                     {{2, 2}, 3},
                                                     {{3, 1}, 3},
                                                     {{1, 2}, 4},
                                                     {{1, 3}, 3},
                                                     {{2, 1, 1}, 2}})
        all.push_back(t);
    return all;
}

TEST(lossless, recursive_rejection_of_iid_drafts) {
    expect_lossless_trees<draft::iid, verify::recursive_rejection<law::iid>>(trees());
}

TEST(lossless, recursive_rejection_of_sequential_drafts) {
    expect_lossless_trees<draft::sequential, verify::recursive_rejection<law::sequential>>(trees());
}

TEST(lossless, speculative_sampling_of_chains) {
    expect_lossless_trees<draft::iid, verify::speculative_sampling<law::iid>>(chains());
    expect_lossless_trees<draft::sequential, verify::speculative_sampling<law::sequential>>(chains());
}

TEST(lossless, naive_verification_of_iid_drafts) {
    expect_lossless_trees<draft::iid, verify::naive<law::iid>>(trees());
}

TEST(lossless, naive_verification_of_sequential_drafts) {
    expect_lossless_trees<draft::sequential, verify::naive<law::sequential>>(trees());
}

TEST(lossless, naive_verification_of_the_most_likely_tokens) {
    expect_lossless_trees<draft::top_n, verify::naive<law::deterministic>>(trees());
}

// --- The number of children may depend on the tokens drawn so far ----------------------------------------------------

// Stops when the tokens drawn so far hold most of the draft's mass: a stopping rule that does not depend on the next
// token.
struct stops_when_covered {
    using law = multidraft::law::sequential;

    template <class G, class Q, class Real, class Source>
    multidraft::drawn_children operator()(G const& g, Q const& q, multidraft::chunk_sums<Real> const& sums,
                                          Source& source, multidraft::draw_site site,
                                          multidraft::span<token_id> out) const {
        Real covered = 0;
        for (std::size_t k = 0; k < out.size(); ++k) {
            if (covered > Real(0.5)) return {static_cast<index_t>(k)};
            index_t const x = source.categorical(g, sums, q.size(), multidraft::weight_of{q}, out.first(k),
                                                 site(multidraft::purpose::draft, static_cast<index_t>(k)));
            if (x == multidraft::none) return {static_cast<index_t>(k)};
            out[k] = x;
            covered += q(x);
        }
        return {static_cast<index_t>(out.size())};
    }
};

// n independent draws with duplicates dropped: the rest has the law of draws without replacement, and their number does
// not depend on the token that would have come next.
struct merged_iid {
    using law = multidraft::law::sequential;

    template <class G, class Q, class Real, class Source>
    multidraft::drawn_children operator()(G const& g, Q const& q, multidraft::chunk_sums<Real> const& sums,
                                          Source& source, multidraft::draw_site site,
                                          multidraft::span<token_id> out) const {
        auto const drawn = draft::iid{}(g, q, sums, source, site, out);
        index_t kept = 0;
        for (index_t k = 0; k < drawn.count; ++k) {
            token_id const x = out[static_cast<std::size_t>(k)];
            bool seen = false;
            for (index_t j = 0; j < kept; ++j) seen = seen || out[static_cast<std::size_t>(j)] == x;
            if (!seen) out[static_cast<std::size_t>(kept++)] = x;
        }
        return {kept};
    }
};

TEST(lossless, a_number_of_children_that_is_a_stopping_rule) {
    std::vector<tree_case> const cases{{{3}, 4}, {{2, 1}, 3}, {{2, 2}, 3}, {{3, 1}, 3}};
    expect_lossless_trees<stops_when_covered, verify::recursive_rejection<law::sequential>>(cases);
    expect_lossless_trees<merged_iid, verify::recursive_rejection<law::sequential>>(cases);
}

// --- Several steps ---------------------------------------------------------------------------------------------------

template <class Sampler, class Verifier>
void expect_lossless_text(shape const& children, index_t vocabulary, std::size_t length) {
    for (kind const k : {kind::plain, kind::no_mass}) {
        auto const models =
            multidraft::testing::random_models(k, vocabulary, static_cast<int>(length), static_cast<std::uint64_t>(7));
        auto const text = multidraft::testing::law_of_text(Sampler{}, Verifier{}, children, models, length);
        EXPECT_LT(total_variation(text.law, law_of_target(models.target, length)), tolerance)
            << print(children) << ", V = " << vocabulary << ", " << name_of(k) << ", " << length << " tokens";
    }
}

TEST(lossless, several_steps_in_a_row) {
    expect_lossless_text<draft::iid, verify::recursive_rejection<law::iid>>({1, 1}, 2, 4);
    expect_lossless_text<draft::iid, verify::recursive_rejection<law::iid>>({2}, 2, 4);
    expect_lossless_text<draft::iid, verify::recursive_rejection<law::iid>>({2, 1}, 2, 3);
    expect_lossless_text<draft::sequential, verify::recursive_rejection<law::sequential>>({1, 1}, 3, 3);
    expect_lossless_text<draft::sequential, verify::recursive_rejection<law::sequential>>({2, 1}, 2, 4);
    expect_lossless_text<draft::sequential, verify::recursive_rejection<law::sequential>>({2}, 3, 3);
    expect_lossless_text<draft::sequential, verify::speculative_sampling<law::sequential>>({1, 1}, 2, 4);
    expect_lossless_text<draft::sequential, verify::naive<law::sequential>>({2, 1}, 3, 3);
    expect_lossless_text<draft::top_n, verify::naive<law::deterministic>>({2, 2}, 3, 4);
}

// --- Acceptance ------------------------------------------------------------------------------------------------------

// Recursive rejection with one candidate accepts sum min(p, q); naive verification of the top n accepts their mass.
TEST(acceptance, of_one_node_has_its_closed_form) {
    for (kind const k : multidraft::testing::all_kinds) {
        auto const models = multidraft::testing::random_models(k, 5, 1, 11);
        auto const& p = models.target[0];
        auto const& q = models.draft[0];
        double overlap = 0;
        for (std::size_t i = 0; i < p.size(); ++i) overlap += std::min(p[i], q[i]);
        EXPECT_NEAR(law_of_step(draft::iid{}, verify::speculative_sampling<law::iid>{}, shape{1}, models).mean_accepted,
                    overlap, tolerance)
            << name_of(k);
        std::vector<std::size_t> order{0, 1, 2, 3, 4};
        std::sort(order.begin(), order.end(),
                  [&](std::size_t a, std::size_t b) { return q[a] > q[b] || (q[a] == q[b] && a < b); });
        double covered = 0;
        for (std::size_t n = 0; n < 2; ++n) covered += q[order[n]] > 0 ? p[order[n]] : 0.0;
        EXPECT_NEAR(law_of_step(draft::top_n{}, verify::naive<law::deterministic>{}, shape{2}, models).mean_accepted,
                    covered, tolerance)
            << name_of(k);
    }
}

void fill(small_model& model, nlohmann::json const& rows) {
    for (auto const& [key, row] : rows.items()) {
        std::size_t context = 0;
        std::istringstream tokens(key);
        for (std::string token; std::getline(tokens, token, ',');)
            context = model.after(context, static_cast<token_id>(std::stoi(token)));
        model[context] = row.get<std::vector<double>>();
    }
}

// The values of an independent program (Python) for whole trees.
TEST(acceptance, of_whole_trees_equals_the_golden_values) {
    std::ifstream file(MULTIDRAFT_DATA_DIR "/golden_trees.json");
    ASSERT_TRUE(file) << "no " MULTIDRAFT_DATA_DIR "/golden_trees.json";
    nlohmann::json const golden = nlohmann::json::parse(file);
    ASSERT_FALSE(golden.at("cases").empty());
    for (auto const& one : golden.at("cases")) {
        auto const children = one.at("children").get<shape>();
        auto const vocabulary = one.at("V").get<index_t>();
        auto const depth = static_cast<int>(children.size());
        model_pair models{small_model(vocabulary, depth), small_model(vocabulary, depth)};
        fill(models.target, one.at("p"));
        fill(models.draft, one.at("q"));
        auto const& mean = one.at("mean_accepted");
        auto const iid = law_of_step(draft::iid{}, verify::recursive_rejection<law::iid>{}, children, models);
        EXPECT_NEAR(iid.mean_accepted, mean.at("recursive_rejection/iid").get<double>(), 1e-9) << print(children);
        EXPECT_LT(total_variation(iid.law, law_of_target(models.target, children.size() + 1)), tolerance);
        auto const sequential =
            law_of_step(draft::sequential{}, verify::recursive_rejection<law::sequential>{}, children, models);
        EXPECT_NEAR(sequential.mean_accepted, mean.at("recursive_rejection/sequential").get<double>(), 1e-9)
            << print(children);
        EXPECT_LT(total_variation(sequential.law, law_of_target(models.target, children.size() + 1)), tolerance);
    }
}

}  // namespace
}  // namespace lossless_test
