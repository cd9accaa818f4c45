// Requests to run together with the example models: prompts of many lengths, each with draws of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/options.hpp"

namespace multidraft::testing {

inline std::vector<std::vector<token_id>> several_prompts() {
    std::vector<std::vector<token_id>> result;
    for (std::int32_t k = 0; k < 7; ++k) {
        std::vector<token_id> one{1};
        for (std::int32_t j = 0; j < 3 + 40 * k; ++j) one.push_back(300 + (j * 37 + k * 11) % 3000);
        result.push_back(one);
    }
    return result;
}

inline generation_options options_of_request(std::size_t k) {
    generation_options options;
    options.max_tokens = 24;
    options.seed = 3;
    options.request = static_cast<std::uint32_t>(k);
    options.sampling.temperature = k % 3 == 0 ? 1.0F : 0.7F;
    return options;
}

}  // namespace multidraft::testing
