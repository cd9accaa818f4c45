// expect: multidraft needs C\+\+20: compile with -std=c\+\+20
// option: -std=c++17
// errors: 2
// lines: 14
// The default of g++ 12. The message and a header that is not there, which ends the compilation: a method chosen by
// name.
#include "multidraft/methods/any_method.hpp"

int main() {}
