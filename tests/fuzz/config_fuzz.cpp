// A model's config.json: refused, or consistent numbers.
#include <cstdint>

#include "fuzz/files.hpp"
#include "transformer/config.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    using namespace multidraft;
    auto const path = fuzz::file_of("config.json", data, size);
    return fuzz::reads_or_refuses([&] {
        auto const c = examples::read_config(path);
        fuzz::require(c.vocabulary > 0 && c.hidden > 0 && c.intermediate > 0 && c.layers > 0 && c.max_positions > 0,
                      "sizes are positive");
        fuzz::require(c.heads > 0 && c.kv_heads > 0 && c.heads % c.kv_heads == 0 && c.head_dim > 0, "heads fit");
        fuzz::require(c.rms_norm_eps >= 0 && c.rope_theta > 0, "numbers are numbers");
    });
}
