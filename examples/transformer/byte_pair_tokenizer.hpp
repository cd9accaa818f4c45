// The tokenizer of a GGUF file whose tokens are merged bytes.
#pragma once

#include <memory>

#include "transformer/gguf.hpp"
#include "transformer/tokenizer_kind.hpp"

namespace multidraft::examples {

/// The tokenizer in the metadata, `tokenizer.ggml.model = gpt2`: control tokens are cut out of a text first, the rest
/// is split into words (`word_splitter`), and the bytes of each are merged (`byte_pairs`). Throws `std::runtime_error`
/// that names the file and the key.
[[nodiscard]] std::unique_ptr<tokenizer::implementation const> byte_pair_tokenizer(gguf_file const& file);

}  // namespace multidraft::examples
