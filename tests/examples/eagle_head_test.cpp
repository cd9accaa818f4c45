// The example's head in the manner of EAGLE-3: the rows of an implementation in NumPy, whatever the calls; in loops the
// target's text, and the rows of one pass over it.
#include "transformer/eagle_head.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "examples/model_support.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/decode/autoregressive.hpp"
#include "multidraft/decode/best_first_drafter.hpp"
#include "multidraft/decode/lookup_drafter.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/decode/static_tree_drafter.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

namespace eagle_head_test {
namespace {

namespace fs = std::filesystem;
namespace md = multidraft;
using namespace multidraft::testing;
using md::token_id;
using md::examples::eagle_head_model;
using md::examples::eagle_head_weights;

/// What models/train/check_eagle_head.py wrote: a target, and heads of it with their rows.
fs::path const written = fs::path(MULTIDRAFT_DATA_DIR) / "eagle_head";
constexpr std::size_t vocabulary = 32;

/// A target and a head of it, loaded.
struct pair_of_models {
    explicit pair_of_models(std::string const& name, transformer_options const& options = options_for(precision::f32))
        : of_target(std::make_shared<transformer_weights const>(written / "target", options)),
          weights(std::make_shared<eagle_head_weights const>(written / name, of_target, options)) {}

    /// A sequence of the target that exposes what the head reads.
    [[nodiscard]] transformer new_target() const {
        transformer model(of_target);
        model.expose_features(weights->target_layers());
        return model;
    }
    /// The features of a text's tokens.
    [[nodiscard]] std::vector<float> features_of(std::span<token_id const> text) const {
        transformer model = new_target();
        forward_chain(model, text, 0);
        return {model.features().begin(), model.features().end()};
    }

