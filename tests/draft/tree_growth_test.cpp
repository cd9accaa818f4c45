// Trees that grow without a model: the trees of the generation loop, exact laws of shapes that depend on draws, order,
// what the draft reads, limits and errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "multidraft/decode/accepted_text.hpp"
#include "multidraft/decode/draft_tree.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/shared_randomness.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/draft/tree_growth.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/rows/row_source.hpp"
#include "multidraft/testing/enumerating.hpp"
#include "multidraft/testing/exact_law.hpp"
#include "multidraft/testing/kinds.hpp"
#include "multidraft/tree/shape_text.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/block.hpp"
#include "multidraft/verify/k_seq.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/traversal.hpp"
#include "support/refusal.hpp"
#include "support/table_model.hpp"

namespace tree_growth_test {
namespace {

using namespace multidraft;
using draft::tree_growth;
using multidraft::testing::enumerate;
using multidraft::testing::enumerating_source;
using multidraft::testing::kind;
using multidraft::testing::model_pair;
using multidraft::testing::random_conditional;
using multidraft::testing::refusal;
using multidraft::testing::table_model;

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

// --- The trees of the generation loop --------------------------------------------------------------------------------

/// Grows a tree over a model that reads the inputs of `tree_growth`, and one with `draft_tree`: they are equal.
template <class Sampler>
void expect_the_loops_tree(topology const& shape, std::int32_t depth, sampling_params const& w, int sparsity) {
    constexpr std::int32_t vocabulary = 6;
    std::vector<token_id> const text{1, 2, 0, 4};
    auto const position = static_cast<std::int32_t>(text.size()) - 1;
    table_model<float> model(vocabulary, random_conditional(vocabulary, 5, 3, sparsity));
    addressed_source source{addressed_uniforms(17, 3)};

    draft_tree<float, Sampler> expected;
    generation_metrics metrics;
    expected.grow(host_group{}, model, text, shape, depth, w, source, metrics);
    std::int64_t const calls = model.calls;

    table_model<float> other(vocabulary, random_conditional(vocabulary, 5, 3, sparsity));
    std::vector<float> unused;
    std::vector<token_id> const context(text.begin(), text.end() - 1);
    std::vector<std::int32_t> positions(context.size());
    for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<std::int32_t>(i);
    other.forward({context, positions, 0, {}}, {});
    other.calls = 0;

    tree_growth<typename Sampler::law> tree;
    host_group const g;
    for (int step = 0; step < 2; ++step) {  // the second over what the first has left
        tree.start(text.back(), position, shape, depth);
        other.keep(position, {});
        std::vector<std::vector<float>> rows;
        int level_calls = 0;
        for (auto in = tree.next_level(); !in.empty(); in = tree.next_level()) {
            ASSERT_EQ(at(in.first_row), rows.size());
            std::vector<float> logits(in.size() * at(vocabulary));
            other.forward({in.tokens, in.positions, position, in.mask}, logits);
            ++level_calls;
            for (std::size_t k = 0; k < in.size(); ++k)
                rows.emplace_back(logits.begin() + static_cast<std::ptrdiff_t>(k * at(vocabulary)),
                                  logits.begin() + static_cast<std::ptrdiff_t>((k + 1) * at(vocabulary)));
            std::vector<node_id> const nodes(in.nodes.begin(), in.nodes.end());
            for (node_id const v : nodes) {
                auto q = process_logits(g, row_view<float>(rows[at(tree.row_of_node()[at(v)])].data(), vocabulary), w);
                tree.draw(v, Sampler{}, q.row, q.sums, source);
            }
        }
        EXPECT_EQ(level_calls, calls);
        auto const mine = tree.drafts();
        auto const theirs = expected.tree();
        ASSERT_EQ(mine.tree.size(), theirs.tree.size());
        for (node_id v = 0; v < mine.tree.size(); ++v) {
            EXPECT_EQ(mine.tree.parents[at(v)], theirs.tree.parents[at(v)]);
            EXPECT_EQ(mine.tree.tokens[at(v)], theirs.tree.tokens[at(v)]);
            EXPECT_EQ(tree.positions()[at(v)], expected.positions()[at(v)]);
            EXPECT_EQ(tree.depths()[at(v)], mine.tree.depth(v));
            if constexpr (counts_certain<typename Sampler::law>) {
                EXPECT_EQ(mine.certain[at(v)], theirs.certain[at(v)]);
            }
            for (node_id u = 0; u < mine.tree.size(); ++u) EXPECT_EQ(tree.mask()(v, u), expected.mask()(v, u));
            // The map from the shape and back.
            node_id const like = tree.shape_nodes()[at(v)];
            EXPECT_EQ(tree.node_of(like), v);
            EXPECT_EQ(shape.depth(like), tree.depths()[at(v)]);
            if (v > 0) {
                EXPECT_EQ(shape.parent(like), tree.shape_nodes()[at(mine.tree.parents[at(v)])]);
            }
        }
        node_id there = 0;
        for (node_id s = 0; s < shape.size(); ++s) there += tree.node_of(s) == none ? 0 : 1;
        EXPECT_EQ(there, mine.tree.size());
    }
}

TEST(tree_growth, is_the_loops_tree) {
    for (auto const* shape : {"4x2x2x1", "2x3", "chain:4", "fork:3x2", "[-1 0 0 0 1 1 3 4 4 6]", "0"})
        for (std::int32_t const depth : {0, 1, 2, 9})
            for (sampling_params const& w : {sampling_params{}, {.top_k = 2}, {.temperature = 0}})
                for (int const sparsity : {0, 2}) {
                    auto const of = parse_shape(shape);
                    expect_the_loops_tree<draft::sequential>(of, depth, w, sparsity);
                    expect_the_loops_tree<draft::iid>(of, depth, w, sparsity);
                    expect_the_loops_tree<draft::stratified>(of, depth, w, sparsity);
                    expect_the_loops_tree<draft::top_n>(of, depth, w, sparsity);
                    expect_the_loops_tree<draft::shared_randomness>(of, depth, w, sparsity);
                }
}

// --- Exact laws ------------------------------------------------------------------------------------------------------

/// One step over small models: the tree by `grow(tree, row, source)`, then the verifier, then the text.
template <class Law, shape_depends_on DependsOn, class Verifier>
double distance(model_pair const& models, std::int32_t depth,
                std::function<void(tree_growth<Law, DependsOn>&, std::function<probabilities<double>(node_id)> const&,
                                   enumerating_source&)> const& grow) {
    host_group const g;
    index_t const vocabulary = models.target.vocabulary();
    tree_growth<Law, DependsOn> tree;
    Verifier const verifier;
    std::map<multidraft::testing::text, double> emitted;
    accepted_text out;
    enumerate([&](enumerating_source& source) {
        tree.start(0, 0);
        std::vector<std::size_t> contexts{0};  // by number as added
        auto const row = [&](node_id v) {
            while (contexts.size() <= at(v)) {
                auto const u = contexts.size();
                contexts.push_back(
                    models.draft.after(contexts[at(tree.as_added().parents[u])], tree.as_added().tokens[u]));
            }
            return probabilities<double>(models.draft[contexts[at(v)]].data(), vocabulary);
        };
        grow(tree, row, source);
        tree.arrange();
        std::vector<std::size_t> places{0};
        multidraft::testing::rows_of_nodes p(vocabulary);
        multidraft::testing::rows_of_nodes q(vocabulary);
        for (node_id v = 0; v < tree.size(); ++v) {
            if (v > 0) places.push_back(models.target.after(places[at(tree.parents()[at(v)])], tree.tokens()[at(v)]));
            p.push_back(models.target[places.back()]);
            q.push_back(models.draft[std::min(places.back(), models.draft.contexts() - 1)]);
        }
        std::vector<node_id> path(at(depth), none);
        std::vector<std::byte> scratch(verify::scratch_bytes<Verifier>(tree.size(), depth));
        auto const v = verify::verify_tree(verifier, g, tree.drafts_of_any_shape(), target_rows(p), draft_rows(q),
                                           source, 0, span<node_id>(path), span<std::byte>(scratch));
        out.assign({tree.parents(), tree.tokens()}, path, v);
        emitted[{out.tokens().begin(), out.tokens().end()}] += source.probability();
    });
    auto const length = at(depth) + 1;
    return multidraft::testing::total_variation(multidraft::testing::detail::completed(models.target, emitted, length),
                                                multidraft::testing::law_of_target(models.target, length));
}

/// A node's number of children depends on the path to it alone: 2, 1 or none.
template <shape_depends_on DependsOn, class Sampler>
void grow_by_path(tree_growth<typename Sampler::law, DependsOn>& tree,
                  std::function<probabilities<double>(node_id)> const& row, enumerating_source& source,
                  std::int32_t depth, index_t most) {
    host_group const g;
    for (auto in = tree.next_level(); !in.empty(); in = tree.next_level()) {
        std::vector<node_id> const nodes(in.nodes.begin(), in.nodes.end());
        for (node_id const v : nodes) {
            if (tree.depths()[at(v)] == depth) continue;
            index_t const count = v == 0 ? most : std::min(most, (tree.tokens()[at(v)] + 2) % 3);
            auto const q = row(v);
            auto sums = g.sum_chunks(q.size(), weight_of{q});
            tree.draw(v, count, Sampler{}, q, sums, source);
        }
    }
}

/// The number depends on the tokens of siblings and cousins: after a 0, none for the others of the level.
template <shape_depends_on DependsOn, class Sampler>
void grow_by_level(tree_growth<typename Sampler::law, DependsOn>& tree,
                   std::function<probabilities<double>(node_id)> const& row, enumerating_source& source,
                   std::int32_t depth) {
    host_group const g;
    for (auto in = tree.next_level(); !in.empty(); in = tree.next_level()) {
        std::vector<node_id> const nodes(in.nodes.begin(), in.nodes.end());
        token_id sum = 0;
        for (node_id const v : nodes) sum += tree.tokens()[at(v)];
        for (node_id const v : nodes) {
            if (tree.depths()[at(v)] == depth) continue;
            index_t const count = v == 0 ? 2 : (sum + (v == nodes.front() ? 2 : 0)) % 3;
            auto const q = row(v);
            auto sums = g.sum_chunks(q.size(), weight_of{q});
            tree.draw(v, count, Sampler{}, q, sums, source);
        }
    }
}

template <class Sampler, class Verifier>
double worst_by_path(std::int32_t depth, index_t most) {
    double worst = 0;
    using law = typename Sampler::law;
    constexpr auto rule = shape_depends_on::own_context;
    static_assert(rule <= verify::shape_may_depend_on<Verifier>);
    for (kind const k : {kind::plain, kind::equal})
        for (std::uint64_t seed = 1; seed <= 2; ++seed) {
            auto const models = random_models(k, 3, depth, seed);
            worst = std::max(worst, distance<law, rule, Verifier>(models, depth, [&](auto& t, auto& row, auto& s) {
                                 grow_by_path<rule, Sampler>(t, row, s, depth, most);
                             }));
        }
    return worst;
}

template <class Sampler, class Verifier>
double worst_by_level(std::int32_t depth, index_t vocabulary) {
    double worst = 0;
    using law = typename Sampler::law;
    constexpr auto rule = shape_depends_on::earlier_draws;
    static_assert(rule <= verify::shape_may_depend_on<Verifier>);
    for (std::uint64_t seed = 1; seed <= 2; ++seed) {
        auto const models = random_models(kind::plain, vocabulary, depth, seed);
        worst = std::max(worst, distance<law, rule, Verifier>(models, depth, [&](auto& t, auto& row, auto& s) {
                             grow_by_level<rule, Sampler>(t, row, s, depth);
                         }));
    }
    return worst;
}

/// A stopping rule: one child after another, until one has the token 1 or there are three. With `peeks` it is not a
/// valid stopping rule: it depends on the token that it leaves out.
template <class Law, class Verifier>
double worst_by_stopping(std::int32_t depth, index_t vocabulary, bool peeks = false) {
    constexpr auto rule = shape_depends_on::earlier_siblings;
    double worst = 0;
    for (std::uint64_t seed = 1; seed <= 2; ++seed) {
        auto const models = random_models(kind::plain, vocabulary, depth, seed);
        auto const grow = [&](auto& tree, auto& row, enumerating_source& source) {
            host_group const g;
            for (auto in = tree.next_level(); !in.empty(); in = tree.next_level()) {
                std::vector<node_id> const nodes(in.nodes.begin(), in.nodes.end());
                for (node_id const v : nodes) {
                    if (tree.depths()[at(v)] == depth) continue;
                    auto const q = row(v);
                    weight_of const w{q};
                    auto sums = g.sum_chunks(q.size(), w);
                    std::vector<token_id> drawn;
                    while (drawn.size() < 3) {
                        span<token_id const> const taken(drawn.data(), tokens_differ<Law> ? drawn.size() : 0);
                        draw_site const site{0, v};
                        token_id const x = source.categorical(g, sums, q.size(), w, taken,
                                                              site(purpose::draft, static_cast<index_t>(drawn.size())));
                        if (x == none || (peeks && x == 1)) break;
                        tree.add(v, x);
                        drawn.push_back(x);
                        if (x == 1) break;
                    }
                }
            }
        };
        worst = std::max(worst, distance<Law, rule, Verifier>(models, depth, grow));
    }
    return worst;
}

TEST(tree_growth, shapes_by_the_nodes_own_context_are_exact) {
    EXPECT_LT((worst_by_path<draft::sequential, verify::recursive_rejection<law::sequential>>(2, 2)), 1e-12);
    EXPECT_LT((worst_by_path<draft::iid, verify::recursive_rejection<law::iid>>(2, 2)), 1e-12);
    EXPECT_LT((worst_by_path<draft::iid, verify::k_seq<law::iid>>(2, 2)), 1e-12);
    EXPECT_LT((worst_by_path<draft::sequential, verify::traversal<law::sequential>>(2, 2)), 1e-12);
    EXPECT_LT((worst_by_path<draft::iid, verify::traversal<law::iid>>(2, 2)), 1e-12);
    EXPECT_LT((worst_by_path<draft::iid, verify::traversal<law::iid>>(3, 1)), 1e-12);
    EXPECT_LT((worst_by_path<draft::iid, verify::block<law::iid>>(3, 1)), 1e-12);
    EXPECT_LT((worst_by_path<draft::stratified, verify::naive<law::stratified>>(2, 2)), 1e-12);
}

TEST(tree_growth, shapes_by_earlier_draws_are_exact_where_they_are_allowed) {
    EXPECT_LT((worst_by_level<draft::sequential, verify::recursive_rejection<law::sequential>>(2, 3)), 1e-12);
    EXPECT_LT((worst_by_level<draft::iid, verify::k_seq<law::iid>>(2, 3)), 1e-12);
    EXPECT_LT((worst_by_level<draft::sequential, verify::traversal<law::sequential>>(2, 3)), 1e-12);
    EXPECT_LT((worst_by_level<draft::sequential, verify::traversal<law::sequential>>(3, 2)), 1e-12);
    EXPECT_LT((worst_by_level<draft::iid, verify::traversal<law::iid>>(2, 3)), 1e-12);
}

TEST(tree_growth, stopping_rules_are_exact_where_they_are_allowed) {
    static_assert(verify::shape_may_depend_on<verify::k_seq<law::iid>> < shape_depends_on::earlier_siblings);
    EXPECT_LT((worst_by_stopping<law::sequential, verify::recursive_rejection<law::sequential>>(2, 3)), 1e-12);
    EXPECT_LT((worst_by_stopping<law::iid, verify::recursive_rejection<law::iid>>(2, 2)), 1e-12);
    EXPECT_LT((worst_by_stopping<law::sequential, verify::traversal<law::sequential>>(2, 3)), 1e-12);
    EXPECT_LT((worst_by_stopping<law::iid, verify::traversal<law::iid>>(2, 2)), 1e-12);
    // And biased where they are not: why `drafts_for` does not compile there.
    EXPECT_GT((worst_by_stopping<law::iid, verify::k_seq<law::iid>>(1, 3)), 1e-3);
    EXPECT_GT((worst_by_stopping<law::sequential, verify::recursive_rejection<law::sequential>>(2, 3, true)), 1e-3);
    EXPECT_GT((worst_by_stopping<law::sequential, verify::traversal<law::sequential>>(2, 3, true)), 1e-3);
}

TEST(tree_growth, anything_may_be_dropped_for_naive_verification) {
    constexpr auto rule = shape_depends_on::everything;
    auto const models = random_models(kind::plain, 3, 2, 3);
    auto const far = [&]<class Verifier>(Verifier) {
        return distance<law::iid, rule, Verifier>(models, 2, [&](auto& tree, auto& row, auto& source) {
            host_group const g;
            for (auto in = tree.next_level(); !in.empty(); in = tree.next_level()) {
                std::vector<node_id> const nodes(in.nodes.begin(), in.nodes.end());
                for (node_id const v : nodes) {
                    if (tree.depths()[at(v)] == 2) continue;
                    auto const q = row(v);
                    auto sums = g.sum_chunks(q.size(), weight_of{q});
                    tree.draw(v, 2, draft::iid{}, q, sums, source);
                }
            }
            node_id const n = tree.size();
            std::vector<token_id> const tokens(tree.tokens().begin(), tree.tokens().end());
            for (node_id v = 1; v < n; ++v)
                if (tokens[at(v)] == 1) tree.drop(v);
        });
    };
    EXPECT_LT(far(verify::naive<law::iid>{}), 1e-12);
    EXPECT_GT(far(verify::recursive_rejection<law::iid>{}), 1e-3);
}

/// What is below a repeated token is never reached by recursive rejection: cut, it changes neither law nor text.
TEST(tree_growth, what_is_below_repeated_tokens_may_be_cut) {
    constexpr auto rule = shape_depends_on::earlier_draws;
    using verifier = verify::recursive_rejection<law::iid>;
    constexpr index_t vocabulary = 4;
    host_group const g;
    auto const p = random_conditional(vocabulary, 1);
    auto const q = random_conditional(vocabulary, 2);
    int repeated = 0;
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        addressed_source source{addressed_uniforms(seed)};
        tree_growth<law::iid, rule> tree;
        tree.start(1, 0, branching({3, 2}));
        std::vector<std::vector<double>> of_p, of_q;
        auto const text_of = [&](node_id v) {
            std::vector<token_id> text;
            for (; v != none; v = tree.parents()[at(v)]) text.insert(text.begin(), tree.tokens()[at(v)]);
            return text;
        };
        for (auto in = tree.next_level(); !in.empty(); in = tree.next_level()) {
            std::vector<node_id> const nodes(in.nodes.begin(), in.nodes.end());
            for (node_id const v : nodes) {
                auto const row = q(text_of(v));
                probabilities<double> const here(row.data(), vocabulary);
                auto sums = g.sum_chunks(vocabulary, weight_of{here});
                tree.draw(v, draft::iid{}, here, sums, source);
            }
        }
        auto const run = [&] {
            std::vector<double> target, of_draft;
            for (node_id v = 0; v < tree.size(); ++v)
                for (index_t i = 0; i < vocabulary; ++i) {
                    target.push_back(p(text_of(v))[at(i)]);
                    of_draft.push_back(q(text_of(v))[at(i)]);
                }
            std::vector<node_id> path(2);
            auto const v = verifier{}(g, verify::drafts_for(verifier{}, tree),
                                      target_rows(probability_rows<double>(target.data(), tree.size(), vocabulary)),
                                      draft_rows(probability_rows<double>(of_draft.data(), tree.size(), vocabulary)),
                                      source, 0, path);
            accepted_text const out({tree.parents(), tree.tokens()}, path, v);
            return std::vector<token_id>(out.tokens().begin(), out.tokens().end());
        };
        auto const whole = run();
        node_id const before = tree.size();
        tree.cut_below_repeated();
        tree.arrange();
        repeated += before - tree.size();
        // Later nodes have other numbers, and so other draws: the law is the same, the first level's draws are.
        auto const less = run();
        EXPECT_EQ(whole.front(), less.front());
        for (node_id v = 1; v < tree.size(); ++v)
            if (tree.is_repeated(tree.added(v))) {
                EXPECT_TRUE((tree_view{tree.parents(), tree.tokens()}.children(v).empty()));
            }
    }
    EXPECT_GT(repeated, 100);
}

// --- Order, limits, errors -------------------------------------------------------------------------------------------

/// A tree that is added depth first is the one that is added level by level, once arranged.
TEST(tree_growth, nodes_in_any_order) {
    topology const shape = branching({3, 2, 2});
    tree_growth<law::stratified> by_level, by_depth;
    // Children whose tokens encode their path, the first of them certain.
    auto const children = [](token_id parent, index_t n, bool ended) {
        std::vector<token_id> out;
        for (index_t k = 0; k < n; ++k) out.push_back(10 * parent + k);
        if (ended) out.back() = support_ended;
        return out;
    };
    by_level.start(1, 5, shape);
    by_depth.start(1, 5, shape);
    for (node_id v = 0; v < by_level.size(); ++v) {
        index_t const wanted = shape.child_count(by_level.shape_nodes()[at(v)]);
        if (wanted > 0) by_level.add(v, children(by_level.tokens()[at(v)], wanted, v == 2), v == 1 ? 2 : 1);
    }
    std::function<void(node_id, token_id, std::int32_t)> const deepen = [&](node_id v, token_id x, std::int32_t d) {
        if (d == 3) return;
        auto const mine = children(x, d == 0 ? 3 : 2, x == 11);
        node_range const drawn = by_depth.add(v, mine, x == 10 ? 2 : 1);
        for (node_id k = 0; k < drawn.count; ++k) deepen(drawn.first + k, mine[at(k)], d + 1);
    };
    // Node 2 of the first tree is 11: its second child is missing, and what would be below it.
    deepen(0, 1, 0);
    EXPECT_NE(refusal([&] { (void)by_depth.drafts(); }).find("call arrange()"), std::string::npos);
    EXPECT_EQ(by_depth.as_added().size(), shape.size() - 3);
    EXPECT_EQ(by_depth.as_added().tokens[4], 100) << "the first child of the first child";
    by_depth.arrange();
    by_depth.arrange();
    ASSERT_EQ(by_depth.size(), by_level.size());
    EXPECT_EQ(by_depth.size(), shape.size() - 3);
    for (node_id v = 0; v < by_depth.size(); ++v) {
        EXPECT_EQ(by_depth.parents()[at(v)], by_level.parents()[at(v)]);
        EXPECT_EQ(by_depth.tokens()[at(v)], by_level.tokens()[at(v)]);
        EXPECT_EQ(by_depth.depths()[at(v)], by_level.depths()[at(v)]);
        EXPECT_EQ(by_depth.positions()[at(v)], 5 + by_level.depths()[at(v)]);
        EXPECT_EQ(by_depth.certain()[at(v)], by_level.certain()[at(v)]);
        EXPECT_EQ(by_depth.shape_nodes()[at(v)], by_level.shape_nodes()[at(v)]);
        EXPECT_EQ(by_depth.place(by_depth.added(v)), v);
        EXPECT_EQ(by_depth.node_of(by_depth.shape_nodes()[at(v)]), v);
        for (node_id u = 0; u < by_depth.size(); ++u) EXPECT_EQ(by_depth.mask()(v, u), by_level.mask()(v, u));
    }
    EXPECT_EQ(by_level.node_of(7), none) << "the second child of node 2";
    (void)by_depth.drafts();
}

TEST(tree_growth, cut_and_dropped_nodes_are_left_out) {
    tree_growth<law::stratified, shape_depends_on::everything> tree;
    tree.start(0, 0);
    tree.add(0, std::vector<token_id>{1, 2, 3, 4}, 2);
    tree.add(1, std::vector<token_id>{5, 6}, 1);
    tree.add(3, std::vector<token_id>{7});
    EXPECT_EQ(tree.mask().rows, 8);
    tree.drop(2);
    tree.cut_below(3);
    tree.arrange();
    EXPECT_EQ(tree.drafts_of_any_shape().tree.size(), 6);
    EXPECT_EQ(std::vector<token_id>(tree.tokens().begin(), tree.tokens().end()),
              (std::vector<token_id>{0, 1, 3, 4, 5, 6}));
    EXPECT_EQ(std::vector<node_id>(tree.parents().begin(), tree.parents().end()),
              (std::vector<node_id>{-1, 0, 0, 0, 1, 1}));
    EXPECT_EQ(std::vector<index_t>(tree.certain().begin(), tree.certain().end()),
              (std::vector<index_t>{1, 1, 0, 0, 0, 0}));
    EXPECT_EQ(tree.place(2), none);
    EXPECT_EQ(tree.place(3), 2);
    EXPECT_EQ(tree.added(2), 3);
    EXPECT_EQ(tree.mask().rows, 6);
    EXPECT_TRUE(tree.mask()(5, 1));
    EXPECT_FALSE(tree.mask()(5, 2));
    // It may continue to grow; the numbers as added remain valid.
    tree.add(4, std::vector<token_id>{9});
    EXPECT_NE(refusal([&] { (void)tree.size(); }).find("call arrange()"), std::string::npos);
    tree.arrange();
    EXPECT_EQ(tree.tokens().back(), 9);
    EXPECT_EQ(tree.mask().rows, 7);
    EXPECT_TRUE(tree.mask()(6, 3));
}

/// A tree that grows at arbitrary nodes: the draft reads single nodes, so few nodes have rows.
TEST(tree_growth, the_draft_reads_what_it_is_asked_to) {
    tree_growth<law::iid, shape_depends_on::earlier_draws> tree;
    tree.start(3, 10);
    auto in = tree.next_level();
    ASSERT_EQ(in.size(), 1U);
    tree.add(0, std::vector<token_id>{4, 5, 6});
    std::vector<node_id> wanted{3, 1};
    in = tree.read(wanted);
    EXPECT_EQ(in.first_row, 1);
    EXPECT_EQ(std::vector<token_id>(in.tokens.begin(), in.tokens.end()), (std::vector<token_id>{6, 4}));
    EXPECT_EQ(std::vector<token_id>(in.positions.begin(), in.positions.end()), (std::vector<token_id>{11, 11}));
    EXPECT_TRUE(in.mask(0, 0) && in.mask(0, 1) && !in.mask(1, 1) && in.mask(1, 2) && in.mask(1, 0));
    tree.add(3, std::vector<token_id>{7, 8});
    tree.add(1, std::vector<token_id>{9});
    wanted = {6};
    in = tree.read(wanted);
    EXPECT_EQ(in.first_row, 3);
    EXPECT_TRUE(in.mask(0, 0) && !in.mask(0, 1) && in.mask(0, 2) && in.mask(0, 3));
    tree.arrange();  // 0; 1 2 3; 4 (below 1), 5 6 (below 3)
    EXPECT_EQ(std::vector<token_id>(tree.tokens().begin(), tree.tokens().end()),
              (std::vector<token_id>{3, 4, 5, 6, 9, 7, 8}));
    EXPECT_EQ(std::vector<index_t>(tree.row_of_node().begin(), tree.row_of_node().end()),
              (std::vector<index_t>{0, 2, none, 1, 3, none, none}));
    std::vector<node_id> const path{0, 1, 4};
    auto const entries = tree.draft_entries(path);
    EXPECT_EQ(std::vector<index_t>(entries.begin(), entries.end()), (std::vector<index_t>{0, 2, 3}));
    std::vector<node_id> const other{0, 3, 5};
    EXPECT_EQ(tree.draft_entries(other).size(), 2U) << "the draft has not read the last one";

    // Rows by that index: those of the nodes that have some.
    std::vector<float> const logits{0, 1, 2, 3, 4, 5, 6, 7};
    indexed_rows const rows(probability_rows<float>(logits.data(), 4, 2), tree.row_of_node());
    EXPECT_EQ(rows.rows(), 7);
    EXPECT_EQ(rows.size(), 2);
    EXPECT_EQ(rows(host_group{}, 1)(0), 4.0F);
    EXPECT_EQ(rows(host_group{}, 4)(1), 7.0F);
    EXPECT_EQ(refusal([&] { (void)rows(host_group{}, 2); }),
              "row_of_node[2] = -1: the row of this node is read, and it has none");
    std::vector<index_t> const wrong{0, 4};
    EXPECT_EQ(refusal([&] { indexed_rows const r(probability_rows<float>(logits.data(), 4, 2), wrong); }),
              "row_of_node[1] = 4: there are 4 rows; -1: none");
}

TEST(tree_growth, refuses_what_it_cannot_do) {
    tree_growth<law::sequential> tree;
    topology const shape = branching({2, 1});
    EXPECT_EQ(tree.size(), 1) << "a root before the first start";
    EXPECT_EQ(refusal([&] { tree.start(-1, 0, shape); }), "root = -1: a token is not negative");
    EXPECT_EQ(refusal([&] { tree.start(1, -1, shape); }), "position = -1: a position in the text is not negative");
    EXPECT_EQ(refusal([&] { tree.start(1, 2147483646, shape); }),
              "position = 2147483646: the positions of the tree's nodes exceed 2^31 - 1");
    EXPECT_EQ(refusal([&] { tree.start(1, 0, shape, -1); }), "depth = -1: a tree has 0 levels below the root or more");
    EXPECT_EQ(refusal([&] { tree.reserve(0); }), "nodes = 0: a tree has 1 to 2^24 nodes");

    std::vector<float> const row{0.5F, 0.25F, 0.25F};
    probabilities<float> const q(row.data(), 3);
    host_group const g;
    auto sums = g.sum_chunks(3, weight_of{q});
    addressed_source source{addressed_uniforms(1)};
    EXPECT_EQ(refusal([&] { tree.draw(0, draft::sequential{}, q, sums, source); }),
              "node = 0: the tree has no shape: say how many children are to be drawn");
    tree.start(1, 7, branching({2, 1, 1}));
    tree.draw(0, draft::sequential{}, q, sums, source);
    for (int k = 0; k < 2; ++k)
        EXPECT_EQ(refusal([&] { (void)tree.next_level(); }),
                  "node = 1: the draft has not read its parent: next_level comes before draw");
    sums = g.sum_chunks(3, weight_of{q});
    tree.start(1, 7, shape);
    EXPECT_EQ(tree.next_level().size(), 1U);
    EXPECT_EQ(refusal([&] { (void)tree.next_level(); }),
              "node = 0: the shape has 2 children for this node and they were not drawn");
    EXPECT_EQ(refusal([&] { (void)tree.drafts(); }),
              "node = 0: the shape has 2 children for this node and they were not drawn");
    EXPECT_EQ(refusal([&] {
                  tree.add(0, std::vector<token_id>{1, 2, 0});
              }),
              "tokens.size = 3: the shape has 2 children for node 0");
    EXPECT_EQ(refusal([&] { tree.add(0, std::vector<token_id>{1}); }),
              "tokens.size = 1: the shape has 2 children for node 0: where no token was left to draw, write "
              "support_ended in its place");
    EXPECT_EQ(refusal([&] { tree.add(0, std::vector<token_id>{1, none}); }), "tokens[1] = -1: a token is not negative");
    EXPECT_EQ(refusal([&] {
                  tree.add(0, std::vector<token_id>{1, 2}, 1);
              }),
              "certain = 1: the law has no certain children");
    EXPECT_EQ(refusal([&] {
                  tree.add(0, std::vector<token_id>{1, 2}, 3);
              }),
              "certain = 3: 2 children are added, of which some are certain");
    EXPECT_EQ(refusal([&] { tree.draw(1, draft::sequential{}, q, sums, source); }), "node = 1: the tree has 1 nodes");
    EXPECT_EQ(refusal([&] { (void)tree.node_of(5); }), "shape_node = 5: the shape has 5 nodes");
    EXPECT_EQ(refusal([&] { (void)tree.added(1); }), "place = 1: the tree has 1 nodes");
    EXPECT_EQ(tree.draw(0, draft::sequential{}, q, sums, source), (node_range{1, 2}));
    EXPECT_EQ(refusal([&] { tree.draw(0, draft::sequential{}, q, sums, source); }),
              "node = 0: the children of this node have been drawn");
    EXPECT_EQ(tree.next_level().size(), 2U);

    tree_growth<law::iid, shape_depends_on::own_context> free;
    free.start(0, 0);
    EXPECT_EQ(refusal([&] { free.draw(0, -1, draft::iid{}, q, sums, source); }),
              "count = -1: a node has 0 children or more");
    EXPECT_EQ(refusal([&] { free.draw(0, max_nodes, draft::iid{}, q, sums, source); }),
              "count = 16777216: a tree has at most 2^24 nodes");
    std::vector<node_id> nodes{1};
    EXPECT_EQ(refusal([&] { (void)free.read(nodes); }), "nodes[0] = 1: the tree has 1 nodes");
    free.add(0, std::vector<token_id>{1, 1});
    EXPECT_EQ(refusal([&] { (void)free.read(nodes); }), "nodes[0] = 1: the draft has not read its parent");
    EXPECT_EQ(refusal([&] { (void)free.draft_entries(std::vector<node_id>{3}); }),
              "nodes[0] = 3: the tree has 3 nodes");
    nodes = {0, 0};
    EXPECT_EQ(refusal([&] { (void)free.read(nodes); }), "nodes[1] = 0: the node stands here twice");
    nodes = {0};
    EXPECT_EQ(free.read(nodes).size(), 1U);
    EXPECT_EQ(refusal([&] { (void)free.read(nodes); }), "nodes[0] = 0: the draft has read this node");
    free.start(0, 2147483647);
    EXPECT_EQ(refusal([&] { free.add(0, std::vector<token_id>{1}); }),
              "node = 0: the position of its children exceeds 2^31 - 1");
    tree_growth<law::iid, shape_depends_on::everything> any;
    EXPECT_EQ(refusal([&] { any.drop(0); }), "node = 0: the root is no candidate");
}

static_assert(verify::shape_may_depend_on<verify::nested_ranked_block<law::stratified>> ==
              shape_depends_on::own_context);
static_assert(verify::shape_may_depend_on<verify::ranked_block<law::iid>> == shape_depends_on::earlier_draws);

// --- One list for several nodes --------------------------------------------------------------------------------------

TEST(tree_growth, shared_lists_are_drawn_once) {
    topology const shape = branching({2, 3, 1});
    host_group const g;
    std::vector<float> const row{0.1F, 0.2F, 0.3F, 0.4F};
    probabilities<float> const q(row.data(), 4);
    auto const sums = g.sum_chunks(4, weight_of{q});
    tree_growth<law::shared_lists<law::sequential>> tree;
    tree_growth<law::sequential> alone;
    addressed_source source{addressed_uniforms(5)};
    for (std::int32_t position = 0; position < 20; ++position) {
        tree.start(0, position, shape);
        alone.start(0, position, shape);
        for (auto in = tree.next_level(); !in.empty(); in = tree.next_level()) {
            auto const own = alone.next_level();
            tree.draw_shared(in.nodes, draft::sequential{}, q, sums, source);
            for (node_id const v : own.nodes) alone.draw(v, draft::sequential{}, q, sums, source);
        }
        ASSERT_EQ(tree.size(), 15);
        auto const tokens = tree.tokens();
        for (node_id const v : {0, 1, 3, 9}) {
            auto const mine = alone.drafts().tree.children(v);
            ASSERT_EQ(tree.drafts().tree.children(v), mine);
            for (node_id c = mine.first; c < mine.end(); ++c) EXPECT_EQ(tokens[at(c)], alone.tokens()[at(c)]);
        }
        for (node_id c = 0; c < 3; ++c) EXPECT_EQ(tokens[at(3 + c)], tokens[at(6 + c)]);
        for (node_id c = 1; c < 6; ++c) EXPECT_EQ(tokens[at(9 + c)], tokens[9]);
    }
    static_assert(std::is_same_v<decltype(verify::drafts_for(verify::recursive_rejection<law::sequential>{}, tree)),
                                 drafted<law::shared_lists<law::sequential>>>);
}

TEST(tree_growth, shared_lists_are_checked) {
    host_group const g;
    std::vector<float> const row{0.1F, 0.2F, 0.3F, 0.4F};
    probabilities<float> const q(row.data(), 4);
    auto const sums = g.sum_chunks(4, weight_of{q});
    addressed_source source{addressed_uniforms(5)};
    tree_growth<law::shared_lists<law::iid>> tree;
    tree.start(0, 0, parse_shape("[-1 0 0 1 2 2]"));
    std::vector<node_id> const root{0};
    tree.add_shared(root, std::vector<token_id>{1, 1});
    auto const draw = [&](std::vector<node_id> const& nodes) {
        return refusal([&] { tree.draw_shared(nodes, draft::iid{}, q, sums, source); });
    };
    auto const add = [&](std::vector<node_id> const& nodes, std::vector<token_id> const& tokens) {
        return refusal([&] { tree.add_shared(nodes, tokens); });
    };
    EXPECT_EQ(draw({1, 2}), "nodes = 2: it has 2 children in the shape, and the first one 1");
    EXPECT_EQ(draw({1, 1}), "nodes[1] = 1: the node stands here twice");
    EXPECT_EQ(draw({1, 5}), "node = 5: the tree has 3 nodes");
    EXPECT_EQ(draw({0, 1}), "node = 0: the children of this node have been drawn");
    EXPECT_EQ(add({1, 2}, {3}),
              "tokens.size = 1: the shape has 2 children for node 2: where no token was left to draw, write "
              "support_ended in its place");
    EXPECT_EQ(tree.as_added().size(), 3) << "nothing was changed";
    tree.add(1, std::vector<token_id>{3});
    tree.add(2, std::vector<token_id>{3, 0});
    EXPECT_EQ(tree.drafts().tree.size(), 6);
}

}  // namespace
}  // namespace tree_growth_test
