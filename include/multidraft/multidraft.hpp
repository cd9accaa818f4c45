// What an engine on a host includes: rows, laws, trees, samplers, verifiers and batches. Loops of generation
// (decode.hpp), what decides, methods by name, proofs, what papers need, devices and ranks have headers of their own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

// First: before C++20 its message is the only one.
#include "multidraft/base/abi.hpp"

#include "multidraft/base.hpp"
#include "multidraft/batch.hpp"
#include "multidraft/draft.hpp"
#include "multidraft/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random.hpp"
#include "multidraft/rows.hpp"
#include "multidraft/tree.hpp"
#include "multidraft/verify.hpp"
#include "multidraft/version.hpp"
