#include "transformer/transformer.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "multidraft/core/error.hpp"
#include "transformer/kernels.hpp"
#include "transformer/matmul.hpp"
#include "transformer/safetensors.hpp"

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace multidraft::examples {
namespace {

using kernels::bfloat16;
using kernels::lanes;
using kernels::round_up;

/// Tokens that go through the layers together; longer batches go in blocks of so many.
constexpr std::int32_t block_rows = 64;

/// Rows of the buffers: `matmul` may pad up to twice the block.
constexpr std::size_t buffer_rows = 2 * block_rows;

/// Models with fewer bytes of weights run on one thread unless told otherwise. Their matrix products take 2 to 50 us
/// each, and there are four a layer. Threads that meet so often gain 1.4 times for one token and 1.8 times for 16 where
/// they run at once (7M parameters, 2 cores), but lose a hundredfold where another program holds one of the cores: not
/// what a default may risk.
constexpr std::size_t small_model_bytes = std::size_t{64} << 20U;

std::size_t size(std::int64_t n) noexcept { return static_cast<std::size_t>(n); }

bool native_bf16() noexcept {
    // The values of the instruction sets are bit masks, each including what it builds on.
    auto const have = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
    auto const need = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
    return (have & need) == need;
}

/// Calls f(i, thread) for i in [0, n), by that many threads.
template <class F>
void for_each(std::int32_t n, [[maybe_unused]] int threads, F const& f) {
#if defined(_OPENMP)
    if (threads > 1) {
#pragma omp parallel for schedule(static) num_threads(threads)
        for (std::int32_t i = 0; i < n; ++i) f(i, static_cast<std::size_t>(omp_get_thread_num()));
        return;
    }
#endif
    for (std::int32_t i = 0; i < n; ++i) f(i, std::size_t{0});
}

}  // namespace

struct transformer_weights::implementation {
    struct layer {
        dnnl::memory qkv, out, gate_up, down;
        std::vector<float> attention_norm, mlp_norm;
    };

    implementation(std::filesystem::path const& directory, transformer_options const& options);

    [[nodiscard]] std::int32_t query_width() const noexcept { return config.heads * config.head_dim; }
    [[nodiscard]] std::int32_t kv_width() const noexcept { return config.kv_heads * config.head_dim; }
    [[nodiscard]] bool narrow() const noexcept { return type == dnnl::memory::data_type::bf16; }

    /// The named matrices, one under the other, packed for `products`.
    [[nodiscard]] dnnl::memory pack(matmul const& products,
                                    std::vector<std::pair<std::string, std::int32_t>> const& parts);
    [[nodiscard]] std::vector<float> vector(std::string const& name) const;
    /// Packs the matrices for the CPU.
    void pack_all(std::string const& head_name);

    /// Refuses a batch, or a number of logits, that makes no sense for a cache of that length.
    void check(token_batch const& batch, std::size_t logits, std::int32_t length) const;

    model_config config;
    tensor_store tensors;
    dnnl::engine engine{dnnl::engine::kind::cpu, 0};
    dnnl::memory::data_type type = dnnl::memory::data_type::f32;
    int threads = 1;
    std::int32_t context_limit = 0;
    std::int32_t capacity = 0;  ///< entries of a cache
    std::int64_t parameters = 0;

    tensor_view const* embedding = nullptr;
    std::optional<matmul> qkv, out, gate_up, down, head;
    std::vector<layer> layers;
    std::vector<float> final_norm;
    dnnl::memory head_weights;
    std::vector<float> cosines, sines;  ///< a row of head_dim / 2 a position
    std::size_t bytes_per_step = 0;
    std::shared_ptr<accelerator_weights const> device;  ///< null on the CPU
};

transformer_weights::implementation::implementation(std::filesystem::path const& directory,
                                                    transformer_options const& options)
    : config(read_config(directory / "config.json")), tensors(tensor_store::open(directory)) {
    if (options.threads < 0) refuse("options.threads", options.threads, "must not be negative");
    if (options.tree_entries < 0 || options.tree_entries > (1 << 20)) {
        refuse("options.tree_entries", options.tree_entries, "must be in [0, 2^20]");
    }
    if (options.context_limit < 0 || options.context_limit > config.max_positions) {
        refuse("options.context_limit", options.context_limit,
               "must be in [0, " + std::to_string(config.max_positions) + "], the model's max_position_embeddings");
    }
    context_limit = options.context_limit == 0 ? config.max_positions : options.context_limit;
    if (context_limit > (1 << 24)) {
        refuse("options.context_limit", context_limit, "at most 2^24 positions: set a smaller limit");
    }
    capacity = round_up(context_limit + options.tree_entries, kernels::key_block);

    bool const bf16 = options.accelerator || options.numbers == precision::bf16 ||
                      (options.numbers == precision::automatic && native_bf16());
    type = bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;

    std::int32_t const hidden = config.hidden;
    std::int32_t const qkv_width = query_width() + 2 * kv_width();
    std::int64_t const matrices =
        std::int64_t{config.layers} * hidden *
            (std::int64_t{qkv_width} + query_width() + 3 * std::int64_t{config.intermediate}) +
        std::int64_t{config.vocabulary} * hidden;
    threads = options.accelerator                                   ? 1
              : options.threads != 0                                ? options.threads
              : size(matrices) * (bf16 ? 2 : 4) < small_model_bytes ? 1
                                                                    : available_threads();
    thread_scope const scope(threads);
    std::string const head_name =
        config.tied_head && !tensors.contains("lm_head.weight") ? "model.embed_tokens.weight" : "lm_head.weight";
    // Shapes are checked before the first matrix is packed.
    (void)tensors.get(head_name, {config.vocabulary, hidden});
    embedding = &tensors.get("model.embed_tokens.weight", {config.vocabulary, hidden});
    final_norm = vector("model.norm.weight");
    parameters = matrices + hidden + 2 * std::int64_t{hidden} * config.layers +
                 (config.tied_head ? 0 : std::int64_t{config.vocabulary} * hidden);
    if (options.accelerator) {
        device = options.accelerator(config, tensors, context_limit, capacity);
        bytes_per_step = size(matrices) * 2;
        return;
    }
    pack_all(head_name);
}

void transformer_weights::implementation::pack_all(std::string const& head_name) {
    std::int32_t const hidden = config.hidden;
    std::int32_t const qkv_width = query_width() + 2 * kv_width();
    try {
        qkv.emplace(engine, hidden, qkv_width, type, block_rows);
        out.emplace(engine, query_width(), hidden, type, block_rows);
        gate_up.emplace(engine, hidden, 2 * config.intermediate, type, block_rows);
        down.emplace(engine, config.intermediate, hidden, type, block_rows);
        head.emplace(engine, hidden, config.vocabulary, type, block_rows);
    } catch (dnnl::error const& e) {
        throw std::runtime_error(std::string("oneDNN, matrix products in ") + (narrow() ? "bf16" : "f32") + ": " +
                                 e.what());
    }
    for (std::int32_t i = 0; i < config.layers; ++i) {
        std::string const prefix = "model.layers." + std::to_string(i) + ".";
        layers.push_back({pack(*qkv, {{prefix + "self_attn.q_proj.weight", query_width()},
                                      {prefix + "self_attn.k_proj.weight", kv_width()},
                                      {prefix + "self_attn.v_proj.weight", kv_width()}}),
                          pack(*out, {{prefix + "self_attn.o_proj.weight", hidden}}),
                          pack(*gate_up, {{prefix + "mlp.gate_proj.weight", config.intermediate},
                                          {prefix + "mlp.up_proj.weight", config.intermediate}}),
                          pack(*down, {{prefix + "mlp.down_proj.weight", hidden}}),
                          vector(prefix + "input_layernorm.weight"),
                          vector(prefix + "post_attention_layernorm.weight")});
    }
    head_weights = pack(*head, {{head_name, config.vocabulary}});
    bytes_per_step = size(config.layers) *
                         (qkv->packed_bytes() + out->packed_bytes() + gate_up->packed_bytes() + down->packed_bytes()) +
                     head->packed_bytes();

    // Angles as Hugging Face has them: products of floats.
    std::int32_t const half = config.head_dim / 2;
    cosines.resize(size(context_limit) * size(half));
    sines.resize(cosines.size());
    for (std::int32_t i = 0; i < half; ++i) {
        float const exponent = static_cast<float>(2 * i) / static_cast<float>(config.head_dim);
        float const frequency = 1.0F / std::pow(config.rope_theta, exponent);
        for (std::int32_t position = 0; position < context_limit; ++position) {
            float const angle = static_cast<float>(position) * frequency;
            cosines[size(position) * size(half) + size(i)] = std::cos(angle);
            sines[size(position) * size(half) + size(i)] = std::sin(angle);
        }
    }
}

void transformer_weights::implementation::check(token_batch const& batch, std::size_t logit_count,
                                                std::int32_t length) const {
    std::size_t const n = batch.tokens.size();
    std::size_t const vocabulary = size(config.vocabulary);
    if (batch.positions.size() != n) {
        refuse("positions.size()", batch.positions.size(), "must be that of tokens, " + std::to_string(n));
    }
    if (batch.context < 0 || batch.context > length) {
        refuse("context", batch.context, "must be in [0, " + std::to_string(length) + "], the length of the cache");
    }
    if (n > size(capacity - length)) {
        refuse("tokens.size()", n,
               "the cache has room for " + std::to_string(capacity - length) + " more entries (" +
                   std::to_string(length) + " of " + std::to_string(capacity) + " are taken)");
    }
    if (logit_count % vocabulary != 0 || logit_count / vocabulary > n) {
        refuse(
            "logits.size()", logit_count,
            "must be a multiple of the vocabulary, " + std::to_string(vocabulary) + ", with at most one row a token");
    }
    for (std::size_t i = 0; i < n; ++i) {
        auto const at = static_cast<std::int64_t>(i);
        if (batch.tokens[i] < 0 || batch.tokens[i] >= config.vocabulary) {
            refuse("tokens", at, batch.tokens[i], "must be in [0, " + std::to_string(vocabulary) + ")");
        }
        if (batch.positions[i] < 0 || batch.positions[i] >= context_limit) {
            refuse("positions", at, batch.positions[i],
                   "must be in [0, " + std::to_string(context_limit) + "), the context limit");
        }
    }
    if (batch.mask.causal()) return;
    std::int64_t const columns = length - batch.context + static_cast<std::int64_t>(n);
    if (batch.mask.row_words < (columns + 63) / 64) {
        refuse("mask.row_words", batch.mask.row_words,
               "a row must have a bit for each of the " + std::to_string(columns) + " entries after the context");
    }
    for (std::size_t i = 0; i < n; ++i) {
        // The token's own bit is set, and none after it.
        std::int64_t const own = length - batch.context + static_cast<std::int64_t>(i);
        std::uint64_t const* const row = batch.mask.words + static_cast<std::int64_t>(i) * batch.mask.row_words;
        bool fits = (row[own / 64] >> (own % 64)) == 1;
        for (std::int64_t word = own / 64 + 1; word < (columns + 63) / 64; ++word) fits = fits && row[word] == 0;
        if (!fits) {
            refuse("mask", static_cast<std::int64_t>(i), "row",
                   "a token must attend to itself, entry " + std::to_string(own) +
                       " after the context, and to none after it");
        }
    }
}

dnnl::memory transformer_weights::implementation::pack(matmul const& products,
                                                       std::vector<std::pair<std::string, std::int32_t>> const& parts) {
    std::size_t const width = size(products.k());
    std::size_t const bytes = narrow() ? 2 : 4;
    aligned_array<std::byte> plain(width * size(products.n()) * bytes);
    std::vector<float> row(width);
    std::byte* to = plain.data();
    for (auto const& [name, rows] : parts) {
        tensor_view const& tensor = tensors.get(name, {rows, products.k()});
        for (std::size_t r = 0; r < size(rows); ++r) {
            tensor.read(r * width, row);
            if (narrow()) {
                for (float const value : row) {
                    bfloat16 const rounded = kernels::to_bfloat16(value);
                    std::memcpy(to, &rounded, 2);
                    to += 2;
                }
            } else {
                std::memcpy(to, row.data(), width * 4);
                to += width * 4;
            }
        }
    }
    return products.pack(engine, plain.data());
}

std::vector<float> transformer_weights::implementation::vector(std::string const& name) const {
    std::vector<float> values(size(config.hidden));
    tensors.get(name, {config.hidden}).read(0, values);
    return values;
}

transformer_weights::transformer_weights(std::filesystem::path const& directory, transformer_options const& options)
    : implementation_(std::make_unique<implementation const>(directory, options)) {}
transformer_weights::~transformer_weights() = default;

model_config const& transformer_weights::config() const noexcept { return implementation_->config; }
std::int32_t transformer_weights::context_limit() const noexcept { return implementation_->context_limit; }
int transformer_weights::threads() const noexcept { return implementation_->threads; }
precision transformer_weights::numbers() const noexcept {
    return implementation_->narrow() ? precision::bf16 : precision::f32;
}
std::size_t transformer_weights::bytes_per_step() const { return implementation_->bytes_per_step; }
std::int64_t transformer_weights::parameters() const noexcept { return implementation_->parameters; }

std::string transformer_weights::description() const {
    auto const& w = *implementation_;
    if (w.device) return "on a device, bf16\n";
    std::string text;
    std::pair<char const*, matmul const*> const products[] = {
        {"qkv", &*w.qkv}, {"out", &*w.out}, {"gate_up", &*w.gate_up}, {"down", &*w.down}, {"head", &*w.head}};
    for (auto const& [name, product] : products) {
        text += std::string(name) + " " + std::to_string(product->k()) + " x " + std::to_string(product->n()) + ": " +
                product->implementation() + ", rows";
        for (std::int32_t const rows : product->row_counts()) (text += ' ') += std::to_string(rows);
        text += "\n";
    }
    return text;
}

struct transformer::state {
    using model = transformer_weights::implementation;

    explicit state(std::shared_ptr<transformer_weights const> weights);

    [[nodiscard]] std::size_t key_head(std::int32_t layer, std::int32_t head) const noexcept {
        return (size(layer) * size(w.config.kv_heads) + size(head)) * size(w.capacity) * size(w.config.head_dim);
    }
    [[nodiscard]] std::size_t value_head(std::int32_t layer, std::int32_t head) const noexcept {
        return (size(layer) * size(w.config.kv_heads) + size(head)) * size(w.capacity) * padded_dim;
    }
    /// Where, inside its head, an entry's key begins; its numbers are `lanes` apart.
    [[nodiscard]] std::size_t key_entry(std::int32_t entry) const noexcept {
        return size(entry / lanes) * size(w.config.head_dim) * lanes + size(entry % lanes);
    }

    void list_attended(token_batch const& batch, std::int32_t first, std::int32_t rows);
    void rotate_and_cache(std::int32_t layer, std::span<std::int32_t const> positions);
    template <class T>
    void block(token_batch const& batch, std::int32_t first, std::int32_t rows, std::int32_t wanted, float* logits);
    void copy_entry(std::int32_t from, std::int32_t to) noexcept;

    std::shared_ptr<transformer_weights const> shared;
    model const& w;
    std::size_t padded_dim;
    std::size_t input_bytes;  ///< of one number that a matrix product reads
    dnnl::stream stream;
    std::int32_t length = 0;

    aligned_array<float> keys, values;
    // Rows of the block on its way through the layers.
    aligned_array<float> residual, qkv, update, gate_up, logits;
    aligned_array<std::byte> normed, attention, activation, scratchpad;
    aligned_array<float> scores;
    std::size_t scores_per_thread;
    matmul::binding qkv_product, out_product, gate_up_product, down_product, head_product;

    std::vector<float> shown;            ///< the hidden states of the last call's logits
    std::vector<kernels::run> runs;      ///< what the rows attend to, row after row
    std::vector<std::size_t> run_begin;  ///< where each row's runs begin, and the end
};

transformer::state::state(std::shared_ptr<transformer_weights const> weights)
    : shared(std::move(weights)),
      w(*shared->implementation_),
      padded_dim(size(round_up(w.config.head_dim, lanes))),
      input_bytes(w.narrow() ? 2 : 4),
      stream(w.engine),
      keys(key_head(w.config.layers, 0)),
      values(value_head(w.config.layers, 0)),
      residual(buffer_rows * size(w.config.hidden)),
      qkv(buffer_rows * size(w.qkv->n())),
      update(buffer_rows * size(w.config.hidden)),
      gate_up(buffer_rows * size(w.gate_up->n())),
      logits(buffer_rows * size(w.config.vocabulary)),
      normed(buffer_rows * size(w.config.hidden) * input_bytes),
      attention(buffer_rows * size(w.query_width()) * input_bytes),
      activation(buffer_rows * size(w.config.intermediate) * input_bytes),
      scratchpad(std::max({w.qkv->scratchpad_bytes(), w.out->scratchpad_bytes(), w.gate_up->scratchpad_bytes(),
                           w.down->scratchpad_bytes(), w.head->scratchpad_bytes(), std::size_t{64}})),
      scores_per_thread(kernels::attention_scratch(w.capacity, w.config.head_dim)),
      qkv_product(w.engine, *w.qkv, normed.data(), qkv.data(), scratchpad.data()),
      out_product(w.engine, *w.out, attention.data(), update.data(), scratchpad.data()),
      gate_up_product(w.engine, *w.gate_up, normed.data(), gate_up.data(), scratchpad.data()),
      down_product(w.engine, *w.down, activation.data(), update.data(), scratchpad.data()),
      head_product(w.engine, *w.head, normed.data(), logits.data(), scratchpad.data()),
      run_begin(block_rows + 1) {
    scores = aligned_array<float>(scores_per_thread * size(w.threads));
    runs.reserve(size(block_rows) * 16);
}

void transformer::state::list_attended(token_batch const& batch, std::int32_t first, std::int32_t rows) {
    runs.clear();
    // The block's own entries are in the cache by now, so row r is entry `length - rows + r`.
    for (std::int32_t r = 0; r < rows; ++r) {
        std::size_t const begin = runs.size();
        run_begin[size(r)] = begin;
        std::int32_t const own = length - rows + r;
        if (batch.mask.causal()) {
            runs.push_back({0, own + 1});
            continue;
        }
        if (batch.context > 0) runs.push_back({0, batch.context});
        std::uint64_t const* const row = batch.mask.words + std::int64_t{first + r} * batch.mask.row_words;
        for (std::int32_t word = 0; word <= (own - batch.context) / 64; ++word) {
            for (std::uint64_t left = row[word]; left != 0;) {
                int const bit = std::countr_zero(left);
                int const count = std::countr_one(left >> bit);
                std::int32_t const entry = batch.context + 64 * word + bit;
                if (runs.size() > begin && runs.back().first + runs.back().count == entry) {
                    runs.back().count += count;
                } else {
                    runs.push_back({entry, count});
                }
                left = bit + count == 64 ? 0 : left & (~std::uint64_t{0} << (bit + count));
            }
        }
    }
    run_begin[size(rows)] = runs.size();
}

void transformer::state::rotate_and_cache(std::int32_t layer, std::span<std::int32_t const> positions) {
    std::int32_t const dim = w.config.head_dim;
    std::int32_t const half = dim / 2;
    std::int32_t const first = length - static_cast<std::int32_t>(positions.size());
    for (std::size_t r = 0; r < positions.size(); ++r) {
        float const* const cosines = w.cosines.data() + size(positions[r]) * size(half);
        float const* const sines = w.sines.data() + size(positions[r]) * size(half);
        float* head = qkv.data() + r * size(w.qkv->n());
        for (std::int32_t h = 0; h < w.config.heads + w.config.kv_heads; ++h) {
            kernels::rotate(head + size(h) * size(dim), cosines, sines, half);
        }
        head += w.query_width();
        std::int32_t const entry = first + static_cast<std::int32_t>(r);
        for (std::int32_t h = 0; h < w.config.kv_heads; ++h, head += dim) {
            float* const key = keys.data() + key_head(layer, h) + key_entry(entry);
            for (std::int32_t d = 0; d < dim; ++d) key[d * lanes] = head[d];
            std::memcpy(values.data() + value_head(layer, h) + size(entry) * padded_dim, head + w.kv_width(),
                        size(dim) * sizeof(float));
        }
    }
}

template <class T>
void transformer::state::block(token_batch const& batch, std::int32_t first, std::int32_t rows, std::int32_t wanted,
                               float* wanted_logits) {
    model_config const& c = w.config;
    std::size_t const hidden = size(c.hidden);
    auto* const norm_rows = reinterpret_cast<T*>(normed.data());
    auto* const attention_rows = reinterpret_cast<T*>(attention.data());
    auto* const activation_rows = reinterpret_cast<T*>(activation.data());
    std::span<std::int32_t const> const positions = batch.positions.subspan(size(first), size(rows));

    length += rows;
    list_attended(batch, first, rows);
    for (std::size_t r = 0; r < size(rows); ++r) {
        w.embedding->read(size(batch.tokens[size(first) + r]) * hidden, {residual.data() + r * hidden, hidden});
    }

    float const* pending = nullptr;  // what the layer before adds to the residual
    auto const normalise = [&](std::vector<float> const& scale, std::int32_t count) {
        for (std::size_t r = 0; r < size(count); ++r) {
            kernels::norm(residual.data() + r * hidden, pending == nullptr ? nullptr : pending + r * hidden,
                          scale.data(), c.hidden, c.rms_norm_eps, norm_rows + r * hidden);
        }
        pending = update.data();
    };

    std::int32_t skipped = 0;  // rows in front that nobody asks for any more
    std::int32_t const queries = c.heads / c.kv_heads;
    float const scale = 1.0F / std::sqrt(static_cast<float>(c.head_dim));
    for (std::int32_t l = 0; l < c.layers; ++l) {
        model::layer const& layer = w.layers[size(l)];
        normalise(layer.attention_norm, rows);
        qkv_product.run(stream, layer.qkv, rows);
        rotate_and_cache(l, positions);
        if (l + 1 == c.layers) {
            // Of the other tokens only the cache entries were needed.
            if (wanted == 0) return;
            skipped = rows - wanted;
            if (skipped != 0) {
                std::memmove(residual.data(), residual.data() + size(skipped) * hidden,
                             size(wanted) * hidden * sizeof(float));
            }
        }
        std::int32_t const left = rows - skipped;
        // Threads for some 10 us of work, or not at all.
        std::int64_t const attention_work = std::int64_t{left} * length * w.query_width();
        for_each(left * c.kv_heads, attention_work > 150'000 ? w.threads : 1, [&](std::int32_t i, std::size_t thread) {
            std::int32_t const r = i / c.kv_heads;
            std::int32_t const h = i % c.kv_heads;
            std::size_t const row = size(skipped + r);
            std::size_t const head = size(h) * size(queries) * size(c.head_dim);
            kernels::attend({keys.data() + key_head(l, h), values.data() + value_head(l, h), c.head_dim, scale},
                            qkv.data() + row * size(w.qkv->n()) + head, queries,
                            std::span(runs).subspan(run_begin[row], run_begin[row + 1] - run_begin[row]),
                            scores.data() + thread * scores_per_thread,
                            attention_rows + size(r) * size(w.query_width()) + head);
        });
        out_product.run(stream, layer.out, left);
        normalise(layer.mlp_norm, left);
        gate_up_product.run(stream, layer.gate_up, left);
        std::int64_t const gate_work = std::int64_t{left} * c.intermediate;
        for_each(left, gate_work > 4'000 ? w.threads : 1, [&](std::int32_t r, std::size_t) {
            kernels::gated(gate_up.data() + size(r) * size(w.gate_up->n()), c.intermediate,
                           activation_rows + size(r) * size(c.intermediate));
        });
        down_product.run(stream, layer.down, left);
    }
    normalise(w.final_norm, wanted);
    for (std::size_t i = 0; i < size(wanted) * hidden; ++i) {
        if constexpr (std::is_same_v<T, float>)
            shown.push_back(norm_rows[i]);
        else
            shown.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(norm_rows[i]) << 16U));
    }
    head_product.run(stream, w.head_weights, wanted, wanted_logits);
}

