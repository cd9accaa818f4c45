// The step on MPI ranks.
#pragma once

#include "multidraft/mpi/communicator.hpp"
#include "sharded/step.hpp"

namespace multidraft::examples {

/// Draws and verifies the trees of one step. Called by all ranks with the same options; all get the same tokens.
sharded_result run_on_ranks(mpi::communicator& ranks, sharded_options const& options);

}  // namespace multidraft::examples
