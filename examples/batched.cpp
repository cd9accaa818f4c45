// Requests that come and go: each has its own tree, temperature and seed; every step drafts, scores and verifies all of
// them at once. A text does not depend on who else is in the batch.
//
// `batched 2` cuts the draft to its 2 likeliest tokens: nodes then have fewer children than their shape has for them.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "multidraft/core/host_group.hpp"
#include "multidraft/distribution/softmax.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "toy_engine.hpp"

namespace md = multidraft;

struct request {
    std::uint64_t seed;
    md::sampling_params sampling;
    md::topology shape;  // how many children each node is to have
    int arrives;         // at this step
    int wanted = 40;     // tokens
    std::vector<std::int32_t> text{7, 42};
    std::vector<double> step_seconds{};

    bool done() const { return static_cast<int>(text.size()) - 2 >= wanted; }
};

// The ragged batch of a step: all requests' nodes one after another, request b from offsets[b] on.
struct ragged {
    std::vector<std::size_t> offsets{0};
    std::vector<md::node_id> parents;
    std::vector<md::token_id> tokens;
    std::vector<float> target;
    std::vector<float> draft;

    float* row(std::vector<float>& rows, std::size_t node) {
        if (rows.size() < (node + 1) * toy::row_stride) rows.resize((node + 1) * toy::row_stride);
        return rows.data() + node * toy::row_stride;
    }
};

std::vector<std::int32_t> text_of(request const& r, ragged const& batch, std::size_t first, md::node_id node) {
    std::vector<std::int32_t> path;
    for (md::node_id v = node; v > 0; v = batch.parents[first + static_cast<std::size_t>(v)])
        path.push_back(batch.tokens[first + static_cast<std::size_t>(v)]);
    std::vector<std::int32_t> text = r.text;
    text.insert(text.end(), path.rbegin(), path.rend());
    return text;
}

// Adds the tree of a request, and the rows of both models for its nodes (an engine scores all requests in one call).
//
// The shape is a wish: a sampler returns how many children it drew, which are fewer where the draft has fewer tokens to
// choose from. Those that were not drawn are not in the tree, nor is what would be below them.
void add(ragged& batch, request const& r, md::sampling_params const& of_draft) {
    md::host_group const g;
    md::addressed_source source{md::addressed_uniforms(r.seed)};
    auto const position = static_cast<std::int32_t>(r.text.size()) - 1;
    std::size_t const first = batch.offsets.back();
    batch.parents.push_back(md::none);
    batch.tokens.push_back(r.text.back());
    std::vector<md::node_id> like{0};  // the node of the shape that each node stands for
    for (md::node_id v = 0; v < static_cast<md::node_id>(like.size()); ++v) {
        std::size_t const node = first + static_cast<std::size_t>(v);
        md::node_range const wanted = r.shape.children(like[static_cast<std::size_t>(v)]);
        auto const text = text_of(r, batch, first, v);
        toy::forward(toy::model::target, text, batch.row(batch.target, node));
        toy::forward(toy::model::draft, text, batch.row(batch.draft, node));
        std::vector<md::token_id> children(static_cast<std::size_t>(wanted.count));
        auto q = md::process_logits(g, md::row_view<float>(batch.row(batch.draft, node), toy::vocabulary), of_draft);
        md::index_t const drawn = md::draft::sequential{}(g, q.row, q.sums, source, {position, v}, children).count;
        for (md::index_t k = 0; k < drawn; ++k) {
            batch.parents.push_back(v);
            batch.tokens.push_back(children[static_cast<std::size_t>(k)]);
            like.push_back(wanted.first + k);
        }
    }
    batch.offsets.push_back(batch.tokens.size());
}

// The one verification call of a step. Requests do not touch each other's memory: the loop may run on any threads.
void verify_all(ragged const& batch, std::vector<request*> const& active, md::sampling_params const& of_draft) {
    for (std::size_t b = 0; b < active.size(); ++b) {
        request& r = *active[b];
        std::size_t const first = batch.offsets[b];
        std::size_t const nodes = batch.offsets[b + 1] - first;
        md::span<md::node_id const> const parents(batch.parents.data() + first, nodes);
        md::span<md::token_id const> const tokens(batch.tokens.data() + first, nodes);
        auto const rows = [&](std::vector<float> const& all) {
            return md::rows_view<float>(all.data() + first * toy::row_stride, static_cast<md::index_t>(nodes),
                                        toy::vocabulary, toy::row_stride);
        };
        md::addressed_source source{md::addressed_uniforms(r.seed)};
        std::vector<md::node_id> path(nodes);
        auto const v = md::verify::recursive_rejection<md::law::sequential>{}(
            md::host_group{}, md::drafted<md::law::sequential>{{parents, tokens}},
            md::logit_rows<float>(rows(batch.target), r.sampling), md::logit_rows<float>(rows(batch.draft), of_draft),
            source, static_cast<std::int32_t>(r.text.size()) - 1, path);
        for (int d = 0; d < v.accepted; ++d)
            r.text.push_back(tokens[static_cast<std::size_t>(path[static_cast<std::size_t>(d)])]);
        r.text.push_back(v.next);
    }
}

int serve(std::vector<request>& requests, md::sampling_params const& of_draft) {
    for (int step = 0, left = 1; left > 0; ++step) {
        std::vector<request*> active;
        left = 0;
        for (auto& r : requests) {
            left += r.done() ? 0 : 1;
            if (!r.done() && r.arrives <= step) active.push_back(&r);
        }
        auto const begin = std::chrono::steady_clock::now();
        ragged batch;
        for (auto const* r : active) add(batch, *r, of_draft);
        verify_all(batch, active, of_draft);
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
    int const steps = serve(requests, of_draft);
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
    serve(alone, of_draft);
    std::printf("request 3 alone writes the same text: %s\n", alone[0].text == requests[2].text ? "yes" : "no");
    return alone[0].text == requests[2].text ? 0 : 1;
}

// Output (... is what depends on the machine):
// 4 requests, 163 tokens in 27 steps
// ... tokens/s; a step takes ... ms (median), ... ms (90 %), ... ms (99 %)
// request 3 alone writes the same text: yes
