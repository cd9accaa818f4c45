// Calls the documentation's verify_constrained: a target whose preferred token is removed by the mask or the bias.
#pragma once

#include <cstdint>
#include <cstdio>
#include <limits>
#include <vector>

int main() {
    constexpr multidraft::index_t vocabulary = 70;
    std::vector<multidraft::node_id> const parents{-1, 0, 0};
    std::vector<multidraft::token_id> const tokens{0, 3, 69};
    std::vector<multidraft::bfloat16> p(3 * vocabulary);
    std::vector<multidraft::bfloat16> const q(3 * vocabulary);
    p[3] = multidraft::bfloat16(200.0F);
    std::vector<std::int32_t> masks(9, -1);
    masks[0] = ~8;  // token 3 after the root
    masks[1] = 0;
    std::vector<multidraft::token_id> biased{69, 5};
    std::vector<float> bias{200, 300};
    std::vector<std::int64_t> offsets{0, 1, 1, 2};
    for (bool const drafted : {true, false}) {
        if (!drafted) masks[2] = 31;  // nor 69
        std::vector<multidraft::node_id> path(1, -1);
        auto const found = verify_constrained(parents, tokens, p.data(), q.data(), vocabulary, masks.data(), 3,
                                              {biased, bias, offsets}, multidraft::sampling_params{}, 7, 1, path);
        std::printf("accepted %d, next %d\n", found.accepted, found.next);
        if (found.accepted != (drafted ? 1 : 0)) return 1;
        if (drafted && (path[0] != 2 || found.next != 5)) return 1;
        if (found.next == 3 || found.next == 69) return 1;
    }
    return 0;
}
