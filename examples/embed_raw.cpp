// An engine with its own tensors: raw pointers, a row stride, a seed per request. The library does the work between its
// model calls: grow the tree, write the mask, verify, compact the cache.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "multidraft/decode/accepted_text.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/tree_growth.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/logit_rows.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/tree/compaction.hpp"
#include "multidraft/tree/mask.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "toy_engine.hpp"

namespace md = multidraft;

// The engine's memory, without any type of the library.
struct engine {
    static constexpr int max_nodes = 16;
    static constexpr int kv_width = 4;

    std::vector<std::int32_t> text{7, 42};
    std::vector<float> draft_logits = std::vector<float>(max_nodes * toy::row_stride);
    std::vector<float> target_logits = std::vector<float>(max_nodes * toy::row_stride);
    std::vector<std::uint8_t> attention = std::vector<std::uint8_t>(max_nodes * max_nodes);
    std::vector<float> kv;  // one entry of kv_width numbers per token

    // The context of a node of the tree.
    std::vector<std::int32_t> text_of(std::int32_t const* parents, std::int32_t const* tokens, int node) const {
        std::vector<std::int32_t> result = text;
        int end = 0;
        for (int v = node; v > 0; v = parents[v]) ++end;
        result.resize(text.size() + static_cast<std::size_t>(end));
        for (int v = node; v > 0; v = parents[v]) result[text.size() + static_cast<std::size_t>(--end)] = tokens[v];
        return result;
    }
};

// One step of one request: a tree of two candidates at the root and one below each, verified in one target call.
int step(engine& e, md::draft::tree_growth<md::law::sequential>& tree, std::uint64_t seed,
         md::sampling_params const& sampling) {
    md::host_group const g;
    md::addressed_source source{md::addressed_uniforms(seed)};
    auto const position = static_cast<std::int32_t>(e.text.size()) - 1;  // of the root, the last token of the text

    // 1. The tree, level by level: which nodes need a draft row, and their children.
    static md::topology const shape = md::branching({2, 1});
    tree.start(e.text.back(), position, shape);
    for (auto level = tree.next_level(); !level.empty(); level = tree.next_level()) {
        for (int const v : level.nodes) {
            float* const row = e.draft_logits.data() + v * toy::row_stride;
            toy::forward(toy::model::draft, e.text_of(tree.parents().data(), tree.tokens().data(), v), row);
            auto q = md::process_logits(g, md::row_view<float>(row, toy::vocabulary), sampling);
            tree.draw(v, md::draft::sequential{}, q.row, q.sums, source);
        }
    }
    int const nodes = tree.size();

    // 2. The attention mask, as bytes in the engine's own tensor; then its target call.
    md::write_bytes(tree.mask(), 0, {e.attention.data(), nodes, nodes, engine::max_nodes});
    for (int v = 0; v < nodes; ++v) {
        toy::forward(toy::model::target, e.text_of(tree.parents().data(), tree.tokens().data(), v),
                     e.target_logits.data() + v * toy::row_stride);
        for (int d = 0; d < engine::kv_width; ++d)
            e.kv.push_back(static_cast<float>(tree.tokens()[static_cast<std::size_t>(v)]));
    }

    // 3. The verdict. Rows are read in place; nothing is copied, nothing of the vocabulary's size is written.
    md::logit_rows<float> const p({e.target_logits.data(), nodes, toy::vocabulary, toy::row_stride}, sampling);
    md::logit_rows<float> const q({e.draft_logits.data(), nodes, toy::vocabulary, toy::row_stride}, sampling);
    std::int32_t path[engine::max_nodes];
    auto const drafts = tree.drafts();
    md::verdict const v = md::verify::recursive_rejection<md::law::sequential>{}(
        g, drafts, md::target_rows(p), md::draft_rows(q), source, position, {path, engine::max_nodes});

    // 4. The accepted text. The cache keeps the root and the accepted path, in place.
    md::accepted_text const out(drafts.tree, path, v);
    auto const length = md::compact(std::span<float>(e.kv), engine::kv_width, position, out.nodes());
    e.kv.resize(static_cast<std::size_t>(length) * engine::kv_width);
    e.text.insert(e.text.end(), out.tokens().begin(), out.tokens().end());
    return v.accepted;
}

int main() {
    engine e;
    md::draft::tree_growth<md::law::sequential> tree;  // memory is kept from step to step
    e.kv.assign((e.text.size() - 1) * engine::kv_width, 0.0F);
    for (int k = 0; k < 5; ++k) {
        int const accepted = step(e, tree, 2024, {.temperature = 0.8F, .top_p = 0.95F});
        std::printf("accepted %d, text of %d tokens, cache of %d entries\n", accepted, static_cast<int>(e.text.size()),
                    static_cast<int>(e.kv.size()) / engine::kv_width);
    }
}

// Output:
// accepted 2, text of 5 tokens, cache of 4 entries
// accepted 2, text of 8 tokens, cache of 7 entries
// accepted 2, text of 11 tokens, cache of 10 entries
// accepted 2, text of 14 tokens, cache of 13 entries
// accepted 1, text of 16 tokens, cache of 15 entries
