#include "tensor_parallel/sharded_transformer.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>
#include <utility>

#include "multidraft/base/error.hpp"
#include "transformer/kernels.hpp"

namespace multidraft::examples {
namespace {

std::size_t size(std::int64_t n) noexcept { return static_cast<std::size_t>(n); }

/// Some rows of a matrix, in place.
tensor_view rows_from(tensor_view const& matrix, std::int32_t first, std::int32_t count) {
    std::size_t const row = size(matrix.shape[1]) * size_of(matrix.type);
    return {matrix.type, {count, matrix.shape[1]}, matrix.bytes.subspan(size(first) * row, size(count) * row)};
}

/// Some columns of a matrix, copied to `memory`.
tensor_view columns_from(tensor_view const& matrix, std::int32_t first, std::int32_t count,
                         std::vector<std::byte>& memory) {
    std::size_t const row = size(matrix.shape[1]) * size_of(matrix.type);
    for (std::size_t n = 0; n < size(matrix.shape[0]); ++n) {
        auto const part =
            matrix.bytes.subspan(n * row + size(first) * size_of(matrix.type), size(count) * size_of(matrix.type));
        memory.insert(memory.end(), part.begin(), part.end());
    }
    return {matrix.type, {matrix.shape[0], count}, memory};
}

/// Adds `count` contiguous rows of n numbers to the first of them, by halves.
void add_by_halves(float* rows, std::int32_t count, std::size_t n) {
    if (count == 1) return;
    float* const second = rows + size(count / 2) * n;
    add_by_halves(rows, count / 2, n);
    add_by_halves(second, count - count / 2, n);
    for (std::size_t i = 0; i < n; ++i) rows[i] += second[i];
}

model_config checked(model_config config, int ranks) {
    if (!std::has_single_bit(static_cast<unsigned>(ranks)) || config.heads % ranks != 0)
        refuse("ranks", ranks,
               "must be a power of two that divides the model's " + std::to_string(config.heads) + " heads");
    return config;
}

}  // namespace

sharded_transformer::sharded_transformer(std::filesystem::path const& directory, mpi::communicator& ranks,
                                         std::int32_t tree_entries)
    : config_(checked(read_config(directory / "config.json"), ranks.size())),
      ranks_(ranks),
      heads_{config_.heads / ranks.size() * ranks.rank(), config_.heads / ranks.size() * (ranks.rank() + 1)},
      kv_heads_{heads_.begin / (config_.heads / config_.kv_heads),
                (heads_.end - 1) / (config_.heads / config_.kv_heads) + 1},
      columns_(shards::even_columns(config_.vocabulary, ranks.size(), ranks.rank())),
      capacity_(kernels::round_up(config_.max_positions + tree_entries, kernels::lanes)),
      tensors_(tensor_store::open(directory)),
      angles_(config_, config_.max_positions),
      cache_(config_.layers, kv_heads_.size(), config_.head_dim, capacity_, kernels::cache_numbers::floats) {
    load();
    std::size_t const hidden = size(block_rows) * size(config_.hidden);
    residual_.resize(hidden);
    normed_.resize(hidden);
    parts_.resize(hidden * size(heads_.size()));
    gathered_.resize(hidden * size(ranks.size()));
    scores_.resize(kernels::attention_scratch(capacity_, config_.head_dim));
}

// --- Weights ---------------------------------------------------------------------------------------------------------

/// The rows of the gate and up matrices in block b.
sharded_transformer::range sharded_transformer::block_of(std::int32_t b) const noexcept {
    auto const border = [&](std::int64_t k) {
        return static_cast<std::int32_t>(k * config_.intermediate / config_.heads);
    };
    return {border(b), border(b + 1)};
}

std::vector<float> sharded_transformer::vector(std::string const& name) const {
    std::vector<float> values(size(config_.hidden));
    tensors_.get(name, {config_.hidden}).read(0, values);
    return values;
}

std::unique_ptr<linear> sharded_transformer::product_of(std::vector<linear_maker::part> const& parts,
                                                        std::int32_t inputs) {
    auto result = maker_.make(parts, inputs, thread_);
    weight_bytes_ += result->bytes();
    if (workspace_.size() < result->workspace_bytes(block_rows))
        workspace_ = aligned_array<std::byte>(result->workspace_bytes(block_rows));
    return result;
}

/// This rank's rows of some matrices with the same inputs, concatenated.
std::unique_ptr<linear> sharded_transformer::row_product(std::vector<rows_of> const& parts, std::int32_t inputs) {
    std::vector<tensor_view> views;
    for (rows_of const& p : parts)
        views.push_back(rows_from(tensors_.get(p.name, {p.all, inputs}), p.mine.begin, p.mine.size()));
    std::vector<linear_maker::part> found;
    for (std::size_t i = 0; i < parts.size(); ++i) found.push_back({&views[i], parts[i].mine.size()});
    return product_of(found, inputs);
}

/// Some columns of a matrix of `all` columns: their product is one term of a sum.
std::unique_ptr<linear> sharded_transformer::column_product(std::string const& name, std::int32_t all, range mine) {
    tensor_view const view =
        columns_from(tensors_.get(name, {config_.hidden, all}), mine.begin, mine.size(), copies_.emplace_back());
    return product_of({{&view, config_.hidden}}, mine.size());
}

void sharded_transformer::load() {
    model_config const& c = config_;
    std::int32_t const dim = c.head_dim;
    std::string const embedding = "model.embed_tokens.weight";
    embedding_ = &tensors_.get(embedding, {c.vocabulary, c.hidden});
    // Fewer layers than the file has would be another model without a word.
    std::string const beyond = "model.layers." + std::to_string(c.layers) + ".input_layernorm.weight";
    if (tensors_.contains(beyond))
        throw std::runtime_error("tensor " + beyond + ": by its configuration the model has " +
                                 std::to_string(c.layers) + (c.layers == 1 ? " layer" : " layers"));
    for (std::int32_t l = 0; l < c.layers; ++l) {
        std::string const prefix = "model.layers." + std::to_string(l) + ".";
        layer& of = layers_.emplace_back();
        of.attention_norm = vector(prefix + "input_layernorm.weight");
        of.mlp_norm = vector(prefix + "post_attention_layernorm.weight");
        range const queries{heads_.begin * dim, heads_.end * dim};
        range const keys{kv_heads_.begin * dim, kv_heads_.end * dim};
        of.qkv = row_product({{prefix + "self_attn.q_proj.weight", c.heads * dim, queries},
                              {prefix + "self_attn.k_proj.weight", c.kv_heads * dim, keys},
                              {prefix + "self_attn.v_proj.weight", c.kv_heads * dim, keys}},
                             c.hidden);
        for (std::int32_t h = heads_.begin; h < heads_.end; ++h) {
            range const mine = block_of(h);
            of.out.push_back(
                column_product(prefix + "self_attn.o_proj.weight", c.heads * dim, {h * dim, (h + 1) * dim}));
            of.gate_up.push_back(row_product({{prefix + "mlp.gate_proj.weight", c.intermediate, mine},
                                              {prefix + "mlp.up_proj.weight", c.intermediate, mine}},
                                             c.hidden));
            of.down.push_back(column_product(prefix + "mlp.down_proj.weight", c.intermediate, mine));
        }
    }
    final_norm_ = vector("model.norm.weight");
    if (columns_.size() > 0)
        head_ = row_product({{c.tied_head && !tensors_.contains("lm_head.weight") ? embedding : "lm_head.weight",
                              c.vocabulary,
                              {columns_.begin, columns_.end}}},
                            c.hidden);
}

// --- A call ----------------------------------------------------------------------------------------------------------

void sharded_transformer::multiply(linear const& by, float const* from, std::int32_t count, float* to) {
    by.multiply(thread_, 1, from, count, to, workspace_.data());
}

/// Adds the output of the layer before, if any, to the residual, and normalises the result.
void sharded_transformer::normalise(float const* add, std::vector<float> const& weight, std::int32_t count) {
    for (std::size_t r = 0; r < size(count); ++r) {
        std::size_t const row = r * size(config_.hidden);
        kernels::norm(residual_.data() + row, add == nullptr ? nullptr : add + row, weight.data(), config_.hidden,
                      config_.rms_norm_eps, normed_.data() + row);
    }
}

/// One term for each head of this rank: the output of its attention.
void sharded_transformer::attention(std::int32_t l, std::span<std::int32_t const> positions) {
    layer const& of = layers_[size(l)];
    auto const count = static_cast<std::int32_t>(positions.size());
    std::size_t const dim = size(config_.head_dim);
    std::size_t const width = size(heads_.size() + 2 * kv_heads_.size()) * dim;
    qkv_.resize(positions.size() * width);
    inner_.resize(positions.size() * dim);
    multiply(*of.qkv, normed_.data(), count, qkv_.data());
    for (std::size_t r = 0; r < positions.size(); ++r) {
        float* const queries = qkv_.data() + r * width;
        float* const keys = queries + size(heads_.size()) * dim;
        for (float* head = queries; head < keys + size(kv_heads_.size()) * dim; head += dim)
            kernels::rotate(head, angles_.cosines(positions[r]), angles_.sines(positions[r]), config_.head_dim / 2);
        for (std::int32_t h = 0; h < kv_heads_.size(); ++h) {
            float const* const key = keys + size(h) * dim;
            cache_.write(l, h, length_ - count + static_cast<std::int32_t>(r), key, key + size(kv_heads_.size()) * dim);
        }
    }
    for (std::int32_t h = 0; h < heads_.size(); ++h) {
        std::int32_t const read = (heads_.begin + h) / (config_.heads / config_.kv_heads) - kv_heads_.begin;
        tokens_.clear();
        for (std::size_t r = 0; r < positions.size(); ++r)
            tokens_.push_back({qkv_.data() + r * width + size(h) * dim, inner_.data() + r * dim, attended_.of(r).data(),
                               attended_.of(r).size()});
        kernels::attend(cache_.view(l, read), tokens_, 1, scores_.data());
        multiply(*of.out[size(h)], inner_.data(), count, parts_.data() + size(h) * size(count) * size(config_.hidden));
    }
}

/// One term for each block of this rank.
void sharded_transformer::feed_forward(layer const& of, std::int32_t count) {
    for (std::int32_t b = 0; b < heads_.size(); ++b) {
        std::int32_t const width = block_of(heads_.begin + b).size();
        inner_.resize(size(count) * 2 * size(width));
        activation_.resize(size(count) * size(width));
        multiply(*of.gate_up[size(b)], normed_.data(), count, inner_.data());
        for (std::size_t r = 0; r < size(count); ++r)
            kernels::gated(inner_.data() + r * 2 * size(width), width, activation_.data() + r * size(width));
        multiply(*of.down[size(b)], activation_.data(), count,
                 parts_.data() + size(b) * size(count) * size(config_.hidden));
    }
}

/// The sum of the terms of all ranks, in an order that does not depend on the number of ranks.
float const* sharded_transformer::sum_over_ranks(std::int32_t count) {
    std::size_t const n = size(count) * size(config_.hidden);
    add_by_halves(parts_.data(), heads_.size(), n);
    if (ranks_.size() == 1) return parts_.data();
    std::size_t const bytes = n * sizeof(float);
    ranks_.all_gather(parts_.data(), bytes, gathered_.data());
    ++sent_.calls;
    sent_.sent += bytes;
    sent_.received += bytes * size(ranks_.size() - 1);
    add_by_halves(gathered_.data(), ranks_.size(), n);
    return gathered_.data();
}

void sharded_transformer::block(token_batch const& batch, std::int32_t first, std::int32_t count, std::int32_t wanted,
                                float* logits) {
    std::size_t const hidden = size(config_.hidden);
    length_ += count;
    attended_.list(batch, first, count, length_);
    for (std::size_t r = 0; r < size(count); ++r)
        embedding_->read(size(batch.tokens[size(first) + r]) * hidden, {residual_.data() + r * hidden, hidden});
    float const* sum = nullptr;
    for (std::int32_t l = 0; l < config_.layers; ++l) {
        layer const& of = layers_[size(l)];
        normalise(sum, of.attention_norm, count);
        attention(l, batch.positions.subspan(size(first), size(count)));
        sum = sum_over_ranks(count);
        normalise(sum, of.mlp_norm, count);
        feed_forward(of, count);
        sum = sum_over_ranks(count);
    }
    if (wanted == 0 || !head_) return;
    normalise(sum, final_norm_, count);
    multiply(*head_, normed_.data() + size(count - wanted) * hidden, wanted, logits);
}

std::span<float const> sharded_transformer::forward(token_batch const& batch, std::int32_t wanted) {
    auto const n = static_cast<std::int32_t>(batch.tokens.size());
    if (n > capacity_ - length_)
        refuse("tokens.size()", n, "the cache has space for " + std::to_string(capacity_ - length_) + " more entries");
    logits_.resize(size(wanted) * size(columns_.size()));
    float* to = logits_.data();
    for (std::int32_t first = 0; first < n; first += block_rows) {
        std::int32_t const count = std::min(block_rows, n - first);
        std::int32_t const here = std::clamp(first + count - (n - wanted), 0, count);
        block(batch, first, count, here, to);
        to += size(here) * size(columns_.size());
    }
    return logits_;
}

void sharded_transformer::keep(std::int32_t context, std::span<std::int32_t const> entries) {
    for (std::size_t k = 0; k < entries.size(); ++k) {
        std::int32_t const to = context + static_cast<std::int32_t>(k);
        if (context + entries[k] != to) cache_.copy(context + entries[k], to);
    }
    length_ = context + static_cast<std::int32_t>(entries.size());
}

}  // namespace multidraft::examples
