// Recursive rejection of laws that are given by their conditionals (Jeon et al., Theorem 3.1): proved by exact
// enumeration for laws of every kind of dependence.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "multidraft/analysis/acceptance.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/top_paired.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/research/any_law.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/testing/enumerating.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "support/by_conditionals.hpp"
#include "support/reweighted.hpp"
#include "support/tree_cases.hpp"

namespace conditionals_test {
namespace {

namespace analysis = multidraft::analysis;
namespace research = multidraft::research;
namespace draft = multidraft::draft;
namespace law = multidraft::law;
namespace verify = multidraft::verify;
using multidraft::distribution;
using multidraft::group;
using multidraft::host_group;
using multidraft::index_t;
using multidraft::make_reweighted;
using multidraft::probabilities;
using multidraft::span;
using multidraft::token_id;
using multidraft::weight_of;
using namespace multidraft::testing;

bool holds(span<token_id const> drawn, index_t i) {
    for (token_id const x : drawn)
        if (x == i) return true;
    return false;
}

/// 0 for the tokens drawn, 1 for the others.
struct undrawn {
    span<token_id const> drawn;
    double operator()(index_t i) const { return holds(drawn, i) ? 0.0 : 1.0; }
};

/// Without replacement, given by its conditionals.
struct without_replacement {
    static constexpr multidraft::law_traits traits{.name = "without_replacement"};
    template <group G, distribution Q>
    static auto conditional(G const& g, Q const& q, span<token_id const> drawn) {
        return make_reweighted(g, q, undrawn{drawn});
    }
};

/// A token drawn once is drawn again half as often, and its neighbour twice as often: children depend on each other in
/// both directions, and may be equal.
struct neighbours {
    span<token_id const> drawn;
    double operator()(index_t i) const {
        double factor = 1;
        for (token_id const x : drawn) factor *= x == i ? 0.5 : (x + 1 == i ? 2.0 : 1.0);
        return factor;
    }
};
struct attracted {
    static constexpr multidraft::law_traits traits{.name = "attracted"};
    template <group G, distribution Q>
    static auto conditional(G const& g, Q const& q, span<token_id const> drawn) {
        return make_reweighted(g, q, neighbours{drawn});
    }
};

/// The law of SpecHub: the first from q; the second the most likely token, or from the others where that was the first.
struct one_of_two {
    token_id top = 0;
    index_t size = 0;
    bool first = true;
    bool top_was_drawn = false;
    double operator()(index_t i) const {
        if (first) return 1.0;
        return (i == top) != top_was_drawn ? 1.0 : 0.0;
    }
};
struct paired {
    static constexpr multidraft::law_traits traits{.name = "paired"};
    template <group G, distribution Q>
    static auto conditional(G const& g, Q const& q, span<token_id const> drawn) {
        token_id const top = g.argmax(q.size(), weight_of{q});
        return make_reweighted(g, q, one_of_two{top, q.size(), drawn.empty(), !drawn.empty() && drawn[0] == top});
    }
};

/// The parity of the first token decides from which half of the vocabulary the others come, if there is mass.
struct half_of {
    index_t parity = -1;
    double operator()(index_t i) const { return parity < 0 || i % 2 == parity ? 1.0 : 0.25; }
};
struct by_parity {
    static constexpr multidraft::law_traits traits{.name = "by_parity"};
    template <group G, distribution Q>
    static auto conditional(G const& g, Q const& q, span<token_id const> drawn) {
        return make_reweighted(g, q, half_of{drawn.empty() ? -1 : drawn[0] % 2});
    }
};

/// Certain tokens, the most likely first: conditionals that are one-hot.
struct in_order {
    static constexpr multidraft::law_traits traits{.name = "in_order"};
    struct only {
        token_id x = multidraft::none;
        double operator()(index_t i) const { return i == x ? 1.0 : 0.0; }
    };
    template <group G, distribution Q>
    static auto conditional(G const& g, Q const& q, span<token_id const> drawn) {
        auto const weight = [&](index_t i) { return holds(drawn, i) ? decltype(q.weight(0))(0) : q.weight(i); };
        token_id x = g.argmax(q.size(), weight);
        if (x != multidraft::none && !(weight(x) > 0)) x = multidraft::none;
        return make_reweighted(g, q, only{x});
    }
};

template <class Law>
void expect_lossless(std::vector<tree_case> const& cases) {
    static_assert(multidraft::gives_conditionals<Law, host_group, probabilities<double>>);
    static_assert(multidraft::sampler<draft::by_conditionals<Law>> &&
                  verify::verifier<verify::recursive_rejection<Law>>);
    static_assert(multidraft::rules_of<verify::recursive_rejection<Law>>().most_children == 64);  // `validate_batch`
    expect_lossless_trees<draft::by_conditionals<Law>, verify::recursive_rejection<Law>>(cases, {}, {}, 1);
}

TEST(Conditionals, AreProvedForLawsOfEveryDependence) {
    std::vector<tree_case> const some{{{1}, 3}, {{2}, 3},    {{2}, 5},    {{3}, 4},
                                      {{4}, 3}, {{2, 1}, 3}, {{2, 2}, 2}, {{1, 2, 1}, 2}};
    expect_lossless<attracted>(trees_to_prove());
    expect_lossless<without_replacement>(some);
    expect_lossless<by_parity>(some);
    expect_lossless<in_order>(some);
    expect_lossless<paired>(pairs_to_prove());
}

TEST(Conditionals, AreProvedInLaunches) {
    auto const found =
        prove_lossless<silent_group>(draft::by_conditionals<attracted>{}, verify::recursive_rejection<attracted>{},
                                     {.trees = pairs_to_prove(), .seeds = 1});
    EXPECT_TRUE(found.holds()) << found.report();
}

/// One that ignores the dependence: each candidate against q itself.
struct taken_for_independent {
    static constexpr multidraft::law_traits traits{.name = "attracted"};
    template <group G, distribution Q>
    static auto conditional(G const& g, Q const& q, span<token_id const>) {
        return make_reweighted(g, q, neighbours{});
    }
};
struct attracted_as_independent {
    using law = taken_for_independent;
    template <class... Arguments>
    auto operator()(Arguments&&... all) const {
        return draft::by_conditionals<attracted>{}(all...);
    }
};

TEST(Conditionals, OfAnotherLawAreNoProof) {
    auto const found = prove_lossless(attracted_as_independent{}, verify::recursive_rejection<taken_for_independent>{},
                                      {.trees = {{{2}, 3}}});
    EXPECT_FALSE(found.holds());
    EXPECT_GT(found.distance.value, 1e-3);
}

TEST(Conditionals, DecideAsTheLawsThatTheLibraryHas) {
    for (kind const k : all_kinds) {
        for (std::uint64_t seed = 0; seed < 3; ++seed) {
            auto const models = random_models(k, 4, 1, seed);
            for (int const n : {1, 2, 3}) {
                auto const own = law_of_step(draft::by_conditionals<without_replacement>{},
                                             verify::recursive_rejection<without_replacement>{}, {n}, models);
                auto const known =
                    law_of_step(draft::sequential{}, verify::recursive_rejection<law::sequential>{}, {n}, models);
                EXPECT_NEAR(own.mean_accepted, known.mean_accepted, 1e-12) << name_of(k) << ", n = " << n;
                auto const certain = law_of_step(draft::by_conditionals<in_order>{},
                                                 verify::recursive_rejection<in_order>{}, {n}, models);
                auto const naive =
                    law_of_step(draft::by_conditionals<in_order>{}, verify::naive<in_order>{}, {n}, models);
                EXPECT_NEAR(certain.mean_accepted, naive.mean_accepted, 1e-12)
                    << "of certain tokens recursive rejection is naive verification: " << name_of(k);
            }
        }
    }
}

/// The conditionals of a law of the tests as rows.
template <class Law>
auto rows_of(std::vector<double> const& q) {
    return [&q](std::span<token_id const> drawn) {
        probabilities<double> const row(q.data(), static_cast<index_t>(q.size()));
        auto const conditional = Law::conditional(host_group{}, row, span<token_id const>(drawn.data(), drawn.size()));
        std::vector<double> result(q.size());
        for (std::size_t i = 0; i < q.size(); ++i) result[i] = conditional(static_cast<index_t>(i));
        return result;
    };
}

template <class Law>
void expect_rate(int most) {
    for (kind const k : all_kinds) {
        auto const models = random_models(k, 4, 1, 5);
        auto const& p = models.target[0];
        auto const& q = models.draft[0];
        for (int n = 1; n <= most; ++n) {
            double const rate = analysis::acceptance_recursive_conditionals(p, n, rows_of<Law>(q));
            auto const found =
                law_of_step(draft::by_conditionals<Law>{}, verify::recursive_rejection<Law>{}, {n}, models);
            EXPECT_NEAR(rate, found.mean_accepted, 1e-12) << Law::traits.name << ", " << name_of(k) << ", n = " << n;
            auto const tuples = research::law_of_conditionals(n, rows_of<Law>(q));
            EXPECT_LE(rate, research::alpha_star_of_law(p, tuples).alpha_star + 1e-12);
        }
    }
}

TEST(Conditionals, HaveTheRateOfTheAnalysis) {
    expect_rate<without_replacement>(3);
    expect_rate<attracted>(3);
    expect_rate<by_parity>(3);
    expect_rate<in_order>(3);
    expect_rate<paired>(2);
}

TEST(Conditionals, RefuseWhatCannotHaveBeenDrawn) {
    host_group const g;
    std::vector<double> const p{0.2, 0.3, 0.5};
    std::vector<double> const q{0.5, 0.5, 0.0};
    std::array<multidraft::node_id, 3> const parents{multidraft::none, 0, 0};
    std::array<token_id, 3> const tokens{0, 1, 1};  // drawn twice: not without replacement
    multidraft::drafted<without_replacement> const tree{multidraft::tree_view{parents, tokens}};
    multidraft::testing::rows_of_nodes target(3);
    multidraft::testing::rows_of_nodes rows(3);
    for (int k = 0; k < 3; ++k) target.push_back(p);
    rows.push_back(q);
    std::array<multidraft::node_id, 1> path{};
    int refused = 0;
    enumerate([&](enumerating_source& source) {
        try {
            static_cast<void>(verify::recursive_rejection<without_replacement>{}(
                g, tree, multidraft::target_rows(target), multidraft::draft_rows(rows), source, 0,
                span<multidraft::node_id>(path)));
        } catch (multidraft::invalid_input const&) {
            ++refused;
        }
    });
    EXPECT_EQ(refused, 1) << "the second is looked at where the first was refused";
}

}  // namespace
}  // namespace conditionals_test
