// The step on ranks of MPI.
#pragma once

#include "multidraft/mpi.hpp"
#include "sharded/step.hpp"

namespace multidraft::examples {

/// Called by all ranks, with the same options.
sharded_result run_on_ranks(mpi::communicator& ranks, sharded_options const& options);

}  // namespace multidraft::examples
