#include "transformer/drafter_candidates.hpp"

#include <string>

#include "multidraft/base/error.hpp"
#include "transformer/block_drafter.hpp"
#include "transformer/block_layers.hpp"

namespace multidraft::examples {
namespace {

std::size_t size(std::int64_t n) noexcept { return static_cast<std::size_t>(n); }

}  // namespace

drafter_candidates::drafter_candidates(block_drafter_weights const& weights, std::int32_t count)
    : weights_(&weights), count_(count) {
    auto const& w = *weights.implementation_;
    if (count < 1 || count > w.config.draft_vocabulary)
        refuse("candidates", count, "the drafter has " + std::to_string(w.config.draft_vocabulary) + " tokens");
}

void drafter_candidates::choose(std::span<float const> rows, std::span<token_id> tokens, std::span<float> logits) {
    auto const& w = *weights_->implementation_;
    std::size_t const width = size(w.config.draft_vocabulary);
    std::size_t at = 0;
    for (std::size_t r = 0; r < rows.size() / width; ++r) {
        auto const row = rows.subspan(r * width, width);
        auto const found = largest_.find(row, size(count_));
        if (found.not_a_number >= 0)
            refuse("rows", static_cast<std::int64_t>(r), w.vocabulary.token(found.not_a_number),
                   "the logit of this token is not a number: the drafter's file is damaged");
        for (std::int32_t const k : found.places) {
            tokens[at] = w.vocabulary.token(k);
            logits[at++] = row[size(k)];
        }
    }
}

}  // namespace multidraft::examples
