#include "transformer/eagle_head.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "multidraft/base/error.hpp"
#include "transformer/aligned_array.hpp"
#include "transformer/attended.hpp"
#include "transformer/attention_groups.hpp"
#include "transformer/call_checks.hpp"
#include "transformer/draft_vocabulary.hpp"
#include "transformer/drafter_products.hpp"
#include "transformer/drafter_tensors.hpp"
#include "transformer/kernels.hpp"
#include "transformer/key_value_cache.hpp"
#include "transformer/linear.hpp"
#include "transformer/rotary.hpp"
#include "transformer/safetensors.hpp"
#include "transformer/team.hpp"
#include "transformer/weights.hpp"

namespace multidraft::examples {
namespace {

std::size_t size(std::int64_t n) noexcept { return static_cast<std::size_t>(n); }

}  // namespace

struct eagle_head_weights::implementation {
    implementation(std::filesystem::path const& directory, std::shared_ptr<transformer_weights const> of,
                   transformer_weights::implementation const& its, transformer_options const& options);

    [[nodiscard]] std::int32_t query_width() const noexcept { return sizes.heads * sizes.head_dim; }
    [[nodiscard]] std::int32_t kv_width() const noexcept { return sizes.kv_heads * sizes.head_dim; }
    [[nodiscard]] std::int32_t feature_size() const noexcept {
        return config.target_hidden * static_cast<std::int32_t>(target_layers.size());
    }

    eagle_head_config config;
    model_config const& sizes;
    std::shared_ptr<transformer_weights const> target;
    transformer_weights::implementation const& of_target;
    tensor_store tensors;
    precision numbers;
    int threads = 1;
    bool chooses_threads = false;
    std::int32_t context_limit = 0;
    std::int32_t capacity = 0;  ///< entries of a cache
    std::int64_t parameters = 0;
    std::size_t bytes_per_step = 0;

