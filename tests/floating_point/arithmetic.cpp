// Prints the arithmetic faults of this build.
#include "multidraft/base/arithmetic.hpp"

#include <cstdio>

int main() {
    std::printf("%d\n", static_cast<int>(multidraft::check_arithmetic()));
    return 0;
}
