// The example transformer on a device: the layers as launches and products of a machine, which tests replace.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "multidraft/base/float16.hpp"
#include "multidraft/batch/compact_caches.hpp"
#include "transformer/accelerator.hpp"
#include "transformer/device_kernels.hpp"

namespace multidraft::examples::device {

/// A matrix of a model: `outputs` rows of `inputs` numbers, on the device.
struct matrix {
    bfloat16 const* weights = nullptr;
    std::int32_t outputs = 0;
    std::int32_t inputs = 0;
};

// A machine has, for a model:
//
// - `array<T>(n)`: n numbers of device memory, all bits 0, freed with it: `data()`.
// - `upload(to, from, n)`: a copy to the device that is done on return.
//
// and, for a sequence, `M::stream stream(machine)` with
//
// - `launch(kernel, blocks)`: the kernel for every block, after earlier requests.
// - `multiply(matrix, in, out)`: out = in * transposed matrix, for `device_rows` rows, float sums.
// - `record(f)`: a recording of the requests in f; `play(recording)`.
// - `staging(n)`: memory of the host that `fetch(to, from, bytes)` copies from, in order with the rest.
// - `read(to, from, n)`: a copy to the host; `compact(cache, kept)`: see `compact_caches`; `wait()`.

/// The weights and tables of a model on a machine.
template <class Machine>
class weights final : public accelerator_weights, public std::enable_shared_from_this<weights<Machine>> {
public:
    struct layer {
        matrix qkv, out, gate_up, down;
        float const* attention_norm = nullptr;
        float const* mlp_norm = nullptr;
    };

    weights(std::unique_ptr<Machine> on, model_config const& c, tensor_store const& tensors, std::int32_t context_limit,
            std::int32_t entries)
        : config(c), capacity(entries), machine(std::move(on)) {
        if (c.head_dim > largest_head || c.head_dim % 2 != 0)
            throw std::runtime_error("head_dim " + std::to_string(c.head_dim) + ": a device takes even ones up to " +
                                     std::to_string(largest_head));
        std::int32_t const query = c.heads * c.head_dim;
        std::int32_t const kv = c.kv_heads * c.head_dim;
        embedding = load(tensors, {{"model.embed_tokens.weight", c.vocabulary}}, c.hidden).weights;
        for (std::int32_t i = 0; i < c.layers; ++i) {
            std::string const at = "model.layers." + std::to_string(i) + ".";
            layers.push_back(
                {load(tensors,
                      {{at + "self_attn.q_proj.weight", query},
                       {at + "self_attn.k_proj.weight", kv},
                       {at + "self_attn.v_proj.weight", kv}},
                      c.hidden),
                 load(tensors, {{at + "self_attn.o_proj.weight", c.hidden}}, query),
                 load(tensors,
                      {{at + "mlp.gate_proj.weight", c.intermediate}, {at + "mlp.up_proj.weight", c.intermediate}},
                      c.hidden),
                 load(tensors, {{at + "mlp.down_proj.weight", c.hidden}}, c.intermediate),
                 load_vector(tensors, at + "input_layernorm.weight"),
                 load_vector(tensors, at + "post_attention_layernorm.weight")});
        }
        final_norm = load_vector(tensors, "model.norm.weight");
        bool const tied = c.tied_head && !tensors.contains("lm_head.weight");
        head = tied ? matrix{embedding, c.vocabulary, c.hidden}
                    : load(tensors, {{"lm_head.weight", c.vocabulary}}, c.hidden);

        std::int32_t const half = c.head_dim / 2;
        std::vector<float> cos_table(static_cast<std::size_t>(context_limit) * static_cast<std::size_t>(half));
        std::vector<float> sin_table(cos_table.size());
        for (std::int32_t i = 0; i < half; ++i) {
            float const exponent = static_cast<float>(2 * i) / static_cast<float>(c.head_dim);
            float const frequency = 1.0F / std::pow(c.rope_theta, exponent);
            for (std::int32_t position = 0; position < context_limit; ++position) {
                auto const at =
                    static_cast<std::size_t>(position) * static_cast<std::size_t>(half) + static_cast<std::size_t>(i);
                float const angle = static_cast<float>(position) * frequency;
                cos_table[at] = std::cos(angle);
                sin_table[at] = std::sin(angle);
            }
        }
        cosines = put(cos_table);
        sines = put(sin_table);
    }

    [[nodiscard]] std::unique_ptr<accelerator_sequence> start() const override;

