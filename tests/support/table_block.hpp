// A block model with known rows: a function of the last tokens of the text and the depth, with what such models may
// have.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "multidraft/decode/block_model.hpp"
#include "support/table_model.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// Satisfies `block_model`.
class table_block {
public:
    using logit = double;
    static constexpr block_traits traits{};

    table_block(std::int32_t vocabulary, std::uint64_t seed, std::int32_t size = 3, int sparsity = 0)
        : law_(random_conditional(vocabulary, seed, 3, sparsity)), vocabulary_(vocabulary), size_(size) {}

    [[nodiscard]] std::int32_t vocabulary() const { return vocabulary_; }
    [[nodiscard]] std::int32_t context_limit() const { return 1 << 20; }
    [[nodiscard]] std::int32_t block_size() const { return size_; }
    void reset() {}
    void rows(std::span<token_id const> text, std::span<double> logits) {
        ++calls;
        auto const v = static_cast<std::size_t>(vocabulary_);
        for (std::size_t d = 0; d < logits.size() / v; ++d) {
            auto const row = row_of(text, static_cast<std::int32_t>(d));
            std::copy(row.begin(), row.end(), logits.begin() + static_cast<std::ptrdiff_t>(d * v));
        }
    }

    /// The logits of a depth below a text.
    [[nodiscard]] std::vector<double> row_of(std::span<token_id const> text, std::int32_t depth) const {
        auto const last = text.last(std::min<std::size_t>(text.size(), 2));
        std::vector<token_id> key(last.begin(), last.end());
        key.push_back(vocabulary_ + depth);
        auto row = law_(key);
        for (double& x : row) x = std::log(x);
        return row;
    }
    /// What the token before adds to entry i of a row.
    [[nodiscard]] double term(std::int32_t depth, token_id token, token_id i) const {
        return std::sin(1.0 + 3 * token + 7 * i + 5 * depth);
    }
    int calls = 0;

private:
    conditional law_;
    std::int32_t vocabulary_;
    std::int32_t size_;
};
static_assert(block_model<table_block> && !adds_parent_terms<table_block>);

/// The same with a term of the parent's token.
struct conditional_block : table_block {
    static constexpr block_traits traits{.parent_terms = true};
    using table_block::table_block;
    void add_parent_term(std::int32_t depth, token_id token, std::span<double> row) const {
        for (std::size_t i = 0; i < row.size(); ++i) row[i] += term(depth, token, static_cast<token_id>(i));
    }
};
static_assert(block_model<conditional_block> && adds_parent_terms<conditional_block>);

/// The same with two candidates a row, the likeliest ones with the term.
struct candidate_block : table_block {
    static constexpr block_traits traits{.parent_terms = true};
    using table_block::table_block;
    [[nodiscard]] std::int32_t candidates() const { return 2; }
    void read(std::span<token_id const> text, std::int32_t depths) {
        ++calls;
        rows_.clear();
        for (std::int32_t d = 0; d < depths; ++d) rows_.push_back(row_of(text, d));
    }
    void candidates_after(std::int32_t depth, token_id token, std::span<token_id> tokens,
                          std::span<double> logits) const {
        auto row = rows_.at(static_cast<std::size_t>(depth));
        for (std::size_t i = 0; i < row.size(); ++i) row[i] += term(depth, token, static_cast<token_id>(i));
        auto const least = std::min_element(row.begin(), row.end()) - row.begin();
        std::size_t k = 0;
        for (std::size_t i = 0; i < row.size(); ++i) {
            if (row.size() == 3 && static_cast<std::ptrdiff_t>(i) == least) continue;
            tokens[k] = static_cast<token_id>(i);
            logits[k++] = row[i];
        }
    }

private:
    std::vector<std::vector<double>> rows_;
};
static_assert(block_model<candidate_block> && adds_parent_terms<candidate_block> && gives_candidates<candidate_block>);

}  // namespace MULTIDRAFT_NAMESPACE::testing
