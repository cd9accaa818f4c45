// Drafts with a smaller vocabulary: the law by enumeration, and the same decisions as with rows in the full vocabulary.
#include "multidraft/rows/widened_row.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "multidraft/base/error.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/testing/enumerating.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "multidraft/verify/k_seq.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/ranked.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/traversal.hpp"
#include "multidraft/verify/verifier.hpp"

namespace widened_row_test {
namespace {

using namespace multidraft;
namespace mt = multidraft::testing;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

std::vector<double> random_row(mt::test_numbers& numbers, index_t n, bool with_zero) {
    std::vector<double> row(at(n));
    double sum = 0;
    for (double& x : row) sum += x = 0.05 + numbers();
    if (with_zero && n > 1) {
        sum -= row[0];
        row[0] = 0;
    }
    for (double& x : row) x /= sum;
    return row;
}

// The draft has three of the target's five tokens: 4, 0 and 2.
std::vector<token_id> const token_of{4, 0, 2};
std::vector<index_t> draft_of() {
    std::vector<index_t> result(5, 77);
    invert_vocabulary(token_of, result);
    return result;
}

TEST(widened_row, is_0_for_tokens_that_the_draft_does_not_have) {
    auto const map = draft_of();
    EXPECT_EQ(map, (std::vector<index_t>{1, none, 2, none, 0}));
    std::vector<float> const q{0.5F, 0.0F, 0.5F}, x{1.0F, -2.0F, 0.5F};
    widened_row const row(probabilities<float>(q.data(), 3), {map.data(), 5});
    EXPECT_EQ(row.size(), 5);
    std::vector<float> got;
    for (index_t i = 0; i < 5; ++i) got.push_back(row(i));
    EXPECT_EQ(got, (std::vector<float>{0.0F, 0.0F, 0.5F, 0.0F, 0.5F}));
    EXPECT_FALSE(row.may_have_mass(0) || row.may_have_mass(1));
    EXPECT_TRUE(row.may_have_mass(2) && row.may_have_mass(4));
    auto const small = process_logits(host_group{}, row_view<float>(x.data(), 3), {.temperature = 0.0F}).row;
    widened_row const certain(small, {map.data(), 5});
    EXPECT_EQ(certain(4), 1.0F);
    EXPECT_EQ(certain.order(0), -2.0F);
    EXPECT_EQ(certain.order(1), minus_infinity<float>);
    EXPECT_EQ(certain.order_limit(), small.order_limit());
    // The draft does not have tokens that the map sends outside the row.
    std::vector<index_t> const wrong{3, -7, 1};
    EXPECT_EQ(widened_row(probabilities<float>(q.data(), 3), {wrong.data(), 3})(0), 0.0F);
    EXPECT_EQ(widened_row(probabilities<float>(q.data(), 3), {wrong.data(), 3})(1), 0.0F);
}

TEST(widened_row, refuses_an_invalid_vocabulary) {
    std::vector<index_t> out(5, 77);
    auto const reason = [&](std::vector<token_id> const& tokens) {
        try {
            invert_vocabulary(tokens, out);
        } catch (invalid_input const& e) {
            return std::string(e.what());
        }
        return std::string("taken");
    };
    EXPECT_EQ(reason({1, 5}), "token_of[1] = 5: the target has 5 tokens");
    EXPECT_EQ(reason({-1}), "token_of[0] = -1: the target has 5 tokens");
    EXPECT_EQ(reason({1, 3, 1}), "token_of[2] = 1: token 0 of the draft is the same");
    EXPECT_EQ(out, std::vector<index_t>(5, 77));
    std::vector<std::int64_t> const offsets{0, 0, 3, 3}, below{0, -2};
    std::vector<token_id> tokens(4);
    tokens_of_offsets<std::int64_t>(offsets, tokens);
    EXPECT_EQ(tokens, (std::vector<token_id>{0, 1, 5, 6}));
    EXPECT_THROW(tokens_of_offsets<std::int64_t>(below, tokens), invalid_input);
    tokens.resize(2);
    EXPECT_THROW(tokens_of_offsets<std::int64_t>(below, tokens), invalid_input);
}

/// The largest total variation from the target's law of two tokens of a text. Its first step drafts n children of the
/// root by `Sampler` from a row of three tokens, and verifies them through a map in a vocabulary of five.
template <class Sampler, class Verifier>
double distance_from_target(index_t n, std::vector<index_t> const& map = draft_of()) {
    double worst = 0;
    for (std::uint64_t seed = 1; seed < 8; ++seed) {
        mt::test_numbers numbers(seed);
        std::vector<double> const q = random_row(numbers, 3, seed % 3 == 0);
        std::vector<double> const p0 = random_row(numbers, 5, seed % 2 == 0);
        std::vector<std::vector<double>> after;
        for (int x = 0; x < 5; ++x) after.push_back(random_row(numbers, 5, false));
        std::map<std::vector<token_id>, double> law;
        mt::enumerate([&](mt::enumerating_source& source) {
            probabilities<double> const row(q.data(), 3);
            std::vector<token_id> children(at(n), none);
            auto sums = host_group{}.sum_chunks(3, weight_of{row});
            auto const drawn = Sampler{}(host_group{}, row, sums, source, draw_site{0, 0}, span<token_id>(children));
            std::vector<node_id> parents{none};
            std::vector<token_id> tokens{1};
            std::vector<double> p = p0, q_rows = q;
            for (index_t k = 0; k < drawn.count; ++k) {
                token_id const x = token_of[at(children[at(k)])];
                parents.push_back(0);
                tokens.push_back(x);
                p.insert(p.end(), after[at(x)].begin(), after[at(x)].end());
                q_rows.insert(q_rows.end(), 3, 1.0 / 3);
            }
            auto const nodes = static_cast<index_t>(parents.size());
            std::vector<node_id> path(1);
            verify::scratch_memory scratch;
            verdict const v = verify::verify_tree(
                Verifier{}, host_group{}, make_drafted<typename Verifier::law>({parents, tokens}, {}),
                target_rows(probability_rows<double>(p.data(), nodes, 5)),
                draft_rows(widened_rows(probability_rows<double>(q_rows.data(), nodes, 3), {map.data(), 5})), source, 0,
                path, scratch.template of<Verifier>(nodes, 1));
            if (v.accepted == 1)
                law[{tokens[at(path[0])], v.next}] += source.probability();
            else
                for (token_id z = 0; z < 5; ++z) law[{v.next, z}] += source.probability() * after[at(v.next)][at(z)];
        });
        double distance = 0;
        for (token_id x = 0; x < 5; ++x)
            for (token_id z = 0; z < 5; ++z) distance += std::abs(law[{x, z}] - p0[at(x)] * after[at(x)][at(z)]) / 2;
        worst = std::max(worst, distance);
    }
    return worst;
}

TEST(widened_row, offsets_at_the_end_of_their_type_are_refused) {
    for (std::int64_t const offset :
         {std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()}) {
        std::vector<std::int64_t> const offsets{0, offset};
        std::vector<token_id> tokens(2);
        EXPECT_THROW(tokens_of_offsets(span<std::int64_t const>(offsets), span<token_id>(tokens)), invalid_input);
    }
}

TEST(widened_row, keeps_verifiers_lossless) {
    EXPECT_LT((distance_from_target<draft::sequential, verify::recursive_rejection<law::sequential>>(1)), 1e-12);
    EXPECT_LT((distance_from_target<draft::sequential, verify::recursive_rejection<law::sequential>>(2)), 1e-12);
    EXPECT_LT((distance_from_target<draft::sequential, verify::recursive_rejection<law::sequential>>(3)), 1e-12);
    EXPECT_LT((distance_from_target<draft::iid, verify::recursive_rejection<law::iid>>(2)), 1e-12);
    EXPECT_LT((distance_from_target<draft::iid, verify::k_seq<law::iid>>(2)), 1e-12);
    EXPECT_LT((distance_from_target<draft::sequential, verify::traversal<law::sequential>>(2)), 1e-12);
    EXPECT_LT((distance_from_target<draft::iid, verify::ranked<law::iid>>(2)), 1e-12);
}

// The proof can fail: a map that confuses two tokens gives another law.
TEST(widened_row, read_through_another_map_is_not_lossless) {
    auto map = draft_of();
    std::swap(map[0], map[2]);
    EXPECT_GT((distance_from_target<draft::sequential, verify::recursive_rejection<law::sequential>>(2, map)), 1e-3);
}

/// Compares verdicts with draft rows read through the map and with the same rows in the full vocabulary.
template <class Sampler, class Verifier>
void expect_same_decisions() {
    constexpr index_t small = 600, large = 5000;
    mt::test_numbers numbers(11);
    std::vector<token_id> tokens_of_draft;
    std::vector<index_t> map(at(large));
    for (token_id x = 3; static_cast<index_t>(tokens_of_draft.size()) < small; x += 8) tokens_of_draft.push_back(x);
    for (std::size_t k = 0; k + 1 < tokens_of_draft.size(); k += 2)
        std::swap(tokens_of_draft[k], tokens_of_draft[k + 1]);
    invert_vocabulary(tokens_of_draft, map);
    int accepted = 0;
    for (std::uint64_t seed = 1; seed < 60; ++seed) {
        std::vector<node_id> const parents{none, 0, 0, 0, 1, 1};
        std::vector<float> p, q, wide(at(6 * large), 0.0F);
        for (int v = 0; v < 6; ++v) {
            float sum = 0;
            std::vector<float> row(at(small));
            for (float& x : row) sum += x = static_cast<float>(numbers() * numbers() * numbers());
            for (std::size_t k = 0; k < row.size(); ++k) {
                q.push_back(row[k] / sum);
                wide[at(v * large + tokens_of_draft[k])] = row[k] / sum;
            }
            // The target is close to the draft.
            std::vector<float> of_target(at(large), 0.02F / large);
            for (std::size_t k = 0; k < row.size(); ++k)
                of_target[at(tokens_of_draft[k])] += 0.98F * 0.5F * (q[at(v * small) + k] + 1.0F / small);
            p.insert(p.end(), of_target.begin(), of_target.end());
        }
        addressed_source source{addressed_uniforms(seed)};
        std::vector<token_id> tokens(6, 1);
        for (node_id const v : {0, 1}) {
            probabilities<float> const row(q.data() + v * small, small);
            span<token_id> const children(tokens.data() + (v == 0 ? 1 : 4), v == 0 ? 3U : 2U);
            auto sums = host_group{}.sum_chunks(small, weight_of{row});
            static_cast<void>(Sampler{}(host_group{}, row, sums, source, draw_site{0, v}, children));
            for (token_id& x : children) x = tokens_of_draft[at(x)];
        }
        auto const verify_with = [&](auto const& draft, std::vector<node_id>& path) {
            verify::scratch_memory scratch;
            return verify::verify_tree(Verifier{}, host_group{},
                                       make_drafted<typename Verifier::law>({parents, tokens}, {}),
                                       target_rows(probability_rows<float>(p.data(), 6, large)), draft_rows(draft),
                                       source, 0, path, scratch.template of<Verifier>(6, 2));
        };
        std::vector<node_id> a(2, 77), b(2, 77);
        verdict const through =
            verify_with(widened_rows(probability_rows<float>(q.data(), 6, small), {map.data(), large}), a);
        verdict const written = verify_with(probability_rows<float>(wide.data(), 6, large), b);
        EXPECT_EQ(through.next, written.next);
        EXPECT_EQ(through.accepted, written.accepted);
        EXPECT_EQ(a, b);
        accepted += through.accepted;
    }
    EXPECT_GT(accepted, 20);
}

TEST(widened_row, decides_as_the_row_in_the_full_vocabulary) {
    expect_same_decisions<draft::sequential, verify::recursive_rejection<law::sequential>>();
    expect_same_decisions<draft::iid, verify::k_seq<law::iid>>();
    expect_same_decisions<draft::sequential, verify::traversal<law::sequential>>();
    expect_same_decisions<draft::iid, verify::ranked<law::iid>>();
    expect_same_decisions<draft::iid, verify::nested_ranked_block<law::iid>>();
}

}  // namespace
}  // namespace widened_row_test
