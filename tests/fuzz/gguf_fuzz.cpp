// GGUF files: refused, or metadata and tensors that lie inside the file, and a tokenizer that encodes and decodes.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/files.hpp"
#include "transformer/gguf.hpp"
#include "transformer/safetensors.hpp"
#include "transformer/tokenizer.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    using namespace multidraft;
    auto const path = fuzz::file_of("model.gguf", data, size);
    fuzz::reads_or_refuses([&] {
        examples::gguf_file const file(path);
        for (auto const& [name, tensor] : file.tensors()) {
            std::size_t count = 1;
            for (std::int64_t const extent : tensor.shape) count *= static_cast<std::size_t>(extent);
            std::vector<float> numbers(count);
            tensor.read(0, numbers);
        }
        fuzz::reads_or_refuses([&] { static_cast<void>(examples::read_config(file)); });
        fuzz::reads_or_refuses([&] { static_cast<void>(examples::tensor_store::of(file)); });
        fuzz::reads_or_refuses([&] {
            examples::tokenizer const tokens(path);
            std::string const text = "ab  12 \xC3\xA9\xFF<a>'s";
            auto const encoded = tokens.encode(text);
            examples::stream_decoder stream(tokens);
            std::string pieces;
            for (auto const t : encoded) pieces += stream.push(t);
            fuzz::require(pieces + stream.finish() == tokens.decode(encoded), "pieces join to the whole");
        });
    });
    std::filesystem::remove(path);
    return 0;
}
