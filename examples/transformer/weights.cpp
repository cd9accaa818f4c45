#include "transformer/weights.hpp"

#include <stdexcept>
#include <utility>

#include "multidraft/base/error.hpp"
#include "transformer/call_checks.hpp"
#include "transformer/gguf.hpp"
#include "transformer/kernels.hpp"

namespace multidraft::examples {
namespace {

std::size_t size(std::int64_t n) noexcept { return static_cast<std::size_t>(n); }

}  // namespace

transformer_weights::implementation::implementation(std::filesystem::path const& directory,
                                                    transformer_options const& options)
    : config(config_of_model(directory)), tensors(tensor_store::open(directory)) {
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
    capacity = kernels::round_up(context_limit + options.tree_entries, kernels::lanes);

    // From the blocks as they are: a call of few rows takes the time of reading.
    bool const stays = tensors.in_blocks() && options.by != multiplier::onednn;
    numbers = options.accelerator                       ? precision::bf16
              : options.numbers != precision::automatic ? options.numbers
              : stays                                   ? multiplies_bytes() ? precision::stored8 : precision::stored
              : multiplies_bfloat16()                   ? precision::bf16
                                                        : precision::f32;
    bool const halves =
        options.cache == cache_precision::automatic ? rounds_to_bytes(numbers) : options.cache == cache_precision::f16;
    cache = halves && !options.accelerator ? kernels::cache_numbers::halves : kernels::cache_numbers::floats;

    std::int32_t const hidden = config.hidden;
    std::int32_t const qkv_width = query_width() + 2 * kv_width();
    std::int64_t const matrices =
        std::int64_t{config.layers} * hidden *
            (std::int64_t{qkv_width} + query_width() + 3 * std::int64_t{config.intermediate}) +
        std::int64_t{config.vocabulary} * hidden;
    std::string const head_name =
        config.tied_head && !tensors.contains("lm_head.weight") ? "model.embed_tokens.weight" : "lm_head.weight";
    // Shapes are checked before the first matrix is converted.
    head_tensor = &tensors.get(head_name, {config.vocabulary, hidden});
    embedding = &tensors.get("model.embed_tokens.weight", {config.vocabulary, hidden});
    final_norm = vector("model.norm.weight");
    // Fewer layers than the file has would be another model without a word.
    std::string const beyond = "model.layers." + std::to_string(config.layers) + ".input_layernorm.weight";
    if (tensors.contains(beyond))
        throw std::runtime_error(directory.string() + ": tensor " + beyond + ": by its configuration the model has " +
                                 std::to_string(config.layers) + (config.layers == 1 ? " layer" : " layers"));
    parameters = matrices + hidden + 2 * std::int64_t{hidden} * config.layers +
                 (config.tied_head ? 0 : std::int64_t{config.vocabulary} * hidden);
    if (options.accelerator) {
        device = options.accelerator(config, tensors, context_limit, capacity);
        bytes_per_step = size(matrices) * 2;
        return;
    }
    std::size_t const model_bytes = loaded_bytes(size(matrices), head_tensor->type, numbers);
    chooses_threads = options.threads == 0 && model_bytes >= small_model_bytes;
    threads = options.threads != 0 ? options.threads : chooses_threads ? available_threads() : 1;
    make_layers(head_name, options, model_bytes);
    angles = rotary_angles(config, context_limit);
}

void transformer_weights::implementation::make_layers(std::string const& head_name, transformer_options const& options,
                                                      std::size_t model_bytes) {
    // What is done of the work: reading the files, and then converting what must be.
    auto const told = [&](double part, std::size_t done, std::size_t all) {
        if (options.progress) options.progress(0.5 * (part + static_cast<double>(done) / static_cast<double>(all)));
    };
    tensors.load([&](std::size_t done) { told(0, done, tensors.bytes()); });

    team converters(model_bytes < small_model_bytes ? threads : available_threads());
    linear_maker maker(numbers, options.by, model_bytes, block_rows);
    auto const make = [&](std::vector<std::pair<std::string, std::int32_t>> const& parts, std::int32_t inputs) {
        std::vector<linear_maker::part> found;
        for (auto const& [name, outputs] : parts) found.push_back({&tensors.get(name, {outputs, inputs}), outputs});
        auto made = maker.make(found, inputs, converters);
        bytes_per_step += made->bytes();
        return made;
    };
    std::int32_t const hidden = config.hidden;
    for (std::int32_t i = 0; i < config.layers; ++i) {
        std::string const prefix = "model.layers." + std::to_string(i) + ".";
        layers.push_back({make({{prefix + "self_attn.q_proj.weight", query_width()},
                                {prefix + "self_attn.k_proj.weight", kv_width()},
                                {prefix + "self_attn.v_proj.weight", kv_width()}},
                               hidden),
                          make({{prefix + "self_attn.o_proj.weight", hidden}}, query_width()),
                          make({{prefix + "mlp.gate_proj.weight", config.intermediate},
                                {prefix + "mlp.up_proj.weight", config.intermediate}},
                               hidden),
                          make({{prefix + "mlp.down_proj.weight", hidden}}, config.intermediate),
                          vector(prefix + "input_layernorm.weight"),
                          vector(prefix + "post_attention_layernorm.weight")});
        told(1, size(i + 1), size(config.layers + 1));
    }
    head = make({{head_name, config.vocabulary}}, hidden);
    told(1, 1, 1);
}

void transformer_weights::implementation::check(token_batch const& batch, std::size_t logits,
                                                std::int32_t length) const {
    check_batch({config.vocabulary, context_limit, capacity}, batch, logits, length);
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
precision transformer_weights::numbers() const noexcept { return implementation_->numbers; }
cache_precision transformer_weights::cache() const noexcept {
    return implementation_->cache == kernels::cache_numbers::halves ? cache_precision::f16 : cache_precision::f32;
}
std::size_t transformer_weights::bytes_per_step() const { return implementation_->bytes_per_step; }
std::int64_t transformer_weights::parameters() const noexcept { return implementation_->parameters; }

std::string transformer_weights::description() const {
    auto const& w = *implementation_;
    if (w.device) return "on a device, bf16\n";
    auto const& first = w.layers.front();
    std::string text;
    std::pair<char const*, linear const*> const products[] = {{"qkv", first.qkv.get()},
                                                              {"out", first.out.get()},
                                                              {"gate_up", first.gate_up.get()},
                                                              {"down", first.down.get()},
                                                              {"head", w.head.get()}};
    for (auto const& [name, product] : products)
        text += std::string(name) + ": " + std::to_string(product->inputs()) + " x " + product->description() + "\n";
    return text;
}

}  // namespace multidraft::examples
