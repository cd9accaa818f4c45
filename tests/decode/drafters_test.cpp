// Every drafter, proved: the exact law of whole texts over several steps, and temperature 0 token for token.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bugs/reranked_draws.hpp"
#include "decode/text_laws.hpp"
#include "multidraft/decode/autoregressive.hpp"
#include "multidraft/decode/best_first_drafter.hpp"
#include "multidraft/decode/independent_drafter.hpp"
#include "multidraft/decode/lookup_drafter.hpp"
#include "multidraft/decode/sequence_drafter.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/decode/stochastic_beam_drafter.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/merged.hpp"
#include "multidraft/verify/multi_round.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "support/refusal.hpp"
#include "support/table_model.hpp"

namespace multidraft {
namespace drafters_test {
namespace {

using testing::distance;
using testing::law_of_loop;
using testing::random_conditional;
using testing::refusal;
using testing::table_model;
using testing::true_law;

using rejection = verify::recursive_rejection<law::sequential>;

constexpr std::int32_t vocabulary = 3;

/// Two draft models of table form and a target.
struct tables {
    explicit tables(int sparsity = 0)
        : p(random_conditional(vocabulary, 11, 2, sparsity)),
          q(random_conditional(vocabulary, 12, 2, sparsity)),
          other_q(random_conditional(vocabulary, 13, 1, sparsity)) {}

