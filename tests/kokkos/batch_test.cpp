// The batched launches against the host, request by request: the same tokens, paths and masks, bit for bit.
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "kokkos/machine.hpp"
#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/masks.hpp"
#include "multidraft/batch/predictions.hpp"
#include "multidraft/batch/prepare.hpp"
#include "multidraft/batch/prepared_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/validate.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/draft/gumbel_top_k.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/draft/top_then_one.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/kokkos/from_views.hpp"
#include "multidraft/kokkos/on.hpp"
#include "multidraft/kokkos/verify.hpp"
#include "multidraft/rows/logit_rows.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "multidraft/tree/mask.hpp"
#include "multidraft/verify/greedy_optimal.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/speculative_sampling.hpp"
#include "multidraft/verify/traversal.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Sampling parameters of every kind, assigned to the requests in turn.
sampling_params sampling_of(std::size_t request) {
    sampling_params const all[] = {{},
                                   {.temperature = 0.6F},
                                   {.temperature = 0.9F, .top_p = 0.9F},
                                   {.top_k = 40},
                                   {.temperature = 0.0F},
                                   {.temperature = 1.3F, .min_p = 0.02F},
                                   {.temperature = 0.8F, .top_k = 300, .top_p = 0.95F, .min_p = 0.001F}};
    return all[request % std::size(all)];
}

/// Rows of logits of type T, adjacent, beginning at the third entry: aligned only as T requires.
template <class T>
struct matrix {
    matrix(std::int64_t row_count, index_t vocabulary) : rows(row_count), size(vocabulary), data(at(rows * size) + 2) {}
    T const* row(std::int64_t i) const { return data.data() + 2 + i * size; }
    T* row(std::int64_t i) { return data.data() + 2 + i * size; }

    std::int64_t rows;
    index_t size;
    std::vector<T> data;
};

/// A copy of a matrix in the backend's memory, as adjacent rows.
template <class T>
struct machine_matrix {
    using rows_type = Kokkos::View<T const**, Kokkos::LayoutRight, memory, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

    explicit machine_matrix(matrix<T> const& from)
        : held(to_machine(from.data)), rows(held.data() + 2, at(from.rows), at(from.size)) {}

    Kokkos::View<T*, memory> held;
    rows_type rows;
};

/// The same as columns of a matrix: the entries of a row are not adjacent.
template <class T>
Kokkos::View<T**, Kokkos::LayoutLeft, memory> transposed(matrix<T> const& from) {
    Kokkos::View<T**, Kokkos::LayoutLeft, memory> to("transposed", at(from.rows), at(from.size));
    auto const mirror = Kokkos::create_mirror_view(to);
    for (std::int64_t i = 0; i < from.rows; ++i)
        for (index_t j = 0; j < from.size; ++j) mirror(at(i), at(j)) = from.row(i)[j];
    Kokkos::deep_copy(to, mirror);
    return to;
}

template <class T>
T number(double x) {
    if constexpr (std::is_same_v<T, double>) return x;
    return T(static_cast<float>(x));
}

/// A pool of normal variates, read from any offset: cheaper than new ones for every entry of long rows.
std::vector<double> const& pool() {
    static std::vector<double> const numbers = [] {
        test_numbers fresh(7);
        std::vector<double> result(100003);
        for (double& x : result) x = fresh.normal();
        return result;
    }();
    return numbers;
}

/// Target and draft rows with correlated logits; some tokens have no mass.
template <class T>
void fill(matrix<T>& target, matrix<T>& draft, test_numbers& numbers) {
    auto const& normal = pool();
    std::size_t const step = 31;  // the pool's length is prime
    for (std::int64_t i = 0; i < target.rows; ++i) {
        auto a = static_cast<std::size_t>(numbers.below(100003));
        auto b = static_cast<std::size_t>(numbers.below(100003));
        for (index_t j = 0; j < target.size; ++j) {
            a = (a + step) % normal.size();
            b = (b + 1) % normal.size();
            double const base = 2.5 * normal[a];
            bool const hidden = target.size > 4 && normal[b] > 2;
            target.row(i)[j] = number<T>(hidden ? -std::numeric_limits<double>::infinity() : base);
            draft.row(i)[j] = number<T>(base + normal[b]);
        }
    }
}

/// Trees of several requests, drawn on the host, with their rows.
template <class T>
struct trees {
    std::vector<std::int64_t> offsets{0};
    std::vector<node_id> parents;
    std::vector<token_id> tokens;
    std::vector<index_t> certain;
    std::vector<std::uint64_t> seeds;
    std::vector<std::uint32_t> requests;
    std::vector<std::int32_t> positions;
    std::vector<sampling_params> sampling;
    matrix<T> target{0, 0};
    matrix<T> draft{0, 0};

    std::size_t count() const { return seeds.size(); }
    node_id size(std::size_t r) const { return static_cast<node_id>(offsets[r + 1] - offsets[r]); }
    addressed_source source(std::size_t r) const { return addressed_source{addressed_uniforms(seeds[r], requests[r])}; }
    rows_view<T> rows(matrix<T> const& m, std::size_t r) const { return {m.row(offsets[r]), size(r), m.size}; }
    tree_view tree(std::size_t r) const {
        return {{parents.data() + offsets[r], at(size(r))}, {tokens.data() + offsets[r], at(size(r))}};
    }

    span<index_t const> certain_of(std::size_t r) const { return {certain.data() + offsets[r], at(size(r))}; }
};

/// Trees by hand.
struct tree_arrays {
    std::vector<std::int64_t> offsets;
    std::vector<node_id> parents;
    std::vector<token_id> tokens;
    std::vector<index_t> certain;
    std::vector<std::uint64_t> seeds;
    std::vector<std::uint32_t> requests;
    std::vector<std::int32_t> positions;
};

/// The arrays of a call, in the backend's memory.
struct machine_trees {
    template <class Trees>
    explicit machine_trees(Trees const& b)
        : offsets(to_machine(b.offsets)),
          parents(to_machine(b.parents)),
          tokens(to_machine(b.tokens)),
          certain(to_machine(b.certain)),
          seeds(to_machine(b.seeds)),
          ids(to_machine(b.requests)),
          positions(to_machine(b.positions)) {}

