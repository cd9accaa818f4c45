// Calls the documentation's advance: two requests, with models that expect token 3 after everything.
#pragma once

#include <cstdint>
#include <cstdio>
#include <vector>

struct constant_model {
    static constexpr multidraft::index_t vocabulary = 8;
    std::vector<float> rows;
    std::vector<multidraft::token_id> entries = std::vector<multidraft::token_id>(128);
    multidraft::contiguous_cache cache;

    constant_model() {
        cache.data = entries.data();
        cache.request_stride = 64 * sizeof(multidraft::token_id);
        cache.entry_stride = cache.entry_bytes = sizeof(multidraft::token_id);
    }
    multidraft::rows_of_batch<float> forward(multidraft::step_inputs const& in) {
        auto const first = static_cast<std::size_t>(in.first_row);
        rows.resize((first + in.size()) * vocabulary);
        for (std::size_t k = 0; k < in.size(); ++k) {
            rows[(first + k) * vocabulary + 3] = 200.0F;
            entries[static_cast<std::size_t>(in.requests[k]) * 64 + static_cast<std::size_t>(in.entries[k])] =
                in.tokens[k];
        }
        return {rows.data(), vocabulary, vocabulary};
    }
};

int main() {
    constant_model target;
    constant_model draft;
    step_type step;
    std::vector<request> requests{{{1, 2}, multidraft::topology::from_parents(std::vector{-1, 0, 0, 1, 2}), 5, {}},
                                  {{7}, {}, 6, {}}};
    multidraft::host_threads const pool(2);
    for (int k = 0; k < 3; ++k) advance(pool, step, requests, target, draft);
    bool right = requests[0].text.size() == 2 + 3 * 3 && requests[1].text.size() == 1 + 3;
    for (request const& r : requests) {
        multidraft::token_id const* const cached = target.entries.data() + (&r - requests.data()) * 64;
        for (std::size_t k = r.seed == 5 ? 2 : 1; k < r.text.size(); ++k) right = right && r.text[k] == 3;
        for (std::int32_t k = 0; k < r.in_target; ++k)
            right = right && cached[k] == r.text[static_cast<std::size_t>(k)];
        std::printf("%d tokens, %d in the target's cache, %d in the draft's\n", static_cast<int>(r.text.size()),
                    r.in_target, r.in_draft);
    }
    return right ? 0 : 1;
}
