// Many requests in one context of llama.cpp: logits of their trees, texts, and requests that fail alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "llama_cpp/batched_decoder.hpp"
#include "llama_cpp/decoder.hpp"
#include "llama_cpp/methods.hpp"
#include "llama_cpp_support.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/step_inputs.hpp"
#include "multidraft/decode/continuous_batching.hpp"
#include "multidraft/methods/list.hpp"
#include "multidraft/testing/check_batched_model.hpp"
#include "multidraft/tree/shape_text.hpp"
#include "multidraft/tree/shapes.hpp"

namespace multidraft::examples {
namespace {

using best = methods::nested_ranked_block_stratified;

std::shared_ptr<gguf_model const> small_model() { return std::make_shared<gguf_model const>(model_file("draft-f32")); }

/// A text and the tree below its last token, in a sequence that holds its first tokens.
struct one_request {
    one_request(std::vector<token_id> of, topology const& shape, std::int32_t vocabulary, unsigned seed)
        : text(std::move(of)), drafted(shape, text, vocabulary, seed) {}

    /// Adds the tokens of the text that are not in the cache, and the nodes of some levels.
    void add(multidraft::detail::step_reader& reader, std::int32_t b, std::int64_t first_node, std::int32_t from,
             std::int32_t to) {
        if (from == 0) reader.read_text(b, text);
        for (node_id v = 0; v < drafted.shape.size(); ++v)
            if (std::int32_t const depth = drafted.shape.depth(v); depth >= from && depth < to) {
                std::int64_t const parent = v == 0 ? none : first_node + drafted.shape.parent(v);
                reader.read_node(b, first_node + v, parent, drafted.tokens[static_cast<std::size_t>(v)],
                                 drafted.positions[static_cast<std::size_t>(v)]);
                order.push_back(v);
            }
        reader.end_request();
    }

