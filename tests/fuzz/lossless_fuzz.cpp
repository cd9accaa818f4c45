// Lossless verifiers over tiny vocabularies: the exact output law of a step, with rows of floats of every kind, is that
// of the same floats, up to rounding; and acceptance does not exceed the bound of lossless verifiers.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "fuzz/bytes.hpp"
#include "fuzz/small_case.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/methods/list.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/testing/engine_samplers.hpp"
#include "multidraft/testing/enumerating.hpp"
#include "multidraft/testing/exact_law.hpp"
#include "multidraft/testing/prove_lossless.hpp"
#include "multidraft/testing/small_step.hpp"
#include "reference/methods.hpp"

namespace {

using namespace multidraft;
using namespace multidraft::testing;

/// Branches of a case; those of more are left out.
constexpr std::uint64_t most_branches = 4000;

struct small_case {
    shape children;
    basic_model_pair<float> models;
    bool padded;    ///< as in a launch: slots for children that could not be drawn, no exceptions
    double theta;   ///< of stratified drafts
    index_t draws;  ///< of the samplers of engines
};

/// The comparisons of a run.
struct counts {
    std::uint64_t cases = 0;
    std::uint64_t left_out = 0;
    std::uint64_t branches = 0;
    double worst = 0;  ///< the largest distance, relative to the rounding bound
    std::string where;

    ~counts() {
        std::fprintf(stderr,
                     "%llu laws compared (%llu branches), %llu left out; the farthest at %.3f of rounding: %s\n",
                     static_cast<unsigned long long>(cases), static_cast<unsigned long long>(branches),
                     static_cast<unsigned long long>(left_out), worst, where.c_str());
    }
} total;

[[noreturn]] void fail(small_case const& c, char const* name, char const* what, double value) {
    std::fprintf(
        stderr, "does not hold: %s: %s: %.9g (rounding explains %.3g)\n    tree %s%s, V = %d, theta %.17g, draws %d\n",
        name, what, value, tolerance_of_floats(c.children), print(c.children).c_str(), c.padded ? ", padded" : "",
        static_cast<int>(c.models.target.vocabulary()), c.theta, static_cast<int>(c.draws));
    fuzz::print_rows("target", c.models.target);
    fuzz::print_rows("draft", c.models.draft);
    std::abort();
}

/// Compares a law, if it is complete.
void compare(small_case const& c, char const* name, output_law const& found) {
    total.branches += found.branches;
    if (!found.complete) {
        ++total.left_out;
        return;
    }
    ++total.cases;
    if (!found.exact) fail(c, name, "a uniform was asked for", 0);
    auto const off =
        static_cast<double>(fuzz::distance(found.law, fuzz::law_of_target(c.models.target, c.children.size() + 1)));
    double const tolerance = tolerance_of_floats(c.children);
    if (!(off <= tolerance)) fail(c, name, "the law is not the target's, by", off);
    if (off > total.worst * tolerance) {
        total.worst = off / tolerance;
        total.where = std::string(name) + ", tree " + print(c.children);
    }
}

template <class Group, class Sampler, class Verifier>
void check_in(small_case const& c, char const* name, Sampler const& sampler, Verifier const& verifier) {
    static_assert(Verifier::traits.lossless);
    try {
        auto const found = law_of_step<Group>(sampler, verifier, c.children, c.models, {.most = most_branches});
        compare(c, name, found);
        if (found.complete && c.children.size() == 1) {
            double const excess = found.mean_accepted - best_acceptance(sampler, c.models.target[0], c.models.draft[0],
                                                                        static_cast<index_t>(c.children[0]));
            if (!(excess <= tolerance_of_floats(c.children)))
                fail(c, name, "more is accepted than any lossless verifier can, by", excess);
        }
    } catch (std::exception const& e) {
        fail(c, name, e.what(), 0);
    }
}

/// On the host only.
template <class Sampler, class Verifier>
void check_host(small_case const& c, char const* name, Sampler const& sampler, Verifier const& verifier) {
    check_in<host_group>(c, name, sampler, verifier);
}

template <class Sampler, class Verifier>
void check(small_case const& c, char const* name, Sampler const& sampler, Verifier const& verifier) {
    if (c.padded)
        check_in<silent_group>(c, name, sampler, verifier);
    else
        check_in<host_group>(c, name, sampler, verifier);
}

/// Two draft models by turns, at one node.
struct rows_by_turns {
    basic_small_model<float> const& model;

