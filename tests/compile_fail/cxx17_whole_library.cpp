// expect: multidraft needs C\+\+20: compile with -std=c\+\+20
// option: -std=c++17
// errors: 2
// lines: 14
// The default of g++ 12. The message and a header that is not there, which ends the compilation: the whole library.
#include "multidraft/multidraft.hpp"

int main() {}
