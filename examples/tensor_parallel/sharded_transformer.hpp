// A transformer of Llama layout that is distributed over MPI ranks: each has some heads, a part of the feed-forward and
// some columns of the logits.
//
// The parts of a rank, as in other engines:
//
// - Attention: some of the heads, that is their rows of the query matrix, their columns of the output matrix, and the
//   key-value heads that they read, with the cache of these. If heads of several ranks read one key-value head, each of
//   these ranks has it.
// - Feed-forward: it is divided into as many blocks as the model has heads, and each rank has some of them: rows of the
//   gate and up matrices, and the same columns of the down matrix.
// - Logits: some rows of the output matrix, one per token of the vocabulary.
// - On all ranks: the norms and the residual. The embedding is read in place from the file, one row per token.
//
// Each layer communicates twice: sums over the ranks after attention and after the feed-forward. A sum of floats
// depends on its order, so the text could depend on the number of ranks. Therefore the order is fixed: a sum has one
// term per head, or per block, and terms are added by halves, (0 + 1) + (2 + 3) for four. If the number of ranks is a
// power of two, the terms of one rank are one of these brackets. Every rank adds its own terms, gathers the sums of the
// other ranks and adds them by halves. The logits have the same bits as on one rank with the whole model. With two
// ranks this sends as many bytes as a sum by MPI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/mpi/communicator.hpp"
#include "multidraft/shards.hpp"
#include "transformer/aligned_array.hpp"
#include "transformer/attended.hpp"
#include "transformer/config.hpp"
#include "transformer/key_value_cache.hpp"
#include "transformer/linear.hpp"
#include "transformer/rotary.hpp"
#include "transformer/safetensors.hpp"
#include "transformer/team.hpp"

namespace multidraft::examples {

/// One sequence, on one of the ranks: this rank's weights, and the cache of its heads. Weights have the type of the
/// file, everything else is float. Batch-invariant, like `transformer`: a token's logits have the same bits alone, in a
/// prompt and in a tree.
class sharded_transformer {
public:
    /// Loads this rank's part of a directory with `config.json` and safetensors. `tree_entries`: cache entries beyond
    /// the positions, for the nodes of draft trees. `ranks` must outlive the model. Throws `std::runtime_error` as
    /// `transformer_weights` does, and `invalid_input` if the number of ranks is not a power of two that divides the
    /// heads.
    sharded_transformer(std::filesystem::path const& directory, mpi::communicator& ranks, std::int32_t tree_entries);

    [[nodiscard]] model_config const& config() const noexcept { return config_; }
    [[nodiscard]] std::int32_t vocabulary() const noexcept { return config_.vocabulary; }
    [[nodiscard]] std::int32_t context_limit() const noexcept { return config_.max_positions; }
    [[nodiscard]] std::int32_t length() const noexcept { return length_; }
    /// The columns of the logits that this rank has.
    [[nodiscard]] shards::column_range columns() const noexcept { return columns_; }
    /// The bytes of this rank's matrices. A call reads each once per 64 tokens.
    [[nodiscard]] std::size_t weight_bytes() const noexcept { return weight_bytes_; }
    /// The communication of the layers so far.
    [[nodiscard]] shards::traffic const& sent() const noexcept { return sent_; }

    /// Appends one cache entry per token (see `multidraft::language_model`) and returns this rank's columns of the
    /// logits of the last `wanted` tokens, row after row, valid until the next call. Called by all ranks, with the same
    /// tokens.
    std::span<float const> forward(token_batch const& batch, std::int32_t wanted);

    /// The cache becomes its first `context` entries, followed by the entries `context + entries[k]`, in order.
    void keep(std::int32_t context, std::span<std::int32_t const> entries);

private:
    struct range {
        std::int32_t begin = 0;
        std::int32_t end = 0;
        [[nodiscard]] std::int32_t size() const noexcept { return end - begin; }
    };
    /// Rows of a matrix of the file.
    struct rows_of {
        std::string name;
        std::int32_t all;
        range mine;
    };
    struct layer {
        std::vector<float> attention_norm, mlp_norm;
        std::unique_ptr<linear> qkv;               ///< queries of all heads of the rank, then its keys, then its values
        std::vector<std::unique_ptr<linear>> out;  ///< of each head
        std::vector<std::unique_ptr<linear>> gate_up, down;  ///< of each block
    };

    static constexpr std::int32_t block_rows = 64;  ///< tokens that go through the layers together

    [[nodiscard]] range block_of(std::int32_t b) const noexcept;
    [[nodiscard]] std::vector<float> vector(std::string const& name) const;
    [[nodiscard]] std::unique_ptr<linear> product_of(std::vector<linear_maker::part> const& parts, std::int32_t inputs);
    [[nodiscard]] std::unique_ptr<linear> row_product(std::vector<rows_of> const& parts, std::int32_t inputs);
    [[nodiscard]] std::unique_ptr<linear> column_product(std::string const& name, std::int32_t all, range mine);
    void load();

    void multiply(linear const& by, float const* from, std::int32_t count, float* to);
    void normalise(float const* add, std::vector<float> const& weight, std::int32_t count);
    void attention(std::int32_t l, std::span<std::int32_t const> positions);
    void feed_forward(layer const& of, std::int32_t count);
    [[nodiscard]] float const* sum_over_ranks(std::int32_t count);
    void block(token_batch const& batch, std::int32_t first, std::int32_t count, std::int32_t wanted, float* logits);

    model_config config_;
    mpi::communicator& ranks_;
    range heads_;     ///< of the model, on this rank; also its blocks of the feed-forward
    range kv_heads_;  ///< read by these heads
    shards::column_range columns_;
    std::int32_t capacity_;

    tensor_store tensors_;
    std::vector<std::vector<std::byte>> copies_;  ///< of columns
    linear_maker maker_{precision::f32, multiplier::ours, 0, block_rows};
    team thread_{1};
    tensor_view const* embedding_ = nullptr;
    std::vector<layer> layers_;
    std::vector<float> final_norm_;
    std::unique_ptr<linear> head_;  ///< null on a rank without columns
    rotary_angles angles_;
    std::size_t weight_bytes_ = 0;

    key_value_cache cache_;
    attended_entries attended_{block_rows};
    std::int32_t length_ = 0;
    shards::traffic sent_;

    // Rows of the block that is in the layers.
    std::vector<float> residual_, normed_, qkv_, inner_, activation_;
    std::vector<float> parts_;     ///< terms of the sum: one per head, or block, of this rank
    std::vector<float> gathered_;  ///< one per rank
    std::vector<float> scores_, logits_;
    std::vector<kernels::token_attention> tokens_;  ///< of a head
    aligned_array<std::byte> workspace_;
};

}  // namespace multidraft::examples
