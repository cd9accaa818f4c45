// GGUF files, versions 2 and 3, mapped into memory and checked before anything is read from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transformer/config.hpp"
#include "transformer/mapped_file.hpp"
#include "transformer/tensor_view.hpp"

namespace multidraft::examples {

/// The metadata and the tensors of a file. Errors are `std::runtime_error` and name the file, the key or the tensor,
/// and what is wrong with it.
class gguf_file {
public:
    /// Whether a file begins as one.
    [[nodiscard]] static bool is_one(std::filesystem::path const& file);

    /// Opens the file; walks through all metadata and checks every size and offset, without reading the tensors.
    explicit gguf_file(std::filesystem::path const& file);

    [[nodiscard]] std::string const& name() const noexcept { return file_->name; }
    [[nodiscard]] std::shared_ptr<mapped_file const> const& file() const noexcept { return file_; }
    [[nodiscard]] std::map<std::string, tensor_view> const& tensors() const noexcept { return tensors_; }

    // Metadata by key: empty where the key is absent. They throw for a value of another type. Texts stay in the file.

    [[nodiscard]] std::optional<std::string_view> text(std::string const& key) const;
    [[nodiscard]] std::optional<std::int64_t> integer(std::string const& key) const;
    [[nodiscard]] std::optional<float> number(std::string const& key) const;
    [[nodiscard]] std::optional<bool> flag(std::string const& key) const;
    [[nodiscard]] std::optional<std::vector<std::string_view>> texts(std::string const& key) const;
    [[nodiscard]] std::optional<std::vector<std::int64_t>> integers(std::string const& key) const;

    /// Throws: the file, the key, its value if that is one number or text, and the reason.
    [[noreturn]] void refuse(std::string const& key, std::string const& reason) const;

private:
    class reader;
    /// A value: `type` is that of the elements for a list.
    struct value {
        std::uint32_t type;
        bool list;
        std::uint64_t count;
        std::size_t at;  ///< of the first element
    };

    [[nodiscard]] value const* find(std::string const& key) const;
    [[nodiscard]] std::int64_t integer_at(std::string const& key, std::uint32_t type, std::size_t at) const;
    [[nodiscard]] std::string_view text_at(std::size_t at) const;
    void add_tensors(reader& from, std::uint64_t count);

    std::shared_ptr<mapped_file const> file_;
    std::map<std::string, value> metadata_;
    std::map<std::string, tensor_view> tensors_;
};

/// The numbers that describe the model. Throws for one that is not of the plain Llama layout, naming what it has
/// beyond.
[[nodiscard]] model_config read_config(gguf_file const& file);

/// Those of a model: of a GGUF file, or of the `config.json` in a directory.
[[nodiscard]] model_config config_of_model(std::filesystem::path const& model);

/// The name that a tensor of the Llama layout has in Hugging Face's files; empty for another one.
[[nodiscard]] std::optional<std::string> llama_name(std::string const& gguf_name);

/// The reverse.
[[nodiscard]] std::string gguf_name(std::string const& llama_name);

}  // namespace multidraft::examples
