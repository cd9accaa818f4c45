// Calls the documentation's speculative_step: a target that counts modulo ten, and a draft that miscounts after seven.
#pragma once

#include <cmath>
#include <cstdio>

int main() {
    constexpr multidraft::index_t vocabulary = 10;
    auto const write = [](multidraft::token_id after, bool miscounts, float* row) {
        for (int i = 0; i < vocabulary; ++i) row[i] = 0;
        row[miscounts && after == 7 ? 0 : (after + 1) % 10] = 50;
    };
    auto const draft_reads = [&](multidraft::draft::draft_inputs const& in, float* rows) {
        for (std::size_t k = 0; k < in.size(); ++k) write(in.tokens[k], true, rows + k * vocabulary);
    };
    auto const target_reads = [&](auto& tree, float* rows) {
        for (multidraft::node_id v = 0; v < tree.size(); ++v) {
            if (!tree.mask()(v, 0)) std::puts("a node does not attend to the root");
            write(tree.tokens()[static_cast<std::size_t>(v)], false, rows + v * vocabulary);
        }
    };
    step_memory memory;
    multidraft::topology const shape =
        multidraft::topology::from_parents(std::vector<multidraft::node_id>{-1, 0, 0, 1, 3});
    std::vector<multidraft::token_id> text{1, 2};
    std::vector<multidraft::token_id> const stop{3};
    while (!memory.out.ended())
        speculative_step(memory, text, shape, vocabulary, {}, 5, {15 - static_cast<std::int32_t>(text.size()), stop},
                         draft_reads, target_reads);
    // The stop token followed the root, 2, at once; now with a limit only.
    if (text != std::vector<multidraft::token_id>{1, 2, 3}) return 1;
    do {
        speculative_step(memory, text, shape, vocabulary, {}, 5, {15 - static_cast<std::int32_t>(text.size()), {}},
                         draft_reads, target_reads);
        for (double const x : memory.log_probabilities)
            if (!(x <= 0 && x > -1e-6)) return 1;
        if (memory.out.nodes().size() != memory.out.tokens().size()) return 1;
        if (memory.tree.draft_entries(memory.out.nodes()).empty()) return 1;
    } while (!memory.out.ended());
    for (std::size_t i = 0; i < text.size(); ++i)
        if (text[i] != static_cast<int>(i + 1) % 10) return 1;
    std::printf("%zu tokens\n", text.size());
    return text.size() == 15 ? 0 : 1;
}
