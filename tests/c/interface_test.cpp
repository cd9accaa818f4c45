// The library's draws, verdicts and distributions equal those of the headers as compiled in this test, bit for bit, for
// every type of rows.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "batch/ragged.hpp"
#include "multidraft.h"
#include "multidraft/base/float16.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/methods/list.hpp"
#include "multidraft/rows/softmax.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {
namespace {

template <class T>
constexpr std::int32_t dtype_of = std::is_same_v<T, float>     ? MD_FLOAT32
                                  : std::is_same_v<T, float16> ? MD_FLOAT16
                                                               : MD_BFLOAT16;

template <class T>
md_rows rows_of(ragged<T> const& b, std::vector<T> const& matrix, std::vector<md_sampling> const& sampling) {
    md_rows rows = MD_ROWS_INIT;
    rows.dtype = dtype_of<T>;
    rows.data = matrix.data();
    rows.row_stride = b.vocabulary;
    rows.vocabulary = b.vocabulary;
    rows.sampling = sampling.data();
    return rows;
}

template <class Method, class T>
void expect_the_same() {
    SCOPED_TRACE(Method::name);
    ragged<T> b(ragged_shapes, 500, samplings_of_all_kinds);
    std::vector<md_sampling> sampling;
    for (sampling_params const& w : b.sampling) sampling.push_back({w.temperature, w.top_k, w.top_p, w.min_p});
    md_method const* method = nullptr;
    ASSERT_EQ(md_find_method(std::string(Method::name).c_str(), &method), MD_OK);
    md_requests requests = MD_REQUESTS_INIT;
    requests.seeds = b.seeds.data();
    requests.positions = b.positions.data();
    requests.ids = b.ids.data();
    md_rows const target = rows_of(b, b.target, sampling);
    md_rows const draft = rows_of(b, b.draft, sampling);

    b.draw_levels(
        [&](level_batch const& l, logit_batch<T> const& rows, request_batch const&, children_batch const& out) {
            md_level level = MD_LEVEL_INIT;
            level.entries = l.entries;
            level.requests = l.requests;
            level.nodes = l.nodes;
            level.wanted = l.wanted;
            level.depths = l.depths;
            md_children children = MD_CHILDREN_INIT;
            children.tokens = out.tokens;
            children.first = out.first;
            children.certain = out.certain;
            children.node_index = out.node_index;
            md_rows of_level = draft;
            of_level.row_of = rows.row_of;
            EXPECT_EQ(md_draft(method, nullptr, &level, &of_level, &requests, &children), MD_OK) << md_last_message();
        });
    ragged<T> alone(ragged_shapes, 500, samplings_of_all_kinds);
    alone.draw_alone(typename Method::sampler{});
    EXPECT_EQ(b.tokens, alone.tokens);
    EXPECT_EQ(b.certain, alone.certain);

    tree_batch const of = b.trees();
    md_trees trees = MD_TREES_INIT;
    trees.requests = of.requests;
    trees.nodes = of.nodes;
    trees.offsets = of.offsets;
    trees.parents = of.parents;
    trees.tokens = of.tokens;
    trees.certain = of.certain;
    std::string const law(Method::law::traits.name);
    trees.law = law.c_str();
    verdict_memory out(of, 0);
    md_verdicts verdicts = MD_VERDICTS_INIT;
    verdicts.path = out.path.data();
    verdicts.accepted = out.accepted.data();
    verdicts.next = out.next.data();
    ASSERT_EQ(md_verify(method, nullptr, &trees, &target, &draft, &requests, &verdicts, nullptr, 0), MD_OK)
        << md_last_message();
    EXPECT_EQ(out.outcomes(of), b.template verify_alone<detail::host_batch_group>(typename Method::verifier{}));

    // Row i of the distributions is processed with the parameters of request i.
    std::vector<float> p(static_cast<std::size_t>(b.size() * b.vocabulary));
    ASSERT_EQ(md_distributions(&target, b.size(), p.data()), MD_OK);
    for (std::int32_t i = 0; i < b.size(); ++i) {
        auto const row =
            process_logits(host_group{}, b.target_logits().view(i), b.sampling[static_cast<std::size_t>(i)]);
        for (index_t x = 0; x < b.vocabulary; ++x)
            ASSERT_EQ(p[static_cast<std::size_t>(i * b.vocabulary + x)], row.row(x));
    }
}

template <class Method>
void expect_the_same_of_every_type() {
    expect_the_same<Method, float>();
    expect_the_same<Method, float16>();
    expect_the_same<Method, bfloat16>();
}

TEST(c_interface, answers_as_the_headers_do) {
    if (!has_fma) GTEST_SKIP() << "this machine's plain arithmetic has no fused multiply-add";
    expect_the_same_of_every_type<methods::nested_ranked_block_stratified>();
    expect_the_same_of_every_type<methods::recursive_rejection_sequential>();
    expect_the_same_of_every_type<methods::shared_randomness>();
}

TEST(c_interface, refuses_probabilities_that_are_none) {
    md_rows rows = MD_ROWS_INIT;
    rows.kind = MD_PROBABILITIES;
    rows.dtype = MD_FLOAT32;
    rows.row_stride = 4;
    rows.vocabulary = 4;
    float const nan = std::numeric_limits<float>::quiet_NaN();
    for (std::vector<float> const& second :
         {std::vector<float>{nan, -1, 7, 0}, {0.5F, -0.5F, 1, 0}, {0.5F, 0.25F, 0, 0}, {0, 0, 0, 0}}) {
        std::vector<float> both{0.25F, 0.25F, 0.5F, 0};
        both.insert(both.end(), second.begin(), second.end());
        rows.data = both.data();
        std::vector<float> out(8, -3);
        EXPECT_EQ(md_distributions(&rows, 2, out.data()), MD_INVALID_INPUT) << second[0];
        EXPECT_NE(std::string(md_last_message()).find("rows[1] = "), std::string::npos) << md_last_message();
        EXPECT_EQ(out, std::vector<float>(8, -3)) << "nothing has been written";
        EXPECT_EQ(md_distributions(&rows, 1, out.data()), MD_OK);
        EXPECT_EQ(out[2], 0.5F);
    }
}

}  // namespace
}  // namespace MULTIDRAFT_NAMESPACE::testing