    std::shared_ptr<transformer_weights const> of_target;
    std::shared_ptr<eagle_head_weights const> weights;
};

std::vector<token_id> tiny_text(std::size_t length, unsigned seed) {
    auto tokens = some_tokens(length, seed);
    for (token_id& t : tokens) t %= static_cast<token_id>(vocabulary);
    return tokens;
}

/// Hands over the features of the positions from `first` on, in pieces of that many.
void observe(eagle_head_model& model, std::span<float const> features, std::size_t first = 0,
             std::size_t piece = 1000) {
    auto const width = static_cast<std::size_t>(model.feature_size());
    auto const positions = positions_from(0, features.size() / width);
    for (; first < positions.size(); first += piece) {
        std::size_t const count = std::min(piece, positions.size() - first);
        model.observe(features.subspan(first * width, count * width), std::span(positions).subspan(first, count));
    }
}

/// Forwards what the model has not read of a text, in pieces of that many tokens, and returns the last row.
std::vector<float> row_after(eagle_head_model& model, std::span<token_id const> text, std::size_t piece = 1000) {
    std::vector<float> row(vocabulary);
    while (static_cast<std::size_t>(model.length()) < text.size()) {
        auto const known = static_cast<std::size_t>(model.length());
        auto const tokens = text.subspan(known, std::min(piece, text.size() - known));
        auto const positions = positions_from(model.length(), tokens.size());
        model.forward({tokens, positions, model.length(), {}},
                      known + tokens.size() == text.size() ? std::span<float>(row) : std::span<float>());
    }
    return row;
}

/// A head that has observed all of a text but its last token, and its row after it.
std::pair<eagle_head_model, std::vector<float>> read(pair_of_models const& of, std::span<token_id const> text) {
    eagle_head_model model(of.weights);
    if (text.size() > 1) observe(model, of.features_of(text.first(text.size() - 1)));
    auto row = row_after(model, text);
    return {std::move(model), std::move(row)};
}

std::vector<float> row_of(std::vector<float> const& rows, std::size_t r) {
    auto const begin = rows.begin() + static_cast<std::ptrdiff_t>(r * vocabulary);
    return {begin, begin + static_cast<std::ptrdiff_t>(vocabulary)};
}

/// Within 1e-4 of the largest number of the row; null is a token that the head does not have.
void expect_close(std::span<float const> ours, nlohmann::json const& theirs, std::string const& what) {
    ASSERT_EQ(ours.size(), theirs.size()) << what;
    double largest = 0;
    for (auto const& x : theirs)
        if (!x.is_null()) largest = std::max(largest, std::abs(x.get<double>()));
    for (std::size_t i = 0; i < ours.size(); ++i)
        if (theirs[i].is_null())
            ASSERT_EQ(ours[i], -std::numeric_limits<float>::infinity()) << what << ", number " << i;
        else
            ASSERT_NEAR(static_cast<double>(ours[i]), theirs[i].get<double>(), 1e-4 * largest)
                << what << ", number " << i;
}

class eagle_heads : public ::testing::TestWithParam<char const*> {};

TEST_P(eagle_heads, have_the_rows_of_the_reference) {
    auto const reference = nlohmann::json::parse(std::ifstream(written / GetParam() / "reference.json"));
    auto const parents = reference.at("parents").get<std::vector<std::int32_t>>();
    auto const tokens = reference.at("tokens").get<std::vector<token_id>>();
    for (auto const by : {multiplier::ours, multiplier::onednn}) {
        pair_of_models const of(GetParam(), options_for(precision::f32, 1, by));
        for (auto const& text : reference.at("texts")) {
            auto const ids = text.at("token_ids").get<std::vector<token_id>>();
            auto const& rows = text.at("rows");
            ASSERT_EQ(rows.size(), 1 + tokens.size());
            std::string const what = "text of " + std::to_string(ids.size()) + ", row ";
            auto [model, row] = read(of, ids);
            expect_close(row, rows[0], what + "0");
            auto const context = static_cast<std::int32_t>(ids.size());
            forest const tree(parents, tokens, context);
            std::vector<float> logits(tokens.size() * vocabulary);
            model.forward({tree.tokens, tree.positions, context, tree.view()}, logits);
            for (std::size_t v = 0; v < tokens.size(); ++v)
                expect_close(row_of(logits, v), rows[v + 1], what + std::to_string(v + 1));
        }
    }
}

TEST_P(eagle_heads, have_the_same_bits_in_any_calls_and_threads) {
    pair_of_models const of(GetParam());
    auto const text = tiny_text(70, 2);
    auto const features = of.features_of(std::span(text).first(69));
    auto const width =
        static_cast<std::size_t>(of.weights->config().target_hidden) * of.weights->target_layers().size();
    auto [one, expected] = read(of, text);
    for (std::size_t const piece : {1U, 7U, 64U}) {
        one.keep(0, {});
        observe(one, features, 0, piece);
        EXPECT_TRUE(same_bits(row_after(one, text, piece), expected)) << piece;
        // Read as the features come: the last token of what is known has none of its own yet.
        one.keep(0, {});
        for (std::size_t known = piece; known < text.size(); known += piece) {
            row_after(one, std::span(text).first(known), piece);
            observe(one, std::span(features).first(std::min(known, text.size() - 1) * width), known - piece);
            EXPECT_EQ(one.length(), static_cast<std::int32_t>(known - piece + 1));
        }
        observe(one, features, (text.size() - 1) / piece * piece);
        EXPECT_TRUE(same_bits(row_after(one, text), expected)) << piece;
    }
    for (int const threads : {2, 3}) {
        pair_of_models const several(GetParam(), options_for(precision::f32, threads));
        EXPECT_TRUE(same_bits(read(several, text).second, expected)) << threads;
    }
}

TEST_P(eagle_heads, have_the_same_bits_in_trees_by_level_and_by_path) {
    pair_of_models const of(GetParam());
    for (std::size_t const length : {1U, 2U, 40U}) {
        auto const text = tiny_text(length, static_cast<unsigned>(length));
        auto const context = static_cast<std::int32_t>(length);
        auto const parents = some_parents(20, 3);
        auto const tokens = tiny_text(20, 4);
        auto [model, row] = read(of, text);
        forest const tree(parents, tokens, context);
        std::vector<float> logits(20 * vocabulary);
        model.forward({tree.tokens, tree.positions, context, tree.view()}, logits);
        // Token by token, with and without logits.
        model.keep(context, {});
        for (std::size_t v = 0; v < 20; ++v) {
            std::vector<float> own(v % 3 == 0 ? 0 : vocabulary);
            md::mask_view const mask{tree.mask.data() + v * static_cast<std::size_t>(tree.row_words), tree.row_words};
            model.forward(
                {std::span(tree.tokens).subspan(v, 1), std::span(tree.positions).subspan(v, 1), context, mask}, own);
            if (!own.empty()) {
                EXPECT_TRUE(same_bits(own, row_of(logits, v))) << v;
            }
        }
        // A path that is moved together, and one that is read alone.
        for (std::size_t const node : {7U, 13U, 19U}) {
            auto const path = tree.path(node);
            std::vector<token_id> along;
            for (std::int32_t const v : path) along.push_back(tokens[static_cast<std::size_t>(v)]);
            model.keep(context, {});
            model.forward({tree.tokens, tree.positions, context, tree.view()}, logits);
            model.keep(context, path);
            auto const positions = positions_from(model.length(), 1);
            std::vector<token_id> const next{5};
            std::vector<float> moved(vocabulary), alone((along.size() + 1) * vocabulary);
            model.forward({next, positions, model.length(), {}}, moved);
            model.keep(context, {});
            along.push_back(5);
            auto const after = positions_from(context, along.size());
            model.forward({along, after, context, {}}, alone);
            EXPECT_TRUE(same_bits(row_of(alone, along.size() - 1), moved)) << node;
            EXPECT_TRUE(same_bits(row_of(alone, along.size() - 2), row_of(logits, node))) << node;
        }
    }
}

/// Texts of a loop at temperature 0 are the target's; rows of its trees are those of a head that has read the text
/// anew, and so is the row after the whole text. Returns how many drafted tokens were accepted.
template <class Verifier, class MakeDrafter>
std::int64_t expect_text_of_the_target(pair_of_models const& of, float temperature, MakeDrafter const& make,
                                       bool all_nodes_have_rows = true) {
    transformer target = of.new_target();
    eagle_head_model head(of.weights);
    auto loop = md::make_speculative<Verifier>(target, make(head));
    std::int64_t accepted = 0;
    for (unsigned seed = 0; seed < 4; ++seed) {
        auto text = tiny_text(seed < 2 ? seed + 1 : 12 * seed, seed);
        md::generation_options options;
        options.sampling.temperature = temperature;
        options.draft_sampling = md::sampling_params{};
        options.seed = seed;
        options.max_tokens = 30;
        transformer other(of.of_target);
        int steps = 0;
        options.observer = [&](md::step_view const& step) {
            if (!all_nodes_have_rows || ++steps % 4 != 1 || step.tree.size() == 1) return;
            auto [anew, row] = read(of, step.text);
            auto const context = static_cast<std::int32_t>(step.text.size());
            for (md::node_id v = 1; v < step.tree.size(); ++v) {
                std::vector<token_id> path;
                for (md::node_id u = step.tree.parents[v]; u > 0; u = step.tree.parents[u])
                    path.insert(path.begin(), step.tree.tokens[u]);
                auto here = row;
                if (!path.empty()) {
                    anew.keep(context, {});
                    anew.forward({path, positions_from(context, path.size()), context, {}}, here);
                }
                double mass = 0;
                for (float const x : here) mass += std::exp(static_cast<double>(x));
                auto const token = static_cast<std::size_t>(step.tree.tokens[v]);
                EXPECT_NEAR(step.q[static_cast<std::size_t>(v)], std::exp(static_cast<double>(here[token])) / mass,
                            1e-6);
            }
        };
        auto const found = loop(text, options);
        if (temperature == 0.0F) {
            auto plain = options;
            plain.observer = {};
            EXPECT_EQ(found.tokens, md::autoregressive(other, text, plain).tokens);
        }
        accepted += found.metrics.accepted;
        text.insert(text.end(), found.tokens.begin(), found.tokens.end());
        EXPECT_TRUE(same_bits(row_after(head, text), read(of, text).second));
    }
    return accepted;
}

TEST_P(eagle_heads, draft_for_the_text_of_the_target) {
    using nested = md::verify::nested_ranked_block<md::law::stratified>;
    using rejection = md::verify::recursive_rejection<md::law::sequential>;
    using naive = md::verify::naive<md::law::deterministic>;
    pair_of_models const of(GetParam());
    auto const fixed = [](eagle_head_model& head) {
        return md::static_tree_drafter<eagle_head_model, md::draft::stratified>(head, md::branching({8, 3, 1}));
    };
    md::best_first_options const budget{20, 4, 8, 6, 0.02};
    auto const drawn = [&](eagle_head_model& head) { return md::best_first_drawn_drafter(head, budget); };
    auto const with_lookup = [&](eagle_head_model& head) {
        return md::with_lookup(md::best_first_top_drafter(head, budget), {{2, 1}, 2, 3});
    };
    std::int64_t by_fixed = 0, by_drawn = 0, by_lookup = 0;
    for (float const temperature : {0.0F, 1.0F}) {
        by_fixed += expect_text_of_the_target<nested>(of, temperature, fixed);
        by_drawn += expect_text_of_the_target<rejection>(of, temperature, drawn);
        by_lookup += expect_text_of_the_target<naive>(of, temperature, with_lookup, false);
    }
    EXPECT_GT(by_fixed, 10);
    EXPECT_GT(by_drawn, 10);
    EXPECT_GT(by_lookup, 10);
}

TEST_P(eagle_heads, go_on_after_their_context) {
    // Nothing is drafted beyond the 96 positions of the head; the features that still come are counted.
    pair_of_models const of(GetParam());
    eagle_head_model head(of.weights);
    EXPECT_EQ(head.context_limit(), 96);
    auto const text = tiny_text(96, 5);
    auto const features = of.features_of(text);
    observe(head, std::span(features).first(features.size() / 96 * 95));
    auto const row = row_after(head, text);
    std::vector<float> const more(2 * features.size() / 96);
    std::vector<std::int32_t> const last{95, 96};
    head.observe(more, last);
    EXPECT_EQ(head.length(), 96);
    std::vector<std::int32_t> const next{96};
    EXPECT_MESSAGE(message_of<md::invalid_input>([&] { head.observe(std::span(more).first(more.size() / 2), next); }),
                   "the next position of the text is 97");
    std::vector<token_id> const token{1};
    std::vector<float> beyond(vocabulary);
    EXPECT_MESSAGE(message_of<md::invalid_input>([&] {
                       head.forward({token, next, 96, {}}, beyond);
                   }),
                   "positions[0] = 96: must be in [0, 96)");
    head.keep(0, {});
    EXPECT_EQ(head.length(), 0);
    observe(head, std::span(features).first(features.size() / 96 * 95));
    EXPECT_TRUE(same_bits(row_after(head, text), row));
}

TEST_P(eagle_heads, forget_the_features_of_what_is_cut) {
    pair_of_models const of(GetParam());
    auto const text = tiny_text(20, 6);
    auto other = text;
    for (std::size_t i = 12; i < other.size(); ++i) other[i] = (other[i] + 1) % 32;
    auto [head, row] = read(of, text);
    head.keep(12, {});
    auto const features = of.features_of(std::span(other).first(19));
    observe(head, features, 12);
    EXPECT_TRUE(same_bits(row_after(head, other), read(of, other).second));
    EXPECT_FALSE(same_bits(row, read(of, other).second));
}

INSTANTIATE_TEST_SUITE_P(written, eagle_heads, ::testing::Values("published", "trained", "wider"),
                         [](auto const& of) { return std::string(of.param); });

TEST(eagle_head, refuses_what_it_cannot_read) {
    pair_of_models const of("trained");
    auto const text = tiny_text(6, 9);
    auto const features = of.features_of(text);
    auto const positions = positions_from(0, 6);
    eagle_head_model head(of.weights);
    auto const observed = [&](std::size_t numbers, std::span<std::int32_t const> at) {
        return message_of<md::invalid_input>([&] { head.observe(std::span(features).first(numbers), at); });
    };
    EXPECT_MESSAGE(observed(47, std::span(positions).first(1)), "features.size = 47");
    EXPECT_MESSAGE(observed(48, std::span(positions).subspan(1, 1)), "the next position of the text is 0");
    observe(head, std::span(features).first(3 * 48));
    EXPECT_MESSAGE(observed(48, std::span(positions).first(1)), "the next position of the text is 3");

    auto const row = row_after(head, std::span(text).first(4));
    std::vector<float> logits(vocabulary);
    auto const forwarded = [&](std::vector<token_id> const& tokens, std::vector<std::int32_t> const& at,
                               std::int32_t context, md::mask_view mask = {}) {
        return message_of<md::invalid_input>([&] { head.forward({tokens, at, context, mask}, logits); });
    };
    EXPECT_MESSAGE(forwarded({32}, {4}, 4), "tokens[0] = 32");
    EXPECT_MESSAGE(forwarded({1}, {4}, 5), "context = 5");
    EXPECT_MESSAGE(forwarded({1}, {5}, 4), "positions[0] = 5: the token attends to 4 before it");
    std::vector<std::uint64_t> const apart{1, 2};
    EXPECT_MESSAGE(forwarded({1, 2}, {4, 5}, 4, {apart.data(), 1}), "positions[1] = 5: the token attends to 4");
    EXPECT_MESSAGE(message_of<md::invalid_input>([&] { head.keep(5, {}); }), "context = 5");
    logits.resize(31);
    EXPECT_MESSAGE(forwarded({1}, {4}, 4), "logits.size() = 31");
    // Nothing was changed.
    head.keep(3, {});
    EXPECT_TRUE(same_bits(row_after(head, std::span(text).first(4)), row));
}

/// A head whose files a test changes.
class eagle_head_files : public ::testing::Test {
protected:
    void SetUp() override {
        directory = fs::temp_directory_path() / ("multidraft_eagle_head_" + std::to_string(::getpid()));
        fs::remove_all(directory);
        fs::create_directories(directory);
    }
    void TearDown() override { fs::remove_all(directory); }