    std::vector<std::int32_t> target_layers;
    /// Keys and values are made at every token, queries and what follows only where a state or logits are wanted.
    std::unique_ptr<linear> projection, queries, keys_values, out, gate_up, down, own_head;
    std::vector<float> token_norm, state_norm, mlp_norm, final_norm;
    tensor_view const* embedding = nullptr;
    linear const* head = nullptr;
    draft_vocabulary vocabulary;
    rotary_angles angles;

private:
    void check_target(std::filesystem::path const& directory) const;
    void make_parts(std::filesystem::path const& directory, multiplier by, std::size_t model_bytes);
};

eagle_head_weights::implementation::implementation(std::filesystem::path const& directory,
                                                   std::shared_ptr<transformer_weights const> of,
                                                   transformer_weights::implementation const& its,
                                                   transformer_options const& options)
    : config(read_eagle_head_config(directory / "config.json")),
      sizes(config.layer),
      target(std::move(of)),
      of_target(its),
      tensors(tensor_store::open(directory)),
      numbers(numbers_of_drafter(options.numbers, its.numbers)),
      target_layers(config.target_layers.empty() ? default_eagle_layers(its.config.layers) : config.target_layers) {
    if (options.threads < 0) refuse("options.threads", options.threads, "must not be negative");
    if (options.tree_entries < 0 || options.tree_entries > (1 << 20))
        refuse("options.tree_entries", options.tree_entries, "must be in [0, 2^20]");
    check_target(directory);
    context_limit = std::min(its.context_limit, sizes.max_positions);
    capacity = kernels::round_up(context_limit + options.tree_entries, kernels::lanes);

    std::int64_t const hidden = sizes.hidden;
    std::int64_t const matrices = hidden * (feature_size() + 3 * std::int64_t{query_width()} +
                                            4 * std::int64_t{kv_width()} + 3 * std::int64_t{sizes.intermediate});
    tensor_view const& first = tensors.get("fc.weight", {sizes.hidden, feature_size()});
    std::size_t const of_head = tensors.contains("lm_head.weight")
                                    ? loaded_bytes(size(hidden * config.draft_vocabulary), first.type, numbers)
                                    : its.head->bytes();
    std::size_t const model_bytes = loaded_bytes(size(matrices), first.type, numbers) + of_head;
    chooses_threads = options.threads == 0 && model_bytes >= small_model_bytes;
    threads = options.threads != 0 ? options.threads : chooses_threads ? available_threads() : 1;
    make_parts(directory, options.by, model_bytes);
    angles = rotary_angles(sizes, context_limit);
}

void eagle_head_weights::implementation::check_target(std::filesystem::path const& directory) const {
    model_config const& its = of_target.config;
    auto const expect = [&](bool fits, char const* key, std::int32_t own, std::int32_t of_it, char const* what) {
        if (!fits)
            throw std::runtime_error((directory / "config.json").string() + ": " + key + " = " + std::to_string(own) +
                                     ": the target has " + std::to_string(of_it) + what);
    };
    expect(sizes.vocabulary == its.vocabulary, "vocab_size", sizes.vocabulary, its.vocabulary, " tokens");
    expect(config.target_hidden == its.hidden,
           config.target_hidden == sizes.hidden ? "hidden_size" : "target_hidden_size", config.target_hidden,
           its.hidden, "");
    std::int32_t const layers_of_it = config.layers_of_target;
    expect(layers_of_it == 0 || layers_of_it == its.layers, "num_target_layers", layers_of_it, its.layers, " layers");
    for (std::int32_t const layer : target_layers)
        if (layer < 0 || layer >= its.layers)
            throw std::runtime_error((directory / "config.json").string() + ": reads layer " + std::to_string(layer) +
                                     ", 0 the first: the target has " + std::to_string(its.layers) + " layers");
}

void eagle_head_weights::implementation::make_parts(std::filesystem::path const& directory, multiplier by,
                                                    std::size_t model_bytes) {
    drafter_tensors read(tensors, numbers, by, model_bytes, block_rows,
                         model_bytes < small_model_bytes ? threads : available_threads());
    std::int32_t const hidden = sizes.hidden;
    std::string const at = "midlayer.";
    projection = read.matrix({{"fc.weight", hidden}}, feature_size());
    queries = read.matrix({{at + "self_attn.q_proj.weight", query_width()}}, 2 * hidden);
    keys_values = read.matrix(
        {{at + "self_attn.k_proj.weight", kv_width()}, {at + "self_attn.v_proj.weight", kv_width()}}, 2 * hidden);
    out = read.matrix({{at + "self_attn.o_proj.weight", hidden}}, query_width());
    gate_up = read.matrix(
        {{at + "mlp.gate_proj.weight", sizes.intermediate}, {at + "mlp.up_proj.weight", sizes.intermediate}}, hidden);
    down = read.matrix({{at + "mlp.down_proj.weight", hidden}}, sizes.intermediate);
    token_norm = read.vector(at + "input_layernorm.weight", hidden);
    state_norm = read.vector(at + "hidden_norm.weight", hidden);
    mlp_norm = read.vector(at + "post_attention_layernorm.weight", hidden);
    final_norm = read.vector("norm.weight", hidden);
    bool const fits_target = hidden == of_target.config.hidden;
    embedding = fits_target && !read.has("embed_tokens.weight")
                    ? of_target.embedding
                    : &read.table("embed_tokens.weight", sizes.vocabulary, hidden);
    head = of_target.head.get();
    if (!fits_target || config.draft_vocabulary != sizes.vocabulary || read.has("lm_head.weight")) {
        own_head = read.matrix({{"lm_head.weight", config.draft_vocabulary}}, hidden);
        head = own_head.get();
    }
    vocabulary = draft_vocabulary(directory.string(), read, config.draft_vocabulary, sizes.vocabulary);
    read.expect_no_more();
    parameters = read.parameters();
    bytes_per_step = read.bytes() + (own_head ? 0 : head->bytes());
}

eagle_head_weights::eagle_head_weights(std::filesystem::path const& directory,
                                       std::shared_ptr<transformer_weights const> target,
                                       transformer_options const& options) {
    auto const& of_target = *target->implementation_;
    if (of_target.device || options.accelerator)
        throw std::runtime_error(directory.string() + ": a head of EAGLE-3 and its target run on the CPU only");
    implementation_ = std::make_unique<implementation const>(directory, std::move(target), of_target, options);
}
eagle_head_weights::~eagle_head_weights() = default;

eagle_head_config const& eagle_head_weights::config() const noexcept { return implementation_->config; }
std::span<std::int32_t const> eagle_head_weights::target_layers() const noexcept {
    return implementation_->target_layers;
}
std::int64_t eagle_head_weights::parameters() const noexcept { return implementation_->parameters; }
std::size_t eagle_head_weights::bytes_per_step() const noexcept { return implementation_->bytes_per_step; }

struct eagle_head_model::implementation {
    using weights_type = eagle_head_weights::implementation;