    testing::conditional p, q, other_q;
    table_model<double> target{vocabulary, p};
    table_model<double> draft{vocabulary, q};
    table_model<double> other{vocabulary, other_q};
    std::vector<token_id> prompt{1, 2, 1};
};

/// Enumerates the loop of a drafter and compares its text with the target's own law.
template <class Verifier, class Drafter>
double expect_exact(tables& t, Drafter drafter, int tokens, sampling_params const& w = {}, Verifier verifier = {}) {
    generation_options options;
    options.max_tokens = tokens;
    options.sampling = w;
    auto loop = make_speculative<Verifier>(t.target, std::move(drafter), verifier);
    auto const result = law_of_loop(loop, t.prompt, options, [&](generation const& g) {
        auto const length = static_cast<std::int32_t>(t.prompt.size() + g.tokens.size()) - 1;
        ASSERT_EQ(t.target.length(), length) << "the cache holds the text up to its last token but one";
        ASSERT_LE(t.draft.length(), length);
        ASSERT_LE(t.other.length(), length);
    });
    EXPECT_NEAR(result.total, 1.0, 1e-12);
    EXPECT_LT(distance(result.law, true_law(t.p, vocabulary, t.prompt, tokens, w)), 1e-12);
    if (!w.greedy()) {
        EXPECT_LT(result.calls, tokens) << "some tokens are accepted";
    }
    return result.accepted;
}

sampling_params const samplings[] = {{}, {.temperature = 0.7F}, {.temperature = 0.0F}, {.top_k = 2}};

TEST(LookupDrafter, IsExact) {
    for (sampling_params const& w : samplings) {
        tables t;
        t.prompt = {1, 2, 1, 0, 1, 2};
        expect_exact<verify::naive<law::deterministic>>(t, lookup_drafter({{2, 1}, 3, 3}), 5, w);
        expect_exact<verify::naive<law::deterministic>>(
            t,
            with_lookup(static_tree_drafter<table_model<double>, draft::top_n>(t.draft, branching({2, 1})),
                        {{2, 1}, 2, 3}),
            4, w);
        expect_exact<verify::naive<law::deterministic>>(
            t,
            with_lookup(static_tree_drafter<table_model<double>, draft::sequential>(t.draft, chain(1)), {{2, 1}, 2, 2}),
            3, w);
    }
}

TEST(SequenceDrafter, IsExact) {
    for (sampling_params const& w : samplings) {
        tables t;
        for (auto const& [k, l] : {std::pair{2, 2}, {3, 1}, {1, 3}}) {
            expect_exact<verify::recursive_rejection<law::iid>>(t, sequence_drafter(t.draft, k, l), 3, w);
            expect_exact<verify::merged<verify::naive<law::iid>>>(t, sequence_drafter(t.draft, k, l), 3, w);
        }
    }
}

TEST(SequenceDrafter, SharedNodesAcceptMoreThanAFork) {
    tables t;
    double const shared = expect_exact<verify::recursive_rejection<law::iid>>(t, sequence_drafter(t.draft, 2, 2), 3);
    double const apart = expect_exact<verify::recursive_rejection<law::iid>>(
        t, static_tree_drafter<table_model<double>, draft::iid>(t.draft, fork(2, 2)), 3);
    EXPECT_GT(shared, apart + 1e-3);
}

TEST(StochasticBeamDrafter, IsExactWhateverTheTimes) {
    // The times are on a grid here: losslessness does not depend on their law, only on what they may depend on.
    for (sampling_params const& w : samplings) {
        tables t;
        expect_exact<rejection>(t, stochastic_beam_drafter(t.draft, {2, 2}), 3, w);
        expect_exact<rejection>(t, stochastic_beam_drafter(t.draft, {3, 2}), 3, w);
        expect_exact<rejection>(t, stochastic_beam_drafter(t.draft, {1, 1, 1}), 4, w);
        tables sparse(3);
        expect_exact<rejection>(sparse, stochastic_beam_drafter(sparse.draft, {2, 3}), 3, w);
    }
}

TEST(BestFirstDrafters, AreExact) {
    for (sampling_params const& w : samplings) {
        tables t;
        expect_exact<verify::naive<law::deterministic>>(t, best_first_top_drafter(t.draft, {4, 3, 2, 2}), 4, w);
        expect_exact<verify::naive<law::deterministic>>(t, best_first_top_drafter(t.draft, {2, 3, 3, 3}), 4, w);
        for (double const least : {0.0, 0.2, 0.5})
            expect_exact<rejection>(t, best_first_drawn_drafter(t.draft, {4, 2, 2, 3, least}), 3, w);
        tables sparse(3);
        expect_exact<rejection>(sparse, best_first_drawn_drafter(sparse.draft, {5, 2, 2, 3, 0.01}), 3, w);
    }
}

TEST(BestFirstDrafters, BugDrawnNodesMustNotBeReranked) {
    tables t;
    generation_options options;
    options.max_tokens = 2;
    auto loop = make_speculative<rejection>(t.target, bugs::reranked_draws(t.draft));
    auto const result = law_of_loop(loop, t.prompt, options, [](generation const&) {});
    EXPECT_GT(distance(result.law, true_law(t.p, vocabulary, t.prompt, 2, {})), 1e-3);
}

TEST(IndependentDrafter, IsExactByMultiRound) {
    for (sampling_params const& w : samplings) {
        tables t;
        expect_exact<verify::multi_round<law::independent>>(
            t, independent_drafter<table_model<double>>({&t.draft, &t.other}, branching({2, 1})), 3, w);
    }
}

TEST(IndependentDrafter, IsExactByNaiveVerification) {
    for (sampling_params const& w : samplings) {
        tables t;
        expect_exact<verify::naive<law::independent>>(
            t, independent_drafter<table_model<double>>({&t.draft, &t.other}, branching({2, 1})), 3, w);
    }
}

/// Large tables, for temperature 0 and for counts.
struct larger {
    static constexpr std::int32_t size = 50;
    table_model<float> target{size, random_conditional(size, 1, 2, 0, 2.0)};
    table_model<float> draft{size, random_conditional(size, 1, 1, 0, 2.0)};
    table_model<float> other{size, random_conditional(size, 2, 1, 0, 2.0)};
    std::vector<token_id> prompt{3, 1, 4, 1, 5, 3, 1, 4};

