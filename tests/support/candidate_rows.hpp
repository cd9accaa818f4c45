// Draft rows that list their candidates, against the same rows written out: one verdict.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "multidraft/base/numbers.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/candidate_view.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/rows/remembered_rows.hpp"
#include "multidraft/rows/row_view.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// The candidates of some rows: their logits and tokens, one row after another.
struct listed_rows {
    std::vector<float> logits;
    std::vector<token_id> tokens;
};

/// Leaves each row its k largest logits, the others minus infinity, and lists them in the order of the tokens.
[[nodiscard]] inline listed_rows keep_candidates(std::vector<float>& rows, index_t vocabulary, index_t k) {
    listed_rows result;
    std::vector<token_id> order(static_cast<std::size_t>(vocabulary));
    for (std::size_t begin = 0; begin < rows.size(); begin += order.size()) {
        float* const row = rows.data() + begin;
        std::iota(order.begin(), order.end(), 0);
        std::nth_element(order.begin(), order.begin() + k, order.end(),
                         [&](token_id x, token_id y) { return row[x] > row[y]; });
        for (auto x = order.begin() + k; x != order.end(); ++x) row[*x] = minus_infinity<float>;
        std::sort(order.begin(), order.begin() + k);
        for (auto x = order.begin(); x != order.begin() + k; ++x) {
            result.tokens.push_back(*x);
            result.logits.push_back(row[*x]);
        }
    }
    return result;
}

}  // namespace MULTIDRAFT_NAMESPACE::testing

namespace MULTIDRAFT_NAMESPACE::testing::short_rows {

inline constexpr index_t vocabulary = 4200;  // two chunks, and a last run that is not whole

/// The rows of a draft with so many candidates each, written out and as they are; the target's are near.
template <class T>
struct rows {
    rows(index_t nodes, std::size_t candidates, std::uint64_t seed) : count(candidates) {
        test_numbers next(seed);
        target.resize(static_cast<std::size_t>(nodes * vocabulary));
        for (T& x : target) x = static_cast<T>(12 * next() - 12);
        written.assign(target.size(), minus_infinity<T>);
        for (index_t v = 0; v < nodes; ++v) {
            std::vector<token_id> here;
            while (here.size() < count) {
                auto const x = static_cast<token_id>(next() * vocabulary);
                if (std::find(here.begin(), here.end(), x) == here.end()) here.push_back(x);
            }
            std::sort(here.begin(), here.end());
            for (token_id const x : here) {
                auto const at = static_cast<std::size_t>(v * vocabulary + x);
                target[at] = static_cast<T>(6 * next() - 1);  // what the draft proposes has much of the target's mass
                written[at] = target[at] + static_cast<T>(next());
                tokens.push_back(x);
                logits.push_back(written[at]);
            }
        }
    }
    [[nodiscard]] row_view<T> of_target(node_id v) const {
        return {target.data() + std::ptrdiff_t{v} * vocabulary, vocabulary};
    }
    [[nodiscard]] row_view<T> whole(node_id v) const {
        return {written.data() + std::ptrdiff_t{v} * vocabulary, vocabulary};
    }
    [[nodiscard]] candidate_view<T> listed(node_id v) const {
        auto const first = static_cast<std::size_t>(v) * count;
        return {span<token_id const>(tokens).subspan(first, count), logits.data() + first, vocabulary};
    }
    std::size_t count;
    std::vector<T> target, written, logits;
    std::vector<token_id> tokens;
};

/// Expects one verdict on trees over both forms of the draft's rows. `on_group(body)` calls `body(g)` in every lane of
/// a group.
template <class Verifier, class Sampler, class T, class OnGroup>
void expect_same_verdicts(OnGroup const& on_group, sampling_params const& w, std::int32_t trees = 8) {
    using law = typename Sampler::law;
    using whole_row = softmax_row<row_view<T>>;
    using listed_row = softmax_row<candidate_view<T>>;
    static_assert(lists_candidates<listed_row> && !lists_candidates<whole_row>);
    topology const shape = branching({3, 2, 1});
    auto const nodes = static_cast<std::size_t>(shape.size());
    std::int32_t accepted = 0;
    std::int32_t refused = 0;
    for (std::size_t const count : {4U, 40U, 600U}) {
        rows<T> const all(shape.size(), count, count);
        host_group const host;
        std::vector<whole_row> p, q;
        std::vector<listed_row> short_q;
        for (node_id v = 0; v < shape.size(); ++v) {
            p.push_back(process_logits(host, all.of_target(v), {}).row);
            q.push_back(process_logits(host, all.whole(v), w).row);
            short_q.push_back(process_logits(host, all.listed(v), w).row);
        }
        for (std::int32_t position = 0; position < trees; ++position) {
            addressed_source source{addressed_uniforms(count)};
            std::vector<token_id> tokens(nodes, 0);
            bool whole = true;  // enough tokens have mass
            std::vector<index_t> certain(nodes, 0);
            for (node_id v = 0; v < shape.size(); ++v) {
                auto const children = shape.child_count(v);
                if (children == 0) continue;
                auto const& row = short_q[static_cast<std::size_t>(v)];
                auto sums = host.sum_chunks(vocabulary, weight_of{row});
                auto const drawn =
                    Sampler{}(host, row, sums, source, draw_site{position, v},
                              span<token_id>(tokens).subspan(static_cast<std::size_t>(shape.first_child(v)),
                                                             static_cast<std::size_t>(children)));
                whole = whole && drawn.count == children;
                certain[static_cast<std::size_t>(v)] = drawn.certain;
            }
            if (!whole) continue;
            auto const drafts = make_drafted<law>(tree_view{shape.parents(), tokens}, certain);
            prepared_rows<whole_row> const target(p, vocabulary), of_whole(q, vocabulary);
            prepared_rows<listed_row> const of_listed(short_q, vocabulary);
            std::vector<std::byte> scratch(verify::scratch_bytes<Verifier>(shape.size(), shape.max_depth()));
            auto const verdict_by = [&](auto const& draft, std::vector<node_id>& path) {
                path.assign(5, none);
                verdict result;
                on_group([&](auto const& g) {
                    addressed_source draws = source;
                    verdict found;
                    if constexpr (verify::needs_scratch<Verifier>)
                        found = Verifier{}(g, drafts, target_rows(target), draft_rows(draft), draws, position,
                                           span<node_id>(path), span<std::byte>(scratch));
                    else
                        found = Verifier{}(g, drafts, target_rows(target), draft_rows(draft), draws, position,
                                           span<node_id>(path));
                    if (g.leader()) result = found;
                });
                return result;
            };
            std::vector<node_id> of_short, of_long;
            auto const found = verdict_by(of_listed, of_short);
            auto const wanted = verdict_by(of_whole, of_long);
            ASSERT_EQ(found.accepted, wanted.accepted) << count << " candidates, position " << position;
            ASSERT_EQ(found.next, wanted.next) << count << " candidates, position " << position;
            ASSERT_EQ(of_short, of_long);
            accepted += found.accepted;
            refused += found.accepted < 3 ? 1 : 0;
        }
    }
    EXPECT_GT(accepted, 5);
    EXPECT_GT(refused, 5);
}

}  // namespace MULTIDRAFT_NAMESPACE::testing::short_rows
