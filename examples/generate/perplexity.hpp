// Perplexity of a text under a model, by one forward call.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/language_model.hpp"

namespace multidraft::examples {

/// -log p of `emitted` as a continuation of `prompt`, in nats, by the model's own distribution (temperature 1, no
/// sampling parameters). The model's cache is reset. exp of it divided by the number of tokens is the perplexity.
template <language_model Model>
[[nodiscard]] double negative_log_likelihood(Model& model, std::span<token_id const> prompt,
                                             std::span<token_id const> emitted) {
    if (emitted.empty()) return 0;
    std::vector<token_id> text(prompt.begin(), prompt.end());
    text.insert(text.end(), emitted.begin(), emitted.end() - 1);  // the last token is only looked up
    std::vector<std::int32_t> positions(text.size());
    std::iota(positions.begin(), positions.end(), 0);
    auto const vocabulary = static_cast<std::size_t>(model.vocabulary());
    std::vector<logit_of<Model>> logits(emitted.size() * vocabulary);
    model.keep(0, {});
    model.forward(token_batch{text, positions, 0, {}}, logits);
    double sum = 0;
    for (std::size_t i = 0; i < emitted.size(); ++i) {
        auto const row = std::span<logit_of<Model> const>(logits).subspan(i * vocabulary, vocabulary);
        double const top = static_cast<double>(*std::max_element(row.begin(), row.end()));
        double mass = 0;
        for (auto const x : row) mass += std::exp(static_cast<double>(x) - top);
        sum += top + std::log(mass) - static_cast<double>(row[static_cast<std::size_t>(emitted[i])]);
    }
    return sum;
}

}  // namespace multidraft::examples