    template <class Verifier, class Drafter>
    generation operator()(Drafter drafter, generation_options const& options) {
        return make_speculative<Verifier>(target, std::move(drafter))(prompt, options);
    }
};

TEST(Drafters, TemperatureZeroGivesTheGreedyText) {
    larger m;
    generation_options options;
    options.max_tokens = 60;
    options.sampling.temperature = 0;
    options.draft_sampling = sampling_params{.temperature = 0.5F};
    auto const greedy = autoregressive(m.target, m.prompt, options).tokens;
    using model = table_model<float>;
    for (auto const& own : {std::optional<sampling_params>(), options.draft_sampling}) {
        options.draft_sampling = own;
        EXPECT_EQ(m.operator()<verify::naive<law::deterministic>>(lookup_drafter(), options).tokens, greedy);
        EXPECT_EQ(m.operator()<verify::naive<law::deterministic>>(
                       with_lookup(static_tree_drafter<model, draft::top_n>(m.draft, branching({2, 2, 1}))), options)
                      .tokens,
                  greedy);
        EXPECT_EQ(m.operator()<verify::recursive_rejection<law::iid>>(sequence_drafter(m.draft, 4, 4), options).tokens,
                  greedy);
        EXPECT_EQ(m.operator()<rejection>(stochastic_beam_drafter(m.draft, {4, 4, 4, 4}), options).tokens, greedy);
        EXPECT_EQ(m.operator()<verify::naive<law::deterministic>>(best_first_top_drafter(m.draft), options).tokens,
                  greedy);
        EXPECT_EQ(m.operator()<rejection>(best_first_drawn_drafter(m.draft), options).tokens, greedy);
        EXPECT_EQ(m.operator()<verify::naive<law::independent>>(
                       independent_drafter<model>({&m.draft, &m.other}, branching({2, 2, 2})), options)
                      .tokens,
                  greedy);
    }
}

TEST(Drafters, ReadNoMoreThanTheirContext) {
    generation_options options;
    options.max_tokens = 100;
    options.sampling.temperature = 0;
    auto const p = random_conditional(50, 1, 2, 0, 2.0);
    std::vector<token_id> const prompt{1, 2, 3};
    table_model<float> target(50, p, 20);
    auto const greedy = autoregressive(target, prompt, options);
    ASSERT_EQ(greedy.reason, stop_reason::context_limit);
    for (std::int32_t const limit : {2, 3, 7, 20, 40}) {
        table_model<float> draft(50, p, limit);
        table_model<float> other(50, p, limit + 3);
        auto const expect = [&](generation const& g) {
            EXPECT_EQ(g.tokens, greedy.tokens) << limit;
            EXPECT_EQ(g.reason, stop_reason::context_limit);
        };
        expect(make_speculative<rejection>(target, stochastic_beam_drafter(draft, {3, 3, 3}))(prompt, options));
        expect(make_speculative<rejection>(target, best_first_drawn_drafter(draft))(prompt, options));
        expect(make_speculative<verify::naive<law::deterministic>>(target, best_first_top_drafter(draft))(prompt,
                                                                                                          options));
        expect(make_speculative<verify::recursive_rejection<law::iid>>(target, sequence_drafter(draft, 3, 3))(prompt,
                                                                                                              options));
        expect(make_speculative<verify::naive<law::deterministic>>(target, lookup_drafter())(prompt, options));
        expect(make_speculative<verify::naive<law::independent>>(
            target, independent_drafter<table_model<float>>({&draft, &other}, branching({2, 1, 1})))(prompt, options));
    }
}

TEST(LookupDrafter, FindsWhatTheTextRepeats) {
    std::vector<token_id> const text{7, 8, 9, 1, 7, 8, 5, 6, 7, 8};
    lookup_drafter drafter({{3, 1}, 2, 3});
    addressed_source source;
    generation_metrics m;
    drafter.grow(host_group{}, text, 10, sampling_params{}, source, m);
    // Two matches of two tokens, the later first: 5 6 7 and 9 1 7.
    tree_view const tree = drafter.tree().tree;
    EXPECT_EQ(std::vector<token_id>(tree.tokens.begin(), tree.tokens.end()),
              (std::vector<token_id>{8, 5, 9, 6, 1, 7, 7}));
    EXPECT_EQ(std::vector<node_id>(tree.parents.begin(), tree.parents.end()),
              (std::vector<node_id>{-1, 0, 0, 1, 2, 3, 4}));
    EXPECT_EQ(m.drafted, 6);
    drafter.grow(host_group{}, text, 1, sampling_params{}, source, m);
    EXPECT_EQ(drafter.size(), 3) << "no deeper than it is allowed";
    std::vector<token_id> const loop{4, 5, 4, 5, 4};
    drafter.grow(host_group{}, loop, 10, sampling_params{}, source, m);
    EXPECT_EQ(drafter.tokens()[1], 5);
    EXPECT_EQ(drafter.tokens()[2], 4) << "a repetition goes on past the end of the text";
    std::vector<token_id> const fresh{1, 2, 3};
    drafter.grow(host_group{}, fresh, 10, sampling_params{}, source, m);
    EXPECT_EQ(drafter.size(), 1);
}

/// Remembers the outcomes of its chains of two.
class remembering_drafter : public static_tree_drafter<table_model<float>, draft::top_n> {
public:
    remembering_drafter(table_model<float>& draft, std::vector<std::vector<node_id>>& paths)
        : static_tree_drafter(draft, chain(2)), paths_(&paths) {}

