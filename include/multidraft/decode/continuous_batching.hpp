// Many requests that come and go: every step drafts, scores and verifies all that are in flight, and reads prompts
// beside them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/batch/batch_step.hpp"
#include "multidraft/batch/compact_caches.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/step_inputs.hpp"
#include "multidraft/decode/batched_block_draft.hpp"
#include "multidraft/decode/batched_language_model.hpp"
#include "multidraft/decode/detail/kept_features.hpp"
#include "multidraft/decode/detail/scored_rows.hpp"
#include "multidraft/decode/features.hpp"
#include "multidraft/decode/finished_request.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/decode/options.hpp"
#include "multidraft/decode/shape_chooser.hpp"
#include "multidraft/decode/step_outcome.hpp"
#include "multidraft/decode/text_state.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/rows/sampling_params.hpp"
#include "multidraft/tree/absent_tokens.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The loop over requests that come and go ("continuous batching"): each step is one call of the draft for each level
/// of all trees, one call of the target for all rows, and one verification.
///
///     auto loop = make_continuous_batching<draft::stratified, verify::nested_ranked_block<law::stratified>>(
///         target, draft, threads, fixed_shapes(branching({3, 1, 1})));
///     for (auto const& p : prompts) loop.submit(p, options);
///     for (bool more = true; more;) {
///         more = loop.step();
///         for (auto& f : loop.take_finished()) ..
///     }
///
/// As many requests are in flight as the models have sequences; the others wait, first come, first served. A request
/// may be submitted or cancelled between any two steps, and by the callbacks of a step. Its text is a function of its
/// prompt, its options and the shapes of its trees, in the same bits whoever its neighbours are, for models that are
/// batch-invariant. It is the text of `speculative`, unless the draft's support ends before a node has all its
/// children: a missing child then keeps its number here, so that later nodes have other draws.
///
/// `Shapes` chooses the trees: `fixed_shapes`, or `batch_controller`, which shares one budget among the requests. A
/// request ends with an error of its own, and the others go on, if the model throws `failed_request`, if its rows are
/// no distributions, or if its callback throws. Any other exception of a model's `forward` leaves all texts as before.
///
/// The models and the threads belong to the caller and must outlive the loop. For one thread at a time.
template <sampler Sampler, verify::verifier Verifier, batched_language_model Target, batched_draft_model Draft,
          shape_chooser Shapes = fixed_shapes>
class continuous_batching {
    static_assert(std::is_same_v<Shapes, fixed_shapes> || !Sampler::law::traits.addressed_by_text,
                  "multidraft: the noise of this sampler is fixed by the position in the text, so the shapes of its "
                  "trees may not depend on earlier steps: use fixed_shapes");

    /// The draft reads the target's features, so that a text's tokens but the last are read before it drafts.
    static constexpr bool by_features = observes_features_of_batch<Draft>;
    static constexpr bool in_one_call = drafts_in_one_call<Draft>;
    /// A piece of a prompt is then read with its features, when the text is drafted for.
    static constexpr bool reads_again = reads_again_of_batch<Draft>;
    static_assert(!by_features || exposes_features_of_batch<Target>,
                  "multidraft: this draft observes features, which the target does not expose");

public:
    /// Throws `invalid_input` for one model as both, models of different vocabularies, without sequences, or with
    /// different numbers of them, for features of another size than the draft reads, and for options out of range.
    continuous_batching(Target& target, Draft& draft, host_threads const& threads, Shapes shapes = {},
                        batching_options const& options = {})
        : models_{target, draft},
          shapes_(std::move(shapes)),
          threads_(threads),
          options_(options),
          now_(target, draft) {
        if (draft.vocabulary() != target.vocabulary())
            refuse("draft.vocabulary", draft.vocabulary(),
                   "the target has " + std::to_string(target.vocabulary()) + " tokens");
        if (target.sequences() < 1) refuse("target.sequences", target.sequences(), "there is 1 sequence or more");
        if (std::int32_t const of_target = target.sequences(); draft.sequences() != of_target)
            refuse("draft.sequences", draft.sequences(), "the target has " + std::to_string(of_target));
        if constexpr (by_features)
            if (draft.feature_size() != target.feature_size())
                refuse("draft.feature_size", draft.feature_size(),
                       "the target exposes " + std::to_string(target.feature_size()) + " numbers for a token");
        if (static_cast<void const*>(&draft) == static_cast<void const*>(&target))
            refuse("draft", "the target", "target and draft are two models, each with caches");
        if (options.prompt_tokens < 1)
            refuse("prompt_tokens", options.prompt_tokens, "a step reads 1 token of a prompt or more");
        queues_.free.resize(static_cast<std::size_t>(target.sequences()));
        for (std::size_t k = 0; k < queues_.free.size(); ++k)
            queues_.free[k] = static_cast<std::int32_t>(queues_.free.size() - 1 - k);
    }