    explicit implementation(std::shared_ptr<eagle_head_weights const> weights)
        : shared(std::move(weights)),
          w(*shared->implementation_),
          cache(1, w.sizes.kv_heads, w.sizes.head_dim, w.capacity, w.of_target.cache),
          projected(size(w.context_limit) * size(w.sizes.hidden)),
          states(size(w.capacity) * size(w.sizes.hidden)),
          attended(block_rows),
          listed(block_rows),
          residual(rows_of(w.sizes.hidden)),
          inputs(rows_of(2 * w.sizes.hidden)),
          normed(rows_of(w.sizes.hidden)),
          update(rows_of(w.sizes.hidden)),
          queries(rows_of(w.query_width())),
          keys_values(rows_of(2 * w.kv_width())),
          attention(rows_of(w.query_width())),
          gate_up(rows_of(2 * w.sizes.intermediate)),
          activation(rows_of(w.sizes.intermediate)),
          short_rows(w.vocabulary.is_whole() ? 0 : rows_of(w.config.draft_vocabulary)),
          scores_per_thread(kernels::attention_scratch(w.capacity, w.sizes.head_dim)),
          scores(scores_per_thread * size(w.threads)),
          products({w.projection.get(), w.queries.get(), w.keys_values.get(), w.out.get(), w.gate_up.get(),
                    w.down.get(), w.head},
                   w.threads, w.chooses_threads) {}

    static std::size_t rows_of(std::int32_t width) noexcept { return drafter_products::rows_of(width); }

    /// The state of an entry, `hidden` numbers.
    [[nodiscard]] float* state(std::int32_t entry) const noexcept {
        return states.data() + size(entry) * size(w.sizes.hidden);
    }

    /// Takes features as the inputs of the tokens after them.
    void project(std::span<float const> features, std::int32_t first) {
        std::size_t const width = size(w.feature_size());
        while (!features.empty()) {
            auto const count = static_cast<std::int32_t>(std::min(size(block_rows), features.size() / width));
            products.timed(thread_choice::kinds - 1, [&] {
                products.multiply(*w.projection, features.data(), count,
                                  projected.data() + size(first) * size(w.sizes.hidden));
            });
            first += count;
            features = features.subspan(size(count) * width);
        }
    }

    /// Lists what each token of a batch attends to: the first entry of its path, which has no state before it, only if
    /// it is its own. Throws for a position that is not the length of the path.
    void list_attended(token_batch const& batch) {
        auto const n = static_cast<std::int32_t>(batch.tokens.size());
        listed.list(batch, 0, n, length + n);
        attended.begin();
        for (std::int32_t i = 0; i < n; ++i) {
            auto const path = listed.of(size(i));
            std::int32_t before = -1;
            for (kernels::run const& r : path) before += r.count;
            if (batch.positions[size(i)] != before)
                refuse(
                    "positions", std::int64_t{i}, batch.positions[size(i)],
                    "the token attends to " + std::to_string(before) + " before it, whose last one's state it reads");
            std::int32_t left_out = before > 0 ? 1 : 0;
            for (kernels::run const& r : path) {
                attended.add(r.first + left_out, r.count - left_out);
                left_out = 0;
            }
            attended.end_row();
        }
    }

    /// The entry whose state a token reads; -1 for the target's, or for the first token of a text.
    [[nodiscard]] std::int32_t read_entry(token_batch const& batch, std::int32_t i, std::int32_t first_entry) const {
        return batch.positions[size(i)] <= observed ? -1 : parent_entry(batch, i, first_entry);
    }

    void forward(token_batch const& batch, std::span<float> logits) {
        check_batch({w.sizes.vocabulary, w.context_limit, w.capacity}, batch, logits.size(), length);
        list_attended(batch);
        auto const n = static_cast<std::int32_t>(batch.tokens.size());
        std::int32_t const first_entry = length;
        std::int32_t const unwanted = n - static_cast<std::int32_t>(logits.size() / size(w.sizes.vocabulary));
        float* to = logits.data();
        for (std::int32_t first = 0; first < n;) {
            // A block ends before a token that reads a state of the same block.
            std::int32_t rows = 1;
            while (first + rows < n && rows < block_rows &&
                   read_entry(batch, first + rows, first_entry) < first_entry + first)
                ++rows;
            products.timed(thread_choice::kind_of(size(rows)),
                           [&] { block(batch, first, rows, first_entry, unwanted, to); });
            first += rows;
            length += rows;
            to += size(std::max(0, std::min(rows, first - unwanted))) * size(w.sizes.vocabulary);
        }
    }

