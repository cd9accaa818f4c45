// Two files of one program that exchange a type of the library: this one is compiled as both.
#include <array>

#include "multidraft/base/span.hpp"

float first_of(multidraft::span<float const> row);

#ifdef CALLED
float first_of(multidraft::span<float const> row) { return row[0]; }
#else
int main() {
    std::array<float, 1> const row{0.0F};
    return static_cast<int>(first_of({row.data(), row.size()}));
}
#endif
