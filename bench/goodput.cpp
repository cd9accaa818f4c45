// Requests of the shipped texts that share the calls of target and draft, in virtual time: jobs as JSON, one per line,
// on standard input; results, one per line, on standard output. Started by bench/goodput.
//
// A job {"texts": [[kind, index, temperature, tokens], ..], "words", "seed", "tree", "costs": [FILE, ..],
// "requests": [N, ..]} gives {"runs": [..]}, one object for each file and number of requests: N texts are in flight;
// when one ends, the next begins, until none is left. A step costs what it costs by the table of times: the target's
// call by the rows of all requests, the draft's calls by theirs, the library for each request. "tree" is a shape (0 for
// no drafts), "shared" for `batch_controller`, "controller" for the `controller` of single texts (N = 1); these know
// the table and no clock. With shapes the texts run once, whatever the files and numbers of requests: their steps do
// not depend on each other.
//
// A job {"measure": [TARGET, DRAFT], "rows": [..], "rounds"} gives the times of these models in one thread (of its
// processor, so that other programs do not count), in the format of `generate --costs`: the least of the rounds, in
// which numbers of rows and models take turns. The rows of a call do not attend to each other.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <exception>
#include <iostream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "automatic_trees.hpp"
#include "call_seconds.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/control/batch_controller.hpp"
#include "multidraft/control/controlled_drafter.hpp"
#include "multidraft/control/controller.hpp"
#include "multidraft/decode/accepted_text.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/decode/step_outcome.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/logit_rows.hpp"
#include "multidraft/rows/remembered_rows.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/tree/shape_text.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/node_by_node.hpp"
#include "multidraft/verify/verdict.hpp"
#include "support/shipped_pair.hpp"
#include "transformer/transformer.hpp"

namespace {

using namespace multidraft;
using namespace multidraft::bench;
using namespace multidraft::examples;
using nlohmann::json;

constexpr std::int32_t longest_text = 512;  // prompt included

struct text_job {
    std::string kind;
    std::size_t index;
    float temperature;
    std::int32_t tokens;
};

/// What a step of one request adds to the calls of a batch.
struct step_rows {
    std::int32_t tokens = 1;          ///< that it emitted
    std::int32_t target = 1;          ///< rows
    std::int32_t inner = 0;           ///< nodes with children
    std::vector<std::int32_t> draft;  ///< rows of each call
};

/// A text as it grows, step by step: what `speculative` does in one call. The models' caches are its own.
class request {
public:
    request(transformer const& target, transformer const& draft)
        : target_(target.weights()), draft_(draft.weights()), drafter_(draft_, shape_) {}
    request(request const&) = delete;
    request& operator=(request const&) = delete;

    void start(std::span<token_id const> prompt, generation_options const& options) {
        options_ = options;
        text_.assign(prompt.begin(), prompt.end());
        left_ = options.max_tokens;
        source_ = addressed_source{addressed_uniforms(options.seed, options.request)};
        target_.keep(0, {});
        drafter_.reset();
        auto const context = std::span<token_id const>(text_).first(text_.size() - 1);
        catch_up(target_, context, positions_, {});
        drafter_.read(context);
    }

    [[nodiscard]] std::int32_t left() const noexcept { return left_; }
    /// The deepest tree that may be grown.
    [[nodiscard]] std::int32_t depth() const noexcept { return std::max(left_ - 1, 0); }
    [[nodiscard]] std::int32_t unread() const noexcept {
        return static_cast<std::int32_t>(text_.size()) - draft_.length();
    }
    [[nodiscard]] std::span<token_id const> text() const noexcept { return text_; }

    step_rows step(topology const& shape) {
        host_group const g;
        auto const context = static_cast<std::int32_t>(text_.size()) - 1;
        std::int32_t const before = unread();
        shape_.shape = shape;
        std::int32_t const levels = std::min(depth(), drafter_.depth_limit(context + 1));
        drafter_.grow(g, text_, levels, *options_.draft_sampling, source_, metrics_);
        node_id const nodes = drafter_.size();
        logits_.resize(static_cast<std::size_t>(nodes) * static_cast<std::size_t>(target_.vocabulary()));
        target_.forward({drafter_.tokens(), drafter_.positions(), context, nodes == 1 ? mask_view{} : drafter_.mask()},
                        logits_);
        remembered_rows const p(
            logit_rows<float>(rows_view<float>{logits_.data(), nodes, target_.vocabulary()}, options_.sampling),
            memory_);
        path_.resize(static_cast<std::size_t>(nodes));
        verdict const v =
            verify::verify_tree(the_verifier{}, g, drafter_.tree(), target_rows(p), draft_rows(drafter_.rows()),
                                source_, context, span<node_id>(path_), scratch_.of<the_verifier>(nodes, levels));
        path_.resize(static_cast<std::size_t>(v.accepted));
        tree_view const tree = drafter_.tree().tree;
        accepted_.assign(tree, path_, v, {left_, {}});
        step_rows result;
        result.tokens = accepted_.count();
        result.target = nodes;
        result.inner = draft_calls(tree, before, result.draft);
        text_.insert(text_.end(), accepted_.tokens().begin(), accepted_.tokens().end());
        left_ -= accepted_.count();
        target_.keep(context, accepted_.nodes());
        drafter_.keep(context, accepted_.nodes());
        return result;
    }

