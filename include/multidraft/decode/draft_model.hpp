// A drafter's model: its vocabulary, its cache of the text, the depth of trees that it has positions for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/decode/features.hpp"
#include "multidraft/decode/language_model.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// A draft model of the caller's, and the operations on it that all drafters share (see `drafter`).
template <language_model Model>
class draft_model {
public:
    /// The model must outlive this object.
    explicit draft_model(Model& model) : model_(&model) {}

    /// The model.
    [[nodiscard]] Model& model() const noexcept { return *model_; }
    /// Entries of a row.
    [[nodiscard]] std::int32_t vocabulary() const noexcept { return model_->vocabulary(); }

    /// Throws `invalid_input` unless the model has the target's vocabulary.
    void check(std::int32_t target_vocabulary) const {
        if (vocabulary() != target_vocabulary)
            refuse(
                "draft.vocabulary", vocabulary(),
                "the draft model has another vocabulary than the target (" + std::to_string(target_vocabulary) + ")");
    }

    /// Whether it is the model at that address.
    [[nodiscard]] bool is(void const* model) const noexcept { return model_ == model; }

    void reset() { model_->keep(0, {}); }

    /// Reads a prompt if the model has the positions for it.
    void read(std::span<token_id const> context) {
        if (static_cast<std::int32_t>(context.size()) < model_->context_limit()) read(context, {});
    }
    /// Reads the part of a text that the model's cache lacks, and writes the last row of logits unless the span is
    /// empty.
    void read(std::span<token_id const> text, std::span<logit_of<Model>> logits) {
        catch_up(*model_, text, positions_, logits);
    }

    /// The target's features, for a model that reads them. What it computed at later positions without them it computes
    /// again: its `length()` is less afterwards.
    void observe(std::span<float const> features,
                 std::span<std::int32_t const> positions) requires observes_features<Model> {
        model_->observe(features, positions);
    }
    [[nodiscard]] std::int32_t feature_size() const requires observes_features<Model> { return model_->feature_size(); }

    /// The deepest tree that the model has positions for; the last level needs none.
    [[nodiscard]] std::int32_t depth_limit(std::int32_t length) const noexcept {
        return model_->context_limit() - length + 1;
    }

private:
    Model* model_;
    std::vector<std::int32_t> positions_;
};

}  // namespace MULTIDRAFT_NAMESPACE