    [[nodiscard]] tree_batch trees(node_id largest = 0) const {
        return kokkos::trees_from_views(here, offsets, parents, tokens, certain, largest);
    }
    [[nodiscard]] request_batch requests() const {
        return kokkos::requests_from_views(here, trees(), seeds, positions, ids);
    }

    kokkos::space_policy<space> here{kokkos::on(space())};
    Kokkos::View<std::int64_t*, memory> offsets;
    Kokkos::View<node_id*, memory> parents;
    Kokkos::View<token_id*, memory> tokens;
    Kokkos::View<index_t*, memory> certain;
    Kokkos::View<std::uint64_t*, memory> seeds;
    Kokkos::View<std::uint32_t*, memory> ids;
    Kokkos::View<std::int32_t*, memory> positions;
};

/// The output of verdicts.
struct machine_verdicts {
    machine_verdicts(std::size_t nodes, std::size_t requests)
        : path("path", nodes), accepted("accepted", requests), next("next", requests) {}

    [[nodiscard]] verdict_batch of(tree_batch const& trees) const {
        return kokkos::verdicts_from_views(kokkos::on(space()), trees, path, accepted, next);
    }

    Kokkos::View<node_id*, memory> path;
    Kokkos::View<std::int32_t*, memory> accepted;
    Kokkos::View<token_id*, memory> next;
};

/// Ragged trees with up to `most` children per node; the first is only a root.
template <class Sampler, class T>
trees<T> draw_trees(std::size_t requests, index_t vocabulary, index_t most, std::uint64_t seed) {
    test_numbers numbers(seed);
    trees<T> result;
    // Sizes are not known before the draws, so rows are made for the largest possible trees.
    std::int64_t const room = 12;
    result.target = matrix<T>(static_cast<std::int64_t>(requests) * room, vocabulary);
    result.draft = matrix<T>(static_cast<std::int64_t>(requests) * room, vocabulary);
    fill(result.target, result.draft, numbers);
    for (std::size_t r = 0; r < requests; ++r) {
        result.seeds.push_back(r % 2 == 0 ? 42 : 1000 + r);
        result.requests.push_back(static_cast<std::uint32_t>(r));
        result.positions.push_back(static_cast<std::int32_t>(17 * r));
        result.sampling.push_back(sampling_of(r + seed));
        std::int64_t const first = result.offsets.back();
        std::vector<node_id> parents{none};
        std::vector<token_id> tokens{0};
        std::vector<index_t> certain(at(room), 0);
        auto source = result.source(r);
        auto const limit = r == 0 ? std::int64_t{1} : 3 + numbers.below(static_cast<index_t>(room) - 2);
        for (node_id v = 0; v < static_cast<node_id>(parents.size()); ++v) {
            auto const left = limit - static_cast<std::int64_t>(parents.size());
            auto const wanted = std::min<std::int64_t>(left, numbers() < 0.2 && v > 0 ? 0 : 1 + numbers.below(most));
            if (wanted <= 0) continue;
            auto q =
                process_logits(host_group{}, row_view<T>(result.draft.row(first + v), vocabulary), result.sampling[r]);
            std::vector<token_id> children(at(wanted));
            auto const drawn = Sampler{}(host_group{}, q.row, q.sums, source, draw_site{result.positions[r], v},
                                         span<token_id>(children));
            certain[at(v)] = drawn.certain;
            for (index_t k = 0; k < drawn.count; ++k) {
                parents.push_back(v);
                tokens.push_back(children[at(k)]);
            }
        }
        result.parents.insert(result.parents.end(), parents.begin(), parents.end());
        result.tokens.insert(result.tokens.end(), tokens.begin(), tokens.end());
        result.certain.insert(result.certain.end(), certain.begin(), certain.begin() + std::ssize(parents));
        result.offsets.push_back(static_cast<std::int64_t>(result.parents.size()));
    }
    return result;
}

/// The rows of a matrix that belong to the nodes, as a batch's matrix has them.
template <class T>
matrix<T> first_rows(matrix<T> const& from, std::size_t count) {
    matrix<T> result(static_cast<std::int64_t>(count), from.size);
    std::copy_n(from.row(0), count * at(from.size), result.row(0));
    return result;
}

template <class T>
matrix<T> softmaxed(trees<T> const& b, matrix<T> const& logits) {
    matrix<T> result(logits.rows, logits.size);
    for (std::size_t r = 0; r < b.count(); ++r)
        for (std::int64_t i = b.offsets[r]; i < b.offsets[r + 1]; ++i) {
            auto const row = process_logits(host_group{}, row_view<T>(logits.row(i), logits.size), b.sampling[r]).row;
            for (index_t j = 0; j < logits.size; ++j) result.row(i)[j] = number<T>(static_cast<double>(row(j)));
        }
    return result;
}

struct outcome {
    std::vector<node_id> path;
    token_id next;
};

template <class Verifier, class Target, class Draft, class T>
std::vector<outcome> on_host(trees<T> const& b, Target const& target, Draft const& draft) {
    std::vector<outcome> result;
    for (std::size_t r = 0; r < b.count(); ++r) {
        auto source = b.source(r);
        std::vector<node_id> path(at(b.size(r)));
        auto const v =
            Verifier{}(host_group{}, make_drafted<typename Verifier::law>(b.tree(r), b.certain_of(r)),
                       target_rows(target(r)), draft_rows(draft(r)), source, b.positions[r], span<node_id>(path));
        path.resize(at(v.accepted));
        result.push_back({path, v.next});
    }
    return result;
}

template <class Group, class Verifier, class T, class Target, class Draft>
void compare(trees<T> const& b, Target const& target, Draft const& draft, std::vector<outcome> const& expected,
             std::string const& what) {
    machine_trees const m(b);
    for (int const size : team_sizes()) {
        machine_verdicts const out(b.parents.size(), b.count());
        verify_batch(kokkos::on<Group::template type>(space(), {size}), Verifier{},
                     drawn_by<typename Verifier::law>(m.trees()), target_rows(target), draft_rows(draft), m.requests(),
                     out.of(m.trees()));
        auto const paths = to_host(out.path);
        auto const accepted = to_host(out.accepted);
        auto const next = to_host(out.next);
        for (std::size_t r = 0; r < b.count(); ++r) {
            auto const begin = paths.begin() + b.offsets[r];
            ASSERT_EQ(at(accepted[r]), expected[r].path.size()) << what << ", team of " << size << ", request " << r;
            ASSERT_EQ(std::vector<node_id>(begin, begin + accepted[r]), expected[r].path) << what << ' ' << r;
            ASSERT_EQ(next[r], expected[r].next) << what << ", team of " << size << ", request " << r;
        }
    }
}

