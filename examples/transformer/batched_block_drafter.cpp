#include "transformer/batched_block_drafter.hpp"

#include <algorithm>
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

    /// How many rows a call has. Refuses one whose arguments do not fit together.
    [[nodiscard]] std::size_t rows_of(std::span<std::int32_t const> sequences, std::span<token_id const> tokens,
                                      std::int32_t depths) const {
        if (tokens.size() != sequences.size()) refuse("tokens.size", tokens.size(), "a token for each sequence");
        if (depths < 1 || depths > w.config.block_size())
            refuse("depths", depths, "a block has " + std::to_string(w.config.block_size()) + " rows");
        return sequences.size() * at(depths);
    }

    /// The same, and takes in what is pending of its texts.
    std::size_t read_anchors(std::span<std::int32_t const> sequences, std::span<token_id const> tokens,
                             std::int32_t depths) {
        std::size_t const rows = rows_of(sequences, tokens, depths);
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
    std::size_t const rows = my.rows_of(sequences, tokens, depths);
    if (logits.size() != rows * at(vocabulary()))
        refuse("logits.size", logits.size(), std::to_string(rows) + " rows of " + std::to_string(vocabulary()));
    my.read_anchors(sequences, tokens, depths);
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

void batched_short_block_drafter::read(std::span<std::int32_t const> sequences, std::span<token_id const> tokens,
                                       std::int32_t depths) {
    auto& my = *model_->implementation_;
    std::size_t const rows = my.read_anchors(sequences, tokens, depths);
    my.layers.blocks(my.anchors, depths, my.room(rows));
    blocks_ = static_cast<std::int32_t>(sequences.size());
    depths_ = depths;
}

void batched_short_block_drafter::candidates_after(std::span<std::int32_t const> blocks,
                                                   std::span<std::int32_t const> depths,
                                                   std::span<token_id const> tokens, std::span<token_id> candidates,
                                                   std::span<float> logits) {
    auto& my = *model_->implementation_;
    if (blocks.size() != tokens.size()) refuse("blocks.size", blocks.size(), "a sequence of the call for each token");
    if (depths.size() != tokens.size()) refuse("depths.size", depths.size(), "a depth for each token");
    if (candidates.size() != tokens.size() * at(candidates_.count()))
        refuse("candidates.size", candidates.size(), "there is a row for each token");
    if (logits.size() != candidates.size()) refuse("logits.size", logits.size(), "there is a logit for each candidate");
    for (std::size_t k = 0; k < tokens.size(); ++k) {
        auto const number = static_cast<std::int64_t>(k);
        if (blocks[k] < 0 || blocks[k] >= blocks_)
            refuse("blocks", number, blocks[k], "the last call has " + std::to_string(blocks_) + " sequences");
        if (depths[k] < 0 || depths[k] >= depths_)
            refuse("depths", number, depths[k], "the last call has the rows of " + std::to_string(depths_) + " depths");
        if (tokens[k] < 0 || tokens[k] >= vocabulary())
            refuse("tokens", number, tokens[k], "must be in [0, " + std::to_string(vocabulary()) + ")");
    }
    std::size_t const width = at(my.w.config.draft_vocabulary);
    rows_.resize(tokens.size() * width);
    for (std::size_t k = 0; k < tokens.size(); ++k)
        std::copy_n(my.own.data() + (at(blocks[k]) * at(depths_) + at(depths[k])) * width, width,
                    rows_.data() + k * width);
    my.layers.add_own_parent_terms(tokens, rows_.data());
    candidates_.choose(rows_, candidates, logits);
}

}  // namespace multidraft::examples