    /// Submits a request and returns its ticket. `on_tokens`, which may be empty, gets the tokens of each step; if it
    /// returns false the request ends, and if it throws the request ends with that error. Throws `invalid_input` as a
    /// loop of one request does, for an observer, which is not called here, and for the seed and `options.request` of a
    /// request that waits or is in flight: both would get the same draws. O(requests that have not ended).
    std::int64_t submit(std::span<token_id const> prompt, generation_options options, token_callback on_tokens = {}) {
        validate(options, prompt, models_.target.vocabulary(), models_.target.context_limit());
        queues_.check_usable();
        if (options.observer)
            refuse("options.observer", "a function", "steps of many requests are not observed: leave it empty");
        if (auto const* const twin = queues_.with_draws_of(options))
            refuse("options.request", options.request,
                   "request " + std::to_string(twin->ticket) +
                       " has not ended and has this number and this seed, so both would get the same draws");
        queues_.waiting.push_back(std::make_unique<request>(queues_.next_ticket, prompt, std::move(options),
                                                            std::move(on_tokens), models_.target.context_limit()));
        return queues_.next_ticket++;
    }

    /// Ends a request, which is then finished with the tokens that it has (`stop_reason::callback`); within a callback,
    /// at the end of the step. Returns false if no request that waits or is in flight has this ticket.
    bool cancel(std::int64_t ticket) {
        for (auto* const requests : {&queues_.waiting, &queues_.active})
            for (std::size_t k = 0; k < requests->size(); ++k)
                if ((*requests)[k]->ticket == ticket) {
                    (*requests)[k]->cancelled = true;
                    if (!queues_.in_step) finish(*requests, k, {});
                    return true;
                }
        return false;
    }

    /// Runs one step of all requests in flight, after those that wait have taken the free sequences. Returns whether
    /// there is more to do; `take_finished` has the last ones then. Throws `invalid_input` within a callback.
    bool step() {
        if (queues_.in_step) refuse("step", "out of turn", "a callback of a step calls no other one");
        detail::set_while const stepping(queues_.in_step);
        admit();
        while (!queues_.active.empty()) {
            try {
                run_step();
                break;
            } catch (failed_request const& e) {
                if (e.request < 0 || static_cast<std::size_t>(e.request) >= now_.order.size()) throw;
                end_with(now_.order[static_cast<std::size_t>(e.request)], e.what());
            }
        }
        return !queues_.active.empty() || !queues_.waiting.empty();
    }

    /// The requests that have ended since the last call, in the order in which they did.
    [[nodiscard]] std::vector<finished_request> take_finished() { return std::exchange(queues_.finished, {}); }

    /// Requests in flight.
    [[nodiscard]] std::size_t in_flight() const noexcept { return queues_.active.size(); }
    /// Requests that wait for a sequence.
    [[nodiscard]] std::size_t waiting() const noexcept { return queues_.waiting.size(); }
    /// Calls and seconds of all steps so far; tokens and nodes of all requests, also of those that have not ended.
    /// `whole_steps` and the rates are per request: a call for b requests is b steps.
    [[nodiscard]] generation_metrics const& metrics() const noexcept { return metrics_; }
    /// Who chooses the shapes.
    [[nodiscard]] Shapes const& shapes() const noexcept { return shapes_; }

private:
    using request = detail::batched_request;
    using queue = detail::request_queues::queue;
    struct both_models {
        Target& target;
        Draft& draft;
    };

