// All of law/: draft laws, and trees that carry theirs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/law/drafted.hpp"
#include "multidraft/law/law.hpp"
