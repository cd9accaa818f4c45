#include "llama_cpp/batched_decoder.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "multidraft/base/error.hpp"

namespace multidraft::examples {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// The inputs of a request: where they begin and end.
std::pair<std::size_t, std::size_t> range_of(step_inputs const& in, std::int32_t request) {
    return {at(in.offsets[at(request)]), at(in.offsets[at(request) + 1])};
}

}  // namespace

batched_llama_decoder::batched_llama_decoder(std::shared_ptr<gguf_model const> model, std::int32_t texts,
                                             decoder_options const& options)
    : context_(std::make_unique<shared_context>(std::move(model), options, texts)) {
    for (std::int32_t s = 0; s < texts; ++s) texts_.emplace_back(*context_);
}

/// Refuses what does not fit together, before anything is changed.
void batched_llama_decoder::check(step_inputs const& in, std::span<std::int32_t const> sequence_of,
                                  std::size_t logits) {
    if (logits != in.scored.size() * at(vocabulary()))
        refuse("logits.size", logits, "there is a row for each scored input");
    if (in.offsets.size() != sequence_of.size() + 1)
        refuse("sequence_of.size", sequence_of.size(),
               "the call has " + std::to_string(std::max<std::size_t>(in.offsets.size(), 1) - 1) + " requests");
    called_.assign(texts_.size(), 0);
    for (std::int32_t b = 0; b < static_cast<std::int32_t>(sequence_of.size()); ++b) {
        std::int32_t const s = sequence_of[at(b)];
        if (s < 0 || s >= sequences()) refuse("sequence_of", b, s, "no such sequence");
        if (called_[at(s)] != 0) refuse("sequence_of", b, s, "a sequence has one request of a call");
        called_[at(s)] = 1;
        auto const [begin, end] = range_of(in, b);
        if (begin == end) continue;
        cached_text const& text = texts_[at(s)];
        std::int32_t const before = in.first_entries[at(b)];
        if (before < 0 || before > std::min(text.trunk(), in.entries[begin]))
            refuse("in.first_entries", b, before,
                   "the cache has a path of " + std::to_string(text.trunk()) + " entries, and the inputs follow it");
        if (in.entries[begin] > text.length())
            refuse("in.entries", static_cast<std::int64_t>(begin), in.entries[begin],
                   "the cache has " + std::to_string(text.length()) + " entries");
        for (std::size_t k = begin; k < end; ++k) {
            auto const input = static_cast<std::int64_t>(k);
            if (in.requests[k] != b)
                refuse("in.requests", input, in.requests[k], "it is between the offsets of others");
            if (in.entries[k] - in.entries[begin] != static_cast<std::int32_t>(k - begin))
                refuse("in.entries", input, in.entries[k], "those of a request are one after another");
            if (in.tokens[k] < 0 || in.tokens[k] >= vocabulary())
                throw failed_request(b, "token " + std::to_string(in.tokens[k]) + " is not in [0, " +
                                            std::to_string(vocabulary()) + ")");
            if (in.positions[k] < 0 || in.positions[k] >= context_limit())
                throw failed_request(b, "position " + std::to_string(in.positions[k]) + " is beyond the context of " +
                                            std::to_string(context_limit()) + " tokens");
        }
    }
}

/// Adds a request's inputs to the call of its text. An input's parent is that of its row.
void batched_llama_decoder::add_inputs(step_inputs const& in, std::int32_t request, cached_text& text) {
    auto const [begin, end] = range_of(in, request);
    text.shorten(in.entries[begin]);  // what is written again
    text.begin();
    for (std::size_t k = begin; k < end; ++k) {
        auto const row = in.parent_rows[at(in.first_row) + k];
        std::int32_t const parent =
            row == none ? in.first_entries[at(request)] - 1 : static_cast<std::int32_t>(in.entry_of_row[at(row)]);
        if (std::int32_t const position = text.add(parent); in.positions[k] != position)
            refuse("in.positions", static_cast<std::int64_t>(k), in.positions[k],
                   "it follows what it attends to, at " + std::to_string(position));
    }
}

void batched_llama_decoder::forward(step_inputs const& in, std::span<std::int32_t const> sequence_of,
                                    std::span<float> logits) {
    check(in, sequence_of, logits.size());
    // A step begins: trees of one that failed are no longer wanted, also of requests that have ended by it.
    if (in.first_row == 0)
        for (cached_text& text : texts_) text.shorten(text.trunk());
    std::int64_t cells = 0;
    for (cached_text const& text : texts_) cells += text.length();
    for (std::int32_t b = 0; b < static_cast<std::int32_t>(sequence_of.size()); ++b) {
        auto const [begin, end] = range_of(in, b);
        if (begin == end) continue;
        cached_text& text = texts_[at(sequence_of[at(b)])];
        cells -= text.length();
        add_inputs(in, b, text);
        cells += text.length() + static_cast<std::int64_t>(end - begin);
        if (cells > context_->cells())
            throw failed_request(b, "the trees of a step take more than the " +
                                        std::to_string(context_->options().tree_nodes) +
                                        " entries that there are for them");
    }
    placed_.clear();
    counts_.clear();
    lists_.clear();
    for (std::int32_t b = 0; b < static_cast<std::int32_t>(sequence_of.size()); ++b) {
        auto const [begin, end] = range_of(in, b);
        if (begin == end) continue;
        cached_text& text = texts_[at(sequence_of[at(b)])];
        if (!text.place()) {
            for (cached_text* const other : placed_) other->undo();
            throw failed_request(b, "the trees of a step have more leaves than the context has sequences, " +
                                        std::to_string(context_->options().sequences));
        }
        placed_.push_back(&text);
        counts_.insert(counts_.end(), text.counts().begin(), text.counts().end());
        lists_.insert(lists_.end(), text.lists().begin(), text.lists().end());
    }
    try {
        read(in, logits);
    } catch (...) {
        for (cached_text* const text : placed_) text->undo();
        throw;
    }
    for (cached_text* const text : placed_) text->commit();
}

void batched_llama_decoder::read(step_inputs const& in, std::span<float> logits) {
    wanted_.assign(in.size(), 0);
    for (std::int64_t const k : in.scored) wanted_[at(k)] = 1;
    shared_context::inputs const inputs{in.tokens, in.positions, counts_.data(), lists_.data(), wanted_.data()};
    auto const count = static_cast<std::int32_t>(in.size());
    float* to = logits.data();
    for (std::int32_t begin = 0, end = 0; begin < count; begin = end) {
        end = std::min(begin + context_->options().batch, count);
        context_->decode(inputs, begin, end);
        auto const rows = std::count(wanted_.begin() + begin, wanted_.begin() + end, std::int8_t{1});
        if (rows == 0) continue;
        float const* const from = llama_get_logits(context_->get());
        to = std::copy(from, from + rows * vocabulary(), to);
    }
}

void batched_llama_decoder::keep(std::int32_t sequence, std::int32_t context, std::span<std::int32_t const> entries) {
    if (sequence < 0 || sequence >= sequences())
        refuse("sequence", sequence, "there are " + std::to_string(sequences()));
    texts_[at(sequence)].keep(context, entries);
}

}  // namespace multidraft::examples
