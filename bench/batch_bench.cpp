// Batches on host threads against a plain loop over the requests: ragged trees, rows of logits, batch by threads. Rows
// that are prepared first, on one thread: the pass over the rows, and verification with and without it.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/predictions.hpp"
#include "multidraft/batch/prepare.hpp"
#include "multidraft/batch/prepared_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/logit_rows.hpp"
#include "multidraft/rows/remembered_rows.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "support/machine.hpp"
#include "support/rows.hpp"

namespace {

using namespace multidraft;

constexpr index_t vocabulary = 32000;
constexpr sampling_params sampling{.temperature = 0.8F, .top_p = 0.95F};

/// The arrays of a batch of trees, of its drafting and of its verdicts.
struct arrays {
    /// Appends a request with a tree of that shape.
    void add(topology const& shape) {
        auto const b = static_cast<std::int32_t>(seeds.size());
        for (node_id v = 0; v < shape.size(); ++v) {
            if (shape.child_count(v) == 0) continue;
            of_request.push_back(b);
            inner.push_back(v);
            wanted.push_back(shape.child_count(v));
            first.push_back(offsets.back() + shape.first_child(v));
            index.push_back(offsets.back() + v);
        }
        parents.insert(parents.end(), shape.parents().begin(), shape.parents().end());
        offsets.push_back(static_cast<std::int64_t>(parents.size()));
        seeds.push_back(static_cast<std::uint64_t>(b));
        positions.push_back(b);
    }
    /// After the last tree.
    void allocate() {
        tokens.assign(parents.size(), 0);
        certain.assign(parents.size(), 0);
        path.resize(parents.size());
        accepted.resize(seeds.size());
        next.resize(seeds.size());
    }
    /// Draws the children of all nodes from a row for each node with children.
    template <class Sampler>
    void draw(host_threads const& pool, logit_batch<float> const& by_entry) {
        draft_batch(pool, Sampler{},
                    {static_cast<std::int32_t>(inner.size()), of_request.data(), inner.data(), wanted.data()},
                    draft_rows(by_entry), requests(),
                    {tokens.data(), first.data(), 0, nullptr, certain.data(), nullptr, index.data()});
    }

    [[nodiscard]] tree_batch trees() const {
        return {static_cast<std::int32_t>(seeds.size()),
                static_cast<std::int64_t>(parents.size()),
                offsets.data(),
                parents.data(),
                tokens.data(),
                certain.data()};
    }
    [[nodiscard]] request_batch requests() const { return {seeds.data(), positions.data()}; }
    [[nodiscard]] verdict_batch verdicts() { return {path.data(), 0, accepted.data(), next.data()}; }

    std::vector<std::int64_t> offsets{0}, first, index;
    std::vector<node_id> parents, inner, path;
    std::vector<token_id> tokens, next;
    std::vector<index_t> certain;
    std::vector<std::int32_t> of_request, wanted, positions, accepted;
    std::vector<std::uint64_t> seeds;
};

/// Trees of 3 to 16 nodes. All requests of one shape read the same rows, with different seeds.
template <class Sampler>
struct batch : arrays {
    explicit batch(std::int32_t count) {
        std::vector<topology> const shapes{chain(2), branching({2, 1, 1}), branching({3, 2, 1}), fork(4, 3)};
        for (std::int32_t b = 0; b < count; ++b) {
            topology const& shape = shapes[static_cast<std::size_t>(b) % shapes.size()];
            add(shape);
            for (node_id v = 0; v < shape.size(); ++v) row_of.push_back(v);
        }
        allocate();
        std::vector<std::int64_t> const level_row(inner.begin(), inner.end());
        logit_batch<float> level_rows = draft();
        level_rows.row_of = level_row.data();
        draw<Sampler>(host_threads(1), level_rows);
    }

    [[nodiscard]] logit_batch<float> target() const { return of(rows.target_logits); }
    [[nodiscard]] logit_batch<float> draft() const { return of(rows.draft_logits); }

