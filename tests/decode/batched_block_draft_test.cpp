// Block models of many requests against the loop of one request: the same texts, whoever the neighbours are, by the
// hidden states of what was accepted and of nothing else.
#include "multidraft/decode/batched_block_draft.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "multidraft/base/error.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/control/batch_controller.hpp"
#include "multidraft/decode/block_drafter.hpp"
#include "multidraft/decode/continuous_batching.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "support/batched_table_model.hpp"
#include "support/feature_models.hpp"
#include "support/many_requests.hpp"
#include "support/table_model.hpp"

namespace MULTIDRAFT_NAMESPACE {
namespace batched_block_draft_test {
namespace {

using testing::features_of;
using testing::random_conditional;
using testing::table_model;
using testing::many::asked;
using testing::many::law_of_target;
using testing::many::random_requests;
using testing::many::vocabulary;

using sampler_type = draft::stratified;
using verifier_type = verify::nested_ranked_block<law::stratified>;

constexpr std::int32_t levels = 3;

/// A target of many sequences whose features tell which text they are of.
class feature_targets : public testing::batched_table_model<float> {
public:
    explicit feature_targets(std::int32_t sequences)
        : batched_table_model<float>(testing::many::vocabulary, law_of_target(), sequences), texts_(at(sequences)) {}

    [[nodiscard]] std::int32_t feature_size() const { return 2; }
    [[nodiscard]] std::span<float const> features() const { return features_; }

    void forward(step_inputs const& in, std::span<std::int32_t const> sequence_of, std::span<float> logits) {
        batched_table_model<float>::forward(in, sequence_of, logits);
        features_.clear();
        for (std::size_t k = 0; k < in.size(); ++k) {
            auto& entries = texts_[at(sequence_of[at(in.requests[k])])];
            entries.resize(std::max(entries.size(), at(in.entries[k]) + 1));
            entries[at(in.entries[k])] = in.tokens[k];
            std::vector<token_id> path;
            for (std::int64_t row = in.first_row + static_cast<std::int64_t>(k); row != none;
                 row = in.parent_rows[at(row)])
                path.push_back(entries[at(in.entry_of_row[at(row)])]);
            std::vector<token_id> seen(entries.begin(), entries.begin() + in.first_entries[at(in.requests[k])]);
            seen.insert(seen.end(), path.rbegin(), path.rend());
            for (float const x : features_of(seen)) features_.push_back(x);
        }
    }
    void keep(std::int32_t sequence, std::int32_t context, std::span<std::int32_t const> entries) {
        batched_table_model<float>::keep(sequence, context, entries);
        auto& text = texts_[at(sequence)];
        std::vector<token_id> kept(text.begin(), text.begin() + context);
        for (std::int32_t const e : entries) kept.push_back(text[at(context + e)]);
        text = std::move(kept);
    }

private:
    static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

    std::vector<std::vector<token_id>> texts_;
    std::vector<float> features_;
};
static_assert(exposes_features_of_batch<feature_targets>);

/// The base row of a depth after a text of which these are the features of all but the last token.
std::vector<float> base_row(std::vector<float> const& features, token_id last, std::int32_t depth) {
    std::vector<token_id> key{last, depth};
    for (float const x : features) key.push_back(static_cast<token_id>(x));
    std::vector<float> row;
    for (double const x : random_conditional(vocabulary, 5, 4)(key)) row.push_back(static_cast<float>(std::log(x)));
    return row;
}
float term(std::int32_t depth, token_id token, std::size_t entry) {
    return static_cast<float>(std::sin(1.0 + 3 * token + 7 * static_cast<double>(entry) + 5 * depth));
}

/// The block model of one text, which knows its features.
struct one_block {
    using logit = float;
    static constexpr block_traits traits{.parent_terms = true};

    [[nodiscard]] std::int32_t vocabulary() const { return testing::many::vocabulary; }
    [[nodiscard]] std::int32_t context_limit() const { return 1 << 20; }
    [[nodiscard]] std::int32_t block_size() const { return levels; }
    void reset() {}
    void rows(std::span<token_id const> text, std::span<float> logits) {
        auto const v = static_cast<std::size_t>(vocabulary());
        auto const before = text.size() == 1 ? std::vector<float>{} : features_of(text.first(text.size() - 1));
        for (std::size_t d = 0; d < logits.size() / v; ++d)
            std::ranges::copy(base_row(before, text.back(), static_cast<std::int32_t>(d)),
                              logits.begin() + static_cast<std::ptrdiff_t>(d * v));
    }
    void add_parent_term(std::int32_t depth, token_id token, std::span<float> row) const {
        for (std::size_t i = 0; i < row.size(); ++i) row[i] += term(depth, token, i);
    }
};

/// The same of many sequences, by the features that they are given.
class many_blocks {
public:
    using logit = float;
    static constexpr block_traits traits{.parent_terms = true};

