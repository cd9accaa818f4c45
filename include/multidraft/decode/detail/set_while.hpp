// A flag that is set while a call runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "multidraft/base/config.hpp"

namespace MULTIDRAFT_NAMESPACE::detail {

/// True while it lives.
class set_while {
public:
    explicit set_while(bool& flag) noexcept : flag_(flag) { flag_ = true; }
    ~set_while() { flag_ = false; }
    set_while(set_while const&) = delete;
    set_while& operator=(set_while const&) = delete;

private:
    bool& flag_;
};

}  // namespace MULTIDRAFT_NAMESPACE::detail