/// Prepared rows of both models, prepared by teams of every size; their numbers are the host's.
template <class Group, class Verifier, class T, class Rows>
void compare_prepared(trees<T> const& b, Rows const& target, Rows const& draft, std::vector<outcome> const& expected,
                      std::string const& what) {
    machine_trees const m(b);
    std::size_t const nodes = b.parents.size();
    std::size_t const of_row = at(kept_sums(target.vocabulary));
    Kokkos::View<row_state*, memory> const p_states("states", nodes), q_states("states", nodes);
    Kokkos::View<float*, memory> const p_sums("sums", nodes * of_row);
    std::size_t const words = at(chunks_of(target.vocabulary));
    Kokkos::View<std::uint64_t*, memory> const p_runs("runs", nodes * words), q_runs("runs", nodes * words);
    Kokkos::View<std::int64_t*, memory> const predicted("predicted", nodes);
    for (int const size : team_sizes()) {
        auto const here = kokkos::on<Group::template type>(space(), {size});
        prepare_batch(here, m.trees(), target_rows(target), {p_states.data(), p_sums.data(), p_runs.data()});
        prepare_batch(here, m.trees(), draft_rows(draft), {q_states.data(), nullptr, q_runs.data()});
        predict_batch(here, m.trees(), target_rows(target), predicted.data());
        auto const states = to_host(p_states);
        auto const sums = to_host(p_sums);
        auto const runs = to_host(p_runs);
        auto const tokens = to_host(predicted);
        for (std::size_t r = 0; r < b.count(); ++r) {
            for (std::int64_t i = b.offsets[r]; i < b.offsets[r + 1]; ++i) {
                row_view<T> const x(b.target.row(i), b.target.size);
                auto const row = process_logits(host_group{}, x, b.sampling[r]);
                ASSERT_EQ(states[at(i)].mass, row.row.mass()) << what << ", team of " << size << ", row " << i;
                ASSERT_EQ(states[at(i)].cut_value, row.row.kept().value) << what << ' ' << i;
                for (std::size_t c = 0; c < of_row; ++c)
                    ASSERT_EQ(sums[at(i) * of_row + c], row.sums.values[c]) << what << ' ' << i << ' ' << c;
                std::vector<std::uint64_t> expected_runs(words, ~std::uint64_t{0});
                if (!row.row.may_have_all_mass()) write_kept_runs(host_group{}, row.row, expected_runs.data());
                for (std::size_t c = 0; c < words; ++c)
                    ASSERT_EQ(runs[at(i) * words + c], expected_runs[c]) << what << ' ' << i << ' ' << c;
                ASSERT_EQ(tokens[at(i)], most_likely_token(host_group{}, x)) << what << ' ' << i;
            }
        }
    }
    using element = typename Rows::element;
    using layout = typename Rows::layout_type;
    prepared_batch<element, layout> const p{target, p_states.data(), p_sums.data(), p_runs.data()};
    prepared_batch<element, layout> const q{draft, q_states.data()};
    compare<Group, Verifier>(b, p, q, expected, what + ", prepared");
}

/// One verifier on trees of one law: rows as logits (adjacent and with strides), prepared, and as probabilities.
template <class Group, class Verifier, class Sampler, class T>
void check_verifier(index_t vocabulary, index_t most, std::uint64_t seed) {
    trees<T> b = draw_trees<Sampler, T>(6, vocabulary, most, seed);
    b.target = first_rows(b.target, b.parents.size());
    b.draft = first_rows(b.draft, b.parents.size());
    auto const sampling = to_machine(b.sampling);
    std::string const what = "V " + std::to_string(vocabulary) + " as logits";
    auto const expected = on_host<Verifier>(
        b, [&](std::size_t r) { return logit_rows<T>(b.rows(b.target, r), b.sampling[r]); },
        [&](std::size_t r) { return logit_rows<T>(b.rows(b.draft, r), b.sampling[r]); });
    machine_matrix<T> const target(b.target);
    machine_matrix<T> const draft(b.draft);
    auto const here = kokkos::on(space());
    tree_batch const extents{static_cast<std::int32_t>(b.count()), b.offsets.back()};
    auto const logits = [&](auto const& rows) { return kokkos::logits_from_views(here, extents, rows, sampling); };
    compare<Group, Verifier>(b, logits(target.rows), logits(draft.rows), expected, what);
    if constexpr (std::is_same_v<real_of<T>, float>)
        compare_prepared<Group, Verifier>(b, logits(target.rows), logits(draft.rows), expected, what);

    if (vocabulary > 5000) return;
    auto const columns = transposed(b.target);
    // The draft's rows by an index: each node's own.
    std::vector<std::int64_t> own(b.parents.size());
    for (std::size_t i = 0; i < own.size(); ++i) own[i] = static_cast<std::int64_t>(i);
    auto const row_of = to_machine(own);
    compare<Group, Verifier>(b, logits(columns), kokkos::logits_from_views(here, extents, draft.rows, sampling, row_of),
                             expected, what + ", with strides");
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
        auto const p = softmaxed(b, b.target);
        auto const q = softmaxed(b, b.draft);
        auto const from_rows = on_host<Verifier>(
            b, [&](std::size_t r) { return probability_rows<T>(b.rows(p, r)); },
            [&](std::size_t r) { return probability_rows<T>(b.rows(q, r)); });
        machine_matrix<T> const machine_p(p);
        machine_matrix<T> const machine_q(q);
        compare<Group, Verifier>(b, kokkos::probabilities_from_views(here, extents, machine_p.rows),
                                 kokkos::probabilities_from_views(here, extents, machine_q.rows), from_rows,
                                 "V " + std::to_string(vocabulary) + " as probabilities");
    }
}

