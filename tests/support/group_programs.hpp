// Programs for comparing groups: row operations, samplers and verifiers that record every result as bits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "multidraft/base/span.hpp"
#include "multidraft/draft/conditional_poisson.hpp"
#include "multidraft/draft/gumbel_top_k.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stochastic_beam.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/draft/top_paired.hpp"
#include "multidraft/draft/top_then_one.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/greedy_optimal.hpp"
#include "multidraft/verify/k_seq.hpp"
#include "multidraft/verify/multi_round.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/speculative_sampling.hpp"
#include "support/tree_programs.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// Writes the results of a lane to a buffer; also runs on a device.
class recorder {
public:
    static constexpr int capacity = 1024;

    MULTIDRAFT_HD explicit recorder(std::uint64_t* out) noexcept : out_(out) {}

    MULTIDRAFT_HD void operator()(float x) noexcept { put(__builtin_bit_cast(std::uint32_t, x + 0.0F)); }
    MULTIDRAFT_HD void operator()(std::int32_t x) noexcept { put(static_cast<std::uint32_t>(x)); }
    MULTIDRAFT_HD void operator()(std::uint64_t x) noexcept { put(x); }
    [[nodiscard]] MULTIDRAFT_HD int size() const noexcept { return size_; }

private:
    MULTIDRAFT_HD void put(std::uint64_t x) noexcept {
        if (size_ < capacity) out_[size_] = x;
        ++size_;
    }

    std::uint64_t* out_;
    int size_ = 0;
};

/// The input of a program: rows of logits of some type. `tokens` and `path` are memory that a group's lanes share.
template <class View>
struct program_input_of {
    View p;  ///< logits
    View q;
    sampling_params w;
    std::uint64_t seed = 0;
    token_id* tokens = nullptr;    ///< 64 of them
    node_id* path = nullptr;       ///< 16 of them
    std::byte* scratch = nullptr;  ///< `tree_program_scratch` of them, aligned to 16; none: no verifiers of whole trees
};
template <class T, class Layout = contiguous>
using program_input = program_input_of<row_view<T, Layout>>;

