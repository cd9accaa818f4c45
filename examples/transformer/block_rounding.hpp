// Numbers rounded to the blocks of GGUF files, for weights that a file has in more bits.
#pragma once

#include <cstddef>
#include <span>

namespace multidraft::examples {

/// Writes numbers, whole blocks of 32 of them, as a row of type Q8_0: of each block the scale that its largest number
/// needs, then the nearest multiples. A block with a number that is not finite has a scale that is not a number.
/// O(numbers).
void round_to_blocks(std::span<float const> numbers, std::byte* to);

}  // namespace multidraft::examples