void transformer::state::copy_entry(std::int32_t from, std::int32_t to) noexcept {
    for (std::int32_t l = 0; l < w.config.layers; ++l) {
        for (std::int32_t h = 0; h < w.config.kv_heads; ++h) {
            float* const head_keys = keys.data() + key_head(l, h);
            float const* const source = head_keys + key_entry(from);
            float* const target = head_keys + key_entry(to);
            for (std::int32_t d = 0; d < w.config.head_dim; ++d) target[d * lanes] = source[d * lanes];
            float* const head_values = values.data() + value_head(l, h);
            std::memcpy(head_values + size(to) * padded_dim, head_values + size(from) * padded_dim,
                        padded_dim * sizeof(float));
        }
    }
}

/// A sequence whose layers run on a device.
struct device_sequence {
    using model = transformer_weights::implementation;

    explicit device_sequence(std::shared_ptr<transformer_weights const> weights)
        : shared(std::move(weights)),
          w(*shared->implementation_),
          on(w.device->start()),
          row_words((w.capacity + 63) / 64),
          words(size(device_rows) * size(row_words)) {}

    void forward(token_batch const& batch, std::span<float> logits) {
        auto const n = static_cast<std::int32_t>(batch.tokens.size());
        std::size_t const vocabulary = size(w.config.vocabulary);
        std::int32_t const unwanted = n - static_cast<std::int32_t>(logits.size() / vocabulary);
        for (std::int32_t begin = 0; begin < n; begin += device_rows) {
            std::int32_t const rows = std::min(device_rows, n - begin);
            std::int32_t const wanted = std::clamp(begin + rows - unwanted, 0, rows);
            device_block block{batch.tokens.subspan(size(begin), size(rows)),
                               batch.positions.subspan(size(begin), size(rows)), length};
            if (batch.mask.causal()) {
                // Everything before the block, and of the block itself what comes no later.
                block.context = length;
                for (std::int32_t r = 0; r < rows; ++r) words[size(r)] = ~std::uint64_t{0} >> (63 - r);
                block.words = words.data();
                block.row_words = 1;
            } else {
                block.context = batch.context;
                block.words = batch.mask.words + std::int64_t{begin} * batch.mask.row_words;
                block.row_words = batch.mask.row_words;
                // A row may have fewer words than the block's last one, and its later ones are not the caller's to set.
                std::int32_t const wide = (length + rows - batch.context + 63) / 64;
                for (std::int32_t r = 0; r < rows; ++r) {
                    std::int32_t const own = (length + r - batch.context) / 64 + 1;
                    std::uint64_t* const to = words.data() + size(r) * size(row_words);
                    std::copy_n(block.words + r * block.row_words, own, to);
                    std::fill(to + own, to + wide, std::uint64_t{0});
                }
                block.words = words.data();
                block.row_words = row_words;
            }
            length += rows;
            on->forward(block, logits.first(size(begin + rows - std::min(unwanted, begin + rows)) * vocabulary)
                                   .last(size(wanted) * vocabulary));
        }
    }

