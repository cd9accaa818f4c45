// The device's own tests of drafting, verifying and validating float rows.
#include "cuda/launches_float_test.cu"