    void admit() {
        while (!queues_.waiting.empty() && !queues_.free.empty()) {
            request& r = *queues_.waiting.front();
            if (r.text.ended()) {  // no token is wanted
                finish(queues_.waiting, 0, {});
                continue;
            }
            r.sequence = queues_.free.back();
            queues_.free.pop_back();
            r.number = shapes_.start();
            if constexpr (by_features) models_.draft.start(r.sequence);
            queues_.active.push_back(std::move(queues_.waiting.front()));
            queues_.waiting.pop_front();
        }
    }

    /// Moves a request to those that have ended.
    void finish(queue& from, std::size_t k, std::string error) {
        request& r = *from[k];
        if (r.sequence != none) {
            queues_.free.push_back(r.sequence);
            shapes_.end(r.number);
        }
        finished_request done{r.ticket, {r.text.emitted(), r.text.reason(), std::move(r.metrics)}, std::move(error)};
        if (r.cancelled || !done.error.empty()) done.result.reason = stop_reason::callback;
        done.result.metrics.tokens = static_cast<std::int64_t>(done.result.tokens.size());
        queues_.finished.push_back(std::move(done));
        from.erase(from.begin() + static_cast<std::ptrdiff_t>(k));
    }
    void end_with(request* failed, std::string error) {
        auto const its = std::ranges::find(queues_.active, failed, [](auto const& r) { return r.get(); });
        auto const k = static_cast<std::size_t>(its - queues_.active.begin());
        if (k < queues_.active.size()) finish(queues_.active, k, std::move(error));
    }

    /// The deepest tree for which there are tokens left to emit and positions of the target.
    [[nodiscard]] std::int32_t room(request const& r) const {
        return std::min(r.text.left() - 1, models_.target.context_limit() - r.text.length());
    }
    /// Levels for which the draft has positions; the last one needs none.
    [[nodiscard]] std::int32_t draft_room(request const& r) const {
        return models_.draft.context_limit() - r.text.length() + 1;
    }
    /// At most as deep as there are positions of both models.
    [[nodiscard]] std::int32_t depth_limit(request const& r) const {
        return std::clamp(std::min(room(r), draft_room(r)), 0, draft_levels());
    }
    /// The levels of which a call of the draft gives rows.
    [[nodiscard]] std::int32_t draft_levels() const {
        std::int32_t levels = largest_number<std::int32_t>;
        if constexpr (in_one_call) levels = models_.draft.block_size();
        return levels;
    }
    /// Whether the end of the text does not limit the request's next tree.
    [[nodiscard]] bool is_whole(request const& r) const {
        return room(r) >= std::min({shapes_.depth(), draft_levels(), draft_room(r)});
    }

    void run_step() {
        detail::stopwatch const whole(metrics_.seconds);
        collect();
        draw();
        verify();
        advance();
    }

    /// The requests of the step in its order: first those that are decoded, then those whose prompt is read.
    void collect() {
        detail::stopwatch const time(metrics_.time.mask);
        now_.order.clear();
        now_.situations.clear();
        now_.sequences.clear();
        now_.pieces.clear();
        std::int32_t prompt = options_.prompt_tokens;
        for (auto const& r : queues_.active) {
            std::int32_t const unread = r->text.length() - 1 - r->in_target;
            std::int32_t const piece = std::min(unread, prompt);
            if (by_features ? unread == 0 : piece == unread) {
                now_.order.push_back(r.get());
                now_.situations.push_back({r->number, depth_limit(*r), r->text.length() - r->in_draft});
            } else if (piece > 0) {
                now_.pieces.push_back({r.get(), r->in_target + piece});
            }
            prompt -= piece;
        }
        std::span<topology const> shapes;
        if (!now_.situations.empty()) shapes = shapes_.choose(now_.situations);
        detail::check_shapes(shapes, now_.situations);
        now_.deepest = 0;
        now_.step.start();
        for (std::size_t k = 0; k < now_.order.size(); ++k) {
            request const& r = *now_.order[k];
            now_.deepest = std::max(now_.deepest, shapes[k].max_depth());
            now_.step.add({.text = r.text.text(),
                           .shape = &shapes[k],
                           .seed = r.options.seed,
                           .id = r.options.request,
                           .sampling = r.options.sampling,
                           .draft_sampling = r.options.draft_sampling,
                           .in_target = r.in_target,
                           .in_draft = r.in_draft});
        }
        for (auto const& [r, end] : now_.pieces) {
            now_.order.push_back(r);  // beyond its context the draft reads nothing: it will not draft for this text
            now_.step.add_reading({.text = r->text.text().first(static_cast<std::size_t>(end)),
                                   .in_target = r->in_target,
                                   .in_draft = !reads_again && draft_room(*r) > 0 ? r->in_draft : end});
        }
        for (request const* r : now_.order) now_.sequences.push_back(r->sequence);
    }

