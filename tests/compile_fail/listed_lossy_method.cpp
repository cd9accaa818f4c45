// expect: this list is of lossless methods
#include "multidraft/lossy/rollback.hpp"
#include "multidraft/methods/list.hpp"

multidraft::listed_method<multidraft::draft::iid, multidraft::lossy::rollback<multidraft::law::iid>> method;