    bench::rows rows{16, vocabulary};
    std::vector<std::int64_t> row_of;

private:
    [[nodiscard]] logit_batch<float> of(std::vector<float> const& logits) const {
        return {logits.data(), vocabulary, vocabulary, row_of.data(), nullptr, sampling};
    }
};

/// The code of a caller without batches: request after request.
template <class Sampler, class Verifier>
void in_a_loop(benchmark::State& state) {
    batch<Sampler> b(static_cast<std::int32_t>(state.range(0)));
    host_group const g;
    verify::scratch_memory memory;
    using logits = logit_rows<float>;
    row_memory<logits> of_target, of_draft;
    for (auto _ : state) {
        for (std::int32_t r = 0; r < b.trees().requests; ++r) {
            auto const at = static_cast<std::size_t>(r);
            tree_view const tree = b.trees()(r);
            auto const scratch = memory.of<Verifier>(tree.size(), tree.depth(tree.size() - 1));
            addressed_source source{b.requests().uniforms(r)};
            logits const p(rows_view<float>(b.rows.target_logits.data(), tree.size(), vocabulary), sampling);
            logits const q(rows_view<float>(b.rows.draft_logits.data(), tree.size(), vocabulary), sampling);
            auto const with = [&](auto const& target, auto const& draft) {
                verdict const v = verify::verify_tree(
                    Verifier{}, g, make_drafted<typename Sampler::law>(tree, b.trees().certain_of(r)),
                    target_rows(target), draft_rows(draft), source, b.positions[at],
                    span<node_id>(b.path).subspan(static_cast<std::size_t>(b.offsets[at])), scratch);
                b.accepted[at] = v.accepted;
                b.next[at] = v.next;
            };
            // Verifiers of whole trees read a row more than once.
            if constexpr (verify::needs_scratch<Verifier>)
                with(remembered_rows(p, of_target), remembered_rows(q, of_draft));
            else
                with(p, q);
        }
        benchmark::ClobberMemory();
    }
}

template <class Sampler, class Verifier>
void in_a_batch(benchmark::State& state) {
    batch<Sampler> b(static_cast<std::int32_t>(state.range(0)));
    host_threads const pool(static_cast<int>(state.range(1)));
    verify::scratch_memory memory;
    workspace const scratch = memory.of(verify_workspace_size<Verifier>(pool, b.trees().requests, 16, 4));
    for (auto _ : state) {
        verify_batch(pool, Verifier{}, drawn_by<typename Sampler::law>(b.trees()), target_rows(b.target()),
                     draft_rows(b.draft()), b.requests(), b.verdicts(), scratch);
        benchmark::ClobberMemory();
    }
}

void loops(benchmark::internal::Benchmark* b) {
    for (int const requests : {1, 8, 64}) b->Args({requests});
    b->ArgNames({"batch"})->Unit(benchmark::kMicrosecond)->UseRealTime();
}
void batches(benchmark::internal::Benchmark* b) {
    for (int const requests : {1, 8, 64})
        for (int const threads : {1, 2, 4}) b->Args({requests, threads});
    b->ArgNames({"batch", "threads"})->Unit(benchmark::kMicrosecond)->UseRealTime();
}

void recursive_rejection_in_a_loop(benchmark::State& s) {
    in_a_loop<draft::sequential, verify::recursive_rejection<law::sequential>>(s);
}
void recursive_rejection_in_a_batch(benchmark::State& s) {
    in_a_batch<draft::sequential, verify::recursive_rejection<law::sequential>>(s);
}
void nested_ranked_block_in_a_loop(benchmark::State& s) {
    in_a_loop<draft::stratified, verify::nested_ranked_block<law::stratified>>(s);
}
void nested_ranked_block_in_a_batch(benchmark::State& s) {
    in_a_batch<draft::stratified, verify::nested_ranked_block<law::stratified>>(s);
}

// --- Rows first, walk second -----------------------------------------------------------------------------------------

constexpr sampling_params plain_temperature{.temperature = 0.7F};
constexpr sampling_params truncated{.temperature = 0.7F, .top_k = 50, .top_p = 0.9F};
constexpr sampling_params greedy{.temperature = 0.0F};

/// A tree of n nodes: two children per node, truncated at n.
topology tree_of(node_id n) {
    std::vector<node_id> parents{none};
    for (node_id i = 1; i < n; ++i) parents.push_back((i - 1) / 2);
    return topology::from_parents(parents);
}

/// Trees of one shape, each node of each request with rows of its own; memory for prepared rows and verdicts.
struct trees_and_rows : arrays {
    trees_and_rows(index_t v, std::int32_t count, node_id nodes)
        : vocabulary(v), of_a_tree(nodes), shape(tree_of(nodes)), rows(count * nodes, v) {
        for (std::int32_t b = 0; b < count; ++b) add(shape);
        allocate();
        std::size_t const n = parents.size();
        predicted.resize(n);
        for (prepared* const of : {&target, &draft}) {
            of->states.resize(n);
            of->sums.resize(n * static_cast<std::size_t>(kept_sums(v)));
            of->runs.resize(n * static_cast<std::size_t>(chunks_of(v)));
        }
    }

    struct prepared {
        std::vector<row_state> states;
        std::vector<float> sums;
        std::vector<std::uint64_t> runs;

        [[nodiscard]] row_state_batch out(bool with_runs) {
            return {states.data(), sums.data(), with_runs ? runs.data() : nullptr};
        }
        [[nodiscard]] prepared_batch<float> of(std::vector<float> const& logits, index_t v, bool with_runs) const {
            return {logits.data(), v, v, states.data(), nullptr, sums.data(), with_runs ? runs.data() : nullptr};
        }
    };

