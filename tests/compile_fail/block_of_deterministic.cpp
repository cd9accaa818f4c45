// expect: verify::block divides by the law of the draw.*use verify::naive
#include "multidraft/verify/block.hpp"

multidraft::verify::block<multidraft::law::deterministic> verifier;
