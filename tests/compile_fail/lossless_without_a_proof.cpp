// expect: a verifier is lossless when it is proved.*multidraft/methods.hpp
#include "multidraft/methods.hpp"

// The declaration alone is not enough.
struct biased : multidraft::verify::naive<multidraft::law::iid> {};

static_assert(multidraft::proved_lossless<biased>());
