// The files of a model: what is read from them, in every type and from shards, and what is refused.
#include "examples/model_files.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "examples/model_support.hpp"
#include "transformer/config.hpp"
#include "transformer/safetensors.hpp"

namespace model_files_test {
namespace {

namespace fs = std::filesystem;
using namespace multidraft::testing;
using multidraft::examples::model_config;
using multidraft::examples::read_config;
using multidraft::examples::tensor_store;
using multidraft::examples::tensor_type;
using nlohmann::json;

using transformer_files = model_files;

TEST_F(transformer_files, bad_safetensors_are_refused) {
    EXPECT_MESSAGE(load_error(), "neither model.safetensors");
    std::string const good = read(models / "draft-tiny" / "model.safetensors");
    write("model.safetensors", "");
    EXPECT_MESSAGE(load_error(), "0 bytes");
    write("model.safetensors", good.substr(0, 100));
    EXPECT_MESSAGE(load_error(), "header length");
    write("model.safetensors", good.substr(0, good.size() - 1));
    EXPECT_MESSAGE(load_error(), "beyond the end of the file");
    write("model.safetensors", safetensors("{\"a\": ", ""));
    EXPECT_MESSAGE(load_error(), "header: ");
    write("model.safetensors", safetensors("[]", ""));
    EXPECT_MESSAGE(load_error(), "not a JSON object");
    std::string huge(16, '\xff');
    write("model.safetensors", huge);
    EXPECT_MESSAGE(load_error(), "header length = 18446744073709551615");

    std::string const name = "model.layers.0.mlp.up_proj.weight";
    write_changed([&](json& h) { h[name]["dtype"] = "I8"; });
    EXPECT_MESSAGE(load_error(), name + ": dtype = \"I8\"");
    write_changed([&](json& h) { h[name]["dtype"] = "F32"; });
    EXPECT_MESSAGE(load_error(), "needs 24576 bytes");
    write_changed([&](json& h) {
        h[name]["dtype"] = "BOOL";
        h[name]["shape"] = {12288};
    });
    EXPECT_MESSAGE(load_error(), "tensor " + name + ": is of integers");
    write_changed([&](json& h) { h[name]["shape"] = {48, 128}; });
    EXPECT_MESSAGE(load_error(), name + ": shape = [48,128]: config.json makes it [128,48]");
    write_changed([&](json& h) { h[name]["shape"] = {128, -48}; });
    EXPECT_MESSAGE(load_error(), "shape = [128,-48]");
    write_changed([&](json& h) { h[name]["shape"] = {std::int64_t{1} << 40, std::int64_t{1} << 40}; });
    EXPECT_MESSAGE(load_error(), "too large");
    write_changed([&](json& h) { h[name]["data_offsets"] = {100, 50}; });
    EXPECT_MESSAGE(load_error(), "data_offsets = [100,50]");
    write_changed([&](json& h) { h[name]["data_offsets"] = {0, 12288}; });
    EXPECT_MESSAGE(load_error(), "inside tensor");
    write_changed([&](json& h) { h[name].erase("dtype"); });
    EXPECT_MESSAGE(load_error(), "must have dtype");
    write_changed([&](json& h) { h.erase(name); });
    EXPECT_MESSAGE(load_error(), "tensor " + name + " is missing");
}

TEST_F(transformer_files, bytes_behind_the_tensors_are_refused) {
    auto const [header, data] = shipped();
    write("model.safetensors", safetensors(header.dump(), data + '\0'));
    EXPECT_MESSAGE(load_error(), "the tensors end at byte " + std::to_string(data.size()) +
                                     " of the data, which goes on to byte " + std::to_string(data.size() + 1));
    write("model.safetensors", safetensors("{}", "rest"));
    EXPECT_MESSAGE(load_error(), "end at byte 0");
}

TEST_F(transformer_files, a_file_that_is_cut_short_while_it_is_open_is_refused) {
    auto const file = directory / "model.safetensors";
    auto const [header, data] = shipped();
    write("model.safetensors", safetensors(header.dump(), data));
    auto const store = tensor_store::open(directory);
    EXPECT_EQ(store.bytes(), fs::file_size(file));
    std::size_t told = 0;
    store.load([&](std::size_t done) { told = done; });
    EXPECT_EQ(told, store.bytes());
    fs::resize_file(file, 5000);
    try {
        store.load([](std::size_t) {});
        GTEST_SKIP() << "this system brings pages into memory only when they are used";
    } catch (std::runtime_error const& e) {
        EXPECT_MESSAGE(std::string(e.what()), file.string() + ": cannot be read to its end");
    }
}

TEST_F(transformer_files, weights_that_lie_at_odd_addresses_give_the_same_logits) {
    auto const [header, data] = shipped();
    auto const tokens = some_tokens(12, 2);
    auto const logits = [&](precision numbers) {
        transformer model(directory, options_for(numbers, 1, multiplier::ours));
        return forward_chain(model, tokens, 12);
    };
    for (auto const numbers : {precision::f32, precision::bf16, precision::int8}) {
        write("model.safetensors", safetensors(header.dump(), data));
        auto const expected = logits(numbers);
        write("model.safetensors",
              safetensors(header.dump() + std::string(header.dump().size() % 2 == 0 ? 1 : 2, ' '), data));
        EXPECT_TRUE(same_bits(logits(numbers), expected));
    }
}

TEST_F(transformer_files, other_types_and_shards_give_the_same_logits) {
    auto const [header, data] = shipped();
    std::map<std::string, std::vector<float>> numbers;
    auto const store = tensor_store::open(models / "draft-tiny");
    for (auto const& [name, fields] : header.items()) {
        if (name == "__metadata__") continue;
        auto const& tensor = store.get(name, fields["shape"].get<std::vector<std::int64_t>>());
        EXPECT_EQ(tensor.type, tensor_type::bf16);
        numbers[name].resize(tensor.bytes.size() / 2);
        tensor.read(0, numbers[name]);
    }
    // A bf16 number of moderate size is a half as well, so the same logits are due in every type. Tiny ones are not:
    // they become 0, in every file.
    for (auto& [name, values] : numbers) {
        for (float& v : values) {
            if (std::abs(v) < 1e-4F) v = 0;
        }
    }
    auto const half = [](float value) {
        auto const bits = std::bit_cast<std::uint32_t>(value);
        std::uint32_t const magnitude = bits & 0x7fffffffU;
        std::uint32_t const exponent = magnitude >> 23U;
        std::uint32_t const sign = (bits >> 16U) & 0x8000U;
        return static_cast<std::uint16_t>(exponent < 113 ? sign : sign | ((magnitude - (112U << 23U)) >> 13U));
    };
    auto const bfloat16_of = [](float value) {
        return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16U);
    };
    auto const file_of = [&](std::string const& dtype, std::function<bool(std::size_t)> const& wanted) {
        json out;
        std::string bytes;
        std::size_t i = 0;
        for (auto const& [name, values] : numbers) {
            if (!wanted(i++)) continue;
            std::size_t const begin = bytes.size();
            for (float const v : values) {
                if (dtype == "F32") {
                    bytes.append(reinterpret_cast<char const*>(&v), 4);
                } else {
                    std::uint16_t const h = dtype == "F16" ? half(v) : bfloat16_of(v);
                    bytes.append(reinterpret_cast<char const*>(&h), 2);
                }
            }
            out[name] = {{"dtype", dtype}, {"shape", header[name]["shape"]}, {"data_offsets", {begin, bytes.size()}}};
        }
        return safetensors(out.dump(), bytes);
    };
    auto const tokens = some_tokens(12, 1);
    auto const logits = [&] {
        transformer model(directory, options_for(precision::f32, 1, multiplier::ours));
        auto numbers_of = forward_chain(model, tokens, 12);
        // oneDNN reads the same numbers.
        transformer by_library(directory, options_for(precision::f32, 1, multiplier::onednn));
        auto const others = forward_chain(by_library, tokens, 12);
        for (std::size_t i = 0; i < others.size(); ++i) EXPECT_NEAR(numbers_of[i], others[i], 1e-4);
        return numbers_of;
    };

