// Calls the guide's reject: a chain of two, of which the target accepts both, the first or none.
#pragma once

#include <cstdint>
#include <cstdio>
#include <vector>

int main() {
    constexpr multidraft::index_t vocabulary = 4;
    std::vector<multidraft::token_id> const tokens{0, 1, 2};
    std::vector<float> const q{0, 1, 0, 0, 0, 0, 1, 0};
    for (std::int32_t const agreed : {0, 1, 2}) {
        std::vector<float> p(3 * vocabulary, 0.0F);
        for (std::int32_t row = 0; row < 3; ++row)
            p[static_cast<std::size_t>(row * vocabulary + (row < agreed ? row + 1 : 3))] = 1;
        auto const found = reject(tokens, p.data(), q.data(), vocabulary, 7, 1);
        std::printf("agreed %d: accepted %d, next %d\n", agreed, found.accepted, found.next);
        if (found.accepted != agreed || found.next != 3) return 1;
    }
    return 0;
}