/// One sampler on a level of nodes of several requests.
template <class Group, class Sampler, class T>
void check_sampler(index_t vocabulary, std::uint64_t seed) {
    constexpr std::size_t entries = 9;
    constexpr std::size_t requests = 7;
    constexpr std::size_t room = 6;
    test_numbers numbers(seed);
    matrix<T> logits(entries, vocabulary);
    matrix<T> unused(entries, vocabulary);
    fill(unused, logits, numbers);
    std::vector<std::int32_t> of;
    std::vector<node_id> nodes;
    std::vector<index_t> wanted;
    std::vector<std::uint64_t> seeds;
    std::vector<std::int32_t> positions;
    std::vector<sampling_params> sampling;
    for (std::size_t r = 0; r < requests; ++r) {
        seeds.push_back(seed * 100 + r);
        positions.push_back(static_cast<std::int32_t>(r * 1000));
        sampling.push_back(sampling_of(r));
    }
    for (std::size_t m = 0; m < entries; ++m) {
        of.push_back(static_cast<std::int32_t>((m * 5) % requests));
        nodes.push_back(static_cast<node_id>(m));
        wanted.push_back(static_cast<index_t>(m == 0 ? 0 : 1 + m % room));
    }
    machine_matrix<T> const rows(logits);
    auto const machine_of = to_machine(of);
    auto const machine_nodes = to_machine(nodes);
    auto const machine_wanted = to_machine(wanted);
    auto const machine_seeds = to_machine(seeds);
    auto const machine_positions = to_machine(positions);
    auto const machine_sampling = to_machine(sampling);
    for (int const size : team_sizes()) {
        auto const here = kokkos::on<Group::template type>(space(), {size});
        Kokkos::View<token_id**, Kokkos::LayoutRight, memory> const drawn_tokens("tokens", entries, room);
        Kokkos::View<index_t*, memory> const drawn_counts("counts", entries);
        Kokkos::View<index_t*, memory> const drawn_certain("certain", entries);
        level_batch const level = kokkos::level_from_views(here, machine_of, machine_nodes, machine_wanted);
        draft_batch(here, Sampler{}, level,
                    draft_rows(kokkos::logits_from_views(here, level, rows.rows, machine_sampling)),
                    kokkos::requests_from_views(here, tree_batch{requests}, machine_seeds, machine_positions),
                    kokkos::children_from_views(here, level, drawn_tokens, drawn_counts, drawn_certain));
        auto const tokens = to_host(drawn_tokens);
        auto const counts = to_host(drawn_counts);
        auto const certain = to_host(drawn_certain);
        for (std::size_t m = 0; m < entries; ++m) {
            auto const r = at(of[m]);
            auto q = process_logits(host_group{}, row_view<T>(logits.row(static_cast<std::int64_t>(m)), vocabulary),
                                    sampling[r]);
            addressed_source source{addressed_uniforms(seeds[r])};
            std::vector<token_id> expected(at(wanted[m]));
            auto const drawn = Sampler{}(host_group{}, q.row, q.sums, source, draw_site{positions[r], nodes[m]},
                                         span<token_id>(expected));
            ASSERT_EQ(counts[m], drawn.count) << "V " << vocabulary << ", team of " << size << ", entry " << m;
            ASSERT_EQ(certain[m], drawn.certain) << "V " << vocabulary << ", team of " << size << ", entry " << m;
            for (std::size_t k = 0; k < at(drawn.count); ++k)
                ASSERT_EQ(tokens[m * room + k], expected[k]) << "V " << vocabulary << ", team of " << size;
            for (std::size_t k = at(drawn.count); k < room; ++k)
                ASSERT_EQ(tokens[m * room + k], k < at(wanted[m]) ? support_ended : padding);
        }
    }
}

template <class Case>
class kokkos_batch : public ::testing::Test {};
using cases =
    ::testing::Types<std::tuple<own_group, float>, std::tuple<own_group, float16>, std::tuple<own_group, bfloat16>,
                     std::tuple<own_group, double>, std::tuple<device_group, float>, std::tuple<device_group, double>>;
TYPED_TEST_SUITE(kokkos_batch, cases);

constexpr index_t vocabularies[] = {1, 2, 3, 17, 257, 4096, 4099, 32003, 152064};

TYPED_TEST(kokkos_batch, verifies_as_the_host_does) {
    using group = std::tuple_element_t<0, TypeParam>;
    using T = std::tuple_element_t<1, TypeParam>;
    for (index_t const v : vocabularies) {
        auto const seed = static_cast<std::uint64_t>(v);
        check_verifier<group, verify::recursive_rejection<law::sequential>, draft::sequential, T>(v, 4, seed);
        if (v > 100000 && !std::is_same_v<T, float>) continue;
        check_verifier<group, verify::recursive_rejection<law::iid>, draft::iid, T>(v, 4, seed + 1);
        check_verifier<group, verify::speculative_sampling<law::iid>, draft::iid, T>(v, 1, seed + 2);
        check_verifier<group, verify::naive<law::deterministic>, draft::top_n, T>(v, 4, seed + 3);
        check_verifier<group, verify::naive<law::iid>, draft::iid, T>(v, 4, seed + 4);
        check_verifier<group, verify::naive<law::sequential>, draft::gumbel_top_k, T>(v, 4, seed + 5);
    }
    // Small vocabularies reach every branch: residuals without mass, duplicates, supports that are exhausted.
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        check_verifier<group, verify::recursive_rejection<law::sequential>, draft::sequential, T>(5, 4, seed);
        check_verifier<group, verify::recursive_rejection<law::iid>, draft::iid, T>(5, 4, seed);
        check_verifier<group, verify::greedy_optimal<law::top_then_one>, draft::top_then_one, T>(5, 4, seed);
    }
}

TYPED_TEST(kokkos_batch, draws_as_the_host_does) {
    using group = std::tuple_element_t<0, TypeParam>;
    using T = std::tuple_element_t<1, TypeParam>;
    for (index_t const v : vocabularies) {
        auto const seed = static_cast<std::uint64_t>(v);
        check_sampler<group, draft::iid, T>(v, seed);
        check_sampler<group, draft::sequential, T>(v, seed + 1);
        if (v < 5000) check_sampler<group, draft::stratified, T>(v, seed + 4);
        check_sampler<group, draft::gumbel_top_k, T>(v, seed + 2);
        check_sampler<group, draft::top_n, T>(v, seed + 3);
    }
}

