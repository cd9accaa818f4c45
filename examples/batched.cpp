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

#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/tree/shape_text.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/candidates.hpp"
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
    std::vector<double> step_seconds{};

    bool done() const { return static_cast<int>(text.size()) - 2 >= wanted; }
};

// The batch of a step: the nodes of all requests one after another, those of request b from offsets[b] on. The arrays
// are the engine's, and keep their memory from one step to the next.
struct engine {
    explicit engine(int threads) : pool(threads) {}

    md::host_threads pool;
    std::vector<std::int64_t> offsets;
    std::vector<md::node_id> parents;
    std::vector<md::token_id> tokens;
    std::vector<std::uint64_t> seeds;
    std::vector<std::int32_t> positions;
    std::vector<md::sampling_params> sampling;
    std::vector<float> target, draft;
    // The nodes whose children are drawn next: a level of all trees.
    std::vector<std::int32_t> of_request, wanted;
    std::vector<md::node_id> nodes;
    std::vector<std::int64_t> first, row;
    // The output.
    std::vector<md::node_id> path;
    std::vector<std::int32_t> accepted;
    std::vector<md::token_id> next;

    md::tree_batch trees() const {
        return {static_cast<std::int32_t>(seeds.size()), static_cast<std::int64_t>(parents.size()), offsets.data(),
                parents.data(), tokens.data()};
    }
    md::request_batch requests() const { return {seeds.data(), positions.data()}; }

    // An engine scores all nodes of a level in one call; this one does it row by row.
    void score(toy::model which, std::vector<float>& rows, request const& r, std::int32_t b, md::node_id node) {
        md::tree_view const tree = trees()(b);
        std::vector<std::int32_t> text = r.text;
        auto const end = static_cast<std::ptrdiff_t>(text.size());
        for (md::node_id v = node; v > 0; v = tree.parent(v))
            text.insert(text.begin() + end, tree.tokens[static_cast<std::size_t>(v)]);
        toy::forward(which, text, rows.data() + (offsets[static_cast<std::size_t>(b)] + node) * toy::row_stride);
    }

    // Every tree has its shape's nodes. The draft determines their tokens; until then they count as not drawn.
    void lay_out(std::vector<request*> const& active) {
        offsets.assign(1, 0);
        parents.clear();
        seeds.clear();
        positions.clear();
        sampling.clear();
        for (auto const* r : active) {
            parents.insert(parents.end(), r->shape.parents().begin(), r->shape.parents().end());
            offsets.push_back(static_cast<std::int64_t>(parents.size()));
            seeds.push_back(r->seed);
            positions.push_back(static_cast<std::int32_t>(r->text.size()) - 1);
            sampling.push_back(r->sampling);
        }
        tokens.assign(parents.size(), md::none);
        for (std::size_t b = 0; b < active.size(); ++b)
            tokens[static_cast<std::size_t>(offsets[b])] = active[b]->text.back();
        target.resize(parents.size() * toy::row_stride);
        draft.resize(parents.size() * toy::row_stride);
        path.resize(parents.size());
        accepted.resize(active.size());
        next.resize(active.size());
    }

    // Draws the trees, a level of all of them at a time. Where the draft has fewer tokens than a node has children, the
    // others stay `none`, and nothing is drawn below them.
    void draw(std::vector<request*> const& active, md::sampling_params const& of_draft) {
        for (std::int32_t depth = 0;; ++depth) {
            of_request.clear();
            wanted.clear();
            nodes.clear();
            first.clear();
            row.clear();
            for (std::int32_t b = 0; b < trees().requests; ++b) {
                md::tree_view const tree = trees()(b);
                auto const begin = offsets[static_cast<std::size_t>(b)];
                for (md::node_id v = 0; v < tree.size(); ++v) {
                    md::node_range const children = tree.children(v);
                    bool const here = tree.depth(v) == depth && tree.tokens[static_cast<std::size_t>(v)] != md::none;
                    if (!here || children.empty()) continue;
                    score(toy::model::draft, draft, *active[static_cast<std::size_t>(b)], b, v);
                    of_request.push_back(b);
                    nodes.push_back(v);
                    wanted.push_back(children.count);
                    first.push_back(begin + children.first);
                    row.push_back(begin + v);
                }
            }
            if (nodes.empty()) return;
            md::draft_batch(pool, sampler{},
                            {static_cast<std::int32_t>(nodes.size()), of_request.data(), nodes.data(), wanted.data()},
                            md::draft_rows(draft_logits(of_draft, row.data())), requests(),
                            {tokens.data(), first.data()});
        }
    }

    // The one verification call of a step. Its rows are read where the models wrote them.
    void verify(std::vector<request*> const& active, md::sampling_params const& of_draft) {
        for (std::int32_t b = 0; b < trees().requests; ++b)
            for (md::node_id v = 0; v < trees().size(b); ++v)
                if (md::verify::is_present(trees()(b), v))
                    score(toy::model::target, target, *active[static_cast<std::size_t>(b)], b, v);
        md::logit_batch<float> const p{target.data(), toy::row_stride, toy::vocabulary, nullptr, sampling.data()};
        md::verify_batch(pool, verifier{}, md::drawn_by<sampler::law>(trees()), md::target_rows(p),
                         md::draft_rows(draft_logits(of_draft, nullptr)), requests(),
                         {path.data(), 0, accepted.data(), next.data()});
        for (std::size_t b = 0; b < active.size(); ++b) {
            auto& text = active[b]->text;
            auto const begin = static_cast<std::size_t>(offsets[b]);
            for (std::int32_t k = 0; k < accepted[b]; ++k)
                text.push_back(tokens[begin + static_cast<std::size_t>(path[begin + static_cast<std::size_t>(k)])]);
            text.push_back(next[b]);
        }
    }

private:
    md::logit_batch<float> draft_logits(md::sampling_params const& of_draft, std::int64_t const* row_of) const {
        return {draft.data(), toy::row_stride, toy::vocabulary, row_of, nullptr, of_draft};
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
        batch.lay_out(active);
        batch.draw(active, of_draft);
        batch.verify(active, of_draft);
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
