// Many requests, one target call per step: rows are allotted to the requests with the largest expected gain, estimated
// from what each has had accepted so far. The time of a step depends on all rows together, so a tree that pays for a
// single request may not pay for many. The times here are those of a target whose rows are nearly free up to 16 and
// cost their products beyond.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "multidraft/analysis/shared_budget.hpp"
#include "multidraft/core/host_group.hpp"
#include "multidraft/decode/acceptance_history.hpp"
#include "multidraft/decode/accepted_text.hpp"
#include "multidraft/distribution/softmax.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/tree_growth.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/ranked_block.hpp"
#include "toy_engine.hpp"

namespace md = multidraft;
using sampler = md::draft::stratified;
using verifier = md::verify::ranked_block<sampler::law>;

// Milliseconds by rows. An engine measures its own.
md::analysis::step_costs const costs{
    md::analysis::call_cost({{1, 20.0}, {16, 21.0}, {64, 40.0}, {256, 130.0}, {1024, 500.0}}),
    md::analysis::call_cost({{1, 0.8}, {64, 1.2}, {1024, 8.0}}), 0.1, 0.005};

struct request {
    std::uint64_t seed;
    md::sampling_params sampling;
    std::vector<std::int32_t> text{7, 42};
    md::acceptance_history history{};

    // One step with a tree of this shape; returns how many tokens it wrote.
    int step(md::topology const& shape) {
        md::host_group const g;
        md::addressed_source source{md::addressed_uniforms(seed)};
        md::draft::tree_growth<sampler::law> tree;
        auto const position = static_cast<std::int32_t>(text.size()) - 1;
        tree.start(text.back(), position, shape);
        std::vector<float> draft(static_cast<std::size_t>(shape.size()) * toy::row_stride), target(draft.size());
        auto const score = [&](toy::model which, std::vector<float>& rows, md::node_id node) {
            auto whole = text;
            auto const end = static_cast<std::ptrdiff_t>(whole.size());
            for (md::node_id v = node; v > 0; v = tree.parents()[static_cast<std::size_t>(v)])
                whole.insert(whole.begin() + end, tree.tokens()[static_cast<std::size_t>(v)]);
            float* const row = rows.data() + node * toy::row_stride;
            toy::forward(which, whole, row);
            return row;
        };
        for (auto level = tree.next_level(); !level.empty(); level = tree.next_level())
            for (md::node_id const v : level.nodes) {
                float const* const row = score(toy::model::draft, draft, v);
                auto q = md::process_logits(g, md::row_view<float>(row, toy::vocabulary), sampling);
                tree.draw(v, sampler{}, q.row, q.sums, source);
            }
        for (md::node_id v = 0; v < tree.size(); ++v) score(toy::model::target, target, v);
        md::logit_rows<float> const p({target.data(), tree.size(), toy::vocabulary, toy::row_stride}, sampling);
        md::logit_rows<float> const q({draft.data(), tree.size(), toy::vocabulary, toy::row_stride}, sampling);
        std::vector<md::node_id> path(static_cast<std::size_t>(tree.size()));
        md::verify::scratch_memory memory;
        auto const drafts = tree.drafts();
        md::verdict const v =
            md::verify::verify_tree(verifier{}, g, drafts, p, q, source, position, md::span<md::node_id>(path),
                                    memory.of<verifier>(tree.size(), shape.max_depth()));
        md::accepted_text const out(drafts.tree, path, v);
        text.insert(text.end(), out.tokens().begin(), out.tokens().end());
        path.resize(static_cast<std::size_t>(v.accepted));
        history.learn(shape, {drafts.tree, path, {}});
        return v.accepted + 1;
    }
};

// Tokens per second of that many requests over some steps; `shape` is every request's, or null if rows are allotted.
double goodput(int requests, md::topology const* shape) {
    constexpr int steps = 12;
    std::vector<request> all;
    for (int r = 0; r < requests; ++r)
        all.push_back({static_cast<std::uint64_t>(r), {.temperature = 0.4F + 0.3F * static_cast<float>(r % 4)}});
    double tokens = 0;
    double milliseconds = 0;
    for (int k = 0; k < steps; ++k) {
        std::vector<md::topology> shapes(all.size(), shape != nullptr ? *shape : md::topology());
        if (shape == nullptr) {
            std::vector<md::analysis::rank_rates> rates;
            for (auto const& r : all) rates.push_back(r.history.rank_rates(5, 4));
            shapes = md::analysis::share_budget(rates, 512, costs).shapes;
        }
        // The cost of the step: one target call for all nodes, one draft call per level.
        std::int32_t rows = 0;
        std::vector<std::int32_t> of_level;
        for (auto const& s : shapes) {
            rows += s.size();
            for (std::int32_t d = 0; d < s.max_depth(); ++d) {
                if (of_level.size() <= static_cast<std::size_t>(d)) of_level.push_back(0);
                of_level[static_cast<std::size_t>(d)] += s.level(d).count;
            }
        }
        milliseconds += costs.target(rows) + costs.rest + costs.rest_per_node * (rows - requests);
        for (std::int32_t const n : of_level) milliseconds += costs.draft(n);
        for (std::size_t r = 0; r < all.size(); ++r) tokens += all[r].step(shapes[r]);
    }
    return 1e3 * tokens / milliseconds;
}

int main() {
    md::topology const chain = md::chain(4);
    md::topology const bushy = md::branching({4, 2, 2, 1});
    md::topology const none;
    std::printf("tokens per second\n%8s %8s %8s %8s %8s\n", "requests", "no tree", "1x1x1x1", "4x2x2x1", "shared");
    for (int const requests : {1, 4, 16, 64})
        std::printf("%8d %8.0f %8.0f %8.0f %8.0f\n", requests, goodput(requests, &none), goodput(requests, &chain),
                    goodput(requests, &bushy), goodput(requests, nullptr));
}

// Output:
// tokens per second
// requests  no tree  1x1x1x1  4x2x2x1   shared
//        1       50      141      131      149
//        4      197      602      194      661
//       16      758     1249      212     1154
//       64     1596     1566      218     1596
