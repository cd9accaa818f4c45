// The tests of masks, compaction, level order and offsets of tests/cuda.
#include "cuda/trees_test.cu"
