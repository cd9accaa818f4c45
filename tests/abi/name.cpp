// The name of the inline namespace, as the preprocessor's last word.
#include "multidraft/base/abi.hpp"
MULTIDRAFT_ABI
