// What a model reads in one call of a step of a batch: tokens, positions, cache entries and whom they attend to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The inputs of one call of a model, those of each request one after another. Views are valid until the step goes on.
///
/// Input k is a token of request `requests[k]`, at `positions[k]` of its text. The model writes its keys and values to
/// entry `entries[k]` of the request's cache, and its logits to row `first_row + k` of the step's rows of that model.
/// It attends to all entries before the first one of the step, to its ancestors among the step's entries and to itself:
/// `write_mask`.
struct step_inputs {
    std::span<token_id const> tokens;
    std::span<std::int32_t const> positions;
    std::span<std::int32_t const> requests;
    std::span<index_t const> entries;
    std::span<std::int64_t const> offsets;  ///< requests + 1: where the inputs of each request begin
    std::int64_t first_row = 0;
    /// The inputs whose rows are read, increasing: nodes. Tokens of the text before the root only fill the cache.
    std::span<std::int64_t const> scored;
    std::span<index_t const> first_entries;  ///< of each request: its first entry of the step
    std::span<std::int64_t const>
        parent_rows;                        ///< of every row of the step so far; `none`: the entries before the step
    std::span<index_t const> entry_of_row;  ///< the cache entry of every row of the step so far

    /// Whether there is nothing to read.
    [[nodiscard]] bool empty() const noexcept { return tokens.empty(); }
    [[nodiscard]] std::size_t size() const noexcept { return tokens.size(); }

    /// Words of 64 bits that a row of the mask needs: one bit for each entry of the step, of the request with most.
    [[nodiscard]] std::int64_t mask_words() const noexcept {
        index_t most = 0;
        for (std::size_t k = 0; k < size(); ++k) most = std::max(most, column(k, entries[k]) + 1);
        return (std::int64_t{most} + 63) / 64;
    }

    /// Writes the mask, `mask_words()` words for each input: bit j % 64 of word j / 64 of row k is 1 if input k attends
    /// to entry `first_entries[requests[k]] + j`. O(size (mask_words + depth)). Throws `invalid_input` for another
    /// size.
    void write_mask(std::span<std::uint64_t> words) const {
        std::int64_t const each = mask_words();
        auto const wanted = static_cast<std::int64_t>(size()) * each;
        if (static_cast<std::int64_t>(words.size()) != wanted)
            refuse("words.size", words.size(), "the mask has " + std::to_string(wanted) + " words");
        std::fill(words.begin(), words.end(), std::uint64_t{0});
        for (std::size_t k = 0; k < size(); ++k) {
            auto const row = words.subspan(k * static_cast<std::size_t>(each), static_cast<std::size_t>(each));
            auto at = first_row + static_cast<std::int64_t>(k);
            for (; at != none; at = parent_rows[static_cast<std::size_t>(at)]) {
                auto const j = static_cast<std::size_t>(column(k, entry_of_row[static_cast<std::size_t>(at)]));
                row[j / 64] |= std::uint64_t{1} << (j % 64);
            }
        }
    }

private:
    [[nodiscard]] index_t column(std::size_t k, index_t entry) const noexcept {
        return entry - first_entries[static_cast<std::size_t>(requests[k])];
    }
};

namespace detail {

/// The inputs of a model, call by call of a step; nodes get the cache entry and the row that the model writes.
class step_reader {
public:
    /// Begins a step.
    void clear() {
        for (auto* const rows : {&parent_rows_, &row_of_node_, &last_row_}) rows->clear();
        for (auto* const entries : {&entry_of_row_, &first_entries_, &next_entry_, &root_entry_}) entries->clear();
        begin();
    }

    /// A request with that many nodes, and that many tokens in its cache.
    void add_request(node_id nodes, index_t in_cache) {
        for (auto* const entries : {&first_entries_, &next_entry_}) entries->push_back(in_cache);
        root_entry_.push_back(none);
        last_row_.push_back(none);
        row_of_node_.resize(row_of_node_.size() + static_cast<std::size_t>(nodes), none);
    }

    /// Begins a call.
    void begin() {
        for (auto* const numbers : {&tokens_, &positions_, &requests_, &entries_}) numbers->clear();
        for (auto* const places : {&offsets_, &scored_}) places->clear();
        offsets_.push_back(0);
        first_row_ = rows();
    }

    /// The tokens of a text that the cache lacks, without the last one, which is the root.
    void read_text(std::int32_t b, span<token_id const> text) { read_all(b, text.first(text.size() - 1)); }
    /// The same with the last one.
    void read_all(std::int32_t b, span<token_id const> text) {
        for (auto k = static_cast<std::size_t>(next_entry_[at(b)]); k < text.size(); ++k) {
            std::int64_t const above = last_row_[at(b)];
            last_row_[at(b)] = read(b, text[k], static_cast<std::int32_t>(k), above);
        }
    }

    /// A node: its index among the nodes of all requests, that of its parent (`none`: it is the root).
    void read_node(std::int32_t b, std::int64_t node, std::int64_t parent, token_id token, std::int32_t position) {
        scored_.push_back(static_cast<std::int64_t>(tokens_.size()));
        if (parent == none) root_entry_[at(b)] = next_entry_[at(b)];
        row_of_node_[at(node)] = read(b, token, position, parent == none ? last_row_[at(b)] : row_of_node_[at(parent)]);
    }

    /// Ends the inputs of a request.
    void end_request() { offsets_.push_back(static_cast<std::int64_t>(tokens_.size())); }

    /// The inputs of the call.
    [[nodiscard]] step_inputs inputs() const {
        return {tokens_,    positions_, requests_,      entries_,     offsets_,
                first_row_, scored_,    first_entries_, parent_rows_, entry_of_row_};
    }

    /// The row of every node; `none`: not read.
    [[nodiscard]] std::vector<std::int64_t> const& row_of_node() const noexcept { return row_of_node_; }
    /// Whether the request was read.
    [[nodiscard]] bool has_read(std::int32_t b) const noexcept { return root_entry_[at(b)] != none; }
    /// The cache entry of a request's root.
    [[nodiscard]] index_t root_entry(std::int32_t b) const noexcept { return root_entry_[at(b)]; }
    /// The cache entry of a node; `none`: not read.
    [[nodiscard]] index_t entry(std::int64_t node) const noexcept {
        std::int64_t const row = row_of_node_[at(node)];
        return row == none ? none : entry_of_row_[at(row)];
    }

private:
    static std::size_t at(std::int64_t i) noexcept { return static_cast<std::size_t>(i); }
    [[nodiscard]] std::int64_t rows() const noexcept { return static_cast<std::int64_t>(parent_rows_.size()); }

    /// Adds an input and returns its row.
    std::int64_t read(std::int32_t b, token_id token, std::int32_t position, std::int64_t parent_row) {
        tokens_.push_back(token);
        positions_.push_back(position);
        requests_.push_back(b);
        entries_.push_back(next_entry_[at(b)]++);
        parent_rows_.push_back(parent_row);
        entry_of_row_.push_back(entries_.back());
        return rows() - 1;
    }

    // Of the call.
    std::vector<std::int32_t> tokens_, positions_, requests_, entries_;
    std::vector<std::int64_t> offsets_, scored_;
    std::int64_t first_row_ = 0;
    // Of the step so far.
    std::vector<std::int64_t> parent_rows_, row_of_node_, last_row_;
    std::vector<index_t> entry_of_row_, first_entries_, next_entry_, root_entry_;
};

}  // namespace detail

}  // namespace MULTIDRAFT_NAMESPACE
