// The tokenizer: any bytes are encoded, and any tokens are decoded, at once and one after another, to the same text.
#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/files.hpp"
#include "transformer/tokenizer.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    using namespace multidraft;
    static examples::tokenizer const tokens(MULTIDRAFT_MODELS_DIR "/tokenizer.model");
    auto const encoded = tokens.encode({reinterpret_cast<char const*>(data), size});
    for (auto const token : encoded)
        fuzz::require(token >= 0 && token < tokens.vocabulary(), "a token is in the vocabulary");
    std::vector<token_id> ids;
    for (std::size_t i = 0; i + 1 < size; i += 2)
        ids.push_back(static_cast<token_id>(data[i] << 8 | data[i + 1]) % tokens.vocabulary());
    examples::stream_decoder stream(tokens);
    std::string text;
    for (auto const id : ids) text += stream.push(id);
    text += stream.finish();
    fuzz::require(text == tokens.decode(ids), "pieces join to the whole");
    // Invalid tokens, and an invalid model file.
    return fuzz::reads_or_refuses([&] {
        if (size < 4) return;
        token_id const hostile[] = {static_cast<token_id>(data[0] << 24 | data[1] << 16 | data[2] << 8 | data[3])};
        static_cast<void>(tokens.decode(hostile));
    });
}
