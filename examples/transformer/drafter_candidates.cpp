#include "transformer/drafter_candidates.hpp"

#include <algorithm>
#include <string>

#include "multidraft/base/error.hpp"
#include "transformer/block_drafter.hpp"
#include "transformer/block_layers.hpp"
#include "transformer/kernels.hpp"

namespace multidraft::examples {
namespace {

std::size_t size(std::int64_t n) noexcept { return static_cast<std::size_t>(n); }

/// The sum of the products of n numbers, a multiple of `kernels::lanes`.
float product_of(float const* a, float const* b, std::size_t n) noexcept {
    constexpr auto lanes = static_cast<std::size_t>(kernels::lanes);
    float sums[lanes] = {};
    for (std::size_t i = 0; i < n; i += lanes)
        for (std::size_t l = 0; l < lanes; ++l) sums[l] += a[i + l] * b[i + l];
    for (std::size_t half = lanes / 2; half > 0; half /= 2)
        for (std::size_t l = 0; l < half; ++l) sums[l] += sums[l + half];
    return sums[0];
}

}  // namespace

drafter_candidates::drafter_candidates(block_drafter_weights const& weights, std::int32_t count)
    : weights_(&weights), count_(count) {
    auto const& w = *weights.implementation_;
    if (count < 1 || count > w.config.draft_vocabulary)
        refuse("candidates", count, "the drafter has " + std::to_string(w.config.draft_vocabulary) + " tokens");
    if (w.of_parent == nullptr) return;
    std::size_t const rank = size(w.config.markov_rank);
    rank_ = size(kernels::round_up(w.config.markov_rank, kernels::lanes));
    parent_ = aligned_array<float>(rank_);
    entries_ = aligned_array<float>::unset(size(w.config.draft_vocabulary) * rank_);
    std::fill_n(entries_.data(), entries_.size(), 0.0F);
    for (std::size_t k = 0; k < size(w.config.draft_vocabulary); ++k)
        w.entries_of_parent->read(k * rank, {entries_.data() + k * rank_, rank});
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

void drafter_candidates::add_parent_term(token_id parent, std::span<token_id const> tokens, std::span<float> logits) {
    auto const& w = *weights_->implementation_;
    if (w.of_parent == nullptr) return;
    if (parent < 0 || parent >= w.sizes.vocabulary)
        refuse("token", parent, "must be in [0, " + std::to_string(w.sizes.vocabulary) + ")");
    std::int32_t const number = w.vocabulary.number_of(parent);
    if (number == none) return;
    std::size_t const rank = size(w.config.markov_rank);
    w.of_parent->read(size(number) * rank, {parent_.data(), rank});
    for (std::size_t k = 0; k < tokens.size(); ++k)
        logits[k] +=
            product_of(parent_.data(), entries_.data() + size(w.vocabulary.number_of(tokens[k])) * rank_, rank_);
}

}  // namespace multidraft::examples
