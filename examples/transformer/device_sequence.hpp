// A sequence whose layers run on a device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "transformer/accelerator.hpp"
#include "transformer/weights.hpp"

namespace multidraft::examples {

struct device_sequence {
    using model = transformer_weights::implementation;

    explicit device_sequence(std::shared_ptr<transformer_weights const> weights)
        : shared(std::move(weights)),
          w(*shared->implementation_),
          on(w.device->start()),
          row_words((w.capacity + 63) / 64),
          words(std::size_t(device_rows) * std::size_t(row_words)) {}

    void forward(token_batch const& batch, std::span<float> logits) {
        auto const n = static_cast<std::int32_t>(batch.tokens.size());
        std::size_t const vocabulary = std::size_t(w.config.vocabulary);
        std::int32_t const unwanted = n - static_cast<std::int32_t>(logits.size() / vocabulary);
        for (std::int32_t begin = 0; begin < n; begin += device_rows) {
            std::int32_t const rows = std::min(device_rows, n - begin);
            std::int32_t const wanted = std::clamp(begin + rows - unwanted, 0, rows);
            device_block block{batch.tokens.subspan(std::size_t(begin), std::size_t(rows)),
                               batch.positions.subspan(std::size_t(begin), std::size_t(rows)), length};
            if (batch.mask.causal()) {
                // Everything before the block, and of the block itself what comes no later.
                block.context = length;
                for (std::int32_t r = 0; r < rows; ++r) words[std::size_t(r)] = ~std::uint64_t{0} >> (63 - r);
                block.words = words.data();
                block.row_words = 1;
            } else {
                block.context = batch.context;
                block.words = batch.mask.words + std::int64_t{begin} * batch.mask.row_words;
                block.row_words = batch.mask.row_words;
                // A row may have fewer words than the block's last one; the later ones are not set by the caller.
                std::int32_t const wide = (length + rows - batch.context + 63) / 64;
                for (std::int32_t r = 0; r < rows; ++r) {
                    std::int32_t const own = (length + r - batch.context) / 64 + 1;
                    std::uint64_t* const to = words.data() + std::size_t(r) * std::size_t(row_words);
                    std::copy_n(block.words + r * block.row_words, own, to);
                    std::fill(to + own, to + wide, std::uint64_t{0});
                }
                block.words = words.data();
                block.row_words = row_words;
            }
            length += rows;
            on->forward(block, logits.first(std::size_t(begin + rows - std::min(unwanted, begin + rows)) * vocabulary)
                                   .last(std::size_t(wanted) * vocabulary));
        }
    }

    std::shared_ptr<transformer_weights const> shared;
    model const& w;
    std::unique_ptr<accelerator_sequence> on;
    std::int32_t row_words;
    std::vector<std::uint64_t> words;
    std::int32_t length = 0;
};

}  // namespace multidraft::examples
