// The test of tests/cuda for steps of a batch.
#include "cuda/batch_step_test.cu"
