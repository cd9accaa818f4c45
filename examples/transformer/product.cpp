#include "transformer/product.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "transformer/instruction_set.hpp"

namespace multidraft::examples::product {
namespace {

std::vector<kernel const*> find_kernels() {
    std::pair<instruction_set, kernel_list> const sets[] = {{instruction_set::amx, amx_kernels},
                                                            {instruction_set::avx512_bf16, avx512_bf16_kernels},
                                                            {instruction_set::avx512_vnni, avx512_vnni_kernels},
                                                            {instruction_set::avx512, avx512_kernels},
                                                            {instruction_set::avx2, avx2_kernels},
                                                            {instruction_set::portable, portable_kernels}};
    std::vector<kernel const*> found;
    for (auto const& [needs, list] : sets) {
        if (needs > widest_instructions()) continue;
        for (std::size_t i = 0; i < list.count; ++i) found.push_back(list.first + i);
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
    // Their forms have not the same bits: no choice.
    if (in_blocks(weights))
        return **std::ranges::find_if(kernels(), [&](kernel const* k) {
            return k->weights == weights && (k->inputs == input_form::bytes) == rounded;
        });
    static kernel const* const by_tiles = [] {
        auto const found = std::ranges::find(kernels(), input_form::tiles, &kernel::inputs);
        return found == kernels().end() ? nullptr : *found;
    }();
    static kernel const& f32 = fastest(weight_type::f32, false);
    static kernel const& bf16 = fastest(weight_type::bf16, false);
    static kernel const& rounded_bf16 = fastest(weight_type::bf16, true);
    static kernel const& int8 = fastest(weight_type::int8, true);
    switch (weights) {
        case weight_type::f32:
            return f32;
        case weight_type::bf16:
            if (rounded && by_tiles != nullptr) return *by_tiles;
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
