// All of mpi/: the ranks of MPI as those that share the columns of rows (shards.hpp).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/mpi/communicator.hpp"
