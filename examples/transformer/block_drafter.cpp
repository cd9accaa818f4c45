#include "transformer/block_drafter.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "multidraft/base/error.hpp"
#include "transformer/aligned_array.hpp"
#include "transformer/block_layers.hpp"
#include "transformer/kernels.hpp"
#include "transformer/safetensors.hpp"
#include "transformer/team.hpp"

namespace multidraft::examples {
namespace {

std::size_t size(std::int64_t n) noexcept { return static_cast<std::size_t>(n); }

}  // namespace

block_drafter_weights::implementation::implementation(std::filesystem::path const& directory,
                                                      std::shared_ptr<transformer_weights const> of,
                                                      transformer_weights::implementation const& its,
                                                      transformer_options const& options)
    : config(read_block_drafter_config(directory / "config.json")),
      sizes(config.layers),
      target(std::move(of)),
      of_target(its),
      tensors(tensor_store::open(directory)),
      numbers(numbers_of_drafter(options.numbers, its.numbers)) {
    if (options.threads < 0) refuse("options.threads", options.threads, "must not be negative");
    check_target(directory);
    context_limit = std::min(its.context_limit, sizes.max_positions);
    capacity = kernels::round_up(context_limit + config.slots, kernels::lanes);

    std::int64_t const hidden = sizes.hidden;
    std::int64_t const matrices =
        hidden * feature_size() +
        std::int64_t{sizes.layers} * hidden *
            (2 * std::int64_t{query_width()} + 2 * std::int64_t{kv_width()} + 3 * std::int64_t{sizes.intermediate}) +
        std::int64_t{config.draft_vocabulary} * config.markov_rank;
    tensor_view const& first = tensors.get("fc.weight", {sizes.hidden, feature_size()});
    std::size_t const model_bytes = loaded_bytes(size(matrices), first.type, numbers) +
                                    its.head->bytes() / size(sizes.vocabulary) * size(config.draft_vocabulary);
    chooses_threads = options.threads == 0 && model_bytes >= small_model_bytes;
    threads = options.threads != 0 ? options.threads : chooses_threads ? available_threads() : 1;
    make_layers(directory, options.by, model_bytes);
    // The slots of a block may lie beyond the last position of a text.
    angles = rotary_angles(sizes, context_limit + config.slots);
}

void block_drafter_weights::implementation::check_target(std::filesystem::path const& directory) const {
    model_config const& its = of_target.config;
    auto const expect = [&](bool fits, char const* key, std::int32_t own, std::int32_t of_it, char const* what) {
        if (!fits)
            throw std::runtime_error((directory / "config.json").string() + ": " + key + " = " + std::to_string(own) +
                                     ": the target has " + std::to_string(of_it) + what);
    };
    expect(sizes.vocabulary == its.vocabulary, "vocab_size", sizes.vocabulary, its.vocabulary, " tokens");
    expect(sizes.hidden == its.hidden, "hidden_size", sizes.hidden, its.hidden, "");
    std::int32_t const layers_of_it = config.layers_of_target;
    expect(layers_of_it == 0 || layers_of_it == its.layers, "num_target_layers", layers_of_it, its.layers, " layers");
    for (std::int32_t const layer : config.target_layers)
        expect(layer < its.layers, "target_layer_ids", layer, its.layers, " layers, 0 the first");
}

void block_drafter_weights::implementation::make_layers(std::filesystem::path const& directory, multiplier by,
                                                        std::size_t model_bytes) {
    drafter_tensors read(tensors, numbers, by, model_bytes, block_rows,
                         model_bytes < small_model_bytes ? threads : available_threads());
    std::int32_t const hidden = sizes.hidden;
    projection = read.matrix({{"fc.weight", hidden}}, feature_size());
    projection_norm = read.vector("hidden_norm.weight", hidden);
    for (std::int32_t i = 0; i < sizes.layers; ++i) {
        std::string const at = "layers." + std::to_string(i) + ".";
        layers.push_back(
            {read.matrix({{at + "self_attn.q_proj.weight", query_width()}}, hidden),
             read.matrix({{at + "self_attn.k_proj.weight", kv_width()}, {at + "self_attn.v_proj.weight", kv_width()}},
                         hidden),
             read.matrix({{at + "self_attn.o_proj.weight", hidden}}, query_width()),
             read.matrix(
                 {{at + "mlp.gate_proj.weight", sizes.intermediate}, {at + "mlp.up_proj.weight", sizes.intermediate}},
                 hidden),
             read.matrix({{at + "mlp.down_proj.weight", hidden}}, sizes.intermediate),
             read.vector(at + "input_layernorm.weight", hidden),
             read.vector(at + "post_attention_layernorm.weight", hidden),
             read.vector(at + "self_attn.q_norm.weight", sizes.head_dim),
             read.vector(at + "self_attn.k_norm.weight", sizes.head_dim)});
    }
    final_norm = read.vector("norm.weight", hidden);
    vocabulary = draft_vocabulary(directory.string(), read, config.draft_vocabulary, sizes.vocabulary);
    vocabulary.expect_rising(directory.string());
    read_embedding_and_head(read);
    if (config.markov_rank > 0) {
        of_parent = &read.table("markov_head.markov_w1.weight", config.draft_vocabulary, config.markov_rank);
        of_entries = read.matrix({{"markov_head.markov_w2.weight", config.draft_vocabulary}}, config.markov_rank);
    }
    parameters = read.parameters();
    bytes_per_step = read.bytes() + (own_head ? 0 : head->bytes());
    if (config.confidence_head) {  // which nothing here reads
        std::int32_t const width = hidden + (config.confidence_of_parent ? config.markov_rank : 0);
        static_cast<void>(read.table("confidence_head.proj.weight", 1, width));
        static_cast<void>(read.vector("confidence_head.proj.bias", 1));
    }
    read.expect_no_more();
}

/// Those of the target unless the file has others, and what is in the slots of masks: a tensor of its own, or the
/// embedding of a token. With fewer tokens than the target a head that is not in the file is made of the rows of those.
void block_drafter_weights::implementation::read_embedding_and_head(drafter_tensors& read) {
    bool const own = !config.shares_target;
    bool const own_embedding = own && read.has("embed_tokens.weight");
    embedding =
        own_embedding ? &read.table("embed_tokens.weight", sizes.vocabulary, sizes.hidden) : of_target.embedding;
    head = of_target.head.get();
    bool const tied = own_embedding && sizes.tied_head && !read.has("lm_head.weight");
    if (own && read.has("lm_head.weight"))
        own_head = read.matrix({{"lm_head.weight", config.draft_vocabulary}}, sizes.hidden);
    else if (!vocabulary.is_whole())
        own_head = read.matrix_of_rows(tied ? *embedding : *of_target.head_tensor, vocabulary.tokens());
    else if (tied)
        own_head = read.matrix({{"embed_tokens.weight", sizes.vocabulary}}, sizes.hidden);
    if (own_head) head = own_head.get();
    if (read.has("mask_embedding") || config.mask_token < 0) {
        mask = read.vector("mask_embedding", sizes.hidden);
    } else {
        mask.resize(size(sizes.hidden));
        embedding->read(size(config.mask_token) * mask.size(), mask);
    }
}

block_drafter_weights::block_drafter_weights(std::filesystem::path const& directory,
                                             std::shared_ptr<transformer_weights const> target,
                                             transformer_options const& options) {
    auto const& of_target = *target->implementation_;
    if (of_target.device || options.accelerator)
        throw std::runtime_error(directory.string() + ": a block drafter and its target run on the CPU only");
    implementation_ = std::make_unique<implementation const>(directory, std::move(target), of_target, options);
}
block_drafter_weights::~block_drafter_weights() = default;

block_drafter_config const& block_drafter_weights::config() const noexcept { return implementation_->config; }
std::span<std::int32_t const> block_drafter_weights::target_layers() const noexcept {
    return implementation_->config.target_layers;
}
std::int64_t block_drafter_weights::parameters() const noexcept { return implementation_->parameters; }
std::size_t block_drafter_weights::bytes_per_step() const noexcept { return implementation_->bytes_per_step; }

struct block_drafter_model::implementation {
    explicit implementation(std::shared_ptr<block_drafter_weights const> weights)
        : shared(std::move(weights)),
          w(*shared->implementation_),
          its(w),
          layers(w),
          short_rows(w.vocabulary.is_whole() ? 0 : size(w.config.slots) * size(w.config.draft_vocabulary)) {}

