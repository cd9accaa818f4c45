// expect: verify::traversal divides by the law of the draws.*use verify::naive
#include "multidraft/verify/traversal.hpp"

multidraft::verify::traversal<multidraft::law::stratified> verifier;
