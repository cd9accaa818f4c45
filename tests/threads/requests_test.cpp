// Several requests at once, each on its own thread, over shared data: models' constants, rows, trees, masks. Also built
// with the thread sanitizer (see .ci/run).
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "multidraft/decode/autoregressive.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/gumbel_top_k.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/logit_rows.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/tree/mask.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/traversal.hpp"
#include "multidraft/verify/verifier.hpp"
#include "support/table_model.hpp"

namespace requests_test {
namespace {

using namespace multidraft;
using multidraft::testing::conditional;
using multidraft::testing::random_conditional;
using multidraft::testing::table_model;

constexpr std::size_t threads = 4;

/// Runs `work(k)` for k < threads, first one after another and then at once, and compares.
template <class Work>
void compare(Work const& work) {
    using result = decltype(work(std::size_t{0}));
    std::vector<result> alone;
    for (std::size_t k = 0; k < threads; ++k) alone.push_back(work(k));
    std::vector<result> together(threads);
    {
        std::vector<std::jthread> running;
        for (std::size_t k = 0; k < threads; ++k) running.emplace_back([&, k] { together[k] = work(k); });
    }
    for (std::size_t k = 0; k < threads; ++k) EXPECT_EQ(together[k], alone[k]) << "request " << k;
}

TEST(threads, loops_over_shared_models) {
    // The law is shared and constant, the caches are each request's own: as an engine shares weights.
    conditional const target_law = random_conditional(50, 1);
    conditional const draft_law = random_conditional(50, 1, 1);
    topology const shape = branching({3, 2, 1});
    compare([&](std::size_t k) {
        table_model<float> target(50, target_law);
        table_model<float> draft(50, draft_law);
        auto loop =
            make_speculative<draft::sequential, verify::recursive_rejection<law::sequential>>(target, draft, shape);
        generation_options options;
        options.max_tokens = 40;
        options.seed = k;
        options.sampling.temperature = 0.5F + 0.25F * static_cast<float>(k);
        std::vector<token_id> const prompt{1, 2, 3};
        return loop(prompt, options).tokens;
    });
}

TEST(threads, samplers_and_verifiers_over_shared_rows) {
    index_t const vocabulary = 5000;
    topology const shape = branching({4, 2});
    auto const nodes = static_cast<std::size_t>(shape.size());
    std::vector<float> p(nodes * static_cast<std::size_t>(vocabulary));
    std::vector<float> q(p.size());
    for (std::size_t i = 0; i < p.size(); ++i) {
        p[i] = static_cast<float>(i * 7919 % 1009) * 0.01F;
        q[i] = p[i] + static_cast<float>(i * 31 % 101) * 0.01F;
    }
    host_group const g;
    ancestor_mask const mask(shape.parents());
    verify::recursive_rejection<law::sequential> const one_by_one;
    verify::traversal<law::sequential> const whole;
    verify::naive<law::sequential> const naive;
    draft::gumbel_top_k const sampler;
    compare([&](std::size_t k) {
        std::vector<std::int32_t> answers;
        sampling_params const w{.temperature = 0.8F, .top_p = 0.99F};
        logit_rows<float> const target(rows_view<float>(p.data(), shape.size(), vocabulary), w);
        logit_rows<float> const draft(rows_view<float>(q.data(), shape.size(), vocabulary), w);
        for (std::uint64_t seed = 0; seed < 6; ++seed) {
            addressed_source source{addressed_uniforms(seed, static_cast<std::uint32_t>(k))};
            std::vector<token_id> tokens(nodes, 0);
            for (node_id v = 0; v < shape.size(); ++v) {
                auto row = process_logits(g, row_view<float>(q.data() + v * vocabulary, vocabulary), w);
                (void)sampler(g, row.row, row.sums, source, draw_site{3, v},
                              {tokens.data() + shape.first_child(v), static_cast<std::size_t>(shape.child_count(v))});
            }
            drafted<law::sequential> const tree{{shape.parents(), tokens}};
            std::vector<std::byte> scratch(
                verify::scratch_bytes<verify::traversal<law::sequential>>(shape.size(), shape.max_depth()) + 16);
            auto const run = [&](auto const& verifier) {
                std::vector<node_id> path(nodes, none);
                auto const v = verify::verify_tree(verifier, g, tree, target_rows(target), draft_rows(draft), source, 3,
                                                   span<node_id>(path), span<std::byte>(scratch));
                answers.push_back(v.accepted);
                answers.push_back(v.next);
            };
            run(one_by_one);
            run(whole);
            run(naive);
            std::vector<std::uint8_t> dense(nodes * nodes);
            write_bytes(mask.view(), 0, {dense.data(), shape.size(), shape.size(), static_cast<std::int64_t>(nodes)});
            answers.push_back(dense[nodes * nodes - 1]);
        }
        return answers;
    });
}

}  // namespace
}  // namespace requests_test
