// All of random/: addressed uniforms and the sources of draws.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/random/philox.hpp"
#include "multidraft/random/race_noise.hpp"
#include "multidraft/random/source.hpp"