    static std::string bytes_of(fs::path const& file) {
        std::ifstream stream(file, std::ios::binary);
        return {std::istreambuf_iterator<char>(stream), {}};
    }
    /// What is changed of a head: its config, the header and the data of its tensors.
    using change = std::function<void(nlohmann::json& config, nlohmann::json& header, std::string& data)>;
    void write(std::string const& name, change const& make) const {
        auto config = nlohmann::json::parse(bytes_of(written / name / "config.json"));
        std::string const bytes = bytes_of(written / name / "model.safetensors");
        std::uint64_t length = 0;
        std::memcpy(&length, bytes.data(), sizeof length);
        auto header = nlohmann::json::parse(bytes.substr(8, length));
        std::string data = bytes.substr(8 + length);
        make(config, header, data);
        std::string const text = header.dump();
        length = text.size();
        std::string start(sizeof length, '\0');
        std::memcpy(start.data(), &length, sizeof length);
        std::ofstream(directory / "config.json") << config;
        std::ofstream(directory / "model.safetensors", std::ios::binary) << start << text << data;
    }
    [[nodiscard]] std::string fault(std::string const& name, change const& make) const {
        write(name, make);
        auto const message = message_of<std::runtime_error>(
            [&] { eagle_head_weights(directory, of_target, options_for(precision::f32)); });
        EXPECT_MESSAGE(message, directory.string());
        return message;
    }
    [[nodiscard]] std::string config(std::string const& key, nlohmann::json const& value) const {
        return fault("published", [&](nlohmann::json& c, nlohmann::json&, std::string&) { c[key] = value; });
    }
    /// Puts an integer in place of one of d2t.
    [[nodiscard]] std::string offset(std::size_t k, std::int64_t value) const {
        return fault("published", [&](nlohmann::json&, nlohmann::json& header, std::string& data) {
            std::memcpy(data.data() + header["d2t"]["data_offsets"][0].get<std::size_t>() + 8 * k, &value, 8);
        });
    }

