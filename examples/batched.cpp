// Requests that come and go: each has its own tree, temperature and seed; every step drafts, scores and verifies all of
// them at once, on a pool of threads. A text depends neither on the other requests of the batch nor on the threads.
//
// `batched 2` cuts the draft to its 2 likeliest tokens: nodes then have fewer children than their shape has for them.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "multidraft/batch/batch_step.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/tree/shape_text.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "toy_engine.hpp"

namespace md = multidraft;
using sampler = md::draft::sequential;
using verifier = md::verify::recursive_rejection<sampler::law>;

struct request {
    std::uint64_t seed;
    md::sampling_params sampling;
    md::topology shape;  // the number of children of each node
    int arrives;         // at this step
    int wanted = 40;     // tokens
    std::vector<std::int32_t> text{7, 42};
    std::int32_t in_target = 0, in_draft = 0;  // tokens of the text that the models' caches hold
    std::vector<double> step_seconds{};

    bool done() const { return static_cast<int>(text.size()) - 2 >= wanted; }
};

// A model of the engine, which reads the inputs of all requests in one call. This one looks at two tokens only and
// needs no cache: an engine writes keys and values to `in.entries`, attends by `in.write_mask`, and keeps the entries
// of the accepted nodes: `compact_caches(pool, cache, step.kept_in_target())`.
class model {
public:
    explicit model(toy::model which) : which_(which) {}

    void forward(md::step_inputs const& in, std::vector<request*> const& requests) {
        auto const first = static_cast<std::size_t>(in.first_row);
        logits_.resize((first + in.size()) * toy::row_stride);
        tokens_.resize(first + in.size());
        for (std::size_t k = 0; k < in.size(); ++k) {
            tokens_[first + k] = in.tokens[k];
            auto const above = in.parent_rows[first + k];
            auto const& text = requests[static_cast<std::size_t>(in.requests[k])]->text;
            std::int32_t const before = above != md::none      ? tokens_[static_cast<std::size_t>(above)]
                                        : in.positions[k] == 0 ? 0
                                                               : text[static_cast<std::size_t>(in.positions[k]) - 1];
            toy::forward(which_, std::vector{before, in.tokens[k]}, logits_.data() + (first + k) * toy::row_stride);
        }
    }
    md::rows_of_batch<float> logits() const { return {logits_.data(), toy::row_stride, toy::vocabulary}; }

private:
    toy::model which_;
    std::vector<float> logits_;
    std::vector<std::int32_t> tokens_;  // of each row of the step
};

struct engine {
    explicit engine(int threads) : pool(threads) {}

    md::host_threads pool;
    md::batch_step<sampler, verifier> step;
    model target{toy::model::target}, draft{toy::model::draft};

    // A step of all active requests: each gets one token or more.
    void advance(std::vector<request*> const& active, md::sampling_params const& of_draft) {
        step.start();
        for (auto* r : active)
            step.add({.text = r->text,
                      .shape = &r->shape,
                      .seed = r->seed,
                      .sampling = r->sampling,
                      .draft_sampling = of_draft,
                      .in_target = r->in_target,
                      .in_draft = r->in_draft});
        for (auto in = step.next_level(); !in.empty(); in = step.next_level()) {
            draft.forward(in, active);
            step.draw(pool, draft.logits());
        }
        target.forward(step.target_inputs(), active);
        step.verify(pool, target.logits(), draft.logits());
        for (std::int32_t b = 0; b < step.requests(); ++b) {
            auto& r = *active[static_cast<std::size_t>(b)];
            auto const tokens = step.tokens(b);
            r.text.insert(r.text.end(), tokens.begin(), tokens.end());
            r.in_target = step.in_target(b);
            r.in_draft = step.in_draft(b);
        }
    }
};

int serve(std::vector<request>& requests, md::sampling_params const& of_draft, int threads) {
    engine batch(threads);
    for (int step = 0, left = 1; left > 0; ++step) {
        std::vector<request*> active;
        left = 0;
        for (auto& r : requests) {
            left += r.done() ? 0 : 1;
            if (!r.done() && r.arrives <= step) active.push_back(&r);
        }
        auto const begin = std::chrono::steady_clock::now();
        batch.advance(active, of_draft);
        double const seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        for (auto* r : active) r->step_seconds.push_back(seconds);
        if (left == 0) return step;
    }
    return 0;
}

int main(int argc, char** argv) {
    md::sampling_params const of_draft{.top_k = argc > 1 ? std::atoi(argv[1]) : 0};
    std::vector<request> requests{{1, {.temperature = 0.0F}, md::chain(3), 0},
                                  {2, {.temperature = 0.7F}, md::branching({3, 2, 1}), 0},
                                  {3, {.temperature = 1.0F, .top_k = 40}, md::fork(4, 3), 3},
                                  {4, {.temperature = 0.8F, .top_p = 0.9F}, md::parse_shape("[-1 0 0 1 1 2]"), 5}};
    std::vector<request> alone{requests[2]};
    auto const begin = std::chrono::steady_clock::now();
    int const steps = serve(requests, of_draft, 4);
    double const seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();

    std::size_t tokens = 0;
    std::vector<double> latencies;
    for (auto const& r : requests) {
        tokens += r.text.size() - 2;
        latencies.insert(latencies.end(), r.step_seconds.begin(), r.step_seconds.end());
    }
    std::sort(latencies.begin(), latencies.end());
    auto const percentile = [&](std::size_t hundredths) {
        return 1e3 * latencies[(latencies.size() - 1) * hundredths / 100];
    };
    std::printf("%d requests, %d tokens in %d steps\n", static_cast<int>(requests.size()), static_cast<int>(tokens),
                steps);
    std::printf("%.0f tokens/s; a step takes %.3f ms (median), %.3f ms (90 %%), %.3f ms (99 %%)\n",
                static_cast<double>(tokens) / seconds, percentile(50), percentile(90), percentile(99));
    serve(alone, of_draft, 1);
    std::printf("request 3 alone, on one thread, writes the same text: %s\n",
                alone[0].text == requests[2].text ? "yes" : "no");
    return alone[0].text == requests[2].text ? 0 : 1;
}

// Output (... is what depends on the machine):
// 4 requests, 163 tokens in 27 steps
// ... tokens/s; a step takes ... ms (median), ... ms (90 %), ... ms (99 %)
// request 3 alone, on one thread, writes the same text: yes
