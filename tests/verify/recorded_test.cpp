// Texts of old seeds: which draw has which address is part of every recorded text, and no proof sees it change.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "multidraft/core/host_group.hpp"
#include "multidraft/distribution/probabilities.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

namespace {

using namespace multidraft;

/// A hash of what is drafted and decided with the first seeds, over rows without rounding.
template <class Sampler, class Verifier>
std::uint64_t record() {
    std::vector<double> const q{0.25, 0.125, 0.5, 0.125};
    std::vector<double> const p{0.375, 0.25, 0.125, 0.25};
    std::vector<node_id> const parents{none, 0, 0, 1, 1, 2, 2};
    host_group const g;
    std::uint64_t hash = 0xcbf29ce484222325U;
    auto const mix = [&](std::int32_t value) { hash = (hash ^ static_cast<std::uint32_t>(value)) * 0x100000001b3U; };
    for (std::uint64_t seed = 0; seed < 64; ++seed) {
        addressed_source source{addressed_uniforms(seed)};
        std::vector<token_id> tokens(parents.size(), 0);
        drafted<typename Sampler::law> const tree{{parents, tokens}};
        for (node_id v = 0; v < 3; ++v) {
            probabilities<double> const row(q.data(), 4);
            auto sums = g.weigh(4, weight_of{row});
            auto const children = tree.tree.children(v);
            (void)Sampler{}(g, row, sums, source, place{11, v}, {tokens.data() + children.first, 2});
        }
        std::vector<node_id> path(2, none);
        auto const v = Verifier{}(g, tree, probability_rows<double>(rows_view<double>(p.data(), 7, 4, 0)),
                                  probability_rows<double>(rows_view<double>(q.data(), 7, 4, 0)), source, 11, path);
        for (token_id const x : tokens) mix(x);
        mix(v.accepted);
        mix(v.next);
    }
    return hash;
}

TEST(recorded, texts_of_old_seeds) {
    EXPECT_EQ((record<draft::iid, verify::recursive_rejection<law::iid>>()), 7883369621552911578U);
    EXPECT_EQ((record<draft::sequential, verify::recursive_rejection<law::sequential>>()), 12810132079527259885U);
    EXPECT_EQ((record<draft::sequential, verify::naive<law::sequential>>()), 2093088869561957006U);
}

}  // namespace
