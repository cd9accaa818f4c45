// What stands for rows that a verifier does not read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace multidraft::verify {

/// Stands for the draft's rows where a verifier never reads them.
struct unread {};

}  // namespace multidraft::verify
