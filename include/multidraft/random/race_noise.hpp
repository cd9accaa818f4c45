// The noise of Gumbel-max lists: exponential variates, each fixed by a position in the text, a list and a token.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/exp_log.hpp"
#include "multidraft/random/source.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// S_i^(k): independent exponential variates for every position of the text, list k and token i.
///
/// A word of the block with the address {position, k / 4, `purpose::gumbel`, token}: four lists share one block. The
/// address involves neither the tree nor its nodes.
///
/// The noise has 32 bits, so a race draws rare tokens too seldom: one of probability p wins a race of one list with
/// probability p * x / (2 sinh(x / 2)), x = 2^-32 / p. That is 0.3 % too little at 2^-30, 4 % at 2^-32, 45 % at 2^-34,
/// and a token of less than 2^-37.5 of the largest weight never wins. A row of V tokens is off by 2.8e-11 V in total
/// variation at most, 7.2e-6 at V = 262,144.
struct race_noise {
    addressed_uniforms uniforms;
    std::int32_t position = 0;

    /// The noise of one list. `list` is in [0, 2^26).
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE float operator()(std::int32_t list, index_t token) const {
        philox_block const block = four(list / 4, token);
        std::int32_t const k = list % 4;
        std::uint32_t word = block.word[0];  // selected, not indexed: the words stay in registers
        word = k == 1 ? block.word[1] : word;
        word = k == 2 ? block.word[2] : word;
        word = k == 3 ? block.word[3] : word;
        return exponential_variate(word);
    }

    /// The smallest noise of the lists 0 .. lists - 1, for up to four lists: no loop, so that loops over it vectorise.
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE float smallest_of_four(std::int32_t lists, index_t token) const {
        return exponential_variate(least(four(0, token), lists));
    }

    /// The smallest noise of the lists 0 .. lists - 1.
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE float smallest(std::int32_t lists, index_t token) const {
        // The variate grows with the word: one logarithm for all lists.
        std::uint32_t word = ~std::uint32_t{0};
        for (std::int32_t first = 0; first < lists; first += 4) {
            std::uint32_t const here = least(four(first / 4, token), lists - first);
            word = here < word ? here : word;
        }
        return exponential_variate(word);
    }

private:
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE philox_block four(std::int32_t group, index_t token) const {
        return uniforms.words(address{position, group, purpose::gumbel, token});
    }

    /// The smallest of the first `count` words, all four from 4 on.
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE static std::uint32_t least(philox_block const& block,
                                                                             std::int32_t count) {
        std::uint32_t word = block.word[0];
        word = ((count > 1) & (block.word[1] < word)) ? block.word[1] : word;
        word = ((count > 2) & (block.word[2] < word)) ? block.word[2] : word;
        word = ((count > 3) & (block.word[3] < word)) ? block.word[3] : word;
        return word;
    }
};

}  // namespace MULTIDRAFT_NAMESPACE
