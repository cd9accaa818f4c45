// A tiny target and a tiny block drafter with random weights: their files, and what they compute, in double and by the
// definitions, a token and a slot at a time.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "multidraft/base/abi.hpp"
#include "multidraft/base/config.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

using row_of_numbers = std::vector<double>;

/// A model as it is written to files, with tensors of bfloat16 numbers: in every type they are the same.
struct plain_model {
    struct tensor {
        std::vector<std::int32_t> shape;
        std::vector<float> numbers;
    };

    nlohmann::json config;
    std::map<std::string, tensor> tensors;
    std::map<std::string, std::vector<std::int64_t>> integers;
    std::size_t integer_bytes = 8;

    [[nodiscard]] std::int32_t of(char const* key) const { return config.at(key).get<std::int32_t>(); }

    void add(std::string const& name, std::vector<std::int32_t> shape, std::mt19937& random, float middle,
             float spread) {
        std::normal_distribution<float> draw(middle, spread);
        std::size_t count = 1;
        for (std::int32_t const n : shape) count *= static_cast<std::size_t>(n);
        tensor& made = tensors[name];
        made.shape = std::move(shape);
        for (std::size_t i = 0; i < count; ++i) {
            auto const bits = std::bit_cast<std::uint32_t>(draw(random));
            made.numbers.push_back(std::bit_cast<float>(bits & 0xffff0000U));
        }
    }

    /// Writes `config.json` and `model.safetensors`, in BF16 or F32.
    void write(std::filesystem::path const& directory, bool in_bfloat16 = false) const {
        nlohmann::json header = nlohmann::json::object();
        std::string data;
        for (auto const& [name, one] : tensors) {
            std::size_t const begin = data.size();
            for (float const x : one.numbers) {
                auto const bits = std::bit_cast<std::uint32_t>(x);
                std::uint32_t const stored = in_bfloat16 ? bits >> 16 : bits;
                for (int byte = 0; byte < (in_bfloat16 ? 2 : 4); ++byte)
                    data += static_cast<char>((stored >> (8 * byte)) & 0xffU);
            }
            header[name] = {
                {"dtype", in_bfloat16 ? "BF16" : "F32"}, {"shape", one.shape}, {"data_offsets", {begin, data.size()}}};
        }
        for (auto const& [name, numbers] : integers) {
            std::size_t const begin = data.size();
            for (std::int64_t const n : numbers)
                for (std::size_t byte = 0; byte < integer_bytes; ++byte)
                    data += static_cast<char>((static_cast<std::uint64_t>(n) >> (8 * byte)) & 0xffU);
            header[name] = {{"dtype", integer_bytes == 8 ? "I64" : "I32"},
                            {"shape", {numbers.size()}},
                            {"data_offsets", {begin, data.size()}}};
        }
        std::string const text = header.dump();
        std::uint64_t const length = text.size();
        std::string bytes(sizeof length, '\0');
        std::memcpy(bytes.data(), &length, sizeof length);
        std::filesystem::create_directories(directory);
        std::ofstream(directory / "config.json") << config;
        std::ofstream(directory / "model.safetensors", std::ios::binary) << bytes << text << data;
    }

