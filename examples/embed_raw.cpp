// An engine with its own tensors: raw pointers, its row stride, a seed a request, and nothing of ours but four calls -
// draw the children, write the mask, verify, compact the cache.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "multidraft/core/host_group.hpp"
#include "multidraft/distribution/softmax.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/tree/compaction.hpp"
#include "multidraft/tree/mask.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "toy_engine.hpp"

namespace md = multidraft;

// The engine's memory, as it always was: nothing here is a type of the library.
struct engine {
    static constexpr int max_nodes = 16;
    static constexpr int kv_width = 4;

    std::vector<std::int32_t> text{7, 42};
    std::vector<float> draft_logits = std::vector<float>(max_nodes * toy::row_stride);
    std::vector<float> target_logits = std::vector<float>(max_nodes * toy::row_stride);
    std::vector<std::uint8_t> attention = std::vector<std::uint8_t>(max_nodes * max_nodes);
    std::vector<float> kv;  // one entry of kv_width numbers a token

    // The text that a node of the tree stands for.
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
int step(engine& e, std::uint64_t seed, md::sampling_params const& sampling) {
    md::host_group const g;
    md::addressed_source source{md::addressed_uniforms(seed)};
    auto const position = static_cast<std::int32_t>(e.text.size()) - 1;  // of the root, the last token of the text

    // 1. The tree, level by level. Its arrays are ours to keep: parents and tokens, node 0 the root.
    std::vector<std::int32_t> parents{-1};
    std::vector<std::int32_t> tokens{e.text.back()};
    int const children_of_level[] = {2, 1};
    int begin = 0;
    for (int const wanted : children_of_level) {
        int const end = static_cast<int>(tokens.size());
        for (int v = begin; v < end; ++v) {
            float* const row = e.draft_logits.data() + v * toy::row_stride;
            toy::forward(toy::model::draft, e.text_of(parents.data(), tokens.data(), v), row);
            auto q = md::process_logits(g, md::row_view<float>(row, toy::vocabulary), sampling);
            std::int32_t drawn[2];
            int const count = md::draft::sequential{}(g, q.row, q.sums, source, {position, v},
                                                      {drawn, static_cast<std::size_t>(wanted)})
                                  .count;
            for (int k = 0; k < count; ++k) {
                parents.push_back(v);
                tokens.push_back(drawn[k]);
            }
        }
        begin = end;
    }
    auto const nodes = static_cast<int>(tokens.size());

    // 2. Who attends to whom, as bytes in the engine's own tensor; then its target call.
    md::ancestor_mask const mask(parents);
    md::write_bytes(mask.view(), 0, {e.attention.data(), nodes, nodes, engine::max_nodes});
    for (int v = 0; v < nodes; ++v) {
        toy::forward(toy::model::target, e.text_of(parents.data(), tokens.data(), v),
                     e.target_logits.data() + v * toy::row_stride);
        for (int d = 0; d < engine::kv_width; ++d)
            e.kv.push_back(static_cast<float>(tokens[static_cast<std::size_t>(v)]));
    }

    // 3. The verdict. Rows are read where they lie; nothing is copied, nothing vocabulary-sized is written.
    md::logit_rows<float> const p({e.target_logits.data(), nodes, toy::vocabulary, toy::row_stride}, sampling);
    md::logit_rows<float> const q({e.draft_logits.data(), nodes, toy::vocabulary, toy::row_stride}, sampling);
    std::int32_t path[engine::max_nodes];
    md::drafted<md::law::sequential> const tree{{parents, tokens}};
    md::verdict const v = md::verify::recursive_rejection<md::law::sequential>{}(g, tree, p, q, source, position,
                                                                                 {path, engine::max_nodes});

    // 4. The cache keeps the root and the accepted path, in place.
    std::vector<std::int32_t> kept{0};
    kept.insert(kept.end(), path, path + v.accepted);
    auto const length = md::compact(std::span<float>(e.kv), engine::kv_width, position, kept);
    e.kv.resize(static_cast<std::size_t>(length) * engine::kv_width);
    for (int d = 0; d < v.accepted; ++d) e.text.push_back(tokens[static_cast<std::size_t>(path[d])]);
    e.text.push_back(v.next);
    return v.accepted;
}

int main() {
    engine e;
    e.kv.assign((e.text.size() - 1) * engine::kv_width, 0.0F);
    for (int k = 0; k < 5; ++k) {
        int const accepted = step(e, 2024, {.temperature = 0.8F, .top_p = 0.95F});
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
