// Support for the tests of the example transformer: shipped models, trees, calls.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "multidraft/base/abi.hpp"
#include "transformer/transformer.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

using examples::cache_precision;
using examples::multiplier;
using examples::precision;
using examples::transformer;
using examples::transformer_options;
using examples::transformer_weights;

inline std::filesystem::path const models = MULTIDRAFT_MODELS_DIR;

inline transformer_options options_for(precision numbers, int threads = 1, multiplier by = multiplier::automatic) {
    transformer_options options;
    options.threads = threads;
    options.numbers = numbers;
    options.by = by;
    return options;
}

/// Loaded once for all tests.
inline std::shared_ptr<transformer_weights const> weights_of(std::string const& model, precision numbers,
                                                             multiplier by = multiplier::automatic,
                                                             cache_precision cache = cache_precision::automatic) {
    static std::map<std::tuple<std::string, precision, multiplier, cache_precision>,
                    std::shared_ptr<transformer_weights const>>
        loaded;
    auto& entry = loaded[{model, numbers, by, cache}];
    if (entry) return entry;
    transformer_options options = options_for(numbers, 1, by);
    options.cache = cache;
    return entry = std::make_shared<transformer_weights const>(models / model, options);
}

/// Calls f and returns the message of the exception, which must be of type E.
template <class E, class F>
std::string message_of(F const& f) {
    try {
        f();
    } catch (E const& e) {
        return e.what();
    } catch (std::exception const& e) {
        ADD_FAILURE() << "another exception: " << e.what();
        return {};
    }
    ADD_FAILURE() << "no exception";
    return {};
}

#define EXPECT_MESSAGE(message, part) EXPECT_NE((message).find(part), std::string::npos) << (message)

/// A tree or forest after the context: parents before children, -1 for the context's last token.
struct forest {
    std::vector<std::int32_t> parents;
    std::vector<token_id> tokens;
    std::vector<std::int32_t> positions;
    std::vector<std::uint64_t> mask;
    std::int64_t row_words = 0;

    forest(std::vector<std::int32_t> p, std::vector<token_id> t, std::int32_t context)
        : parents(std::move(p)), tokens(std::move(t)) {
        row_words = static_cast<std::int64_t>(parents.size() + 63) / 64 + 1;  // a word more than needed
        auto const width = static_cast<std::size_t>(row_words);
        mask.resize(parents.size() * width);
        for (std::size_t i = 0; i < parents.size(); ++i) {
            positions.push_back(context);
            if (parents[i] >= 0) {
                auto const parent = static_cast<std::size_t>(parents[i]);
                positions[i] = positions[parent] + 1;
                std::copy_n(mask.begin() + static_cast<std::ptrdiff_t>(parent * width), width,
                            mask.begin() + static_cast<std::ptrdiff_t>(i * width));
            }
            mask[i * width + i / 64] |= std::uint64_t{1} << (i % 64);
        }
    }

    [[nodiscard]] mask_view view() const { return {mask.data(), row_words}; }
    [[nodiscard]] std::vector<std::int32_t> path(std::size_t node) const {
        std::vector<std::int32_t> nodes;
        for (auto i = static_cast<std::int32_t>(node); i >= 0; i = parents[static_cast<std::size_t>(i)]) {
            nodes.push_back(i);
        }
        std::ranges::reverse(nodes);
        return nodes;
    }
};

inline std::vector<std::int32_t> positions_from(std::int32_t first, std::size_t count) {
    std::vector<std::int32_t> positions(count);
    std::iota(positions.begin(), positions.end(), first);
    return positions;
}

/// Forwards a chain at the end of the cache and returns the last `rows` rows.
inline std::vector<float> forward_chain(transformer& model, std::span<token_id const> tokens, std::size_t rows) {
    std::vector<float> logits(rows * static_cast<std::size_t>(model.vocabulary()));
    auto const positions = positions_from(model.length(), tokens.size());
    model.forward({tokens, positions, model.length(), {}}, logits);
    return logits;
}

inline std::vector<float> forward_forest(transformer& model, forest const& f, std::int32_t context) {
    std::vector<float> logits(f.tokens.size() * static_cast<std::size_t>(model.vocabulary()));
    model.forward({f.tokens, f.positions, context, f.view()}, logits);
    return logits;
}

inline bool same_bits(std::span<float const> a, std::span<float const> b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

inline std::vector<token_id> some_tokens(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<token_id> tokens(count);
    for (token_id& token : tokens) token = static_cast<token_id>(3 + random() % 4090);
    return tokens;
}

/// Node i is a child of one of the few before it, or of the context.
inline std::vector<std::int32_t> some_parents(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::int32_t> parents(count);
    for (std::size_t i = 0; i < count; ++i) {
        auto const back = static_cast<std::int32_t>(1 + random() % 5);
        parents[i] = std::max(-1, static_cast<std::int32_t>(i) - back);
    }
    return parents;
}

}  // namespace MULTIDRAFT_NAMESPACE::testing
