// Calls the documentation's verify_step: two requests, one whose candidate is accepted and one whose candidate is
// rejected.
#pragma once

#include <cstdint>
#include <cstdio>
#include <vector>

int main() {
    constexpr multidraft::index_t vocabulary = 8;
    std::vector<std::int64_t> const offsets{0, 2, 4};
    std::vector<multidraft::node_id> const parents{-1, 0, -1, 0};
    std::vector<multidraft::token_id> const tokens{0, 3, 0, 5};
    std::vector<multidraft::bfloat16> p(4 * vocabulary);
    std::vector<multidraft::bfloat16> q(4 * vocabulary);
    for (std::size_t row = 0; row < 4; ++row) p[row * vocabulary + 3] = multidraft::bfloat16(200.0F);
    std::vector<std::uint64_t> const seeds{1, 2};
    std::vector<std::int32_t> const positions{0, 7};
    std::vector<multidraft::node_id> path(4, -1);
    std::vector<std::int32_t> accepted(2);
    std::vector<multidraft::token_id> next(2);
    verify_step(multidraft::host_threads(2), {2, 4, offsets.data(), parents.data(), tokens.data()},
                {p.data(), vocabulary, vocabulary}, {q.data(), vocabulary, vocabulary},
                {seeds.data(), positions.data()}, {path.data(), 0, accepted.data(), next.data()});
    std::printf("accepted %d and %d, then %d and %d\n", accepted[0], accepted[1], next[0], next[1]);
    return accepted[0] == 1 && path[0] == 1 && accepted[1] == 0 && next[0] == 3 && next[1] == 3 ? 0 : 1;
}
