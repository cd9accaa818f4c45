// Weights from `.safetensors` files or a GGUF file, mapped into memory and checked before anything is read from them.
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

#include "transformer/mapped_file.hpp"
#include "transformer/tensor_view.hpp"

namespace multidraft::examples {

class gguf_file;

/// The tensors of a model: of a directory's `model.safetensors`, or of the shards that `model.safetensors.index.json`
/// lists, or of a GGUF file, by the names that they have in the others. The files stay mapped while a `tensor_store` of
/// them lives and must not be changed. Numbers are F32, F16 or BF16, integers I64, I32 or BOOL. Errors are
/// `std::runtime_error` and name the file, the tensor and the value.
class tensor_store {
public:
    /// Opens the directory's weights, or a GGUF file.
    [[nodiscard]] static tensor_store open(std::filesystem::path const& directory);
    /// Those of an open file.
    [[nodiscard]] static tensor_store of(gguf_file const& file);

    /// The tensor of that name, which must have the given shape.
    [[nodiscard]] tensor_view const& get(std::string const& name, std::vector<std::int64_t> const& shape) const;

    /// Loads all tensors into memory, and reports from time to time how many bytes are loaded; on a slow disk this
    /// takes a while. Throws when the file cannot be read to its end.
    void load(std::function<void(std::size_t)> const& told) const;

    /// The bytes of all tensors' files.
    [[nodiscard]] std::size_t bytes() const noexcept;

    /// The integers of the tensor of that name and number, I64, I32 or BOOL (0 and 1).
    [[nodiscard]] std::vector<std::int64_t> get_integers(std::string const& name, std::int64_t count) const;

    /// Throws where there is a tensor of another name: for models of which all tensors are read.
    void expect_only(std::set<std::string> const& names) const;

    [[nodiscard]] bool contains(std::string const& name) const {
        return tensors_.contains(name) || integers_.contains(name);
    }
    [[nodiscard]] std::size_t size() const noexcept { return tensors_.size(); }
    /// Whether numbers of any tensor share scales.
    [[nodiscard]] bool in_blocks() const noexcept;

private:
    struct entry {
        tensor_view view;
        std::shared_ptr<mapped_file const> file;
    };

    /// A tensor of integers.
    struct integers {
        std::vector<std::int64_t> shape;
        std::span<std::byte const> bytes;
        std::size_t size;  ///< bytes of one: 8 or 4, or 1 of a truth value
        std::shared_ptr<mapped_file const> file;
    };

    /// Adds a file's tensors.
    void add(std::filesystem::path const& file);
    [[noreturn]] void refuse_tensor(std::string const& name, std::string const& what) const;

    std::string directory_;  ///< or the GGUF file
    bool is_gguf_ = false;
    std::map<std::string, entry> tensors_;
    std::map<std::string, integers> integers_;
    std::vector<std::shared_ptr<mapped_file const>> files_;
};

}  // namespace multidraft::examples