/// Every operation of the concept, one after another.
template <class G, class View>
MULTIDRAFT_HD void run_operations(G const& g, program_input_of<View> const& in, recorder& record) {
    auto const x = in.p;
    index_t const n = x.size();
    auto const weight = [q = in.q](index_t i) MULTIDRAFT_INLINE_LAMBDA { return fp::exp(q(i)); };
    record(g.sum(n, x));
    record(g.max(n, x));
    record(g.argmax(n, x));
    // Operations of the same kind and of different kinds in a row use the same memory in turn.
    record(g.sum(n, weight));
    record(g.sum(n, x));
    record(g.max(n, in.q));
    record(g.max(n, x));
    for (std::size_t const k : {std::size_t{1}, std::size_t{5}, std::size_t{40}}) {
        span<token_id> const out(in.tokens, k);
        g.top_k(n, x, out);
        for (token_id const t : out) record(t);
        g.top_k(n, weight, out);
        for (token_id const t : out) record(t);
    }
    auto sums = g.sum_chunks(n, weight);
    record(static_cast<float>(sums.total));
    double const steps[] = {0.0, 1e-12, 0.1, 0.37, 0.5, 0.99, 0.99999, 1.0 - 0x1p-53, 1.0, 1.5};
    for (double const u : steps) record(g.inverse_cdf(sums, n, weight, u, {}));
    token_id taken[5];
    for (int k = 0; k < 5; ++k) {
        // Each lane has its own, equal list, not the shared one.
        taken[k] = g.inverse_cdf(sums, n, weight, 0.5, span<token_id const>(taken, static_cast<std::size_t>(k)));
        record(taken[k]);
        if (taken[k] == none) break;
        g.update_chunk(sums, n, weight, span<token_id const>(taken, static_cast<std::size_t>(k) + 1), taken[k]);
        record(static_cast<float>(sums.total));
    }
    for (float const scale : {1.0F, 0.3F, 20.0F}) {
        auto const soft = g.softmax(n, x, scale);
        record(soft.largest);
        record(static_cast<float>(soft.sums.total));
        auto const w = [x, largest = soft.largest, weight = exp_nonpositive<float>(scale)](index_t i)
                           MULTIDRAFT_INLINE_LAMBDA { return weight(x(i) - largest); };
        for (double const u : steps) record(g.inverse_cdf(soft.sums, n, w, u, {}));
    }
    auto bins = g.template counters<2048>();
    for (std::size_t const size : {std::size_t{7}, std::size_t{2048}}) {
        g.histogram(
            n,
            [size](index_t i) {
                return static_cast<index_t>((i % 100003 * 7919) % static_cast<index_t>(size + 3)) - 1;
            },
            [](index_t i) { return static_cast<std::int32_t>(0x3fffffff - i); },
            span<std::uint64_t>(bins.data(), size));
        std::uint64_t hash = 0;
        for (std::size_t b = 0; b < size; ++b) hash = hash * 0x9E3779B97F4A7C15U + bins.data()[b];
        record(hash);
        if (size == 7)
            for (std::size_t b = 0; b < size; ++b) record(bins.data()[b]);
    }
    // Nearly all entries in bin 0, whose sum exceeds 32 bits.
    for (index_t const few : {5, 37, 1000}) {
        g.histogram(
            n, [few](index_t i) { return i % few != 0 ? 0 : i / few % 2049 - 1; },
            [](index_t i) { return static_cast<std::int32_t>(0x3fffffff - i); },
            span<std::uint64_t>(bins.data(), 2048));
        std::uint64_t hash = 0;
        for (std::size_t b = 0; b < 2048; ++b) hash = hash * 0x9E3779B97F4A7C15U + bins.data()[b];
        record(hash);
        record(bins.data()[0]);
    }
    for (std::size_t const size : {std::size_t{14}, std::size_t{772}, std::size_t{2048}}) {
        g.histogram_pairs(
            n,
            [size](index_t i) {
                auto const bin = static_cast<index_t>((i % 100003 * 7919) % static_cast<index_t>(size / 2 + 3)) - 1;
                return binned_pair{bin, static_cast<std::int32_t>(0x3fffffff - i),
                                   static_cast<std::int32_t>(i % 3) * 0x2fffffff};
            },
            span<std::uint64_t>(bins.data(), size));
        std::uint64_t hash = 0;
        for (std::size_t b = 0; b < size; ++b) hash = hash * 0x9E3779B97F4A7C15U + bins.data()[b];
        record(hash);
    }
    for (sampling_params const& w :
         {sampling_params{}, sampling_params{.temperature = 0.7F, .top_k = 7},
          sampling_params{.temperature = 1.3F, .top_p = 0.9F}, sampling_params{.top_k = 50, .top_p = 0.8F},
          sampling_params{.min_p = 0.05F}, sampling_params{.temperature = 0.0F}}) {
        auto const row = process_logits(g, x, w);
        record(static_cast<float>(row.row.mass()));
        // The tokens kept: groups may describe the same ones by different thresholds.
        auto const kept = row.row.kept();
        record(kept.value);
        g.histogram(
            n, [x, kept](index_t i) { return kept.keeps(x(i), i) ? i % 7 : none; },
            [](index_t i) { return static_cast<std::int32_t>(i % 1000003 + 1); }, span<std::uint64_t>(bins.data(), 7));
        for (std::size_t b = 0; b < 7; ++b) record(bins.data()[b]);
        for (double const u : steps) record(g.inverse_cdf(row.sums, n, weight_of{row.row}, u, {}));
    }
}

