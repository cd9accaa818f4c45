// expect: multidraft: min and max are macros: define NOMINMAX before windows\.h is included
// As after windows.h. The standard library of g++ removes the macros where it is included later.
#include <algorithm>
#define max(a, b) (((a) > (b)) ? (a) : (b))
#include "multidraft/base/config.hpp"

int main() {}
