#include "transformer/batched_block_drafter.hpp"

#include <cstddef>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "multidraft/base/error.hpp"
#include "multidraft/decode/batched_language_model.hpp"
#include "transformer/aligned_array.hpp"
#include "transformer/block_layers.hpp"

namespace multidraft::examples {
namespace {

std::size_t at(std::int64_t i) noexcept { return static_cast<std::size_t>(i); }

}  // namespace

struct batched_block_drafter::implementation {
    implementation(std::shared_ptr<block_drafter_weights const> weights,
                   block_drafter_weights::implementation const& of, std::int32_t sequences)
        : shared(std::move(weights)), w(of), layers(of) {
        for (std::int32_t s = 0; s < sequences; ++s) texts.emplace_back(w);
    }

    [[nodiscard]] block_text& text(std::int32_t sequence) {
        if (sequence < 0 || at(sequence) >= texts.size())
            refuse("sequence", sequence, "there are " + std::to_string(texts.size()));
        return texts[at(sequence)];
    }

    /// Refuses a call whose arguments do not fit together, takes in what is pending of its texts, and returns how many
    /// rows it has; `width`: of a row.
    std::size_t read_anchors(std::span<std::int32_t const> sequences, std::span<token_id const> tokens,
                             std::int32_t depths, std::size_t logits, std::int32_t width) {
        if (tokens.size() != sequences.size()) refuse("tokens.size", tokens.size(), "a token for each sequence");
        if (depths < 1 || depths > w.config.block_size())
            refuse("depths", depths, "a block has " + std::to_string(w.config.block_size()) + " rows");
        std::size_t const rows = sequences.size() * at(depths);
        if (logits != rows * at(width))
            refuse("logits.size", logits, std::to_string(rows) + " rows of " + std::to_string(width));
        std::int32_t const vocabulary = w.sizes.vocabulary;
        anchors.clear();
        read.clear();
        for (std::size_t k = 0; k < sequences.size(); ++k) {
            block_text& its = text(sequences[k]);
            auto const number = static_cast<std::int32_t>(k);
            if (tokens[k] < 0 || tokens[k] >= vocabulary)
                throw failed_request(number, "token " + std::to_string(tokens[k]) + " is not in [0, " +
                                                 std::to_string(vocabulary) + ")");
            if (its.observed >= w.context_limit)
                throw failed_request(
                    number, "the text is beyond the context of " + std::to_string(w.context_limit) + " tokens");
            anchors.push_back({&its, tokens[k]});
            read.push_back(&its);
        }
        layers.take_in(read);
        return rows;
    }

    /// Memory for so many rows over the drafter's tokens.
    float* room(std::size_t rows) {
        own.resize(rows * at(w.config.draft_vocabulary));
        return own.data();
    }

