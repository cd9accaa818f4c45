// Many requests that come and go, one target call per step: rows are allotted to the requests with the largest expected
// gain, estimated from what each has had accepted so far. The time of a step depends on all rows together, so a tree
// that pays for a single request may not pay for many. The times here are those of a target whose rows are nearly free
// up to 16 and cost their products beyond.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include "multidraft/control/batch_controller.hpp"
#include "multidraft/decode/accepted_text.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/tree_growth.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/logit_rows.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/ranked_block.hpp"
#include "toy_engine.hpp"

namespace md = multidraft;
using sampler = md::draft::stratified;
using verifier = md::verify::ranked_block<sampler::law>;

// Milliseconds by rows, and of the library for a request. An engine measures its own.
md::step_times const times{md::analysis::call_cost({{1, 20.0}, {16, 21.0}, {64, 40.0}, {256, 130.0}, {1024, 500.0}}),
                           md::analysis::call_cost({{1, 0.8}, {64, 1.2}, {1024, 8.0}}),
                           {{0.02, 0.005}}};

struct request {
    static constexpr std::size_t length = 66;

    std::uint64_t seed;
    md::sampling_params sampling;
    std::int32_t number;  // of the controller
    std::vector<std::int32_t> text{7, 42};
    md::topology drafted{};  // the tree of the last step

    [[nodiscard]] std::int32_t left() const { return static_cast<std::int32_t>(length - text.size()); }

    // One step with a tree of this shape, at most as deep as tokens are left; returns how many tokens it wrote. A
    // controller that chose the shape learns from it.
    int step(md::topology const& shape, md::batch_controller* chose) {
        md::host_group const g;
        md::addressed_source source{md::addressed_uniforms(seed)};
        md::draft::tree_growth<sampler::law> tree;
        auto const position = static_cast<std::int32_t>(text.size()) - 1;
        tree.start(text.back(), position, shape, left() - 1);
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
            md::verify::verify_tree(verifier{}, g, drafts, md::target_rows(p), md::draft_rows(q), source, position,
                                    md::span<md::node_id>(path), memory.of<verifier>(tree.size(), shape.max_depth()));
        md::accepted_text const out(drafts.tree, path, v);
        text.insert(text.end(), out.tokens().begin(), out.tokens().end());
        path.resize(static_cast<std::size_t>(v.accepted));
        if (chose != nullptr) chose->learn(number, {drafts.tree, path, {}});
        drafted = md::topology::from_parents(tree.parents());
        return v.accepted + 1;
    }
};

// The time of the last step: one target call for all nodes, one draft call per level.
double milliseconds_of(std::span<request const> all) {
    std::int32_t rows = 0;
    std::vector<std::int32_t> of_level;
    double milliseconds = 0;
    for (request const& r : all) {
        auto const& s = r.drafted;
        rows += s.size();
        milliseconds += times.library[0].step;
        for (md::node_id v = 0; v < s.size(); ++v) {
            if (s.child_count(v) == 0) continue;
            milliseconds += times.library[0].inner;
            auto const level = static_cast<std::size_t>(s.depth(v));
            if (of_level.size() <= level) of_level.resize(level + 1);
            ++of_level[level];
        }
    }
    for (std::int32_t const n : of_level) milliseconds += times.draft(n);
    return milliseconds + times.target(rows);
}

// Tokens per second with that many requests in flight; `shape` is every request's, or null if rows are allotted. When a
// request has its tokens the next one begins, with another temperature.
double goodput(int requests, md::topology const* shape) {
    md::batch_controller choices(times);
    std::uint64_t seed = 0;
    auto const next = [&] {
        ++seed;
        return request{seed, {.temperature = 0.4F + 0.3F * static_cast<float>(seed % 4)}, choices.start()};
    };
    std::vector<request> all;
    for (int r = 0; r < requests; ++r) all.push_back(next());
    double tokens = 0;
    double milliseconds = 0;
    for (int k = 0; k < 1024 / requests; ++k) {
        std::vector<md::batch_situation> step;
        for (auto const& r : all) step.push_back({r.number, r.left() - 1, 1});
        auto const chosen = choices.choose(step);
        for (std::size_t r = 0; r < all.size(); ++r)
            tokens += shape != nullptr ? all[r].step(*shape, nullptr) : all[r].step(chosen[r], &choices);
        milliseconds += milliseconds_of(all);
        for (auto& r : all) {
            if (r.left() > 0) continue;
            choices.end(r.number);
            r = next();
        }
    }
    return 1e3 * tokens / milliseconds;
}

int main() {
    md::topology const chain = md::chain(4);
    md::topology const bushy = md::branching({4, 2, 2, 1});
    md::topology const none;
    // The toy models' arithmetic depends on the instruction set, so the last digit does.
    auto const tens = [](double rate) { return 10 * std::round(rate / 10); };
    std::printf("tokens per second\n%8s %8s %8s %8s %8s\n", "requests", "no tree", "1x1x1x1", "4x2x2x1", "shared");
    for (int const requests : {1, 4, 16, 64})
        std::printf("%8d %8.0f %8.0f %8.0f %8.0f\n", requests, tens(goodput(requests, &none)),
                    tens(goodput(requests, &chain)), tens(goodput(requests, &bushy)), tens(goodput(requests, nullptr)));
}

// Output:
// tokens per second
// requests  no tree  1x1x1x1  4x2x2x1   shared
//        1       50      170      130      210
//        4      200      620      200      670
//       16      750     1260      220     1230
//       64     1550     1560      220     1550