TYPED_TEST(kokkos_batch, answers_none_where_rows_are_bad) {
    using group = std::tuple_element_t<0, TypeParam>;
    using T = std::tuple_element_t<1, TypeParam>;
    double const bad[] = {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                          -std::numeric_limits<double>::infinity()};
    for (double const entry : bad) {
        trees<T> b = draw_trees<draft::sequential, T>(7, 5000, 3, 9);
        b.target = first_rows(b.target, b.parents.size());
        b.draft = first_rows(b.draft, b.parents.size());
        for (std::size_t r = 0; r < b.count(); ++r) {
            // One bad entry, or a row of minus infinities only.
            T* const row = b.target.row(b.offsets[r]);
            if (entry < 0)
                std::fill_n(row, b.target.size, number<T>(entry));
            else
                row[4500] = number<T>(entry);
        }
        machine_matrix<T> const target(b.target);
        machine_matrix<T> const draft(b.draft);
        auto const sampling = to_machine(b.sampling);
        auto const here = kokkos::on<group::template type>(space());
        machine_trees const m(b);
        auto const p = kokkos::logits_from_views(here, m.trees(), target.rows, sampling);
        auto const q = kokkos::logits_from_views(here, m.trees(), draft.rows, sampling);
        std::vector<outcome> const nothing(b.count(), outcome{{}, none});
        compare<group, verify::recursive_rejection<law::sequential>>(b, p, q, nothing, "a bad target row");
        compare<group, verify::naive<law::sequential>>(b, p, verify::no_draft_rows{}, nothing,
                                                       "a bad target row, naive");
        Kokkos::View<validation_report*, memory> const report("report", 1);
        validate_batch(here, tree_rules{}, drawn_by<law::sequential>(m.trees()), target_rows(p), draft_rows(q),
                       m.requests(), report.data());
        auto const found = to_host(report).at(0);
        EXPECT_EQ(found.what, batch_argument::target);
        EXPECT_EQ(found.request, 0);
        EXPECT_EQ(found.index, 0);
        EXPECT_EQ(found.token, entry < 0 ? none : 4500);

        std::vector<std::int32_t> of(b.count());
        for (std::size_t r = 0; r < of.size(); ++r) of[r] = static_cast<std::int32_t>(r);
        matrix<T> roots(static_cast<std::int64_t>(b.count()), b.target.size);
        for (std::size_t r = 0; r < of.size(); ++r)
            std::copy_n(b.target.row(b.offsets[r]), b.target.size, roots.row(static_cast<std::int64_t>(r)));
        machine_matrix<T> const rows(roots);
        Kokkos::View<token_id**, Kokkos::LayoutRight, memory> const tokens("tokens", of.size(), 3);
        Kokkos::View<index_t*, memory> const counts("counts", of.size());
        auto const machine_of = to_machine(of);
        auto const machine_nodes = to_machine(std::vector<node_id>(of.size(), 0));
        level_batch const level = kokkos::level_from_views(here, machine_of, machine_nodes);
        draft_rows const of_level(kokkos::logits_from_views(here, level, rows.rows, sampling));
        auto const out = kokkos::children_from_views(here, level, tokens, counts);
        draft_batch(here, draft::sequential{}, level, of_level, m.requests(), out);
        for (index_t const count : to_host(counts)) EXPECT_EQ(count, 0);
        draft_batch(here, draft::gumbel_top_k{}, level, of_level, m.requests(), out);
        for (index_t const count : to_host(counts)) EXPECT_EQ(count, 0);
    }
}

/// A candidate without mass in the draft's row, and two candidates for a verifier that takes one.
TEST(kokkos_verify, answers_none_where_a_candidate_was_not_drawn) {
    std::vector<float> const p{0.5F, 0.25F, 0.25F, 0.5F, 0.25F, 0.25F, 0.5F, 0.25F, 0.25F};
    std::vector<float> const q{0.0F, 0.5F, 0.5F, 0.0F, 0.5F, 0.5F, 0.0F, 0.5F, 0.5F};
    auto const held_p = to_machine(p);
    auto const held_q = to_machine(q);
    using rows_type = Kokkos::View<float const**, Kokkos::LayoutRight, memory, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
    tree_arrays const t{{0, 3}, {none, 0, 0}, {0, 0, 1}, {0, 0, 0}, {1}, {0}, {1}};
    machine_trees const m(t);
    machine_verdicts const out(3, 1);
    target_rows const target(kokkos::probabilities_from_views(m.here, m.trees(), rows_type(held_p.data(), 3, 3)));
    draft_rows const draft(kokkos::probabilities_from_views(m.here, m.trees(), rows_type(held_q.data(), 3, 3)));
    auto const drafts = drawn_by<law::iid>(m.trees());
    verify_batch(m.here, verify::recursive_rejection<law::iid>{}, drafts, target, draft, m.requests(),
                 out.of(m.trees()));
    EXPECT_EQ(to_host(out.next).at(0), none);
    verify_batch(m.here, verify::speculative_sampling<law::iid>{}, drafts, target, draft, m.requests(),
                 out.of(m.trees()));
    EXPECT_EQ(to_host(out.next).at(0), none);
}

/// By verifiers that read rows at the token, or not; their rows hold nothing there.
TEST(kokkos_verify, answers_none_for_a_token_outside_the_vocabulary) {
    std::vector<float> const rows(6, 1.0F / 3);
    auto const held = to_machine(rows);
    using rows_type = Kokkos::View<float const**, Kokkos::LayoutRight, memory, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
    for (token_id const token : {2, 3, 1 << 20}) {
        tree_arrays const t{{0, 2}, {none, 0}, {0, token}, {0, 0}, {1}, {0}, {1}};
        machine_trees const m(t);
        machine_verdicts const out(2, 1);
        rows_type const of_nodes(held.data(), 2, 3);
        target_rows const target(kokkos::probabilities_from_views(m.here, m.trees(), of_nodes));
        draft_rows const draft(kokkos::probabilities_from_views(m.here, m.trees(), of_nodes));
        verify_batch(m.here, verify::recursive_rejection<law::sequential>{}, drawn_by<law::sequential>(m.trees()),
                     target, draft, m.requests(), out.of(m.trees()));
        EXPECT_EQ(to_host(out.next).at(0) == none, token > 2) << token;
        verify_batch(m.here, verify::naive<law::iid>{}, drawn_by<law::iid>(m.trees()), target,
                     draft_rows(verify::no_draft_rows{}), m.requests(), out.of(m.trees()));
        EXPECT_EQ(to_host(out.next).at(0) == none, token > 2) << token;
        EXPECT_EQ(to_host(out.accepted).at(0) > 0 && token > 2, false);
    }
}

