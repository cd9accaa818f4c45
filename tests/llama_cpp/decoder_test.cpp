// llama.cpp's models as language models: logits of trees, caches, and errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "llama_cpp/decoder.hpp"
#include "llama_cpp_support.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/testing/check_model.hpp"
#include "multidraft/tree/mask.hpp"
#include "multidraft/tree/shape_text.hpp"
#include "multidraft/tree/shapes.hpp"

namespace multidraft::examples {
namespace {

using rows = std::vector<std::vector<float>>;

class llama_trees : public ::testing::TestWithParam<char const*> {};

TEST_P(llama_trees, LogitsAreThoseOfThePathsAlone) {
    auto const weights = std::make_shared<gguf_model const>(model_file(GetParam()));
    llama_decoder model(weights, small_options());
    llama_decoder other(weights, small_options());
    auto const text = some_text(model.vocabulary(), 37, 1);
    auto const width = static_cast<std::size_t>(model.vocabulary());
    // Quantised matrices are multiplied by inputs that are rounded by the batch: rows of other batches differ more.
    double const noise = noise_of(GetParam());
    for (auto const& shape : {chain(5), branching({4, 2, 2, 1}), fork(3, 4), branching({16}),
                              topology::from_parents(std::vector<node_id>{-1, 0, 0, 1, 1, 1, 3, 3, 6, 8})}) {
        tree const t(shape, text, model.vocabulary(), 2);
        model.keep(0, {});
        static_cast<void>(read(model, std::span(text).first(text.size() - 1), 0));
        auto const got = model.forward_in_place({t.tokens, t.positions, model.length(), t.mask.view()}, shape.size());
        ASSERT_EQ(got.size(), static_cast<std::size_t>(shape.size()) * width);
        std::vector<float> before;
        for (node_id v = 0; v < shape.size(); ++v) {
            auto const want = alone(other, t.with_path(text, v));
            auto const row = got.subspan(static_cast<std::size_t>(v) * width, width);
            EXPECT_LT(largest_difference(row, want), noise) << to_string(shape) << " node " << v;
            // A wrong path has a larger effect than that noise.
            if (v > 0) {
                EXPECT_GT(largest_difference(row, before), 2 * noise) << to_string(shape) << " node " << v;
            }
            before = want;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(types, llama_trees,
                         ::testing::Values("target-f32", "target-bf16", "target-q8_0", "target-q4_k", "draft-f32"),
                         [](auto const& one) {
                             std::string name = one.param;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

TEST(LlamaDecoder, ReadsTreesAsTexts) {
    llama_decoder model(std::make_shared<gguf_model const>(model_file("draft-f32")), small_options());
    auto const report = multidraft::testing::check_model(model, some_text(model.vocabulary(), 12, 5), 1e-3);
    EXPECT_EQ(report.fault, "");
}

TEST(LlamaDecoder, ReadsTreesLevelByLevelAndNodeByNode) {
    llama_decoder model(std::make_shared<gguf_model const>(model_file("draft-f32")), small_options());
    auto const text = some_text(model.vocabulary(), 21, 3);
    auto const shape = branching({3, 2, 2});
    tree const t(shape, text, model.vocabulary(), 4);
    auto const width = static_cast<std::size_t>(model.vocabulary());
    rows want;
    for (node_id v = 0; v < shape.size(); ++v) want.push_back(alone(model, t.with_path(text, v)));
    for (node_id const step : {1, 2, 3, 5, 22}) {
        model.keep(0, {});
        static_cast<void>(read(model, text, 1));  // the root is the last of the text
        auto const context = static_cast<std::int32_t>(text.size()) - 1;
        for (node_id begin = 1; begin < shape.size(); begin += step) {
            auto const count = static_cast<std::size_t>(std::min(step, shape.size() - begin));
            auto const from = static_cast<std::size_t>(begin);
            std::vector<float> logits(count * width);
            model.forward({std::span(t.tokens).subspan(from, count), std::span(t.positions).subspan(from, count),
                           context, t.mask.view().from_row(begin)},
                          logits);
            for (std::size_t i = 0; i < count; ++i)
                EXPECT_LT(largest_difference(std::span(logits).subspan(i * width, width), want[from + i]), rounding)
                    << "node " << from + i << ", " << step << " at a time";
        }
    }
}

TEST(LlamaDecoder, KeepsAnyPathOfATree) {
    llama_decoder model(std::make_shared<gguf_model const>(model_file("draft-f32")), small_options());
    llama_decoder other(std::make_shared<gguf_model const>(model_file("draft-f32")), small_options());
    auto const text = some_text(model.vocabulary(), 21, 5);
    auto const shape = branching({3, 2, 2, 1});
    tree const t(shape, text, model.vocabulary(), 6);
    token_id const last = 77;
    auto const context = static_cast<std::int32_t>(text.size()) - 1;
    for (node_id v = 0; v < shape.size(); ++v) {
        model.keep(0, {});
        static_cast<void>(read(model, std::span(text).first(text.size() - 1), 0));
        static_cast<void>(model.forward_in_place({t.tokens, t.positions, context, t.mask.view()}, shape.size()));
        std::vector<node_id> path;
        for (node_id u = v; u != none; u = shape.parent(u)) path.push_back(u);
        std::reverse(path.begin(), path.end());
        model.keep(context, path);
        EXPECT_EQ(model.length(), context + static_cast<std::int32_t>(path.size()));
        auto whole = t.with_path(text, v);
        whole.push_back(last);
        auto const want = alone(other, whole);
        EXPECT_LT(largest_difference(read(model, {&last, 1}, 1), want), rounding) << "node " << v;
    }
    // Back to an earlier place of the text.
    model.keep(5, {});
    EXPECT_EQ(model.length(), 5);
    auto shorter = std::vector<token_id>(text.begin(), text.begin() + 5);
    shorter.push_back(last);
    auto const want = alone(other, shorter);
    EXPECT_LT(largest_difference(read(model, {&last, 1}, 1), want), rounding);
}

TEST(LlamaDecoder, CachesAfter200StepsAreThoseOfAFreshCall) {
    auto const weights = std::make_shared<gguf_model const>(model_file("draft-f32"));
    decoder_options options = small_options();
    options.context = 1000;  // space for the text and one tree: a cell that is not freed would be missing
    options.tree_nodes = 45;
    llama_decoder model(weights, options);
    llama_decoder other(weights, options);
    std::mt19937 random(8);
    auto text = some_text(model.vocabulary(), 10, 7);
    static_cast<void>(read(model, std::span(text).first(text.size() - 1), 0));
    for (int step = 0; step < 200; ++step) {
        auto const shape = step % 3 == 0 ? branching({4, 2, 2, 1}) : step % 3 == 1 ? chain(6) : fork(5, 3);
        tree const t(shape, text, model.vocabulary(), 100 + static_cast<unsigned>(step));
        auto const context = model.length();
        static_cast<void>(model.forward_in_place({t.tokens, t.positions, context, t.mask.view()}, shape.size()));
        node_id v = std::uniform_int_distribution<node_id>(0, shape.size() - 1)(random);
        std::vector<node_id> path;
        for (node_id u = v; u != none; u = shape.parent(u)) path.push_back(u);
        std::reverse(path.begin(), path.end());
        model.keep(context, path);
        text = t.with_path(text, v);
        text.push_back(static_cast<token_id>(3 + step));
        if (step % 40 != 39) continue;
        auto const want = alone(other, text);
        auto const root = model.length();
        EXPECT_LT(largest_difference(read(model, {&text.back(), 1}, 1), want), rounding) << "step " << step;
        model.keep(root, {});
    }
}

TEST(LlamaDecoder, LongPromptsAreReadInPieces) {
    auto const weights = std::make_shared<gguf_model const>(model_file("draft-f32"));
    decoder_options options = small_options();
    options.tree_nodes = 8;
    options.batch = 16;
    llama_decoder model(weights, options);
    llama_decoder whole(weights, small_options());
    for (std::size_t const size : {15U, 16U, 17U, 32U, 33U, 150U}) {
        auto const text = some_text(model.vocabulary(), size, 9);
        model.keep(0, {});
        whole.keep(0, {});
        std::int32_t const count = std::min<std::int32_t>(16, static_cast<std::int32_t>(size));
        auto const got = read(model, text, count);
        EXPECT_LT(largest_difference(got, read(whole, text, count)), rounding) << size;
    }
}

TEST(LlamaDecoder, BadBatchesAreRefusedAndChangeNothing) {
    decoder_options options = small_options();
    options.context = 40;
    options.tree_nodes = 12;
    options.sequences = 3;
    llama_decoder model(std::make_shared<gguf_model const>(model_file("draft-f32")), options);
    auto const text = some_text(model.vocabulary(), 11, 10);
    std::vector<token_id> const one{5};
    auto const before = alone(model, text);
    auto const refused = [&](token_batch const& batch, std::int32_t row_count, std::string const& name) {
        try {
            static_cast<void>(model.forward_in_place(batch, row_count));
            ADD_FAILURE() << name << " was taken";
        } catch (invalid_input const& e) {
            EXPECT_NE(std::string(e.what()).find(name), std::string::npos) << e.what();
        }
        EXPECT_EQ(model.length(), 11);
    };
    auto const at_11 = positions_from(11, 1);
    auto const many = some_text(model.vocabulary(), 42, 11);
    auto const many_positions = positions_from(11, 42);
    refused({}, 0, "batch.tokens.size");
    refused({one, {}, 11, {}}, 1, "batch.positions.size");
    refused({one, at_11, 12, {}}, 1, "batch.context");
    refused({one, at_11, -1, {}}, 1, "batch.context");
    refused({one, at_11, 11, {}}, 2, "rows");
    refused({one, many_positions, 11, {}}, 1, "batch.positions.size");
    std::vector<std::int32_t> const wrong{12};
    refused({one, wrong, 11, {}}, 1, "batch.positions");
    for (token_id const bad : {-1, model.vocabulary()}) {
        std::vector<token_id> const tokens{bad};
        refused({tokens, at_11, 11, {}}, 1, "batch.tokens");
    }
    refused({many, many_positions, 11, {}}, 1, "batch.tokens.size");  // 40 + 12 cells
    // Four leaves, three sequences.
    auto const wide = branching({4});
    tree const t(wide, some_text(model.vocabulary(), 12, 12), model.vocabulary(), 13);
    refused({t.tokens, t.positions, 11, t.mask.view()}, 5, "sequences");
    // A token that attends to two siblings.
    std::vector<std::uint64_t> const two{0b001, 0b011, 0b101, 0b1111};
    std::vector<token_id> const four{5, 6, 7, 8};
    std::vector<std::int32_t> const its{11, 12, 12, 13};
    refused({four, its, 11, mask_view{two.data(), 1}}, 4, "batch.mask");
    // One that does not attend to itself.
    std::vector<std::uint64_t> const blind{0b0};
    refused({one, at_11, 11, mask_view{blind.data(), 1}}, 1, "batch.mask");
    std::vector<float> no_whole_row(7);
    EXPECT_THROW(model.forward({one, at_11, 11, {}}, no_whole_row), invalid_input);

    // Entries that are not a path.
    auto const pair = branching({2});
    tree const small(pair, some_text(model.vocabulary(), 12, 12), model.vocabulary(), 13);
    static_cast<void>(model.forward_in_place({small.tokens, small.positions, 11, small.mask.view()}, 3));
    EXPECT_THROW(model.keep(11, std::vector<std::int32_t>{0, 1, 2}), invalid_input);
    EXPECT_THROW(model.keep(11, std::vector<std::int32_t>{2}), invalid_input);
    EXPECT_THROW(model.keep(11, std::vector<std::int32_t>{0, 3}), invalid_input);
    EXPECT_THROW(model.keep(14, {}), invalid_input);
    EXPECT_EQ(model.length(), 14);
    // After a tree nothing can attend to everything.
    auto const at_14 = positions_from(14, 1);
    EXPECT_THROW(static_cast<void>(model.forward_in_place({one, at_14, 11, {}}, 1)), invalid_input);
    model.keep(10, {});
    EXPECT_LT(largest_difference(read(model, {&text.back(), 1}, 1), before), rounding);
}

TEST(LlamaDecoder, OptionsOutOfTheirRangeAreRefused) {
    auto const weights = std::make_shared<gguf_model const>(model_file("draft-f32"));
    auto const refused = [&](auto change, std::string const& name) {
        decoder_options options;
        change(options);
        try {
            llama_decoder const model(weights, options);
            ADD_FAILURE() << name << " was taken";
        } catch (invalid_input const& e) {
            EXPECT_NE(std::string(e.what()).find(name), std::string::npos) << e.what();
        }
    };
    refused([](decoder_options& o) { o.context = -1; }, "context");
    refused([](decoder_options& o) { o.tree_nodes = 0; }, "tree_nodes");
    refused([](decoder_options& o) { o.sequences = 0; }, "sequences");
    refused([](decoder_options& o) { o.sequences = 1 << 20; }, "sequences");
    refused([](decoder_options& o) { o.batch = 0; }, "batch");
    refused([](decoder_options& o) { o.threads = 0; }, "threads");
    EXPECT_EQ(llama_decoder(weights).context_limit(), 1024);
}

TEST(LlamaDecoder, ModelsWithoutACacheOfOneEntryATokenAreRefused) {
    auto const refused = [](std::string const& file, std::string const& reason) {
        try {
            gguf_model const model(file);
            ADD_FAILURE() << file << " was taken";
        } catch (std::runtime_error const& e) {
            EXPECT_NE(std::string(e.what()).find(file), std::string::npos) << e.what();
            EXPECT_NE(std::string(e.what()).find(reason), std::string::npos) << e.what();
        }
    };
    refused(model_file("recurrent"), "recurrent");
    refused(model_file("sliding_window"), "sliding window of 8 tokens");
    refused("/nowhere.gguf", "cannot load it");
    refused(model_file("cut_short"), "cannot load it");
}

}  // namespace
}  // namespace multidraft::examples
