// The examples with engine functions: the law of their outputs, by enumeration, and equal outputs of emulated lanes and
// host threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/testing/enumerating.hpp"
#include "multidraft/testing/exact_law.hpp"
#include "multidraft/testing/kinds.hpp"
#include "multidraft/testing/small_models.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "multidraft/verify/verifier.hpp"
#include "sglang_tree.hpp"
#include "support/emulated_group.hpp"
#include "vllm_chain.hpp"

namespace machines {

using namespace multidraft;
namespace mt = multidraft::testing;

/// A policy whose draws are branches of an enumeration.
struct enumerated {
    mt::enumerating_source* source;
};
/// A policy that runs on emulated CUDA lanes.
struct emulated {};

template <class Body>
void for_each(enumerated const&, std::int64_t count, Body const& body) {
    for (std::int64_t k = 0; k < count; ++k) body(k);
}
template <class Body>
void for_each(emulated const&, std::int64_t count, Body const& body) {
    for (std::int64_t k = count; k-- > 0;) body(k);
}
template <class Machine, class Rows, class Make>
requires(std::is_same_v<Machine, enumerated> || std::is_same_v<Machine, emulated>) void for_each_row(
    Machine const& machine, std::int64_t count, Rows const& rows, Make const& make, workspace const& = {}) {
    for_each(machine, count, [body = make(rows)](std::int64_t i) { body(multidraft::detail::host_batch_group{}, i); });
}

template <class Rows>
auto rows_of(Rows const& rows, tree_batch const& trees, std::int32_t b) {
    if constexpr (std::is_same_v<Rows, verify::no_draft_rows>)
        return rows;
    else
        return multidraft::detail::request_rows<Rows>{rows, trees, b};
}

template <verify::verifier Verifier, draft_law Law, row_batch Target, draft_row_batch Draft>
void verify_batch(enumerated const& machine, Verifier const& verifier, drafted_batch<Law> const& drafts,
                  target_rows<Target> const& target, draft_rows<Draft> const& draft, request_batch const& requests,
                  verdict_batch const& out) {
    tree_batch const& trees = drafts.trees;
    for (std::int32_t b = 0; b < trees.requests; ++b) {
        verdict const v =
            verify::verify_tree(verifier, multidraft::detail::host_batch_group{}, make_drafted<Law>(trees(b), {}),
                                target_rows(rows_of(target.rows, trees, b)), draft_rows(rows_of(draft.rows, trees, b)),
                                *machine.source, requests.position(b), out.path_of(trees, b), {});
        out.accepted[b] = v.accepted;
        out.next[b] = v.next;
    }
}
template <verify::verifier Verifier, draft_law Law, row_batch Target, draft_row_batch Draft>
void verify_batch(emulated const&, Verifier const& verifier, drafted_batch<Law> const& drafts,
                  target_rows<Target> const& target, draft_rows<Draft> const& draft, request_batch const& requests,
                  verdict_batch const& out) {
    for (std::int32_t b = 0; b < drafts.trees.requests; ++b)
        mt::on_group<64, 2>(2, [&](auto const& g) {
            multidraft::detail::verify_request(g, verifier, b, drafts, target, draft, requests, out);
        });
}

}  // namespace machines

