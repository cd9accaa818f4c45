// expect: ok
#include "multidraft/base/error.hpp"

int main() {
    try {
        multidraft::refuse("parents", 3, 7, "a parent must come before its child");
    } catch (multidraft::invalid_input const& error) {
        return error.index() == 3 ? 0 : 1;
    }
}
