// A text in words, within which byte pairs are merged: by a regular expression over the properties of Unicode.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace multidraft::examples {

/// The ways that the example knows, by `tokenizer.ggml.pre`: `gpt-2`, and `smollm`, which first sets every digit apart.
/// Constant after construction, for any number of threads.
class word_splitter {
public:
    /// Throws `std::runtime_error` for another way, and where the build has no PCRE2.
    explicit word_splitter(std::string_view way);
    ~word_splitter();
    word_splitter(word_splitter const&) = delete;
    word_splitter& operator=(word_splitter const&) = delete;

    /// The words of a text, which they make up. Bytes that are no UTF-8 are words of their own, neighbours together.
    [[nodiscard]] std::vector<std::string_view> split(std::string_view text) const;

private:
    struct rules;
    std::unique_ptr<rules const> rules_;
};

}  // namespace multidraft::examples
