// The thread block clusters of CUDA's cooperative groups, on the stand-in.
#pragma once

#include "cuda_runtime_api.h"

/// The stand-in has clusters where the device that it models has them.
#define MULTIDRAFT_HAS_CLUSTERS 1

namespace cooperative_groups {

struct cluster_group {
    [[nodiscard]] static unsigned block_rank() { return standin::cluster_rank(); }
    [[nodiscard]] static unsigned num_blocks() { return standin::cluster_size(); }
    static void sync() { standin::sync_cluster(); }
    template <class T>
    [[nodiscard]] static T* map_shared_rank(T* shared, unsigned rank) {
        return static_cast<T*>(standin::at_cluster_rank(shared, rank));
    }
};
[[nodiscard]] inline cluster_group this_cluster() { return {}; }

}  // namespace cooperative_groups
