// The device's own tests of masks, compaction, level order and offsets.
#include "cuda/trees_test.cu"