    /// Refuses a text whose features are not those that came, and room for no rows of `width` numbers, or too many.
    void check_call(std::span<token_id const> text, std::size_t numbers, std::int32_t width) const {
        std::int32_t const most = w.config.block_size();
        if (numbers == 0 || numbers % size(width) != 0 || numbers / size(width) > size(most))
            refuse("logits.size", numbers, "1 to " + std::to_string(most) + " rows of " + std::to_string(width));
        check_text(text);
    }
    void check_text(std::span<token_id const> text) const {
        if (text.size() != size(its.observed) + 1)
            refuse("text.size", text.size(),
                   "features of " + std::to_string(its.observed) +
                       " tokens were observed, and there are those of all but the last token");
        if (text.size() > size(w.context_limit))
            refuse("text.size", text.size(), "the context has " + std::to_string(w.context_limit) + " positions");
        if (text.back() < 0 || text.back() >= w.sizes.vocabulary)
            refuse("text", std::int64_t{its.observed}, text.back(),
                   "must be in [0, " + std::to_string(w.sizes.vocabulary) + ")");
    }

    /// The rows of a checked call, over the drafter's own tokens.
    void call(std::span<token_id const> text, std::int32_t wanted, float* logits) {
        block_text* const only = &its;
        layers.take_in({&only, 1});
        block_layers::anchor const anchor{&its, text.back()};
        layers.blocks({&anchor, 1}, wanted, logits);
    }