    void draw() {
        if constexpr (in_one_call) models_.draft.begin_step(now_.deepest);
        double const before = metrics_.time.draft;
        std::int64_t const calls = metrics_.draft_calls;
        std::int32_t drafting = 0;  // requests
        for (auto in = now_.step.next_level(); !in.empty(); in = now_.step.next_level()) {
            double const before_call = metrics_.time.draft;
            {
                detail::stopwatch const time(metrics_.time.draft);
                now_.q.read(models_.draft, in, now_.sequences);
            }
            if (drafting == 0) drafting = static_cast<std::int32_t>(in.scored.size());
            if (!in_one_call || (metrics_.draft_calls == calls && drafting > 0)) ++metrics_.draft_calls;
            if constexpr (learns_from_calls<Shapes> && !in_one_call)  // not of prompts, whose rows have no logits
                if (in.size() <= 2 * in.scored.size())
                    shapes_.learn_draft_call(static_cast<std::int32_t>(in.size()), metrics_.time.draft - before_call);
            detail::stopwatch const time(metrics_.time.sample);
            now_.step.draw(threads_, now_.q.view());
        }
        if constexpr (learns_from_calls<Shapes> && in_one_call)
            if (drafting > 0) shapes_.learn_draft_call(drafting, metrics_.time.draft - before);
    }

    void verify() {
        auto const in = now_.step.target_inputs();
        double const before = metrics_.time.target;
        {
            detail::stopwatch const time(metrics_.time.target);
            now_.p.read(models_.target, in, now_.sequences);
            ++metrics_.target_calls;
        }
        if constexpr (by_features) now_.features.begin(in);
        // Tokens of prompts have no logits, and take less time.
        if constexpr (learns_from_calls<Shapes>)
            if (in.scored.size() == in.size())
                shapes_.learn_target_call(static_cast<std::int32_t>(in.size()), metrics_.time.target - before);
        detail::stopwatch const time(metrics_.time.verify);
        now_.step.verify(threads_, now_.p.view(), now_.q.view());
    }

    /// Keeps the accepted entries and emits tokens; requests that end leave.
    void advance() {
        auto const kept_target = now_.step.kept_in_target();
        auto const kept_draft = now_.step.kept_in_draft();
        for (std::size_t k = 0; k < now_.order.size(); ++k) {
            auto const b = static_cast<std::int32_t>(k);
            request& r = *now_.order[k];
            if constexpr (by_features) {
                detail::stopwatch const time(metrics_.time.draft);
                auto const rows = now_.features.of(models_.target, b, b < now_.step.decoded() ? &kept_target : nullptr);
                models_.draft.observe(r.sequence, rows, r.in_target);
            }
            if (b < now_.step.decoded()) {
                detail::stopwatch const time(metrics_.time.cache);
                keep(models_.target, r.sequence, kept_target, b);
                if (now_.step.in_draft(b) != r.in_draft) keep(models_.draft, r.sequence, kept_draft, b);
                shapes_.learn(r.number, {now_.step.trees()(b), now_.step.accepted(b), {}});
            }
            r.in_target = now_.step.in_target(b);
            if constexpr (reads_again)
                r.in_draft = std::min(now_.step.in_draft(b), models_.draft.current_length(r.sequence));
            else if (b < now_.step.decoded() || draft_room(r) > 0)
                r.in_draft = now_.step.in_draft(b);
            if (b >= now_.step.decoded() || r.cancelled) continue;
            auto const tokens = now_.step.tokens(b);
            if (tokens.empty()) {
                char const* const model = now_.step.is_refused_by_draft(b) ? "draft" : "target";
                end_with(&r, std::string("a row of the ") + model + " is no distribution");
                continue;
            }
            count(r, b);
            emit(r, tokens);
        }
        end_cancelled();
    }