/// Several searches, and rows whose sums are rounded differently at each step: weights of all magnitudes, chunks and
/// runs without mass, a dominating token, no mass at all.
template <class G, class View>
MULTIDRAFT_HD void run_searches(G const& g, program_input_of<View> const& in, recorder& record) {
    index_t const n = in.p.size();
    auto const search_all = [&](auto const& weight) {
        auto sums = g.sum_chunks(n, weight);
        for (double const u : {0.0, 0x1p-53, 0x1p-30, 0.5, 1 - 0x1p-24, 1 - 0x1p-53, 1.0})
            record(g.inverse_cdf(sums, n, weight, u, {}));
        addressed_uniforms const uniforms(in.seed, 8);
        for (index_t k = 0; k < 24; ++k) {
            double const u = uniforms.template uniform<double>({n, 0, purpose::test, k});
            record(g.inverse_cdf(sums, n, weight, k % 3 == 0 ? u * u * u * u : u, {}));
        }
        token_id taken[2] = {g.inverse_cdf(sums, n, weight, 0.7, {}), none};
        record(taken[0]);
        if (taken[0] == none) return;
        g.update_chunk(sums, n, weight, span<token_id const>(taken, 1), taken[0]);
        for (double const u : {0.0, 0.7, 1 - 0x1p-53})
            record(g.inverse_cdf(sums, n, weight, u, span<token_id const>(taken, 1)));
    };
    auto const plain = [q = in.q](index_t i) MULTIDRAFT_INLINE_LAMBDA { return fp::exp(q(i)); };
    auto const wide = [q = in.q](index_t i) MULTIDRAFT_INLINE_LAMBDA { return fp::exp(fp::mul(5.0F, q(i))); };
    auto const holes = [wide](index_t i)
                           MULTIDRAFT_INLINE_LAMBDA { return i / 4096 % 3 == 1 || i / 16 % 5 < 2 ? wide(i) : 0.0F; };
    auto const peak = [plain, n](index_t i)
                          MULTIDRAFT_INLINE_LAMBDA { return i == n / 2 ? 1.0F : fp::mul(0x1p-30F, plain(i)); };
    auto const nothing = [](index_t) MULTIDRAFT_INLINE_LAMBDA { return 0.0F; };
    search_all(plain);
    search_all(nothing);
    search_all(wide);
    search_all(holes);
    search_all(peak);
    // Alternately in two rows, one of which has no mass.
    auto const empty = g.sum_chunks(n, nothing);
    auto const sums = g.sum_chunks(n, plain);
    for (int k = 0; k < 4; ++k) {
        record(g.inverse_cdf(empty, n, nothing, 0.5, {}));
        record(g.inverse_cdf(sums, n, plain, 0.2 * k, {}));
    }
}

/// Two levels of stochastic beam search, with rows p and q in turn. Logarithms of doubles depend on the machine, so
/// sequences are compared bit for bit and scores to a part in 2^16.
template <class G, class View>
MULTIDRAFT_HD void run_beams(G const& g, program_input_of<View> const& in, recorder& record) {
    addressed_source source{addressed_uniforms(in.seed, 6)};
    auto const even = process_logits(g, in.q, in.w).row;
    auto const odd = process_logits(g, in.p, in.w).row;
    auto const row = [&](index_t i) { return i % 2 == 0 ? even : odd; };
    constexpr std::size_t width = 3;
    draft::beam beams[width] = {};
    std::size_t from = 1;
    for (std::int32_t level = 0; level < 2; ++level) {
        double next[width] = {};
        token_id taken[width * width] = {};
        index_t counts[width] = {};
        draft::beam_step steps[width];
        // A group cannot store the chunk sums of every sequence: they are computed when needed.
        auto const sums = [&](index_t i) {
            auto const q = row(i);
            auto const drawn = static_cast<std::size_t>(counts[i]);
            auto row_sums = g.sum_chunks(q.size(), weight_of{q});
            for (std::size_t k = 0; k < drawn; ++k) {
                span<token_id const> const out(taken + static_cast<std::size_t>(i) * width, k + 1);
                g.update_chunk(row_sums, q.size(), weight_of{q}, out, out[k]);
            }
            return row_sums;
        };
        auto const place_of = [level](index_t i) { return draw_site{level, i}; };
        index_t const kept = draft::stochastic_beam_level(
            g, span<draft::beam const>(beams, from), row, sums, place_of, source, span<double>(next, width),
            span<token_id>(taken, width * width), span<index_t>(counts, width), span<draft::beam_step>(steps, width));
        record(kept);
        for (index_t k = 0; k < kept; ++k) {
            auto const& s = steps[k];
            record(s.from);
            record(s.token);
            record(static_cast<std::int32_t>(s.score * 65536 + (s.score < 0 ? -0.5 : 0.5)));
            beams[k] = {k, s.log_probability, s.score};
        }
        for (std::size_t i = 0; i < from; ++i) record(counts[i]);
        from = static_cast<std::size_t>(kept);
    }
}

