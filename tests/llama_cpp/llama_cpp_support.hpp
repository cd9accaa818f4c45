// The tests' models, texts and trees for them, and how much their logits may differ from one batch to another.
#pragma once

#include <gtest/gtest.h>
#include <llama.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "llama_cpp/decoder.hpp"
#include "multidraft/tree/mask.hpp"
#include "multidraft/tree/topology.hpp"

namespace multidraft::examples {

/// A file that make_models.py made, or `NAME-q4_k`, quantised from NAME-f32 by llama.cpp itself on first use.
inline std::string model_file(std::string const& name) {
    std::string const directory = std::string(MULTIDRAFT_LLAMA_MODELS) + "/";
    std::string const file = directory + name + ".gguf";
    if (!name.ends_with("-q4_k") || std::filesystem::exists(file)) return file;
    llama_model_quantize_params params = llama_model_quantize_default_params();
    params.ftype = LLAMA_FTYPE_MOSTLY_Q4_K_M;
    params.nthread = 1;
    std::string const source = directory + name.substr(0, name.size() - 4) + "f32.gguf";
    std::string const part = file + "." + std::to_string(getpid());  // of this process: others may do the same
    if (llama_model_quantize(source.c_str(), part.c_str(), &params) != 0)
        throw std::runtime_error(source + ": llama.cpp cannot quantise it");
    std::filesystem::rename(part, file);
    return file;
}

/// The largest difference between a logit in one batch and in another. Of float matrices it is rounding; inputs of
/// others are rounded to their kind of number, and products of few rows are other instructions than those of many.
inline double noise_of(std::string_view model) {
    if (model.ends_with("f32")) return 1e-4;
    return model.ends_with("bf16") ? 0.3 : 0.5;
}

inline constexpr double rounding = 1e-4;  // of float matrices and caches, with logits up to 30

inline decoder_options small_options() {
    decoder_options options;
    options.context = 300;
    options.tree_nodes = 60;
    options.sequences = 32;
    options.cache_type = GGML_TYPE_F32;
    options.flash_attention = 0;
    return options;
}

inline std::vector<std::int32_t> positions_from(std::int32_t first, std::size_t count) {
    std::vector<std::int32_t> positions(count);
    std::iota(positions.begin(), positions.end(), first);
    return positions;
}

inline std::vector<float> read(llama_decoder& model, std::span<token_id const> text, std::int32_t row_count) {
    auto const known = model.length();
    auto const positions = positions_from(known, text.size());
    std::vector<float> logits(static_cast<std::size_t>(row_count) * static_cast<std::size_t>(model.vocabulary()));
    model.forward({text, positions, known, {}}, logits);
    return logits;
}

/// Logits after the text, from an empty cache.
inline std::vector<float> alone(llama_decoder& model, std::vector<token_id> const& text) {
    model.keep(0, {});
    return read(model, text, 1);
}

inline double largest_difference(std::span<float const> a, std::span<float const> b) {
    EXPECT_EQ(a.size(), b.size());
    double largest = 0;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
        largest = std::max(largest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    return largest;
}

/// A tree of some shape with random tokens, below the last token of a text.
struct tree {
    tree(topology const& shape_of_tree, std::vector<token_id> const& text, std::int32_t vocabulary, unsigned seed)
        : shape(shape_of_tree), mask(shape_of_tree.parents()) {
        std::mt19937 random(seed);
        std::uniform_int_distribution<token_id> any(3, vocabulary - 1);
        for (node_id v = 0; v < shape.size(); ++v) {
            tokens.push_back(v == 0 ? text.back() : any(random));
            positions.push_back(static_cast<std::int32_t>(text.size()) - 1 + shape.depth(v));
        }
    }
    /// The text with the path to a node.
    [[nodiscard]] std::vector<token_id> with_path(std::vector<token_id> text, node_id v) const {
        std::vector<token_id> path;
        for (; v > 0; v = shape.parent(v)) path.push_back(tokens[static_cast<std::size_t>(v)]);
        text.insert(text.end(), path.rbegin(), path.rend());
        return text;
    }
    topology shape;
    ancestor_mask mask;
    std::vector<token_id> tokens;
    std::vector<std::int32_t> positions;
};

inline std::vector<token_id> some_text(std::int32_t vocabulary, std::size_t size, unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_int_distribution<token_id> any(3, vocabulary - 1);
    std::vector<token_id> text{1};
    while (text.size() < size) text.push_back(any(random));
    return text;
}

}  // namespace multidraft::examples
