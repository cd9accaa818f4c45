// expect: a verifier is lossless when it is proved.*multidraft/methods/list.hpp
#include "generate/proved_lossless.hpp"

// The declaration alone is not enough.
struct biased : multidraft::verify::naive<multidraft::law::iid> {};

static_assert(multidraft::examples::proved_lossless<biased>());
