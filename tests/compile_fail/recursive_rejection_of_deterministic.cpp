// expect: recursive_rejection divides by the law of the draws.*use verify::naive
#include "multidraft/verify/recursive_rejection.hpp"

multidraft::verify::recursive_rejection<multidraft::law::deterministic> verifier;