namespace {

using namespace multidraft;
namespace mt = multidraft::testing;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
constexpr double nan_number = std::numeric_limits<double>::quiet_NaN();

/// The target's rows at another temperature.
mt::small_model at_temperature(mt::small_model const& model, double t) {
    mt::small_model result = model;
    for (std::size_t c = 0; c < result.contexts(); ++c) {
        double sum = 0;
        for (double& x : result[c]) sum += x = t == 0 ? 0.0 : std::pow(x, 1 / t);
        if (t == 0) {
            auto const& row = model[c];
            auto const best = std::max_element(row.begin(), row.end()) - row.begin();
            result[c][at(best)] = sum = 1;
        }
        for (double& x : result[c]) x /= sum;
    }
    return result;
}

/// The largest total variation between the output of a step of chains and the target's law. `spoilt`: the draft rows
/// that the sampler gets are not those from which the tokens were drawn.
double distance_of_chains(bool look_up, std::vector<float> const& temperature, std::uint64_t seed,
                          bool spoilt = false) {
    constexpr index_t vocabulary = 3;
    constexpr std::int32_t requests = 2, most = 2;
    std::int32_t const lengths[requests] = {2, 1};
    std::int32_t const slots[requests] = {1, 0};
    std::int32_t const positions[requests] = {100, 0};
    std::uint64_t const seeds[requests] = {1, 2};
    std::vector<mt::model_pair> models;
    for (std::uint64_t b = 0; b < requests; ++b)
        models.push_back(mt::random_models(mt::kind::plain, vocabulary, most, seed * 10 + b));
    std::map<mt::text, double> emitted[requests];
    mt::enumerate([&](mt::enumerating_source& source) {
        std::vector<std::int32_t> drafts, cu;
        std::vector<double> q, logits;
        for (std::int32_t b = 0; b < requests; ++b) {
            std::size_t context = 0;
            for (std::int32_t k = 0;; ++k) {
                for (double const x : models[at(b)].target[context]) logits.push_back(std::log(x));
                if (k == lengths[b]) break;
                auto const& row = models[at(b)].draft[context];
                q.insert(q.end(), row.begin(), row.end());
                if (spoilt) std::rotate(q.end() - vocabulary, q.end() - 1, q.end());
                std::int32_t token = k;  // from a lookup
                if (!look_up) {
                    probabilities<double> const of_draft(row.data(), vocabulary);
                    auto sums = host_group{}.sum_chunks(vocabulary, weight_of{of_draft});
                    static_cast<void>(draft::iid{}(host_group{}, of_draft, sums, source,
                                                   draw_site{positions[slots[b]], k}, span<token_id>(&token, 1)));
                }
                drafts.push_back(token);
                context = models[at(b)].target.after(context, token);
            }
            cu.push_back(static_cast<std::int32_t>(drafts.size()));
        }
        machines::enumerated const machine{&source};
        chain_rejection_sampler<machines::enumerated, double> sampler(machine);
        std::vector<std::int32_t> out(requests * (most + 1), 77);
        chain_step<double> s{requests,     vocabulary, most, drafts.data(), cu.data(), look_up ? nullptr : q.data(),
                             logits.data()};
        s.sampling.temperature = temperature.data();
        s.slots = slots;
        s.seeds = seeds;
        s.positions = positions;
        sampler.forward(s, out.data());
        for (std::int32_t b = 0; b < requests; ++b) {
            auto const* const mine = out.data() + b * (most + 1);
            auto const* const end = std::find(mine, mine + most + 1, -1);
            EXPECT_GT(end - mine, 0);
            EXPECT_TRUE(std::all_of(end, mine + most + 1, [](auto x) { return x == -1; }));
            emitted[b][mt::text(mine, end)] += source.probability();
        }
    });
    double worst = 0;
    for (std::int32_t b = 0; b < requests; ++b) {
        auto const target = at_temperature(models[at(b)].target, static_cast<double>(temperature[at(slots[b])]));
        auto const length = at(lengths[b] + 1);
        worst = std::max(worst, mt::total_variation(mt::detail::completed(target, emitted[b], length),
                                                    mt::law_of_target(target, length)));
    }
    return worst;
}

TEST(engine_examples, chains_have_the_law_of_the_target) {
    for (std::uint64_t seed = 1; seed < 4; ++seed)
        for (bool const look_up : {false, true}) {
            EXPECT_LT(distance_of_chains(look_up, {1.0F, 1.0F}, seed), 1e-12);
            EXPECT_LT(distance_of_chains(look_up, {0.5F, 2.0F}, seed), 1e-12);
            EXPECT_LT(distance_of_chains(look_up, {1.0F, 0.0F}, seed), 1e-12);
        }
    EXPECT_GT(distance_of_chains(false, {1.0F, 1.0F}, 1, true), 1e-3);  // the proof can fail
}

/// A tree in SGLang's format: two children of the root, one below each, and one unused node. The engine's nodes are not
/// in level order.
struct sglang_tree {
    static constexpr int nodes = 6, steps = 3;
    static constexpr index_t vocabulary = 3;
    static constexpr int place[5] = {0, 4, 2, 5, 1};  ///< of the root, its children, theirs; 3 is unused

