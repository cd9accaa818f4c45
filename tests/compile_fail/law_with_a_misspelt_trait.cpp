// expect: token_differ
// errors: 1
// A law that means to say that the children of a node are different tokens.
#include "multidraft/law/law.hpp"

struct without_replacement {
    static constexpr multidraft::law_traits traits{.name = "without_replacement", .token_differ = true};
};