    model_config config;
    std::int32_t capacity;
    std::unique_ptr<Machine> machine;
    std::vector<layer> layers;
    bfloat16 const* embedding = nullptr;
    matrix head;
    float const* final_norm = nullptr;
    float const* cosines = nullptr;
    float const* sines = nullptr;

private:
    template <class T>
    [[nodiscard]] T const* put(std::vector<T> const& values) {
        T* const to = machine->template array<T>(values.size());
        machine->upload(to, values.data(), values.size());
        return to;
    }

    /// The named matrices, one under the other.
    [[nodiscard]] matrix load(tensor_store const& tensors,
                              std::vector<std::pair<std::string, std::int32_t>> const& parts, std::int32_t inputs) {
        std::vector<bfloat16> all;
        std::vector<float> row(static_cast<std::size_t>(inputs));
        std::int32_t outputs = 0;
        for (auto const& [name, rows] : parts) {
            tensor_view const& tensor = tensors.get(name, {rows, inputs});
            for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
                tensor.read(r * row.size(), row);
                for (float const x : row) all.push_back(bfloat16(x));
            }
            outputs += rows;
        }
        return {put(all), outputs, inputs};
    }

    [[nodiscard]] float const* load_vector(tensor_store const& tensors, std::string const& name) {
        std::vector<float> values(static_cast<std::size_t>(config.hidden));
        tensors.get(name, {config.hidden}).read(0, values);
        return put(values);
    }
};

/// A sequence on a machine.
template <class Machine>
class sequence final : public accelerator_sequence {
public:
    explicit sequence(std::shared_ptr<weights<Machine> const> model)
        : model_(std::move(model)), stream_(*model_->machine), row_words_((model_->capacity + 63) / 64) {
        model_config const& c = model_->config;
        auto const rows = static_cast<std::size_t>(device_rows);
        auto const at = [](std::int32_t n) { return static_cast<std::size_t>(n); };
        plane_ = at(c.kv_heads) * at(model_->capacity) * at(c.head_dim);
        cache_ = stream_.template array<float>(2 * at(c.layers) * plane_);
        residual_ = stream_.template array<float>(rows * at(c.hidden));
        update_ = stream_.template array<float>(rows * at(c.hidden));
        qkv_ = stream_.template array<float>(rows * at((c.heads + 2 * c.kv_heads) * c.head_dim));
        gate_up_ = stream_.template array<float>(rows * at(2 * c.intermediate));
        logits_ = stream_.template array<float>(rows * at(c.vocabulary));
        normed_ = stream_.template array<bfloat16>(rows * at(c.hidden));
        attention_ = stream_.template array<bfloat16>(rows * at(c.heads * c.head_dim));
        activation_ = stream_.template array<bfloat16>(rows * at(c.intermediate));
        entries_ = stream_.template array<std::int32_t>(rows * at(model_->capacity));
        counts_ = stream_.template array<std::int32_t>(rows);

        // The host's description of a block, in one piece: the step, tokens, positions, mask.
        words_at_ = sizeof(step) + 2 * rows * sizeof(std::int32_t);
        told_bytes_ = words_at_ + rows * at(row_words_) * sizeof(std::uint64_t);
        told_ = stream_.template array<std::byte>(told_bytes_);
        said_ = stream_.staging(std::max(told_bytes_, (at(model_->capacity) + 4) * sizeof(std::int64_t)));
        kept_ = stream_.template array<std::int64_t>(at(model_->capacity) + 4);
    }

    void forward(device_block const& block, std::span<float> logits) override {
        stream_.wait();  // the description is no longer read
        auto const rows = static_cast<std::int32_t>(block.tokens.size());
        std::int32_t const words = (block.first + rows - block.context + 63) / 64;
        *reinterpret_cast<step*>(said_) = {rows, block.first, block.context, words};
        auto* const tokens = reinterpret_cast<std::int32_t*>(said_ + sizeof(step));
        std::copy(block.tokens.begin(), block.tokens.end(), tokens);
        std::copy(block.positions.begin(), block.positions.end(), tokens + device_rows);
        auto* const mask = reinterpret_cast<std::uint64_t*>(said_ + words_at_);
        for (std::int32_t r = 0; r < rows; ++r)
            std::copy_n(block.words + r * block.row_words, words, mask + r * row_words_);
        if (!recorded_) {
            recording_ = stream_.record([&] { layers(); });
            recorded_ = true;
        }
        stream_.play(recording_);
        auto const vocabulary = static_cast<std::size_t>(model_->config.vocabulary);
        std::size_t const wanted = logits.size() / vocabulary;
        if (wanted > 0)
            stream_.read(logits.data(), logits_ + (static_cast<std::size_t>(rows) - wanted) * vocabulary,
                         logits.size());
        stream_.wait();
    }

