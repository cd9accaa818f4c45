// An engine whose steps run on host threads or on a device: two models with caches that hold tokens, so that a wrong
// input, mask or cache entry gives other rows.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/batch_step.hpp"
#include "multidraft/batch/compact_caches.hpp"
#include "multidraft/batch/device_step.hpp"
#include "multidraft/batch/execution_policy.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/rows/row_view.hpp"
#include "multidraft/rows/sampling_params.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

inline constexpr std::int64_t entries_of_a_cache = 256;
inline constexpr std::size_t most_rows = 256;

struct write_tokens {
    device_inputs in;
    token_id* cache;

    MULTIDRAFT_HD void operator()(std::int64_t k) const noexcept {
        cache[in.requests[k] * entries_of_a_cache + in.entries[k]] = in.tokens[k];
    }
};

/// The logit of one token, by all tokens that an input attends to. It is the same on every machine: an integer times a
/// power of two.
struct write_logit {
    device_inputs in;
    token_id const* cache;
    float* rows;
    index_t vocabulary;
    unsigned noise;  ///< by how many 1024ths the logits of the draft differ from the target's, less 1

    MULTIDRAFT_HD static std::uint64_t mixed(std::uint64_t z) noexcept {  // splitmix64
        z = (z + 0x9e3779b97f4a7c15U) * 0xbf58476d1ce4e5b9U;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
        return z ^ (z >> 31);
    }
    MULTIDRAFT_HD void operator()(std::int64_t k) const noexcept {
        std::int64_t const i = k / vocabulary;
        std::int32_t const b = in.requests[i];
        token_id const* const mine = cache + b * entries_of_a_cache;
        index_t const first = in.first_entries[b];
        auto h = static_cast<std::uint64_t>(in.positions[i]);
        for (index_t j = 0; j < first; ++j) h = mixed(h ^ static_cast<std::uint64_t>(mine[j]));
        for (std::int64_t j = 0; j < 64 * in.mask.per_input; ++j)
            if ((in.mask.words[i * in.mask.per_input + j / 64] >> (j % 64) & 1U) != 0)
                h = mixed(h ^ static_cast<std::uint64_t>(mine[first + j]));
        h = mixed(h ^ static_cast<std::uint64_t>(k % vocabulary));
        auto const level = 16 * (h & 1023U) + (mixed(h) & noise);
        rows[in.first_row * vocabulary + k] = static_cast<float>(static_cast<std::int32_t>(level)) * 0x1p-10F;
    }
};

/// Of each row the logits of a few tokens, with these.
struct write_candidates {
    float const* rows;
    float* few;
    token_id* tokens;
    std::int64_t first_row;
    index_t vocabulary, count;

    MULTIDRAFT_HD void operator()(std::int64_t k) const noexcept {
        std::int64_t const row = first_row + k / count;
        index_t const between = vocabulary / count;
        auto const token = static_cast<token_id>(between * (k % count) + row % between);
        few[first_row * count + k] = rows[row * vocabulary + token];
        tokens[first_row * count + k] = token;
    }
};

/// Calls something that returns nothing, or an error whose default value is success.
template <class Call>
void expect_success(Call const& call) {
    if constexpr (std::is_void_v<decltype(call())>)
        call();
    else
        ASSERT_EQ(call(), decltype(call())());
}

/// Steps on host threads.
template <class Sampler, class Verifier>
struct steps_on_host {
    template <class T>
    using array = std::vector<T>;

    host_threads policy{2};
    batch_step<Sampler, Verifier> step;
    std::vector<std::uint64_t> mask;

    device_inputs inputs(step_inputs const& in) {
        mask.resize(in.size() * static_cast<std::size_t>(in.mask_words()));
        in.write_mask(mask);
        return {static_cast<std::int64_t>(in.size()),
                in.tokens.data(),
                in.positions.data(),
                in.requests.data(),
                in.entries.data(),
                in.offsets.data(),
                in.first_entries.data(),
                {in.scored.data(), static_cast<std::int64_t>(in.scored.size())},
                in.first_row,
                {mask.data(), in.mask_words()}};
    }
    template <class Target, class Draft>
    void compact(Target const& target, Draft const& draft) {
        compact_caches(policy, target, step.kept_in_target());
        compact_caches(policy, draft, step.kept_in_draft());
    }
};

struct request_of_steps {
    std::vector<token_id> text;
    topology shape;
    std::uint64_t seed = 0;
    sampling_params sampling{};
    std::optional<sampling_params> draft_sampling{};
    index_t in_target = 0;
    index_t in_draft = 0;
};

