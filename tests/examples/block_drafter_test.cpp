// The example's block drafter: the rows of its definition, whatever the pieces and the threads; in loops the target's
// text, and caches without anything of a refused node.
#include "transformer/block_drafter.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "examples/model_support.hpp"
#include "examples/plain_block_drafter.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/decode/autoregressive.hpp"
#include "multidraft/decode/block_drafter.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

namespace block_drafter_test {
namespace {

namespace fs = std::filesystem;
namespace md = multidraft;
using namespace multidraft::testing;
using md::token_id;
using md::examples::block_drafter_model;
using md::examples::block_drafter_weights;

fs::path work_directory(std::string const& name) {
    fs::path path = fs::temp_directory_path() / ("multidraft_block_drafter_" + std::to_string(::getpid()) + "_" + name);
    fs::remove_all(path);
    return path;
}

std::vector<token_id> tiny_text(std::size_t length, unsigned seed) {
    auto tokens = some_tokens(length, seed);
    for (token_id& t : tokens) t %= 40;
    return tokens;
}

/// The features of a text's tokens, read in pieces of that many.
std::vector<float> features_of(transformer& target, std::span<token_id const> text, std::size_t piece = 1000) {
    std::vector<float> all;
    target.keep(0, {});
    for (std::size_t first = 0; first < text.size(); first += piece) {
        forward_chain(target, text.subspan(first, std::min(piece, text.size() - first)), 0);
        all.insert(all.end(), target.features().begin(), target.features().end());
    }
    return all;
}

/// Hands over features in pieces of that many positions.
void observe(block_drafter_model& model, std::span<float const> features, std::size_t piece = 1000) {
    auto const width = static_cast<std::size_t>(model.feature_size());
    auto const positions = positions_from(0, features.size() / width);
    for (std::size_t first = 0; first < positions.size(); first += piece) {
        std::size_t const count = std::min(piece, positions.size() - first);
        model.observe(features.subspan(first * width, count * width), std::span(positions).subspan(first, count));
    }
}

std::vector<float> rows_after(block_drafter_model& model, std::span<token_id const> text, std::int32_t rows) {
    std::vector<float> logits(static_cast<std::size_t>(rows) * static_cast<std::size_t>(model.vocabulary()));
    model.rows(text, logits);
    return logits;
}

/// Within 1e-4 of the largest number of the row; minus infinity where that is.
void expect_close(std::span<float const> ours, row_of_numbers const& theirs, std::string const& what) {
    ASSERT_EQ(ours.size(), theirs.size()) << what;
    double largest = 0;
    for (double const x : theirs)
        if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
    for (std::size_t i = 0; i < theirs.size(); ++i)
        if (std::isfinite(theirs[i]))
            ASSERT_NEAR(static_cast<double>(ours[i]), theirs[i], 1e-4 * largest) << what << ", number " << i;
        else
            ASSERT_EQ(static_cast<double>(ours[i]), theirs[i]) << what << ", number " << i;
}

/// Texts of a loop at temperature 0 are the target's, and afterwards the drafter has the rows of one that has read the
/// text anew. Returns how many drafted tokens were accepted.
template <class Verifier, class Sampler, class Shape>
std::int64_t expect_text_of_the_target(transformer& target, block_drafter_model& model, Shape const& shape,
                                       float temperature) {
    using drafter = md::block_drafter<block_drafter_model, Sampler, Shape>;
    auto loop = md::make_speculative<Verifier>(target, drafter(model, shape));
    md::generation_options options;
    options.sampling.temperature = temperature;
    std::int64_t accepted = 0;
    for (unsigned seed = 0; seed < 3; ++seed) {
        auto text = tiny_text(1 + 40 * seed, seed);
        options.seed = seed;
        options.max_tokens = 60 + static_cast<std::int32_t>(seed);
        transformer other(target.weights());
        auto const found = loop(text, options);
        if (temperature == 0.0F) {
            EXPECT_EQ(found.tokens, md::autoregressive(other, text, options).tokens);
        }
        accepted += found.metrics.accepted;
        text.insert(text.end(), found.tokens.begin(), found.tokens.end());
        if (text.size() > static_cast<std::size_t>(model.context_limit())) continue;
        other.keep(0, {});
        other.expose_features(model.weights()->target_layers());
        block_drafter_model anew(model.weights());
        observe(anew, features_of(other, std::span(text).first(text.size() - 1)));
        std::int32_t const rows = model.block_size();
        EXPECT_TRUE(same_bits(rows_after(model, text, rows), rows_after(anew, text, rows)));
    }
    return accepted;
}

class block_drafter : public ::testing::Test {
protected:
    void SetUp() override {
        directory = work_directory(::testing::UnitTest::GetInstance()->current_test_info()->name());
        target.write(directory / "target");
        drafter.write(directory / "drafter");
    }
    void TearDown() override { fs::remove_all(directory); }

    /// Loads both from the files.
    void load(transformer_options const& options = options_for(precision::f32)) {
        of_target = std::make_shared<transformer_weights const>(directory / "target", options);
        weights = std::make_shared<block_drafter_weights const>(directory / "drafter", of_target, options);
    }
    /// A sequence of the target that exposes what the drafter reads.
    [[nodiscard]] transformer new_target() const {
        transformer model(of_target);
        model.expose_features(weights->target_layers());
        return model;
    }

