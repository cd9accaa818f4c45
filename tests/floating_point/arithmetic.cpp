// Prints what of this build's arithmetic is not as the library needs it.
#include "multidraft/core/arithmetic.hpp"

#include <cstdio>

int main() {
    std::printf("%d\n", static_cast<int>(multidraft::check_arithmetic()));
    return 0;
}