/// Every sampler at one node.
template <class G, class View>
MULTIDRAFT_HD void run_samplers(G const& g, program_input_of<View> const& in, recorder& record) {
    addressed_source source{addressed_uniforms(in.seed, 3)};
    auto const draw = [&](auto const& sampler, std::int32_t position, std::size_t n) {
        auto q = process_logits(g, in.q, in.w);
        span<token_id> const out(in.tokens, n);
        drawn_children const drawn = sampler(g, q.row, std::move(q.sums), source, draw_site{position, 5}, out);
        record(drawn.count);
        record(drawn.certain);
        for (index_t k = 0; k < drawn.count; ++k) record(out[static_cast<std::size_t>(k)]);
    };
    for (std::int32_t position = 0; position < 2; ++position) {
        draw(draft::iid{}, position, 4);
        draw(draft::sequential{}, position, 4);
        draw(draft::gumbel_top_k{}, position, 4);
        draw(draft::top_n{}, position, 4);
        draw(draft::top_then_one{}, position, 4);
        draw(draft::top_paired{}, position, 2);
        draw(draft::stratified{}, position, 4);
        draw(draft::conditional_poisson{}, position, 4);
    }
    draw(draft::sequential{}, 7, 9);
    run_beams(g, in, record);
}

/// Candidates of two draft models at one node, with rows q and p in turn, against the target p.
template <class G, class View>
MULTIDRAFT_HD void verify_models(G const& g, program_input_of<View> const& in, recorder& record) {
    using view = View;
    struct row_of_target {
        view row;
        sampling_params w;
        [[nodiscard]] MULTIDRAFT_HD index_t rows() const { return 4; }
        [[nodiscard]] MULTIDRAFT_HD index_t size() const { return row.size(); }
        [[nodiscard]] MULTIDRAFT_HD softmax_row<view> operator()(G const& with, node_id) const {
            return process_logits(with, row, w).row;
        }
    };
    struct rows_of_models {  // with their normalisers: a residual evaluates them entry by entry
        softmax_row<view> even;
        softmax_row<view> odd;
        [[nodiscard]] MULTIDRAFT_HD index_t rows() const { return 4; }
        [[nodiscard]] MULTIDRAFT_HD index_t size() const { return even.size(); }
        [[nodiscard]] MULTIDRAFT_HD softmax_row<view> operator()(G const&, node_id, index_t k) const {
            return k % 2 == 0 ? even : odd;
        }
    };
    rows_of_models const draft{process_logits(g, in.q, in.w).row, process_logits(g, in.p, in.w).row};
    addressed_source source{addressed_uniforms(in.seed, 7)};
    node_id const parents[4] = {none, 0, 0, 0};
    for (std::int32_t position = 0; position < 2; ++position) {
        g.barrier();
        if (g.leader()) in.tokens[0] = 0;
        for (int k = 0; k < 3; ++k) {
            auto q = process_logits(g, k % 2 == 0 ? in.q : in.p, in.w);
            static_cast<void>(draft::iid{}(g, q.row, std::move(q.sums), source, draw_site{position, k},
                                           span<token_id>(in.tokens + 1 + k, 1)));
        }
        g.barrier();
        drafted<law::independent> const tree{
            tree_view{span<node_id const>(parents, 4), span<token_id const>(in.tokens, 4)}};
        verdict const answer =
            verify::multi_round<law::independent>{}(g, tree, target_rows(row_of_target{in.p, in.w}), draft_rows(draft),
                                                    source, position + 20, span<node_id>(in.path, 4));
        record(answer.accepted);
        record(answer.next);
    }
}

