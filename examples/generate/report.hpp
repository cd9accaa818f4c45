// The text emitted by `generate`, and a run of one of its methods as JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "generate/methods.hpp"
#include "multidraft/decode/text_state.hpp"
#include "run_report.hpp"
#include "transformer/tokenizer.hpp"

namespace multidraft::examples {

/// The text of the emitted tokens as a continuation of the prompt.
inline std::string continuation(tokenizer const& tokens, std::span<token_id const> emitted) {
    stream_decoder decoder(tokens, false);
    std::string text;
    for (token_id const t : emitted) text += decoder.push(t);
    return text + decoder.finish();
}

/// The object that `--json` prints for a run.
inline nlohmann::ordered_json to_json(method const& how, generation const& g, std::string const& text,
                                      std::uint64_t seed) {
    return run_as_json(how.name, how.lossless, g, text, seed);
}

}  // namespace multidraft::examples