    std::shared_ptr<transformer_weights const> shared;
    model const& w;
    std::unique_ptr<accelerator_sequence> on;
    std::int32_t row_words;
    std::vector<std::uint64_t> words;
    std::int32_t length = 0;
};

transformer::transformer(std::shared_ptr<transformer_weights const> weights) {
    if (weights->implementation_->device)
        device_ = std::make_unique<device_sequence>(std::move(weights));
    else
        state_ = std::make_unique<state>(std::move(weights));
}
transformer::transformer(std::filesystem::path const& directory, transformer_options const& options)
    : transformer(std::make_shared<transformer_weights const>(directory, options)) {}
transformer::~transformer() = default;
transformer::transformer(transformer&&) noexcept = default;
transformer& transformer::operator=(transformer&&) noexcept = default;

std::int32_t transformer::vocabulary() const noexcept { return weights()->implementation_->config.vocabulary; }
std::int32_t transformer::context_limit() const noexcept { return weights()->implementation_->context_limit; }
std::int32_t transformer::length() const noexcept { return device_ ? device_->length : state_->length; }
std::shared_ptr<transformer_weights const> const& transformer::weights() const noexcept {
    return device_ ? device_->shared : state_->shared;
}
std::int32_t transformer::hidden_size() const noexcept { return weights()->config().hidden; }
std::span<float const> transformer::hidden_states() const {
    if (device_) throw std::runtime_error("hidden states are shown by a model on the CPU only");
    return state_->shown;
}

