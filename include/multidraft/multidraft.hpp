// Everything that a program on a host needs, from rows to generation loops; analysis.hpp, testing.hpp, any_method.hpp
// and the headers of devices and ranks (cuda.cuh, kokkos.hpp, shards.hpp, mpi.hpp) are included separately.
// SPDX-License-Identifier: Apache-2.0
#pragma once

// First: before C++20 its message is the only one.
#include "multidraft/core/abi.hpp"

#include "multidraft/batch.hpp"
#include "multidraft/core.hpp"
#include "multidraft/decode.hpp"
#include "multidraft/distribution.hpp"
#include "multidraft/draft.hpp"
#include "multidraft/law.hpp"
#include "multidraft/random.hpp"
#include "multidraft/tree.hpp"
#include "multidraft/verify.hpp"
#include "multidraft/version.hpp"
