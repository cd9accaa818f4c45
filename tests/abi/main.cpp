// Prints what each unit computes: the name of its namespace, whether it has an FMA, and three sums.
#include <cstdio>
#include <vector>

#include "abi/unit.hpp"

int main() {
    std::vector<float> row(9000);  // more than two chunks
    std::uint32_t state = 1;
    for (float& x : row) {
        state = state * 1664525U + 1013904223U;
        x = static_cast<float>(state >> 8) / 16777216.0F;
    }
    for (auto* const unit : {&unit_base, &unit_v3, &unit_native}) {
        abi::numbers const x = unit(row.data(), static_cast<int>(row.size()));
        std::printf("%s %d %08x %08x %08x\n", x.name, x.has_fma ? 1 : 0, static_cast<unsigned>(x.sum),
                    static_cast<unsigned>(x.squares), static_cast<unsigned>(x.exponentials));
    }
}
