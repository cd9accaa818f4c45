// All of lossy/: methods that change the distribution, for comparison.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/lossy/joint_decoding.hpp"
#include "multidraft/lossy/joint_likelihood.hpp"
#include "multidraft/lossy/rollback.hpp"
#include "multidraft/lossy/target_initialised.hpp"
#include "multidraft/lossy/typical_acceptance.hpp"
