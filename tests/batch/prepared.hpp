// The verdicts of methods over prepared rows, compared with those over the same logits.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "batch/ragged.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/prepare.hpp"
#include "multidraft/batch/prepared_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/methods/list.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// Memory for the numbers of prepared rows, filled with values that no row has.
struct prepared_memory {
    static constexpr float unwritten = -7;

    prepared_memory(std::int64_t nodes, index_t v)
        : states(static_cast<std::size_t>(nodes), row_state{unwritten, unwritten, unwritten, unwritten, -7}),
          sums(static_cast<std::size_t>(nodes * kept_sums(v)), unwritten),
          runs(static_cast<std::size_t>(nodes * chunks_of(v)), 77),
          vocabulary(v) {}

    [[nodiscard]] row_state_batch out() { return {states.data(), sums.data()}; }
    [[nodiscard]] row_state_batch out_with_runs() { return {states.data(), sums.data(), runs.data()}; }
    template <class T>
    [[nodiscard]] prepared_batch<T> rows(std::vector<T> const& matrix) const {
        return {matrix.data(), vocabulary, vocabulary, states.data(), nullptr, sums.data()};
    }
    template <class T>
    [[nodiscard]] prepared_batch<T> rows_with_runs(std::vector<T> const& matrix) const {
        prepared_batch<T> result = rows(matrix);
        result.runs = runs.data();
        return result;
    }

    std::vector<row_state> states;
    std::vector<float> sums;
    std::vector<std::uint64_t> runs;
    index_t vocabulary;
};

/// Whether two states of a row have the same numbers; NaN equals NaN. If all entries that equal the threshold are kept,
/// groups may differ in `cut_last`: compare sums and runs, too.
[[nodiscard]] inline bool same_state(row_state const& a, row_state const& b) {
    auto const same = [](float x, float y) { return x == y || (x != x && y != y); };
    return same(a.largest, b.largest) && same(a.scale, b.scale) && same(a.mass, b.mass) &&
           same(a.cut_value, b.cut_value) && (a.cut_last < 0) == (b.cut_last < 0);
}

/// Trees that a method takes.
[[nodiscard]] inline std::vector<std::vector<node_id>> ragged_shapes_for(allowed_trees kind) {
    switch (kind) {
        case allowed_trees::any:
            break;
        case allowed_trees::pairs:
            return {{none, 0, 0, 1, 1, 2}, {none}, {none, 0, 1}, {none, 0, 0, 1, 2, 2, 3}, {none, 0, 0, 1}, {none, 0}};
        case allowed_trees::forks:
            return {{none, 0, 0, 0, 1, 2, 3}, {none, 0, 1}, {none, 0, 0}, {none, 0, 0, 1, 2, 3, 4}, {none, 0}, {none}};
        case allowed_trees::chains:
            return {{none, 0, 1, 2}, {none}, {none, 0}, {none, 0, 1, 2, 3, 4}, {none, 0, 1}, {none, 0, 1, 2}};
    }
    return ragged_shapes;
}

/// Verdicts of a batch on host threads.
template <class Verifier, class T, class Target, class Draft>
[[nodiscard]] std::vector<outcome> verdicts_of(int threads, ragged<T> const& b, Target const& target,
                                               Draft const& draft) {
    host_threads const pool(threads);
    verify::scratch_memory memory;
    verdict_memory out(b.trees(), 0);
    auto const bytes = memory.of(verify_workspace_size<Verifier>(pool, b.size(), 10, 9));
    std::fill(bytes.begin(), bytes.end(), std::byte{0xff});
    verify_batch(pool, Verifier{}, drawn_by<typename Verifier::law>(b.trees()), target_rows(target), draft_rows(draft),
                 b.requests(), out.view(), bytes);
    return out.outcomes(b.trees());
}

/// One method over rows of T: the same verdicts whether the target's rows, the draft's or both are prepared.
template <class Method, class T>
void expect_verdicts_of_prepared_rows(index_t vocabulary, std::uint64_t seed) {
    using verifier = typename Method::verifier;
    SCOPED_TRACE(::testing::Message() << Method::name << ", V " << vocabulary);
    auto sampling = samplings_of_all_kinds;
    std::rotate(sampling.begin(), sampling.begin() + static_cast<std::ptrdiff_t>(seed % sampling.size()),
                sampling.end());
    sampling[0].top_k = 40;
    ragged<T> b(ragged_shapes_for(Method::trees), vocabulary, sampling, seed);
    b.draw_alone(typename Method::sampler{});
    auto const expected = verdicts_of<verifier>(1, b, b.target_logits(), b.draft_logits());
    // Of candidates that are equal the rows differ here, and one may forbid what another accepted.
    auto const decided = std::ranges::count_if(expected, [](outcome const& one) { return one.next != none; });
    EXPECT_GT(decided, Method::trees == allowed_trees::forks ? 0 : b.size() - 1);
    for (int const threads : {1, 3}) {
        host_threads const pool(threads);
        prepared_memory p(b.trees().nodes, vocabulary), q(b.trees().nodes, vocabulary);
        prepare_batch(pool, b.trees(), target_rows(b.target_logits()), p.out());
        prepare_batch(pool, b.trees(), draft_rows(b.draft_logits()), {q.states.data()});
        EXPECT_EQ(verdicts_of<verifier>(threads, b, p.rows(b.target), q.rows(b.draft)), expected);
        if (threads == 1) {
            EXPECT_EQ(verdicts_of<verifier>(threads, b, p.rows(b.target), b.draft_logits()), expected);
            prepare_batch(pool, b.trees(), target_rows(b.target_logits()), p.out_with_runs());
            prepare_batch(pool, b.trees(), draft_rows(b.draft_logits()), q.out_with_runs());
            EXPECT_EQ(verdicts_of<verifier>(threads, b, p.rows_with_runs(b.target), q.rows_with_runs(b.draft)),
                      expected);
        }
    }
}

/// All methods of a list, with one chunk a row and with several.
template <class Methods>
void expect_verdicts_of_all_prepared() {
    Methods::for_each([]<class Method>(Method) {
        for (std::uint64_t seed = 1; seed < 5; ++seed) expect_verdicts_of_prepared_rows<Method, float>(300, seed);
        expect_verdicts_of_prepared_rows<Method, float>(9000, 5);
    });
}

}  // namespace MULTIDRAFT_NAMESPACE::testing