    explicit many_blocks(std::int32_t sequences) : observed_(static_cast<std::size_t>(sequences)) {}

    [[nodiscard]] std::int32_t vocabulary() const { return testing::many::vocabulary; }
    [[nodiscard]] std::int32_t context_limit() const { return 1 << 20; }
    [[nodiscard]] std::int32_t block_size() const { return levels; }
    [[nodiscard]] std::int32_t sequences() const { return static_cast<std::int32_t>(observed_.size()); }
    [[nodiscard]] std::int32_t feature_size() const { return 2; }

    void start(std::int32_t sequence) { observed_.at(static_cast<std::size_t>(sequence)).clear(); }
    void observe(std::int32_t sequence, std::span<float const> features, std::int32_t first) {
        auto& its = observed_.at(static_cast<std::size_t>(sequence));
        if (features.empty() || features.size() % 2 != 0) throw std::logic_error("observe: sizes");
        if (2 * static_cast<std::size_t>(first) != its.size()) throw std::logic_error("observe: another position");
        its.insert(its.end(), features.begin(), features.end());
    }
    void rows(std::span<std::int32_t const> of, std::span<token_id const> tokens, std::int32_t depths,
              std::span<float> logits) {
        ++calls;
        auto const v = static_cast<std::size_t>(vocabulary());
        auto to = logits.begin();
        for (std::size_t k = 0; k < of.size(); ++k) {
            if (tokens[k] == unreadable) throw failed_request(static_cast<std::int32_t>(k), "no row after this token");
            auto const& its = observed_.at(static_cast<std::size_t>(of[k]));
            std::vector<float> const last(its.empty() ? its.end() : its.end() - 2, its.end());
            for (std::int32_t d = 0; d < depths; ++d, to += static_cast<std::ptrdiff_t>(v))
                std::ranges::copy(base_row(last, tokens[k], d), to);
        }
        if (to != logits.end()) throw std::logic_error("rows: another number");
    }
    void add_parent_terms(std::span<std::int32_t const> depths, std::span<token_id const> tokens,
                          std::span<float> logits) const {
        auto const v = static_cast<std::size_t>(vocabulary());
        for (std::size_t k = 0; k < tokens.size(); ++k)
            if (depths[k] > 0 && tokens[k] == unreadable_child)
                throw failed_request(static_cast<std::int32_t>(k), "no term of this token");
        for (std::size_t k = 0; k < tokens.size(); ++k)
            for (std::size_t i = 0; i < v; ++i) logits[k * v + i] += term(depths[k], tokens[k], i);
    }

    std::int64_t calls = 0;
    token_id unreadable = none;
    token_id unreadable_child = none;

private:
    std::vector<std::vector<float>> observed_;
};
static_assert(batched_block_model<many_blocks> && observes_features_of_batch<many_blocks>);
static_assert(drafts_in_one_call<batched_block_draft<many_blocks>>);
static_assert(observes_features_of_batch<batched_block_draft<many_blocks>>);

/// The same models with rows of every other token.
std::int32_t constexpr few = testing::many::vocabulary / 2;
constexpr std::int32_t token_of(std::int32_t k) { return 2 * k; }

class one_short_block : public one_block {
public:
    [[nodiscard]] std::int32_t candidates() const { return few; }
    void read(std::span<token_id const> text, std::int32_t depths) {
        base_.resize(static_cast<std::size_t>(depths * vocabulary()));
        one_block::rows(text, base_);
    }
    void candidates_after(std::int32_t depth, token_id token, std::span<token_id> tokens,
                          std::span<float> logits) const {
        for (std::int32_t k = 0; k < few; ++k) {
            token_id const x = token_of(k);
            auto const to = static_cast<std::size_t>(k);
            tokens[to] = x;
            logits[to] = base_[static_cast<std::size_t>(depth * vocabulary() + x)] +
                         term(depth, token, static_cast<std::size_t>(x));
        }
    }

private:
    std::vector<float> base_;
};
static_assert(gives_candidates<one_short_block>);

class many_short_blocks : public many_blocks {
public:
    using many_blocks::many_blocks;

