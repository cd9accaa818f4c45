// Calls the README's one_step: a root and two candidates, a target with all mass on the second or on neither.
#pragma once

#include <cstdint>
#include <cstdio>
#include <vector>

int main() {
    constexpr multidraft::index_t vocabulary = 6;
    std::vector<multidraft::node_id> const parents{-1, 0, 0};
    std::vector<multidraft::token_id> const tokens{0, 3, 5};
    for (multidraft::token_id const wanted : {5, 1}) {
        std::vector<float> p(3 * vocabulary, 0.0F);
        std::vector<float> const q(3 * vocabulary, 0.0F);
        p[static_cast<std::size_t>(wanted)] = 200;
        p[2 * vocabulary + 4] = 200;
        std::vector<multidraft::node_id> path(1, -1);
        auto const found =
            one_step(parents, tokens, p.data(), q.data(), vocabulary, multidraft::sampling_params{}, 7, 1, path);
        bool const drafted = wanted == 5;
        std::printf("wanted %d: accepted %d, next %d\n", wanted, found.accepted, found.next);
        if (found.accepted != (drafted ? 1 : 0) || found.next != (drafted ? 4 : wanted)) return 1;
        if (drafted && path[0] != 2) return 1;
    }
    return 0;
}