void transformer::forward(token_batch const& batch, std::span<float> logits) {
    weights()->implementation_->check(batch, logits.size(), length());
    if (device_) {
        device_->forward(batch, logits);
        return;
    }
    state& s = *state_;
    s.shown.clear();
    thread_scope const scope(s.w.threads);
    auto const n = static_cast<std::int32_t>(batch.tokens.size());
    std::size_t const vocabulary = size(s.w.config.vocabulary);
    std::int32_t const unwanted = n - static_cast<std::int32_t>(logits.size() / vocabulary);
    for (std::int32_t first = 0; first < n; first += block_rows) {
        std::int32_t const rows = std::min(block_rows, n - first);
        std::int32_t const wanted = std::clamp(first + rows - unwanted, 0, rows);
        float* const to = wanted == 0 ? nullptr : logits.data() + size(first + rows - wanted - unwanted) * vocabulary;
        if (s.w.narrow()) {
            s.block<bfloat16>(batch, first, rows, wanted, to);
        } else {
            s.block<float>(batch, first, rows, wanted, to);
        }
    }
}

void transformer::keep(std::int32_t context, std::span<std::int32_t const> entries) {
    std::int32_t& length = device_ ? device_->length : state_->length;
    if (context < 0 || context > length) {
        refuse("context", context, "must be in [0, " + std::to_string(length) + "], the length of the cache");
    }
    for (std::size_t k = 0; k < entries.size(); ++k) {
        auto const at = static_cast<std::int64_t>(k);
        if (entries[k] < 0 || entries[k] >= length - context) {
            refuse("entries", at, entries[k],
                   "must be in [0, " + std::to_string(length - context) + "), the entries after the context");
        }
        if (k > 0 && entries[k] <= entries[k - 1])
            refuse("entries", at, entries[k], "must be larger than the one before");
    }
    if (device_) {
        device_->on->keep(context, entries);
    } else {
        for (std::size_t k = 0; k < entries.size(); ++k) {
            std::int32_t const to = context + static_cast<std::int32_t>(k);
            if (context + entries[k] != to) state_->copy_entry(context + entries[k], to);
        }
    }
    length = context + static_cast<std::int32_t>(entries.size());
}

}  // namespace multidraft::examples
