#include "transformer/instruction_set.hpp"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

namespace multidraft::examples {
namespace {

#if defined(__x86_64__) || defined(__i386__)
/// Whether it converts halves; clang 14 has no name for this.
bool has_f16c() {
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

instruction_set of_this_cpu() {
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c())
        return instruction_set::portable;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
        return instruction_set::avx2;
    if (!__builtin_cpu_supports("avx512vnni")) return instruction_set::avx512;
    return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vbmi") ? instruction_set::avx512_bf16
                                                                                        : instruction_set::avx512_vnni;
}
#else
instruction_set of_this_cpu() { return instruction_set::portable; }
#endif

instruction_set read_environment() {
    char const* const most = std::getenv("MULTIDRAFT_EXAMPLE_ISA");
    if (most == nullptr || *most == 0) return instruction_set::avx512_bf16;
    std::string_view const name = most;
    if (name == "portable") return instruction_set::portable;
    if (name == "avx2") return instruction_set::avx2;
    if (name == "avx512") return instruction_set::avx512;
    if (name == "avx512_vnni") return instruction_set::avx512_vnni;
    if (name == "avx512_bf16") return instruction_set::avx512_bf16;
    throw std::runtime_error("MULTIDRAFT_EXAMPLE_ISA = " + std::string(name) +
                             ": must be avx512_bf16, avx512_vnni, avx512, avx2 or portable");
}

}  // namespace

instruction_set widest_instructions() {
    static instruction_set const widest = std::min(of_this_cpu(), read_environment());
    return widest;
}

}  // namespace multidraft::examples
