// An engine like SGLang: trees grown with beams like EAGLE-2's, parent list and selected candidates, links, ragged
// masks, verdicts by index. It calls the functions of `sglang_tree.hpp`.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <numeric>
#include <vector>

#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/softmax.hpp"
#include "sglang_tree.hpp"
#include "toy_engine.hpp"

namespace md = multidraft;

constexpr int batch_size = 2, beam_width = 3, tree_levels = 3, tree_nodes = 9, path_places = tree_levels + 1;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// What the draft proposes, numbered through all levels.
struct candidate {
    std::vector<std::int32_t> text;
    float score;  // product of the draft's probabilities
};

// Every beam gets its `beam_width` likeliest children, and the best of these are the beams of the next level.
std::vector<candidate> grow(md::host_threads const& pool, std::vector<std::int32_t> const& text,
                            std::int64_t* parent_list) {
    std::vector<candidate> all, beams{{text, 1.0F}};
    *parent_list++ = -1;
    for (int level = 0; level < tree_levels; ++level) {
        auto const n = static_cast<std::int32_t>(beams.size());
        std::vector<float> logits(at(n) * toy::row_stride), q(at(n * beam_width));
        std::vector<std::int32_t> tokens(at(n * beam_width)), requests(at(n), 0), nodes(at(n), 0);
        for (int k = 0; k < n; ++k)
            toy::forward(toy::model::draft, beams[at(k)].text, logits.data() + k * toy::row_stride);
        std::uint64_t const seed = 0;  // nothing is drawn
        std::int32_t const position = 0;
        md::draft_batch(pool, md::draft::top_n{}, {n, requests.data(), nodes.data()},
                        md::draft_rows(md::logit_batch<float>{logits.data(), toy::row_stride, toy::vocabulary}),
                        {&seed, &position}, {.tokens = tokens.data(), .stride = beam_width, .probabilities = q.data()});
        auto const first = all.size();
        for (int c = 0; c < n * beam_width; ++c) {
            all.push_back({beams[at(c / beam_width)].text, beams[at(c / beam_width)].score * q[at(c)]});
            all.back().text.push_back(tokens[at(c)]);
        }
        std::vector<std::size_t> order(all.size() - first);
        std::iota(order.begin(), order.end(), first);
        std::sort(order.begin(), order.end(), [&](auto a, auto b) {
            return all[a].score > all[b].score || (all[a].score == all[b].score && a < b);
        });
        beams.clear();
        for (int k = 0; k < beam_width; ++k) {
            beams.push_back(all[order[at(k)]]);
            if (level + 1 < tree_levels) *parent_list++ = static_cast<std::int64_t>(order[at(k)]);
        }
    }
    return all;
}

int main() {
    md::host_threads const pool(2);
    sglang_tree_functions<md::host_threads> functions(pool, tree_nodes, path_places, toy::vocabulary);
    std::vector<std::int32_t> texts[batch_size] = {{7, 42}, {1, 2, 3, 4}};
    constexpr int list = beam_width * (tree_levels - 1) + 1, all_nodes = batch_size * tree_nodes;
    std::vector<std::int64_t> parent_list(at(batch_size * list)), selected(at(all_nodes - batch_size)),
        candidates(at(all_nodes)), positions(at(all_nodes)), index(at(all_nodes)), next_token(at(all_nodes)),
        next_sibling(at(all_nodes)), predicted(at(all_nodes));
    std::vector<std::int32_t> predicts(at(all_nodes)), accept_index(at(batch_size * path_places)),
        accepted(at(batch_size));
    std::vector<float> probs(at(all_nodes) * toy::vocabulary), row(toy::row_stride);
    std::uint64_t const seeds[batch_size] = {1, 2};

    for (int step = 0; step < 5; ++step) {
        std::int32_t seq_len[batch_size];
        std::int64_t mask_size = 0;
        for (int b = 0; b < batch_size; ++b) {
            auto const grown = grow(pool, texts[b], parent_list.data() + b * list);
            // The best candidates, in the order of their numbers. None is chosen without its parent.
            std::vector<std::int64_t> best(grown.size());
            std::iota(best.begin(), best.end(), 0);
            std::sort(best.begin(), best.end(), [&](auto x, auto y) {
                auto const mine = grown[at(x)].score, other = grown[at(y)].score;
                return mine > other || (mine == other && x < y);
            });
            std::sort(best.begin(), best.begin() + tree_nodes - 1);
            seq_len[b] = static_cast<std::int32_t>(texts[b].size()) - 1;
            mask_size += tree_nodes * (tree_nodes + seq_len[b]);
            for (int v = 0; v < tree_nodes; ++v) {
                auto const i = b * tree_nodes + v;
                if (v > 0) selected[at(i - b - 1)] = best[at(v - 1)];
                auto const& text = v == 0 ? texts[b] : grown[at(best[at(v - 1)])].text;
                candidates[at(i)] = text.back();
                toy::forward(toy::model::target, text, row.data());
                auto const p = md::process_logits(md::host_group{}, md::row_view<float>(row.data(), toy::vocabulary),
                                                  {.temperature = 0.8F, .top_p = 0.95F});
                for (int x = 0; x < toy::vocabulary; ++x) probs[at(i * toy::vocabulary + x)] = p.row(x);
                predicted[at(i)] = std::max_element(row.begin(), row.begin() + toy::vocabulary) - row.begin();
            }
        }
        auto const mask = std::make_unique<bool[]>(at(mask_size));
        functions.build_tree_kernel_efficient(batch_size, parent_list.data(), selected.data(), seq_len, mask.get(),
                                              positions.data(), index.data(), next_token.data(), next_sibling.data(),
                                              beam_width, tree_levels);
        // The first request's text is drawn, the second's is the likeliest: one call for each kind.
        functions.tree_speculative_sampling_target_only(1, predicts.data(), accept_index.data(), accepted.data(),
                                                        candidates.data(), index.data(), next_token.data(),
                                                        next_sibling.data(), seeds, seq_len, probs.data());
        functions.verify_tree_greedy(1, predicts.data() + tree_nodes, accept_index.data() + path_places,
                                     accepted.data() + 1, candidates.data() + tree_nodes, index.data(),
                                     next_token.data() + tree_nodes, next_sibling.data() + tree_nodes,
                                     predicted.data() + tree_nodes);
        for (int b = 0; b < batch_size; ++b)
            for (int k = 0; k <= accepted[at(b)]; ++k)
                texts[b].push_back(predicts[at(b * tree_nodes + accept_index[at(b * path_places + k)])]);
        auto const attended = std::count(mask.get(), mask.get() + mask_size, true);
        std::printf("accepted %d and %d, texts of %zu and %zu tokens, mask of %d entries, %d attended\n", accepted[0],
                    accepted[1], texts[0].size(), texts[1].size(), static_cast<int>(mask_size),
                    static_cast<int>(attended));
    }
}

// Output:
// accepted 3 and 2, texts of 6 and 7 tokens, mask of 198 entries, 83 attended
// accepted 2 and 3, texts of 9 and 11 tokens, mask of 261 entries, 146 attended
// accepted 1 and 2, texts of 11 and 14 tokens, mask of 324 entries, 206 attended
// accepted 0 and 3, texts of 12 and 18 tokens, mask of 369 entries, 254 attended
// accepted 2 and 2, texts of 15 and 21 tokens, mask of 414 entries, 296 attended
