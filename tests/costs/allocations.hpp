// Allocations of the program are counted, by operators in costs_test.cpp.
#pragma once

#include <atomic>
#include <cstdint>

#include "multidraft/base/abi.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// Allocations since this was set, by any thread.
extern std::atomic<std::int64_t> allocations;

}  // namespace MULTIDRAFT_NAMESPACE::testing
