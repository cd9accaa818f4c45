// acceptance: the acceptance rates of the verifiers, and their bounds, for the rows of your own models.
#include "acceptance/program.hpp"

int main(int argc, char** argv) { return multidraft::examples::acceptance_program(argc, argv); }
