// NumPy's array files: refused, or rows that can be read.
#include <cstdint>
#include <span>
#include <vector>

#include "acceptance/npy.hpp"
#include "fuzz/files.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    using namespace multidraft;
    return fuzz::reads_or_refuses([&] {
        auto const array = examples::parse_npy(std::as_bytes(std::span<std::uint8_t const>(data, size)));
        fuzz::require(array.rows > 0 && array.columns > 0, "an array is not empty");
        std::vector<double> row(static_cast<std::size_t>(array.columns));
        array.read(0, row);
        array.read(array.rows - 1, row);
    });
}
