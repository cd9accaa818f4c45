#include "transformer/config.hpp"

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

namespace multidraft::examples {
namespace {

using nlohmann::json;

/// The file with its name, which every error includes.
class config_file {
public:
    explicit config_file(std::filesystem::path const& path) : name_(path.string()) {
        std::ifstream stream(path, std::ios::binary);
        if (!stream) throw std::runtime_error(name_ + ": cannot be opened");
        try {
            json_ = json::parse(stream);
        } catch (json::exception const& e) {
            throw std::runtime_error(name_ + ": " + e.what());
        }
        if (!json_.is_object()) throw std::runtime_error(name_ + ": not a JSON object");
    }

    [[noreturn]] void refuse(std::string const& key, std::string const& reason) const {
        auto const entry = json_.find(key);
        throw std::runtime_error(name_ + ": " + prefix_ + key +
                                 (entry == json_.end() ? " is absent" : " = " + entry->dump()) + ": " + reason);
    }

    /// The value, or null when the key is absent.
    [[nodiscard]] json const& operator[](std::string const& key) const {
        static json const null;
        auto const entry = json_.find(key);
        return entry == json_.end() ? null : *entry;
    }

    [[nodiscard]] bool contains(std::string const& key) const { return json_.contains(key); }

    /// The object of that name; an empty one when the key is absent or null.
    [[nodiscard]] config_file section(std::string const& key) const {
        config_file one;
        one.name_ = name_;
        one.prefix_ = key + ".";
        json const& found = (*this)[key];
        if (!found.is_null() && !found.is_object()) refuse(key, "must be an object");
        if (found.is_object()) one.json_ = found;
        return one;
    }

    /// Refuses a key that is none of these.
    void expect_only(std::initializer_list<std::string_view> keys) const {
        for (auto const& item : json_.items())
            if (std::ranges::find(keys, item.key()) == keys.end()) refuse(item.key(), "not implemented");
    }
    /// Refuses another value of a key that is there.
    void expect(std::string const& key, json const& value) const {
        json const& found = (*this)[key];
        if (!found.is_null() && found != value) refuse(key, "only " + value.dump() + " is implemented");
    }

    [[nodiscard]] std::int32_t size(std::string const& key) const {
        json const& value = (*this)[key];
        if (!value.is_number_integer()) refuse(key, "must be an integer");
        auto const number = value.get<std::int64_t>();
        if (number < 1 || number > std::numeric_limits<std::int32_t>::max()) refuse(key, "must be positive");
        return static_cast<std::int32_t>(number);
    }
    [[nodiscard]] std::int32_t size(std::string const& key, std::int32_t otherwise) const {
        return (*this)[key].is_null() ? otherwise : size(key);
    }

    [[nodiscard]] float positive(std::string const& key, float otherwise) const {
        json const& value = (*this)[key];
        if (value.is_null()) return otherwise;
        if (!value.is_number() || !(value.get<float>() > 0.0F)) refuse(key, "must be a positive number");
        return value.get<float>();
    }

    [[nodiscard]] bool flag(std::string const& key) const {
        json const& value = (*this)[key];
        if (value.is_null()) return false;
        if (!value.is_boolean()) refuse(key, "must be true or false");
        return value.get<bool>();
    }

    [[nodiscard]] std::int32_t token(std::string const& key, json const& value, std::int32_t vocabulary) const {
        if (!value.is_number_integer()) refuse(key, "must be a token id");
        auto const id = value.get<std::int64_t>();
        if (id < 0 || id >= vocabulary) refuse(key, "must be in [0, " + std::to_string(vocabulary) + ")");
        return static_cast<std::int32_t>(id);
    }

    /// Layers of a target.
    [[nodiscard]] std::vector<std::int32_t> layers(std::string const& key) const {
        json const& list = (*this)[key];
        if (!list.is_array() || list.empty()) refuse(key, "must be a list of layers");
        std::vector<std::int32_t> found;
        for (json const& layer : list) {
            if (!layer.is_number_integer() || layer.get<std::int64_t>() < 0 || layer.get<std::int64_t>() > (1 << 20))
                refuse(key, "must be numbers of layers, 0 the first");
            found.push_back(layer.get<std::int32_t>());
        }
        return found;
    }

private:
    config_file() = default;