/// Greedy and sampled, with a shape or without, one whose draft has fewer tokens than children, and two with a leaf
/// before inner nodes, which the draft does not read.
[[nodiscard]] inline std::vector<request_of_steps> requests_of_steps() {
    topology const with_a_leaf = topology::from_parents(std::vector<node_id>{multidraft::none, 0, 0, 0, 2, 3, 4, 5});
    return {{{1, 2, 3}, branching({2, 2, 1}), 11, {}},
            {{5}, chain(3), 12, {.temperature = 0.7F}},
            {{4, 5}, topology{}, 13, {.top_p = 0.9F}},
            {{9, 8, 7, 6, 5, 4}, with_a_leaf, 14, {.top_k = 20}},
            {{2, 2}, branching({3}), 15, {.temperature = 1.2F}, sampling_params{.top_k = 2}},
            {{30, 31}, branching({2, 1, 1, 1}), 16, {.temperature = 0.0F}},
            {{8}, with_a_leaf, 17, {.temperature = 2.0F}}};
}

/// The engine. `Layout`: of its rows.
template <class Steps, class Layout>
class engine_of_steps {
public:
    template <class... Where>
    explicit engine_of_steps(index_t vocabulary, Where const&... where)
        : steps(where...), vocabulary_(vocabulary), target_(vocabulary), draft_(vocabulary) {}

    /// One step. Returns for each request its tokens, its accepted nodes, and what the caches hold.
    std::vector<std::vector<std::int32_t>> advance(std::vector<request_of_steps>& requests) {
        start(requests);
        for (auto in = steps.step.next_level(); !in.empty(); in = steps.step.next_level()) {
            read(in, draft_, 511);
            expect_success([&] { return steps.step.draw(steps.policy, rows(draft_)); });
        }
        read(steps.step.target_inputs(), target_, 0);
        expect_success([&] { return steps.step.verify(steps.policy, rows(target_), rows(draft_)); });
        return finish(requests);
    }

    /// The same by rows of a few candidates of the draft.
    std::vector<std::vector<std::int32_t>> advance_by_candidates(std::vector<request_of_steps>& requests,
                                                                 index_t count) {
        static_assert(std::is_same_v<Layout, contiguous>);
        start(requests);
        typename Steps::template array<float> few(most_rows * static_cast<std::size_t>(count));
        typename Steps::template array<token_id> tokens(most_rows * static_cast<std::size_t>(count));
        candidate_batch<float> const q(logit_batch<float>(few.data(), 0, vocabulary_), tokens.data(), count);
        for (auto in = steps.step.next_level(); !in.empty(); in = steps.step.next_level()) {
            read(in, draft_, 511);
            expect_success([&] {
                return for_each(steps.policy, static_cast<std::int64_t>(in.size()) * count,
                                write_candidates{draft_.logits.data(), few.data(), tokens.data(), in.first_row,
                                                 vocabulary_, count});
            });
            expect_success([&] { return steps.step.draw(steps.policy, q); });
        }
        read(steps.step.target_inputs(), target_, 0);
        expect_success([&] { return steps.step.verify(steps.policy, rows(target_), q); });
        return finish(requests);
    }

    /// The same with the adjustments that `adjust(inputs)` gives for all rows so far of a model.
    template <class Adjust>
    std::vector<std::vector<std::int32_t>> advance(std::vector<request_of_steps>& requests, Adjust& of_target,
                                                   Adjust& of_draft) {
        start(requests);
        for (auto in = steps.step.next_level(); !in.empty(); in = steps.step.next_level()) {
            read(in, draft_, 511);
            expect_success([&] { return steps.step.draw(steps.policy, rows(draft_), of_draft(in)); });
        }
        auto const in = steps.step.target_inputs();
        read(in, target_, 0);
        expect_success(
            [&] { return steps.step.verify(steps.policy, rows(target_), of_target(in), rows(draft_), of_draft.last); });
        return finish(requests);
    }