    template <class Draw>
    sglang_tree(mt::model_pair const& models, Draw const& draw) {
        for (auto* links : {&next_token, &next_sibling}) links->assign(nodes, -1);
        candidates.assign(nodes, 2);
        for (auto* rows : {&target, &draft}) rows->assign(at(nodes * vocabulary), nan_number);
        std::size_t context[5] = {};
        int parent[5] = {-1, 0, 0, 1, 2};
        for (int v = 0; v < 3; ++v) {
            probabilities<double> const q(models.draft[context[v]].data(), vocabulary);
            std::vector<token_id> children(v == 0 ? 2 : 1, support_ended);
            draw(q, v, span<token_id>(children));
            for (std::size_t k = 0; k < children.size(); ++k) {
                int const child = v == 0 ? 1 + static_cast<int>(k) : v + 2;
                if (is_absent(children[k])) {
                    missing = true;
                    continue;
                }
                EXPECT_EQ(parent[child], v);
                candidates[at(place[child])] = children[k];
                context[child] = models.target.after(context[v], children[k]);
                (k == 0 ? next_token[at(place[v])] : next_sibling[at(place[child - 1])]) = place[child];
            }
        }
        for (int v = 0; v < 5; ++v) {
            auto const& p = models.target[context[v]];
            std::copy(p.begin(), p.end(), target.begin() + place[v] * vocabulary);
            if (v > 2) continue;
            auto const& q = models.draft[context[v]];
            std::copy(q.begin(), q.end(), draft.begin() + place[v] * vocabulary);
        }
        for (int v = 0; v < nodes; ++v) index.push_back(nodes - 1 - v);
    }
    /// The tokens that the engine reads from its arrays.
    [[nodiscard]] mt::text text() const {
        mt::text result;
        for (int k = 0; k <= accepted[0]; ++k) result.push_back(predicts[at(accept_index[at(k)])]);
        for (int k = accepted[0] + 1; k < steps; ++k) EXPECT_EQ(accept_index[at(k)], -1);
        return result;
    }

