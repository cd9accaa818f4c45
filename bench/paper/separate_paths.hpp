// A model that reads the candidates of a tree as separate rows: shared nodes are computed once per path.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/tree/mask.hpp"

namespace multidraft::bench {

/// Wraps a model: every tree becomes its paths from the root, side by side, as if each were a separate text in a batch
/// (multi-candidate decoding without tree attention; [MCSD], table 4). The logits are those of the tree, and the work
/// is that of all paths. Unlike in a batch of texts the cache is not copied: all paths attend to one.
///
/// The model belongs to the caller; it must not be used otherwise meanwhile. For calls with a mask that begin at the
/// root.
template <language_model Model>
class separate_paths {
public:
    using logit = logit_of<Model>;

    explicit separate_paths(Model& model) : model_(model) {}

    [[nodiscard]] std::int32_t vocabulary() const { return model_.vocabulary(); }
    [[nodiscard]] std::int32_t context_limit() const { return model_.context_limit(); }
    /// Entries as the caller counts them: one per node.
    [[nodiscard]] std::int32_t length() const noexcept { return model_.length() - extra_; }

    void forward(token_batch const& batch, std::span<logit> logits) {
        if (batch.mask.causal()) {
            model_.forward(batch, logits);
            return;
        }
        auto const nodes = static_cast<node_id>(batch.tokens.size());
        std::vector<char> inner(at(nodes), 0);
        for (node_id i = 0; i < nodes; ++i)
            for (node_id j = 0; j < i; ++j)
                if (batch.mask(i, j)) inner[at(j)] = 1;
        rows_.clear();
        tokens_.clear();
        positions_.clear();
        std::vector<std::size_t> begin_of_path;  // by row
        for (node_id leaf = 0; leaf < nodes; ++leaf) {
            if (inner[at(leaf)] != 0) continue;
            std::size_t const begin = rows_.size();
            for (node_id j = 0; j <= leaf; ++j) {
                if (!batch.mask(leaf, j)) continue;
                begin_of_path.push_back(begin);
                rows_.push_back(j);
                tokens_.push_back(batch.tokens[at(j)]);
                positions_.push_back(batch.positions[at(j)]);
            }
        }
        std::int64_t const row_words = words_per_row(static_cast<node_id>(rows_.size()));
        words_.assign(rows_.size() * static_cast<std::size_t>(row_words), 0);
        for (std::size_t r = 0; r < rows_.size(); ++r)
            for (std::size_t c = begin_of_path[r]; c <= r; ++c)
                words_[r * static_cast<std::size_t>(row_words) + c / 64] |= std::uint64_t{1} << (c % 64);
        mask_view const mask{words_.data(), row_words, static_cast<std::int64_t>(rows_.size())};
        auto const v = at(vocabulary());
        wide_.resize(rows_.size() * v);
        model_.forward({tokens_, positions_, batch.context, mask}, wide_);
        extra_ = static_cast<std::int32_t>(rows_.size()) - nodes;
        for (std::size_t r = 0; r < rows_.size(); ++r)
            std::copy_n(wide_.begin() + static_cast<std::ptrdiff_t>(r * v), v,
                        logits.begin() + static_cast<std::ptrdiff_t>(at(rows_[r]) * v));
    }

    /// The nodes are those of one path.
    void keep(std::int32_t context, std::span<std::int32_t const> entries) {
        if (rows_.empty() || extra_ == 0 || entries.empty()) {
            model_.keep(context, entries);
        } else {
            // The first path that has the last node has its ancestors before it.
            auto const last = std::find(rows_.begin(), rows_.end(), entries.back()) - rows_.begin();
            std::vector<std::int32_t> kept;
            auto row = last;
            for (std::size_t k = entries.size(); k-- > 0; --row) {
                while (rows_[static_cast<std::size_t>(row)] != entries[k]) --row;
                kept.push_back(static_cast<std::int32_t>(row));
            }
            std::reverse(kept.begin(), kept.end());
            model_.keep(context, kept);
        }
        extra_ = 0;
        rows_.clear();
    }

private:
    static std::size_t at(std::int32_t i) noexcept { return static_cast<std::size_t>(i); }

    Model& model_;
    std::int32_t extra_ = 0;     ///< entries of the model that are copies of others
    std::vector<node_id> rows_;  ///< by row of the last call: the node
    std::vector<token_id> tokens_;
    std::vector<std::int32_t> positions_;
    std::vector<logit> wide_;
    std::vector<std::uint64_t> words_;  ///< of the mask
};

}  // namespace multidraft::bench