    /// Writes the inputs of a token: [normalised embedding; normalised state], and the residual.
    void write_inputs(token_batch const& batch, std::int32_t i, std::int32_t first_entry, std::size_t row) {
        std::size_t const hidden = size(w.sizes.hidden);
        float* const x = residual.data() + row * hidden;
        float* const in = inputs.data() + 2 * row * hidden;
        auto const normalise = [&](std::vector<float> const& scale, float* normalised) {
            kernels::norm(x, nullptr, scale.data(), w.sizes.hidden, w.sizes.rms_norm_eps, normalised);
        };
        w.embedding->read(size(batch.tokens[size(i)]) * hidden, {x, hidden});
        normalise(w.token_norm, in);
        std::int32_t const position = batch.positions[size(i)];
        std::int32_t const from = read_entry(batch, i, first_entry);
        if (position == 0)
            std::fill_n(x, hidden, 0.0F);
        else
            std::copy_n(from < 0 ? projected.data() + size(position - 1) * hidden : state(from), hidden, x);
        normalise(w.state_norm, in + hidden);
        if (w.config.norm_before_residual) std::copy_n(in + hidden, hidden, x);
    }

    /// By the position of the token; published code takes that of the state before, which gives the same scores.
    void rotate(float* heads, std::int32_t count, std::int32_t position) const {
        for (std::int32_t h = 0; h < count; ++h)
            kernels::rotate(heads + size(h) * size(w.sizes.head_dim), w.angles.cosines(position),
                            w.angles.sines(position), w.sizes.head_dim / 2);
    }

    /// `rows` tokens of the batch from `first` on, whose logits are written from `unwanted` on. `length` is not
    /// changed.
    void block(token_batch const& batch, std::int32_t first, std::int32_t rows, std::int32_t first_entry,
               std::int32_t unwanted, float* logits) {
        model_config const& c = w.sizes;
        std::size_t const hidden = size(c.hidden);
        for (std::int32_t r = 0; r < rows; ++r) write_inputs(batch, first + r, first_entry, size(r));
        products.multiply(*w.keys_values, inputs.data(), rows, keys_values.data());
        for (std::int32_t r = 0; r < rows; ++r) {
            float* const keys = keys_values.data() + size(r) * size(2 * w.kv_width());
            rotate(keys, c.kv_heads, batch.positions[size(first + r)]);
            for (std::int32_t h = 0; h < c.kv_heads; ++h) {
                float const* const key = keys + size(h) * size(c.head_dim);
                cache.write(0, h, first_entry + first + r, key, key + w.kv_width());
            }
        }

        // Only tokens go on whose logits are wanted, or whose state the next token reads.
        going.clear();
        for (std::int32_t r = 0; r < rows; ++r) {
            if (first + r < unwanted && batch.positions[size(first + r)] < observed) continue;
            std::memmove(residual.data() + going.size() * hidden, residual.data() + size(r) * hidden,
                         hidden * sizeof(float));
            std::memmove(inputs.data() + going.size() * 2 * hidden, inputs.data() + size(r) * 2 * hidden,
                         2 * hidden * sizeof(float));
            going.push_back(first + r);
        }
        if (going.empty()) return;
        auto const left = static_cast<std::int32_t>(going.size());
        products.multiply(*w.queries, inputs.data(), left, queries.data());
        for (std::size_t r = 0; r < going.size(); ++r)
            rotate(queries.data() + r * size(w.query_width()), c.heads, batch.positions[size(going[r])]);
        std::int32_t const group = c.heads / c.kv_heads;
        groups.set(left, group, c.kv_heads, products.threads(), [](std::int32_t) { return true; });
        auto const attend = [&](std::int32_t begin, std::int32_t end, int thread) {
            for (std::int32_t i = begin; i < end; ++i) {
                auto const unit = groups.unit_at(i);
                std::int32_t const h = unit.head;
                groups.attend(unit.group, cache.view(0, h), group, scores.data() + size(thread) * scores_per_thread,
                              [&](std::int32_t r) {
                                  std::size_t const at =
                                      size(r) * size(w.query_width()) + size(h * group) * size(c.head_dim);
                                  auto const runs = attended.of(size(going[size(r)]));
                                  return kernels::token_attention{queries.data() + at, attention.data() + at,
                                                                  runs.data(), runs.size()};
                              });
            }
        };
        // Other threads only for at least about 10 us of work.
        bool const long_work = std::int64_t{left} * (first_entry + first + rows) * w.query_width() > 40'000;
        products.run(groups.size() * c.kv_heads, long_work, attend);
        products.multiply(*w.out, attention.data(), left, update.data());
        auto const add_and_normalise = [&](std::vector<float> const& scale) {
            for (std::size_t r = 0; r < going.size(); ++r)
                kernels::norm(residual.data() + r * hidden, update.data() + r * hidden, scale.data(), c.hidden,
                              c.rms_norm_eps, normed.data() + r * hidden);
        };
        add_and_normalise(w.mlp_norm);
        products.multiply(*w.gate_up, normed.data(), left, gate_up.data());
        for (std::size_t r = 0; r < going.size(); ++r)
            kernels::gated(gate_up.data() + r * 2 * size(c.intermediate), c.intermediate,
                           activation.data() + r * size(c.intermediate));
        products.multiply(*w.down, activation.data(), left, update.data());
        add_and_normalise(w.final_norm);
        for (std::size_t r = 0; r < going.size(); ++r)
            std::copy_n(residual.data() + r * hidden, hidden, state(first_entry + going[r]));
        std::int32_t const wanted = std::min(rows, first + rows - unwanted);
        if (wanted > 0) write_logits(normed.data() + size(left - wanted) * hidden, wanted, logits);
    }

