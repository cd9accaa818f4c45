// The test of batches without requests of tests/cuda.
#include "cuda/empty_test.cu"
