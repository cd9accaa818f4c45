// Requests to run together with the example models: prompts of many lengths, each with draws of its own.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/decode/continuous_batching.hpp"
#include "multidraft/decode/options.hpp"
#include "multidraft/tree/topology.hpp"
#include "transformer/batched_transformer.hpp"
#include "transformer/transformer.hpp"

namespace multidraft::testing {

inline std::vector<std::vector<token_id>> several_prompts() {
    std::vector<std::vector<token_id>> result;
    for (std::int32_t k = 0; k < 7; ++k) {
        std::vector<token_id> one{1};
        for (std::int32_t j = 0; j < 3 + 40 * k; ++j) one.push_back(300 + (j * 37 + k * 11) % 3000);
        result.push_back(one);
    }
    return result;
}

inline generation_options options_of_request(std::size_t k) {
    generation_options options;
    options.max_tokens = 24;
    options.seed = 3;
    options.request = static_cast<std::uint32_t>(k);
    options.sampling.temperature = k % 3 == 0 ? 1.0F : 0.7F;
    return options;
}

/// The loop over these requests, whose draft reads those layers of the target and prompts in pieces, has the texts of
/// `alone(target, prompt, options)` over each of them. Returns how many drafted tokens were accepted.
template <class Sampler, class Verifier, class Draft, class Alone>
std::int64_t expect_texts_of_each_alone(std::shared_ptr<examples::transformer_weights const> const& weights,
                                        std::span<std::int32_t const> layers, Draft& draft,
                                        std::vector<std::vector<token_id>> const& prompts, topology const& shape,
                                        Alone const& alone) {
    examples::batched_transformer target(weights, draft.sequences());
    target.expose_features(layers);
    host_threads const threads(2);
    auto loop = make_continuous_batching<Sampler, Verifier>(target, draft, threads, fixed_shapes(shape), {50});
    for (std::size_t k = 0; k < prompts.size(); ++k) loop.submit(prompts[k], options_of_request(k));
    while (loop.step()) {
    }
    auto const done = loop.take_finished();
    EXPECT_EQ(done.size(), prompts.size());
    examples::transformer one_target(weights);
    one_target.expose_features(layers);
    std::int64_t accepted = 0;
    for (auto const& f : done) {
        auto const k = static_cast<std::size_t>(f.ticket);
        EXPECT_EQ(f.error, "");
        generation const one = alone(one_target, prompts[k], options_of_request(k));
        EXPECT_EQ(f.result.tokens, one.tokens) << k;
        EXPECT_EQ(f.result.metrics.accepted, one.metrics.accepted) << k;
        accepted += f.result.metrics.accepted;
    }
    return accepted;
}

}  // namespace multidraft::testing
