// All of mpi/: MPI as the communicator of ranks that share the columns of rows (shards.hpp).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/mpi/communicator.hpp"
