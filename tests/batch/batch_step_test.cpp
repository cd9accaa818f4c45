// A step of a batch against the loop of one request: the same texts, with caches that notice a wrong entry, mask or
// position.
#include "multidraft/batch/batch_step.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "multidraft/base/error.hpp"
#include "multidraft/batch/compact_caches.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/step_inputs.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/methods/any_batch_step.hpp"
#include "multidraft/methods/list.hpp"
#include "multidraft/rows/adjusted_view.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/traversal.hpp"
#include "support/batch_steps.hpp"
#include "support/refusal.hpp"
#include "support/table_model.hpp"

namespace MULTIDRAFT_NAMESPACE {
namespace batch_step_test {
namespace {

constexpr index_t vocabulary = 60;
constexpr std::int64_t entries_of_a_request = 1024;

testing::conditional const target_law = testing::random_conditional(vocabulary, 3);
testing::conditional const draft_law = testing::random_conditional(vocabulary, 4, 3);

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// A model that reads a step: its caches hold the tokens, so that a wrong entry or mask gives a wrong row or throws.
struct cached_model {
    testing::conditional law;
    std::vector<token_id> cache;
    std::vector<float> rows;

    explicit cached_model(testing::conditional of, std::size_t slots)
        : law(std::move(of)), cache(slots * at(entries_of_a_request), -7) {}

