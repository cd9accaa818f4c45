// acceptance: what the verifiers accept of a draft, and what any could, for the rows of your own models.
#include "acceptance/program.hpp"

int main(int argc, char** argv) { return multidraft::examples::acceptance_program(argc, argv); }
