#include "transformer/instruction_set.hpp"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif
#if defined(__linux__) && defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
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

/// Whether it has tiles of bfloat16, and the system keeps them from one thread to the next: it is asked to, once for
/// the process.
bool has_tiles() {
#if defined(__linux__) && defined(__x86_64__)
    constexpr unsigned of_tiles = 1U << 24U;
    constexpr unsigned of_bfloat16 = 1U << 22U;
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & of_tiles) == 0 || (d & of_bfloat16) == 0) return false;
    constexpr long ask_for_state = 0x1023;  // ARCH_REQ_XCOMP_PERM
    constexpr long tile_data = 18;
    return ::syscall(SYS_arch_prctl, ask_for_state, tile_data) == 0;
#else
    return false;
#endif
}

instruction_set of_this_cpu() {
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c())
        return instruction_set::portable;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
        return instruction_set::avx2;
    if (!__builtin_cpu_supports("avx512vnni")) return instruction_set::avx512;
    if (!__builtin_cpu_supports("avx512bf16") || !__builtin_cpu_supports("avx512vbmi"))
        return instruction_set::avx512_vnni;
    return has_tiles() ? instruction_set::amx : instruction_set::avx512_bf16;
}
#else
instruction_set of_this_cpu() { return instruction_set::portable; }
#endif

instruction_set read_environment() {
    char const* const most = std::getenv("MULTIDRAFT_EXAMPLE_ISA");
    if (most == nullptr || *most == 0) return instruction_set::amx;
    std::string_view const name = most;
    if (name == "portable") return instruction_set::portable;
    if (name == "avx2") return instruction_set::avx2;
    if (name == "avx512") return instruction_set::avx512;
    if (name == "avx512_vnni") return instruction_set::avx512_vnni;
    if (name == "avx512_bf16") return instruction_set::avx512_bf16;
    if (name == "amx") return instruction_set::amx;
    throw std::runtime_error("MULTIDRAFT_EXAMPLE_ISA = " + std::string(name) +
                             ": must be amx, avx512_bf16, avx512_vnni, avx512, avx2 or portable");
}

}  // namespace

instruction_set widest_instructions() {
    static instruction_set const widest = std::min(of_this_cpu(), read_environment());
    return widest;
}

}  // namespace multidraft::examples
