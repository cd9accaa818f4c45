// The usual calls, without Python code between their arguments and the library. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

/// Defines verify_usual and draft_usual.
void define_usual_calls(nanobind::module_& m);