    /// Of the last step.
    [[nodiscard]] step_outcome outcome() const { return {drafter_.tree().tree, path_, {}}; }

private:
    /// The shape of the next tree.
    struct given_shape {
        topology shape;

        [[nodiscard]] static std::int32_t depth() noexcept { return longest_text; }
        void start() const noexcept {}
        [[nodiscard]] topology const& choose(step_situation const&) const noexcept { return shape; }
        void learn(step_outcome const&) const noexcept {}
    };

    transformer target_;
    transformer draft_;
    given_shape shape_;
    controlled_drafter<transformer, the_sampler, given_shape> drafter_;
    generation_options options_;
    addressed_source source_{addressed_uniforms()};
    std::vector<token_id> text_;
    std::int32_t left_ = 0;
    std::vector<std::int32_t> positions_;
    std::vector<float> logits_;
    row_memory<logit_rows<float>> memory_;
    std::vector<node_id> path_;
    verify::scratch_memory scratch_;
    accepted_text accepted_;
    generation_metrics metrics_;
};

/// Texts in flight, one in each slot.
class flight {
public:
    flight() = default;
    flight(flight const&) = delete;
    flight& operator=(flight const&) = delete;
    virtual ~flight() = default;

    virtual void start(std::size_t slot, std::size_t text) = 0;
    /// One step of all slots.
    virtual void step(std::span<step_rows> rows) = 0;
};

/// Starts the texts of a job in its slots.
class texts_of_job {
public:
    texts_of_job(shipped_pair const& pair, json const& job)
        : pair_(pair), words_(job.at("words").get<int>()), seed_(job.at("seed").get<std::uint64_t>()) {
        for (auto const& t : job.at("texts"))
            texts.push_back({t.at(0).get<std::string>(), t.at(1).get<std::size_t>(), t.at(2).get<float>(),
                             t.at(3).get<std::int32_t>()});
    }

    void start(request& one, std::size_t text) const {
        text_job const& job = texts[text];
        one.start(pair_.prompt(job.kind, job.index, words_),
                  options_of(job.tokens, job.temperature, seed_, static_cast<std::uint32_t>(text)));
    }
    [[nodiscard]] request make() const { return {pair_.target, pair_.draft}; }

    std::vector<text_job> texts;

private:
    shipped_pair const& pair_;
    int words_;
    std::uint64_t seed_;
};

/// The steps of all texts with one shape.
std::vector<std::vector<step_rows>> steps_of(texts_of_job const& job, topology const& shape) {
    std::vector<std::vector<step_rows>> result(job.texts.size());
    if (shape.size() == 1) {  // nothing depends on the models
        for (std::size_t t = 0; t < result.size(); ++t) result[t].resize(static_cast<std::size_t>(job.texts[t].tokens));
        return result;
    }
    request one = job.make();
    for (std::size_t t = 0; t < result.size(); ++t)
        for (job.start(one, t); one.left() > 0;) result[t].push_back(one.step(shape));
    return result;
}

/// Steps that were recorded.
class recorded_flight final : public flight {
public:
    recorded_flight(std::span<std::vector<step_rows> const> steps, std::size_t requests)
        : steps_(steps), text_(requests), step_(requests) {}

    void start(std::size_t slot, std::size_t text) override {
        text_[slot] = text;
        step_[slot] = 0;
    }
    void step(std::span<step_rows> rows) override {
        for (std::size_t slot = 0; slot < rows.size(); ++slot) rows[slot] = steps_[text_[slot]][step_[slot]++];
    }

private:
    std::span<std::vector<step_rows> const> steps_;
    std::vector<std::size_t> text_;
    std::vector<std::size_t> step_;
};

/// One budget of rows for all.
class shared_flight final : public flight {
public:
    shared_flight(texts_of_job const& job, std::span<std::unique_ptr<request> const> requests, step_times times,
                  batch_controller_options const& options)
        : job_(job), requests_(requests), choices_(std::move(times), options), number_(requests.size(), none) {}