    std::string name_;
    std::string prefix_;  ///< of the keys: where they are in the file
    json json_ = json::object();
};

/// The base of the rotary angles, which files of Transformers 5 have in `rope_parameters`.
float read_rope_theta(config_file const& in) {
    for (char const* key : {"rope_scaling", "rope_parameters"}) {
        config_file const parameters = in.section(key);
        parameters.expect_only({"rope_theta", "rope_type", "type", "partial_rotary_factor"});
        parameters.expect("rope_type", "default");
        parameters.expect("type", "default");
        parameters.expect("partial_rotary_factor", 1.0);
    }
    config_file const parameters = in.section("rope_parameters");
    return (parameters.contains("rope_theta") ? parameters : in).positive("rope_theta", 10000.0F);
}

/// The tokens of a drafter: some of the target's, or all.
std::int32_t draft_vocabulary_of(config_file const& in, std::int32_t vocabulary) {
    std::int32_t const tokens = in.size("draft_vocab_size", vocabulary);
    if (tokens > vocabulary)
        in.refuse("draft_vocab_size", "the target has " + std::to_string(vocabulary) + " tokens, vocab_size");
    return tokens;
}

/// What all kinds of models have.
model_config common_config(config_file const& in) {
    if (!in["hidden_act"].is_null() && in["hidden_act"] != "silu") {
        in.refuse("hidden_act", "only \"silu\" is implemented");
    }
    for (char const* key : {"attention_bias", "mlp_bias"}) {
        if (in.flag(key)) in.refuse(key, "not implemented");
    }

    model_config c;
    c.vocabulary = in.size("vocab_size");
    c.hidden = in.size("hidden_size");
    c.intermediate = in.size("intermediate_size");
    c.layers = in.size("num_hidden_layers");
    c.heads = in.size("num_attention_heads");
    c.kv_heads = in.size("num_key_value_heads", c.heads);
    if (c.heads % c.kv_heads != 0) {
        in.refuse("num_key_value_heads", "must divide num_attention_heads = " + std::to_string(c.heads));
    }
    if (in["head_dim"].is_null()) {
        if (c.hidden % c.heads != 0) {
            in.refuse("num_attention_heads", "must divide hidden_size = " + std::to_string(c.hidden));
        }
        c.head_dim = c.hidden / c.heads;
    } else {
        c.head_dim = in.size("head_dim");
    }
    if (c.head_dim % 2 != 0) in.refuse("head_dim", "must be even, for the rotary positions");
    // Products of these sizes are formed in 32 bits.
    for (std::int64_t const width : {std::int64_t{c.heads} * c.head_dim * 3, std::int64_t{c.intermediate} * 2}) {
        if (width > (1 << 24)) in.refuse("hidden_size", "the model is too wide");
    }
    c.max_positions = in.size("max_position_embeddings", 2048);
    c.rms_norm_eps = in.positive("rms_norm_eps", 1e-6F);
    c.rope_theta = read_rope_theta(in);
    c.tied_head = in.flag("tie_word_embeddings");

    json const& bos = in["bos_token_id"];
    c.bos_token = bos.is_null() ? -1 : in.token("bos_token_id", bos, c.vocabulary);
    json const& eos = in["eos_token_id"];
    if (eos.is_array()) {
        for (json const& id : eos) c.eos_tokens.push_back(in.token("eos_token_id", id, c.vocabulary));
    } else if (!eos.is_null()) {
        c.eos_tokens.push_back(in.token("eos_token_id", eos, c.vocabulary));
    }
    return c;
}

}  // namespace

model_config read_config(std::filesystem::path const& file) {
    config_file const in(file);
    if (in["model_type"] != "llama") in.refuse("model_type", "only \"llama\" is implemented");
    return common_config(in);
}

namespace {

bool is_dflash_config(config_file const& in) { return in["architectures"] == json::array({"DFlashDraftModel"}); }
bool is_dspark_config(config_file const& in) { return in["architectures"] == json::array({"Qwen3DSparkModel"}); }

}  // namespace

block_drafter_config read_block_drafter_config(std::filesystem::path const& file) {
    config_file const in(file);
    bool const is_dflash = is_dflash_config(in);
    if (!is_dflash && !is_dspark_config(in))
        in.refuse("architectures", "a block drafter has [\"Qwen3DSparkModel\"] or [\"DFlashDraftModel\"]");
    config_file const inner = in.section("dflash_config");
    inner.expect_only({"target_layer_ids", "mask_token_id", "block_size", "num_target_layers", "causal"});
    inner.expect("causal", false);
    auto const of = [&](char const* key) -> config_file const& { return inner.contains(key) ? inner : in; };

    block_drafter_config c;
    c.layers = common_config(in);
    c.head_norm_eps = in.positive("qk_norm_eps", c.layers.rms_norm_eps);
    c.first_slot = is_dflash ? 1 : 0;
    c.slots = of("block_size").size("block_size");
    if (c.slots > 64) of("block_size").refuse("block_size", "at most 64 rows");
    if (c.block_size() < 1) of("block_size").refuse("block_size", "the anchor's slot predicts nothing");
    c.layers_of_target = of("num_target_layers").size("num_target_layers", 0);
    c.target_layers = of("target_layer_ids").layers("target_layer_ids");
    if (static_cast<std::int64_t>(c.target_layers.size()) * c.layers.hidden > (1 << 24))
        of("target_layer_ids").refuse("target_layer_ids", "the features are too wide");
    json const& mask = of("mask_token_id")["mask_token_id"];
    if (!mask.is_null()) c.mask_token = of("mask_token_id").token("mask_token_id", mask, c.layers.vocabulary);
    json const& rank = in["markov_rank"];
    if (!rank.is_null() && rank != 0) {
        c.markov_rank = in.size("markov_rank");
        in.expect("markov_head_type", "vanilla");
    }
    c.draft_vocabulary = draft_vocabulary_of(in, c.layers.vocabulary);
    c.confidence_head = in.flag("enable_confidence_head");
    c.confidence_of_parent = in.flag("confidence_head_with_markov");
    json const& kinds = in["layer_types"];
    if (!kinds.is_null() &&
        (!kinds.is_array() || std::ranges::any_of(kinds, [](json const& kind) { return kind != "full_attention"; })))
        in.refuse("layer_types", "only \"full_attention\" is implemented");
    if (kinds.is_null()) in.expect("use_sliding_window", false);
    in.expect("is_causal", false);
    if (!in["embedding_and_head_of"].is_null() && in["embedding_and_head_of"] != "target")
        in.refuse("embedding_and_head_of", "only those of the \"target\" are implemented");
    c.shares_target = !in["embedding_and_head_of"].is_null();
    return c;
}

eagle_head_config read_eagle_head_config(std::filesystem::path const& file) {
    config_file const in(file);
    json const names = {"LlamaForCausalLMEagle3", "Eagle3LlamaForCausalLM", "LlamaForCausalLM"};
    json const& architectures = in["architectures"];
    if (!architectures.is_array() || architectures.size() != 1 ||
        std::ranges::find(names, architectures.front()) == names.end())
        in.refuse("architectures", "a head of EAGLE-3 has one of " + names.dump());
    in.expect("model_type", "llama");
    in.expect("num_hidden_layers", 1);
    for (char const* key : {"fc_norm", "norm_before_fc", "parallel_drafting"}) in.expect(key, false);
    in.expect("logit_scale", 1.0);
    config_file const inner = in.section("eagle_config");
    inner.expect_only({"eagle_aux_hidden_state_layer_ids", "use_aux_hidden_state", "use_input_layernorm_in_first_layer",
                       "use_last_layernorm", "use_mtp_layernorm", "next_layer_regular", "parallel_draft_step",
                       "parallel_draft_heads_num_layers"});
    for (char const* key : {"use_aux_hidden_state", "use_input_layernorm_in_first_layer", "use_last_layernorm"})
        inner.expect(key, true);
    inner.expect("use_mtp_layernorm", false);
    inner.expect("parallel_draft_step", 1);

    eagle_head_config c;
    c.layer = common_config(in);
    c.draft_vocabulary = draft_vocabulary_of(in, c.layer.vocabulary);
    c.target_hidden = in.size("target_hidden_size", c.layer.hidden);
    char const* const ids = "eagle_aux_hidden_state_layer_ids";
    if (!inner[ids].is_null())
        c.target_layers = inner.layers(ids);
    else if (!in["target_layer_ids"].is_null())
        c.target_layers = in.layers("target_layer_ids");
    else if (!in[ids].is_null())
        in.refuse(ids,
                  "may count from the embedding here: name them in eagle_config or as target_layer_ids, 0 the "
                  "first layer's output");
    if (static_cast<std::int64_t>(c.target_layers.size()) * c.target_hidden > (1 << 24))
        in.refuse(ids, "the features are too wide");
    c.layers_of_target = in.size("num_target_layers", 0);
    c.norm_before_residual = in.flag("norm_before_residual");
    return c;
}

bool is_eagle_head_config(std::filesystem::path const& file) {
    config_file const in(file);
    if (is_dflash_config(in) || is_dspark_config(in)) return false;
    return in.contains("draft_vocab_size") || in["architectures"].dump().find("Eagle3") != std::string::npos;
}

std::vector<std::int32_t> default_eagle_layers(std::int32_t layers) { return {1, layers / 2 - 1, layers - 4}; }

}  // namespace multidraft::examples