    void forward(step_inputs const& in, std::vector<std::size_t> const& slot) {
        std::int64_t const words = in.mask_words();
        std::vector<std::uint64_t> mask(in.size() * at(words));
        in.write_mask(mask);
        rows.resize((at(in.first_row) + in.size()) * at(vocabulary), std::nanf(""));
        for (std::size_t k = 0; k < in.size(); ++k)
            cache[slot[at(in.requests[k])] * at(entries_of_a_request) + at(in.entries[k])] = in.tokens[k];
        std::size_t scored = 0;
        for (std::size_t k = 0; k < in.size(); ++k) {
            token_id const* const mine = cache.data() + slot[at(in.requests[k])] * at(entries_of_a_request);
            index_t const first = in.first_entries[at(in.requests[k])];
            std::vector<token_id> seen(mine, mine + first);
            for (std::int64_t j = 0; j < 64 * words; ++j)
                if ((mask[k * at(words) + at(j / 64)] >> (j % 64) & 1U) != 0) seen.push_back(mine[first + j]);
            ASSERT_EQ(in.positions[k] + 1, static_cast<std::int32_t>(seen.size()));
            ASSERT_EQ(seen.back(), in.tokens[k]);
            if (scored == in.scored.size() || in.scored[scored] != static_cast<std::int64_t>(k)) continue;
            ++scored;
            auto const p = law(seen);
            for (std::size_t x = 0; x < p.size(); ++x)
                rows[(at(in.first_row) + k) * at(vocabulary) + x] = static_cast<float>(std::log(p[x]));
        }
        ASSERT_EQ(scored, in.scored.size());
    }
    [[nodiscard]] rows_of_batch<float> view() const { return {rows.data(), vocabulary, vocabulary}; }
    [[nodiscard]] contiguous_cache entries() {
        contiguous_cache result;
        result.data = cache.data();
        result.request_stride = entries_of_a_request * static_cast<std::int64_t>(sizeof(token_id));
        result.entry_stride = result.entry_bytes = sizeof(token_id);
        return result;
    }
};

using request = testing::request_of_steps;
using testing::refusal;

/// Runs steps until every text is `length` tokens longer. Request b has cache b.
template <class Step>
void run(Step& step, host_threads const& pool, std::vector<request*> const& requests, std::size_t length,
         testing::conditional const& of_draft = draft_law) {
    cached_model target(target_law, requests.size());
    cached_model draft(of_draft, requests.size());
    std::vector<std::size_t> slot;
    std::vector<std::size_t> wanted;
    for (std::size_t b = 0; b < requests.size(); ++b) {
        slot.push_back(b);
        wanted.push_back(requests[b]->text.size() + length);
    }
    for (bool going = true; going;) {
        step.start();
        for (auto* r : requests)
            step.add({.text = r->text,
                      .shape = &r->shape,
                      .seed = r->seed,
                      .sampling = r->sampling,
                      .draft_sampling = r->draft_sampling.value_or(r->sampling),
                      .in_target = r->in_target,
                      .in_draft = r->in_draft});
        for (auto in = step.next_level(); !in.empty(); in = step.next_level()) {
            draft.forward(in, slot);
            step.draw(pool, draft.view());
        }
        target.forward(step.target_inputs(), slot);
        step.verify(pool, target.view(), draft.view());
        compact_caches(pool, target.entries(), step.kept_in_target());
        compact_caches(pool, draft.entries(), step.kept_in_draft());
        going = false;
        for (std::size_t b = 0; b < requests.size(); ++b) {
            auto& r = *requests[b];
            auto const index = static_cast<std::int32_t>(b);
            auto const more = step.tokens(index);
            ASSERT_FALSE(more.empty());
            r.text.insert(r.text.end(), more.begin(), more.end());
            r.in_target = step.in_target(index);
            r.in_draft = step.in_draft(index);
            ASSERT_EQ(r.in_target, static_cast<index_t>(r.text.size()) - 1);
            ASSERT_LE(r.in_draft, r.in_target);
            for (auto const& [model, count] : {std::pair{&target, r.in_target}, std::pair{&draft, r.in_draft}})
                ASSERT_TRUE(std::equal(r.text.begin(), r.text.begin() + count,
                                       model->cache.begin() + static_cast<std::ptrdiff_t>(b) * entries_of_a_request));
            going = going || r.text.size() < wanted[b];
        }
    }
}

template <class Sampler, class Verifier>
std::vector<token_id> text_of_loop(request const& r, std::size_t length) {
    testing::table_model<float> target(vocabulary, target_law);
    testing::table_model<float> draft(vocabulary, draft_law);
    generation_options options;
    options.max_tokens = static_cast<std::int32_t>(length) + 30;  // the loop draws less deep before the last token
    options.sampling = r.sampling;
    options.draft_sampling = r.draft_sampling;
    options.seed = r.seed;
    auto const made = make_speculative<Sampler, Verifier>(target, draft, r.shape)(r.text, options);
    return {made.tokens.begin(), made.tokens.begin() + static_cast<std::ptrdiff_t>(length)};
}

std::vector<request> some_requests() {
    return {{{1, 2, 3}, branching({2, 2, 1}), 11, {}},
            {{5}, chain(3), 12, {.temperature = 0.7F}},
            {{9, 8, 7, 6, 5, 4}, fork(3, 2), 13, {.top_k = 20}},
            {{2, 2}, branching({3}), 14, {.temperature = 1.2F}, sampling_params{.top_k = 2}},
            {{30, 31}, branching({2, 1, 1, 1}), 15, {.top_p = 0.8F}}};
}

/// The texts of requests in one batch are those of the loop over one request.
template <class Sampler, class Verifier>
void expect_the_loops_texts() {
    constexpr std::size_t length = 40;
    for (int const threads : {1, 3}) {
        auto requests = some_requests();
        std::vector<request*> all;
        for (auto& r : requests) all.push_back(&r);
        batch_step<Sampler, Verifier> step;
        run(step, host_threads(threads), all, length);
        auto const alone = some_requests();
        for (std::size_t b = 0; b < alone.size(); ++b) {
            std::vector<token_id> const made(
                requests[b].text.begin() + static_cast<std::ptrdiff_t>(alone[b].text.size()),
                requests[b].text.begin() + static_cast<std::ptrdiff_t>(alone[b].text.size() + length));
            EXPECT_EQ(made, (text_of_loop<Sampler, Verifier>(alone[b], length))) << "request " << b;
        }
    }
}

TEST(batch_step, texts_are_those_of_the_loop_of_one_request) {
    expect_the_loops_texts<draft::sequential, verify::recursive_rejection<law::sequential>>();
}
TEST(batch_step, so_are_those_of_verifiers_that_need_scratch_and_certain_children) {
    expect_the_loops_texts<draft::stratified, verify::nested_ranked_block<law::stratified>>();
}
TEST(batch_step, so_are_those_of_verifiers_that_read_no_draft) {
    expect_the_loops_texts<draft::sequential, verify::naive<law::sequential>>();
}

TEST(batch_step, caches_hold_the_text_where_children_are_missing) {
    // The third child of each node is missing, and the nodes below the others are read one entry earlier. Of the
    // target's own law most are accepted.
    auto const missing = [] {
        return request{{2, 2}, branching({3, 3, 1}), 31, {.top_k = 3}, sampling_params{.top_k = 2}};
    };
    auto together = some_requests();
    together.push_back(missing());
    std::vector<request*> all;
    for (auto& r : together) all.push_back(&r);
    batch_step<draft::sequential, verify::recursive_rejection<law::sequential>> step;
    run(step, host_threads(2), all, 60, target_law);
    request alone = missing();
    run(step, host_threads(1), {&alone}, 60, target_law);
    EXPECT_TRUE(std::equal(alone.text.begin(), alone.text.begin() + 62, together.back().text.begin()));
}

TEST(batch_step, methods_by_request_are_those_of_each_alone) {
    using first = methods::nested_ranked_block_stratified;
    using second = methods::recursive_rejection_sequential;
    using third = methods::naive_deterministic;
    using list = method_list<first, second, third>;
    constexpr std::size_t length = 30;
    auto requests = some_requests();
    std::vector<request*> all;
    for (auto& r : requests) all.push_back(&r);
    auto const alone = requests;
    // Requests 0 and 1 have the same method and are one call; 4 has that of 0 and is another.
    std::vector<std::string> const names{"nested_ranked_block/stratified", "nested_ranked_block/stratified",
                                         "recursive_rejection/sequential", "naive/deterministic",
                                         "nested_ranked_block/stratified"};
    struct named_step : any_batch_step_of<list> {
        std::vector<std::string> names;
        std::int32_t add(step_request const& r) {
            auto const b = static_cast<std::size_t>(requests());
            return any_batch_step_of<list>::add(r, any_method_of<list>::parse(names[b]));
        }
    } step;
    step.names = names;
    run(step, host_threads(2), all, length);
    for (std::size_t b = 0; b < alone.size(); ++b) {
        std::vector<token_id> const made(
            requests[b].text.begin() + static_cast<std::ptrdiff_t>(alone[b].text.size()),
            requests[b].text.begin() + static_cast<std::ptrdiff_t>(alone[b].text.size() + length));
        auto const expected = b == 2   ? text_of_loop<second::sampler, second::verifier>(alone[b], length)
                              : b == 3 ? text_of_loop<third::sampler, third::verifier>(alone[b], length)
                                       : text_of_loop<first::sampler, first::verifier>(alone[b], length);
        EXPECT_EQ(made, expected) << "request " << b;
    }
}

TEST(batch_step, requests_come_and_go) {
    using step_type = batch_step<draft::sequential, verify::recursive_rejection<law::sequential>>;
    auto alone = some_requests();
    for (auto& r : alone) {
        step_type step;
        run(step, host_threads(1), {&r}, 30);
    }
    auto requests = some_requests();
    step_type step;
    run(step, host_threads(2), {&requests[0], &requests[3]}, 10);
    for (auto* r : {&requests[0], &requests[3]}) r->in_target = r->in_draft = 0;  // the caches of `run` end with it
    run(step, host_threads(2), {&requests[2], &requests[0], &requests[1], &requests[3]}, 10);
    for (std::size_t b = 0; b < 4; ++b) {
        std::size_t const both = std::min(requests[b].text.size(), alone[b].text.size());
        EXPECT_TRUE(std::equal(requests[b].text.begin(), requests[b].text.begin() + static_cast<std::ptrdiff_t>(both),
                               alone[b].text.begin()))
            << b;
    }
}

TEST(batch_step, requests_without_a_shape_get_a_token_each) {
    batch_step<draft::sequential, verify::recursive_rejection<law::sequential>> step;
    cached_model target(target_law, 1);
    request r{{4, 5}, topology{}, 21};
    std::vector<token_id> made;
    for (int k = 0; k < 10; ++k) {
        step.start();
        step.add({.text = r.text, .seed = r.seed, .in_target = r.in_target});
        target.forward(step.target_inputs(), {0});
        step.verify(host_threads(1), target.view(), target.view());
        ASSERT_EQ(step.tokens(0).size(), 1U);
        made.push_back(step.tokens(0)[0]);
        r.text.push_back(made.back());
        r.in_target = step.in_target(0);
        EXPECT_EQ(step.in_draft(0), 0);
    }
    EXPECT_EQ(made, (text_of_loop<draft::sequential, verify::naive<law::sequential>>({{4, 5}, topology{}, 21}, 10)));
}

TEST(batch_step, requests_without_a_shape_are_compacted_beside_others) {
    batch_step<draft::sequential, verify::recursive_rejection<law::sequential>> step;
    request with{{4, 5}, branching({2, 1}), 21};
    request without{{6, 7}, topology{}, 22};
    run(step, host_threads(1), {&with, &without}, 20);
    std::vector<token_id> const made(with.text.begin() + 2, with.text.begin() + 22);
    EXPECT_EQ(made, (text_of_loop<draft::sequential, verify::recursive_rejection<law::sequential>>(
                        {{4, 5}, branching({2, 1}), 21}, 20)));
    EXPECT_GE(without.text.size(), 22U);
}

TEST(batch_step, rows_may_be_anywhere) {
    using step_type = batch_step<draft::stratified, verify::nested_ranked_block<law::stratified>>;
    auto requests = some_requests();
    step_type step;
    cached_model target(target_law, requests.size());
    cached_model draft(draft_law, requests.size());
    auto const tokens = [&](bool apart) {
        std::vector<std::vector<token_id>> result;
        std::vector<std::int64_t> places;
        std::vector<float> rows[2];
        // Only scored rows, from the last place of an array downwards.
        auto const moved = [&](step_inputs const& in, cached_model const& of, std::vector<float>& to) {
            if (!apart) return of.view();
            constexpr std::int64_t size = 400;
            to.resize(at(size) * at(vocabulary));
            places.resize(at(size));
            for (std::int64_t const k : in.scored) {
                std::int64_t const row = in.first_row + k;
                places[at(row)] = size - 1 - row;
                std::copy_n(of.rows.begin() + row * vocabulary, vocabulary, to.begin() + places[at(row)] * vocabulary);
            }
            return rows_of_batch<float>{to.data(), vocabulary, vocabulary, places.data()};
        };
        std::vector<std::size_t> const slot{0, 1, 2, 3, 4};
        step.start();
        for (auto& r : requests) step.add({.text = r.text, .shape = &r.shape, .seed = r.seed, .sampling = r.sampling});
        rows_of_batch<float> q;
        for (auto in = step.next_level(); !in.empty(); in = step.next_level()) {
            draft.forward(in, slot);
            q = moved(in, draft, rows[0]);
            step.draw(host_threads(1), q);
        }
        auto const drafted = places;
        if (apart) q.row_of = drafted.data();
        auto const in = step.target_inputs();
        target.forward(in, slot);
        step.verify(host_threads(1), moved(in, target, rows[1]), q);
        for (std::int32_t b = 0; b < step.requests(); ++b)
            result.emplace_back(step.tokens(b).begin(), step.tokens(b).end());
        return result;
    };
    EXPECT_EQ(tokens(true), tokens(false));
}

/// The likeliest tokens of each row, rising, with their logits; and the same rows with minus infinity elsewhere.
struct few_candidates {
    static constexpr std::size_t count = 12;
    std::vector<token_id> tokens;
    std::vector<float> logits, whole;

