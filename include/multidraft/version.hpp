// The version, in its one place: CMakeLists.txt and the package recipes read it from here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#define MULTIDRAFT_VERSION_MAJOR 0
#define MULTIDRAFT_VERSION_MINOR 1
#define MULTIDRAFT_VERSION_PATCH 0
