// The name of the inline namespace, as the preprocessor's last word.
#include "multidraft/core/abi.hpp"
MULTIDRAFT_ABI