TEST(kokkos_verify, refuses_teams_that_the_space_does_not_have) {
    EXPECT_THROW(static_cast<void>(kokkos::team_policy(space(), 1, {.team_size = -1})), invalid_input);
    if (on_cpu) {
        EXPECT_THROW(static_cast<void>(kokkos::team_policy(space(), 1, {.team_size = 1 << 20})), invalid_input);
    }
}

/// Verifiers of whole trees, each with its part of the workspace.
TEST(kokkos_verify, works_in_a_workspace) {
    using verifier = verify::traversal<law::sequential>;
    trees<float> b = draw_trees<draft::sequential, float>(6, 300, 3, 11);
    b.target = first_rows(b.target, b.parents.size());
    b.draft = first_rows(b.draft, b.parents.size());
    machine_trees const m(b);
    machine_matrix<float> const target(b.target);
    machine_matrix<float> const draft(b.draft);
    auto const sampling = to_machine(b.sampling);
    tree_batch const all = m.trees(12);
    target_rows const p(kokkos::logits_from_views(m.here, all, target.rows, sampling));
    draft_rows const q(kokkos::logits_from_views(m.here, all, draft.rows, sampling));
    auto const bytes = verify_workspace_size<verifier>(m.here, all.requests, 12, 12);
    Kokkos::View<std::byte*, memory> const scratch("scratch", bytes);
    Kokkos::deep_copy(scratch, std::byte{0xff});
    machine_verdicts const out(b.parents.size(), b.count());
    auto const run = [&](tree_batch const& some, workspace const& lent) {
        verify_batch(m.here, verifier{}, drawn_by<law::sequential>(some), p, q, m.requests(), out.of(all), lent);
    };
    run(all, kokkos::workspace_from_view(m.here, scratch));
    for (std::size_t r = 0; r < b.count(); ++r) {
        verify::scratch_memory own;
        std::vector<node_id> path(at(b.size(r)));
        addressed_source source = b.source(r);
        auto const v = verifier{}(host_group{}, drafted<law::sequential>{b.tree(r)},
                                  target_rows(logit_rows<float>(b.rows(b.target, r), b.sampling[r])),
                                  draft_rows(logit_rows<float>(b.rows(b.draft, r), b.sampling[r])), source,
                                  b.positions[r], span<node_id>(path), own.of<verifier>(b.size(r), b.size(r)));
        EXPECT_EQ(to_host(out.accepted)[r], v.accepted);
        EXPECT_EQ(to_host(out.next)[r], v.next);
    }
    EXPECT_THROW(run(all, {}), invalid_input);
    EXPECT_THROW(run(m.trees(), kokkos::workspace_from_view(m.here, scratch)), invalid_input);
}

TEST(kokkos_verify, refuses_extents_that_do_not_fit) {
    auto const here = kokkos::on(space());
    auto const offsets = to_machine(std::vector<std::int64_t>{0, 1});
    auto const one = to_machine(std::vector<std::int32_t>{0});
    auto const two = to_machine(std::vector<std::int32_t>{0, 0});
    auto const seeds = to_machine(std::vector<std::uint64_t>{1});
    auto const no_seeds = to_machine(std::vector<std::uint64_t>{});
    auto const sampling = to_machine(std::vector<sampling_params>(1));
    auto const no_sampling = to_machine(std::vector<sampling_params>{});
    using rows_type = Kokkos::View<float**, Kokkos::LayoutRight, memory>;
    auto const refused = [](auto const& fill) {
        try {
            fill();
        } catch (invalid_input const& e) {
            return e.argument();
        }
        return std::string();
    };
    tree_batch const trees = kokkos::trees_from_views(here, offsets, one, one);
    EXPECT_EQ(trees.requests, 1);
    EXPECT_EQ(trees.nodes, 1);
    EXPECT_EQ(refused([&] { std::ignore = kokkos::trees_from_views(here, offsets, one, two); }), "tokens.extent(0)");
    EXPECT_EQ(refused([&] { std::ignore = kokkos::trees_from_views(here, offsets, one, one, two); }),
              "certain.extent(0)");
    auto const logits = [&](auto const& rows, auto const& of) {
        return refused([&] { std::ignore = kokkos::logits_from_views(here, trees, rows, of); });
    };
    EXPECT_EQ(logits(rows_type("rows", 1, 8), sampling), "");
    EXPECT_EQ(logits(rows_type("rows", 1, 8), sampling_params{}), "");
    EXPECT_EQ(logits(rows_type("rows", 2, 8), sampling), "rows.extent(0)");
    EXPECT_EQ(logits(rows_type("rows", 1, 0), sampling), "rows.extent(1)");
    EXPECT_EQ(logits(rows_type("rows", 1, 8), no_sampling), "sampling.extent(0)");
    EXPECT_EQ(refused([&] { std::ignore = kokkos::requests_from_views(here, trees, no_seeds, one); }),
              "seeds.extent(0)");
    EXPECT_EQ(refused([&] { std::ignore = kokkos::requests_from_views(here, trees, seeds, two); }),
              "positions.extent(0)");
    EXPECT_EQ(refused([&] { std::ignore = kokkos::verdicts_from_views(here, trees, one, one, two); }),
              "next.extent(0)");
    EXPECT_EQ(refused([&] { std::ignore = kokkos::level_from_views(here, two, one); }), "requests.extent(0)");
    // A part of wider rows: what is drawn would be written beyond it.
    Kokkos::View<token_id**, Kokkos::LayoutRight, space> const all("all", 2, 8);
    auto const part = Kokkos::subview(all, Kokkos::ALL, Kokkos::pair<int, int>(6, 8));
    auto const level = kokkos::level_from_views(here, two, two);
    EXPECT_EQ(refused([&] { std::ignore = kokkos::children_from_views(here, level, part); }), "tokens.stride(0)");
    EXPECT_EQ(refused([&] { std::ignore = kokkos::children_from_views(here, level, all); }), "");

    rows_type const wide("wide", 1, 8);
    rows_type const narrow("narrow", 1, 7);
    auto const call = [&](rows_type const& of_draft, auto const& verifier, request_batch const& requests) {
        return refused([&] {
            verify_batch(here, verifier, drawn_by<law::iid>(trees),
                         target_rows(kokkos::logits_from_views(here, trees, wide, sampling)),
                         draft_rows(kokkos::logits_from_views(here, trees, of_draft, sampling)), requests,
                         kokkos::verdicts_from_views(here, trees, one, one, one));
        });
    };
    auto const requests = kokkos::requests_from_views(here, trees, seeds, one);
    EXPECT_EQ(call(wide, verify::recursive_rejection<law::iid>{}, requests), "");
    EXPECT_EQ(call(narrow, verify::recursive_rejection<law::iid>{}, requests), "draft.vocabulary");
    EXPECT_EQ(call(wide, verify::recursive_rejection<law::iid>{}, {}), "requests.seeds");
    EXPECT_EQ(call(wide, verify::traversal<law::iid>{}, requests), "trees.largest");
}