    fs::path directory;
    std::shared_ptr<transformer_weights const> of_target =
        std::make_shared<transformer_weights const>(written / "target", options_for(precision::f32));
};

TEST_F(eagle_head_files, that_are_wrong_are_named) {
    EXPECT_MESSAGE(config("architectures", {"Eagle3Speculator"}), "architectures = [\"Eagle3Speculator\"]");
    EXPECT_MESSAGE(config("model_type", "qwen3"), "model_type = \"qwen3\"");
    EXPECT_MESSAGE(config("num_hidden_layers", 2), "num_hidden_layers = 2: only 1 is implemented");
    EXPECT_MESSAGE(config("vocab_size", 33), "vocab_size = 33: the target has 32 tokens");
    EXPECT_MESSAGE(config("draft_vocab_size", 33), "draft_vocab_size = 33");
    EXPECT_MESSAGE(config("hidden_size", 18), "hidden_size = 18: the target has 16");
    EXPECT_MESSAGE(config("target_hidden_size", 18), "target_hidden_size = 18: the target has 16");
    EXPECT_MESSAGE(config("num_target_layers", 8), "num_target_layers = 8: the target has 7 layers");
    EXPECT_MESSAGE(config("target_layer_ids", {0, 3, 7}), "reads layer 7, 0 the first: the target has 7 layers");
    EXPECT_MESSAGE(config("target_layer_ids", {-1, 2, 3}), "target_layer_ids = [-1,2,3]");
    EXPECT_MESSAGE(config("eagle_aux_hidden_state_layer_ids", {1, 2, 3}),
                   "eagle_aux_hidden_state_layer_ids = [1,2,3]: may count from the embedding");
    EXPECT_MESSAGE(config("eagle_config", {{"use_aux_hidden_state", false}}),
                   "eagle_config.use_aux_hidden_state = false: only true is implemented");
    EXPECT_MESSAGE(config("eagle_config", {{"norm_after", 1}}), "eagle_config.norm_after = 1: not implemented");
    EXPECT_MESSAGE(config("fc_norm", true), "fc_norm = true");
    EXPECT_MESSAGE(config("rope_scaling", {{"rope_type", "llama3"}}), "rope_scaling.rope_type = \"llama3\"");
    EXPECT_MESSAGE(config("attention_bias", true), "attention_bias = true");

    for (std::string const name : {"published", "wider"}) {
        std::string const bytes = bytes_of(written / name / "model.safetensors");
        std::uint64_t length = 0;
        std::memcpy(&length, bytes.data(), sizeof length);
        auto const header = nlohmann::json::parse(bytes.substr(8, length));
        for (auto const& item : header.items()) {
            std::string const tensor = item.key();
            if (tensor == "t2d") continue;  // which is not needed
            EXPECT_MESSAGE(fault(name,
                                 [&](nlohmann::json&, nlohmann::json& changed, std::string&) {
                                     changed["another"] = changed[tensor];
                                     changed.erase(tensor);
                                 }),
                           "tensor " + tensor + " is missing");
            EXPECT_MESSAGE(fault(name,
                                 [&](nlohmann::json&, nlohmann::json& changed, std::string&) {
                                     auto& shape = changed[tensor]["shape"];
                                     shape.insert(shape.begin(), 1);
                                 }),
                           "tensor " + tensor + ": shape = [1,");
        }
        EXPECT_MESSAGE(fault(name,
                             [&](nlohmann::json&, nlohmann::json& changed, std::string& data) {
                                 changed["fc.bias"] = {{"dtype", "BF16"},
                                                       {"shape", {1}},
                                                       {"data_offsets", {data.size(), data.size() + 2}}};
                                 data += "ab";
                             }),
                       "tensor fc.bias: by config.json there is none of that name");
    }
    EXPECT_MESSAGE(fault("published",
                         [](nlohmann::json&, nlohmann::json& changed, std::string&) {
                             changed["d2t"]["dtype"] = "F32";
                             changed["d2t"]["shape"] = {40};
                         }),
                   "tensor d2t: must be of I64, I32 or BOOL");
    EXPECT_MESSAGE(offset(3, -4), "tensor d2t: offsets[3] = -4");
    EXPECT_MESSAGE(offset(3, 29), "tensor d2t: token_of[3] = 32: the target has 32 tokens");
    EXPECT_MESSAGE(offset(3, -1), "tensor d2t: token_of[3] = 2: token 2 of the draft is the same");
    EXPECT_MESSAGE(offset(3, 1), "tensor t2d: [3] = 1: by d2t the head does not have this token");
    EXPECT_MESSAGE(message_of<std::runtime_error>(
                       [&] { eagle_head_weights(directory / "none", of_target, options_for(precision::f32)); }),
                   "config.json: cannot be opened");
    auto on_device = options_for(precision::f32);
    on_device.accelerator = [](auto&&...) -> std::shared_ptr<md::examples::accelerator_weights const> { return {}; };
    EXPECT_MESSAGE(
        message_of<std::runtime_error>([&] { eagle_head_weights(written / "trained", of_target, on_device); }),
        "run on the CPU only");
}

TEST_F(eagle_head_files, may_have_an_embedding_and_an_output_head) {
    // Of zeros: then neither the token nor the state counts.
    for (std::string const tensor : {"embed_tokens.weight", "lm_head.weight"}) {
        write("trained", [&](nlohmann::json&, nlohmann::json& header, std::string& data) {
            header[tensor] = {
                {"dtype", "BF16"}, {"shape", {32, 16}}, {"data_offsets", {data.size(), data.size() + 1024}}};
            data.append(1024, '\0');
        });
        pair_of_models of("trained");
        auto const parameters = of.weights->parameters();
        of.weights = std::make_shared<eagle_head_weights const>(directory, of.of_target, options_for(precision::f32));
        EXPECT_EQ(of.weights->parameters(), parameters + 512);
        auto text = tiny_text(5, 1);
        auto const row = read(of, text).second;
        text.back() = (text.back() + 1) % 32;
        EXPECT_TRUE(same_bits(read(of, text).second, row)) << tensor;
        EXPECT_EQ(row == std::vector<float>(32, 0.0F), tensor == "lm_head.weight");
    }
}

TEST_F(eagle_head_files, are_told_from_those_of_block_drafters) {
    for (char const* name : {"published", "trained", "wider"})
        EXPECT_TRUE(md::examples::is_eagle_head_config(written / name / "config.json")) << name;
    EXPECT_FALSE(md::examples::is_eagle_head_config(written / "target" / "config.json"));
}

}  // namespace
}  // namespace eagle_head_test
