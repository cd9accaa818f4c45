// expect: speculative_sampling divides by the law of the draw.*use verify::naive
#include "multidraft/verify/speculative_sampling.hpp"

multidraft::verify::speculative_sampling<multidraft::law::deterministic> verifier;
