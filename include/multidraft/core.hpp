// All of core/: the group concept, arithmetic, spans and errors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/core/abi.hpp"
#include "multidraft/core/arithmetic.hpp"
#include "multidraft/core/blend.hpp"
#include "multidraft/core/choose_run.hpp"
#include "multidraft/core/config.hpp"
#include "multidraft/core/error.hpp"
#include "multidraft/core/exp_log.hpp"
#include "multidraft/core/float16.hpp"
#include "multidraft/core/fma.hpp"
#include "multidraft/core/group.hpp"
#include "multidraft/core/host_counters.hpp"
#include "multidraft/core/host_group.hpp"
#include "multidraft/core/host_top_k.hpp"
#include "multidraft/core/numbers.hpp"
#include "multidraft/core/optional_members.hpp"
#include "multidraft/core/positive_part.hpp"
#include "multidraft/core/runs.hpp"
#include "multidraft/core/span.hpp"