    void start(std::size_t slot, std::size_t text) override {
        if (number_[slot] != none) choices_.end(number_[slot]);
        number_[slot] = choices_.start();
        job_.start(*requests_[slot], text);
    }
    void step(std::span<step_rows> rows) override {
        auto const begin = std::chrono::steady_clock::now();
        situations_.clear();
        for (std::size_t slot = 0; slot < rows.size(); ++slot)
            situations_.push_back({number_[slot], requests_[slot]->depth(), requests_[slot]->unread()});
        auto const shapes = choices_.choose(situations_);
        expected += choices_.expected().tokens;
        seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        for (std::size_t slot = 0; slot < rows.size(); ++slot) {
            rows[slot] = requests_[slot]->step(shapes[slot]);
            choices_.learn(number_[slot], requests_[slot]->outcome());
        }
    }

    double seconds = 0;   ///< of choosing, by the clock
    double expected = 0;  ///< tokens

private:
    texts_of_job const& job_;
    std::span<std::unique_ptr<request> const> requests_;
    batch_controller choices_;
    std::vector<std::int32_t> number_;
    std::vector<batch_situation> situations_;
};

/// One text at a time.
class controlled_flight final : public flight {
public:
    controlled_flight(texts_of_job const& job, request& one, step_times times, controller_options const& options)
        : job_(job), one_(one), choices_(std::move(times), options) {}