    [[nodiscard]] std::int32_t candidates() const { return few; }
    void read(std::span<std::int32_t const> of, std::span<token_id const> last, std::int32_t depths) {
        depths_ = depths;
        base_.resize(of.size() * static_cast<std::size_t>(depths * vocabulary()));
        many_blocks::rows(of, last, depths, base_);
    }
    void candidates_after(std::span<std::int32_t const> blocks, std::span<std::int32_t const> depths,
                          std::span<token_id const> of, std::span<token_id> tokens, std::span<float> logits) const {
        std::size_t to = 0;
        for (std::size_t r = 0; r < of.size(); ++r)
            for (std::int32_t k = 0; k < few; ++k, ++to) {
                token_id const x = token_of(k);
                tokens[to] = x;
                logits[to] = base_.at(static_cast<std::size_t>((blocks[r] * depths_ + depths[r]) * vocabulary() + x)) +
                             term(depths[r], of[r], static_cast<std::size_t>(x));
            }
    }

private:
    std::int32_t depths_ = 0;
    std::vector<float> base_;
};
static_assert(gives_candidates_of_batch<many_short_blocks>);
static_assert(drafts_in_one_call<batched_block_draft<many_short_blocks>>);
static_assert(batched_candidate_model<batched_block_draft<many_short_blocks>> &&
              !batched_language_model<batched_block_draft<many_short_blocks>>);

template <class Block = one_block>
std::vector<token_id> text_alone(asked const& a, topology const& shape) {
    table_model<float> target(vocabulary, law_of_target());
    Block block;
    return make_speculative<verifier_type>(target, block_drafter<Block, sampler_type>(block, shape))(a.prompt,
                                                                                                     a.options)
        .tokens;
}

/// Requests whose draft's support has no end, which gives the nodes other numbers.
std::vector<asked> requests_of(std::size_t count, std::uint64_t seed) {
    auto requests = random_requests(count, seed);
    for (asked& a : requests) {
        a.options.draft_sampling.reset();
        a.options.sampling.top_k = 0;
        a.options.sampling.temperature = std::max(a.options.sampling.temperature, 0.4F);
    }
    return requests;
}

template <class Blocks, class Block>
void expect_texts_of_each_alone() {
    auto const requests = requests_of(60, 1);
    for (topology const& shape : {branching({3, 1, 1}), branching({2, 2}), chain(1)})
        for (std::int32_t const sequences : {1, 4, 60}) {
            feature_targets target(sequences);
            Blocks model(sequences);
            batched_block_draft draft(model);
            host_threads const threads(2);
            // Prompts are read five tokens at a time.
            auto loop =
                make_continuous_batching<sampler_type, verifier_type>(target, draft, threads, fixed_shapes(shape), {5});
            for (asked const& a : requests) loop.submit(a.prompt, a.options);
            while (loop.step()) {
            }
            auto const done = loop.take_finished();
            ASSERT_EQ(done.size(), requests.size());
            std::int64_t accepted = 0;
            for (auto const& f : done) {
                EXPECT_EQ(f.error, "");
                EXPECT_EQ(f.result.tokens, text_alone<Block>(requests[static_cast<std::size_t>(f.ticket)], shape))
                    << f.ticket;
                accepted += f.result.metrics.accepted;
            }
            EXPECT_GT(accepted, 50);
            EXPECT_EQ(loop.metrics().draft_calls, model.calls);
            EXPECT_LE(model.calls, loop.metrics().target_calls);
        }
}

TEST(batched_block_draft, texts_are_those_of_each_request_alone) {
    expect_texts_of_each_alone<many_blocks, one_block>();
}
TEST(batched_block_draft, so_are_those_by_rows_of_a_few_candidates) {
    expect_texts_of_each_alone<many_short_blocks, one_short_block>();
}

TEST(batched_block_draft, sequences_are_used_again) {
    auto const requests = requests_of(200, 5);
    topology const shape = branching({2, 1, 1});
    feature_targets target(3);
    many_blocks model(3);
    batched_block_draft draft(model);
    host_threads const threads(1);
    auto loop = make_continuous_batching<sampler_type, verifier_type>(target, draft, threads, fixed_shapes(shape), {4});
    for (asked const& a : requests) loop.submit(a.prompt, a.options);
    std::int64_t next = 0;
    std::vector<char> cancelled(requests.size(), 0);
    for (int k = 0; loop.step(); ++k)
        if (k % 7 == 6) {
            next += 5;
            if (loop.cancel(next)) cancelled[static_cast<std::size_t>(next)] = 1;
        }
    auto const done = loop.take_finished();
    ASSERT_EQ(done.size(), requests.size());
    for (auto const& f : done) {
        auto const k = static_cast<std::size_t>(f.ticket);
        auto whole = text_alone(requests[k], shape);
        if (cancelled[k] != 0) whole.resize(std::min(whole.size(), f.result.tokens.size()));
        EXPECT_EQ(f.result.tokens, whole) << k;
    }
}

TEST(batched_block_draft, a_controller_shares_one_budget) {
    auto const requests = requests_of(30, 3);
    feature_targets target(8);
    many_blocks model(8);
    batched_block_draft draft(model);
    host_threads const threads(1);
    step_times times{analysis::call_cost({{1, 1.0}, {64, 1.5}}), analysis::call_cost({{1, 0.1}, {8, 0.2}}), {{}}, true};
    auto loop = make_continuous_batching<sampler_type, verifier_type>(target, draft, threads,
                                                                      batch_controller(times, {.learns_times = true}));
    for (asked const& a : requests) loop.submit(a.prompt, a.options);
    while (loop.step()) {
    }
    std::int64_t tokens = 0;
    for (auto const& f : loop.take_finished()) {
        EXPECT_EQ(f.error, "");
        tokens += f.result.metrics.tokens;
    }
    EXPECT_EQ(tokens, loop.metrics().tokens);
    EXPECT_GT(loop.metrics().accepted, 0);
    EXPECT_LE(model.calls, loop.metrics().target_calls);
}

TEST(batched_block_draft, a_request_that_the_model_cannot_go_on_with_ends_alone) {
    auto requests = requests_of(10, 3);
    for (asked& a : requests) {
        for (token_id& x : a.prompt) x = x == 13 ? 12 : x;
        a.options.max_tokens = 5;
        a.options.stop_tokens.clear();
    }
    requests[4].prompt.back() = 13;
    feature_targets target(6);
    many_blocks model(6);
    model.unreadable = 13;
    batched_block_draft draft(model);
    host_threads const threads(1);
    auto loop = make_continuous_batching<sampler_type, verifier_type>(target, draft, threads, fixed_shapes(chain(2)));
    for (asked const& a : requests) loop.submit(a.prompt, a.options);
    while (loop.step()) {
    }
    int failed = 0;
    for (auto const& f : loop.take_finished()) {
        auto const& a = requests[static_cast<std::size_t>(f.ticket)];
        auto const whole = text_alone(a, chain(2));
        if (f.error.empty()) {
            EXPECT_EQ(f.result.tokens, whole);
            continue;
        }
        ++failed;
        EXPECT_EQ(f.error, "no row after this token");
        token_id const last = f.result.tokens.empty() ? a.prompt.back() : f.result.tokens.back();
        EXPECT_EQ(last, 13);
        EXPECT_TRUE(std::equal(f.result.tokens.begin(), f.result.tokens.end(), whole.begin()));
    }
    EXPECT_GE(failed, 1);
    EXPECT_LT(failed, 10);
}

// The model numbers the rows of its call, of which a request may have several.
TEST(batched_block_draft, a_term_that_the_model_has_not_ends_the_request_of_the_row) {
    auto const requests = requests_of(12, 4);
    host_threads const threads(1);
    auto const run = [&](std::span<asked const> some) {
        feature_targets target(static_cast<std::int32_t>(some.size()));
        many_blocks model(static_cast<std::int32_t>(some.size()));
        model.unreadable_child = 13;
        batched_block_draft draft(model);
        auto loop = make_continuous_batching<sampler_type, verifier_type>(target, draft, threads,
                                                                          fixed_shapes(branching({3, 1})));
        for (asked const& a : some) loop.submit(a.prompt, a.options);
        while (loop.step()) {
        }
        return loop.take_finished();
    };
    int failed = 0;
    for (auto const& f : run(requests)) {
        auto const k = static_cast<std::size_t>(f.ticket);
        auto const one = run(std::span(requests).subspan(k, 1));
        EXPECT_EQ(f.error, one.at(0).error) << k;
        EXPECT_EQ(f.result.tokens, one.at(0).result.tokens) << k;
        if (f.error.empty()) continue;
        EXPECT_EQ(f.error, "no term of this token");
        ++failed;
    }
    EXPECT_GE(failed, 2);
    EXPECT_LT(failed, 12);
}

TEST(batched_block_draft, refusals) {
    auto const refusal = [](auto const& call) -> std::string {
        try {
            call();
        } catch (invalid_input const& e) {
            return e.what();
        }
        return "nothing was thrown";
    };
    many_blocks model(2);
    batched_block_draft draft(model);
    EXPECT_EQ(refusal([&] { draft.begin_step(4); }), "depths = 4: the model gives the rows of 3 levels");
    std::vector<float> logits(3);
    EXPECT_EQ(refusal([&] { draft.forward({}, {}, logits); }), "logits.size = 3: there is a row for each scored input");
    struct wider : many_blocks {
        using many_blocks::many_blocks;
        [[nodiscard]] std::int32_t feature_size() const { return 3; }
    } other(2);
    batched_block_draft of_other(other);
    feature_targets target(2);
    host_threads const threads(1);
    EXPECT_EQ(refusal([&] {
                  static_cast<void>(make_continuous_batching<sampler_type, verifier_type>(target, of_other, threads));
              }),
              "draft.feature_size = 3: the target exposes 2 numbers for a token");
}

}  // namespace
}  // namespace batched_block_draft_test
}  // namespace MULTIDRAFT_NAMESPACE