TEST(kokkos_masks, are_those_of_the_host) {
    test_numbers numbers(3);
    std::vector<std::int64_t> offsets{0};
    std::vector<node_id> parents;
    std::vector<std::int32_t> lengths;
    for (node_id const size : {1, 5, 64, 65, 130, 2, 1}) {
        node_id up = 0;
        for (node_id v = 0; v < size; ++v) {
            parents.push_back(v == 0 ? none : up);
            if (v > up + 1) up += numbers.below(2);
        }
        offsets.push_back(static_cast<std::int64_t>(parents.size()));
        lengths.push_back(100 * size);
    }
    std::size_t const row = 3;
    auto const here = kokkos::on(space());
    auto const machine_offsets = to_machine(offsets);
    auto const machine_parents = to_machine(parents);
    tree_batch const trees = kokkos::trees_from_views(here, machine_offsets, machine_parents, kokkos::no_view{});
    Kokkos::View<std::uint64_t**, Kokkos::LayoutRight, memory> const words("words", parents.size(), row);
    Kokkos::View<std::int32_t*, memory> const positions("positions", parents.size());
    Kokkos::View<std::int32_t const*, memory> const contexts = to_machine(lengths);
    Kokkos::deep_copy(words, ~std::uint64_t{0});
    write_masks(here, trees, words.data(), static_cast<std::int64_t>(words.stride(0)));
    write_positions(here, trees, contexts.data(), positions.data());
    auto const found = to_host(words);
    auto const site = to_host(positions);
    for (std::size_t r = 0; r + 1 < offsets.size(); ++r) {
        span<node_id const> const own(parents.data() + offsets[r], at(offsets[r + 1] - offsets[r]));
        topology const shape = topology::from_parents(own);
        std::vector<std::uint64_t> expected(own.size() * row);
        static_cast<void>(write_mask(own, span<std::uint64_t>(expected), row));
        std::vector<std::int32_t> expected_positions(own.size());
        write_positions(lengths[r], shape.depths(), span<std::int32_t>(expected_positions));
        for (std::size_t k = 0; k < expected.size(); ++k) ASSERT_EQ(found[at(offsets[r]) * row + k], expected[k]) << r;
        for (std::size_t v = 0; v < own.size(); ++v) ASSERT_EQ(site[at(offsets[r]) + v], expected_positions[v]) << r;
    }

    // A tree of 130 nodes does not fit into rows of 128 bits; its neighbours do.
    Kokkos::View<std::uint64_t**, Kokkos::LayoutRight, memory> const narrow("narrow", parents.size(), 2);
    Kokkos::deep_copy(narrow, ~std::uint64_t{0});
    write_masks(here, trees, narrow.data(), static_cast<std::int64_t>(narrow.stride(0)));
    auto const after = to_host(narrow);
    EXPECT_EQ(after.at(2 * at(offsets[3])), 1U);
    for (auto k = 2 * at(offsets[4]); k < 2 * at(offsets[5]); ++k) ASSERT_EQ(after.at(k), 0U) << k;
    EXPECT_EQ(after.at(2 * at(offsets[5])), 1U);
}

/// The first fault of trees whose rows are all good.
template <draft_law Law>
validation_report report_of(tree_arrays const& t, index_t vocabulary) {
    machine_trees const m(t);
    Kokkos::View<float**, Kokkos::LayoutRight, memory> const rows("rows", t.parents.size(),
                                                                  static_cast<std::size_t>(vocabulary));
    auto const logits = kokkos::logits_from_views(m.here, m.trees(), rows, sampling_params{});
    Kokkos::View<validation_report*, memory> const report("report", 1);
    validate_batch(m.here, tree_rules{}, drawn_by<Law>(m.trees()), target_rows(logits), draft_rows(logits),
                   m.requests(), report.data());
    return to_host(report).at(0);
}

TEST(kokkos_validate, names_the_first_fault) {
    auto const expect = [](tree_arrays const& t, batch_argument what, std::int32_t request, std::int64_t index) {
        auto const report = report_of<law::iid>(t, 10);
        EXPECT_EQ(report.what, what) << name_of(report.what);
        EXPECT_EQ(report.request, request) << name_of(what);
        EXPECT_EQ(report.index, index) << name_of(what);
    };
    tree_arrays const good{{0, 3, 5}, {none, 0, 0, none, 0}, {0, 5, padding, 0, 1}, {0, 0, 0, 0, 0}, {1, 2}, {0, 0},
                           {1, 1}};
    expect(good, batch_argument::nothing, 0, 0);
    auto bad = good;
    bad.tokens[4] = 10;
    expect(bad, batch_argument::tokens, 1, 1);
    bad.parents[2] = 2;
    expect(bad, batch_argument::parents, 0, 2);
    bad = good;
    bad.tokens[1] = none;  // the last child alone may be missing
    bad.tokens[2] = 5;
    expect(bad, batch_argument::tokens, 0, 1);
    bad = good;
    bad.tokens[2] = none;
    expect(bad, batch_argument::absent, 0, 2);
    bad.tokens[2] = support_ended;  // the draft's row has more tokens
    expect(bad, batch_argument::left_out, 0, 2);
    bad.tokens[2] = padding;
    expect(bad, batch_argument::nothing, 0, 0);
    bad = good;
    bad.offsets[1] = 7;
    expect(bad, batch_argument::offsets, 0, 1);
    bad = good;
    bad.positions[1] = -2;
    expect(bad, batch_argument::positions, 1, 1);
}

