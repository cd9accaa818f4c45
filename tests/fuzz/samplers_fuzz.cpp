// Samplers with hostile rows: tokens of the vocabulary and, from a row that is a distribution, at least one, with mass
// or among the most likely, and different ones where the law says so; sequences of beams; matches of a look-up.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "fuzz/problem.hpp"
#include "multidraft/decode/sequence_drafter.hpp"
#include "multidraft/draft/conditional_poisson.hpp"
#include "multidraft/draft/gumbel_top_k.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/lookup.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/shared_randomness.hpp"
#include "multidraft/draft/stochastic_beam.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/draft/top_paired.hpp"
#include "multidraft/draft/top_then_one.hpp"
#include "multidraft/lossy/joint_decoding.hpp"

namespace {

using namespace multidraft;

/// `is_distribution`: of finite mass, none of it negative.
template <class Sampler, class Row, class Sums>
void sample(Sampler const& sampler, Row const& row, Sums sums, std::uint64_t seed, std::size_t wanted, bool different,
            bool is_distribution) {
    addressed_source source{addressed_uniforms(seed)};
    std::vector<token_id> out(wanted, -5);
    try {
        auto const [n, certain] = sampler(host_group{}, row, sums, source, draw_site{3, 0}, span<token_id>(out));
        fuzz::require(n >= 0 && n <= static_cast<index_t>(wanted), "no more is drawn than there is room for");
        fuzz::require(certain >= 0 && certain <= n, "no more is certain than is drawn");
        fuzz::require(counts_certain<typename Sampler::law> || certain == 0, "a law without certain children has none");
        fuzz::require(!is_distribution || wanted == 0 || n >= 1, "a distribution has a token");
        for (index_t k = 0; k < n; ++k) {
            auto const x = out[static_cast<std::size_t>(k)];
            fuzz::require(x >= 0 && x < row.size(), "a token is in the vocabulary");
            if (!is_distribution) continue;
            // At temperature 0 the order of the row distinguishes tokens without mass.
            bool const by_order = k < certain || std::is_same_v<typename Sampler::law, law::deterministic>;
            order_of const order{row};
            fuzz::require(by_order ? order(x) > minus_infinity<probability_of<Row>> : row.weight(x) > 0,
                          "a token that was drawn has mass, one that was not has a place in the order of the row");
            fuzz::require(!by_order || k == 0 || order(out[static_cast<std::size_t>(k) - 1]) >= order(x),
                          "the most likely comes first");
            for (index_t j = 0; j < (different ? k : std::min(k, certain)); ++j)
                fuzz::require(out[static_cast<std::size_t>(j)] != x,
                              "tokens are different, and no draw gives a certain one");
        }
    } catch (invalid_input const&) {
        return;
    }
}

template <class Row, class Sums>
void sample_all(Row const& row, Sums const& sums, fuzz::problem const& b, std::size_t wanted, bool is_distribution) {
    sample(draft::iid{}, row, sums, b.seed, wanted, false, is_distribution);
    sample(draft::sequential{}, row, sums, b.seed, wanted, true, is_distribution);
    sample(draft::gumbel_top_k{}, row, sums, b.seed, wanted, true, is_distribution);
    sample(draft::top_n{}, row, sums, b.seed, wanted, true, is_distribution);
    sample(draft::stratified{}, row, sums, b.seed, wanted, false, is_distribution);
    for (double const theta : {0.0, 1.0, std::numeric_limits<double>::quiet_NaN()})
        sample(draft::stratified{.theta = theta}, row, sums, b.seed, wanted, false, is_distribution);
    sample(draft::top_then_one{}, row, sums, b.seed, wanted, true, is_distribution);
    sample(draft::top_paired{}, row, sums, b.seed, wanted, true, is_distribution);
    sample(draft::conditional_poisson{}, row, sums, b.seed, wanted, true, is_distribution);
    sample(draft::shared_randomness{}, row, sums, b.seed, wanted, false, is_distribution);
}

/// The next level of a beam: whose sequences and tokens are there, and none of them twice.
void check_steps(std::vector<draft::beam_step> const& steps, index_t n, std::size_t beams, index_t vocabulary) {
    fuzz::require(n >= 0 && n <= static_cast<index_t>(steps.size()), "no more is kept than there is room for");
    for (index_t k = 0; k < n; ++k) {
        auto const& s = steps[static_cast<std::size_t>(k)];
        fuzz::require(s.from >= 0 && s.from < static_cast<index_t>(beams), "a sequence of the beam goes on");
        fuzz::require(s.token >= 0 && s.token < vocabulary, "a token is in the vocabulary");
        for (index_t j = 0; j < k; ++j) {
            auto const& other = steps[static_cast<std::size_t>(j)];
            fuzz::require(other.from != s.from || other.token != s.token, "sequences are different");
        }
    }
}

template <class Row, class Sums>
void beams(std::vector<Row> const& rows, std::vector<Sums> const& row_sums, fuzz::problem const& b, std::size_t width,
           std::vector<draft::beam> const& beam, bool ordered) {
    host_group const g;
    auto const row = [&](index_t i) { return rows[static_cast<std::size_t>(i)]; };
    auto const place_of = [](index_t i) { return draw_site{5, i}; };
    std::vector<double> numbers(rows.size());
    std::vector<token_id> taken(rows.size() * width);
    std::vector<index_t> counts(rows.size());
    std::vector<draft::beam_step> out(width);
    {
        auto sums = row_sums;
        addressed_source source{addressed_uniforms(b.seed)};
        auto const n = draft::stochastic_beam_level(
            g, span<draft::beam const>(beam),
            row, [&](index_t i) -> auto& { return sums[static_cast<std::size_t>(i)]; }, place_of, source,
            span<double>(numbers), span<token_id>(taken), span<index_t>(counts), span<draft::beam_step>(out));
        check_steps(out, n, beam.size(), b.vocabulary);
        for (index_t k = 1; ordered && k < n; ++k)
            fuzz::require(out[static_cast<std::size_t>(k)].score <= out[static_cast<std::size_t>(k) - 1].score,
                          "the best score comes first");
    }
    {
        auto sums = row_sums;
        addressed_source source{addressed_uniforms(b.seed)};
        auto const n = draft::beam_sampling_level(
            g, span<draft::beam const>(beam),
            row, [&](index_t i) -> auto& { return sums[static_cast<std::size_t>(i)]; }, place_of, source,
            span<double>(numbers), span<token_id>(taken), span<index_t>(counts), span<draft::beam_step>(out));
        check_steps(out, n, beam.size(), b.vocabulary);
    }
    auto const n = draft::beam_top_level(g, span<draft::beam const>(beam), row, span<token_id>(taken),
                                         span<draft::beam_step>(out));
    check_steps(out, n, beam.size(), b.vocabulary);
    for (index_t k = 1; ordered && k < n; ++k)
        fuzz::require(out[static_cast<std::size_t>(k)].score <= out[static_cast<std::size_t>(k) - 1].score,
                      "the likeliest comes first");
}

void look_up(fuzz::bytes& in) {
    std::vector<token_id> text(static_cast<std::size_t>(in.below(30)));
    for (auto& x : text) x = in.below(3);
    draft::ngram_lookup const lookup{in.index(6), in.index(4)};
    try {
        lookup.validate();
    } catch (invalid_input const&) {
        return;
    }
    std::vector<std::int32_t> starts;
    lookup(text, [&](std::int32_t start, std::int32_t matched) {
        fuzz::require(start > 0 && start < static_cast<std::int32_t>(text.size()), "the text goes on there");
        fuzz::require(matched >= 1 && matched <= start, "as many tokens are before it");
        for (std::int32_t k = 1; k <= matched; ++k)
            fuzz::require(text[static_cast<std::size_t>(start - k)] == text[text.size() - static_cast<std::size_t>(k)],
                          "it is a match");
        fuzz::require(std::find(starts.begin(), starts.end(), start) == starts.end(), "a match is told once");
        for (std::int32_t k = 0; k < 40; ++k)
            fuzz::require(draft::continuation_token(text, start, k) < 3, "a token of the text");
        starts.push_back(start);
        return true;
    });
    std::vector<index_t> continuing(text.size());
    draft::share_nodes(text, continuing);
    index_t all = 0;
    for (auto const h : continuing) all += h;
    fuzz::require(all == static_cast<index_t>(text.size()), "every sequence goes on somewhere");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    fuzz::bytes in(data, size);
    bool const as_probabilities = in.byte() % 2 == 0;
    auto const wanted = static_cast<std::size_t>(in.below(18));
    auto const width = static_cast<std::size_t>(in.below(6));
    look_up(in);
    std::vector<draft::beam> beam(static_cast<std::size_t>(in.below(4)));
    bool hostile = false;
    for (auto& s : beam) {
        s.log_probability = -static_cast<double>(in.byte());
        s.score = static_cast<double>(in.byte()) - 128;
        if (in.byte() < 8) s.score = static_cast<double>(in.number()), hostile = true;
        if (in.byte() < 8) s.log_probability = static_cast<double>(in.number()), hostile = true;
    }
    auto const b = fuzz::read_problem(in);
    auto const nodes = static_cast<std::size_t>(b.nodes());
    if (nodes == 0) return 0;
    beam.resize(std::min(beam.size(), nodes));
    host_group const g;
    if (as_probabilities) {
        std::vector<probabilities<float>> rows;
        std::vector<chunk_sums<float>> sums;
        bool all = true;
        for (std::size_t i = 0; i < std::max<std::size_t>(beam.size(), 1); ++i) {
            rows.emplace_back(b.q.data() + i * static_cast<std::size_t>(b.vocabulary), b.vocabulary);
            bool is_distribution = true;
            for (index_t x = 0; x < b.vocabulary; ++x)
                is_distribution = is_distribution && rows[i].weight(x) >= 0 && rows[i].weight(x) <= 1;
            sums.push_back(g.sum_chunks(b.vocabulary, weight_of{rows[i]}));
            is_distribution = is_distribution && sums[i].total > 1e-3F;
            all = all && is_distribution;
            if (i == 0) sample_all(rows[i], sums[i], b, wanted, is_distribution);
        }
        rows.resize(beam.size());
        sums.resize(beam.size());
        beams(rows, sums, b, width, beam, all && !hostile);
        return 0;
    }
    try {
        validate(b.w);
        auto const first = process_logits(g, row_view<float>(b.q.data(), b.vocabulary), b.w);
        using softmax = std::decay_t<decltype(first.row)>;
        std::vector<softmax> rows;
        std::vector<std::decay_t<decltype(first.sums)>> sums;
        for (std::size_t i = 0; i < beam.size(); ++i) {
            auto const one = process_logits(
                g, row_view<float>(b.q.data() + i * static_cast<std::size_t>(b.vocabulary), b.vocabulary), b.w);
            rows.push_back(one.row);
            sums.push_back(one.sums);
        }
        sample_all(first.row, first.sums, b, wanted, true);
        beams(rows, sums, b, width, beam, !hostile);
    } catch (invalid_input const&) {
        return 0;
    }
    return 0;
}
