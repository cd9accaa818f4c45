// A text whose drafts are what followed its last tokens earlier: as many at each step as the settings say.
#pragma once

#include <algorithm>
#include <span>

#include "generate/methods.hpp"
#include "multidraft/control/controlled_lookup_drafter.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/decode/lookup_drafter.hpp"
#include "multidraft/decode/options.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/decode/text_state.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/naive.hpp"

namespace multidraft::examples {

/// What is looked up for continuations of that many tokens.
inline lookup_options looking_back(std::int32_t length) {
    return {{settings().lookup_longest, 1}, settings().lookup_paths, std::max(1, length)};
}

/// The text. Where something chooses the drafts, the shape is not read; else continuations are as long as it is deep.
template <language_model Target>
generation run_lookup(Target& target, topology const& shape, std::span<token_id const> prompt,
                      generation_options const& options, token_callback const& on_tokens) {
    using verifier = verify::naive<law::deterministic>;
    method_settings& s = settings();
    if (s.choices != nullptr)
        return make_speculative<verifier>(
            target, controlled_lookup_drafter(*s.choices, s.lookup_rates, looking_back(lookup_options{}.length)))(
            prompt, options, on_tokens);
    return make_speculative<verifier>(target, lookup_drafter(looking_back(shape.max_depth())))(prompt, options,
                                                                                               on_tokens);
}

}  // namespace multidraft::examples
