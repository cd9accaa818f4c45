// All of research/: what papers need beside the methods.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/research/any_law.hpp"
#include "multidraft/research/early_stop.hpp"
#include "multidraft/research/energy.hpp"
#include "multidraft/research/independent.hpp"
#include "multidraft/research/joint_likelihood.hpp"
