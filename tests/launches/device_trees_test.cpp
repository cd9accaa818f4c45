// The tests of tests/cuda for masks, compaction, level order and offsets.
#include "cuda/trees_test.cu"