    fs::path directory;
    plain_target target{1};
    plain_block_drafter drafter{2};
    std::shared_ptr<transformer_weights const> of_target;
    std::shared_ptr<block_drafter_weights const> weights;
};

TEST_F(block_drafter, has_the_rows_of_its_definition) {
    for (auto const by : {multiplier::ours, multiplier::onednn})
        for (bool const in_bfloat16 : {false, true}) {
            target.write(directory / "target", in_bfloat16);
            drafter.write(directory / "drafter", in_bfloat16);
            load(options_for(precision::f32, 1, by));
            transformer model = new_target();
            ASSERT_EQ(model.feature_size(), 48);
            block_drafter_model of_drafter(weights);
            for (std::size_t const length : {1U, 2U, 7U, 100U}) {
                auto const text = tiny_text(length, static_cast<unsigned>(length));
                of_drafter.reset();
                observe(of_drafter, features_of(model, std::span(text).first(length - 1)));
                auto const logits = rows_after(of_drafter, text, 4);
                auto const hidden = drafter.hidden(target, text);
                for (std::size_t k = 0; k < 4; ++k) {
                    std::string const what = "text of " + std::to_string(length) + ", slot " + std::to_string(k);
                    expect_close(of_drafter.hidden_states().subspan(24 * k, 24), hidden[k], what);
                    auto row = target.times("model.embed_tokens.weight", hidden[k]);
                    std::span<float const> const ours = std::span(logits).subspan(40 * k, 40);
                    expect_close(ours, row, what);
                    std::vector<float> with_term(ours.begin(), ours.end());
                    auto const parent = static_cast<token_id>(7 * k + 3);
                    of_drafter.add_parent_term(static_cast<std::int32_t>(k), parent, with_term);
                    plain_model::add_to(row, drafter.term(parent));
                    expect_close(with_term, row, what + " with its term");
                }
            }
        }
}

TEST_F(block_drafter, has_the_rows_of_published_layouts) {
    plain_block_drafter dspark = drafter;
    dspark.publish_as_dspark();
    plain_block_drafter dflash = drafter;
    dflash.publish_as_dflash();
    for (plain_block_drafter const& one : {dspark, dflash}) {
        one.write(directory / "drafter", true);
        load();
        transformer model = new_target();
        block_drafter_model of_drafter(weights);
        std::size_t const rows = 4 - one.first_slot();
        ASSERT_EQ(of_drafter.block_size(), static_cast<std::int32_t>(rows));
        auto const text = tiny_text(30, 4);
        observe(of_drafter, features_of(model, std::span(text).first(29)));
        auto const hidden = one.hidden(target, text);
        for (std::size_t const wanted : {rows, std::size_t{1}}) {
            auto const logits = rows_after(of_drafter, text, static_cast<std::int32_t>(wanted));
            for (std::size_t k = 0; k < wanted; ++k) {
                std::string const what = "slot " + std::to_string(k + one.first_slot());
                auto row = one.base_row(target, hidden[k + one.first_slot()]);
                std::vector<float> ours(logits.begin() + static_cast<std::ptrdiff_t>(40 * k),
                                        logits.begin() + static_cast<std::ptrdiff_t>(40 * k + 40));
                expect_close(ours, row, what);
                if (weights->config().markov_rank == 0) continue;
                of_drafter.add_parent_term(0, 7, ours);
                plain_model::add_to(row, one.term(7));
                expect_close(ours, row, what + " with its term");
            }
        }
        expect_text_of_the_target<md::verify::nested_ranked_block<md::law::stratified>, md::draft::stratified>(
            model, of_drafter, md::best_first_shape({.nodes = 20, .children = 8}), 0.0F);
    }
    // Without the key the head is the embedding, where that is its own.
    dspark.config["tie_word_embeddings"] = true;
    dspark.tensors.erase("lm_head.weight");
    dspark.write(directory / "drafter");
    load();
    block_drafter_model of_drafter(weights);
    auto const logits = rows_after(of_drafter, std::vector<token_id>{3}, 1);
    expect_close(logits, dspark.times("embed_tokens.weight", dspark.hidden(target, {3})[0]), "tied");
}

// Fewer tokens than the target, in every layout: a head that is gathered from the target's or from its own embedding,
// or has a row for each of its tokens.
TEST_F(block_drafter, has_the_rows_of_fewer_tokens) {
    std::vector<token_id> const some{0, 1, 5, 6, 7, 13, 20, 22, 31, 38, 39};
    plain_block_drafter shared = drafter;
    shared.config["embedding_and_head_of"] = "target";
    plain_block_drafter dspark = drafter;
    dspark.publish_as_dspark();
    plain_block_drafter tied = dspark;
    tied.config["tie_word_embeddings"] = true;
    tied.tensors.erase("lm_head.weight");
    plain_block_drafter dflash = drafter;
    dflash.publish_as_dflash();
    for (plain_block_drafter one : {shared, dspark, tied, dflash}) {
        one.have_only(some);
        one.integer_bytes = one.first_slot() == 0 ? 4 : 8;
        for (bool const in_bfloat16 : {false, true}) {
            target.write(directory / "target", in_bfloat16);
            one.write(directory / "drafter", in_bfloat16);
            load();
            EXPECT_EQ(weights->config().draft_vocabulary, 11);
            transformer model = new_target();
            block_drafter_model of_drafter(weights);
            ASSERT_EQ(of_drafter.vocabulary(), 40);
            auto const text = tiny_text(30, 4);
            observe(of_drafter, features_of(model, std::span(text).first(29)));
            auto const rows = static_cast<std::size_t>(of_drafter.block_size());
            auto const logits = rows_after(of_drafter, text, of_drafter.block_size());
            EXPECT_TRUE(same_bits(rows_after(of_drafter, text, 1), std::span(logits).first(40)));
            auto const hidden = one.hidden(target, text);
            for (std::size_t k = 0; k < rows; ++k) {
                std::string const what = "slot " + std::to_string(k + one.first_slot());
                auto const row = one.base_row(target, hidden[k + one.first_slot()]);
                auto const ours = std::span(logits).subspan(40 * k, 40);
                expect_close(ours, row, what);
                // A parent that it has, and one that it does not have.
                for (token_id const parent : {13, 12}) {
                    if (weights->config().markov_rank == 0) break;
                    std::vector<float> with_term(ours.begin(), ours.end());
                    of_drafter.add_parent_term(0, parent, with_term);
                    auto expected = row;
                    plain_model::add_to(expected, one.term(parent));
                    expect_close(with_term, expected, what + " after " + std::to_string(parent));
                    EXPECT_EQ(same_bits(with_term, ours), parent == 12);
                }
            }
        }
    }
}

// The likeliest tokens of its rows, by their logits before the term of the parent.
TEST_F(block_drafter, gives_short_rows) {
    for (bool const fewer : {false, true}) {
        if (fewer) drafter.have_only({0, 1, 5, 6, 7, 13, 20, 22, 31, 38, 39});
        drafter.write(directory / "drafter");
        load();
        transformer model = new_target();
        block_drafter_model whole(weights);
        auto const text = tiny_text(30, 4);
        observe(whole, features_of(model, std::span(text).first(29)));
        auto const logits = rows_after(whole, text, 4);
        for (std::int32_t const count : {1, 4, fewer ? 11 : 40}) {
            auto const width = static_cast<std::size_t>(count);
            md::examples::short_block_drafter few(whole, count);
            ASSERT_EQ(few.candidates(), count);
            std::vector<token_id> tokens(width);
            std::vector<float> found(width);
            few.read(text, 3);
            for (std::int32_t d = 0; d < 3; ++d)
                for (token_id const parent : {13, 12}) {
                    std::vector<float> row(logits.begin() + 40 * d, logits.begin() + 40 * (d + 1));
                    whole.add_parent_term(d, parent, row);
                    few.candidates_after(d, parent, tokens, found);
                    EXPECT_TRUE(std::ranges::is_sorted(tokens, std::ranges::less_equal{}));
                    for (std::size_t k = 0; k < width; ++k)
                        EXPECT_EQ(found[k], row[static_cast<std::size_t>(tokens[k])]);
                    std::ranges::sort(row, std::greater<>());
                    EXPECT_EQ(std::ranges::min(found), row[width - 1]);
                }
            EXPECT_MESSAGE(message_of<md::invalid_input>([&] { few.read(text, 5); }), "depths = 5");
            EXPECT_MESSAGE(message_of<md::invalid_input>([&] { few.read(std::span(text).first(3), 1); }),
                           "text.size = 3");
            EXPECT_MESSAGE(message_of<md::invalid_input>([&] { few.candidates_after(3, 1, tokens, found); }),
                           "depth = 3: the last call has the rows of 3 depths");
            EXPECT_MESSAGE(message_of<md::invalid_input>([&] { few.candidates_after(0, 40, tokens, found); }),
                           "token = 40");
            EXPECT_MESSAGE(
                message_of<md::invalid_input>([&] { few.candidates_after(0, 1, tokens, std::span<float>()); }),
                "logits.size = 0");
        }
        for (std::int32_t const wrong : {0, fewer ? 12 : 41})
            EXPECT_MESSAGE(message_of<md::invalid_input>([&] { md::examples::short_block_drafter(whole, wrong); }),
                           "candidates = " + std::to_string(wrong));
    }
    // Of equal logits the first ones.
    for (float& x : drafter.tensors["norm.weight"].numbers) x = 0;
    drafter.write(directory / "drafter");
    load();
    block_drafter_model flat(weights);
    md::examples::short_block_drafter few(flat, 3);
    std::vector<token_id> tokens(3);
    std::vector<float> found(3);
    few.read(std::vector<token_id>{1}, 1);
    few.candidates_after(0, 12, tokens, found);  // which the drafter does not have: no term
    EXPECT_EQ(tokens, (std::vector<token_id>{0, 1, 5}));
    // What is no number has no place among them: nothing is written.
    drafter.tensors["norm.weight"].numbers[0] = std::numeric_limits<float>::quiet_NaN();
    drafter.write(directory / "drafter");
    load();
    block_drafter_model damaged(weights);
    md::examples::short_block_drafter none_of(damaged, 3);
    none_of.read(std::vector<token_id>{1}, 1);
    EXPECT_MESSAGE(message_of<md::invalid_input>([&] { none_of.candidates_after(0, 12, tokens, found); }),
                   "rows[0] = 0: the logit of this token is not a number");
}

TEST_F(block_drafter, drafts_of_fewer_tokens_for_the_text_of_the_target) {
    drafter.have_only({2, 3, 5, 6, 7, 13, 14, 20, 22, 25, 31, 33, 38, 39});
    drafter.write(directory / "drafter");
    load();
    transformer model = new_target();
    block_drafter_model of_drafter(weights);
    using nested = md::verify::nested_ranked_block<md::law::stratified>;
    using rejection = md::verify::recursive_rejection<md::law::sequential>;
    std::int64_t by_nested = 0, by_rejection = 0;
    for (float const temperature : {0.0F, 1.0F}) {
        by_nested += expect_text_of_the_target<nested, md::draft::stratified>(
            model, of_drafter, md::best_first_shape({.nodes = 20, .children = 8}), temperature);
        // More children than it has tokens.
        by_rejection += expect_text_of_the_target<rejection, md::draft::sequential>(
            model, of_drafter, md::fixed_shape(md::branching({20, 2})), temperature);
    }
    EXPECT_GT(by_nested, 10);
    EXPECT_GT(by_rejection, 10);
    // The same bits in any number of threads.
    auto const text = tiny_text(70, 8);
    auto const features = features_of(model, std::span(text).first(69));
    of_drafter.reset();
    observe(of_drafter, features);
    auto const expected = rows_after(of_drafter, text, 4);
    for (int const threads : {2, 3}) {
        load(options_for(precision::f32, threads));
        block_drafter_model several(weights);
        observe(several, features, 50);
        EXPECT_TRUE(same_bits(rows_after(several, text, 4), expected)) << threads;
    }
}

TEST_F(block_drafter, keeps_what_it_has_observed_of_a_text_with_the_same_beginning) {
    load();
    transformer model = new_target();
    block_drafter_model kept(weights);
    auto const first = tiny_text(150, 8);
    auto const features = features_of(model, std::span(first).first(149));
    for (std::int32_t const same : {0, 3, 64, 130, 149}) {
        // Before and after the features became entries.
        for (bool const called : {true, false}) {
            kept.reset();
            observe(kept, features);
            if (called) static_cast<void>(rows_after(kept, first, 2));
            EXPECT_EQ(kept.observed(), 149);
            kept.keep(same);
            EXPECT_EQ(kept.observed(), same);
            auto other = tiny_text(155, 9);
            std::copy_n(first.begin(), same, other.begin());
            auto const of_other = features_of(model, std::span(other).first(154));
            auto const positions = positions_from(0, 154);
            auto const from = static_cast<std::size_t>(same);
            kept.observe(std::span(of_other).subspan(48 * from), std::span(positions).subspan(from));
            block_drafter_model anew(weights);
            observe(anew, of_other);
            EXPECT_TRUE(same_bits(rows_after(kept, other, 4), rows_after(anew, other, 4))) << same;
        }
    }
    for (std::int32_t const wrong : {-1, 155})
        EXPECT_MESSAGE(message_of<md::invalid_input>([&] { kept.keep(wrong); }),
                       "positions = " + std::to_string(wrong) + ": features of 154 positions were observed");
}

TEST_F(block_drafter, reads_what_the_layers_of_the_target_give) {
    for (std::vector<std::int32_t> const& taps : {std::vector<std::int32_t>{1}, {2, 0}, {0, 1, 2}}) {
        drafter = plain_block_drafter(2, taps);
        drafter.write(directory / "drafter");
        load();
        transformer model = new_target();
        auto const text = tiny_text(100, 5);
        auto const features = features_of(model, text);
        auto const states = target.states(text);
        std::size_t const width = 24 * taps.size();
        ASSERT_EQ(features.size(), text.size() * width);
        block_drafter_model of_drafter(weights);
        std::vector<float> projected(text.size() * 24);
        of_drafter.project(features, projected);
        for (std::size_t t = 0; t < text.size(); ++t) {
            std::string const what = "position " + std::to_string(t);
            for (std::size_t k = 0; k < taps.size(); ++k)
                expect_close(std::span(features).subspan(t * width + 24 * k, 24),
                             states[t][static_cast<std::size_t>(taps[k])], what);
            expect_close(std::span(projected).subspan(24 * t, 24), drafter.feature(states[t]), what + ", projected");
        }
    }
}

TEST_F(block_drafter, sees_features_with_the_same_bits_in_pieces_and_in_trees) {
    load();
    transformer model = new_target();
    auto const text = tiny_text(130, 6);
    auto const features = features_of(model, text);
    for (std::size_t const piece : {1U, 7U, 64U, 65U})
        EXPECT_TRUE(same_bits(features_of(model, text, piece), features));

    // A tree after 100 tokens whose nodes 0, 2, 5 are the text's; logits of some, all or none of its nodes.
    model.keep(0, {});
    forward_chain(model, std::span(text).first(100), 1);
    EXPECT_TRUE(same_bits(model.features(), std::span(features).first(100 * 48)));
    std::vector<token_id> const tokens{text[100], 3, text[101], 4, 5, text[102]};
    forest const tree({-1, 0, 0, 1, 2, 2}, tokens, 100);
    for (std::size_t const rows : {0U, 2U, 6U}) {
        std::vector<float> logits(rows * 40);
        model.forward({tree.tokens, tree.positions, 100, tree.view()}, logits);
        std::vector<float> kept(3 * 48);
        std::vector<md::node_id> const nodes{0, 2, 5};
        md::copy_features<float>(model.features(), 48, nodes, kept);
        EXPECT_TRUE(same_bits(kept, std::span(features).subspan(100 * 48, 3 * 48))) << rows;
        model.keep(100, {});
    }
    // What is exposed changes no logits.
    transformer plain(of_target);
    EXPECT_TRUE(plain.features().empty());
    EXPECT_EQ(plain.feature_size(), 0);
    auto const expected = forward_chain(plain, text, 70);
    model.keep(0, {});
    EXPECT_TRUE(same_bits(forward_chain(model, text, 70), expected));
    EXPECT_TRUE(same_bits(model.hidden_states(), plain.hidden_states()));
    EXPECT_TRUE(plain.features().empty());
}

TEST_F(block_drafter, has_the_same_bits_in_any_pieces_and_threads) {
    for (auto const by : {multiplier::ours, multiplier::onednn}) {
        load(options_for(precision::f32, 1, by));
        transformer model = new_target();
        auto const text = tiny_text(150, 8);
        auto const features = features_of(model, std::span(text).first(149));
        block_drafter_model one(weights);
        observe(one, features);
        auto const expected = rows_after(one, text, 4);
        for (std::size_t const piece : {1U, 5U, 64U, 100U}) {
            one.reset();
            observe(one, std::span(features).first(3 * 48));
            one.reset();
            observe(one, features, piece);
            EXPECT_TRUE(same_bits(rows_after(one, text, 4), expected)) << piece;
        }
        // Of fewer rows, and again: nothing of a block stays.
        EXPECT_TRUE(same_bits(rows_after(one, text, 1), std::span(expected).first(40)));
        EXPECT_TRUE(same_bits(rows_after(one, text, 4), expected));
        for (int const threads : {2, 3}) {
            load(options_for(precision::f32, threads, by));
            block_drafter_model several(weights);
            observe(several, features, 50);
            EXPECT_TRUE(same_bits(rows_after(several, text, 4), expected)) << threads;
        }
    }
}

TEST_F(block_drafter, drafts_for_the_text_of_the_target) {
    load();
    transformer model = new_target();
    block_drafter_model of_drafter(weights);
    using nested = md::verify::nested_ranked_block<md::law::stratified>;
    using rejection = md::verify::recursive_rejection<md::law::sequential>;
    for (float const temperature : {0.0F, 1.0F}) {
        EXPECT_GT((expect_text_of_the_target<nested, md::draft::stratified>(
                      model, of_drafter, md::best_first_shape({.nodes = 20, .children = 8}), temperature)),
                  5);
        EXPECT_GT((expect_text_of_the_target<nested, md::draft::stratified>(model, of_drafter,
                                                                            md::reach_shape(0.02, 6, 4), temperature)),
                  5);
        EXPECT_GT((expect_text_of_the_target<rejection, md::draft::sequential>(
                      model, of_drafter, md::fixed_shape(md::branching({8, 3, 1})), temperature)),
                  5);
    }
}

TEST_F(block_drafter, without_a_term_of_the_parent_adds_nothing) {
    drafter = plain_block_drafter(2, {2, 0}, 0);
    drafter.write(directory / "drafter");
    load();
    block_drafter_model model(weights);
    std::vector<float> row(40, 2.5F);
    model.add_parent_term(0, 3, row);
    EXPECT_EQ(row, std::vector<float>(40, 2.5F));
}

TEST_F(block_drafter, refuses_what_it_cannot_read) {
    load();
    transformer model = new_target();
    block_drafter_model of_drafter(weights);
    auto const text = tiny_text(5, 9);
    auto const features = features_of(model, text);
    auto const positions = positions_from(0, 5);
    auto const observed = [&](std::size_t numbers, std::span<std::int32_t const> at) {
        return message_of<md::invalid_input>([&] { of_drafter.observe(std::span(features).first(numbers), at); });
    };
    EXPECT_MESSAGE(observed(47, std::span(positions).first(1)), "features.size = 47");
    EXPECT_MESSAGE(observed(48, std::span(positions).subspan(1, 1)), "the next position of the text is 0");
    observe(of_drafter, std::span(features).first(3 * 48));
    EXPECT_MESSAGE(observed(48, std::span(positions).first(1)), "the next position of the text is 3");

    std::vector<float> logits(4 * 40);
    auto const asked = [&](std::span<token_id const> of, std::size_t numbers) {
        logits.resize(numbers);
        return message_of<md::invalid_input>([&] { of_drafter.rows(of, logits); });
    };
    EXPECT_MESSAGE(asked(text, 160), "text.size = 5: features of 3 tokens were observed");
    EXPECT_MESSAGE(asked(std::span(text).first(3), 160), "text.size = 3");
    EXPECT_MESSAGE(asked(std::span(text).first(4), 0), "logits.size = 0");
    EXPECT_MESSAGE(asked(std::span(text).first(4), 200), "1 to 4 rows of 40");
    EXPECT_MESSAGE(asked(std::span(text).first(4), 41), "logits.size = 41");
    auto wrong = text;
    wrong[3] = 40;
    EXPECT_MESSAGE(asked(std::span(wrong).first(4), 40), "text[3] = 40");
    EXPECT_MESSAGE(message_of<md::invalid_input>([&] { of_drafter.add_parent_term(0, -1, logits); }), "token = -1");
    logits.resize(41);
    EXPECT_MESSAGE(message_of<md::invalid_input>([&] { of_drafter.add_parent_term(0, 1, logits); }), "row.size = 41");
    EXPECT_MESSAGE(message_of<md::invalid_input>([&] { of_drafter.project(std::span(features).first(48), logits); }),
                   "out.size");
    // Nothing was changed.
    auto const rows = rows_after(of_drafter, std::span(text).first(4), 4);
    block_drafter_model anew(weights);
    observe(anew, std::span(features).first(3 * 48));
    EXPECT_TRUE(same_bits(rows, rows_after(anew, std::span(text).first(4), 4)));

    EXPECT_MESSAGE(message_of<md::invalid_input>([&] {
                       model.expose_features(std::vector<std::int32_t>{0, 3});
                   }),
                   "layers[1] = 3");
    EXPECT_EQ(model.feature_size(), 48);
}

TEST_F(block_drafter, ends_with_the_context) {
    load();
    transformer model = new_target();
    block_drafter_model of_drafter(weights);
    auto const text = tiny_text(161, 4);
    auto const features = features_of(model, std::span(text).first(160));
    observe(of_drafter, std::span(features).first(159 * 48));
    auto const logits = rows_after(of_drafter, std::span(text).first(160), 4);
    auto const hidden = drafter.hidden(target, {text.begin(), text.begin() + 160});
    expect_close(std::span(logits).subspan(120, 40), target.times("model.embed_tokens.weight", hidden[3]), "last slot");
    std::vector<std::int32_t> const last{159};
    of_drafter.observe(std::span(features).subspan(159 * 48), last);
    std::vector<float> row(40);
    EXPECT_MESSAGE(message_of<md::invalid_input>([&] { of_drafter.rows(text, row); }), "the context has 160 positions");
}

TEST_F(block_drafter, text_goes_on_after_its_context) {
    drafter.config["max_position_embeddings"] = 70;
    drafter.write(directory / "drafter");
    load();
    transformer model = new_target();
    block_drafter_model of_drafter(weights);
    EXPECT_EQ(of_drafter.context_limit(), 70);
    expect_text_of_the_target<md::verify::nested_ranked_block<md::law::stratified>, md::draft::stratified>(
        model, of_drafter, md::best_first_shape({.nodes = 8, .children = 4}), 0.0F);
    // Features beyond are counted and forgotten.
    auto const text = tiny_text(100, 4);
    auto const features = features_of(model, text);
    of_drafter.reset();
    observe(of_drafter, features, 9);
    EXPECT_EQ(of_drafter.observed(), 100);
    for (std::int32_t const known : {90, 69}) {
        of_drafter.keep(known);
        std::vector<float> row(40);
        auto const call = [&] { of_drafter.rows(std::span(text).first(static_cast<std::size_t>(known) + 1), row); };
        if (known == 90)
            EXPECT_MESSAGE(message_of<md::invalid_input>(call), "the context has 70 positions");
        else
            call();
    }
    block_drafter_model anew(weights);
    observe(anew, std::span(features).first(69 * 48));
    EXPECT_TRUE(same_bits(rows_after(of_drafter, std::span(text).first(70), 4),
                          rows_after(anew, std::span(text).first(70), 4)));
}

TEST_F(block_drafter, files_that_are_wrong_are_named) {
    load();
    auto const fault = [&](std::function<void(plain_block_drafter&)> const& change) {
        plain_block_drafter changed = drafter;
        change(changed);
        changed.write(directory / "drafter");
        auto const message = message_of<std::runtime_error>(
            [&] { block_drafter_weights(directory / "drafter", of_target, options_for(precision::f32)); });
        EXPECT_MESSAGE(message, (directory / "drafter").string());
        return message;
    };
    auto const config = [&](char const* key, nlohmann::json const& value) {
        return fault([&](plain_block_drafter& d) { d.config[key] = value; });
    };
    EXPECT_MESSAGE(config("architectures", {"LlamaForCausalLM"}), "architectures = [\"LlamaForCausalLM\"]");
    EXPECT_MESSAGE(config("vocab_size", 41), "vocab_size = 41: the target has 40 tokens");
    EXPECT_MESSAGE(config("hidden_size", 32), "hidden_size = 32: the target has 24");
    EXPECT_MESSAGE(config("num_target_layers", 4), "num_target_layers = 4: the target has 3 layers");
    EXPECT_MESSAGE(config("target_layer_ids", {0, 3}), "target_layer_ids = 3: the target has 3 layers, 0 the first");
    EXPECT_MESSAGE(config("target_layer_ids", {-1}), "target_layer_ids = [-1]");
    EXPECT_MESSAGE(config("target_layer_ids", nullptr), "target_layer_ids");
    EXPECT_MESSAGE(config("block_size", 0), "block_size = 0");
    EXPECT_MESSAGE(config("block_size", 65), "block_size = 65: at most 64 rows");
    EXPECT_MESSAGE(config("markov_rank", -1), "markov_rank = -1");
    EXPECT_MESSAGE(config("markov_head_type", "gated"), "markov_head_type = \"gated\"");
    EXPECT_MESSAGE(config("enable_confidence_head", true), "tensor confidence_head.proj.weight is missing");
    EXPECT_MESSAGE(config("mask_token_id", 40), "mask_token_id = 40");
    EXPECT_MESSAGE(config("is_causal", true), "is_causal = true: only false is implemented");
    EXPECT_MESSAGE(config("dflash_config", {{"selector_rank", 8}}), "dflash_config.selector_rank = 8: not implemented");
    EXPECT_MESSAGE(config("dflash_config", {{"block_size", 65}}), "dflash_config.block_size = 65: at most 64 rows");
    EXPECT_MESSAGE(config("dflash_config", 3), "dflash_config = 3: must be an object");
    EXPECT_MESSAGE(config("rope_parameters", {{"rope_type", "yarn"}}), "rope_parameters.rope_type = \"yarn\"");
    EXPECT_MESSAGE(config("rope_parameters", {{"factor", 2}}), "rope_parameters.factor = 2: not implemented");
    EXPECT_MESSAGE(config("layer_types", {"sliding_attention", "full_attention"}), "layer_types");
    EXPECT_MESSAGE(config("attention_bias", true), "attention_bias = true");
    EXPECT_MESSAGE(config("hidden_act", "gelu"), "hidden_act = \"gelu\"");
    EXPECT_MESSAGE(config("embedding_and_head_of", "itself"), "embedding_and_head_of = \"itself\"");
    for (auto const& [name, one] : drafter.tensors) {
        EXPECT_MESSAGE(fault([&](plain_block_drafter& d) { d.tensors.erase(name); }), "tensor " + name + " is missing");
        EXPECT_MESSAGE(fault([&](plain_block_drafter& d) {
                           d.tensors[name].shape[0] -= 1;
                           d.tensors[name].numbers.resize(d.tensors[name].numbers.size() *
                                                          static_cast<std::size_t>(one.shape[0] - 1) /
                                                          static_cast<std::size_t>(one.shape[0]));
                       }),
                       "tensor " + name + ": shape = ");
    }
    EXPECT_MESSAGE(config("draft_vocab_size", 41), "draft_vocab_size = 41: the target has 40 tokens, vocab_size");
    EXPECT_MESSAGE(config("draft_vocab_size", 0), "draft_vocab_size = 0");
    EXPECT_MESSAGE(config("draft_vocab_size", 4), "tensor d2t is missing");
    EXPECT_MESSAGE(fault([](plain_block_drafter& d) {
                       d.integers["d2t"] = {0, 1};
                   }),
                   "tensor d2t: shape = [2]: config.json makes it [40]");
    auto const of_tokens = [&](std::vector<std::int64_t> const& offsets) {
        return fault([&](plain_block_drafter& d) {
            d.have_only({1, 4, 9, 30});
            d.integers["d2t"] = offsets;
        });
    };
    EXPECT_MESSAGE(of_tokens({1, 3, -3, 27}), "tensor d2t: offsets[2] = -3");
    EXPECT_MESSAGE(of_tokens({1, 3, 7, 37}), "tensor d2t: token_of[3] = 40: the target has 40 tokens");
    EXPECT_MESSAGE(of_tokens({1, 3, 2, 27}), "tensor d2t: token_of[2] = 4: token 1 of the draft is the same");
    EXPECT_MESSAGE(of_tokens({1, 3, 0, 27}), "tensor d2t: token_of[2] = 2: tokens rise, and the one before is 4");
    for (std::string const name : {"markov_head.markov_w1.weight", "markov_head.markov_w2.weight"})
        EXPECT_MESSAGE(fault([&](plain_block_drafter& d) {
                           plain_block_drafter const whole = d;
                           d.have_only({1, 4, 9, 30});
                           d.tensors[name] = whole.tensors.at(name);
                       }),
                       "tensor " + name + ": shape = [40,3]: config.json makes it [4,3]");
    EXPECT_MESSAGE(fault([](plain_block_drafter& d) { d.tensors["lm_head.weight"] = d.tensors["norm.weight"]; }),
                   "tensor lm_head.weight: shape = [24]: config.json makes it [40,24]");
    EXPECT_MESSAGE(fault([](plain_block_drafter& d) {
                       d.config["embedding_and_head_of"] = "target";
                       d.tensors["lm_head.weight"] = d.tensors["norm.weight"];
                   }),
                   "tensor lm_head.weight: by config.json there is none");
    EXPECT_MESSAGE(
        fault([](plain_block_drafter& d) { d.tensors["layers.0.attention_conv.base"] = d.tensors["fc.weight"]; }),
        "tensor layers.0.attention_conv.base: by config.json there is none");
    EXPECT_MESSAGE(fault([](plain_block_drafter& d) {
                       d.config["architectures"] = {"DFlashDraftModel"};
                       d.config["block_size"] = 1;
                   }),
                   "block_size = 1: the anchor's slot predicts nothing");
    EXPECT_MESSAGE(message_of<std::runtime_error>(
                       [&] { block_drafter_weights(directory / "none", of_target, options_for(precision::f32)); }),
                   "config.json: cannot be opened");
}

TEST_F(block_drafter, has_the_same_rows_when_it_is_padded_with_its_target) {
    auto const pad = [&](std::string const& name, std::string const& sizes) {
        std::string const command = "\"" MULTIDRAFT_PYTHON "\" \"" MULTIDRAFT_PAD "\" \"" +
                                    (directory / name).string() + "\" \"" + (directory / ("padded_" + name)).string() +
                                    "\" " + sizes + " > /dev/null";
        ASSERT_EQ(std::system(command.c_str()), 0) << command;
    };
    // Other numbers of heads in a group, so that some are copied; layers are the target's.
    pad("target", "--hidden 40 --intermediate 50 --heads 4 --kv-heads 2 --layers 5");
    pad("drafter", "--hidden 40 --intermediate 50 --heads 6 --kv-heads 3 --layers 5");
    load();
    transformer small = new_target();
    block_drafter_model of_small(weights);
    of_target = std::make_shared<transformer_weights const>(directory / "padded_target", options_for(precision::f32));
    weights = std::make_shared<block_drafter_weights const>(directory / "padded_drafter", of_target,
                                                            options_for(precision::f32));
    EXPECT_EQ(weights->config().layers.hidden, 40);
    EXPECT_EQ(weights->config().layers.heads, 6);
    EXPECT_EQ(weights->config().layers.layers, 2);
    transformer large = new_target();
    block_drafter_model of_large(weights);
    EXPECT_EQ(of_large.feature_size(), 80);
    auto const text = tiny_text(30, 3);
    observe(of_small, features_of(small, std::span(text).first(29)));
    observe(of_large, features_of(large, std::span(text).first(29)));
    auto expected = rows_after(of_small, text, 4);
    auto logits = rows_after(of_large, text, 4);
    of_small.add_parent_term(1, 7, std::span(expected).subspan(40, 40));
    of_large.add_parent_term(1, 7, std::span(logits).subspan(40, 40));
    expect_close(logits, {expected.begin(), expected.end()}, "padded");
}

#if defined MULTIDRAFT_BLOCK_DRAFTER || defined MULTIDRAFT_SMOLLM_DRAFTER

/// Numbers of a shipped drafter against those that measure_drafter.py wrote of it.
void expect_reference_numbers(fs::path const& directory, std::shared_ptr<transformer_weights const> const& of_target) {
    auto const weights = std::make_shared<block_drafter_weights const>(directory, of_target, transformer_options{});
    transformer target(of_target);
    target.expose_features(weights->target_layers());
    block_drafter_model model(weights);
    auto const reference = nlohmann::json::parse(std::ifstream(directory / "reference.json"));
    auto const expect_near = [](std::span<float const> ours, nlohmann::json const& theirs, std::string const& what) {
        ASSERT_LE(theirs.size(), ours.size());
        for (std::size_t i = 0; i < theirs.size(); ++i)
            ASSERT_NEAR(ours[i], theirs[i].get<float>(), 1e-3) << what << ", number " << i;
    };
    auto const expect_row = [&](std::span<float const> row, nlohmann::json const& theirs, std::string const& what) {
        std::vector<float> at_top;
        for (auto const& id : theirs.at("top_ids")) at_top.push_back(row[id.get<std::size_t>()]);
        expect_near(at_top, theirs.at("top_logits"), what);
        auto const largest = static_cast<double>(*std::ranges::max_element(row));
        double sum = 0;
        for (float const x : row) sum += std::exp(static_cast<double>(x) - largest);
        ASSERT_NEAR(std::log(sum) + largest, theirs.at("logsumexp").get<double>(), 1e-3) << what;
    };
    auto const vocabulary = static_cast<std::size_t>(model.vocabulary());
    auto const hidden = static_cast<std::size_t>(target.hidden_size());
    ASSERT_GE(reference.at("prompts").size(), 1U);
    for (auto const& one : reference.at("prompts")) {
        auto const name = one.at("prompt").get<std::string>();
        auto const text = one.at("token_ids").get<std::vector<token_id>>();
        auto const features = features_of(target, std::span(text).first(text.size() - 1));
        std::vector<float> projected((text.size() - 1) * hidden);
        model.project(features, projected);
        ASSERT_EQ(one.at("context_positions"), text.size() - 1);
        expect_near(projected, one.at("first_feature"), name + ": first feature");
        expect_near(std::span(projected).last(hidden), one.at("last_feature"), name + ": last feature");
        model.reset();
        observe(model, features);
        auto const logits = rows_after(model, text, model.block_size());
        if (one.contains("base_row_0"))
            expect_near(std::span(logits).first(vocabulary), one.at("base_row_0"), name + ": row 0");
        token_id parent = text.back();
        for (std::size_t k = 0; k < static_cast<std::size_t>(model.block_size()); ++k) {
            std::string const what = name + ": slot " + std::to_string(k);
            expect_near(model.hidden_states().subspan(k * hidden, hidden), one.at("hidden_rows").at(k), what);
            std::span<float const> const base = std::span(logits).subspan(k * vocabulary, vocabulary);
            expect_row(base, one.at("base_rows").at(k), what);
            ASSERT_EQ(one.at("rows_along_it").at(k).at("parent"), parent) << what;
            std::vector<float> row(base.begin(), base.end());
            model.add_parent_term(static_cast<std::int32_t>(k), parent, row);
            expect_row(row, one.at("rows_along_it").at(k), what + " with its term");
            parent = static_cast<token_id>(std::ranges::max_element(row) - row.begin());
            ASSERT_EQ(one.at("greedy_chain").at(k), parent) << what;
        }
    }
    if (!reference.contains("markov_terms")) return;
    for (auto const& [token, theirs] : reference.at("markov_terms").items()) {
        std::vector<float> term(vocabulary, 0.0F);
        model.add_parent_term(0, static_cast<token_id>(std::stoi(token)), term);
        expect_near(term, theirs.at("first"), "term of " + token);
        expect_row(term, theirs, "term of " + token);
    }
}

#endif

#ifdef MULTIDRAFT_BLOCK_DRAFTER
TEST(shipped_block_drafter, has_its_reference_numbers) {
    expect_reference_numbers(MULTIDRAFT_BLOCK_DRAFTER, weights_of("target", precision::f32));
}
#endif

#ifdef MULTIDRAFT_SMOLLM_DRAFTER
TEST(shipped_smollm_drafter, has_its_reference_numbers) {
    expect_reference_numbers(MULTIDRAFT_SMOLLM_DRAFTER, std::make_shared<transformer_weights const>(
                                                            MULTIDRAFT_SMOLLM, options_for(precision::stored)));
}
#endif

}  // namespace
}  // namespace block_drafter_test