    std::vector<token_id> text;
    tree drafted;
    std::int32_t in_cache = 0;
    std::vector<node_id> order{};  ///< the nodes as they were read
};

/// Reads the requests' trees in calls of `levels` levels, and checks every row against the path alone.
void read_trees(batched_llama_decoder& model, llama_decoder& other, std::span<one_request> requests,
                std::span<std::int32_t const> sequence_of, std::int32_t levels) {
    auto const width = static_cast<std::size_t>(model.vocabulary());
    multidraft::detail::step_reader reader;
    reader.clear();
    std::int32_t deepest = 0;
    for (one_request& r : requests) {
        reader.add_request(r.drafted.shape.size(), r.in_cache);
        deepest = std::max(deepest, r.drafted.shape.max_depth());
        r.order.clear();
    }
    std::vector<std::size_t> checked(requests.size(), 0);
    for (std::int32_t from = 0; from <= deepest; from += levels) {
        reader.begin();
        std::int64_t first_node = 0;
        for (std::size_t b = 0; b < requests.size(); ++b) {
            requests[b].add(reader, static_cast<std::int32_t>(b), first_node, from, from + levels);
            first_node += requests[b].drafted.shape.size();
        }
        step_inputs const in = reader.inputs();
        std::vector<float> logits(in.scored.size() * width);
        model.forward(in, sequence_of, logits);
        std::size_t row = 0;
        for (std::size_t b = 0; b < requests.size(); ++b)
            for (one_request const& r = requests[b]; checked[b] < r.order.size(); ++checked[b], ++row) {
                node_id const v = r.order[checked[b]];
                auto const want = alone(other, r.drafted.with_path(r.text, v));
                EXPECT_LT(largest_difference(std::span(logits).subspan(row * width, width), want), rounding)
                    << "request " << b << " node " << v << " of " << to_string(r.drafted.shape);
            }
    }
}

/// Keeps the path to a node; the text grows by it and one more token.
void keep_path(batched_llama_decoder& model, one_request& r, std::int32_t sequence, node_id v, token_id next) {
    std::vector<std::int32_t> entries;  // of the cache, in the order of reading
    for (node_id u = v; u != none; u = r.drafted.shape.parent(u))
        entries.push_back(static_cast<std::int32_t>(std::find(r.order.begin(), r.order.end(), u) - r.order.begin()));
    std::reverse(entries.begin(), entries.end());
    model.keep(sequence, static_cast<std::int32_t>(r.text.size()) - 1, entries);
    r.text = r.drafted.with_path(r.text, v);
    r.in_cache = static_cast<std::int32_t>(r.text.size());
    r.text.push_back(next);
}

TEST(BatchedLlamaDecoder, RowsOfManyTreesAreThoseOfThePathsAlone) {
    auto const weights = small_model();
    llama_decoder other(weights, small_options());
    std::int32_t const v = other.vocabulary();
    for (std::int32_t const batch : {512, 7}) {  // calls in one piece, and in several
        decoder_options options = small_options();
        options.tree_nodes = 42;
        options.batch = batch;
        batched_llama_decoder model(weights, 4, options);
        std::vector<std::int32_t> const sequences{2, 0, 1, 3};
        std::vector<one_request> requests;
        requests.emplace_back(some_text(v, 37, 1), branching({3, 2}), v, 11U);
        requests.emplace_back(some_text(v, 1, 2), fork(3, 4), v, 12U);
        requests.emplace_back(some_text(v, 120, 3), branching({2, 2, 1}), v, 13U);
        requests.emplace_back(some_text(v, 6, 3), topology::from_parents(std::vector<node_id>{-1, 0, 0, 1, 3}), v, 10U);
        for (std::int32_t const levels : {1, 5, 2}) {
            read_trees(model, other, requests, sequences, levels);
            for (std::size_t b = 0; b < requests.size(); ++b) {
                one_request& r = requests[b];
                // Of the last tree a node with children, whose sibling is the first leaf.
                auto const kept =
                    static_cast<node_id>(b == 3 ? 1 : (5 * b + 3 * static_cast<std::size_t>(levels)) % 10);
                keep_path(model, r, sequences[b], kept % r.drafted.shape.size(), static_cast<token_id>(50 + b));
                r.drafted = tree(r.drafted.shape, r.text, v, static_cast<unsigned>(20 + b));
            }
        }
        // Another text in the place of one that has ended.
        requests[1] = one_request(some_text(v, 20, 4), chain(2), v, 14U);
        read_trees(model, other, requests, sequences, 5);
    }
}

TEST(BatchedLlamaDecoder, ReadsTreesAsTexts) {
    decoder_options options = small_options();
    options.tree_nodes = 42;
    batched_llama_decoder model(small_model(), 3, options);
    auto const report = multidraft::testing::check_model(model, some_text(model.vocabulary(), 12, 5), 1e-3);
    EXPECT_EQ(report.fault, "");
}

TEST(BatchedLlamaDecoder, EntriesMayBeWrittenAgain) {
    auto const weights = small_model();
    llama_decoder other(weights, small_options());
    batched_llama_decoder model(weights, 2, small_options());
    std::int32_t const v = other.vocabulary();
    std::vector<std::int32_t> const sequences{1, 0};
    std::vector<one_request> requests;
    requests.emplace_back(some_text(v, 9, 5), branching({3, 2}), v, 15U);
    requests.emplace_back(some_text(v, 14, 6), chain(3), v, 16U);
    // A step that is read again with other trees, before anything is kept.
    for (unsigned const again : {0U, 1U, 2U}) {
        for (one_request& r : requests) r.drafted = tree(r.drafted.shape, r.text, v, 30 + again);
        read_trees(model, other, requests, sequences, again == 1 ? 5 : 1);
    }
    // The last level alone: two of its nodes have other tokens.
    one_request& r = requests[0];
    multidraft::detail::step_reader reader;
    reader.clear();
    reader.add_request(r.drafted.shape.size(), r.in_cache);
    std::vector<float> logits(10 * static_cast<std::size_t>(v));
    auto const level = [&](std::int32_t from, std::int32_t to) {
        reader.begin();
        r.add(reader, 0, 0, from, to);
        step_inputs const in = reader.inputs();
        logits.resize(in.scored.size() * static_cast<std::size_t>(v));
        model.forward(in, std::span(sequences).first(1), logits);
    };
    level(0, 2);
    auto const before_last = reader;
    level(2, 3);
    reader = before_last;
    r.drafted.tokens[4] = 1000;
    r.drafted.tokens[9] = 1001;
    level(2, 3);
    for (node_id u = 4; u < 10; ++u) {
        auto const row = std::span(logits).subspan(static_cast<std::size_t>(u - 4) * static_cast<std::size_t>(v),
                                                   static_cast<std::size_t>(v));
        EXPECT_LT(largest_difference(row, alone(other, r.drafted.with_path(r.text, u))), rounding) << u;
    }
    keep_path(model, r, sequences[0], 9, 70);
    r.drafted = tree(chain(1), r.text, v, 33U);
    read_trees(model, other, std::span(requests).first(1), std::span(sequences).first(1), 2);
}

TEST(BatchedLlamaDecoder, TreesThatAreNotKeptLeaveTheNextStep) {
    auto const weights = small_model();
    llama_decoder other(weights, small_options());
    decoder_options options = small_options();
    options.tree_nodes = 7;
    options.sequences = 6;  // of a tree of five leaves and a text
    batched_llama_decoder model(weights, 2, options);
    std::int32_t const v = other.vocabulary();
    std::vector<std::int32_t> const sequences{0, 1};
    for (std::size_t const turn : {0U, 1U, 0U, 1U}) {
        std::vector<one_request> one;
        one.emplace_back(some_text(v, 9, 5), branching({5}), v, 15U);
        read_trees(model, other, one, std::span(sequences).subspan(turn, 1), 2);
    }
}

/// Runs prompts together, and returns their ends by prompt. `after_step`, of the loop and the number of the step.
template <class AfterStep>
std::vector<finished_request> together(batched_llama_decoder& target, batched_llama_decoder& draft,
                                       topology const& shape, std::vector<std::vector<token_id>> const& prompts,
                                       generation_options const& options, AfterStep const& after_step) {
    host_threads const threads(1);
    auto loop = make_continuous_batching<best::sampler, best::verifier>(target, draft, threads, fixed_shapes(shape),
                                                                        {.prompt_tokens = 24});
    for (std::size_t k = 0; k < prompts.size(); ++k) {
        generation_options one = options;
        one.request = static_cast<std::uint32_t>(k);
        loop.submit(prompts[k], one);
    }
    std::vector<finished_request> ends(prompts.size());
    for (int step = 0; loop.step(); ++step) after_step(loop, step);
    for (finished_request& f : loop.take_finished()) ends[static_cast<std::size_t>(f.ticket)] = std::move(f);
    return ends;
}

/// Texts of single requests with the same draws.
std::vector<std::vector<token_id>> one_by_one(topology const& shape, std::vector<std::vector<token_id>> const& prompts,
                                              generation_options const& options) {
    llama_decoder target(std::make_shared<gguf_model const>(model_file("target-f32")), small_options());
    llama_decoder draft(small_model(), small_options());
    std::vector<std::vector<token_id>> texts;
    for (std::size_t k = 0; k < prompts.size(); ++k) {
        generation_options one = options;
        one.request = static_cast<std::uint32_t>(k);
        texts.push_back(find_llama_method(best::name).run(target, &draft, shape, prompts[k], one, {}).tokens);
    }
    return texts;
}

std::vector<std::vector<token_id>> prompts_of_lengths(std::vector<std::size_t> const& lengths) {
    std::vector<std::vector<token_id>> prompts;
    for (std::size_t const length : lengths)
        prompts.push_back(some_text(4096, length, 40 + static_cast<unsigned>(prompts.size())));
    return prompts;
}

/// No space beyond what the requests need: what an ended one leaves must be free for the next.
decoder_options room_of(std::int32_t requests, topology const& shape) {
    decoder_options options = small_options();
    options.context = 120;
    options.tree_nodes = requests * shape.size();
    options.batch = 30;  // a step with a piece of a prompt is more
    return options;
}

TEST(BatchedLlamaDecoder, TextsAreThoseOfSingleRequests) {
    auto const shape = branching({3, 1, 1});
    auto const prompts = prompts_of_lengths({5, 90, 12, 1, 30, 7, 3});
    generation_options options;
    options.max_tokens = 24;
    for (float const temperature : {0.0F, 0.8F}) {
        options.sampling.temperature = temperature;
        auto const want = one_by_one(shape, prompts, options);
        auto const texts = 3;
        batched_llama_decoder target(std::make_shared<gguf_model const>(model_file("target-f32")), texts,
                                     room_of(texts, shape));
        batched_llama_decoder draft(small_model(), texts, room_of(texts, shape));
        std::size_t most = 0;
        auto const ends = together(target, draft, shape, prompts, options,
                                   [&](auto const& loop, int) { most = std::max(most, loop.in_flight()); });
        EXPECT_EQ(most, 3U);
        std::set<std::vector<token_id>> different;
        for (std::size_t k = 0; k < prompts.size(); ++k) {
            EXPECT_EQ(ends[k].error, "") << k;
            EXPECT_EQ(ends[k].result.tokens, want[k]) << k << " at temperature " << temperature;
            different.insert(want[k]);
        }
        EXPECT_EQ(different.size(), prompts.size());
    }
}

TEST(BatchedLlamaDecoder, ARequestEndsAlone) {
    auto const shape = branching({3});
    auto const prompts = prompts_of_lengths({9, 14, 6, 11});
    generation_options options;
    options.max_tokens = 12;
    options.sampling.temperature = 0;
    auto const want = one_by_one(shape, prompts, options);
    decoder_options room = room_of(3, shape);
    auto const target_weights = std::make_shared<gguf_model const>(model_file("target-f32"));

    // Seven sequences are two trees of three leaves and a text: the third request of the first step is refused.
    room.sequences = 7;
    {
        batched_llama_decoder target(target_weights, 3, room);
        batched_llama_decoder draft(small_model(), 3, room);
        std::vector const first(prompts.begin(), prompts.begin() + 3);
        auto const ends = together(target, draft, shape, first, options, [](auto const&, int) {});
        EXPECT_NE(ends[2].error.find("more leaves than the context has sequences, 7"), std::string::npos);
        for (std::size_t const k : {0U, 1U}) {
            EXPECT_EQ(ends[k].error, "") << k;
            EXPECT_EQ(ends[k].result.tokens, want[k]) << k;
        }
    }
    // One is cancelled.
    room.sequences = 32;
    batched_llama_decoder target(target_weights, 3, room);
    batched_llama_decoder draft(small_model(), 3, room);
    auto const ends = together(target, draft, shape, prompts, options, [](auto& loop, int step) {
        if (step == 1) {
            EXPECT_TRUE(loop.cancel(1));
        }
    });
    EXPECT_EQ(ends[1].result.reason, stop_reason::callback);
    EXPECT_LT(ends[1].result.tokens.size(), want[1].size());
    for (std::size_t const k : {0U, 2U, 3U}) {
        EXPECT_EQ(ends[k].error, "") << k;
        EXPECT_EQ(ends[k].result.tokens, want[k]) << k;
    }
}

TEST(BatchedLlamaDecoder, BadCallsAreRefusedAndChangeNothing) {
    auto const weights = small_model();
    llama_decoder other(weights, small_options());
    std::int32_t const v = other.vocabulary();
    decoder_options options = small_options();
    options.context = 40;
    options.tree_nodes = 8;
    options.sequences = 8;
    EXPECT_THROW(batched_llama_decoder(weights, 0, options), invalid_input);
    EXPECT_THROW(batched_llama_decoder(weights, 9, options), invalid_input);
    batched_llama_decoder model(weights, 2, options);
    std::vector<std::int32_t> const sequences{0, 1};
    std::vector<one_request> requests;
    requests.emplace_back(some_text(v, 9, 7), chain(1), v, 17U);
    requests.emplace_back(some_text(v, 12, 8), branching({2}), v, 18U);
    read_trees(model, other, requests, sequences, 5);
    keep_path(model, requests[0], 0, 1, 60);
    keep_path(model, requests[1], 1, 2, 61);
    for (one_request& r : requests) r.drafted = tree(r.drafted.shape, r.text, v, 19U);

    EXPECT_THROW(model.keep(2, 0, {}), invalid_input);
    EXPECT_THROW(model.keep(-1, 0, {}), invalid_input);
    EXPECT_THROW(model.keep(0, 50, {}), invalid_input);
    // A call whose request is changed by `change`, refused for that request alone.
    auto const fails = [&](auto const& change, std::string const& reason) {
        std::vector<one_request> bad = requests;
        change(bad[1]);
        multidraft::detail::step_reader reader;
        reader.clear();
        for (one_request const& r : bad) reader.add_request(r.drafted.shape.size(), r.in_cache);
        reader.begin();
        bad[0].add(reader, 0, 0, 0, 9);
        bad[1].add(reader, 1, bad[0].drafted.shape.size(), 0, 9);
        step_inputs const in = reader.inputs();
        std::vector<float> logits(in.scored.size() * static_cast<std::size_t>(v));
        try {
            model.forward(in, sequences, logits);
            ADD_FAILURE() << reason << " was taken";
        } catch (failed_request const& e) {
            EXPECT_EQ(e.request, 1);
            EXPECT_NE(std::string(e.what()).find(reason), std::string::npos) << e.what();
        }
        EXPECT_THROW(model.forward(in, std::span(sequences).first(1), logits), invalid_input);
        EXPECT_THROW(model.forward(in, std::vector<std::int32_t>{0, 2}, logits), invalid_input);
        EXPECT_THROW(model.forward(in, std::vector<std::int32_t>{1, 1}, logits), invalid_input);
        EXPECT_THROW(model.forward(in, sequences, std::span(logits).first(1)), invalid_input);
    };
    fails([&](one_request& r) { r.drafted.tokens[1] = v; }, "token 4096");
    fails([&](one_request& r) { r.drafted.tokens[2] = -1; }, "token -1");
    fails(
        [&](one_request& r) {
            r.text = some_text(v, 41, 9);
            r.drafted = tree(chain(1), r.text, v, 9);
        },
        "position 40 is beyond the context of 40");
    fails([&](one_request& r) { r.drafted = tree(branching({8}), r.text, v, 9); }, "more leaves");
    read_trees(model, other, requests, sequences, 5);

    // Trees of more nodes than there are cells beside the texts.
    options.context = 13;
    options.tree_nodes = 4;
    batched_llama_decoder small(weights, 1, options);
    std::vector<one_request> one;
    one.emplace_back(some_text(v, 12, 7), branching({6}), v, 17U);
    try {
        read_trees(small, other, one, std::span(sequences).first(1), 1);
        ADD_FAILURE() << "the tree was taken";
    } catch (failed_request const& e) {
        EXPECT_NE(std::string(e.what()).find("more than the 4 entries"), std::string::npos) << e.what();
    }
}

}  // namespace
}  // namespace multidraft::examples