    explicit few_candidates(std::vector<float> const& rows) : whole(rows.size(), -INFINITY) {
        std::size_t const v = at(vocabulary);
        for (std::size_t first = 0; first < rows.size(); first += v) {
            std::vector<token_id> order(v);
            for (std::size_t x = 0; x < v; ++x) order[x] = static_cast<token_id>(x);
            // Rows that nothing reads are not numbers.
            auto const before = [&](token_id a, token_id b) {
                return std::pair(-rows[first + at(a)], a) < std::pair(-rows[first + at(b)], b);
            };
            if (!std::isnan(rows[first])) std::sort(order.begin(), order.end(), before);
            order.resize(count);
            std::sort(order.begin(), order.end());
            for (token_id const x : order) {
                tokens.push_back(x);
                logits.push_back(rows[first + at(x)]);
                whole[first + at(x)] = rows[first + at(x)];
            }
        }
    }
    [[nodiscard]] candidate_batch<float> view() const {
        return {logit_batch<float>(rows_of_batch<float>{logits.data(), 0, vocabulary}), tokens.data(), count};
    }
};

/// masked: the target alone has a grammar, as a mask for the rows of candidates and written out for the whole ones.
template <class Sampler, class Verifier>
void expect_candidates_to_be_whole_rows(bool masked = false) {
    std::vector<std::uint32_t> const even{0x55555555U, 0x05555555U};
    logit_adjustments const of_target{.allowed = {even.data(), 1, 2}};
    batch_step<Sampler, Verifier> step;
    std::vector<std::size_t> const slot{0, 1, 2, 3, 4};
    std::size_t accepted = 0;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        auto requests = some_requests();
        std::vector<std::vector<token_id>> results[2];
        for (int const few : {0, 1}) {
            cached_model target(target_law, requests.size());
            cached_model draft(target_law, requests.size());  // so that much is accepted
            step.start();
            for (auto& r : requests)
                step.add({.text = r.text, .shape = &r.shape, .seed = 100 * seed + r.seed, .sampling = r.sampling});
            for (auto in = step.next_level(); !in.empty(); in = step.next_level()) {
                draft.forward(in, slot);
                few_candidates const rows(draft.rows);
                if (few != 0)
                    step.draw(host_threads(2), rows.view());
                else
                    step.draw(host_threads(2), rows_of_batch<float>{rows.whole.data(), 0, vocabulary});
            }
            target.forward(step.target_inputs(), slot);
            few_candidates const rows(draft.rows);
            if (masked && few == 0)
                for (std::size_t e = 1; e < target.rows.size(); e += 2) target.rows[e] = -INFINITY;
            if (masked && few != 0)
                step.verify(host_threads(2), target.view(), of_target, rows.view());
            else if (few != 0)
                step.verify(host_threads(2), target.view(), rows.view());
            else
                step.verify(host_threads(2), target.view(), rows_of_batch<float>{rows.whole.data(), 0, vocabulary});
            auto& result = results[few];
            result.emplace_back(step.trees().tokens, step.trees().tokens + step.trees().nodes);
            for (std::int32_t b = 0; b < step.requests(); ++b) {
                result.emplace_back(step.tokens(b).begin(), step.tokens(b).end());
                accepted += step.accepted(b).size();
            }
        }
        ASSERT_EQ(results[0], results[1]) << seed;
    }
    EXPECT_GT(accepted, 20U);
}

TEST(batch_step, rows_of_a_few_candidates_are_rows_without_the_other_tokens) {
    expect_candidates_to_be_whole_rows<draft::sequential, verify::recursive_rejection<law::sequential>>();
    expect_candidates_to_be_whole_rows<draft::stratified, verify::nested_ranked_block<law::stratified>>();
    expect_candidates_to_be_whole_rows<draft::sequential, verify::traversal<law::sequential>>();
    expect_candidates_to_be_whole_rows<draft::sequential, verify::naive<law::sequential>>();
}

TEST(batch_step, the_target_alone_may_have_masks) {
    expect_candidates_to_be_whole_rows<draft::sequential, verify::recursive_rejection<law::sequential>>(true);
    expect_candidates_to_be_whole_rows<draft::stratified, verify::nested_ranked_block<law::stratified>>(true);
}

TEST(batch_step, candidates_are_checked_and_may_be_missing_where_nothing_is_drawn) {
    batch_step<draft::sequential, verify::recursive_rejection<law::sequential>> step;
    cached_model target(target_law, 1);
    topology const shape = chain(1);
    std::vector<token_id> const text{1, 2};
    step.start();
    step.add({.text = text, .shape = &shape, .seed = 1});
    auto const in = step.next_level();
    std::vector<float> const logits(in.size() * 3, 0.0F);
    std::vector<token_id> tokens(in.size() * 3, 5);
    auto const rows = [&](index_t count) {
        return candidate_batch<float>(logit_batch<float>(rows_of_batch<float>{logits.data(), 0, vocabulary}),
                                      tokens.data(), count);
    };
    EXPECT_EQ(refusal([&] { step.draw(host_threads(1), rows(61)); }),
              "draft.candidates = 61: a row has 1 candidate or more, and no more than its 60 tokens");
    EXPECT_NE(refusal([&] { step.draw(host_threads(1), rows(3)); }).find("draft.tokens"), std::string::npos);
    for (std::size_t k = 0; k < tokens.size(); ++k) tokens[k] = static_cast<token_id>(k % 3);
    step.draw(host_threads(1), rows(3));
    EXPECT_TRUE(step.next_level().empty());
    EXPECT_LT(step.trees().tokens[1], 3);

    step.start();
    step.add({.text = text, .seed = 2});
    target.forward(step.target_inputs(), {0});
    step.verify(host_threads(1), target.view(), candidate_batch<float>{});
    EXPECT_EQ(step.tokens(0).size(), 1U);
}

TEST(batch_step, masks_are_numbered_as_the_rows) {
    using step_type = batch_step<draft::sequential, verify::traversal<law::sequential>>;
    topology const shape = branching({2, 2});
    std::vector<token_id> const texts[] = {{1, 2}, {3}};
    // Even tokens only for the second request; the first has no grammar.
    std::vector<std::uint32_t> const even{0x55555555U, 0x05555555U};
    step_type step;
    cached_model target(target_law, 2);
    cached_model draft(draft_law, 2);
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        std::vector<std::int64_t> mask_of;
        auto const masks = [&](step_inputs const& in) {
            mask_of.resize(at(in.first_row) + in.size());
            for (std::size_t k = 0; k < in.size(); ++k) mask_of[at(in.first_row) + k] = in.requests[k] == 1 ? 0 : -1;
            logit_adjustments result;
            result.allowed = {even.data(), 1, 2};
            result.allowed_of = mask_of.data();
            return result;
        };
        step.start();
        for (std::uint32_t b = 0; b < 2; ++b) step.add({.text = texts[b], .shape = &shape, .seed = seed, .id = b});
        for (auto in = step.next_level(); !in.empty(); in = step.next_level()) {
            draft.forward(in, {0, 1});
            step.draw(host_threads(1), draft.view(), masks(in));
        }
        auto const of_draft = mask_of;
        auto const in = step.target_inputs();
        target.forward(in, {0, 1});
        auto adjusted = masks(in);
        auto drafted = adjusted;
        drafted.allowed_of = of_draft.data();
        step.verify(host_threads(1), target.view(), adjusted, draft.view(), drafted);
        ASSERT_FALSE(step.tokens(0).empty());
        ASSERT_FALSE(step.tokens(1).empty());
        for (token_id const x : step.tokens(1)) EXPECT_EQ(x % 2, 0);
    }
}

TEST(batch_step, a_row_that_is_no_distribution_ends_its_request_alone) {
    auto requests = some_requests();
    batch_step<draft::sequential, verify::recursive_rejection<law::sequential>> step;
    cached_model target(target_law, requests.size());
    cached_model draft(draft_law, requests.size());
    std::vector<std::size_t> const slot{0, 1, 2, 3, 4};
    step.start();
    for (auto& r : requests) step.add({.text = r.text, .shape = &r.shape, .seed = r.seed});
    for (auto in = step.next_level(); !in.empty(); in = step.next_level()) {
        draft.forward(in, slot);
        step.draw(host_threads(1), draft.view());
    }
    auto const in = step.target_inputs();
    target.forward(in, slot);
    for (std::size_t k = 0; k < in.size(); ++k)
        if (in.requests[k] == 2)
            std::fill_n(target.rows.begin() + static_cast<std::ptrdiff_t>(k) * vocabulary, vocabulary, std::nanf(""));
    step.verify(host_threads(2), target.view(), draft.view());
    EXPECT_EQ(undecided(step.verdicts(), step.requests()), 1);
    for (std::int32_t b = 0; b < 5; ++b) EXPECT_EQ(step.tokens(b).empty(), b == 2);
    // It may be added again as it is, and its neighbours go on.
    std::vector<std::pair<index_t, index_t>> held;
    for (std::int32_t b = 0; b < 5; ++b) held.emplace_back(step.in_target(b), step.in_draft(b));
    auto const length = static_cast<index_t>(requests[2].text.size());
    EXPECT_EQ(held[2], std::pair(length - 1, length - 1));
    for (std::int32_t b = 0; b < 5; ++b) {
        auto const more = step.tokens(b);
        auto& text = requests[static_cast<std::size_t>(b)].text;
        text.insert(text.end(), more.begin(), more.end());
    }
    step.start();
    for (std::size_t b = 0; b < 5; ++b)
        step.add({.text = requests[b].text,
                  .shape = &requests[b].shape,
                  .seed = requests[b].seed,
                  .in_target = held[b].first,
                  .in_draft = held[b].second});
    EXPECT_EQ(step.requests(), 5);
}

TEST(batch_step, the_levels_of_a_step_have_one_vocabulary) {
    std::vector<token_id> const text{1, 2};
    topology const shape = chain(2);
    std::vector<float> const logits(64);
    host_threads const pool(1);
    batch_step<draft::sequential, verify::recursive_rejection<law::sequential>> step;
    step.start();
    step.add({.text = text, .shape = &shape});
    static_cast<void>(step.next_level());
    step.draw(pool, rows_of_batch<float>{logits.data(), 0, 8});
    static_cast<void>(step.next_level());
    EXPECT_EQ(refusal([&] {
                  step.draw(pool, rows_of_batch<float>{logits.data(), 0, 6});
              }),
              "draft.vocabulary = 6: children were drawn from rows of 8 tokens");
    step.draw(pool, rows_of_batch<float>{logits.data(), 0, 8});
    step.start();
    step.add({.text = text, .shape = &shape});
    static_cast<void>(step.next_level());
    step.draw(pool, rows_of_batch<float>{logits.data(), 0, 6});
}

TEST(batch_step, is_verified_with_rows_of_the_kind_that_children_were_drawn_from) {
    std::vector<token_id> const text{1, 2};
    topology const shape = chain(2);
    std::vector<float> const logits(64);
    std::vector<float16> const halves(64);
    std::vector<bfloat16> const other_halves(64);
    std::vector<token_id> tokens;
    for (token_id x = 0; x < 64; ++x) tokens.push_back(x % 4);
    host_threads const pool(1);
    rows_of_batch<float> const whole{logits.data(), 0, 8};
    rows_of_batch<float16> const half{halves.data(), 0, 8};
    rows_of_batch<bfloat16> const other_half{other_halves.data(), 0, 8};
    auto const few = [&](index_t count) {
        return candidate_batch<float>(logit_batch<float>(rows_of_batch<float>{logits.data(), 4, 8}), tokens.data(),
                                      count);
    };
    batch_step<draft::sequential, verify::recursive_rejection<law::sequential>> step;
    std::string const taken = refusal([] {});
    // What a step whose first level was drawn from `first` refuses of `then`, at the second level and at the end.
    auto const refused = [&](auto const& first, auto const& then) {
        step.start();
        step.add({.text = text, .shape = &shape});
        static_cast<void>(step.next_level());
        step.draw(pool, first);
        static_cast<void>(step.next_level());
        std::string const by_level = refusal([&] { step.draw(pool, then); });
        if (by_level != taken) step.draw(pool, first);
        static_cast<void>(step.next_level());
        static_cast<void>(step.target_inputs());
        std::string const by_end = refusal([&] { step.verify(pool, whole, then); });
        EXPECT_EQ(by_level, by_end);
        if (by_end != taken) step.verify(pool, whole, first);
        EXPECT_GE(step.tokens(0).size(), 1U);
        return by_end;
    };
    EXPECT_EQ(refused(few(4), whole), "draft.candidates = 0: children were drawn from rows of 4 candidates");
    EXPECT_EQ(refused(few(4), few(3)), "draft.candidates = 3: children were drawn from rows of 4 candidates");
    EXPECT_EQ(refused(whole, few(4)), "draft.candidates = 4: children were drawn from rows of all tokens");
    EXPECT_EQ(
        refused(whole, half),
        "draft.data = logits of another type: children were drawn from logits of 32 bits, which these need not be");
    EXPECT_EQ(
        refused(other_half, half),
        "draft.data = logits of another type: children were drawn from logits of 16 bits, which these need not be");
    EXPECT_EQ(refused(whole, rows_of_batch<float>{logits.data(), 0, 6}),
              "draft.vocabulary = 6: children were drawn from rows of 8 tokens");
    EXPECT_EQ(refused(half, whole), taken) << "wider numbers hold the same logits";
    EXPECT_EQ(refused(few(4), few(4)), taken);
    // Rows that are not there.
    step.start();
    step.add({.text = text, .shape = &shape});
    static_cast<void>(step.next_level());
    step.draw(pool, whole);
    static_cast<void>(step.next_level());
    step.draw(pool, whole);
    static_cast<void>(step.next_level());
    static_cast<void>(step.target_inputs());
    EXPECT_EQ(refusal([&] { step.verify(pool, whole, rows_of_batch<float>{}); }),
              "draft.vocabulary = 0: children were drawn from rows of 8 tokens");
    // A verifier that reads no draft takes any.
    batch_step<draft::sequential, verify::naive<law::sequential>> naive;
    naive.start();
    naive.add({.text = text, .shape = &shape});
    for (auto in = naive.next_level(); !in.empty(); in = naive.next_level()) naive.draw(pool, few(4));
    static_cast<void>(naive.target_inputs());
    naive.verify(pool, whole, whole);
    EXPECT_GE(naive.tokens(0).size(), 1U);
}

TEST(batch_step, is_verified_with_the_masks_and_biases_of_the_draws) {
    using step_type = batch_step<draft::sequential, verify::recursive_rejection<law::sequential>>;
    topology const shape = branching({2});
    std::vector<token_id> const text{1, 2};
    std::vector<std::uint32_t> const odd{0xaaaaaaaaU, 0x0aaaaaaaU};
    std::vector<std::int64_t> const mask_of{none, 0, none, none, none, none, none, none};
    logit_adjustments masks;
    masks.allowed = {odd.data(), 1, 2};
    masks.allowed_of = mask_of.data();
    std::vector<token_id> const token{3};
    std::vector<float> const value{0.5F};
    std::vector<std::int64_t> const offsets{0, 1};
    logit_adjustments biases;
    biases.bias = {token, value, offsets};
    biases.bias_of = mask_of.data();
    step_type step;
    cached_model target(target_law, 1);
    cached_model draft(draft_law, 1);
    auto const drawn = [&](logit_adjustments const* with) {
        step.start();
        step.add({.text = text, .shape = &shape});
        for (auto in = step.next_level(); !in.empty(); in = step.next_level()) {
            draft.forward(in, {0});
            if (with == nullptr)
                step.draw(host_threads(1), draft.view());
            else
                step.draw(host_threads(1), draft.view(), *with);
        }
        target.forward(step.target_inputs(), {0});
    };
    auto const verify = [&](logit_adjustments const* with) {
        return refusal([&] {
            if (with == nullptr)
                step.verify(host_threads(1), target.view(), draft.view());
            else
                step.verify(host_threads(1), target.view(), {}, draft.view(), *with);
        });
    };
    logit_adjustments const neither;
    std::string const with =
        ": the children of node 0 of request 0 were drawn with one: verify with the masks and "
        "biases of the draws";
    std::string const without =
        ": the children of node 0 of request 0 were drawn without one: verify with the masks "
        "and biases of the draws";
    for (auto const* none_of : {static_cast<logit_adjustments const*>(nullptr), &neither}) {
        drawn(&masks);
        EXPECT_EQ(verify(none_of), "of_draft[0] = no mask" + with);
        EXPECT_EQ(verify(&masks), "nothing was thrown");
        drawn(&biases);
        EXPECT_EQ(verify(none_of), "of_draft[0] = no bias" + with);
        EXPECT_EQ(verify(&masks), "of_draft[0] = a mask" + without);
        EXPECT_EQ(verify(&biases), "nothing was thrown");
        drawn(none_of);
        EXPECT_EQ(verify(&biases), "of_draft[0] = a bias" + without);
        EXPECT_EQ(verify(&neither), "nothing was thrown");
    }
    // Where the draft's rows are not read, they may have any.
    batch_step<draft::sequential, verify::naive<law::sequential>> by_match;
    by_match.start();
    by_match.add({.text = text, .shape = &shape});
    for (auto in = by_match.next_level(); !in.empty(); in = by_match.next_level()) {
        draft.forward(in, {0});
        by_match.draw(host_threads(1), draft.view(), masks);
    }
    target.forward(by_match.target_inputs(), {0});
    by_match.verify(host_threads(1), target.view(), draft.view());
    EXPECT_FALSE(by_match.tokens(0).empty());
}

TEST(batch_step, needs_no_rows_of_the_draft_where_nothing_was_drawn) {
    batch_step<draft::sequential, verify::recursive_rejection<law::sequential>> step;
    std::vector<token_id> const text{1, 2};
    cached_model target(target_law, 1);
    std::vector<token_id> made;
    for (bool const with_rows : {false, true}) {
        step.start();
        step.add({.text = text});
        while (!step.next_level().empty()) FAIL();
        target.forward(step.target_inputs(), {0});
        step.verify(host_threads(1), target.view(), with_rows ? target.view() : rows_of_batch<float>{});
        made.insert(made.end(), step.tokens(0).begin(), step.tokens(0).end());
    }
    ASSERT_EQ(made.size(), 2U);
    EXPECT_EQ(made[0], made[1]);
}

TEST(batch_step, a_draft_may_leave_out_what_the_target_reads) {
    batch_step<draft::sequential, verify::recursive_rejection<law::sequential>> step;
    std::vector<token_id> const text{4, 5, 6};
    step.start();
    EXPECT_EQ(refusal([&] { step.add_reading({.text = text, .in_draft = 4}); }),
              "in_draft = 4: a cache holds at most all 3 tokens");
    EXPECT_EQ(refusal([&] { step.add_reading({.text = text, .in_target = 3}); }),
              "in_target = 3: a cache holds some of the tokens before the last of 3");
    step.add_reading({.text = text, .in_target = 1, .in_draft = 3});
    EXPECT_TRUE(step.next_level().empty());
    EXPECT_EQ(step.target_inputs().size(), 2U);
}

TEST(batch_step, so_does_a_row_of_the_draft) {
    // At any level; the text would be the target's without the node's children, but nobody would learn of the fault.
    for (float const wrong : {std::nanf(""), -std::numeric_limits<float>::infinity()})
        for (std::int32_t const level : {0, 1}) {
            auto requests = some_requests();
            topology const shape = branching({2, 2});
            batch_step<draft::stratified, verify::nested_ranked_block<law::stratified>> step;
            cached_model target(target_law, requests.size());
            cached_model draft(draft_law, requests.size());
            std::vector<std::size_t> const slot{0, 1, 2, 3, 4};
            step.start();
            for (auto& r : requests) step.add({.text = r.text, .shape = &shape, .seed = r.seed});
            std::int32_t depth = 0;
            for (auto in = step.next_level(); !in.empty(); in = step.next_level(), ++depth) {
                draft.forward(in, slot);
                for (std::size_t k = 0; k < in.size() && depth == level; ++k)
                    if (in.requests[k] == 2)
                        std::fill_n(draft.rows.begin() + (in.first_row + static_cast<std::ptrdiff_t>(k)) * vocabulary,
                                    vocabulary, wrong);
                step.draw(host_threads(1), draft.view());
            }
            target.forward(step.target_inputs(), slot);
            step.verify(host_threads(2), target.view(), draft.view());
            for (std::int32_t b = 0; b < 5; ++b) EXPECT_EQ(step.tokens(b).empty(), b == 2) << level;
            auto const length = static_cast<index_t>(requests[2].text.size());
            EXPECT_EQ(std::pair(step.in_target(2), step.in_draft(2)), std::pair(length - 1, length - 1));
            EXPECT_EQ(undecided(step.verdicts(), step.requests()), 1);
            for (std::int32_t b = 0; b < 5; ++b) EXPECT_EQ(step.is_refused_by_draft(b), b == 2);
        }
}

TEST(batch_step, is_begun_again_after_it_was_moved_from) {
    std::vector<token_id> const text{1, 2, 3};
    topology const shape = chain(2);
    batch_step<draft::sequential, verify::recursive_rejection<law::sequential>> step;
    step.start();
    step.add({.text = text, .shape = &shape});
    auto moved = std::move(step);
    EXPECT_EQ(moved.next_level().size(), 3U);
    EXPECT_NE(refusal([&] { static_cast<void>(step.next_level()); }).find("next_level = out of turn"),
              std::string::npos);
    EXPECT_NE(refusal([&] { step.add({.text = text}); }).find("add = out of turn"), std::string::npos);
    step.start();
    EXPECT_EQ(step.add({.text = text, .shape = &shape}), 0);
    EXPECT_EQ(step.next_level().size(), 3U);
}

TEST(batch_step, refuses_what_cannot_be_and_calls_out_of_turn) {
    batch_step<draft::sequential, verify::recursive_rejection<law::sequential>> step;
    std::vector<token_id> const text{1, 2, 3};
    topology const shape = chain(2);
    std::vector<float> row(at(vocabulary) * 8, 0.0F);
    rows_of_batch<float> const rows(row.data(), vocabulary, vocabulary);
    std::vector<std::int64_t> const rows_read(100, 0);
    host_threads const pool(1);
    step.start();
    EXPECT_EQ(refusal([&] { step.add({}); }), "text.size = 0: the last token of a text is the root");
    EXPECT_EQ(refusal([&] { step.add({.text = text, .in_target = 3}); }),
              "in_target = 3: a cache holds some of the tokens before the last of 3");
    EXPECT_EQ(refusal([&] { step.add({.text = text, .in_draft = -1}); }),
              "in_draft = -1: a cache holds some of the tokens before the last of 3");
    for (std::vector<token_id> const& padded : {std::vector<token_id>{1, -1, 3}, {1, 2, -2}})
        EXPECT_NE(refusal([&] { step.add({.text = padded}); }).find("text["), std::string::npos);
    step_request bad{.text = text};
    bad.sampling.temperature = -1.0F;
    EXPECT_EQ(refusal([&] { step.add(bad); }),
              "sampling.temperature = -1: a temperature is a finite number, 0 or larger");
    bad.draft_sampling = std::exchange(bad.sampling, {});
    EXPECT_EQ(refusal([&] { step.add(bad); }),
              "draft_sampling.temperature = -1: a temperature is a finite number, 0 or larger");
    {
        batch_step<draft::sequential, verify::block<law::sequential>> of_chains;
        of_chains.start();
        topology const fork = branching({2});
        EXPECT_NE(
            refusal([&] { of_chains.add({.text = text, .shape = &fork}); }).find("shape[2] = 0: the verifier does"),
            std::string::npos);
        EXPECT_EQ(of_chains.add({.text = text, .shape = &shape}), 0);
    }
    EXPECT_EQ(step.requests(), 0);
    EXPECT_EQ(step.add({.text = text, .shape = &shape, .seed = 5}), 0);
    EXPECT_EQ(
        refusal([&] { step.add({.text = text, .seed = 5}); }),
        "id = 0: request 0 has this seed and id: both would have the same draws where their texts have one length");
    EXPECT_NE(refusal([&] {
                  step.add({.text = std::span(text).first(2), .seed = 5});
              }).find("where their texts have one length"),
              std::string::npos);
    EXPECT_EQ(step.add({.text = text, .shape = &shape, .seed = 5, .id = 1}), 1);
    EXPECT_NE(refusal([&] { step.draw(pool, rows); }).find("draw = out of turn"), std::string::npos);
    EXPECT_NE(refusal([&] { static_cast<void>(step.target_inputs()); }).find("until `next_level`"), std::string::npos);
    EXPECT_NE(refusal([&] { static_cast<void>(step.tokens(0)); }).find("verified first"), std::string::npos);
    EXPECT_EQ(refusal([&] { static_cast<void>(step.in_target(0)); }),
              "in_target = out of turn: the step is verified first");
    EXPECT_EQ(refusal([&] { static_cast<void>(step.kept_in_draft()); }),
              "kept_in_draft = out of turn: the step is verified first");
    auto const in = step.next_level();
    EXPECT_EQ(in.size(), 6U);
    EXPECT_EQ(in.scored.size(), 2U);
    std::vector<std::uint64_t> words(5);
    EXPECT_EQ(refusal([&] { in.write_mask(words); }), "words.size = 5: the mask has 6 words");
    EXPECT_NE(refusal([&] { static_cast<void>(step.next_level()); }).find("out of turn"), std::string::npos);
    EXPECT_NE(refusal([&] { step.add({.text = text, .seed = 6}); }).find("add = out of turn"), std::string::npos);
    // Rows that were not read have no index yet.
    rows_of_batch<float> indexed = rows;
    indexed.row_of = reinterpret_cast<std::int64_t const*>(std::uintptr_t{8});
    EXPECT_NE(refusal([&] { step.verify(pool, rows, indexed); }).find("verify = out of turn"), std::string::npos);
    // A refused call changes nothing, and may be made again.
    EXPECT_EQ(refusal([&] {
                  step.draw(pool, rows_of_batch<float>{nullptr, 0, vocabulary});
              }),
              "draft.data = null: this array is read or written");
    step.draw(pool, rows);
    while (!step.next_level().empty())
        step.draw(pool, rows_of_batch<float>(row.data(), vocabulary, vocabulary, rows_read.data()));
    EXPECT_NE(refusal([&] { static_cast<void>(step.next_level()); }).find("the trees are grown"), std::string::npos);
    static_cast<void>(step.target_inputs());
    EXPECT_NE(refusal([&] { static_cast<void>(step.next_level()); }).find("begins with `start`"), std::string::npos);
}

}  // namespace
}  // namespace batch_step_test
}  // namespace MULTIDRAFT_NAMESPACE
