#include "llama_cpp/decoder.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <string>
#include <utility>

#include "multidraft/base/error.hpp"

namespace multidraft::examples {
namespace {

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

}  // namespace

llama_decoder::llama_decoder(std::shared_ptr<gguf_model const> model, decoder_options const& options)
    : context_(std::make_unique<shared_context>(std::move(model), options, 1)), text_(*context_) {}

/// The parent of a token by its row of the mask. The entries that it attends to must be a path.
std::int32_t llama_decoder::parent_by_mask(token_batch const& batch, std::int32_t token) const {
    std::int32_t const self = length() + token - batch.context;  // its column
    std::uint64_t const* const row = batch.mask.words + batch.mask.row_words * token;
    std::int32_t attended = 0;
    std::int32_t parent = -1;
    for (std::int32_t w = 0; w < static_cast<std::int32_t>(batch.mask.row_words); ++w) {
        attended += std::popcount(row[w]);
        std::uint64_t before = row[w];
        if (w == self / 64) before &= (std::uint64_t{1} << (self % 64)) - 1;
        if (w <= self / 64 && before != 0) parent = 64 * w + 63 - std::countl_zero(before);
    }
    std::int32_t path = 0;  // columns that a path to this token has
    for (std::int32_t e = parent; e >= 0; e = text_.parent_of(batch.context + e) - batch.context)
        path += batch.mask(token, e) ? 1 : attended + 1;
    if (!batch.mask(token, self) || attended != path + 1)
        refuse("batch.mask", token, attended,
               "so many entries are attended to: they are to be the token itself and a path to it, for which llama.cpp "
               "has sequences");
    return batch.context + parent;
}

/// Adds the tokens to the text's call, or throws.
void llama_decoder::read_batch(token_batch const& batch) {
    decoder_options const& options = context_->options();
    auto const count = static_cast<std::int32_t>(batch.tokens.size());
    if (count < 1) refuse("batch.tokens.size", count, "a batch has one token or more");
    if (batch.positions.size() != batch.tokens.size())
        refuse("batch.positions.size", batch.positions.size(), "one a token: " + std::to_string(count));
    if (batch.context < 0 || batch.context > text_.trunk())
        refuse("batch.context", batch.context, "the cache has a text of " + std::to_string(text_.trunk()) + " entries");
    if (batch.mask.causal() && length() > text_.trunk())
        refuse("batch.mask", "causal", "the cache holds a tree, of which not all is before these tokens");
    if (std::int64_t const all = std::int64_t{length()} + count; all > context_->cells())
        refuse("batch.tokens.size", count,
               "with the " + std::to_string(length()) + " entries of the cache these are more than it has room for, " +
                   std::to_string(options.context) + " positions and " + std::to_string(options.tree_nodes) + " nodes");
    text_.begin();
    for (std::int32_t i = 0; i < count; ++i) {
        if (batch.tokens[at(i)] < 0 || batch.tokens[at(i)] >= vocabulary())
            refuse("batch.tokens", i, batch.tokens[at(i)], "a token lies in [0, vocabulary)");
        std::int32_t const parent = batch.mask.causal() ? length() + i - 1 : parent_by_mask(batch, i);
        if (std::int32_t const position = text_.add(parent); batch.positions[at(i)] != position)
            refuse("batch.positions", i, batch.positions[at(i)],
                   "it follows what it attends to, at " + std::to_string(position));
    }
    if (count > options.batch && !text_.is_chain())
        refuse("batch.tokens.size", count,
               "a tree is read in one batch, of " + std::to_string(options.batch) + " tokens at most");
    if (!text_.place())
        refuse("batch.mask", "tree",
               "the tree has more leaves than the context has sequences, " + std::to_string(options.sequences));
}

std::span<float const> llama_decoder::forward_in_place(token_batch const& batch, std::int32_t rows) {
    if (rows < 0 || at(rows) > batch.tokens.size())
        refuse("rows", rows, "the batch has " + std::to_string(batch.tokens.size()) + " tokens");
    std::int32_t const most = context_->options().batch;
    if (rows > most) refuse("rows", rows, "llama.cpp gives the logits of one batch, of " + std::to_string(most));
    read_batch(batch);

    // A long prompt is read in pieces; the last one has all the rows.
    auto const count = static_cast<std::int32_t>(batch.tokens.size());
    std::int32_t const last = count - std::min(count, most);
    wanted_.assign(batch.tokens.size(), 0);
    std::fill(wanted_.end() - rows, wanted_.end(), std::int8_t{1});
    shared_context::inputs const in{batch.tokens, batch.positions, text_.counts().data(), text_.lists().data(),
                                    wanted_.data()};
    try {
        for (std::int32_t begin = 0, end = 0; begin < count; begin = end) {
            end = begin < last ? std::min(begin + most, last) : count;
            context_->decode(in, begin, end);
        }
    } catch (...) {
        text_.undo();
        throw;
    }
    text_.commit();
    if (rows == 0) return {};
    return {llama_get_logits(get()), at(rows) * at(vocabulary())};
}

void llama_decoder::forward(token_batch const& batch, std::span<float> logits) {
    if (logits.size() % at(vocabulary()) != 0)
        refuse("logits.size", logits.size(), "rows of " + std::to_string(vocabulary()));
    auto const rows = forward_in_place(batch, static_cast<std::int32_t>(logits.size() / at(vocabulary())));
    std::copy(rows.begin(), rows.end(), logits.begin());
}

}  // namespace multidraft::examples
