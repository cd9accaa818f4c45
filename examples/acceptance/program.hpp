// The program `acceptance`, to be called by a user's program with the user's verifiers.
#pragma once

#include <vector>

#include "acceptance/own_verifier.hpp"

namespace multidraft::examples {

/// Runs `acceptance` with the arguments of `main` and returns its exit status: 0, or 1 after a message on standard
/// error. The user's verifiers appear in the tables beside the library's.
[[nodiscard]] int acceptance_program(int argc, char** argv, std::vector<own_verifier> const& own = {});

}  // namespace multidraft::examples
