// Rows with masks and biases, and rows of probabilities, of C structs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>

#include "errors.hpp"
#include "multidraft.h"
#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/rows/adjusted_view.hpp"
#include "structs.hpp"

namespace MULTIDRAFT_NAMESPACE::c_interface {

/// The name of rows' adjustments or of a member of them, in memory of its own: verification allocates nothing.
class adjustments_name {
public:
    explicit adjustments_name(char const* rows, char const* member = "") {
        std::snprintf(text_, sizeof text_, "%s.adjustments%s", rows, member);
    }
    operator char const*() const noexcept { return text_; }

private:
    char text_[64];
};

/// The masks of rows, of the size that their struct says.
[[nodiscard]] inline token_masks masks_of(md_adjustments const& a, std::size_t size, index_t vocabulary,
                                          char const* name) {
    // Older callers say no count: their masks of stride 0 are one, and their others are trusted.
    bool const is_older = size < sizeof(md_adjustments);
    constexpr auto any_number = std::numeric_limits<std::int64_t>::max();
    std::int64_t const count = !is_older ? a.allowed_count : a.allowed_stride == 0 ? 1 : any_number;
    if (count < 1)
        refuse(std::string(adjustments_name(name, ".allowed_count")), count,
               "it is the number of masks; 1: one mask for all nodes");
    std::int64_t const words = (std::int64_t{vocabulary} + 31) / 32;
    std::int64_t const stride = a.allowed_stride == 0 ? words : a.allowed_stride;
    if (stride < words)
        refuse(std::string(adjustments_name(name, ".allowed_stride")), stride,
               "a mask has a bit a token; 0: masks without a gap");
    return {a.allowed, count, stride};
}

/// The masks and biases of rows, if any. Which of them the nodes have is checked with the batch.
[[nodiscard]] inline logit_adjustments adjustments_of(md_rows const& r, char const* name) {
    if (r.adjustments == nullptr) return {};
    // The struct of older callers ends before the number of masks.
    md_adjustments const a = read(r.adjustments, adjustments_name(name), {offsetof(md_adjustments, allowed_count)});
    logit_adjustments result;
    if (a.allowed != nullptr) {
        result.allowed = masks_of(a, r.adjustments->size, r.vocabulary, name);
        result.allowed_of = a.allowed_of;
    }
    if (a.bias_entries == 0) return result;
    result.bias.tokens = array(a.bias_tokens, a.bias_entries, adjustments_name(name, ".bias_tokens"));
    result.bias.values = array(a.bias_values, a.bias_entries, adjustments_name(name, ".bias_values"));
    if (a.bias_offsets != nullptr) {
        if (a.bias_count < 0 || a.bias_count == std::numeric_limits<std::int64_t>::max())
            refuse(std::string(adjustments_name(name, ".bias_count")), a.bias_count, "there are 0 biases or more");
        result.bias.offsets = array(a.bias_offsets, a.bias_count + 1, adjustments_name(name, ".bias_offsets"));
    }
    result.bias_of = a.bias_of;
    return result;
}

/// Rows of a few candidates, read in place. Their tokens are checked where they are read.
[[nodiscard]] inline candidate_batch<float> candidates_of(md_rows const& r, char const* name) {
    if (r.kind != MD_LOGITS) refuse_kind(r, name, "candidates have MD_LOGITS");
    if (r.dtype != MD_FLOAT32) refuse_dtype(r, name, "the logits of candidates are MD_FLOAT32");
    if (r.adjustments != nullptr)
        refuse(std::string(name) + ".adjustments", "given",
               "candidates have none: leave out what a mask forbids, and add a bias to their logits");
    // What an index does not hold is more than there are tokens, and refused as that.
    constexpr std::int64_t most = std::numeric_limits<index_t>::max();
    std::int64_t const count = std::clamp<std::int64_t>(r.candidate_count, 0, most);
    return {logits_of<float>(r), r.candidates, static_cast<index_t>(count)};
}

/// Candidates as calls of the library name them.
inline constexpr argument_name names_of_candidates[] = {{"draft.tokens", "draft.candidates"},
                                                        {"draft.candidates", "draft.candidate_count"}};

[[nodiscard]] inline probability_batch<float> probabilities_of(md_rows const& r) {
    return {static_cast<float const*>(r.data), r.row_stride, r.vocabulary, r.row_of};
}

inline void refuse_adjustments(md_rows const* r, char const* name) {
    if (r != nullptr && r->adjustments != nullptr)
        refuse(std::string(name) + ".adjustments", "given",
               "masks and biases are of logits; probabilities have theirs");
}

}  // namespace MULTIDRAFT_NAMESPACE::c_interface