    /// Those that callbacks of the step have cancelled.
    void end_cancelled() {
        for (auto* const requests : {&queues_.active, &queues_.waiting})
            for (std::size_t k = requests->size(); k-- > 0;)
                if ((*requests)[k]->cancelled) finish(*requests, k, {});
    }

    /// Emits tokens of a request, and ends it if its text or its callback does.
    void emit(request& r, std::span<token_id const> tokens) {
        std::int32_t const before = r.text.length();
        std::string error;
        try {
            r.text.emit(tokens);
        } catch (std::exception const& e) {
            error = std::string("its callback threw: ") + e.what();
        } catch (...) {
            error = "its callback threw";
        }
        metrics_.tokens += r.text.length() - before;
        if (r.text.ended() || !error.empty()) end_with(&r, std::move(error));
    }

    template <class Model>
    void keep(Model& model, std::int32_t sequence, kept_batch const& kept, std::int32_t b) {
        auto const context = static_cast<std::int32_t>(kept.bases[b]);
        now_.entries.assign(1, 0);
        node_id const* const nodes = kept.nodes_of(b);
        now_.entries.insert(now_.entries.end(), nodes, nodes + kept.counts[b]);
        model.keep(sequence, context, now_.entries);
    }

    /// Counts the request's step.
    void count(request& r, std::int32_t b) {
        tree_view const tree = now_.step.trees()(b);
        auto const [drafted, levels] = detail::drafted_of(tree);
        std::int32_t const draft_calls = in_one_call ? std::min(levels, 1) : levels;
        bool const whole = is_whole(r);
        for (generation_metrics* const m : {&r.metrics, &metrics_}) {
            step_counts before = m->totals();
            m->drafted += drafted;
            if (m == &metrics_) {
                // The calls that were counted for all requests are those of a step of each.
                --before.target_calls;
                before.draft_calls -= draft_calls;
            } else {
                ++m->target_calls;
                m->draft_calls += draft_calls;
            }
            detail::count_step(tree, now_.step.accepted(b), before, whole, *m);
        }
    }

    struct one_step {
        one_step(Target const& target, Draft const& draft) : p(target), q(draft) {}
        batch_step<Sampler, Verifier> step;
        std::vector<request*> order;                            ///< of the step's requests
        std::vector<std::pair<request*, std::int32_t>> pieces;  ///< of prompts: to which token they go
        std::vector<batch_situation> situations;
        std::vector<std::int32_t> sequences, entries;
        std::int32_t deepest = 0;  ///< level of the step's trees
        detail::kept_features features;
        detail::scored_rows<Target> p;
        detail::scored_rows<Draft> q;
    };

    both_models models_;
    Shapes shapes_;
    host_threads const& threads_;
    batching_options options_;
    detail::request_queues queues_;
    one_step now_;
    generation_metrics metrics_;
};

/// The loop of these models: `make_continuous_batching<Sampler, Verifier>(target, draft, threads, shapes, options)`.
template <sampler Sampler, verify::verifier Verifier, batched_language_model Target, batched_draft_model Draft,
          shape_chooser Shapes = fixed_shapes>
[[nodiscard]] auto make_continuous_batching(Target& target, Draft& draft, host_threads const& threads,
                                            Shapes shapes = {}, batching_options const& options = {}) {
    return continuous_batching<Sampler, Verifier, Target, Draft, Shapes>(target, draft, threads, std::move(shapes),
                                                                         options);
}

}  // namespace MULTIDRAFT_NAMESPACE