    std::shared_ptr<block_drafter_weights const> shared;
    block_drafter_weights::implementation const& w;
    block_text its;
    block_layers layers;
    aligned_array<float> short_rows;  ///< of its own tokens
};

block_drafter_model::block_drafter_model(std::shared_ptr<block_drafter_weights const> weights)
    : implementation_(std::make_unique<implementation>(std::move(weights))) {}
block_drafter_model::~block_drafter_model() = default;
block_drafter_model::block_drafter_model(block_drafter_model&&) noexcept = default;
block_drafter_model& block_drafter_model::operator=(block_drafter_model&&) noexcept = default;

std::int32_t block_drafter_model::vocabulary() const noexcept { return implementation_->w.sizes.vocabulary; }
std::int32_t block_drafter_model::context_limit() const noexcept { return implementation_->w.context_limit; }
std::int32_t block_drafter_model::block_size() const noexcept { return implementation_->w.config.block_size(); }
std::int32_t block_drafter_model::feature_size() const noexcept { return implementation_->w.feature_size(); }
std::span<float const> block_drafter_model::hidden_states() const noexcept { return implementation_->layers.shown; }
std::shared_ptr<block_drafter_weights const> const& block_drafter_model::weights() const noexcept {
    return implementation_->shared;
}

std::int32_t block_drafter_model::observed() const noexcept { return implementation_->its.observed; }

void block_drafter_model::reset() noexcept { keep(0); }

void block_drafter_model::keep(std::int32_t positions) {
    block_text& its = implementation_->its;
    if (positions < 0 || positions > its.observed)
        refuse("positions", positions, "features of " + std::to_string(its.observed) + " positions were observed");
    its.observed = positions;
    std::int32_t const entries = std::min(positions, context_limit());
    its.length = std::min(its.length, entries);
    its.pending.resize(size(entries - its.length) * size(feature_size()));
}

void block_drafter_model::observe(std::span<float const> features, std::span<std::int32_t const> positions) {
    auto& my = *implementation_;
    std::size_t const width = size(feature_size());
    if (features.size() != positions.size() * width)
        refuse("features.size", features.size(),
               "there are " + std::to_string(width) + " numbers for each of " + std::to_string(positions.size()) +
                   " positions");
    for (std::size_t i = 0; i < positions.size(); ++i) {
        auto const at = static_cast<std::int64_t>(i);
        if (positions[i] != my.its.observed + at)
            refuse("positions", at, positions[i],
                   "the next position of the text is " + std::to_string(my.its.observed + at));
    }
    my.layers.observe(my.its, features);
}

void block_drafter_model::rows(std::span<token_id const> text, std::span<float> logits) {
    auto& my = *implementation_;
    auto const wanted = static_cast<std::int32_t>(logits.size() / size(vocabulary()));
    my.check_call(text, logits.size(), vocabulary());
    bool const whole = my.w.vocabulary.is_whole();
    my.call(text, wanted, whole ? logits.data() : my.short_rows.data());
    if (!whole) my.w.vocabulary.spread(my.short_rows.data(), wanted, logits.data());
}

void block_drafter_model::add_parent_term(std::int32_t /*depth*/, token_id token, std::span<float> row) {
    auto& my = *implementation_;
    if (my.w.of_parent == nullptr) return;
    if (token < 0 || token >= vocabulary())
        refuse("token", token, "must be in [0, " + std::to_string(vocabulary()) + ")");
    if (row.size() != size(vocabulary())) refuse("row.size", row.size(), "a row has an entry for each token");
    my.layers.add_parent_terms({&token, 1}, row.data());
}

short_block_drafter::short_block_drafter(block_drafter_model& model, std::int32_t candidates)
    : model_(&model), candidates_(*model.weights(), candidates) {
    auto const& config = model.implementation_->w.config;
    row_.resize(size(config.draft_vocabulary));
    base_.resize(size(config.block_size()) * row_.size());
}

void short_block_drafter::read(std::span<token_id const> text, std::int32_t depths) {
    auto& my = *model_->implementation_;
    if (depths < 1 || depths > block_size())
        refuse("depths", depths, "a block has " + std::to_string(block_size()) + " rows");
    my.check_text(text);
    my.call(text, depths, base_.data());
    depths_ = depths;
}

void short_block_drafter::candidates_after(std::int32_t depth, token_id token, std::span<token_id> tokens,
                                           std::span<float> logits) {
    auto& my = *model_->implementation_;
    if (depth < 0 || depth >= depths_)
        refuse("depth", depth, "the last call has the rows of " + std::to_string(depths_) + " depths");
    if (token < 0 || token >= vocabulary())
        refuse("token", token, "must be in [0, " + std::to_string(vocabulary()) + ")");
    if (tokens.size() != size(candidates())) refuse("tokens.size", tokens.size(), "a token for each candidate");
    if (logits.size() != tokens.size()) refuse("logits.size", logits.size(), "a logit for each candidate");
    auto const base = base_.begin() + static_cast<std::ptrdiff_t>(size(depth) * row_.size());
    std::copy_n(base, row_.size(), row_.begin());
    my.layers.add_own_parent_terms({&token, 1}, row_.data());
    candidates_.choose(row_, tokens, logits);
}

void block_drafter_model::project(std::span<float const> features, std::span<float> out) {
    auto& my = *implementation_;
    std::size_t const width = size(feature_size());
    std::size_t const hidden = size(my.w.sizes.hidden);
    if (features.size() % width != 0 || out.size() != features.size() / width * hidden)
        refuse("out.size", out.size(), std::to_string(hidden) + " numbers for each row of features");
    while (!features.empty()) {
        std::size_t const count = std::min(size(block_rows), features.size() / width);
        my.layers.products.in_threads(
            my.w.threads, [&] { my.layers.project(features.data(), static_cast<std::int32_t>(count), out.data()); });
        features = features.subspan(count * width);
        out = out.subspan(count * hidden);
    }
}

}  // namespace multidraft::examples