/// Every verifier, on a tree of one level and on a chain whose rows are all p and q. Candidates are drawn from q.
template <class G, class View>
MULTIDRAFT_HD void run_verifiers(G const& g, program_input_of<View> const& in, recorder& record) {
    addressed_source source{addressed_uniforms(in.seed, 4)};
    auto const verify_with = [&](auto const& verifier, auto const& sampler, std::int32_t position, bool wide,
                                 auto no_draft) {
        using sampler_type = std::decay_t<decltype(sampler)>;
        constexpr int children = 4;
        node_id parents[children + 1];
        parents[0] = none;
        for (int k = 0; k < children; ++k) parents[k + 1] = wide ? 0 : k;
        auto q = process_logits(g, in.q, in.w);
        in.tokens[0] = 0;
        index_t drawn = 0;
        index_t certain[children + 1] = {};
        if (wide) {
            drawn_children const of_root = sampler(g, q.row, std::move(q.sums), source, draw_site{position, 0},
                                                   span<token_id>(in.tokens + 1, children));
            drawn = of_root.count;
            certain[0] = of_root.certain;
        } else {
            for (int k = 0; k < children; ++k) {
                if (k > 0) q = process_logits(g, in.q, in.w);
                drawn += sampler(g, q.row, std::move(q.sums), source, draw_site{position, k},
                                 span<token_id>(in.tokens + 1 + k, 1))
                             .count;
            }
        }
        auto const size = static_cast<std::size_t>(drawn) + 1;
        tree_view const tree{span<node_id const>(parents, size), span<token_id const>(in.tokens, size)};
        struct same_row {
            View row;
            sampling_params w;
            [[nodiscard]] MULTIDRAFT_HD index_t rows() const { return children + 1; }
            [[nodiscard]] MULTIDRAFT_HD index_t size() const { return row.size(); }
            [[nodiscard]] MULTIDRAFT_HD softmax_row<View> operator()(G const& with, node_id) const {
                return process_logits(with, row, w).row;
            }
        };
        verdict answer;
        auto const candidates = make_drafted<typename sampler_type::law>(tree, span<index_t const>(certain, size));
        span<node_id> const path(in.path, children);
        if constexpr (std::is_same_v<decltype(no_draft), verify::no_draft_rows>)
            answer = verifier(g, candidates, target_rows(same_row{in.p, in.w}), draft_rows(no_draft), source, position,
                              path);
        else
            answer = verifier(g, candidates, target_rows(same_row{in.p, in.w}), draft_rows(same_row{in.q, in.w}),
                              source, position, path);
        record(answer.accepted);
        record(answer.next);
    };
    for (std::int32_t position = 0; position < 3; ++position) {
        verify_with(verify::recursive_rejection<law::iid>{}, draft::iid{}, position, true, 0);
        verify_with(verify::recursive_rejection<law::sequential>{}, draft::sequential{}, position, true, 0);
        verify_with(verify::recursive_rejection<law::sequential>{}, draft::sequential{}, position + 9, false, 0);
        verify_with(verify::speculative_sampling<law::iid>{}, draft::iid{}, position, false, 0);
        verify_with(verify::k_seq<law::iid>{}, draft::iid{}, position, true, 0);
        verify_with(verify::greedy_optimal<law::top_then_one>{}, draft::top_then_one{}, position, true, 0);
        verify_with(verify::naive<law::deterministic>{}, draft::top_n{}, position, true, verify::no_draft_rows{});
        verify_with(verify::naive<law::iid>{}, draft::iid{}, position, false, verify::no_draft_rows{});
    }
    verify_models(g, in, record);
    if (in.scratch != nullptr) run_tree_verifiers(g, in, record);
}

// The programs as function objects, to be called with a group.

struct operations {
    template <class G, class In>
    MULTIDRAFT_HD void operator()(G const& g, In const& in, recorder& record) const {
        run_operations(g, in, record);
    }
};
struct searches {
    template <class G, class In>
    MULTIDRAFT_HD void operator()(G const& g, In const& in, recorder& record) const {
        run_searches(g, in, record);
    }
};
struct samplers {
    template <class G, class In>
    MULTIDRAFT_HD void operator()(G const& g, In const& in, recorder& record) const {
        run_samplers(g, in, record);
    }
};
struct verifiers {
    template <class G, class In>
    MULTIDRAFT_HD void operator()(G const& g, In const& in, recorder& record) const {
        run_verifiers(g, in, record);
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::testing
