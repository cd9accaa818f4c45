#include "transformer/config.hpp"

#include <fstream>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

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
        throw std::runtime_error(name_ + ": " + key + (entry == json_.end() ? " is absent" : " = " + entry->dump()) +
                                 ": " + reason);
    }

    /// The value, or null when the key is absent.
    [[nodiscard]] json const& operator[](std::string const& key) const {
        static json const null;
        auto const entry = json_.find(key);
        return entry == json_.end() ? null : *entry;
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

private:
    std::string name_;
    json json_;
};

}  // namespace

model_config read_config(std::filesystem::path const& file) {
    config_file const in(file);
    if (in["model_type"] != "llama") in.refuse("model_type", "only \"llama\" is implemented");
    if (!in["hidden_act"].is_null() && in["hidden_act"] != "silu") {
        in.refuse("hidden_act", "only \"silu\" is implemented");
    }
    if (!in["rope_scaling"].is_null()) in.refuse("rope_scaling", "not implemented");
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
    c.rope_theta = in.positive("rope_theta", 10000.0F);
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

}  // namespace multidraft::examples
