// The tests of drafting, verifying and validating float rows of tests/cuda.
#include "cuda/launches_float_test.cu"
