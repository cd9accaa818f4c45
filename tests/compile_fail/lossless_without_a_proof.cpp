// expect: a verifier is lossless when it is proved.*multidraft/methods.hpp
#include "multidraft/methods.hpp"

// What it says of itself is not enough.
struct biased : multidraft::verify::naive<multidraft::law::iid> {};

static_assert(multidraft::proved_lossless<biased>());
