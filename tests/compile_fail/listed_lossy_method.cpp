// expect: this list is of lossless methods
#include "multidraft/methods.hpp"
#include "multidraft/verify/lossy/rollback.hpp"

multidraft::listed_method<multidraft::draft::iid, multidraft::verify::lossy::rollback<multidraft::law::iid>> method;
