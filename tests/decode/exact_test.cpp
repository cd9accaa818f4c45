// The decoding loops, proved: the exact law of whole texts by enumeration, over several steps.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>
#include <vector>

#include "multidraft/decode/autoregressive.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/testing/enumerating.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/speculative_sampling.hpp"
#include "support/table_model.hpp"

namespace multidraft {
namespace exact_test {
namespace {

using testing::conditional;
using testing::random_conditional;
using testing::table_model;
using text_law = std::map<std::vector<token_id>, double>;

constexpr std::int32_t vocabulary = 3;

/// The target's own law of n tokens after a prompt, processed.
text_law true_law(conditional const& p, std::vector<token_id> const& prompt, int n, sampling_params const& w) {
    text_law law{{{}, 1.0}};
    for (int i = 0; i < n; ++i) {
        text_law next;
        for (auto const& [text, weight] : law) {
            std::vector<token_id> whole = prompt;
            whole.insert(whole.end(), text.begin(), text.end());
            std::vector<double> logits = p(whole);
            for (auto& x : logits) x = std::log(x);
            auto const row = process_logits(host_group{}, row_view<double>(logits.data(), vocabulary), w).row;
            for (token_id x = 0; x < vocabulary; ++x) {
                if (!(row(x) > 0)) continue;
                auto longer = text;
                longer.push_back(x);
                next[longer] += weight * row(x);
            }
        }
        law = std::move(next);
    }
    return law;
}

double total_variation(text_law const& a, text_law const& b) {
    double sum = 0;
    for (auto const& [text, p] : a) sum += std::abs(p - (b.contains(text) ? b.at(text) : 0.0));
    for (auto const& [text, p] : b)
        if (!a.contains(text)) sum += p;
    return sum / 2;
}

struct setting {
    topology shape;
    int tokens;
    multidraft::sampling_params sampling;
    int sparsity = 0;
    std::optional<multidraft::sampling_params> draft_sampling = std::nullopt;
};

template <class Sampler, class Verifier>
void expect_exact(setting const& s) {
    auto const p = random_conditional(vocabulary, 11, 2, s.sparsity);
    auto const q = random_conditional(vocabulary, 12, 2, s.sparsity);
    table_model<double> target(vocabulary, p);
    table_model<double> draft(vocabulary, q);
    std::vector<token_id> const prompt{1, 2};
    generation_options options;
    options.max_tokens = s.tokens;
    options.sampling = s.sampling;
    options.draft_sampling = s.draft_sampling;
    auto loop = make_speculative<Sampler, Verifier>(target, draft, s.shape);
    text_law law;
    double total = 0;
    double calls = 0;
    testing::enumerate([&](testing::enumerating_source& source) {
        auto const result = loop(prompt, options, source);
        law[result.tokens] += source.probability();
        total += source.probability();
        calls += source.probability() * static_cast<double>(result.metrics.target_calls);
        // Both caches hold the text up to its last token but one, wherever the tree ended.
        ASSERT_EQ(target.length(), static_cast<std::int32_t>(prompt.size() + result.tokens.size()) - 1);
        ASSERT_LE(draft.length(), target.length());
    });
    EXPECT_NEAR(total, 1.0, 1e-12);
    EXPECT_LT(total_variation(law, true_law(p, prompt, s.tokens, s.sampling)), 1e-12);
    EXPECT_LT(calls, s.tokens) << "some tokens are accepted";
}

using law::deterministic;
using law::iid;
using law::sequential;

TEST(Exact, AutoregressiveLoop) {
    auto const p = random_conditional(vocabulary, 11);
    table_model<double> target(vocabulary, p);
    std::vector<token_id> const prompt{0};
    for (sampling_params const& w :
         {sampling_params{}, sampling_params{.temperature = 0.5F}, sampling_params{.temperature = 1.5F, .top_k = 2}}) {
        generation_options options;
        options.max_tokens = 4;
        options.sampling = w;
        text_law law;
        testing::enumerate([&](testing::enumerating_source& source) {
            auto const tokens = autoregressive(target, prompt, options, source).tokens;
            law[tokens] += source.probability();
        });
        EXPECT_LT(total_variation(law, true_law(p, prompt, 4, w)), 1e-12);
    }
}

TEST(Exact, ChainsBySpeculativeSampling) {
    for (int depth : {1, 2, 3}) expect_exact<draft::iid, verify::speculative_sampling<iid>>({chain(depth), 4, {}});
    expect_exact<draft::sequential, verify::speculative_sampling<sequential>>({chain(2), 4, {}});
}

TEST(Exact, TreesByRecursiveRejection) {
    for (auto const& s : {setting{branching({2}), 3, {}}, setting{branching({2, 1}), 3, {}},
                          setting{branching({1, 2}), 3, {.temperature = 0.7F}}, setting{branching({3}), 2, {}}}) {
        expect_exact<draft::iid, verify::recursive_rejection<iid>>(s);
        expect_exact<draft::sequential, verify::recursive_rejection<sequential>>(s);
    }
    expect_exact<draft::sequential, verify::recursive_rejection<sequential>>({branching({2, 2}), 3, {}});
}

TEST(Exact, TreesByNaiveVerification) {
    for (auto const& s : {setting{branching({2, 1}), 3, {}}, setting{branching({2}), 3, {.temperature = 2.0F}}}) {
        expect_exact<draft::iid, verify::naive<iid>>(s);
        expect_exact<draft::sequential, verify::naive<sequential>>(s);
        expect_exact<draft::top_n, verify::naive<deterministic>>(s);
    }
    expect_exact<draft::top_n, verify::naive<deterministic>>({branching({2, 2, 1}), 4, {}});
}

TEST(Exact, WarpsAndZeroMass) {
    for (auto const& w : {sampling_params{.top_k = 2}, sampling_params{.top_p = 0.6F},
                          sampling_params{.temperature = 0.8F, .min_p = 0.4F}}) {
        expect_exact<draft::sequential, verify::recursive_rejection<sequential>>({branching({2, 1}), 3, w});
        expect_exact<draft::iid, verify::recursive_rejection<iid>>({branching({2}), 3, w});
    }
    expect_exact<draft::sequential, verify::recursive_rejection<sequential>>({branching({3, 1}), 2, {}, 2});
    expect_exact<draft::iid, verify::recursive_rejection<iid>>({branching({2, 1}), 3, {}, 3});
}

TEST(Exact, TheDraftMayHaveAWarpOfItsOwn) {
    for (auto const& w : {sampling_params{}, sampling_params{.temperature = 0.0F}, sampling_params{.top_k = 2}}) {
        sampling_params const own{.temperature = 1.7F};
        expect_exact<draft::sequential, verify::recursive_rejection<sequential>>({branching({2, 1}), 3, w, 0, own});
        expect_exact<draft::iid, verify::recursive_rejection<iid>>({branching({2}), 3, w, 0, own});
        expect_exact<draft::top_n, verify::naive<deterministic>>({branching({2, 1}), 3, w, 0, own});
    }
}

}  // namespace
}  // namespace exact_test
}  // namespace multidraft
