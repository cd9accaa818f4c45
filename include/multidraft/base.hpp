// All of base/: arithmetic, floating-point types, spans and errors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/base/abi.hpp"
#include "multidraft/base/arithmetic.hpp"
#include "multidraft/base/blend.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/exp_log.hpp"
#include "multidraft/base/float16.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
