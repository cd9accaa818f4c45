// Weights files: refused, or tensors that lie inside the file.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fuzz/files.hpp"
#include "transformer/safetensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    using namespace multidraft;
    bool const is_index = size > 0 && data[0] == '{';
    auto const path = fuzz::file_of(is_index ? "model.safetensors.index.json" : "model.safetensors", data, size);
    fuzz::reads_or_refuses([&] {
        auto const store = examples::tensor_store::open(path.parent_path());
        std::size_t told = 0;
        store.load([&](std::size_t done) { told = done; });
        if (told != store.bytes()) __builtin_trap();
        for (char const* const name : {"a", "b", ""}) {
            if (!store.contains(name)) continue;
            std::vector<std::int64_t> const shapes[] = {{}, {1}, {2}, {4}, {2, 2}, {0}};
            for (auto const& shape : shapes) {
                fuzz::reads_or_refuses([&] {
                    auto const& tensor = store.get(name, shape);
                    std::vector<float> out(tensor.bytes.size() / size_of(tensor.type));
                    tensor.read(0, out);
                });
            }
            for (std::int64_t const count : {0, 1, 4})
                fuzz::reads_or_refuses([&] { static_cast<void>(store.get_integers(name, count)); });
        }
    });
    std::filesystem::remove(path);
    return 0;
}