    [[nodiscard]] row_of_numbers vector(std::string const& name) const {
        auto const& numbers = tensors.at(name).numbers;
        return {numbers.begin(), numbers.end()};
    }
    [[nodiscard]] row_of_numbers row(std::string const& name, token_id r) const {
        tensor const& of_it = tensors.at(name);
        auto const width = static_cast<std::size_t>(of_it.shape[1]);
        auto const begin = of_it.numbers.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(r) * width);
        return {begin, begin + static_cast<std::ptrdiff_t>(width)};
    }
    /// The matrix times a vector.
    [[nodiscard]] row_of_numbers times(std::string const& name, row_of_numbers const& x) const {
        tensor const& of_it = tensors.at(name);
        row_of_numbers out(static_cast<std::size_t>(of_it.shape[0]), 0.0);
        for (std::size_t i = 0; i < out.size(); ++i)
            for (std::size_t j = 0; j < x.size(); ++j)
                out[i] += static_cast<double>(of_it.numbers[i * x.size() + j]) * x[j];
        return out;
    }
    [[nodiscard]] row_of_numbers norm(row_of_numbers const& x, std::string const& name, double eps) const {
        row_of_numbers const weight = vector(name);
        double squares = 0;
        for (double const v : x) squares += v * v;
        double const root = std::sqrt(squares / static_cast<double>(x.size()) + eps);
        row_of_numbers out(x.size());
        for (std::size_t i = 0; i < x.size(); ++i) out[i] = x[i] / root * weight[i];
        return out;
    }
    [[nodiscard]] row_of_numbers mlp(std::string const& at, row_of_numbers const& x) const {
        row_of_numbers gate = times(at + "gate_proj.weight", x);
        row_of_numbers const up = times(at + "up_proj.weight", x);
        for (std::size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
        return times(at + "down_proj.weight", gate);
    }
    /// The numbers of a head.
    [[nodiscard]] row_of_numbers head(row_of_numbers const& x, std::int32_t h) const {
        auto const dim = of("head_dim");
        return {x.begin() + h * dim, x.begin() + (h + 1) * dim};
    }
    [[nodiscard]] row_of_numbers rotated(row_of_numbers const& x, std::int32_t position) const {
        std::size_t const half = x.size() / 2;
        row_of_numbers out(x.size());
        for (std::size_t i = 0; i < half; ++i) {
            double const angle = position / std::pow(config.at("rope_theta").get<double>(),
                                                     static_cast<double>(i) / static_cast<double>(half));
            out[i] = x[i] * std::cos(angle) - x[half + i] * std::sin(angle);
            out[half + i] = x[half + i] * std::cos(angle) + x[i] * std::sin(angle);
        }
        return out;
    }
    static void add_to(row_of_numbers& x, row_of_numbers const& y) {
        for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
    }
};

/// One head's attention.
inline row_of_numbers plain_attention(row_of_numbers const& q, std::vector<row_of_numbers> const& keys,
                                      std::vector<row_of_numbers> const& values) {
    row_of_numbers weights;
    for (auto const& k : keys) {
        double sum = 0;
        for (std::size_t i = 0; i < q.size(); ++i) sum += q[i] * k[i];
        weights.push_back(sum / std::sqrt(static_cast<double>(q.size())));
    }
    double const largest = *std::ranges::max_element(weights);
    double total = 0;
    for (double& x : weights) total += x = std::exp(x - largest);
    row_of_numbers out(q.size(), 0.0);
    for (std::size_t e = 0; e < values.size(); ++e)
        for (std::size_t i = 0; i < q.size(); ++i) out[i] += weights[e] / total * values[e][i];
    return out;
}

/// The target: outputs of its layers, by position and layer.
struct plain_target : plain_model {
    explicit plain_target(unsigned seed) {
        std::mt19937 random(seed);
        config = {{"model_type", "llama"},    {"vocab_size", 40},       {"hidden_size", 24},
                  {"intermediate_size", 36},  {"num_hidden_layers", 3}, {"num_attention_heads", 2},
                  {"num_key_value_heads", 1}, {"head_dim", 12},         {"max_position_embeddings", 160},
                  {"rms_norm_eps", 1e-5},     {"rope_theta", 10000.0},  {"tie_word_embeddings", true},
                  {"bos_token_id", 1},        {"eos_token_id", nullptr}};
        add("model.embed_tokens.weight", {40, 24}, random, 0, 0.5F);
        add("model.norm.weight", {24}, random, 1, 0.2F);
        for (std::int32_t l = 0; l < 3; ++l) {
            std::string const at = "model.layers." + std::to_string(l) + ".";
            add(at + "input_layernorm.weight", {24}, random, 1, 0.2F);
            add(at + "post_attention_layernorm.weight", {24}, random, 1, 0.2F);
            add(at + "self_attn.q_proj.weight", {24, 24}, random, 0, 0.3F);
            for (char const* one : {"k", "v"}) add(at + "self_attn." + one + "_proj.weight", {12, 24}, random, 0, 0.3F);
            add(at + "self_attn.o_proj.weight", {24, 24}, random, 0, 0.3F);
            for (char const* one : {"gate", "up"}) add(at + "mlp." + one + "_proj.weight", {36, 24}, random, 0, 0.3F);
            add(at + "mlp.down_proj.weight", {24, 36}, random, 0, 0.3F);
        }
    }