    write("model.safetensors", file_of("F32", [](std::size_t) { return true; }));
    auto const expected = logits();
    write("model.safetensors", file_of("F16", [](std::size_t) { return true; }));
    EXPECT_TRUE(same_bits(logits(), expected));
    write("model.safetensors", file_of("BF16", [](std::size_t) { return true; }));
    EXPECT_TRUE(same_bits(logits(), expected));

    fs::remove(directory / "model.safetensors");
    write("model-1.safetensors", file_of("F32", [](std::size_t i) { return i % 2 == 0; }));
    write("model-2.safetensors", file_of("F16", [](std::size_t i) { return i % 2 == 1; }));
    json map;
    std::size_t i = 0;
    for (auto const& [name, values] : numbers) {
        map[name] = i++ % 2 == 0 ? "model-1.safetensors" : "model-2.safetensors";
    }
    std::string const index = "model.safetensors.index.json";
    write(index, json{{"weight_map", map}}.dump());
    EXPECT_TRUE(same_bits(logits(), expected));

    json changed = map;
    changed["model.norm.weight"] = "../model-1.safetensors";
    write(index, json{{"weight_map", changed}}.dump());
    EXPECT_MESSAGE(load_error(), "plain file name");
    changed["model.norm.weight"] = 3;
    write(index, json{{"weight_map", changed}}.dump());
    EXPECT_MESSAGE(load_error(), "not a file");
    changed = map;
    changed["another"] = "model-1.safetensors";
    write(index, json{{"weight_map", changed}}.dump());
    EXPECT_MESSAGE(load_error(), "tensor another");
    write("model-2.safetensors", file_of("F16", [](std::size_t) { return true; }));
    write(index, json{{"weight_map", map}}.dump());
    EXPECT_MESSAGE(load_error(), "also in another file");
    fs::remove(directory / "model-2.safetensors");
    EXPECT_MESSAGE(load_error(), "model-2.safetensors");
    write(index, "{");
    EXPECT_MESSAGE(load_error(), index);
}

TEST_F(transformer_files, layers_beyond_those_of_the_configuration_are_refused) {
    fs::copy_file(models / "draft" / "model.safetensors", directory / "model.safetensors",
                  fs::copy_options::overwrite_existing);
    json config = json::parse(read(models / "draft" / "config.json"));
    write("config.json", config.dump());
    EXPECT_NO_THROW(transformer_weights(directory, options_for(precision::f32)));
    config["num_hidden_layers"] = 1;
    write("config.json", config.dump());
    EXPECT_MESSAGE(load_error(), "model.layers.1.input_layernorm.weight: by its configuration the model has 1 layer");
}

TEST_F(transformer_files, configuration) {
    model_config const c = read_config(models / "target" / "config.json");
    EXPECT_EQ(c.vocabulary, 4096);
    EXPECT_EQ(c.hidden, 256);
    EXPECT_EQ(c.layers, 8);
    EXPECT_EQ(c.heads, 4);
    EXPECT_EQ(c.kv_heads, 2);
    EXPECT_EQ(c.head_dim, 64);
    EXPECT_EQ(c.bos_token, 1);
    EXPECT_EQ(c.eos_tokens, std::vector<std::int32_t>{2});
    EXPECT_TRUE(c.tied_head);

    change_config("num_key_value_heads", json(json::value_t::discarded));
    EXPECT_EQ(read_config(directory / "config.json").kv_heads, 2);
    change_config("eos_token_id", {2, 5});
    EXPECT_EQ(read_config(directory / "config.json").eos_tokens, (std::vector<std::int32_t>{2, 5}));
    change_config("rope_theta", json(json::value_t::discarded));
    EXPECT_EQ(read_config(directory / "config.json").rope_theta, 10000.0F);
    change_config("rope_parameters", {{"rope_theta", 500.0}, {"rope_type", "default"}});
    EXPECT_EQ(read_config(directory / "config.json").rope_theta, 500.0F);
    change_config("head_dim", 32);
    EXPECT_EQ(read_config(directory / "config.json").head_dim, 32);

    std::pair<char const*, json> const bad[] = {{"model_type", "mamba"},
                                                {"hidden_act", "gelu"},
                                                {"rope_scaling", {{"type", "linear"}}},
                                                {"rope_parameters", {{"rope_type", "llama3"}}},
                                                {"rope_parameters", {{"rope_theta", "large"}}},
                                                {"attention_bias", true},
                                                {"mlp_bias", true},
                                                {"vocab_size", 0},
                                                {"hidden_size", "48"},
                                                {"num_hidden_layers", -1},
                                                {"num_attention_heads", json(json::value_t::discarded)},
                                                {"num_key_value_heads", 3},
                                                {"head_dim", 3},
                                                {"rms_norm_eps", 0},
                                                {"rope_theta", "large"},
                                                {"tie_word_embeddings", 1},
                                                {"bos_token_id", 4096},
                                                {"eos_token_id", {2, "x"}}};
    for (auto const& [key, value] : bad) {
        change_config(key, value);
        auto const message = message_of<std::runtime_error>([&] { (void)read_config(directory / "config.json"); });
        EXPECT_MESSAGE(message, (directory / "config.json").string());
        EXPECT_MESSAGE(message, key);
    }
    write("config.json", "{\"model_type\": ");
    EXPECT_MESSAGE(load_error(), "config.json");
    write("config.json", "[1]");
    EXPECT_MESSAGE(load_error(), "not a JSON object");
    fs::remove(directory / "config.json");
    EXPECT_MESSAGE(load_error(), "cannot be opened");
}

}  // namespace
}  // namespace model_files_test
