// One draft model over a tree whose nodes it reads in any order: its calls and its processed rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/decode/draft_model.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/draft/draft_inputs.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/tree/mask.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The cache of a draft model below the last token of the text: entry 0 is the root, the others are nodes in the order
/// in which they were read. For drafters that read some nodes of a tree only; `draft_tree` reads all, level by level.
///
/// Memory is kept from one step to the next; rows are not moved until the next `start`.
template <language_model Model>
class model_rows : public draft_model<Model> {
public:
    using logit = logit_of<Model>;
    using view = row_view<logit>;
    using row = softmax_row<view>;
    using chunk_sums_type = chunk_sums_of<host_group, typename view::real>;

    /// The model belongs to the caller and must outlive this object.
    explicit model_rows(Model& model) : draft_model<Model>(model) {}

    /// Clears the entries of the last step.
    void start() {
        rows_.clear();
        sums_.clear();
        calls_ = 0;
    }

    /// Reads the next input of a tree below the last token of `text`: one entry and row for each of its nodes. With the
    /// root, which is the first and alone, the part of the text that the cache lacks.
    void read(host_group const& g, std::span<token_id const> text, draft::draft_inputs const& in,
              sampling_params const& w, generation_metrics& m) {
        std::span<logit> const logits = block(in.size());
        {
            detail::stopwatch const time(m.time.draft);
            auto const context = static_cast<std::int32_t>(text.size()) - 1;
            if (in.first_row == 0)
                draft_model<Model>::read(text, logits);
            else
                this->model().forward(token_batch{in.tokens, in.positions, context, in.mask}, logits);
            ++m.draft_calls;
        }
        take(g, logits, w, m);
    }
    using draft_model<Model>::read;

    /// Entries below the text, the root's included.
    [[nodiscard]] node_id entries() const noexcept { return static_cast<node_id>(rows_.size()); }
    /// The processed row of an entry.
    [[nodiscard]] row const& distribution(node_id entry) const noexcept { return rows_[at(entry)]; }
    /// The processed rows of all entries. Valid until more are read.
    [[nodiscard]] span<row const> distributions() const noexcept { return rows_; }
    /// The sums of the entry's weights, from which samplers draw; they may change them.
    [[nodiscard]] chunk_sums_type& sums(node_id entry) noexcept { return sums_[at(entry)]; }

    /// Keeps the text up to `context` and these entries, which increase strictly.
    void keep(std::int32_t context, std::span<node_id const> entries_to_keep) {
        if (entries() == 0) return;  // the model was not called
        this->model().keep(context, entries_to_keep);
    }

private:
    static std::size_t at(node_id v) noexcept { return static_cast<std::size_t>(v); }

    /// Memory for the logits of one call, allocated separately so that earlier rows are not moved.
    std::span<logit> block(std::size_t rows) {
        if (blocks_.size() == calls_) blocks_.emplace_back();
        std::vector<logit>& room = blocks_[calls_++];
        std::size_t const wanted = rows * static_cast<std::size_t>(this->vocabulary());
        if (room.size() < wanted) room.resize(wanted);
        return {room.data(), wanted};
    }

    void take(host_group const& g, std::span<logit const> logits, sampling_params const& w, generation_metrics& m) {
        detail::stopwatch const time(m.time.sample);
        auto const v = static_cast<std::size_t>(this->vocabulary());
        for (std::size_t i = 0; i < logits.size() / v; ++i) {
            auto q = process_logits(g, view(logits.data() + static_cast<std::ptrdiff_t>(i * v), this->vocabulary()), w,
                                    "draft logits");
            rows_.push_back(q.row);
            sums_.push_back(q.sums);
        }
    }

    std::size_t calls_ = 0;
    std::vector<std::vector<logit>> blocks_;  ///< one per call
    std::vector<row> rows_;                   ///< one per entry
    std::vector<chunk_sums_type> sums_;
};

}  // namespace MULTIDRAFT_NAMESPACE