    [[nodiscard]] std::vector<std::vector<row_of_numbers>> states(std::vector<token_id> const& text) const {
        double const eps = config.at("rms_norm_eps").get<double>();
        std::vector<std::vector<row_of_numbers>> keys(3), values(3), out;
        for (std::size_t t = 0; t < text.size(); ++t) {
            auto const position = static_cast<std::int32_t>(t);
            row_of_numbers x = row("model.embed_tokens.weight", text[t]);
            std::vector<row_of_numbers> of_layers;
            for (std::size_t l = 0; l < 3; ++l) {
                std::string const at = "model.layers." + std::to_string(l) + ".";
                row_of_numbers const y = norm(x, at + "input_layernorm.weight", eps);
                row_of_numbers const q = times(at + "self_attn.q_proj.weight", y);
                keys[l].push_back(rotated(times(at + "self_attn.k_proj.weight", y), position));
                values[l].push_back(times(at + "self_attn.v_proj.weight", y));
                row_of_numbers mixed;
                for (std::int32_t h = 0; h < 2; ++h) {
                    auto const one = plain_attention(rotated(head(q, h), position), keys[l], values[l]);
                    mixed.insert(mixed.end(), one.begin(), one.end());
                }
                add_to(x, times(at + "self_attn.o_proj.weight", mixed));
                add_to(x, mlp(at + "mlp.", norm(x, at + "post_attention_layernorm.weight", eps)));
                of_layers.push_back(x);
            }
            out.push_back(of_layers);
        }
        return out;
    }
};

/// The block drafter of that target. Its heads are not as wide as the target's.
struct plain_block_drafter : plain_model {
    explicit plain_block_drafter(unsigned seed, std::vector<std::int32_t> const& taps = {2, 0}, std::int32_t rank = 3) {
        std::mt19937 random(seed);
        config = {{"architectures", {"Qwen3DSparkModel"}},
                  {"model_type", "qwen3"},
                  {"vocab_size", 40},
                  {"hidden_size", 24},
                  {"intermediate_size", 20},
                  {"num_hidden_layers", 2},
                  {"num_attention_heads", 4},
                  {"num_key_value_heads", 2},
                  {"head_dim", 10},
                  {"max_position_embeddings", 160},
                  {"rms_norm_eps", 1e-5},
                  {"qk_norm_eps", 1e-2},
                  {"rope_theta", 500.0},
                  {"num_target_layers", 3},
                  {"block_size", 4},
                  {"target_layer_ids", taps},
                  {"markov_rank", rank},
                  {"markov_head_type", "vanilla"},
                  {"enable_confidence_head", false},
                  {"layer_types", {"full_attention", "full_attention"}}};
        add("fc.weight", {24, 24 * static_cast<std::int32_t>(taps.size())}, random, 0, 0.3F);
        for (char const* name : {"hidden_norm.weight", "norm.weight"}) add(name, {24}, random, 1, 0.2F);
        add("mask_embedding", {24}, random, 0, 0.5F);
        for (std::int32_t l = 0; l < 2; ++l) {
            std::string const at = "layers." + std::to_string(l) + ".";
            for (char const* one : {"input", "post_attention"})
                add(at + one + "_layernorm.weight", {24}, random, 1, 0.2F);
            for (char const* one : {"q", "k"}) add(at + "self_attn." + one + "_norm.weight", {10}, random, 1, 0.2F);
            add(at + "self_attn.q_proj.weight", {40, 24}, random, 0, 0.3F);
            for (char const* one : {"k", "v"}) add(at + "self_attn." + one + "_proj.weight", {20, 24}, random, 0, 0.3F);
            add(at + "self_attn.o_proj.weight", {24, 40}, random, 0, 0.3F);
            for (char const* one : {"gate", "up"}) add(at + "mlp." + one + "_proj.weight", {20, 24}, random, 0, 0.3F);
            add(at + "mlp.down_proj.weight", {24, 20}, random, 0, 0.3F);
        }
        if (rank == 0) return;
        add("markov_head.markov_w1.weight", {40, rank}, random, 0, 0.5F);
        add("markov_head.markov_w2.weight", {40, rank}, random, 0, 0.5F);
    }