    /// Draws all nodes, so that all rows are read: at temperature 0 of the target too, where the draft's is plain.
    template <class Sampler>
    void draw(sampling_params const& w) {
        logit_batch<float> by_entry = draft_logits(w);
        by_entry.row_of = index.data();
        arrays::draw<Sampler>(pool, by_entry);
        if (std::find(tokens.begin(), tokens.end(), none) != tokens.end())
            throw std::logic_error("a tree of the benchmark lacks a node");
    }
    [[nodiscard]] logit_batch<float> logits(std::vector<float> const& data, sampling_params const& w) const {
        return {data.data(), vocabulary, vocabulary, nullptr, nullptr, w};
    }
    [[nodiscard]] logit_batch<float> draft_logits(sampling_params const& of_target) const {
        return logits(rows.draft_logits, of_target.temperature == 0 ? plain_temperature : of_target);
    }
    void prepare_target(sampling_params const& w, bool with_runs) {
        prepare_batch(pool, trees(), target_rows(logits(rows.target_logits, w)), target.out(with_runs));
    }
    void prepare_draft(sampling_params const& w, bool with_runs) {
        prepare_batch(pool, trees(), draft_rows(draft_logits(w)), draft.out(with_runs));
    }
    [[nodiscard]] std::int64_t bytes_of_target() const {
        return static_cast<std::int64_t>(parents.size()) * vocabulary * 4;
    }

