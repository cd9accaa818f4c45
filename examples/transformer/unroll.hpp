// A loop whose constant number of rounds is written out, so that what it indexes stays in registers.
#pragma once

#if defined(__clang__)
#define MULTIDRAFT_EXAMPLE_UNROLL _Pragma("clang loop unroll(full)")
#else
#define MULTIDRAFT_EXAMPLE_UNROLL _Pragma("GCC unroll 32")
#endif