    [[nodiscard]] index_t rows() const { return 1; }
    [[nodiscard]] index_t size() const { return model.vocabulary(); }
    template <group G>
    [[nodiscard]] probabilities<float> operator()(G const&, node_id, index_t child) const {
        return {model[static_cast<std::size_t>(child % 2)].data(), model.vocabulary()};
    }
};

/// Candidates of one node, each from a model of its own.
void check_multi_round(small_case const& c, char const* name) {
    host_group const g;
    rows_by_turns const draft{c.models.draft};
    index_t const size = draft.size();
    basic_rows_of_nodes<float> target(size);
    auto const n = static_cast<std::size_t>(c.children[0]);
    std::vector<node_id> parents(n + 1, 0);
    parents[0] = none;
    std::vector<token_id> tokens(n + 1);
    std::map<text, double> emitted;
    output_law found;
    try {
        found.branches = enumerate(
            [&](enumerating_source& source) {
                target.clear();
                target.push_back(c.models.target[0]);
                for (std::size_t k = 1; k <= n; ++k) {
                    auto const child = static_cast<index_t>(k) - 1;
                    auto const q = draft(g, 0, child);
                    auto const sums = g.sum_chunks(size, weight_of{q});
                    tokens[k] =
                        source.categorical(g, sums, size, weight_of{q}, {}, draw_site{0, 0}(purpose::draft, child));
                    target.push_back(c.models.target[c.models.target.after(0, tokens[k])]);
                }
                std::vector<node_id> path(1);
                verdict const v = verify::multi_round<law::independent>{}(
                    g, drafted<law::independent>{tree_view{parents, tokens}}, target_rows(target), draft_rows(draft),
                    source, 0, span<node_id>(path));
                text out;
                if (v.accepted == 1) out.push_back(tokens.at(static_cast<std::size_t>(path[0])));
                out.push_back(v.next);
                emitted[out] += source.probability();
            },
            1, most_branches);
    } catch (std::exception const& e) {
        fail(c, name, e.what(), 0);
    }
    found.complete = found.branches < most_branches;
    found.law = testing::detail::completed(c.models.target, emitted, 2);
    compare(c, name, found);
}

struct pair_to_check {
    char const* name;
    fuzz::trees which;
    void (*run)(small_case const&, char const*);
};

template <class Sampler>
Sampler sampler_of(small_case const& c) {
    if constexpr (requires { Sampler::theta; })
        return {.theta = c.theta};
    else
        return {};
}

fuzz::trees trees_of(allowed_trees trees) {
    switch (trees) {
        case allowed_trees::pairs:
            return fuzz::trees::pairs;
        case allowed_trees::forks:
            return fuzz::trees::forks;
        case allowed_trees::chains:
            return fuzz::trees::chains;
        default:
            return fuzz::trees::any;
    }
}

using enum fuzz::trees;

/// An engine's samplers, and laws that no listed method has.
constexpr pair_to_check further[] = {
    {"naive, stratified", any,
     [](auto const& c, auto name) {
         check(c, name, draft::stratified{.theta = c.theta}, verify::naive<law::stratified>{});
     }},
    {"naive, top_then_one", any,
     [](auto const& c, auto name) { check(c, name, draft::top_then_one{}, verify::naive<law::top_then_one>{}); }},
    {"naive, top_paired", pairs,
     [](auto const& c, auto name) { check(c, name, draft::top_paired{}, verify::naive<law::top_paired>{}); }},
    {"speculative_sampling, engine_sequential", chains,
     [](auto const& c, auto name) {
         check(c, name, engine_sequential{}, verify::speculative_sampling<law::sequential>{});
     }},
    {"recursive_rejection, engine_sequential", any,
     [](auto const& c, auto name) {
         check(c, name, engine_sequential{}, verify::recursive_rejection<law::sequential>{});
     }},
    {"multi_round", level, check_multi_round},
    {"greedy_optimal, engine_stratified", any,
     [](auto const& c, auto name) {
         check(c, name, engine_stratified<law::top_then_one>{c.draws % 2}, verify::greedy_optimal<law::top_then_one>{});
     }},
    {"ranked, engine_stratified", any,
     [](auto const& c, auto name) {
         check_host(c, name, engine_stratified<law::stratified>{c.draws},
                    multidraft::testing::reference::ranked<law::stratified>{});
     }},
    {"ranked, engine_stratified", any,
     [](auto const& c, auto name) {
         check(c, name, engine_stratified<law::stratified>{c.draws}, verify::ranked<law::stratified>{});
     }},
    {"block, engine_sequential", chains,
     [](auto const& c, auto name) { check(c, name, engine_sequential{}, verify::block<law::sequential>{}); }},
    {"block, stratified", chains,
     [](auto const& c, auto name) {
         check(c, name, draft::stratified{.theta = c.theta}, verify::block<law::stratified>{});
     }},
    {"traversal, engine_sequential", any,
     [](auto const& c, auto name) { check(c, name, engine_sequential{}, verify::traversal<law::sequential>{}); }},
    {"ranked_block, engine_stratified", any,
     [](auto const& c, auto name) {
         check_host(c, name, engine_stratified<law::stratified>{c.draws},
                    multidraft::testing::reference::ranked_block<law::stratified>{});
     }},
    {"ranked_block, engine_stratified", any,
     [](auto const& c, auto name) {
         check(c, name, engine_stratified<law::stratified>{c.draws}, verify::ranked_block<law::stratified>{});
     }},
};

/// Every listed method that decides by Bernoulli and categorical draws, and the further pairs.
std::vector<pair_to_check> const& pairs_to_check() {
    static std::vector<pair_to_check> const all = [] {
        std::vector<pair_to_check> list;
        auto const add = [&](auto listed) {
            using method = decltype(listed);
            if constexpr (method::proof == proof_by::enumeration)
                list.push_back(
                    {method::name.data(), trees_of(method::trees), [](auto const& c, auto name) {
                         auto const sampler = sampler_of<typename method::sampler>(c);
                         if constexpr (multidraft::testing::reference::methods::has<typename method::verifier>)
                             check_host(c, name, sampler, typename method::verifier{});
                         else
                             check(c, name, sampler, typename method::verifier{});
                     }});
        };
        methods::of_shapes::for_each(add);
        methods::of_drafters::for_each(add);
        multidraft::testing::reference::methods::for_each(add);
        list.insert(list.end(), std::begin(further), std::end(further));
        return list;
    }();
    return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    auto const input = fuzz::continued(data, size, 2048);
    fuzz::bytes in(input.data(), input.size());
    auto const& all = pairs_to_check();
    pair_to_check const& m = all[in.byte() % all.size()];
    auto const tokens = in.byte();
    index_t const vocabulary = tokens < 8 ? 1 : 2 + tokens % 4;
    small_case c{fuzz::read_shape(in, m.which, vocabulary),
                 {basic_small_model<float>(1, 0), basic_small_model<float>(1, 0)},
                 in.byte() % 4 == 0,
                 0.7,
                 0};
    auto const theta = in.byte();
    if (theta >= 128) c.theta = (theta - 128) / 127.0;
    c.draws = in.below(4);
    c.models = fuzz::read_models(in, vocabulary, static_cast<int>(c.children.size()));
    m.run(c, m.name);
    return 0;
}