    void learn(step_outcome const& outcome) {
        EXPECT_EQ(outcome.tree.size(), size());
        EXPECT_EQ(outcome.tree.tokens[1], tokens()[1]);
        paths_->emplace_back(outcome.path.begin(), outcome.path.end());
    }

private:
    std::vector<std::vector<node_id>>* paths_;
};

// The drafter within learns from its own part of the tree.
TEST(LookupDrafter, TheOtherDrafterLearns) {
    larger m;
    generation_options options;
    options.max_tokens = 200;
    options.sampling.temperature = 0;
    std::vector<std::vector<node_id>> alone;
    std::vector<std::vector<node_id>> within;
    make_speculative<verify::naive<law::deterministic>>(m.target, remembering_drafter(m.draft, alone))(
        std::vector<token_id>{3, 1, 4}, options);
    // A look-up that finds nothing, and one that does.
    make_speculative<verify::naive<law::deterministic>>(
        m.target, with_lookup(remembering_drafter(m.draft, within), {{1000, 1000}, 1, 1}))(
        std::vector<token_id>{3, 1, 4}, options);
    EXPECT_EQ(alone, within);
    within.clear();
    auto const mixed = make_speculative<verify::naive<law::deterministic>>(
        m.target, with_lookup(remembering_drafter(m.draft, within), {{2, 1}, 3, 4}))(std::vector<token_id>{3, 1, 4},
                                                                                     options);
    std::int64_t learnt = 0;
    for (auto const& path : within) {
        ASSERT_LE(path.size(), 2U);
        for (std::size_t k = 0; k < path.size(); ++k) EXPECT_EQ(path[k], static_cast<node_id>(k + 1));
        learnt += static_cast<std::int64_t>(path.size());
    }
    EXPECT_EQ(static_cast<std::int64_t>(within.size()), mixed.metrics.target_calls);
    EXPECT_GT(mixed.metrics.accepted, learnt);
    EXPECT_GT(learnt, 0);
}

TEST(Drafters, KeepToTheirBudgets) {
    larger m;
    addressed_source source{addressed_uniforms(3)};
    generation_metrics count;
    std::vector<token_id> const text{3, 1, 4};
    sampling_params const w;
    host_group const g;
    stochastic_beam_drafter beams(m.draft, {3, 5, 2});
    beams.grow(g, text, 3, w, source, count);
    EXPECT_EQ(level_widths(topology::from_parents(beams.tree().tree.parents)), (std::vector<std::int32_t>{3, 5, 2}));
    m.draft.keep(0, {});
    best_first_top_drafter top(m.draft, {9, 4, 3, 5});
    top.grow(g, text, 4, w, source, count);
    EXPECT_EQ(top.size(), 10);
    m.draft.keep(0, {});
    best_first_drawn_drafter drawn(m.draft, {9, 4, 3, 5, 0.0});
    drawn.grow(g, text, 4, w, source, count);
    EXPECT_EQ(drawn.size(), 10);
    m.draft.keep(0, {});
    // Room for what can be read, not for what the bounds alone allow.
    best_first_drawn_drafter wide(m.draft, {9, 4, 1'000'000'000, 1'000'000'000, 0.0});
    wide.grow(g, text, 4, w, source, count);
    EXPECT_EQ(wide.size(), 10);
    m.draft.keep(0, {});
    best_first_top_drafter widest(m.draft, {9, 4, 1'000'000'000, 5});
    widest.grow(g, text, 4, w, source, count);
    EXPECT_EQ(widest.size(), 10);
    m.draft.keep(0, {});
    sequence_drafter sequences(m.draft, 5, 3);
    sequences.grow(g, text, 3, w, source, count);
    EXPECT_EQ(sequences.size(), 16);
}

TEST(Drafters, BadInputIsNamed) {
    larger m;
    using model = table_model<float>;
    auto const has = [](std::string const& text, std::string const& part) {
        EXPECT_NE(text.find(part), std::string::npos) << text;
    };
    has(refusal([] { lookup_drafter({{3, 0}, 2, 3}); }), "shortest = 0");
    has(refusal([] { lookup_drafter({{1, 2}, 2, 3}); }), "longest = 1");
    has(refusal([] { lookup_drafter({{3, 1}, 0, 3}); }), "paths = 0");
    has(refusal([] { lookup_drafter({{3, 1}, 1, 0}); }), "length = 0");
    has(refusal([&] { sequence_drafter(m.draft, 0, 3); }), "sequences = 0");
    has(refusal([&] {
            addressed_source source{addressed_uniforms(3)};
            generation_metrics count;
            best_first_top_drafter top(m.draft, {9, 20, 100'000, 5});
            top.grow(host_group{}, std::vector<token_id>{1}, 20, sampling_params{}, source, count);
        }),
        "width = 100000: the draft would read more than 2^16 nodes");
    has(refusal([&] { sequence_drafter(m.draft, 3, -1); }), "length = -1");
    has(refusal([&] { sequence_drafter(m.draft, 4096, 256); }),
        "sequences = 4096: the draft would read more than 2^16");
    has(refusal([&] { stochastic_beam_drafter(m.draft, std::vector<std::int32_t>(17, 4096)); }),
        "widths.size = 17: the draft would read more than 2^16");
    has(refusal([&] { stochastic_beam_drafter(m.draft, {4097}); }), "widths[0] = 4097");
    has(refusal([&] { stochastic_beam_drafter(m.draft, {2, 0}); }), "widths[1] = 0");
    has(refusal([&] { best_first_top_drafter(m.draft, {0, 3, 2, 2}); }), "nodes = 0");
    has(refusal([&] { best_first_top_drafter(m.draft, {4, 0, 2, 2}); }), "depth = 0");
    has(refusal([&] { best_first_drawn_drafter(m.draft, {4, 3, 0, 2}); }), "width = 0");
    has(refusal([&] { best_first_drawn_drafter(m.draft, {4, 3, 2, 0}); }), "children = 0");
    has(refusal([&] { best_first_drawn_drafter(m.draft, {4, 3, 2, 2, 1.5}); }), "least = 1.5");
    has(refusal([&] { best_first_drawn_drafter(m.draft, {4, 3, 2, 2, std::nan("")}); }), "least = ");
    has(refusal([&] { independent_drafter<model>({}, chain(2)); }), "models.size = 0");
    has(refusal([&] { independent_drafter<model>({&m.draft, &m.draft}, chain(2)); }), "models[1]");
    model narrow(49, random_conditional(49, 1));
    has(refusal([&] { (void)make_speculative<rejection>(m.target, stochastic_beam_drafter(narrow, {2})); }),
        "draft.vocabulary = 49");
    has(refusal([&] {
            (void)make_speculative<verify::naive<law::independent>>(
                m.target, independent_drafter<model>({&m.draft, &narrow}, chain(2)));
        }),
        "draft.vocabulary = 49");
}

}  // namespace
}  // namespace drafters_test
}  // namespace multidraft
