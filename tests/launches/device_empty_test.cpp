// The test of tests/cuda for batches without requests.
#include "cuda/empty_test.cu"