    void start(std::vector<request_of_steps> const& requests) {
        steps.step.start();
        for (auto const& r : requests)
            steps.step.add({.text = r.text,
                            .shape = r.shape.size() == 1 ? nullptr : &r.shape,
                            .seed = r.seed,
                            .sampling = r.sampling,
                            .draft_sampling = r.draft_sampling.value_or(r.sampling),
                            .in_target = r.in_target,
                            .in_draft = r.in_draft});
        // A piece of a prompt beside them.
        static std::vector<token_id> const prompt{3, 1, 4, 1, 5};
        steps.step.add_reading({.text = prompt});
    }
    /// The draft reads the inputs of a level.
    void read_draft(step_inputs const& in) { read(in, draft_, 511); }
    void read_target(step_inputs const& in) { read(in, target_, 0); }
    [[nodiscard]] rows_of_batch<float, Layout> draft_rows() { return rows(draft_); }
    [[nodiscard]] rows_of_batch<float, Layout> target_rows() { return rows(target_); }

    Steps steps;

private:
    struct model {
        explicit model(index_t vocabulary)
            : cache(16 * static_cast<std::size_t>(entries_of_a_cache)),
              logits(most_rows * static_cast<std::size_t>(vocabulary)) {}
        typename Steps::template array<token_id> cache;
        typename Steps::template array<float> logits;
    };

    void read(step_inputs const& in, model& by, unsigned noise) {
        ASSERT_LE(static_cast<std::size_t>(in.first_row) + in.size(), most_rows);
        device_inputs const there = steps.inputs(in);
        expect_success([&] { return for_each(steps.policy, there.size, write_tokens{there, by.cache.data()}); });
        expect_success([&] {
            return for_each(steps.policy, there.size * vocabulary_,
                            write_logit{there, by.cache.data(), by.logits.data(), vocabulary_, noise});
        });
    }
    [[nodiscard]] rows_of_batch<float, Layout> rows(model& of) { return {of.logits.data(), 0, vocabulary_}; }
    [[nodiscard]] static contiguous_cache cache(model& of) {
        contiguous_cache result;
        result.data = of.cache.data();
        result.request_stride = entries_of_a_cache * static_cast<std::int64_t>(sizeof(token_id));
        result.entry_stride = result.entry_bytes = sizeof(token_id);
        return result;
    }

    std::vector<std::vector<std::int32_t>> finish(std::vector<request_of_steps>& requests) {
        steps.compact(cache(target_), cache(draft_));
        std::vector<std::vector<std::int32_t>> result;
        for (std::size_t k = 0; k < requests.size(); ++k) {
            auto const b = static_cast<std::int32_t>(k);
            auto const more = steps.step.tokens(b);
            auto const path = steps.step.accepted(b);
            requests[k].text.insert(requests[k].text.end(), more.begin(), more.end());
            requests[k].in_target = steps.step.in_target(b);
            requests[k].in_draft = steps.step.in_draft(b);
            auto& of_request = result.emplace_back(more.begin(), more.end());
            of_request.push_back(-9);
            of_request.insert(of_request.end(), path.begin(), path.end());
            for (std::int32_t const n : {-9, requests[k].in_target, requests[k].in_draft}) of_request.push_back(n);
        }
        return result;
    }

    index_t vocabulary_;
    model target_, draft_;
};

/// Several steps of a machine are those of the host.
template <class Sampler, class Verifier, class Layout, class Steps, class... Where>
void expect_the_hosts_steps(index_t vocabulary, int count, Where const&... where) {
    engine_of_steps<steps_on_host<Sampler, Verifier>, Layout> host(vocabulary);
    engine_of_steps<Steps, Layout> device(vocabulary, where...);
    auto here = requests_of_steps();
    auto there = here;
    for (int k = 0; k < count; ++k) {
        auto const expected = host.advance(here);
        ASSERT_EQ(device.advance(there), expected) << "step " << k;
    }
    // One draft token or more was accepted in a step.
    std::size_t tokens = 0;
    for (auto const& r : here) tokens += r.text.size();
    for (auto const& r : requests_of_steps()) tokens -= r.text.size();
    EXPECT_GE(tokens, static_cast<std::size_t>(count) * (here.size() + 1));
}

/// The same by rows of a few candidates.
template <class Sampler, class Verifier, class Steps, class... Where>
void expect_the_hosts_steps_by_candidates(index_t vocabulary, index_t candidates, int count, Where const&... where) {
    engine_of_steps<steps_on_host<Sampler, Verifier>, contiguous> host(vocabulary);
    engine_of_steps<Steps, contiguous> device(vocabulary, where...);
    auto here = requests_of_steps();
    auto there = here;
    for (int k = 0; k < count; ++k) {
        auto const expected = host.advance_by_candidates(here, candidates);
        ASSERT_EQ(device.advance_by_candidates(there, candidates), expected) << "step " << k;
    }
}

}  // namespace MULTIDRAFT_NAMESPACE::testing