    /// As DSpark's checkpoints are: embedding and head of its own, a token in the slots of masks, a head that tells its
    /// confidence.
    void publish_as_dspark() {
        std::mt19937 random(5);
        tensors.erase("mask_embedding");
        config["mask_token_id"] = 11;
        config["tie_word_embeddings"] = false;
        for (char const* name : {"embed_tokens.weight", "lm_head.weight"}) add(name, {40, 24}, random, 0, 0.5F);
        config["enable_confidence_head"] = true;
        config["confidence_head_with_markov"] = true;
        add("confidence_head.proj.weight", {1, 24 + of("markov_rank")}, random, 0, 1);
        add("confidence_head.proj.bias", {1}, random, 0, 1);
    }
    /// As DFlash's are: embedding and head of the target, keys in a section of their own, no term of the parent.
    void publish_as_dflash() {
        tensors.erase("mask_embedding");
        for (char const* name : {"markov_head.markov_w1.weight", "markov_head.markov_w2.weight"}) tensors.erase(name);
        config["architectures"] = {"DFlashDraftModel"};
        config["dflash_config"] = {{"mask_token_id", 11}, {"target_layer_ids", config.at("target_layer_ids")}};
        config["rope_parameters"] = {{"rope_theta", config.at("rope_theta")}, {"rope_type", "default"}};
        config["tie_word_embeddings"] = true;
        config["is_causal"] = false;
        for (char const* key : {"target_layer_ids", "markov_rank", "markov_head_type", "enable_confidence_head"})
            config.erase(key);
    }
    /// Leaves of the target's tokens only these, rising.
    void have_only(std::vector<token_id> const& some) {
        tokens = some;
        config["draft_vocab_size"] = some.size();
        for (std::size_t k = 0; k < some.size(); ++k) integers["d2t"].push_back(some[k] - static_cast<std::int64_t>(k));
        for (char const* name : {"lm_head.weight", "markov_head.markov_w1.weight", "markov_head.markov_w2.weight"}) {
            auto const found = tensors.find(name);
            if (found == tensors.end()) continue;
            tensor left{{static_cast<std::int32_t>(some.size()), found->second.shape[1]}, {}};
            for (token_id const t : some)
                for (double const x : row(name, t)) left.numbers.push_back(static_cast<float>(x));
            found->second = left;
        }
    }
    /// The slot that predicts first.
    [[nodiscard]] std::size_t first_slot() const { return config.contains("dflash_config") ? 1 : 0; }

    [[nodiscard]] row_of_numbers embedded(plain_target const& target, token_id token) const {
        bool const own = tensors.contains("embed_tokens.weight");
        return own ? row("embed_tokens.weight", token) : target.row("model.embed_tokens.weight", token);
    }
    /// The row of a slot, without the term of the parent: minus infinity where it does not have the token.
    [[nodiscard]] row_of_numbers base_row(plain_target const& target, row_of_numbers const& of_slot) const {
        if (tensors.contains("lm_head.weight"))
            return widened(times("lm_head.weight", of_slot), -std::numeric_limits<double>::infinity());
        bool const tied = tensors.contains("embed_tokens.weight");
        row_of_numbers const all =
            tied ? times("embed_tokens.weight", of_slot) : target.times("model.embed_tokens.weight", of_slot);
        row_of_numbers some;
        for (token_id const t : tokens) some.push_back(all[static_cast<std::size_t>(t)]);
        return tokens.empty() ? all : widened(some, -std::numeric_limits<double>::infinity());
    }

    [[nodiscard]] row_of_numbers feature(std::vector<row_of_numbers> const& states) const {
        row_of_numbers taken;
        for (auto const layer : section().at("target_layer_ids").get<std::vector<std::size_t>>())
            taken.insert(taken.end(), states[layer].begin(), states[layer].end());
        return norm(times("fc.weight", taken), "hidden_norm.weight", eps());
    }