    void write_logits(float const* rows, std::int32_t count, float* to) {
        bool const whole = w.vocabulary.is_whole();
        products.multiply(*w.head, rows, count, whole ? to : short_rows.data());
        if (!whole) w.vocabulary.spread(short_rows.data(), count, to);
    }

    std::shared_ptr<eagle_head_weights const> shared;
    weights_type const& w;
    key_value_cache cache;
    std::int32_t length = 0;
    std::int32_t observed = 0;          ///< positions whose features were observed: the first ones
    aligned_array<float> projected;     ///< by position: what the next token reads of its features
    aligned_array<float> states;        ///< by entry: its own
    attended_entries attended, listed;  ///< without and with the entry of a text's first token
    std::vector<std::int32_t> going;    ///< tokens of a block
    attention_groups groups;            ///< of these

    aligned_array<float> residual, inputs, normed, update, queries, keys_values, attention, gate_up, activation;
    aligned_array<float> short_rows;
    std::size_t scores_per_thread;
    aligned_array<float> scores;
    drafter_products products;
};

eagle_head_model::eagle_head_model(std::shared_ptr<eagle_head_weights const> weights)
    : implementation_(std::make_unique<implementation>(std::move(weights))) {}
eagle_head_model::~eagle_head_model() = default;
eagle_head_model::eagle_head_model(eagle_head_model&&) noexcept = default;
eagle_head_model& eagle_head_model::operator=(eagle_head_model&&) noexcept = default;

std::int32_t eagle_head_model::vocabulary() const noexcept { return implementation_->w.sizes.vocabulary; }
std::int32_t eagle_head_model::context_limit() const noexcept { return implementation_->w.context_limit; }
std::int32_t eagle_head_model::length() const noexcept { return implementation_->length; }
std::int32_t eagle_head_model::feature_size() const noexcept { return implementation_->w.feature_size(); }
std::shared_ptr<eagle_head_weights const> const& eagle_head_model::weights() const noexcept {
    return implementation_->shared;
}

void eagle_head_model::observe(std::span<float const> features, std::span<std::int32_t const> positions) {
    auto& my = *implementation_;
    std::size_t const width = size(feature_size());
    if (features.size() != positions.size() * width)
        refuse("features.size", features.size(),
               "there are " + std::to_string(width) + " numbers for each of " + std::to_string(positions.size()) +
                   " positions");
    for (std::size_t i = 0; i < positions.size(); ++i) {
        auto const at = static_cast<std::int64_t>(i);
        if (positions[i] != my.observed + at)
            refuse("positions", at, positions[i],
                   "the next position of the text is " + std::to_string(my.observed + at));
    }
    if (positions.empty()) return;
    auto const count = static_cast<std::int32_t>(positions.size());
    std::int32_t const kept = std::clamp(context_limit() - my.observed, 0, count);
    my.project(features.first(size(kept) * width), my.observed);
    my.length = std::min(my.length, my.observed + 1);
    my.observed += count;
}

void eagle_head_model::forward(token_batch const& batch, std::span<float> logits) {
    implementation_->forward(batch, logits);
}

void eagle_head_model::keep(std::int32_t context, std::span<std::int32_t const> entries) {
    auto& my = *implementation_;
    check_kept(context, entries, my.length);
    std::size_t const hidden = size(my.w.sizes.hidden);
    for (std::size_t k = 0; k < entries.size(); ++k) {
        std::int32_t const to = context + static_cast<std::int32_t>(k);
        std::int32_t const from = context + entries[k];
        if (from == to) continue;
        my.cache.copy(from, to);
        std::copy_n(my.state(from), hidden, my.state(to));
    }
    std::int32_t const length = context + static_cast<std::int32_t>(entries.size());
    if (length < my.length || length == 0) my.observed = std::min(my.observed, length);
    my.length = length;
}

}  // namespace multidraft::examples