    void keep(std::int32_t context, std::span<std::int32_t const> entries) override {
        if (entries.empty()) return;
        stream_.wait();
        // The base, the count, the entries.
        auto const header = 2 * sizeof(std::int64_t);
        auto* const numbers = reinterpret_cast<std::int64_t*>(said_);
        numbers[0] = context;
        numbers[1] = 0;
        auto* const kept = reinterpret_cast<std::int32_t*>(said_ + sizeof(std::int64_t));
        kept[0] = static_cast<std::int32_t>(entries.size());
        std::copy(entries.begin(), entries.end(), reinterpret_cast<std::int32_t*>(said_ + header));
        stream_.fetch(kept_, said_, header + entries.size() * sizeof(std::int32_t));
        model_config const& c = model_->config;
        contiguous_cache cache;
        cache.data = cache_;
        cache.entry_bytes = static_cast<std::int64_t>(sizeof(float)) * c.head_dim;
        cache.entry_stride = cache.entry_bytes;
        cache.axes[0] = {2 * std::int64_t{c.layers} * c.kv_heads, cache.entry_bytes * model_->capacity};
        auto const* const base = reinterpret_cast<std::int64_t const*>(kept_);
        auto const* const small = reinterpret_cast<std::int32_t const*>(kept_);
        stream_.compact(cache, kept_batch{1, small + 4, static_cast<std::int64_t>(entries.size()), small + 2, base, 0});
    }

private:
    [[nodiscard]] layer_cache cache_of(std::int32_t layer) const {
        float* const keys = cache_ + 2 * static_cast<std::size_t>(layer) * plane_;
        return {keys, keys + plane_};
    }

    /// All launches for a block of tokens, independent of their number, which every launch reads from the step.
    void layers() {
        weights<Machine> const& m = *model_;
        model_config const& c = m.config;
        stream_.fetch(told_, said_, told_bytes_);
        auto const* const now = reinterpret_cast<step const*>(told_);
        auto const* const tokens = reinterpret_cast<std::int32_t const*>(told_ + sizeof(step));
        auto const* const words = reinterpret_cast<std::uint64_t const*>(told_ + words_at_);
        stream_.launch(list_entries{now, words, row_words_, entries_, counts_, m.capacity}, device_rows);
        stream_.launch(embed{now, tokens, m.embedding, residual_, c.hidden}, device_rows);
        float const* pending = nullptr;
        auto const normalise = [&](float const* scale) {
            stream_.launch(norm{now, pending, scale, residual_, normed_, c.hidden, c.rms_norm_eps}, device_rows);
            pending = update_;
        };
        float const scale = 1.0F / std::sqrt(static_cast<float>(c.head_dim));
        for (std::int32_t l = 0; l < c.layers; ++l) {
            auto const& layer = m.layers[static_cast<std::size_t>(l)];
            normalise(layer.attention_norm);
            stream_.multiply(layer.qkv, normed_, qkv_);
            stream_.launch(rotate_and_cache{now, tokens + device_rows, m.cosines, m.sines, qkv_, cache_of(l), c.heads,
                                            c.kv_heads, c.head_dim, m.capacity},
                           device_rows);
            stream_.launch(attend{now, entries_, counts_, qkv_, cache_of(l), attention_, c.heads, c.kv_heads,
                                  c.head_dim, m.capacity, scale},
                           device_rows * c.heads);
            stream_.multiply(layer.out, attention_, update_);
            normalise(layer.mlp_norm);
            stream_.multiply(layer.gate_up, normed_, gate_up_);
            stream_.launch(gated{now, gate_up_, activation_, c.intermediate}, device_rows);
            stream_.multiply(layer.down, activation_, update_);
        }
        normalise(m.final_norm);
        stream_.multiply(m.head, normed_, logits_);
    }

    std::shared_ptr<weights<Machine> const> model_;
    typename Machine::stream stream_;
    std::int32_t row_words_;
    std::size_t plane_ = 0;
    std::size_t words_at_ = 0;
    std::size_t told_bytes_ = 0;
    float* cache_ = nullptr;
    float *residual_ = nullptr, *update_ = nullptr, *qkv_ = nullptr, *gate_up_ = nullptr, *logits_ = nullptr;
    bfloat16 *normed_ = nullptr, *attention_ = nullptr, *activation_ = nullptr;
    std::int32_t *entries_ = nullptr, *counts_ = nullptr;
    std::byte *told_ = nullptr, *said_ = nullptr;
    std::int64_t* kept_ = nullptr;
    bool recorded_ = false;
    typename Machine::stream::recording recording_{};
};

template <class Machine>
std::unique_ptr<accelerator_sequence> weights<Machine>::start() const {
    return std::make_unique<sequence<Machine>>(this->shared_from_this());
}

}  // namespace multidraft::examples::device