    host_threads pool{1};
    index_t vocabulary;
    node_id of_a_tree;
    topology shape;
    bench::rows rows;
    std::vector<std::int64_t> predicted;
    prepared target, draft;
};

/// Made once for all cases of that size.
trees_and_rows& made_for(benchmark::State const& state) {
    static std::map<std::array<std::int64_t, 3>, std::unique_ptr<trees_and_rows>> made;
    auto& found = made[{state.range(0), state.range(1), state.range(2)}];
    if (!found)
        found = std::make_unique<trees_and_rows>(static_cast<index_t>(state.range(0)),
                                                 static_cast<std::int32_t>(state.range(1)),
                                                 static_cast<node_id>(state.range(2)));
    return *found;
}

/// The baseline: the softmax of every row by plain loops.
void softmax_in_plain_loops(benchmark::State& state) {
    trees_and_rows const& b = made_for(state);
    auto const v = static_cast<std::size_t>(b.vocabulary);
    std::vector<float> out(b.rows.target_logits.size());
    for (auto _ : state) {
        for (std::size_t begin = 0; begin < out.size(); begin += v) {
            float const* const x = b.rows.target_logits.data() + begin;
            float* const p = out.data() + begin;
            float largest = x[0];
            for (std::size_t i = 1; i < v; ++i) largest = std::max(largest, x[i]);
            float sum = 0;
            for (std::size_t i = 0; i < v; ++i)
                sum += p[i] = std::exp((x[i] - largest) / plain_temperature.temperature);
            for (std::size_t i = 0; i < v; ++i) p[i] /= sum;
        }
        benchmark::ClobberMemory();
    }
    bench::report_bytes(state, b.bytes_of_target());
}

/// The same with the library's exponential, which is vectorised.
void softmax_written(benchmark::State& state) {
    trees_and_rows const& b = made_for(state);
    auto const v = static_cast<std::size_t>(b.vocabulary);
    std::vector<float> out(b.rows.target_logits.size());
    host_group const g;
    for (auto _ : state) {
        for (std::size_t begin = 0; begin < out.size(); begin += v) {
            auto const row =
                process_logits(g, row_view<float>(b.rows.target_logits.data() + begin, b.vocabulary), plain_temperature)
                    .row;
            for (index_t i = 0; i < b.vocabulary; ++i) out[begin + static_cast<std::size_t>(i)] = row(i);
        }
        benchmark::ClobberMemory();
    }
    bench::report_bytes(state, b.bytes_of_target());
}

/// The pass over the target's rows.
void prepare_target_rows(benchmark::State& state, sampling_params const& w, bool with_runs) {
    trees_and_rows& b = made_for(state);
    b.draw<draft::sequential>(w);
    for (auto _ : state) {
        b.prepare_target(w, with_runs);
        benchmark::ClobberMemory();
    }
    bench::report_bytes(state, b.bytes_of_target());
}

/// The pass for predictions, which are all that temperature 0 needs.
void predict_target_rows(benchmark::State& state) {
    trees_and_rows& b = made_for(state);
    b.draw<draft::sequential>(greedy);
    for (auto _ : state) {
        predict_batch(b.pool, b.trees(), target_rows(b.logits(b.rows.target_logits, greedy)), b.predicted.data());
        benchmark::ClobberMemory();
    }
    bench::report_bytes(state, b.bytes_of_target());
}

enum class rows_are { read_by_the_walk, prepared_before, prepared_in_the_time };

template <class Sampler, class Verifier>
void verify_rows(benchmark::State& state, rows_are how, sampling_params const& w) {
    trees_and_rows& b = made_for(state);
    b.draw<Sampler>(w);
    verify::scratch_memory memory;
    workspace const scratch = memory.of(
        verify_workspace_size<Verifier>(b.pool, b.trees().requests, b.of_a_tree, b.shape.depth(b.of_a_tree - 1)));
    auto const verify_over = [&](auto const& p, auto const& q) {
        verify_batch(b.pool, Verifier{}, drawn_by<typename Sampler::law>(b.trees()), target_rows(p), draft_rows(q),
                     b.requests(), b.verdicts(), scratch);
        benchmark::ClobberMemory();
    };
    auto const prepare = [&] {
        b.prepare_target(w, true);
        b.prepare_draft(w, true);
    };
    if (how == rows_are::read_by_the_walk) {
        auto const p = b.logits(b.rows.target_logits, w), q = b.draft_logits(w);
        for (auto _ : state) verify_over(p, q);
    } else {
        auto const p = b.target.of(b.rows.target_logits, b.vocabulary, true);
        auto const q = b.draft.of(b.rows.draft_logits, b.vocabulary, true);
        prepare();
        for (auto _ : state) {
            if (how == rows_are::prepared_in_the_time) prepare();
            verify_over(p, q);
        }
    }
}

/// Temperature 0: predictions of all rows and the walk over them.
void predict_and_verify_predictions(benchmark::State& state) {
    trees_and_rows& b = made_for(state);
    b.draw<draft::sequential>(greedy);
    for (auto _ : state) {
        predict_batch(b.pool, b.trees(), target_rows(b.logits(b.rows.target_logits, greedy)), b.predicted.data());
        verify_predictions(b.pool, b.trees(), prediction_batch<std::int64_t>{b.predicted.data()}, b.verdicts());
        benchmark::ClobberMemory();
    }
}

// Args: vocabulary V, requests, nodes. 8 x 16 rows of 128,256 floats are 66 MB for each model.
void trees_of_16(benchmark::internal::Benchmark* b) {
    for (int const v : {32000, 128256})
        for (int const requests : {1, 8}) b->Args({v, requests, 16});
    b->ArgNames({"V", "requests", "nodes"})->Unit(benchmark::kMicrosecond);
}

template <class Sampler, class Verifier>
void register_verification(std::string const& verifier) {
    for (auto const& [parameters, w] :
         {std::pair("temperature", plain_temperature), {"top_k_50_top_p_0_9", truncated}, {"temperature_0", greedy}})
        for (auto const& [name, how] : {std::pair("rows_read_by_the_walk", rows_are::read_by_the_walk),
                                        {"walk_alone", rows_are::prepared_before},
                                        {"rows_and_walk", rows_are::prepared_in_the_time}})
            benchmark::RegisterBenchmark((verifier + '/' + parameters + '/' + name).c_str(),
                                         verify_rows<Sampler, Verifier>, how, w)
                ->Apply(trees_of_16);
}

BENCHMARK(recursive_rejection_in_a_loop)->Apply(loops);
BENCHMARK(recursive_rejection_in_a_batch)->Apply(batches);
BENCHMARK(nested_ranked_block_in_a_loop)->Apply(loops);
BENCHMARK(nested_ranked_block_in_a_batch)->Apply(batches);

BENCHMARK(softmax_in_plain_loops)->Apply(trees_of_16);
BENCHMARK(softmax_written)->Apply(trees_of_16);
BENCHMARK_CAPTURE(prepare_target_rows, temperature, plain_temperature, false)->Apply(trees_of_16);
BENCHMARK_CAPTURE(prepare_target_rows, top_k_50_top_p_0_9, truncated, false)->Apply(trees_of_16);
BENCHMARK_CAPTURE(prepare_target_rows, top_k_50_top_p_0_9_with_runs, truncated, true)->Apply(trees_of_16);
BENCHMARK_CAPTURE(prepare_target_rows, temperature_0, greedy, false)->Apply(trees_of_16);
BENCHMARK(predict_target_rows)->Apply(trees_of_16);

BENCHMARK(predict_and_verify_predictions)->Apply(trees_of_16);
[[maybe_unused]] bool const registered = [] {
    register_verification<draft::sequential, verify::recursive_rejection<law::sequential>>("recursive_rejection");
    register_verification<draft::stratified, verify::nested_ranked_block<law::stratified>>("nested_ranked_block");
    return true;
}();

}  // namespace

BENCHMARK_MAIN();
