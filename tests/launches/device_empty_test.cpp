// The device's own test of batches without requests.
#include "cuda/empty_test.cu"