    std::vector<std::int64_t> candidates, next_token, next_sibling, index;
    std::vector<double> target, draft;
    std::vector<std::int32_t> predicts = std::vector<std::int32_t>(nodes, 77);
    std::vector<std::int32_t> accept_index = std::vector<std::int32_t>(steps, 77);
    std::vector<std::int32_t> accepted = std::vector<std::int32_t>(1, 77);
    bool missing = false;
};

TEST(engine_examples, trees_have_the_law_of_the_target) {
    std::uint64_t const seed_of_draws = 1;
    std::int32_t const position = 5;
    for (std::uint64_t seed = 1; seed < 6; ++seed)
        for (bool const drawn : {false, true}) {
            auto const models = mt::random_models(mt::kind::plain, sglang_tree::vocabulary, 2, seed);
            std::map<mt::text, double> emitted;
            mt::enumerate([&](mt::enumerating_source& source) {
                sglang_tree t(models, [&](auto const& q, node_id node, span<token_id> children) {
                    auto sums = host_group{}.sum_chunks(q.size(), weight_of{q});
                    if (drawn)
                        static_cast<void>(
                            draft::sequential{}(host_group{}, q, sums, source, draw_site{position, node}, children));
                    else
                        static_cast<void>(
                            draft::top_n{}(host_group{}, q, sums, source, draw_site{position, node}, children));
                });
                machines::enumerated const machine{&source};
                sglang_tree_functions<machines::enumerated, double> functions(machine, t.nodes, t.steps, t.vocabulary);
                if (drawn)
                    functions.tree_speculative_sampling(1, t.predicts.data(), t.accept_index.data(), t.accepted.data(),
                                                        t.candidates.data(), t.index.data(), t.next_token.data(),
                                                        t.next_sibling.data(), &seed_of_draws, &position,
                                                        t.target.data(), t.draft.data());
                else
                    functions.tree_speculative_sampling_target_only(
                        1, t.predicts.data(), t.accept_index.data(), t.accepted.data(), t.candidates.data(),
                        t.index.data(), t.next_token.data(), t.next_sibling.data(), &seed_of_draws, &position,
                        t.target.data());
                emitted[t.text()] += source.probability();
            });
            EXPECT_LT(mt::total_variation(mt::detail::completed(models.target, emitted, 3),
                                          mt::law_of_target(models.target, 3)),
                      1e-12)
                << seed << ' ' << drawn;
        }
}

TEST(engine_examples, trees_at_temperature_0_follow_the_target) {
    std::int32_t const position = 5;
    int accepted = 0;
    for (std::uint64_t seed = 1; seed < 20; ++seed) {
        auto const models = mt::random_models(mt::kind::plain, sglang_tree::vocabulary, 2, seed);
        addressed_source source{addressed_uniforms(seed)};
        sglang_tree t(models, [&](auto const& q, node_id node, span<token_id> children) {
            auto sums = host_group{}.sum_chunks(q.size(), weight_of{q});
            static_cast<void>(draft::sequential{}(host_group{}, q, sums, source, draw_site{position, node}, children));
        });
        std::vector<std::int64_t> predicted;
        for (int v = 0; v < t.nodes; ++v) {
            auto const row = t.target.begin() + v * t.vocabulary;
            predicted.push_back(v == 3 ? -1 : std::max_element(row, row + t.vocabulary) - row);
        }
        host_threads const pool(1);
        sglang_tree_functions<host_threads, double> functions(pool, t.nodes, t.steps, t.vocabulary);
        functions.verify_tree_greedy(1, t.predicts.data(), t.accept_index.data(), t.accepted.data(),
                                     t.candidates.data(), t.index.data(), t.next_token.data(), t.next_sibling.data(),
                                     predicted.data());
        std::size_t context = 0;
        for (token_id const x : t.text()) {
            auto const& p = models.target[context];
            EXPECT_EQ(x, std::max_element(p.begin(), p.end()) - p.begin());
            context = models.target.after(context, x);
        }
        accepted += t.accepted[0];
    }
    EXPECT_GT(accepted, 5);
}

TEST(engine_examples, give_the_same_by_emulated_lanes) {
    if (!has_fma) GTEST_SKIP() << "without FMA there is no parity";
    constexpr index_t vocabulary = 300;
    mt::test_numbers numbers(3);
    std::vector<std::int32_t> const cu{3, 3, 5}, slots{2, 0, 1}, positions{7, 0, 3};
    std::vector<std::uint64_t> const seeds{1, 2, 3};
    std::vector<float> const temperature{0.0F, 0.7F, 1.0F}, top_p{1.0F, 0.9F, 1.0F};
    std::vector<index_t> const top_k{0, 0, 40};
    machines::emulated const lanes;
    host_threads const pool(2);
    for (int run = 0; run < 4; ++run) {
        std::vector<float> logits, q;
        std::vector<std::int32_t> drafts;
        for (index_t i = 0; i < 8 * vocabulary; ++i) logits.push_back(static_cast<float>(4 * numbers.normal()));
        for (int k = 0; k < 5; ++k) {
            float sum = 0;
            auto const first = q.size();
            for (index_t i = 0; i < vocabulary; ++i) q.push_back(static_cast<float>(numbers()));
            for (index_t i = 0; i < vocabulary; ++i) sum += q[first + at(i)];
            for (index_t i = 0; i < vocabulary; ++i) q[first + at(i)] /= sum;
            drafts.push_back(numbers.below(vocabulary));
        }
        chain_step<float> const s{3,
                                  vocabulary,
                                  3,
                                  drafts.data(),
                                  cu.data(),
                                  run % 2 == 0 ? q.data() : nullptr,
                                  logits.data(),
                                  {temperature.data(), top_k.data(), top_p.data()},
                                  slots.data(),
                                  seeds.data(),
                                  positions.data()};
        std::vector<std::int32_t> on_host(12, 77), on_lanes(12, 77);
        chain_rejection_sampler<host_threads>(pool).forward(s, on_host.data());
        chain_rejection_sampler<machines::emulated>(lanes).forward(s, on_lanes.data());
        EXPECT_EQ(on_lanes, on_host);
    }
}

}  // namespace
