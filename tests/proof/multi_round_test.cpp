// Several draft models, each with its own rows: exact laws on trees, of multi-round and of naive verification.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/testing/enumerating.hpp"
#include "support/proved_methods.hpp"
#include "support/tree_cases.hpp"

namespace {

namespace law = multidraft::law;
using namespace multidraft::testing;
using multidraft::drafted;
using multidraft::draw_site;
using multidraft::host_group;
using multidraft::index_t;
using multidraft::node_id;
using multidraft::none;
using multidraft::probabilities;
using multidraft::purpose;
using multidraft::span;
using multidraft::token_id;
using multidraft::tree_view;
using multidraft::weight_of;

/// Three draft models' rows at the root and at its children, by child.
struct rows_of_three {
    std::vector<small_model const*> models;
    std::vector<std::size_t> contexts;
    index_t vocabulary;

    [[nodiscard]] index_t size() const { return vocabulary; }
    [[nodiscard]] index_t rows() const { return static_cast<index_t>(contexts.size()); }
    template <class G>
    [[nodiscard]] probabilities<double> operator()(G const&, node_id node, index_t child) const {
        auto const& model = *models[static_cast<std::size_t>(child) % models.size()];
        return {model[contexts[static_cast<std::size_t>(node)]].data(), vocabulary};
    }
};

/// The law of two levels' texts: `children` tokens a node, each from its own model.
template <class Verifier>
void expect_lossless_of_several(shape const& children, index_t vocabulary, kind k, std::uint64_t seed) {
    auto const depth = static_cast<int>(children.size());
    auto const one = random_models(k, vocabulary, depth, seed);
    auto const two = random_models(kind::plain, vocabulary, depth, seed + 500);
    auto const three = random_models(kind::no_mass, vocabulary, depth, seed + 900);
    host_group const g;
    std::map<text, double> emitted;
    multidraft::testing::enumerate([&](multidraft::testing::enumerating_source& source) {
        std::vector<node_id> parents{none};
        std::vector<token_id> tokens{0};
        rows_of_three rows{{&one.draft, &two.draft, &three.draft}, {0}, vocabulary};
        rows_of_nodes target(vocabulary);
        target.push_back(one.target[0]);
        std::size_t begin = 0;
        for (int const n : children) {
            std::size_t const end = parents.size();
            for (std::size_t v = begin; v < end; ++v)
                for (index_t c = 0; c < n; ++c) {
                    auto const q = rows(g, static_cast<node_id>(v), c);
                    auto const sums = g.sum_chunks(vocabulary, weight_of{q});
                    token_id const x = source.categorical(g, sums, vocabulary, weight_of{q}, {},
                                                          draw_site{0, static_cast<node_id>(v)}(purpose::draft, c));
                    parents.push_back(static_cast<node_id>(v));
                    tokens.push_back(x);
                    rows.contexts.push_back(one.target.after(rows.contexts[v], x));
                    target.push_back(one.target[rows.contexts.back()]);
                }
            begin = end;
        }
        std::vector<node_id> path(children.size());
        auto const v =
            Verifier{}(g, drafted<law::independent>{tree_view{parents, tokens}}, multidraft::target_rows(target),
                       multidraft::draft_rows(rows), source, 0, span<node_id>(path));
        text out;
        for (int d = 0; d < v.accepted; ++d)
            out.push_back(tokens[static_cast<std::size_t>(path[static_cast<std::size_t>(d)])]);
        out.push_back(v.next);
        emitted[out] += source.probability();
    });
    auto const whole = multidraft::testing::detail::completed(one.target, emitted, children.size() + 1);
    EXPECT_LT(total_variation(whole, law_of_target(one.target, children.size() + 1)), 1e-12)
        << print(children) << ", V = " << vocabulary << ", " << name_of(k) << ", seed " << seed;
}

template <class Verifier>
void expect_lossless_of_several() {
    for (kind const k : all_kinds)
        for (std::uint64_t seed = 1; seed <= 3; ++seed) {
            expect_lossless_of_several<Verifier>({1}, 3, k, seed);
            expect_lossless_of_several<Verifier>({2}, 4, k, seed);
            expect_lossless_of_several<Verifier>({3}, 4, k, seed);
            expect_lossless_of_several<Verifier>({2, 1}, 3, k, seed);
            expect_lossless_of_several<Verifier>({2, 2}, 2, k, seed);
        }
}

}  // namespace

template <>
void multidraft::testing::prove_otherwise<multidraft::methods::multi_round_independent>() {
    expect_lossless_of_several<multidraft::methods::multi_round_independent::verifier>();
}
template <>
void multidraft::testing::prove_otherwise<multidraft::methods::naive_independent>() {
    expect_lossless_of_several<multidraft::methods::naive_independent::verifier>();
}

TEST(lossless, several_draft_models) {
    multidraft::testing::prove_otherwise<multidraft::methods::multi_round_independent>();
    multidraft::testing::prove_otherwise<multidraft::methods::naive_independent>();
}
