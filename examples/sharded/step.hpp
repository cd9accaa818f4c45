// One step of speculative decoding over generated rows: trees are drawn level by level and verified, on any machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "multidraft/base/float16.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/level_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/methods/list.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/sampling_params.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/verdict.hpp"
#include "multidraft/verify/verifier.hpp"
#include "tree_option.hpp"

namespace multidraft::examples {

struct sharded_options {
    index_t vocabulary = 50257;
    std::int32_t requests = 8;
    std::string tree = "4x2x2x1";
    std::string method{methods::nested_ranked_block_stratified::name};
    sampling_params sampling{};
    std::uint64_t seed = 1;
    bool draft_in_shards = false;
};

struct sharded_result {
    std::vector<std::vector<token_id>> tokens;  ///< the emitted tokens of each request
    std::vector<std::int32_t> accepted;
    std::uint64_t calls = 0;     ///< of the communicator, in the verification
    std::uint64_t bytes = 0;     ///< received in them, by the rank that receives the most
    std::uint64_t gathered = 0;  ///< the same if whole rows were gathered
    double seconds = 0;          ///< of the verification
};

/// Columns [begin, end) of a model's rows, generated from a seed, so that any rank can generate any columns.
class generated_rows {
public:
    using entry = bfloat16;

    generated_rows(std::uint64_t seed, std::int64_t rows, index_t begin, index_t end, bool of_draft)
        : columns_(end - begin) {
        addressed_uniforms const uniforms(seed, 0x5eed);
        data_.reserve(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns_));
        for (std::int64_t r = 0; r < rows; ++r)
            for (index_t i = begin; i < end; ++i) {
                philox_block const words = uniforms.words({static_cast<std::int32_t>(r), 0, purpose::test, i});
                // Sums of uniforms have a bell shape. The draft's logits are the target's plus noise.
                float const base = bell(words.word[0]) + bell(words.word[1]);
                data_.push_back(entry(of_draft ? base + 0.4F * bell(words.word[2]) : base));
            }
    }

    [[nodiscard]] entry const* data() const noexcept { return data_.empty() ? nullptr : data_.data(); }
    [[nodiscard]] index_t columns() const noexcept { return columns_; }

private:
    /// The sum of four uniforms of 8 bits, with mean 0 and standard deviation 2.3.
    static float bell(std::uint32_t word) {
        std::uint32_t const sum = (word & 255U) + (word >> 8 & 255U) + (word >> 16 & 255U) + (word >> 24);
        return (static_cast<float>(sum) - 510.0F) * (1.0F / 64.0F);
    }

    index_t columns_;
    std::vector<entry> data_;
};

/// The most entries of the rows of one model: 2 GiB.
inline constexpr std::int64_t most_entries = std::int64_t{1} << 30;

/// The trees of a batch, all of one shape, and their draws.
class trees_of_step {
public:
    /// Throws `std::runtime_error` for rows of more than `most_entries`.
    explicit trees_of_step(sharded_options const& options) : shape_(tree_of_option(options.tree)) {
        std::int64_t const rows = std::int64_t{shape_.size()} * options.requests;
        if (rows > most_entries / options.vocabulary)
            throw std::runtime_error("--requests " + std::to_string(options.requests) + ", --tree " + options.tree +
                                     ", --vocabulary " + std::to_string(options.vocabulary) + ": " +
                                     std::to_string(rows * options.vocabulary) +
                                     " entries of rows, and a model has at most " + std::to_string(most_entries));
        auto const parents = shape_.parents();
        offsets_.push_back(0);
        for (std::int32_t b = 0; b < options.requests; ++b) {
            parents_.insert(parents_.end(), parents.begin(), parents.end());
            offsets_.push_back(static_cast<std::int64_t>(parents_.size()));
            ids_.push_back(static_cast<std::uint32_t>(b));
        }
        tokens_.assign(parents_.size(), none);
        certain_.assign(parents_.size(), 0);
        for (std::int32_t b = 0; b < options.requests; ++b) tokens_[static_cast<std::size_t>(offsets_[at(b)])] = 0;
        seeds_.assign(ids_.size(), options.seed);
        positions_.assign(ids_.size(), 100);
        accepted_.assign(ids_.size(), 0);
        next_.assign(ids_.size(), none);
        path_.assign(parents_.size(), none);
    }

    [[nodiscard]] tree_batch trees() const {
        return {static_cast<std::int32_t>(ids_.size()),
                static_cast<std::int64_t>(parents_.size()),
                offsets_.data(),
                parents_.data(),
                tokens_.data(),
                certain_.data()};
    }
    [[nodiscard]] request_batch requests() const { return {seeds_.data(), positions_.data(), ids_.data()}; }
    [[nodiscard]] verdict_batch verdicts() { return {path_.data(), 0, accepted_.data(), next_.data()}; }
    /// The shape of each tree.
    [[nodiscard]] topology const& shape() const noexcept { return shape_; }

    /// Draws the children of all nodes, one level at a time: `draw(level, row_of, out)`.
    template <class Draw>
    void draw_levels(Draw const& draw) {
        for (std::int32_t depth = 0; depth < shape_.max_depth(); ++depth) {
            std::vector<std::int32_t> requests, wanted, depths;
            std::vector<node_id> nodes;
            std::vector<std::int64_t> first, index;
            for (std::int32_t b = 0; b < trees().requests; ++b) {
                tree_view const tree = trees()(b);
                for (node_id v = shape_.level(depth).first; v < shape_.level(depth).end(); ++v) {
                    node_range const children = shape_.children(v);
                    if (children.empty() || !verify::is_present(tree, v)) continue;
                    requests.push_back(b);
                    wanted.push_back(children.count);
                    depths.push_back(depth);
                    nodes.push_back(v);
                    first.push_back(offsets_[at(b)] + children.first);
                    index.push_back(offsets_[at(b)] + v);
                }
            }
            if (nodes.empty()) return;
            draw(level_batch{static_cast<std::int32_t>(nodes.size()), requests.data(), nodes.data(), wanted.data(),
                             depths.data()},
                 index.data(),
                 children_batch{tokens_.data(), first.data(), 0, nullptr, certain_.data(), nullptr, index.data()});
        }
    }

    void emitted(sharded_result& result) const {
        for (std::int32_t b = 0; b < trees().requests; ++b) {
            auto const first = static_cast<std::size_t>(offsets_[at(b)]);
            std::vector<token_id> tokens;
            for (std::size_t k = 0; k < static_cast<std::size_t>(accepted_[at(b)]); ++k)
                tokens.push_back(tokens_[first + static_cast<std::size_t>(path_[first + k])]);
            tokens.push_back(next_[at(b)]);
            result.tokens.push_back(tokens);
            result.accepted.push_back(accepted_[at(b)]);
        }
    }

private:
    [[nodiscard]] static std::size_t at(std::int32_t b) { return static_cast<std::size_t>(b); }

    topology shape_;
    std::vector<std::int64_t> offsets_;
    std::vector<node_id> parents_, path_;
    std::vector<token_id> tokens_, next_;
    std::vector<index_t> certain_;
    std::vector<std::uint64_t> seeds_;
    std::vector<std::uint32_t> ids_;
    std::vector<std::int32_t> positions_, accepted_;
};

sharded_result run_on_host(sharded_options const& options);

}  // namespace multidraft::examples
