// The documented costs of calls, counted: which rows are read and how often they are normalised, passes over rows, and
// memory that is allocated.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <new>
#include <set>
#include <string>
#include <vector>

#include "costs/allocations.hpp"
#include "costs/counting_group.hpp"
#include "multidraft/draft/conditional_poisson.hpp"
#include "multidraft/draft/gumbel_top_k.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/shared_randomness.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/draft/top_paired.hpp"
#include "multidraft/draft/top_then_one.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/logit_rows.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/rows/remembered_rows.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/block.hpp"
#include "multidraft/verify/greedy_optimal.hpp"
#include "multidraft/verify/k_seq.hpp"
#include "multidraft/verify/multi_path_block.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/ranked.hpp"
#include "multidraft/verify/ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/shared_randomness.hpp"
#include "multidraft/verify/spec_hub.hpp"
#include "multidraft/verify/speculative_sampling.hpp"
#include "multidraft/verify/traversal.hpp"
#include "multidraft/verify/verifier.hpp"
#include "reference/nested_ranked_block.hpp"
#include "reference/ranked.hpp"

std::atomic<std::int64_t> multidraft::testing::allocations{0};

namespace {

using multidraft::testing::allocations;

void* counted(std::size_t bytes, std::size_t alignment) {
    ++allocations;
    std::size_t const whole = (bytes + alignment - 1) / alignment * alignment;
    void* const memory = std::aligned_alloc(alignment, whole > 0 ? whole : alignment);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes, 16); }
