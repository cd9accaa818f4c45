// Weights from `.safetensors` files, mapped into memory and checked before anything is read from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace multidraft::examples {

/// How a tensor's numbers are stored.
enum class tensor_type { f32, f16, bf16 };

/// The bytes of one number.
[[nodiscard]] constexpr std::size_t size_of(tensor_type type) noexcept { return type == tensor_type::f32 ? 4 : 2; }

/// One tensor inside a mapped file; valid while its `tensor_store` lives.
struct tensor_view {
    tensor_type type = tensor_type::f32;
    std::vector<std::int64_t> shape;
    std::span<std::byte const> bytes;  ///< row-major, little-endian, of any alignment

    /// Numbers `first .. first + out.size()` of the tensor, as floats. Exact.
    void read(std::size_t first, std::span<float> out) const;
};

/// The tensors of a model directory: of `model.safetensors`, or of the shards that `model.safetensors.index.json`
/// lists. The files stay mapped while a `tensor_store` of them lives and must not be changed. Errors are
/// `std::runtime_error` and name the file, the tensor and the value.
class tensor_store {
public:
    /// Opens the directory's weights.
    [[nodiscard]] static tensor_store open(std::filesystem::path const& directory);

    /// The tensor of that name, which must have the given shape.
    [[nodiscard]] tensor_view const& get(std::string const& name, std::vector<std::int64_t> const& shape) const;

    /// Loads all tensors into memory, and reports from time to time how many bytes are loaded; on a slow disk this
    /// takes a while. Throws when the file cannot be read to its end.
    void load(std::function<void(std::size_t)> const& told) const;

    /// The bytes of all tensors' files.
    [[nodiscard]] std::size_t bytes() const noexcept;

    /// Throws where there is a tensor of another name: for models of which all tensors are read.
    void expect_only(std::set<std::string> const& names) const;

    [[nodiscard]] bool contains(std::string const& name) const { return tensors_.contains(name); }
    [[nodiscard]] std::size_t size() const noexcept { return tensors_.size(); }

private:
    struct mapped_file;
    struct entry {
        tensor_view view;
        std::shared_ptr<mapped_file const> file;
    };

    /// Adds a file's tensors.
    void add(std::filesystem::path const& file);

    std::string directory_;
    std::map<std::string, entry> tensors_;
    std::vector<std::shared_ptr<mapped_file const>> files_;
};

}  // namespace multidraft::examples
