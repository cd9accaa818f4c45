// Rows of a call whose attention is taken together: those of one sequence read its cache once for several.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transformer/kernels.hpp"

namespace multidraft::examples {

/// Groups of consecutive rows of one sequence. Memory is reused from call to call.
class attention_groups {
public:
    struct group {
        std::int32_t first, count;
    };

    /// For `rows` rows with `heads` query heads to each of `kv_heads` key-value heads, in up to `threads` threads:
    /// groups as large as `kernels::attend` takes together, of about equal size, and as many as there are threads.
    /// `same(r)`: whether row r is of the sequence of the one before it.
    template <class Same>
    void set(std::int32_t rows, std::int32_t heads, std::int32_t kv_heads, int threads, Same const& same) {
        groups_.clear();
        std::int32_t const most =
            std::clamp(rows * kv_heads / threads, 1, std::max(kernels::queries_together / heads, 1));
        for (std::int32_t first = 0; first < rows;) {
            std::int32_t end = first + 1;
            while (end < rows && same(end)) ++end;
            for (std::int32_t left = (end - first + most - 1) / most; left > 0; --left) {
                std::int32_t const count = (end - first + left - 1) / left;
                groups_.push_back({first, count});
                first += count;
            }
        }
    }

    [[nodiscard]] std::int32_t size() const noexcept { return static_cast<std::int32_t>(groups_.size()); }
    /// Work for a thread: a group and a key-value head.
    struct unit {
        std::int32_t group, head;
    };
    /// The `i`th of all groups and heads. Groups of one head follow one another: they read the same keys and values.
    [[nodiscard]] unit unit_at(std::int32_t i) const noexcept { return {i % size(), i / size()}; }
    [[nodiscard]] group of(std::int32_t g) const noexcept { return groups_[static_cast<std::size_t>(g)]; }

    /// The attention of group g; `token(r)` is that of row r.
    template <class Token>
    void attend(std::int32_t g, kernels::attention_view const& cache, std::int32_t heads, float* scratch,
                Token const& token) const {
        std::array<kernels::token_attention, kernels::queries_together> tokens;
        auto const [first, count] = of(g);
        for (std::int32_t i = 0; i < count; ++i) tokens[static_cast<std::size_t>(i)] = token(first + i);
        kernels::attend(cache, std::span(tokens).first(static_cast<std::size_t>(count)), heads, scratch);
    }

private:
    std::vector<group> groups_;
};

}  // namespace multidraft::examples
