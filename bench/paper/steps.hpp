// One speculative step at every position of a given text: the number of tokens that each method accepts, by position.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/options.hpp"
#include "multidraft/tree/topology.hpp"
#include "transformer/transformer.hpp"

namespace multidraft::bench {

/// The numbers of tokens that methods of `generate`, by their names, accept in a step after the first `prompt`, `prompt
/// + 1` .. tokens of `text`, all but the last: each drafts a tree of the full depth, verifies it, and discards it.
///
/// Entry [m][t] is the sum of method m's accepted tokens at position t over the requests 1 to `seeds` of
/// `options.seed`; request 0 is reserved for drawing the text. Methods of one law get the same trees. Lengths and stops
/// in `options` are not used. Nothing is read twice (see `remembered_text`).
/// Throws `std::runtime_error` for a method that the sweep lacks, `invalid_input` for a tree that a method refuses.
std::vector<std::vector<std::int64_t>> accepted_by_position(std::span<std::string const> methods,
                                                            examples::transformer& target, examples::transformer& draft,
                                                            topology const& shape, std::span<token_id const> text,
                                                            std::size_t prompt, std::uint32_t seeds,
                                                            generation_options options);

}  // namespace multidraft::bench
