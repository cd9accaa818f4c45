#include "transformer/eagle_head.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "multidraft/base/error.hpp"
#include "transformer/attended.hpp"
#include "transformer/call_checks.hpp"
#include "transformer/eagle_layer.hpp"
#include "transformer/kernels.hpp"

namespace multidraft::examples {
namespace {

std::size_t size(std::int64_t n) noexcept { return static_cast<std::size_t>(n); }

}  // namespace

eagle_head_weights::eagle_head_weights(std::filesystem::path const& directory,
                                       std::shared_ptr<transformer_weights const> target,
                                       transformer_options const& options) {
    auto const& of_target = *target->implementation_;
    if (of_target.device || options.accelerator)
        throw std::runtime_error(directory.string() + ": a head of EAGLE-3 and its target run on the CPU only");
    implementation_ = std::make_unique<implementation const>(directory, std::move(target), of_target, options);
}
eagle_head_weights::~eagle_head_weights() = default;

eagle_head_config const& eagle_head_weights::config() const noexcept { return implementation_->config; }
std::span<std::int32_t const> eagle_head_weights::target_layers() const noexcept {
    return implementation_->target_layers;
}
std::int64_t eagle_head_weights::parameters() const noexcept { return implementation_->parameters; }
std::size_t eagle_head_weights::bytes_per_step() const noexcept { return implementation_->bytes_per_step; }

struct eagle_head_model::implementation {
    explicit implementation(std::shared_ptr<eagle_head_weights const> weights)
        : shared(std::move(weights)), layer(*shared->implementation_), text(layer.w), attended(block_rows) {}

    /// Throws for a position that is not the length of the path that the token attends to.
    void check_positions(token_batch const& batch) const {
        for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
            std::int32_t before = -1;
            for (kernels::run const& r : attended.of(i)) before += r.count;
            if (batch.positions[i] != before)
                refuse(
                    "positions", static_cast<std::int64_t>(i), batch.positions[i],
                    "the token attends to " + std::to_string(before) + " before it, whose last one's state it reads");
        }
    }

    void forward(token_batch const& batch, std::span<float> logits) {
        auto const& w = layer.w;
        check_batch({w.sizes.vocabulary, w.context_limit, w.capacity}, batch, logits.size(), length);
        auto const n = static_cast<std::int32_t>(batch.tokens.size());
        attended.list(batch, 0, n, length + n);
        check_positions(batch);
        std::int32_t const unwanted = n - static_cast<std::int32_t>(logits.size() / size(w.sizes.vocabulary));
        rows.clear();
        for (std::int32_t i = 0; i < n; ++i) {
            std::int32_t const position = batch.positions[size(i)];
            std::int32_t const parent = position <= text.observed ? none : parent_entry(batch, i, length);
            rows.push_back({&text, batch.tokens[size(i)], position, length + i, parent, i >= unwanted});
        }
        layer.forward(rows, attended, logits.data());
        length += n;
    }

    std::shared_ptr<eagle_head_weights const> shared;
    eagle_layer layer;
    eagle_text text;
    std::int32_t length = 0;
    attended_entries attended;
    std::vector<eagle_layer::row> rows;
};

eagle_head_model::eagle_head_model(std::shared_ptr<eagle_head_weights const> weights)
    : implementation_(std::make_unique<implementation>(std::move(weights))) {}
eagle_head_model::~eagle_head_model() = default;
eagle_head_model::eagle_head_model(eagle_head_model&&) noexcept = default;
eagle_head_model& eagle_head_model::operator=(eagle_head_model&&) noexcept = default;

std::int32_t eagle_head_model::vocabulary() const noexcept { return implementation_->layer.w.sizes.vocabulary; }
std::int32_t eagle_head_model::context_limit() const noexcept { return implementation_->layer.w.context_limit; }
std::int32_t eagle_head_model::length() const noexcept { return implementation_->length; }
std::int32_t eagle_head_model::feature_size() const noexcept { return implementation_->layer.w.feature_size(); }
std::shared_ptr<eagle_head_weights const> const& eagle_head_model::weights() const noexcept {
    return implementation_->shared;
}

void eagle_head_model::observe(std::span<float const> features, std::span<std::int32_t const> positions) {
    auto& my = *implementation_;
    std::size_t const width = size(feature_size());
    if (features.size() != positions.size() * width)
        refuse("features.size", features.size(),
               "there are " + std::to_string(width) + " numbers for each of " + std::to_string(positions.size()) +
                   " positions");
    for (std::size_t i = 0; i < positions.size(); ++i) {
        auto const at = static_cast<std::int64_t>(i);
        if (positions[i] != my.text.observed + at)
            refuse("positions", at, positions[i],
                   "the next position of the text is " + std::to_string(my.text.observed + at));
    }
    if (positions.empty()) return;
    my.length = std::min(my.length, my.text.observed + 1);
    my.layer.observe(my.text, features);
}

void eagle_head_model::forward(token_batch const& batch, std::span<float> logits) {
    implementation_->forward(batch, logits);
}

void eagle_head_model::keep(std::int32_t context, std::span<std::int32_t const> entries) {
    auto& my = *implementation_;
    check_kept(context, entries, my.length);
    for (std::size_t k = 0; k < entries.size(); ++k)
        my.text.move(context + entries[k], context + static_cast<std::int32_t>(k));
    std::int32_t const length = context + static_cast<std::int32_t>(entries.size());
    if (length < my.length || length == 0) my.layer.cut(my.text, length);
    my.length = length;
}

}  // namespace multidraft::examples
