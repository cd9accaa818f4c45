#include "transformer/eagle_layer.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "multidraft/base/error.hpp"
#include "transformer/kernels.hpp"
#include "transformer/team.hpp"

namespace multidraft::examples {
namespace {

std::size_t size(std::int64_t n) noexcept { return static_cast<std::size_t>(n); }

}  // namespace

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

eagle_text::eagle_text(eagle_head_weights::implementation const& w)
    : cache(1, w.sizes.kv_heads, w.sizes.head_dim, w.capacity, w.of_target.cache),
      hidden(size(w.sizes.hidden)),
      projected(size(w.context_limit) * hidden),
      states(size(w.capacity) * hidden) {}

void eagle_text::move(std::int32_t from, std::int32_t to) {
    if (from == to) return;
    cache.copy(from, to);
    std::copy_n(state(from), hidden, state(to));
}

eagle_layer::eagle_layer(eagle_head_weights::implementation const& weights)
    : w(weights),
      products({w.projection.get(), w.queries.get(), w.keys_values.get(), w.out.get(), w.gate_up.get(), w.down.get(),
                w.head},
               w.threads, w.chooses_threads),
      attended_(block_rows),
      features_(products.rows_of(w.feature_size())),
      residual_(products.rows_of(w.sizes.hidden)),
      inputs_(products.rows_of(2 * w.sizes.hidden)),
      normed_(products.rows_of(w.sizes.hidden)),
      update_(products.rows_of(w.sizes.hidden)),
      queries_(products.rows_of(w.query_width())),
      keys_values_(products.rows_of(2 * w.kv_width())),
      attention_(products.rows_of(w.query_width())),
      gate_up_(products.rows_of(2 * w.sizes.intermediate)),
      activation_(products.rows_of(w.sizes.intermediate)),
      short_rows_(w.vocabulary.is_whole() ? 0 : products.rows_of(w.config.draft_vocabulary)),
      scores_per_thread_(kernels::attention_scratch(w.capacity, w.sizes.head_dim)),
      scores_(scores_per_thread_ * size(w.threads)) {}

void eagle_layer::observe(eagle_text& text, std::span<float const> features) {
    std::size_t const width = size(w.feature_size());
    std::size_t const count = features.size() / width;
    std::size_t const kept = std::min(count, size(std::max(0, w.context_limit - text.observed)));
    text.pending.insert(text.pending.end(), features.begin(),
                        features.begin() + static_cast<std::ptrdiff_t>(kept * width));
    text.observed += static_cast<std::int32_t>(count);
}

void eagle_layer::cut(eagle_text& text, std::int32_t length) {
    if (length >= text.observed) return;
    std::size_t const width = size(w.feature_size());
    auto const count = static_cast<std::int32_t>(text.pending.size() / width);
    std::int32_t const known = std::min(text.observed, w.context_limit) - count;
    text.pending.resize(size(std::clamp(length - known, 0, count)) * width);
    text.observed = length;
}

void eagle_layer::take_in(std::span<eagle_text* const> texts) {
    std::size_t const width = size(w.feature_size());
    for (eagle_text* const text : texts) {
        std::size_t const count = text->pending.size() / width;
        std::size_t const first = size(std::min(text->observed, w.context_limit)) - count;
        for (std::size_t k = 0; k < count; ++k) {
            std::copy_n(text->pending.data() + k * width, width, features_.data() + places_.size() * width);
            places_.push_back(text->projected.data() + (first + k) * text->hidden);
            if (places_.size() == size(block_rows)) take_in_rows();
        }
        text->pending.clear();
    }
    take_in_rows();
}

void eagle_layer::take_in_rows() {
    if (places_.empty()) return;
    auto const hidden = size(w.sizes.hidden);
    products.timed(thread_choice::kinds - 1, [&] {
        products.multiply(*w.projection, features_.data(), static_cast<std::int32_t>(places_.size()), update_.data());
    });
    for (std::size_t k = 0; k < places_.size(); ++k) std::copy_n(update_.data() + k * hidden, hidden, places_[k]);
    places_.clear();
}

void eagle_layer::forward(std::span<row const> rows, attended_entries const& attended, float* logits) {
    texts_.clear();
    for (row const& r : rows)
        if (texts_.empty() || texts_.back() != r.text) texts_.push_back(r.text);
    take_in(texts_);
    for (std::size_t first = 0; first < rows.size();) {
        // A block ends before a token that reads a state of the same block.
        std::size_t end = first + 1;
        auto const is_in_block = [&](row const& parent, row const& of) {
            return parent.text == of.text && parent.entry == of.parent;
        };
        while (end < rows.size() && end - first < size(block_rows) &&
               std::none_of(rows.begin() + static_cast<std::ptrdiff_t>(first),
                            rows.begin() + static_cast<std::ptrdiff_t>(end),
                            [&](row const& r) { return is_in_block(r, rows[end]); }))
            ++end;
        auto const block = rows.subspan(first, end - first);
        products.timed(thread_choice::kind_of(block.size()), [&] { some_rows(block, attended, first, logits); });
        for (row const& r : block) logits += r.wanted ? w.sizes.vocabulary : 0;
        first = end;
    }
}

/// Writes the inputs of a token: [normalised embedding; normalised state], and the residual.
void eagle_layer::write_inputs(row const& of, std::size_t r) {
    std::size_t const hidden = of.text->hidden;
    float* const x = residual_.data() + r * hidden;
    float* const in = inputs_.data() + 2 * r * hidden;
    auto const normalise = [&](std::vector<float> const& scale, float* normalised) {
        kernels::norm(x, nullptr, scale.data(), w.sizes.hidden, w.sizes.rms_norm_eps, normalised);
    };
    w.embedding->read(size(of.token) * hidden, {x, hidden});
    normalise(w.token_norm, in);
    if (of.position == 0)
        std::fill_n(x, hidden, 0.0F);
    else if (of.parent == none)
        std::copy_n(of.text->projected.data() + size(of.position - 1) * hidden, hidden, x);
    else
        std::copy_n(of.text->state(of.parent), hidden, x);
    normalise(w.state_norm, in + hidden);
    if (w.config.norm_before_residual) std::copy_n(in + hidden, hidden, x);
}

/// By the position of the token; published code takes that of the state before, which gives the same scores.
void eagle_layer::rotate(float* heads, std::int32_t count, std::int32_t position) const {
    for (std::int32_t h = 0; h < count; ++h)
        kernels::rotate(heads + size(h) * size(w.sizes.head_dim), w.angles.cosines(position), w.angles.sines(position),
                        w.sizes.head_dim / 2);
}

/// A block of rows, the first of which is row `first` of the call.
void eagle_layer::some_rows(std::span<row const> rows, attended_entries const& attended, std::size_t first,
                            float* logits) {
    model_config const& c = w.sizes;
    std::size_t const hidden = size(c.hidden);
    auto const count = static_cast<std::int32_t>(rows.size());
    for (std::size_t r = 0; r < rows.size(); ++r) write_inputs(rows[r], r);
    products.multiply(*w.keys_values, inputs_.data(), count, keys_values_.data());
    for (std::size_t r = 0; r < rows.size(); ++r) {
        float* const keys = keys_values_.data() + r * size(2 * w.kv_width());
        rotate(keys, c.kv_heads, rows[r].position);
        for (std::int32_t h = 0; h < c.kv_heads; ++h) {
            float const* const key = keys + size(h) * size(c.head_dim);
            rows[r].text->cache.write(0, h, rows[r].entry, key, key + w.kv_width());
        }
    }

    // Only tokens go on whose logits are wanted, or whose state the next token reads.
    going_.clear();
    attended_.begin();
    for (std::size_t r = 0; r < rows.size(); ++r) {
        if (!rows[r].wanted && rows[r].position < rows[r].text->observed) continue;
        std::memmove(residual_.data() + going_.size() * hidden, residual_.data() + r * hidden, hidden * sizeof(float));
        std::memmove(inputs_.data() + going_.size() * 2 * hidden, inputs_.data() + r * 2 * hidden,
                     2 * hidden * sizeof(float));
        going_.push_back(static_cast<std::int32_t>(r));
        // The entry of a text's first token, which has no state before it, is left out of all others.
        std::int32_t left_out = rows[r].position > 0 ? 1 : 0;
        for (kernels::run const& run : attended.of(first + r)) {
            attended_.add(run.first + left_out, run.count - left_out);
            left_out = 0;
        }
        attended_.end_row();
    }
    if (going_.empty()) return;
    auto const at = [&](std::size_t r) -> row const& { return rows[size(going_[r])]; };
    auto const left = static_cast<std::int32_t>(going_.size());
    products.multiply(*w.queries, inputs_.data(), left, queries_.data());
    std::int64_t entries = 0;
    for (std::size_t r = 0; r < going_.size(); ++r) {
        rotate(queries_.data() + r * size(w.query_width()), c.heads, at(r).position);
        entries += at(r).position + 1;
    }
    std::int32_t const group = c.heads / c.kv_heads;
    groups_.set(left, group, c.kv_heads, products.threads(),
                [&](std::int32_t r) { return at(size(r)).text == at(size(r) - 1).text; });
    auto const attend = [&](std::int32_t begin, std::int32_t end, int thread) {
        for (std::int32_t i = begin; i < end; ++i) {
            auto const unit = groups_.unit_at(i);
            std::int32_t const h = unit.head;
            key_value_cache const& cache = at(size(groups_.of(unit.group).first)).text->cache;
            groups_.attend(unit.group, cache.view(0, h), group, scores_.data() + size(thread) * scores_per_thread_,
                           [&](std::int32_t r) {
                               std::size_t const place =
                                   size(r) * size(w.query_width()) + size(h * group) * size(c.head_dim);
                               auto const runs = attended_.of(size(r));
                               return kernels::token_attention{queries_.data() + place, attention_.data() + place,
                                                               runs.data(), runs.size()};
                           });
        }
    };
    // Other threads only for at least about 10 us of work.
    products.run(groups_.size() * c.kv_heads, entries * w.query_width() > 40'000, attend);
    products.multiply(*w.out, attention_.data(), left, update_.data());
    auto const add_and_normalise = [&](std::vector<float> const& scale) {
        for (std::size_t r = 0; r < going_.size(); ++r)
            kernels::norm(residual_.data() + r * hidden, update_.data() + r * hidden, scale.data(), c.hidden,
                          c.rms_norm_eps, normed_.data() + r * hidden);
    };
    add_and_normalise(w.mlp_norm);
    products.multiply(*w.gate_up, normed_.data(), left, gate_up_.data());
    for (std::size_t r = 0; r < going_.size(); ++r)
        kernels::gated(gate_up_.data() + r * 2 * size(c.intermediate), c.intermediate,
                       activation_.data() + r * size(c.intermediate));
    products.multiply(*w.down, activation_.data(), left, update_.data());
    add_and_normalise(w.final_norm);
    std::size_t wanted = 0;
    for (std::size_t r = 0; r < going_.size(); ++r) {
        std::copy_n(residual_.data() + r * hidden, hidden, at(r).text->state(at(r).entry));
        if (!at(r).wanted) continue;
        std::memmove(normed_.data() + wanted * hidden, normed_.data() + r * hidden, hidden * sizeof(float));
        ++wanted;
    }
    if (wanted > 0) write_logits(wanted, logits);
}

/// Those of the first rows of `normed_`.
void eagle_layer::write_logits(std::size_t count, float* to) {
    bool const whole = w.vocabulary.is_whole();
    auto const rows = static_cast<std::int32_t>(count);
    products.multiply(*w.head, normed_.data(), rows, whole ? to : short_rows_.data());
    if (!whole) w.vocabulary.spread(short_rows_.data(), rows, to);
}

}  // namespace multidraft::examples
