// An engine like vLLM: chains of drafts of different lengths in flat arrays, one array for each sampling parameter,
// output tokens padded with -1. It calls the sampler of `vllm_chain.hpp`.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "multidraft/batch/host_threads.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/softmax.hpp"
#include "toy_engine.hpp"
#include "vllm_chain.hpp"

namespace md = multidraft;

constexpr int batch_size = 3, max_spec_len = 4, V = toy::vocabulary;

int main() {
    md::host_threads const pool(2);
    chain_rejection_sampler<md::host_threads> sampler(pool);
    std::vector<std::int32_t> texts[batch_size] = {{7, 42}, {1, 2, 3, 4}, {5}};
    // Indexed by the request's slot; the first request has the last slot.
    std::int32_t const slots[batch_size] = {2, 1, 0};
    float const temperature[batch_size] = {1.0F, 0.0F, 0.8F};
    float const top_p[batch_size] = {0.9F, 1.0F, 0.95F};
    std::uint64_t const seeds[batch_size] = {11, 12, 13};
    std::vector<std::int32_t> output(batch_size * (max_spec_len + 1));

    for (int step = 0; step < 5; ++step) {
        std::vector<std::int32_t> drafts, cu_num_draft_tokens;
        std::vector<float> draft_probs, logits;
        std::int32_t positions[batch_size];
        for (int b = 0; b < batch_size; ++b) {
            auto text = texts[b];
            positions[slots[b]] = static_cast<std::int32_t>(text.size()) - 1;
            int const k = b == 2 && step == 0 ? 0 : max_spec_len - b;  // number of drafts, possibly 0
            for (int j = 0; j <= k; ++j) {
                logits.resize(logits.size() + V);
                toy::forward(toy::model::target, text, logits.data() + logits.size() - V);
                if (j == k) break;
                // The engine draws; any draw from the row that it passes on is valid.
                std::vector<float> row(V);
                toy::forward(toy::model::draft, text, row.data());
                auto q =
                    md::process_logits(md::host_group{}, md::row_view<float>(row.data(), V), {.temperature = 0.9F});
                for (int x = 0; x < V; ++x) draft_probs.push_back(q.row(x));
                md::addressed_source source{md::addressed_uniforms(seeds[slots[b]])};
                std::int32_t token = 0;
                static_cast<void>(md::draft::iid{}(md::host_group{}, q.row, q.sums, source, {positions[slots[b]], j},
                                                   md::span<md::token_id>(&token, 1)));
                drafts.push_back(token);
                text.push_back(token);
            }
            cu_num_draft_tokens.push_back(static_cast<std::int32_t>(drafts.size()));
        }
        chain_step<float> const s{.batch_size = batch_size,
                                  .vocab_size = V,
                                  .max_spec_len = max_spec_len,
                                  .draft_token_ids = drafts.data(),
                                  .cu_num_draft_tokens = cu_num_draft_tokens.data(),
                                  .draft_probs = draft_probs.data(),
                                  .logits = logits.data(),
                                  .sampling = {.temperature = temperature, .top_p = top_p},
                                  .slots = slots,
                                  .seeds = seeds,
                                  .positions = positions};
        sampler.forward(s, output.data());
        for (int b = 0; b < batch_size; ++b) {
            std::printf(b == 0 ? "[" : " [");
            for (int k = 0; k <= max_spec_len; ++k) {
                std::int32_t const token = output[static_cast<std::size_t>(b * (max_spec_len + 1) + k)];
                std::printf(k == 0 ? "%d" : " %d", token);
                if (token >= 0) texts[b].push_back(token);
            }
            std::printf("]");
        }
        std::printf("\n");
    }
}

// Output:
// [942 786 970 806 331] [311 -1 -1 -1 -1] [632 -1 -1 -1 -1]
// [419 296 17 237 883] [501 545 -1 -1 -1] [817 401 772 -1 -1]
// [585 650 214 265 698] [564 -1 -1 -1 -1] [697 626 840 -1 -1]
// [36 559 750 619 81] [448 667 320 -1 -1] [244 815 858 -1 -1]
// [271 878 229 -1 -1] [568 -1 -1 -1 -1] [835 407 648 -1 -1]
