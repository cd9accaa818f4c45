// All of cuda/: batched calls on CUDA devices. For nvcc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/cuda/batch_step.cuh"
#include "multidraft/cuda/block_group.cuh"
#include "multidraft/cuda/build_trees.cuh"
#include "multidraft/cuda/device_group.cuh"
#include "multidraft/cuda/kernel_rows.hpp"
#include "multidraft/cuda/lane_context.hpp"
#include "multidraft/cuda/launch.cuh"
#include "multidraft/cuda/launch_shape.hpp"
#include "multidraft/cuda/level_order.hpp"
#include "multidraft/cuda/on.cuh"
#include "multidraft/cuda/simt_counts.hpp"
#include "multidraft/cuda/simt_group.hpp"
#include "multidraft/cuda/simt_largest.hpp"
#include "multidraft/cuda/simt_search.hpp"
#include "multidraft/cuda/simt_sums.hpp"
#include "multidraft/cuda/simt_threads.hpp"
#include "multidraft/cuda/verify.cuh"
