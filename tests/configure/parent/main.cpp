// A program whose MPI was found by its own project.
#include "multidraft/mpi/communicator.hpp"

#ifndef FOUND_BY_THE_PARENT
#error "multidraft has looked for MPI again"
#endif

int main() { return sizeof(multidraft::mpi::communicator) > 0 ? 0 : 1; }