// The conditions of laws on children; none for those below a child that could not be drawn.
TEST(kokkos_validate, asks_of_children_what_their_law_gives) {
    tree_arrays const again{{0, 3}, {none, 0, 0}, {0, 5, 5}, {0, 0, 0}, {1}, {0}, {1}};
    EXPECT_EQ(report_of<law::iid>(again, 10).what, batch_argument::nothing);
    EXPECT_EQ(report_of<law::sequential>(again, 10).what, batch_argument::tokens);
    tree_arrays const certain{{0, 3}, {none, 0, 0}, {0, 1, 2}, {3, 0, 0}, {1}, {0}, {1}};
    EXPECT_EQ(report_of<law::sequential>(certain, 10).what, batch_argument::nothing);
    EXPECT_EQ(report_of<law::stratified>(certain, 10).what, batch_argument::certain);
    tree_arrays const absent{{0, 4}, {none, 0, 1, 1}, {0, padding, 7, 7}, {0, 5, 0, 0}, {1}, {0}, {1}};
    EXPECT_EQ(report_of<law::sequential>(absent, 10).what, batch_argument::nothing);
    EXPECT_EQ(report_of<law::stratified>(absent, 10).what, batch_argument::nothing);
}

/// Request 0: a cycle. Request 1: a chain, all of it accepted, and below it a row of NaN. The launch returns `none` for
/// both, and accepts no nodes where it returns no token.
TEST(kokkos_verify, accepts_nothing_where_no_token_follows) {
    index_t const vocabulary = 40;
    test_numbers numbers(5);
    matrix<float> target(6, vocabulary);
    matrix<float> draft(6, vocabulary);
    fill(target, draft, numbers);
    for (index_t i = 0; i < vocabulary; ++i) {
        for (std::int64_t r = 0; r < 6; ++r) draft.row(r)[i] = target.row(r)[i] = i == 7 ? 50.0F : 0.0F;
        target.row(5)[i] = std::numeric_limits<float>::quiet_NaN();
    }
    machine_matrix<float> const machine_target(target);
    machine_matrix<float> const machine_draft(draft);
    tree_arrays const t{{0, 3, 6}, {none, 2, 1, none, 0, 1}, {0, 7, 7, 0, 7, 7}, {0, 0, 0, 0, 0, 0}, {1, 2}, {0, 0},
                        {1, 1}};
    machine_trees const m(t);
    machine_verdicts const out(6, 2);
    auto const logits = [&](auto const& rows) {
        return kokkos::logits_from_views(m.here, m.trees(), rows, sampling_params{});
    };
    verify_batch(m.here, verify::recursive_rejection<law::iid>{}, drawn_by<law::iid>(m.trees()),
                 target_rows(logits(machine_target.rows)), draft_rows(logits(machine_draft.rows)), m.requests(),
                 out.of(m.trees()));
    EXPECT_EQ(to_host(out.next), (std::vector<token_id>{none, none}));
    EXPECT_EQ(to_host(out.accepted), (std::vector<std::int32_t>{0, 0}));
    Kokkos::View<std::uint64_t**, Kokkos::LayoutRight, memory> const words("words", 6, 1);
    Kokkos::View<std::int32_t*, memory> const positions("positions", 6);
    Kokkos::View<std::int32_t const*, memory> const contexts = to_machine(std::vector<std::int32_t>{3, 5});
    write_masks(m.here, m.trees(), words.data(), 1);
    write_positions(m.here, m.trees(), contexts.data(), positions.data());
    EXPECT_LE(to_host(positions).at(2), 5);
}

/// Children that could not be drawn stay `none`: the tree is verified as if they were absent.
TEST(kokkos_verify, leaves_out_children_that_are_none) {
    using T = float;
    index_t const vocabulary = 40;
    test_numbers numbers(5);
    matrix<T> target(6, vocabulary);
    matrix<T> draft(6, vocabulary);
    fill(target, draft, numbers);
    machine_matrix<T> const machine_target(target);
    tree_arrays t{{0, 6}, {none, 0, 0, 1, 1, 2}, {0, 7, none, 9, none, 1}, {0, 0, 0, 0, 0, 0}, {0}, {0}, {1}};
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        t.seeds[0] = seed;
        machine_trees const m(t);
        machine_verdicts const out(6, 1);
        verify_batch(m.here, verify::naive<law::sequential>{}, drawn_by<law::sequential>(m.trees()),
                     target_rows(kokkos::logits_from_views(m.here, m.trees(), machine_target.rows, sampling_params{})),
                     draft_rows(verify::no_draft_rows{}), m.requests(), out.of(m.trees()));
        // The same walk by hand: only nodes 1 and 3 can be reached.
        addressed_source const source{addressed_uniforms(seed)};
        std::vector<node_id> path;
        node_id node = 0;
        token_id next = none;
        for (;;) {
            auto p = process_logits(host_group{}, row_view<T>(target.row(node), vocabulary), sampling_params{});
            draw_site const site{1, node};
            weight_of const w{p.row};
            auto const sums = host_group{}.sum_chunks(vocabulary, w);
            next = source.categorical(host_group{}, sums, vocabulary, w, {},
                                      node == 3 ? site(purpose::residual, 0) : site(purpose::naive, 0));
            if (node == 0 && next == 7)
                node = 1;
            else if (node == 1 && next == 9)
                node = 3;
            else
                break;
            path.push_back(node);
        }
        ASSERT_EQ(at(to_host(out.accepted).at(0)), path.size());
        ASSERT_EQ(to_host(out.next).at(0), next);
    }
}

}  // namespace
}  // namespace MULTIDRAFT_NAMESPACE::testing
