#include "transformer/product.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

namespace multidraft::examples::product {
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
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c(); }
bool has_avx512() {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
bool has_dot_products() {
    return has_avx512() && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vbmi");
}
#else
bool has_avx2() { return false; }
bool has_avx512() { return false; }
bool has_dot_products() { return false; }
#endif

struct instruction_set {
    std::string name;
    bool here;
    kernel_list list;
};

std::vector<kernel const*> find_kernels() {
    std::array<instruction_set, 4> const sets{{{"avx512_bf16", has_dot_products(), avx512_bf16_kernels},
                                               {"avx512", has_avx512(), avx512_kernels},
                                               {"avx2", has_avx2(), avx2_kernels},
                                               {"portable", true, portable_kernels}}};
    char const* const most = std::getenv("MULTIDRAFT_EXAMPLE_ISA");
    auto set = sets.begin();
    if (most != nullptr) {
        set = std::ranges::find(sets, most, &instruction_set::name);
        if (set == sets.end())
            throw std::runtime_error(std::string("MULTIDRAFT_EXAMPLE_ISA = ") + most +
                                     ": must be avx512_bf16, avx512, avx2 or portable");
    }
    std::vector<kernel const*> found;
    for (; set != sets.end(); ++set) {
        if (!set->here) continue;
        for (std::size_t i = 0; i < set->list.count; ++i) found.push_back(set->list.first + i);
    }
    return found;
}

/// Seconds of a product that fits in the second-level cache, with as many rows as a step drafts.
double seconds_of(kernel const& k) {
    constexpr std::int32_t inputs = 1024;
    constexpr std::int32_t panels = 6;
    constexpr std::int32_t rows = 8;
    constexpr std::size_t outputs = std::size_t{panels} * panel;
    std::vector<std::byte> const weights(panels * panel_bytes(k, inputs));
    std::vector<std::byte> const packed(packed_bytes(k, inputs, rows));
    std::vector<float> output(outputs * rows);
    std::vector<float> const scales(outputs, 1.0F);
    task const t{weights.data(), scales.data(), outputs,       0,      panels, steps(k, inputs),
                 packed.data(),  rows,          output.data(), outputs};
    double least = 1;
    for (int i = 0; i < 20; ++i) {
        auto const begin = std::chrono::steady_clock::now();
        k.run(t);
        least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    return least;
}

kernel const& fastest(weight_type weights, bool rounded) {
    kernel const* best = nullptr;
    double least = 0;
    for (input_form const form : {input_form::pairs, input_form::floats}) {
        if (form == input_form::pairs && !rounded) continue;
        // Of one form the first is the fastest.
        auto const found = std::ranges::find_if(
            kernels(), [&](kernel const* k) { return k->weights == weights && k->inputs == form; });
        if (found == kernels().end()) continue;
        double const seconds = seconds_of(**found);
        if (best == nullptr || seconds < least) {
            best = *found;
            least = seconds;
        }
    }
    return *best;
}

}  // namespace

std::vector<kernel const*> const& kernels() {
    static std::vector<kernel const*> const found = find_kernels();
    return found;
}

kernel const& kernel_for(weight_type weights, bool rounded) {
    // Of one form: no choice.
    if (in_blocks(weights)) return **std::ranges::find(kernels(), weights, [](kernel const* k) { return k->weights; });
    static kernel const& f32 = fastest(weight_type::f32, false);
    static kernel const& bf16 = fastest(weight_type::bf16, false);
    static kernel const& rounded_bf16 = fastest(weight_type::bf16, true);
    static kernel const& int8 = fastest(weight_type::int8, true);
    switch (weights) {
        case weight_type::f32:
            return f32;
        case weight_type::bf16:
            return rounded ? rounded_bf16 : bf16;
        case weight_type::int8:
        case weight_type::q8_0:
        case weight_type::q4_0:
        case weight_type::q4_1:
            break;
    }
    return int8;
}

}  // namespace multidraft::examples::product
