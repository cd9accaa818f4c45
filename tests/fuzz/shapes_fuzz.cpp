// Tree specifications: a text is refused, or is a tree whose name parses to the same tree.
#include <cstdint>
#include <string_view>

#include "fuzz/bytes.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/tree/shape_text.hpp"
#include "multidraft/tree/shapes.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    using namespace multidraft;
    try {
        auto const shape = parse_shape({reinterpret_cast<char const*>(data), size});
        fuzz::require(shape.size() >= 1 && shape.size() <= max_shape_nodes, "a tree has 1 to 2^20 nodes");
        if (shape.size() < 1000) fuzz::require(parse_shape(to_string(shape)) == shape, "the name is read again");
    } catch (invalid_input const&) {
        return 0;
    }
    return 0;
}
