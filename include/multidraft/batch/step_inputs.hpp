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
                // What a row of this call attends to is written already.
                if (auto const before = at - first_row; before >= 0 && before < static_cast<std::int64_t>(k)) {
                    auto const its = words.subspan(static_cast<std::size_t>(before * each), row.size());
                    for (std::size_t w = 0; w < row.size(); ++w) row[w] |= its[w];
                    break;
                }
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
        for (auto* const rows : {&step_.parent_rows, &step_.row_of_node, &step_.last_row}) rows->clear();
        for (auto* const entries : {&step_.entry_of_row, &step_.first_entries, &step_.next_entry, &step_.root_entry})
            entries->clear();
        begin();
    }

    /// A request with that many nodes, and that many tokens in its cache.
    void add_request(node_id nodes, index_t in_cache) {
        for (auto* const entries : {&step_.first_entries, &step_.next_entry}) entries->push_back(in_cache);
        step_.root_entry.push_back(none);
        step_.last_row.push_back(none);
        step_.row_of_node.resize(step_.row_of_node.size() + static_cast<std::size_t>(nodes), none);
    }

    /// Begins a call.
    void begin() {
        for (auto* const numbers : {&call_.tokens, &call_.positions, &call_.requests, &call_.entries}) numbers->clear();
        for (auto* const places : {&call_.offsets, &call_.scored}) places->clear();
        call_.offsets.push_back(0);
        call_.first_row = rows();
    }

    /// The tokens of a text that the cache lacks, without the last one, which is the root.
    void read_text(std::int32_t b, span<token_id const> text) { read_all(b, text.first(text.size() - 1)); }
    /// The same with the last one.
    void read_all(std::int32_t b, span<token_id const> text) {
        for (auto k = static_cast<std::size_t>(step_.next_entry[at(b)]); k < text.size(); ++k) {
            std::int64_t const above = step_.last_row[at(b)];
            step_.last_row[at(b)] = read(b, text[k], static_cast<std::int32_t>(k), above);
        }
    }

    /// A node: its index among the nodes of all requests, that of its parent (`none`: it is the root).
    void read_node(std::int32_t b, std::int64_t node, std::int64_t parent, token_id token, std::int32_t position) {
        call_.scored.push_back(static_cast<std::int64_t>(call_.tokens.size()));
        if (parent == none) step_.root_entry[at(b)] = step_.next_entry[at(b)];
        step_.row_of_node[at(node)] =
            read(b, token, position, parent == none ? step_.last_row[at(b)] : step_.row_of_node[at(parent)]);
    }

    /// Ends the inputs of a request.
    void end_request() { call_.offsets.push_back(static_cast<std::int64_t>(call_.tokens.size())); }

    /// The inputs of the call.
    [[nodiscard]] step_inputs inputs() const {
        return {call_.tokens,    call_.positions, call_.requests,      call_.entries,     call_.offsets,
                call_.first_row, call_.scored,    step_.first_entries, step_.parent_rows, step_.entry_of_row};
    }

    /// The row of every node; `none`: not read.
    [[nodiscard]] std::vector<std::int64_t> const& row_of_node() const noexcept { return step_.row_of_node; }
    /// Whether the request was read.
    [[nodiscard]] bool has_read(std::int32_t b) const noexcept { return step_.root_entry[at(b)] != none; }
    /// The tokens of a request that the cache held before the step.
    [[nodiscard]] index_t in_cache(std::int32_t b) const noexcept { return step_.first_entries[at(b)]; }
    /// The cache entry of a request's root.
    [[nodiscard]] index_t root_entry(std::int32_t b) const noexcept { return step_.root_entry[at(b)]; }
    /// The cache entry of a node; `none`: not read.
    [[nodiscard]] index_t entry(std::int64_t node) const noexcept {
        std::int64_t const row = step_.row_of_node[at(node)];
        return row == none ? none : step_.entry_of_row[at(row)];
    }

private:
    /// The inputs of the call.
    struct call {
        std::vector<std::int32_t> tokens, positions, requests, entries;
        std::vector<std::int64_t> offsets, scored;
        std::int64_t first_row = 0;
    };
    /// What the step has read so far.
    struct step {
        std::vector<std::int64_t> parent_rows, row_of_node, last_row;
        std::vector<index_t> entry_of_row, first_entries, next_entry, root_entry;
    };

    static std::size_t at(std::int64_t i) noexcept { return static_cast<std::size_t>(i); }
    [[nodiscard]] std::int64_t rows() const noexcept { return static_cast<std::int64_t>(step_.parent_rows.size()); }

    /// Adds an input and returns its row.
    std::int64_t read(std::int32_t b, token_id token, std::int32_t position, std::int64_t parent_row) {
        call_.tokens.push_back(token);
        call_.positions.push_back(position);
        call_.requests.push_back(b);
        call_.entries.push_back(step_.next_entry[at(b)]++);
        step_.parent_rows.push_back(parent_row);
        step_.entry_of_row.push_back(call_.entries.back());
        return rows() - 1;
    }

    call call_;
    step step_;
};

}  // namespace detail

}  // namespace MULTIDRAFT_NAMESPACE