void* operator new[](std::size_t bytes) { return counted(bytes, 16); }
void* operator new(std::size_t bytes, std::align_val_t to) { return counted(bytes, static_cast<std::size_t>(to)); }
void* operator new[](std::size_t bytes, std::align_val_t to) { return counted(bytes, static_cast<std::size_t>(to)); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace costs_test {
namespace {

using namespace multidraft;
using multidraft::testing::counting_group;

template <class Rows>
concept has_weights = requires(Rows const& rows, host_group const& g) {
    rows.with_sums(g, node_id{});
};

/// Rows that record which nodes were read.
template <class Rows>
class recording_rows {
public:
    recording_rows(Rows rows, std::map<node_id, int>& asked) : rows_(rows), asked_(asked) {}

    [[nodiscard]] auto rows() const { return rows_.rows(); }
    [[nodiscard]] auto size() const { return rows_.size(); }
    template <group G>
    [[nodiscard]] auto operator()(G const& g, node_id node) const {
        note(node);
        return rows_(g, node);
    }
    template <group G>
    requires has_weights<Rows>
    [[nodiscard]] auto with_sums(G const& g, node_id node) const {
        note(node);
        return rows_.with_sums(g, node);
    }

private:
    void note(node_id node) const {
        std::int64_t const before = allocations;
        ++asked_[node];
        allocations = before;
    }

    Rows rows_;
    std::map<node_id, int>& asked_;
};

/// The cost of one verification.
struct cost {
    std::vector<node_id> parents;
    std::set<node_id> path;  ///< accepted, the root included
    node_id last = 0;        ///< of the path
    std::map<node_id, int> target;
    std::map<node_id, int> draft;
    std::int64_t allocated = 0;
    std::int64_t allocated_by_samplers = 0;
    std::int64_t passes = 0;  ///< over normalised rows

    [[nodiscard]] bool inner(node_id v) const {
        for (std::size_t i = 1; i < parents.size(); ++i)
            if (parents[i] == v) return true;
        return false;
    }
    [[nodiscard]] std::int32_t depth(node_id v) const {
        std::int32_t depth = 0;
        for (; v != 0; v = parents[static_cast<std::size_t>(v)]) ++depth;
        return depth;
    }
};

enum class rows_as { logits, remembered, probabilities };

/// Draws a tree and verifies it over random rows of two similar models.
template <class Sampler, class Verifier>
cost verify_once(topology const& shape, std::uint64_t seed, rows_as kind, sampling_params const& w = {}) {
    constexpr index_t vocabulary = 300;
    multidraft::testing::test_numbers numbers(seed);
    std::vector<float> p, q;
    for (index_t i = 0; i < shape.size() * vocabulary; ++i) {
        double const base = 2.5 * numbers.normal();
        q.push_back(static_cast<float>(base));
        p.push_back(static_cast<float>(base + 0.7 * numbers.normal()));
    }
    cost result;
    host_group const g;
    addressed_source source{addressed_uniforms(seed)};
    std::vector<token_id> tokens{0};
    std::vector<node_id> like{0};
    result.parents = {none};
    std::vector<token_id> children(static_cast<std::size_t>(shape.width()));
    std::vector<index_t> certain(static_cast<std::size_t>(shape.size()), 0);
    for (node_id v = 0; v < static_cast<node_id>(like.size()); ++v) {
        auto const wanted = shape.children(like[static_cast<std::size_t>(v)]);
        if (wanted.empty()) continue;
        auto row = process_logits(g, row_view<float>(q.data() + v * vocabulary, vocabulary), w);
        allocations = 0;
        auto const drawn = Sampler{}(g, row.row, row.sums, source, draw_site{3, v},
                                     span<token_id>(children.data(), static_cast<std::size_t>(wanted.count)));
        result.allocated_by_samplers += allocations;
        certain[static_cast<std::size_t>(v)] = drawn.certain;
        for (index_t k = 0; k < drawn.count; ++k) {
            result.parents.push_back(v);
            tokens.push_back(children[static_cast<std::size_t>(k)]);
            like.push_back(wanted.first + k);
        }
    }
    auto const nodes = static_cast<node_id>(tokens.size());
    certain.resize(tokens.size());
    auto const tree = make_drafted<typename Verifier::law>({result.parents, tokens}, certain);
    std::vector<node_id> path(tokens.size());
    verify::scratch_memory memory;
    auto const scratch = memory.of<Verifier>(nodes, shape.max_depth());
    logit_rows<float> const p_logits(rows_view<float>(p.data(), nodes, vocabulary), w);
    logit_rows<float> const q_logits(rows_view<float>(q.data(), nodes, vocabulary), w);
    auto const run = [&](auto const& target, auto const& draft) {
        recording_rows const asked_target(target, result.target);
        recording_rows const asked_draft(draft, result.draft);
        counting_group const counting(result.passes);
        allocations = 0;
        verdict const v = verify::verify_tree(Verifier{}, counting, tree, target_rows(asked_target),
                                              draft_rows(asked_draft), source, 3, span<node_id>(path), scratch);
        result.allocated = allocations;
        result.path = {0};
        for (std::int32_t k = 0; k < v.accepted; ++k) {
            result.last = path[static_cast<std::size_t>(k)];
            result.path.insert(result.last);
        }
    };
    if (kind == rows_as::logits) {
        run(p_logits, q_logits);
    } else if (kind == rows_as::remembered) {
        row_memory<logit_rows<float>> of_p, of_q;
        remembered_rows const target(p_logits, of_p);
        remembered_rows const draft(q_logits, of_q);
        run(target, draft);
    } else {
        std::vector<float> of_p, of_q;
        for (node_id v = 0; v < nodes; ++v) {
            auto const p_row = p_logits(g, v);
            auto const q_row = q_logits(g, v);
            for (index_t i = 0; i < vocabulary; ++i) {
                of_p.push_back(p_row(i));
                of_q.push_back(q_row(i));
            }
        }
        run(probability_rows<float>(of_p.data(), nodes, vocabulary),
            probability_rows<float>(of_q.data(), nodes, vocabulary));
    }
    return result;
}

std::set<node_id> nodes_of(std::map<node_id, int> const& asked) {
    std::set<node_id> nodes;
    for (auto const& [node, times] : asked) nodes.insert(node);
    return nodes;
}

topology const tree = branching({4, 2, 2});

template <class F>
void for_verifiers_of_nodes(F f) {
    f.template operator()<draft::iid, verify::recursive_rejection<law::iid>>("recursive_rejection/iid");
    f.template operator()<draft::sequential, verify::recursive_rejection<law::sequential>>(
        "recursive_rejection/sequential");
    f.template operator()<draft::gumbel_top_k, verify::recursive_rejection<law::sequential>>(
        "recursive_rejection/gumbel_top_k");
    f.template operator()<draft::iid, verify::k_seq<law::iid>>("k_seq");
    f.template operator()<draft::top_then_one, verify::greedy_optimal<law::top_then_one>>("greedy_optimal");
    f.template operator()<draft::stratified, verify::ranked<law::stratified>>("ranked");
    f.template operator()<draft::iid, verify::naive<law::iid>>("naive/iid");
    f.template operator()<draft::top_n, verify::naive<law::deterministic>>("naive/deterministic");
    f.template operator()<draft::conditional_poisson, verify::naive<law::conditional_poisson>>(
        "naive/conditional_poisson");
    f.template operator()<draft::shared_randomness, verify::shared_randomness>("shared_randomness");
}

// "Verifiers that decide node by node read the target's rows on the accepted path, and the draft's where children are
// tried, each once."
TEST(costs, node_by_node_reads_the_accepted_path_once) {
    int accepted = 0;
    for_verifiers_of_nodes([&]<class Sampler, class Verifier>(char const* name) {
        for (std::uint64_t seed = 0; seed < 30; ++seed) {
            auto const c = verify_once<Sampler, Verifier>(tree, seed, rows_as::logits);
            EXPECT_EQ(nodes_of(c.target), c.path) << name;
            for (auto const& [node, times] : c.target) EXPECT_EQ(times, 1) << name << ", node " << node;
            for (auto const& [node, times] : c.draft) {
                EXPECT_EQ(c.path.count(node), 1U) << name;
                EXPECT_EQ(times, 1) << name << ", node " << node;
            }
            accepted += static_cast<int>(c.path.size()) - 1;
            bool const reads_draft = std::string(name).find("naive") != 0 && std::string(name) != "shared_randomness";
            EXPECT_TRUE(reads_draft || c.draft.empty()) << name;
        }
    });
    EXPECT_GT(accepted, 100);
}

// Verifiers of whole trees read more; how much.
TEST(costs, verifiers_of_whole_trees_read_what_they_say) {
    auto const check = [&]<class Sampler, class Verifier>(char const* name, topology const& shape, bool one_path,
                                                          bool merged) {
        std::size_t beyond = 0;
        for (std::uint64_t seed = 0; seed < 30; ++seed) {
            auto const c = verify_once<Sampler, Verifier>(shape, seed, rows_as::logits);
            std::set<node_id> const asked = nodes_of(c.target);
            EXPECT_EQ(asked.count(c.last), 1U) << name;
            for (node_id const v : asked) {
                // A row is that of the accepted node at the end, or of a node with children.
                EXPECT_TRUE(v == c.last || c.inner(v)) << name << ", node " << v;
                bool const after_its_parent = v == 0 || asked.count(c.parents[static_cast<std::size_t>(v)]) == 1;
                EXPECT_TRUE(after_its_parent || merged) << name << ", node " << v;
            }
            for (node_id const v : nodes_of(c.draft)) EXPECT_TRUE(c.inner(v)) << name << ", node " << v;
            if (one_path) {
                std::set<std::int32_t> depths;
                for (node_id const v : asked) EXPECT_TRUE(depths.insert(c.depth(v)).second) << name << ", node " << v;
                EXPECT_EQ(depths.size(), static_cast<std::size_t>(*depths.rbegin()) + 1) << name;
            }
            beyond += asked.size() > c.path.size() ? 1U : 0U;
        }
        EXPECT_GT(beyond, 0U) << name << ": never more than the accepted path, so say that";
    };
    topology const line = chain(4);
    topology const forked = fork(3, 3);
    // Down one path. Multi-path block reads a prefix that several paths share at the first of them that has it.
    check.operator()<draft::iid, verify::block<law::iid>>("block", line, true, false);
    check.operator()<draft::iid, verify::multi_path_block>("multi_path_block", forked, true, true);
    check.operator()<draft::iid, verify::ranked_block<law::iid>>("ranked_block", tree, true, false);
    // Refused subtrees too.
    check.operator()<draft::iid, verify::traversal<law::iid>>("traversal/iid", tree, false, false);
    check.operator()<draft::sequential, verify::traversal<law::sequential>>("traversal", tree, false, false);
}

TEST(costs, nested_ranked_block_reads_nodes_that_its_pick_hangs_on) {
    std::size_t read = 0;
    std::size_t on_path = 0;
    std::size_t inner = 0;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        auto const c =
            verify_once<draft::stratified, verify::nested_ranked_block<law::stratified>>(tree, seed, rows_as::logits);
        std::set<node_id> asked = nodes_of(c.draft);
        read += asked.size();
        for (node_id v = 0; v < static_cast<node_id>(c.parents.size()); ++v) {
            inner += c.inner(v) ? 1U : 0U;
            on_path += c.inner(v) ? c.path.count(v) : 0U;
            if (c.inner(v) && c.path.count(v) == 1) {
                EXPECT_EQ(asked.count(v), 1U) << "node " << v;
            }
        }
        for (node_id const v : asked) {
            EXPECT_TRUE(c.inner(v)) << "node " << v;
            if (v > 0) {
                EXPECT_EQ(asked.count(c.parents[static_cast<std::size_t>(v)]), 1U) << "node " << v;
            }
        }
        asked.insert(c.last);
        EXPECT_EQ(nodes_of(c.target), asked);
    }
    std::printf("    read %zu of %zu nodes with children, of which %zu on accepted paths\n", read, inner, on_path);
    EXPECT_GT(read, on_path);
    EXPECT_LT(read, inner);
}

// `remembered_rows` normalise each row once: for truncated logits, which take many passes, no verifier normalises one
// twice, and the verdict is the same.
TEST(costs, remembered_rows_are_made_once) {
    sampling_params const w{.temperature = 0.9F, .top_k = 150, .top_p = 0.95F};
    auto const check = [&]<class Sampler, class Verifier>(char const* name, topology const& shape) {
        std::int64_t saved = 0;
        for (std::uint64_t seed = 0; seed < 20; ++seed) {
            auto const again = verify_once<Sampler, Verifier>(shape, seed, rows_as::logits, w);
            auto const once = verify_once<Sampler, Verifier>(shape, seed, rows_as::remembered, w);
            EXPECT_EQ(once.path, again.path) << name << ", seed " << seed;
            EXPECT_LE(once.passes, again.passes) << name;
            saved += again.passes - once.passes;
        }
        EXPECT_GT(saved, 0) << name;
    };
    check.operator()<draft::stratified, verify::nested_ranked_block<law::stratified>>("nested", tree);
    check.operator()<draft::iid, verify::block<law::iid>>("block", chain(4));
    check.operator()<draft::sequential, verify::traversal<law::sequential>>("traversal", tree);
    check.operator()<draft::iid, verify::ranked_block<law::iid>>("ranked_block", tree);
}

// An acceptance is O(1) from normalised rows, and a rejection is one pass. Recursive rejection makes a pass per refused
// candidate, the last of which also gives the token, or one for the token of a row where nothing was tried or refused.
TEST(costs, an_acceptance_takes_no_pass) {
    bool deep = false;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        auto const c =
            verify_once<draft::iid, verify::speculative_sampling<law::iid>>(chain(3), seed, rows_as::probabilities);
        EXPECT_EQ(c.passes, 1) << "a residual, or the row of the last node";
        deep = deep || c.path.size() == 4;
        auto const t = verify_once<draft::sequential, verify::recursive_rejection<law::sequential>>(
            tree, seed, rows_as::probabilities);
        EXPECT_LE(t.passes, 3 * 4 + 1);
        EXPECT_GE(t.passes, 1);
    }
    EXPECT_TRUE(deep);
}

// No allocation in samplers and verifiers, except the reference forms.
TEST(costs, samplers_and_verifiers_allocate_nothing) {
    auto const check = [&]<class Sampler, class Verifier>(char const* name, topology const& shape) {
        for (rows_as const kind : {rows_as::logits, rows_as::probabilities})
            for (std::uint64_t seed = 0; seed < 10; ++seed) {
                auto const c = verify_once<Sampler, Verifier>(shape, seed, kind, {.top_k = 200, .top_p = 0.99F});
                EXPECT_EQ(c.allocated_by_samplers, 0) << name;
                EXPECT_EQ(c.allocated, 0) << name;
            }
    };
    for_verifiers_of_nodes([&]<class Sampler, class Verifier>(char const* name) {
        check.template operator()<Sampler, Verifier>(name, tree);
    });
    check.operator()<draft::top_paired, verify::spec_hub<law::top_paired>>("spec_hub", branching({2, 2, 2}));
    check.operator()<draft::iid, verify::block<law::iid>>("block", chain(4));
    check.operator()<draft::iid, verify::multi_path_block>("multi_path_block", fork(3, 3));
    check.operator()<draft::sequential, verify::traversal<law::sequential>>("traversal", tree);
    check.operator()<draft::stratified, verify::ranked_block<law::stratified>>("ranked_block", tree);
    check.operator()<draft::stratified, verify::nested_ranked_block<law::stratified>>("nested", tree);
    // The counter works.
    auto const exact =
        verify_once<draft::stratified, multidraft::testing::reference::nested_ranked_block<law::stratified>>(
            tree, 1, rows_as::logits);
    EXPECT_GT(exact.allocated, 10);
    EXPECT_GT((verify_once<draft::stratified, multidraft::testing::reference::ranked<law::stratified>>(tree, 1,
                                                                                                       rows_as::logits)
                   .allocated),
              1);
}

}  // namespace
}  // namespace costs_test
