// All of methods/: the list of methods, and methods chosen by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/methods/any_batch_step.hpp"
#include "multidraft/methods/any_method.hpp"
#include "multidraft/methods/any_method_batch.hpp"
#include "multidraft/methods/list.hpp"
#include "multidraft/methods/method_calls.hpp"
