// A program outside the repository that includes the library and calls a few functions.
#include <cstdint>
#include <span>
#include <string>

#include "multidraft/base/error.hpp"
#include "multidraft/decode/language_model.hpp"

// The dependencies of a component are found automatically.
#ifdef WITH_cuda
#include <cuda_runtime_api.h>
#endif
#ifdef WITH_kokkos
#include <Kokkos_Core.hpp>
#endif
#ifdef WITH_mpi
#include "multidraft/mpi/communicator.hpp"
#endif

namespace {

struct model {
    std::int32_t entries = 0;
    [[nodiscard]] std::int32_t vocabulary() const { return 2; }
    [[nodiscard]] std::int32_t context_limit() const { return 8; }
    [[nodiscard]] std::int32_t length() const { return entries; }
    void forward(multidraft::token_batch const& batch, std::span<float> logits) {
        entries += static_cast<std::int32_t>(batch.tokens.size());
        for (float& logit : logits) logit = 0.0F;
    }
    void keep(std::int32_t context, std::span<std::int32_t const> kept) {
        entries = context + static_cast<std::int32_t>(kept.size());
    }
};
static_assert(multidraft::language_model<model>);

}  // namespace

int main() {
    try {
        multidraft::refuse("tokens", 1, -5, "outside the vocabulary");
    } catch (multidraft::invalid_input const& error) {
        return std::string(error.what()) == "tokens[1] = -5: outside the vocabulary" ? 0 : 1;
    }
}