    std::shared_ptr<block_drafter_weights const> shared;
    block_drafter_weights::implementation const& w;
    std::deque<block_text> texts;
    block_layers layers;
    std::vector<block_text*> read;
    std::vector<block_layers::anchor> anchors;
    std::vector<float> own;  ///< rows over the drafter's tokens
};

batched_block_drafter::batched_block_drafter(std::shared_ptr<block_drafter_weights const> weights,
                                             std::int32_t sequences) {
    if (sequences < 1) refuse("sequences", sequences, "there is 1 sequence or more");
    auto const& of = *weights->implementation_;
    implementation_ = std::make_unique<implementation>(std::move(weights), of, sequences);
}
batched_block_drafter::~batched_block_drafter() = default;
batched_block_drafter::batched_block_drafter(batched_block_drafter&&) noexcept = default;
batched_block_drafter& batched_block_drafter::operator=(batched_block_drafter&&) noexcept = default;

std::int32_t batched_block_drafter::vocabulary() const noexcept { return implementation_->w.sizes.vocabulary; }
std::int32_t batched_block_drafter::context_limit() const noexcept { return implementation_->w.context_limit; }
std::int32_t batched_block_drafter::block_size() const noexcept { return implementation_->w.config.block_size(); }
std::int32_t batched_block_drafter::feature_size() const noexcept { return implementation_->w.feature_size(); }
std::int32_t batched_block_drafter::sequences() const noexcept {
    return static_cast<std::int32_t>(implementation_->texts.size());
}

void batched_block_drafter::start(std::int32_t sequence) {
    block_text& its = implementation_->text(sequence);
    its.observed = its.length = 0;
    its.pending.clear();
}

void batched_block_drafter::observe(std::int32_t sequence, std::span<float const> features, std::int32_t first) {
    block_text& its = implementation_->text(sequence);
    if (features.size() % at(feature_size()) != 0)
        refuse("features.size", features.size(),
               "there are " + std::to_string(feature_size()) + " numbers for each position");
    if (first != its.observed)
        refuse("first", first, "the next position of the text is " + std::to_string(its.observed));
    implementation_->layers.observe(its, features);
}

void batched_block_drafter::rows(std::span<std::int32_t const> sequences, std::span<token_id const> tokens,
                                 std::int32_t depths, std::span<float> logits) {
    auto& my = *implementation_;
    std::size_t const rows = my.read_anchors(sequences, tokens, depths, logits.size(), vocabulary());
    bool const whole = my.w.vocabulary.is_whole();
    if (whole) {
        my.layers.blocks(my.anchors, depths, logits.data());
    } else {
        my.layers.blocks(my.anchors, depths, my.room(rows));
        my.w.vocabulary.spread(my.own.data(), static_cast<std::int32_t>(rows), logits.data());
    }
}

void batched_block_drafter::add_parent_terms(std::span<std::int32_t const> depths, std::span<token_id const> tokens,
                                             std::span<float> logits) {
    if (depths.size() != tokens.size()) refuse("depths.size", depths.size(), "a depth for each token");
    if (logits.size() != tokens.size() * at(vocabulary()))
        refuse("logits.size", logits.size(), "there is a row for each token");
    for (std::size_t k = 0; k < tokens.size(); ++k)
        if (tokens[k] < 0 || tokens[k] >= vocabulary())
            refuse("tokens", static_cast<std::int64_t>(k), tokens[k],
                   "must be in [0, " + std::to_string(vocabulary()) + ")");
    implementation_->layers.add_parent_terms(tokens, logits.data());
}

batched_short_block_drafter::batched_short_block_drafter(batched_block_drafter& model, std::int32_t candidates)
    : model_(&model), candidates_(*model.implementation_->shared, candidates) {}

void batched_short_block_drafter::rows(std::span<std::int32_t const> sequences, std::span<token_id const> tokens,
                                       std::int32_t depths, std::span<token_id> candidates, std::span<float> logits) {
    auto& my = *model_->implementation_;
    if (candidates.size() != logits.size())
        refuse("candidates.size", candidates.size(), "there is a token for each logit");
    std::size_t const rows = my.read_anchors(sequences, tokens, depths, logits.size(), candidates_.count());
    my.layers.blocks(my.anchors, depths, my.room(rows));
    candidates_.choose(my.own, candidates, logits);
}

void batched_short_block_drafter::add_parent_terms(std::span<std::int32_t const> depths,
                                                   std::span<token_id const> tokens,
                                                   std::span<token_id const> candidates, std::span<float> logits) {
    if (depths.size() != tokens.size()) refuse("depths.size", depths.size(), "a depth for each token");
    std::size_t const width = at(candidates_.count());
    if (logits.size() != tokens.size() * width) refuse("logits.size", logits.size(), "there is a row for each token");
    if (candidates.size() != logits.size())
        refuse("candidates.size", candidates.size(), "there is a token for each logit");
    for (std::size_t k = 0; k < tokens.size(); ++k)
        candidates_.add_parent_term(tokens[k], candidates.subspan(k * width, width), logits.subspan(k * width, width));
}

}  // namespace multidraft::examples