    void start(std::size_t, std::size_t text) override {
        choices_.start();
        job_.start(one_, text);
    }
    void step(std::span<step_rows> rows) override {
        rows[0] = one_.step(choices_.choose({one_.text(), std::min(one_.depth(), choices_.depth()), one_.unread()}));
        choices_.learn(one_.outcome());
    }

private:
    texts_of_job const& job_;
    request& one_;
    controller choices_;
};

/// Seconds of a step of a batch.
double seconds_of(std::span<step_rows const> rows, step_times const& times) {
    std::int32_t target = 0;
    std::int32_t inner = 0;
    std::vector<std::int32_t> draft;
    for (step_rows const& one : rows) {
        target += one.target;
        inner += one.inner;
        if (draft.size() < one.draft.size()) draft.resize(one.draft.size());
        for (std::size_t k = 0; k < one.draft.size(); ++k) draft[k] += one.draft[k];
    }
    double seconds = times.target(target) + times.library.front().step * static_cast<double>(rows.size()) +
                     times.library.front().inner * inner;
    for (std::int32_t const n : draft) seconds += times.draft(n);
    return seconds;
}

/// Runs the texts until a slot would stay empty.
json serve(flight& one, std::span<text_job const> texts, std::size_t requests, step_times const& times) {
    if (texts.size() < requests) throw std::runtime_error("requests: there are fewer texts");
    std::vector<step_rows> rows(requests);
    double const nothing = seconds_of(rows, times);
    std::vector<std::int32_t> left(requests);
    std::vector<double> began(requests, 0);
    std::vector<std::size_t> text(requests);
    std::size_t next = 0;
    auto const start = [&](std::size_t slot, double now) {
        one.start(slot, next);
        text[slot] = next;
        left[slot] = texts[next].tokens;
        began[slot] = now;
        ++next;
    };
    for (std::size_t slot = 0; slot < requests; ++slot) start(slot, 0);
    std::int64_t tokens = 0;
    std::int64_t steps = 0;
    std::int64_t target_rows = 0;
    std::int64_t ended = 0;
    double seconds = 0;
    double slowest = std::numeric_limits<double>::infinity();
    for (bool full = true; full;) {
        one.step(rows);
        ++steps;
        seconds += seconds_of(rows, times);
        for (std::size_t slot = 0; slot < requests; ++slot) {
            tokens += rows[slot].tokens;
            target_rows += rows[slot].target;
            left[slot] -= rows[slot].tokens;
            if (left[slot] > 0) continue;
            ++ended;
            slowest = std::min(slowest, texts[text[slot]].tokens * nothing / (seconds - began[slot]));
            if (next < texts.size())
                start(slot, seconds);
            else
                full = false;
        }
    }
    // "slowest": of the texts that have ended, against the time that they would take without drafts.
    return {{"requests", requests}, {"tokens", tokens}, {"steps", steps},    {"rows", target_rows},
            {"seconds", seconds},   {"texts", ended},   {"slowest", slowest}};
}

json run(shipped_pair const& pair, std::vector<std::unique_ptr<request>>& pool, json const& job) {
    texts_of_job const texts(pair, job);
    auto const tree = job.at("tree").get<std::string>();
    std::vector<std::vector<step_rows>> recorded;
    bool const chooses = tree == "shared" || tree == "controller";
    if (!chooses) recorded = steps_of(texts, tree == "0" ? topology() : parse_shape(tree));
    json runs = json::array();
    for (auto const& file : job.at("costs")) {
        auto const times = read_times(file.get<std::string>(), the_method());
        for (auto const& number : job.at("requests")) {
            auto const requests = number.get<std::size_t>();
            if (!chooses) {
                recorded_flight one(recorded, requests);
                runs.push_back(serve(one, texts.texts, requests, times));
                continue;
            }
            while (pool.size() < requests) pool.push_back(std::make_unique<request>(pair.target, pair.draft));
            if (tree == "shared") {
                batch_controller_options options;
                options.nodes = 16 * static_cast<std::int32_t>(requests);
                if (job.contains("common")) options.common = job.at("common").get<double>();
                shared_flight one(texts, std::span(pool).first(requests), times, options);
                runs.push_back(serve(one, texts.texts, requests, times));
                runs.back()["choosing"] = one.seconds;
                runs.back()["expected"] = one.expected;
            } else {
                if (requests != 1) throw std::runtime_error("requests: the controller of one text");
                controller_options options = choices_of(the_method(), false, 0, 16);
                options.learns_times = false;
                controlled_flight one(texts, *pool.front(), times, options);
                runs.push_back(serve(one, texts.texts, requests, times));
            }
        }
    }
    return {{"runs", runs}};
}

/// The time that this thread has run: other programs on its core are not counted.
struct thread_time {
    static std::chrono::nanoseconds now() {
        std::timespec t{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
    }
};

json measure(shipped_pair const& pair, json const& job) {
    auto options = shipped_pair::options(1);  // one thread, the one that calls
    auto const rows = job.at("rows").get<std::vector<std::int32_t>>();
    options.tree_entries = rows.back();
    transformer target(job.at("measure").at(0).get<std::string>(), options);
    transformer draft(job.at("measure").at(1).get<std::string>(), options);
    std::vector<double> of_target(rows.size(), std::numeric_limits<double>::infinity());
    std::vector<double> of_draft = of_target;
    library_cost least{of_target.front(), of_target.front()};
    {
        timed_calls<transformer, thread_time> target_call(target, rows.back(), true);
        timed_calls<transformer, thread_time> draft_call(draft, rows.back(), true);
        for (int round = 0; round < job.at("rounds").get<int>(); ++round)
            for (std::size_t k = 0; k < rows.size(); ++k) {
                // As in the steps of a text: each step finds the caches as one like it left them.
                for (int step = 0; step < 3; ++step) {
                    of_target[k] = std::min(of_target[k], target_call(rows[k]));
                    // As in `median_call_seconds`: the first call of a step finds the caches full of the target.
                    double const first = draft_call(rows[k]);
                    of_draft[k] = std::min(of_draft[k], (first + draft_call(rows[k])) / 2);
                }
            }
    }
    for (int round = 0; round < job.at("rounds").get<int>(); ++round) {
        auto const cost =
            measure_library(target, draft, the_method(), pair.prompt("satire", 3, 16), generation_options{}).front();
        least = {std::min(least.step, cost.step), std::min(least.inner, cost.inner)};
    }
    auto const points = [&](std::vector<double> const& seconds) {
        std::vector<std::pair<std::int32_t, double>> result;
        auto const rising = nondecreasing(seconds);
        for (std::size_t k = 0; k < rows.size(); ++k) result.emplace_back(rows[k], rising[k]);
        return analysis::call_cost(std::move(result));
    };
    return json(to_json(step_times{points(of_target), points(of_draft), {least}}, the_method()));
}

}  // namespace

int main() try {
    shipped_pair pair(longest_text);
    std::vector<std::unique_ptr<request>> pool;
    for (std::string line; std::getline(std::cin, line);) {
        json const job = json::parse(line);
        std::cout << (job.contains("measure") ? measure(pair, job) : run(pair, pool, job)).dump() << '\n' << std::flush;
    }
} catch (std::exception const& e) {
    std::cerr << "goodput: " << e.what() << '\n';
    return 1;
}
