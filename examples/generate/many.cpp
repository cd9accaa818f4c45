#include "generate/many.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <numeric>
#include <utility>

#include "automatic_trees.hpp"
#include "generate/block_costs.hpp"
#include "generate/head_costs.hpp"
#include "generate/report.hpp"
#include "many_prompts.hpp"
#include "multidraft/analysis/configuration_search.hpp"
#include "multidraft/control/batch_controller.hpp"
#include "multidraft/decode/batched_block_draft.hpp"
#include "transformer/batched_block_drafter.hpp"
#include "transformer/batched_eagle_head.hpp"
#include "transformer/batched_transformer.hpp"

namespace multidraft::examples {
namespace {

/// The draft of a loop that drafts nothing.
struct no_draft {
    explicit no_draft(batched_transformer const& of) : target(&of) {}

    [[nodiscard]] std::int32_t vocabulary() const noexcept { return target->vocabulary(); }
    [[nodiscard]] std::int32_t context_limit() const noexcept { return target->context_limit(); }
    [[nodiscard]] std::int32_t sequences() const noexcept { return target->sequences(); }
    void forward(step_inputs const&, std::span<std::int32_t const>, std::span<float>) const noexcept {}
    void keep(std::int32_t, std::int32_t, std::span<std::int32_t const>) const noexcept {}

    batched_transformer const* target;
};

/// Calls `run` with the draft that a block drafter is for so many texts: by rows of all its tokens, or of a few.
template <class Run>
auto with_blocks(std::shared_ptr<block_drafter_weights const> const& weights, std::int32_t texts,
                 std::int32_t candidates, Run const& run) {
    batched_block_drafter model(weights, texts);
    if (candidates == 0) return run(model);
    batched_short_block_drafter few(model, candidates);
    return run(few);
}

/// Median seconds of a block drafter's calls by the number of texts, after 64 tokens of each; every call first takes in
/// what two more tokens left.
template <class Model>
std::vector<std::pair<std::int32_t, double>> seconds_of_blocks(Model& model) {
    using clock = std::chrono::steady_clock;
    constexpr std::int32_t before = 64;
    constexpr std::int32_t between = 2;
    constexpr bool few = gives_candidates_of_batch<Model>;
    std::int32_t const most = model.sequences();
    std::vector<std::int32_t> sizes;
    for (std::int32_t n = 1; n < most; n *= 2) sizes.push_back(n);
    sizes.push_back(most);
    auto const count = [](std::int32_t n) { return static_cast<std::size_t>(n); };
    std::size_t const width = count(model.feature_size());
    [[maybe_unused]] std::size_t const rows = count(model.block_size()) * count(model.vocabulary());
    std::vector<float> const features(count(before) * width, 0.5F);
    std::vector<float> logits(few ? 0 : count(most) * rows);
    std::vector<std::int32_t> all(count(most));
    std::iota(all.begin(), all.end(), 0);
    std::vector<token_id> const tokens(all.size(), 5);
    return seconds_by_size(sizes, [&](std::int32_t texts) {
        std::size_t const n = count(texts);
        auto const call = [&] {
            auto const of = std::span(all).first(n);
            auto const last = std::span(tokens).first(n);
            if constexpr (few)
                model.read(of, last, model.block_size());
            else
                model.rows(of, last, model.block_size(), std::span(logits).first(n * rows));
        };
        for (std::int32_t s = 0; s < texts; ++s) {
            model.start(s);
            model.observe(s, features, 0);
        }
        call();
        auto const begin = clock::now();
        for (std::int32_t s = 0; s < texts; ++s)
            model.observe(s, std::span(features).first(count(between) * width), before);
        call();
        return std::chrono::duration<double>(clock::now() - begin).count();
    });
}

/// The times of the target's calls for up to `requests` requests. Where none drafts, calls have a row for each and
/// follow one another: their times are those of `alone`. Further rows are drafts, and such calls take `in_turn(rows)`
/// seconds, in turn with those of the draft, which leave other things in the caches.
template <class InTurn>
analysis::call_cost by_requests(std::int32_t requests, std::int32_t rows, analysis::call_cost const& alone,
                                InTurn const& in_turn) {
    std::vector<std::pair<std::int32_t, double>> points;
    double least = 0;
    std::vector<std::int32_t> sizes = measured_rows(rows - 1);
    sizes.insert(sizes.end(), {requests, requests + 1});
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    for (std::int32_t const n : sizes) {
        double const seconds = n <= requests ? std::min(alone(n), in_turn(n)) : in_turn(n);
        points.emplace_back(n, least = std::max(least, seconds));
    }
    return analysis::call_cost(std::move(points));
}

}  // namespace

step_times times_of_many(transformer& target, transformer& draft, method const& how,
                         std::vector<token_id> const& prompt, generation_options const& options,
                         many_options const& many) {
    std::int32_t const rows = std::min(256, many.parallel * (many.budget + 1));
    if (many.head) return measure_head_times(target, how, prompt, options, rows - 1);
    if (!many.drafter) {
        step_times times = measure_times(target, draft, how, prompt, options, rows - 1);
        analysis::call_cost const alone(seconds_of_rows(target, std::min(many.parallel, rows) - 1));
        times.target = by_requests(many.parallel, rows, alone, times.target);
        return times;
    }
    analysis::call_cost const alone(seconds_of_rows(target, rows - 1));
    step_times const of_one =
        measure_block_times(target, how, prompt, options, many.budget, many.drafter->config().block_size());
    // Of a call in turn with the drafter's to one that follows another, with the same rows.
    double const slower = std::max(1.0, of_one.target(many.budget + 1) / alone(many.budget + 1));
    return {.target = by_requests(many.parallel, rows, alone, [&](std::int32_t n) { return slower * alone(n); }),
            .draft = analysis::call_cost(with_blocks(many.drafter, many.parallel, many.candidates,
                                                     [](auto& model) { return seconds_of_blocks(model); })),
            .library = of_one.library,
            .draft_in_one_call = true};
}

int generate_many(std::shared_ptr<transformer_weights const> const& target, tokenizer const& tokens,
                  std::span<std::string const> texts, std::span<std::vector<token_id> const> prompts,
                  generation_options const& options, many_options const& many) {
    batched_transformer many_targets(target, many.parallel);
    many_prompts const all{
        .program = "generate",
        .texts = texts,
        .prompts = prompts,
        .continuation = [&](std::vector<token_id> const& more) { return continuation(tokens, more); },
        .parallel = many.parallel,
        .json = many.json};
    auto const run = [&](auto& draft) {
        if (!many.times) return continue_many(many_targets, draft, fixed_shapes(many.shape), options, all);
        batch_controller_options choices;
        choices.nodes = std::min(many.budget * many.parallel, batch_controller_options::most_nodes);
        choices.learns_times = true;  // those given are of calls for one text
        return continue_many(many_targets, draft, batch_controller(*many.times, choices), options, all);
    };
    if (many.drafter) {
        many_targets.expose_features(many.drafter->target_layers());
        return with_blocks(many.drafter, many.parallel, many.candidates, [&](auto& model) {
            batched_block_draft draft(model);
            return run(draft);
        });
    }
    if (many.head) {
        many_targets.expose_features(many.head->target_layers());
        batched_eagle_head draft(many.head, many.parallel);
        return run(draft);
    }
    if (many.draft) {
        batched_transformer many_drafts(many.draft, many.parallel);
        return run(many_drafts);
    }
    no_draft nothing(many_targets);
    return run(nothing);
}

}  // namespace multidraft::examples