    /// What the head multiplies in every slot below the last token of the text.
    [[nodiscard]] std::vector<row_of_numbers> hidden(plain_target const& target,
                                                     std::vector<token_id> const& text) const {
        auto const states = target.states({text.begin(), text.end() - 1});
        auto const first = static_cast<std::int32_t>(states.size());
        std::int32_t const slots = of("block_size");
        std::vector<row_of_numbers> x{embedded(target, text.back())};
        row_of_numbers const mask = tensors.contains("mask_embedding")
                                        ? vector("mask_embedding")
                                        : embedded(target, section().at("mask_token_id").get<token_id>());
        for (std::int32_t k = 1; k < slots; ++k) x.push_back(mask);
        for (std::int32_t l = 0; l < of("num_hidden_layers"); ++l) {
            std::string const at = "layers." + std::to_string(l) + ".";
            // By key-value head: those of the text, then those of the slots.
            std::vector<std::vector<row_of_numbers>> keys(2), values(2);
            auto const write = [&](row_of_numbers const& from, std::int32_t position) {
                row_of_numbers const k = times(at + "self_attn.k_proj.weight", from);
                row_of_numbers const v = times(at + "self_attn.v_proj.weight", from);
                for (std::int32_t h = 0; h < 2; ++h) {
                    row_of_numbers const normed = norm(head(k, h), at + "self_attn.k_norm.weight", head_eps());
                    keys[static_cast<std::size_t>(h)].push_back(rotated(normed, position));
                    values[static_cast<std::size_t>(h)].push_back(head(v, h));
                }
            };
            for (std::int32_t s = 0; s < first; ++s) write(feature(states[static_cast<std::size_t>(s)]), s);
            std::vector<row_of_numbers> normed;
            for (std::int32_t k = 0; k < slots; ++k) {
                normed.push_back(norm(x[static_cast<std::size_t>(k)], at + "input_layernorm.weight", eps()));
                write(normed.back(), first + k);
            }
            for (std::int32_t k = 0; k < slots; ++k) {
                row_of_numbers& here = x[static_cast<std::size_t>(k)];
                row_of_numbers const q = times(at + "self_attn.q_proj.weight", normed[static_cast<std::size_t>(k)]);
                row_of_numbers mixed;
                for (std::int32_t h = 0; h < 4; ++h) {
                    auto const group = static_cast<std::size_t>(h / 2);
                    row_of_numbers const placed =
                        rotated(norm(head(q, h), at + "self_attn.q_norm.weight", head_eps()), first + k);
                    auto const one = plain_attention(placed, keys[group], values[group]);
                    mixed.insert(mixed.end(), one.begin(), one.end());
                }
                add_to(here, times(at + "self_attn.o_proj.weight", mixed));
                add_to(here, mlp(at + "mlp.", norm(here, at + "post_attention_layernorm.weight", eps())));
            }
        }
        for (row_of_numbers& one : x) one = norm(one, "norm.weight", eps());
        return x;
    }

    /// 0 where it does not have the parent or the token.
    [[nodiscard]] row_of_numbers term(token_id parent) const {
        if (!tokens.empty()) {
            auto const at = std::ranges::find(tokens, parent);
            if (at == tokens.end()) return row_of_numbers(static_cast<std::size_t>(of("vocab_size")), 0.0);
            parent = static_cast<token_id>(at - tokens.begin());
        }
        return widened(times("markov_head.markov_w2.weight", row("markov_head.markov_w1.weight", parent)), 0.0);
    }

    std::vector<token_id> tokens;  ///< of the target's; none: it has all

private:
    /// A row of its tokens as one of the target's.
    [[nodiscard]] row_of_numbers widened(row_of_numbers const& some, double otherwise) const {
        if (tokens.empty()) return some;
        row_of_numbers all(static_cast<std::size_t>(of("vocab_size")), otherwise);
        for (std::size_t k = 0; k < some.size(); ++k) all[static_cast<std::size_t>(tokens[k])] = some[k];
        return all;
    }
    [[nodiscard]] nlohmann::json const& section() const {
        return config.contains("dflash_config") ? config.at("dflash_config") : config;
    }
    [[nodiscard]] double eps() const { return config.at("rms_norm_eps").get<double>(); }
    [[nodiscard]] double head_eps() const { return config.at("qk_norm_eps").get<double>(); }
};

}  // namespace MULTIDRAFT_NAMESPACE::testing
