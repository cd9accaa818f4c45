// The version, defined only here: CMakeLists.txt and the package recipes read it from this file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#define MULTIDRAFT_VERSION_MAJOR 0
#define MULTIDRAFT_VERSION_MINOR 2
#define MULTIDRAFT_VERSION_PATCH 0
