#include "transformer/kernels.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

#include "transformer/instruction_set.hpp"
#include "transformer/kernel_table.hpp"

namespace multidraft::examples::kernels {
namespace {

loops const& here() {
    static loops const& chosen = []() -> loops const& {
        instruction_set const widest = widest_instructions();
        if (widest >= instruction_set::avx512 && avx512_loops != nullptr) return *avx512_loops;
        if (widest >= instruction_set::avx2 && avx2_loops != nullptr) return *avx2_loops;
        return *portable_loops;
    }();
    return chosen;
}

}  // namespace

void round(float const* from, std::size_t n, bfloat16* to) { here().round(from, n, to); }

void round(float const* from, std::size_t n, half* to) { here().halve(from, n, to); }

void norm(float* x, float const* add, float const* weight, std::int32_t n, float eps, float* out) {
    here().norm(x, add, weight, n, eps, out);
}

void gated(float const* gate_up, std::int32_t n, float* out) { here().gated(gate_up, n, out); }

void rotate(float* head, float const* cosines, float const* sines, std::int32_t half) {
    here().rotate(head, cosines, sines, half);
}

void attend(attention_view const& cache, std::span<token_attention const> tokens, std::int32_t heads, float* scratch) {
    here().attend(cache, tokens.data(), static_cast<std::int32_t>(tokens.size()), heads, scratch);
}

void add(float const* from, std::size_t n, float* to) { here().add(from, n, to); }

bool maxima(std::span<float const> row, std::span<float> of_sets) {
    return here().maxima(row.data(), row.size(), of_sets.size(), of_sets.data());
}

std::size_t count_from(std::span<float const> numbers, float bound) {
    return here().count(numbers.data(), numbers.size(), bound);
}

std::size_t collect_from(std::span<float const> row, float bound, std::int32_t* places, float* values) {
    return here().collect(row.data(), row.size(), bound, places, values);
}

}  // namespace multidraft::examples::kernels
