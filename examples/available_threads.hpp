// How many cores the calling thread may run on.
#pragma once

#if defined(__linux__)
#include <sched.h>
#endif

#include <algorithm>
#include <thread>

namespace multidraft::examples {

/// The cores that the calling thread may run on.
[[nodiscard]] inline int available_threads() noexcept {
#if defined(__linux__)
    cpu_set_t set;
    if (::sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
    return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

}  // namespace multidraft::examples
