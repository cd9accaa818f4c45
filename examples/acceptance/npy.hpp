// NumPy's array files: a strict reader of one- and two-dimensional arrays of floating point numbers, and of lists of
// whole numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace multidraft::examples {

/// What the entries of an array are.
enum class npy_type { float16, float32, float64 };

/// Bytes of one entry.
[[nodiscard]] constexpr std::size_t size_of(npy_type type) noexcept {
    return type == npy_type::float16 ? 2 : (type == npy_type::float32 ? 4 : 8);
}

/// An array as it lies in a file: `rows` rows of `columns` entries, one after another. A one-dimensional array is one
/// row.
struct npy_array {
    npy_type type = npy_type::float32;
    bool one_dimensional = false;
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::span<std::byte const> data;

    /// Writes one row as doubles, which is exact. `out` has `columns` places.
    void read(std::int64_t row, std::span<double> out) const;
};

/// The array in the bytes of a file, which must outlive it.
///
/// Format versions 1 to 3, little-endian float16, float32 and float64 in C order, shapes (V) and (rows, V), nothing
/// empty, and exactly as many bytes of data as the shape says. Anything else throws `std::runtime_error` with what is
/// wrong. Never reads outside `bytes`, whatever they are.
[[nodiscard]] npy_array parse_npy(std::span<std::byte const> bytes);

/// The numbers of an array of one dimension: signed or unsigned, of 8 to 64 bits, little-endian. Anything else throws
/// `std::runtime_error` with what is wrong, numbers above 2^63 - 1 too.
[[nodiscard]] std::vector<std::int64_t> parse_npy_integers(std::span<std::byte const> bytes);

/// The same from a file. Errors name it.
[[nodiscard]] std::vector<std::int64_t> read_npy_integers(std::filesystem::path const& path);

/// An array in a file, which stays mapped as long as this lives. Errors name the file.
class npy_file {
public:
    explicit npy_file(std::filesystem::path const& path);

    [[nodiscard]] npy_array const& array() const noexcept { return array_; }
    [[nodiscard]] std::string const& name() const noexcept { return name_; }

private:
    std::string name_;
    std::shared_ptr<void const> mapping_;
    npy_array array_;
};

}  // namespace multidraft::examples
