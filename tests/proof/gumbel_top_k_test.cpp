// Gumbel-top-k has the law of draws without replacement: sequences of up to three tokens, counted.
#include "multidraft/draft/gumbel_top_k.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "multidraft/draft/sequential.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/testing/enumerating.hpp"
#include "multidraft/testing/kinds.hpp"
#include "support/chi_squared.hpp"
#include "support/proved_methods.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {
namespace {

using sequence = std::vector<token_id>;

template <class Sampler, class Source>
sequence draw(Sampler const& sampler, std::vector<double> const& q, std::size_t n, Source& source,
              std::int32_t position) {
    host_group const g;
    probabilities<double> const row(q.data(), static_cast<index_t>(q.size()));
    auto sums = g.sum_chunks(row.size(), weight_of{row});
    sequence out(n, none);
    auto const drawn = sampler(g, row, sums, source, draw_site{position, 0}, span<token_id>(out));
    out.resize(static_cast<std::size_t>(drawn.count));
    return out;
}

/// The law of `draft::sequential`, by enumeration.
std::map<sequence, double> law_without_replacement(std::vector<double> const& q, std::size_t n) {
    std::map<sequence, double> law;
    enumerate([&](enumerating_source& source) {
        auto const out = draw(draft::sequential{}, q, n, source, 0);
        law[out] += source.probability();
    });
    return law;
}

void expect_law_without_replacement() {
    constexpr int draws = 4000;
    chi_squared all;
    for (kind const k : all_kinds)
        for (std::uint64_t seed = 1; seed <= 3; ++seed)
            for (std::size_t const n : {1U, 2U, 3U}) {
                auto const models = random_models(k, 4, 0, seed);
                auto const& q = models.draft[0];
                std::map<sequence, std::size_t> number;
                std::vector<double> expected;
                double rare = 0;  // outcomes that are too rare for a category
                for (auto const& [tokens, chance] : law_without_replacement(q, n)) {
                    if (chance * draws < 10) {
                        rare += chance * draws;
                        continue;
                    }
                    number.emplace(tokens, expected.size());
                    expected.push_back(chance * draws);
                }
                expected.push_back(rare);
                std::vector<std::uint64_t> counts(expected.size());
                addressed_source source{addressed_uniforms(1000 * seed + n)};
                for (int i = 0; i < draws; ++i) {
                    auto const found = number.find(draw(draft::gumbel_top_k{}, q, n, source, i));
                    ++counts[found == number.end() ? counts.size() - 1 : found->second];
                }
                // Too rare for a category: merged with the next one.
                if (rare < 10) {
                    expected[expected.size() > 1 ? expected.size() - 2 : 0] += rare;
                    counts[counts.size() > 1 ? counts.size() - 2 : 0] += counts.back();
                    expected.pop_back();
                    counts.pop_back();
                }
                all += compare(counts, expected);
            }
    EXPECT_GE(all.p_value(), failure_level) << all.statistic << " of " << all.freedom;
}

}  // namespace

template <>
void prove_otherwise<methods::recursive_rejection_gumbel_top_k>() {
    expect_law_without_replacement();
    auto const found = prove_lossless(draft::sequential{}, methods::recursive_rejection_gumbel_top_k::verifier{},
                                      {.trees = {{{2, 1}, 3}}, .seeds = 1});
    EXPECT_TRUE(found.holds()) << found.report();
}

TEST(gumbel_top_k, has_the_law_of_draws_without_replacement) {
    prove_otherwise<methods::recursive_rejection_gumbel_top_k>();
}

}  // namespace MULTIDRAFT_NAMESPACE::testing
