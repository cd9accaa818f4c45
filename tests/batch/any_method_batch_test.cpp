// Batches by a method chosen by name: draws and verdicts of its sampler and its verifier; errors.
#include "multidraft/methods/any_method_batch.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "batch/ragged.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/float16.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/methods/list.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {
namespace any_method_batch_test {
namespace {

/// A method that decides node by node, one of whole trees with certain children, one that reads no draft rows, one
/// whose noise is fixed by the text, one of several drafts.
using some = method_list<methods::nested_ranked_block_stratified, methods::recursive_rejection_sequential,
                         methods::naive_sequential, methods::shared_randomness, methods::multi_round_independent,
                         methods::naive_independent>;
using some_method = any_method_of<some>;

template <class T>
ragged<T> drawn_batch(some_method const& method, host_threads const& threads) {
    ragged<T> b(ragged_shapes, 300, samplings_of_all_kinds);
    b.draw_levels(
        [&](level_batch const& level, logit_batch<T> const& rows, request_batch const& requests,
            children_batch const& out) { draft_batch(threads, method, level, draft_rows(rows), requests, out); });
    return b;
}

template <class T>
std::vector<outcome> verdicts(some_method const& method, host_threads const& threads, ragged<T> const& b) {
    verify::scratch_memory memory;
    verdict_memory out(b.trees(), 0);
    verify_batch(threads, method, any_drafted_batch{b.trees(), method.law_name()}, target_rows(b.target_logits()),
                 draft_rows(b.draft_logits()), b.requests(), out.view(),
                 memory.of(verify_workspace_size(threads, method, b.size(), 10, 9)));
    return out.outcomes(b.trees());
}

template <class T>
void expect_the_same() {
    host_threads const threads(3);
    some::for_each([&]<class Method>(Method) {
        if constexpr (!std::is_same_v<typename Method::law, law::independent>) {
            SCOPED_TRACE(Method::name);
            some_method const method = some_method::parse(Method::name);
            ragged<T> const b = drawn_batch<T>(method, threads);
            ragged<T> alone(ragged_shapes, 300, samplings_of_all_kinds);
            alone.draw_alone(typename Method::sampler{});
            EXPECT_EQ(b.tokens, alone.tokens);
            EXPECT_EQ(b.certain, alone.certain);
            EXPECT_EQ(verdicts(method, threads, b),
                      b.template verify_alone<multidraft::detail::host_batch_group>(typename Method::verifier{}));
            EXPECT_EQ(verify_workspace_size(threads, method, 5, 10, 9),
                      verify_workspace_size<typename Method::verifier>(threads, 5, 10, 9));
        }
    });
}

TEST(any_method_batch, draws_and_decides_as_the_sampler_and_the_verifier_do) {
    expect_the_same<float>();
    expect_the_same<float16>();
}

void expect_refused(std::function<void()> const& call, std::string_view argument, std::string_view reason) {
    try {
        call();
        ADD_FAILURE() << "not refused: " << reason;
    } catch (invalid_input const& e) {
        EXPECT_EQ(e.argument(), argument);
        EXPECT_NE(e.reason().find(reason), std::string::npos) << e.what();
    }
}

TEST(any_method_batch, refuses_what_does_not_fit_the_method) {
    host_threads const threads(2);
    some_method const method = some_method::parse("recursive_rejection/sequential");
    ragged<float> const b = drawn_batch<float>(method, threads);
    verdict_memory out(b.trees(), 0);
    auto const verify_as = [&](std::string_view name, std::string_view law, auto const& draft) {
        verify_batch(threads, some_method::parse(name), any_drafted_batch{b.trees(), law},
                     target_rows(b.target_logits()), draft, b.requests(), out.view());
    };
    auto const q = draft_rows(b.draft_logits());
    draft_rows const nothing(verify::no_draft_rows{});
    expect_refused([&] { verify_as("recursive_rejection/sequential", "shared_randomness", q); }, "drafts.law",
                   "this one is verified by shared_randomness");
    expect_refused([&] { verify_as("recursive_rejection/sequential", "luck", q); }, "drafts.law", "no method verifies");
    expect_refused([&] { verify_as("recursive_rejection/sequential", "sequential", nothing); }, "draft",
                   "reads the draft's rows");
    expect_refused([&] { verify_as("multi_round/independent", "independent", q); }, "method", "one request at a time");
    expect_refused([&] { verify_as("naive/independent", "independent", q); }, "method", "one request at a time");
    EXPECT_TRUE(out.is_unwritten());
    EXPECT_NO_THROW(verify_as("naive/sequential", "sequential", nothing));

    validation_report report;
    validate_batch(threads, method, any_drafted_batch{b.trees(), "sequential"}, target_rows(b.target_logits()), q,
                   b.requests(), &report);
    EXPECT_EQ(report.what, batch_argument::nothing);
    expect_refused(
        [&] {
            validate_batch(threads, method, any_drafted_batch{b.trees(), "iid"}, target_rows(b.target_logits()), q,
                           b.requests(), &report);
        },
        "drafts.law", "no method verifies");
    expect_refused(
        [&] { static_cast<void>(drawn_batch<float>(some_method::parse("multi_round/independent"), threads)); },
        "method", "one request at a time");
}

}  // namespace
}  // namespace any_method_batch_test
}  // namespace MULTIDRAFT_NAMESPACE::testing
