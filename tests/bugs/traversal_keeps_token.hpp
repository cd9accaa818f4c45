// Bug: traversal of drafts without replacement keeps a refused token in the draft's row.
#pragma once

#include "bugs/plain_traversal.hpp"

namespace multidraft::bugs {

struct rules_keeping_token : traversal_rules {
    static constexpr bool takes_out = false;
};

using traversal_keeps_token = plain_traversal<law::sequential, rules_keeping_token>;

}  // namespace multidraft::bugs
