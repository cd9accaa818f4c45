// The tests of tests/cuda for drafting, verifying and validating float rows.
#include "cuda/launches_float_test.cu"
