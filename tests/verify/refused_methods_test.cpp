// Errors of every listed verifier: rows that are not distributions, candidates that cannot have been drawn, trees and
// memory that do not fit. The caller's path is not changed.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "multidraft/group/host_group.hpp"
#include "multidraft/lossy/joint_likelihood.hpp"
#include "multidraft/lossy/target_initialised.hpp"
#include "multidraft/methods/list.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/verifier.hpp"
#include "reference/methods.hpp"

namespace refused_methods_test {
namespace {

using namespace multidraft;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// A chain of two over four tokens; every row uniform until a test changes it.
struct problem {
    std::vector<node_id> parents{none, 0, 1};
    std::vector<token_id> tokens{0, 1, 2};
    std::vector<float> p = std::vector<float>(12, 0.25F);
    std::vector<float> q = std::vector<float>(12, 0.25F);

    /// A row of the target or draft: uniform except for one token.
    static void set(std::vector<float>& rows, std::size_t row, float value) {
        for (std::size_t i = 0; i < 4; ++i) rows[4 * row + i] = value;
    }

    template <class Verifier>
    verdict run(Verifier const& verifier, std::vector<node_id>& path, std::uint64_t seed,
                std::byte garbage = std::byte{0}) const {
        auto const nodes = static_cast<node_id>(parents.size());
        auto const depth = tree_view{parents, tokens}.depth(nodes - 1);
        std::vector<std::byte> scratch(verify::scratch_bytes<Verifier>(nodes, depth), garbage);
        addressed_source source{addressed_uniforms(seed)};
        return verify::verify_tree(
            verifier, host_group{},
            make_drafted<typename Verifier::law>({parents, tokens}, std::vector<index_t>(parents.size(), 0)),
            target_rows(probability_rows<float>(rows_view<float>(p.data(), nodes, 4))),
            draft_rows(probability_rows<float>(rows_view<float>(q.data(), nodes, 4))), source, 0, path, scratch);
    }
};

template <class Verifier>
void expect_refused(problem const& b, Verifier const& verifier, std::string const& what) {
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
        std::vector<node_id> path(3, -7);
        EXPECT_THROW(static_cast<void>(b.run(verifier, path, seed)), invalid_input) << what << ", seed " << seed;
        EXPECT_EQ(path, std::vector<node_id>(3, -7)) << what;
    }
}

/// Calls f with every listed verifier that reads the draft's rows, with one row per node.
template <class F>
void for_every_verifier_of_drafts(F f) {
    auto const call = [&](auto listed) {
        using verifier = typename decltype(listed)::verifier;
        if constexpr (verify::reads_draft<verifier> && !std::is_same_v<typename verifier::law, law::independent>)
            f(verifier{}, std::string(listed.name).c_str());
    };
    methods::of_shapes::for_each(call);
    methods::of_drafters::for_each(call);
    multidraft::testing::reference::methods::for_each(call);
}

TEST(refused_methods, a_candidate_that_the_draft_cannot_have_drawn) {
    problem b;
    b.q = {0.5F, 0, 0.25F, 0.25F, 0.25F, 0.25F, 0.25F, 0.25F, 0.25F, 0.25F, 0.25F, 0.25F};
    for_every_verifier_of_drafts([&](auto verifier, char const* name) { expect_refused(b, verifier, name); });
    b.q[1] = nan;
    for_every_verifier_of_drafts([&](auto verifier, char const* name) { expect_refused(b, verifier, name); });
}

TEST(refused_methods, a_target_of_nan_and_one_without_mass) {
    for (float const value : {nan, 0.0F}) {
        problem b;
        b.parents = {none};
        b.tokens = {0};
        b.p.assign(4, value);
        for_every_verifier_of_drafts([&](auto verifier, char const* name) { expect_refused(b, verifier, name); });
        expect_refused(b, verify::shared_randomness{}, "shared_randomness");
    }
    problem b;
    problem::set(b.p, 0, nan);
    for_every_verifier_of_drafts([&](auto verifier, char const* name) { expect_refused(b, verifier, name); });
    expect_refused(b, verify::shared_randomness{}, "shared_randomness");
}

// Wherever a decision needs the entry: of a candidate, in the target's row and in the draft's, or of the row that a
// token is emitted from when the candidate is refused. (Accepting a candidate reads no other entry.)
TEST(refused_methods, probabilities_of_plus_infinity) {
    constexpr float infinite = std::numeric_limits<float>::infinity();
    auto const expect = [](problem const& b, std::string const& what) {
        for_every_verifier_of_drafts(
            [&](auto verifier, char const* name) { expect_refused(b, verifier, name + what); });
        expect_refused(b, verify::recursive_rejection<law::iid>{}, "recursive_rejection" + what);
        expect_refused(b, verify::recursive_rejection<law::sequential>{}, "recursive_rejection, sequential" + what);
        expect_refused(b, verify::speculative_sampling<law::iid>{}, "speculative_sampling" + what);
    };
    auto const expect_of_target = [&](problem const& b, std::string const& what) {
        expect(b, what);
        expect_refused(b, verify::naive<law::iid>{}, "naive" + what);
        expect_refused(b, verify::shared_randomness{}, "shared_randomness" + what);
    };
    problem candidate;
    candidate.p[1] = infinite;
    expect_of_target(candidate, ", target of the candidate");
    problem other;
    other.p[1] = 0;
    other.p[2] = infinite;
    expect_of_target(other, ", target of another");
    problem drafted;
    drafted.q[1] = infinite;
    expect(drafted, ", draft of the candidate");
    problem root;
    root.parents = {none};
    root.tokens = {0};
    root.p[3] = infinite;
    expect_of_target(root, ", root alone");
}

// Below its starts the target-initialised tree is verified like any other: by the same rules, with the same errors.
TEST(refused_methods, what_a_walk_below_the_targets_own_tokens_meets) {
    constexpr float infinite = std::numeric_limits<float>::infinity();
    problem b;
    b.p[4 + 2] = infinite;
    using rejection = lossy::target_initialised<verify::recursive_rejection<law::iid>>;
    expect_refused(b, rejection{}, "an accepted token of infinite probability");

    // Draft rows that a verifier does not need are not read.
    problem no_draft;
    no_draft.q.assign(12, nan);
    std::vector<node_id> path(3, -7);
    EXPECT_GE(no_draft.run(lossy::target_initialised<verify::naive<law::iid>>{}, path, 1).accepted, 1);

    using ranked = lossy::target_initialised<verify::ranked<law::iid>>;
    problem good;
    EXPECT_NO_THROW(static_cast<void>(good.run(ranked{}, path, 1)));
    std::size_t const needed = verify::scratch_bytes<ranked>(3, 2);
    std::vector<std::byte> memory(needed + 32);
    auto const address = reinterpret_cast<std::uintptr_t>(memory.data());
    std::size_t const aligned = (16 - address % 16) % 16;
    addressed_source source{addressed_uniforms(1)};
    probability_rows<float> const rows(rows_view<float>(good.p.data(), 3, 4));
    for (span<std::byte> const scratch : {span<std::byte>(memory.data() + aligned, ranked::scratch_bytes(3, 2) - 1),
                                          span<std::byte>(memory.data() + aligned + 4, needed)})
        EXPECT_THROW(static_cast<void>(verify::verify_tree(
                         ranked{}, host_group{}, make_drafted<ranked::law>({good.parents, good.tokens}, {}),
                         target_rows(rows), draft_rows(rows), source, 0, path, scratch)),
                     invalid_input);
}

// Both are refused with the number of bytes needed, whatever the verifier keeps there.
TEST(refused_methods, scratch_that_is_too_small_or_not_aligned) {
    problem b;
    auto const said = [&](auto const& verifier, std::size_t missing, std::size_t off) {
        using verifier_type = std::decay_t<decltype(verifier)>;
        struct alignas(16) block {
            std::byte bytes[16];
        };
        std::size_t const needed = verify::scratch_bytes<verifier_type>(3, 2);
        std::vector<block> memory(needed / 16 + 1);
        span<std::byte> const scratch(memory.data()->bytes + off, needed - missing);
        std::vector<node_id> path(3, -7);
        std::vector<index_t> const certain(3, 0);
        addressed_source source{addressed_uniforms(1)};
        probability_rows<float> const rows(rows_view<float>(b.p.data(), 3, 4));
        try {
            static_cast<void>(verify::verify_tree(
                verifier, host_group{}, make_drafted<typename verifier_type::law>({b.parents, b.tokens}, certain),
                target_rows(rows), draft_rows(rows), source, 0, path, scratch));
        } catch (invalid_input const& e) {
            EXPECT_EQ(path, std::vector<node_id>(3, -7));
            return std::string(e.what());
        }
        return std::string();
    };
    for_every_verifier_of_drafts([&](auto verifier, char const* name) {
        using verifier_type = decltype(verifier);
        if constexpr (verify::needs_scratch<verifier_type>) {
            std::string const needed = std::to_string(verifier_type::scratch_bytes(3, 2)) + " bytes are needed";
            EXPECT_EQ(said(verifier, 0, 0), "") << name;
            EXPECT_NE(said(verifier, 16, 0).find(needed), std::string::npos) << name << ": " << said(verifier, 16, 0);
            for (std::size_t const off : {1U, 4U, 8U})
                EXPECT_NE(
                    said(verifier, 0, off).find("aligned to 16 bytes, and this address lies " + std::to_string(off)),
                    std::string::npos)
                    << name << ": " << said(verifier, 0, off);
        }
    });
}

TEST(refused_methods, memory_of_scratch_grows_and_is_aligned) {
    verify::scratch_memory memory;
    for (node_id const nodes : {3, 40, 7}) {
        auto const scratch = memory.of<verify::traversal<law::iid>>(nodes, nodes - 1);
        EXPECT_EQ(scratch.size(), verify::scratch_bytes<verify::traversal<law::iid>>(nodes, nodes - 1));
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(scratch.data()) % verify::scratch_alignment, 0U);
    }
    EXPECT_TRUE(memory.of<verify::naive<law::iid>>(3, 2).empty());
}

// All entries of these rows are at one address.
TEST(refused_methods, rows_longer_than_a_row_may_be) {
    float const entry = 0.5F;
    std::vector<node_id> const parents{none};
    std::vector<token_id> const tokens{0};
    std::vector<index_t> const certain{0};
    for (index_t const size : {max_row_size + 1, std::numeric_limits<index_t>::max()}) {
        rows_view<float, strided> const view(&entry, 1, size, 1, strided{0});
        probability_rows<float, strided> const rows(view);
        for_every_verifier_of_drafts([&](auto verifier, char const* name) {
            using verifier_type = decltype(verifier);
            verify::scratch_memory memory;
            std::vector<node_id> path;
            addressed_source source;
            try {
                static_cast<void>(verify::verify_tree(
                    verifier, host_group{}, make_drafted<typename verifier_type::law>({parents, tokens}, certain),
                    target_rows(rows), draft_rows(rows), source, 0, span<node_id>(path),
                    memory.of<verifier_type>(1, 0)));
                ADD_FAILURE() << name;
            } catch (invalid_input const& e) {
                EXPECT_EQ(e.argument(), "target.size") << name;
                EXPECT_EQ(e.value(), std::to_string(size)) << name;
            }
        });
    }
}

TEST(refused_methods, positions_past_the_end_of_numbers) {
    problem b;
    std::vector<node_id> path(3, -7);
    addressed_source source{addressed_uniforms(1)};
    probability_rows<float> const rows(rows_view<float>(b.p.data(), 3, 4));
    drafted<law::shared_randomness> const tree{{b.parents, b.tokens}};
    auto const run = [&](std::int32_t position) {
        return verify::shared_randomness{}(host_group{}, tree, target_rows(rows), draft_rows(verify::no_draft_rows{}),
                                           source, position, span<node_id>(path));
    };
    constexpr std::int32_t last = std::numeric_limits<std::int32_t>::max();
    EXPECT_NO_THROW(run(last - 2));
    EXPECT_THROW(run(last - 1), invalid_input);
    EXPECT_THROW(run(last), invalid_input);
}

TEST(refused_methods, trees_that_are_none_or_of_another_shape) {
    problem b;
    b.parents = {none, 0, 0};
    expect_refused(b, verify::block<law::iid>{}, "block");
    expect_refused(b, lossy::joint_likelihood<law::deterministic>{}, "joint_likelihood");
    problem uneven;
    uneven.parents = {none, 0, 0, 1};
    uneven.tokens = {0, 1, 2, 3};
    uneven.p.assign(16, 0.25F);
    uneven.q.assign(16, 0.25F);
    expect_refused(uneven, verify::multi_path_block{}, "multi_path_block");
    uneven.parents = {none, 0, 0, 1, 1};
    uneven.tokens = {0, 1, 2, 3, 3};
    uneven.p.assign(20, 0.25F);
    uneven.q.assign(20, 0.25F);
    expect_refused(uneven, verify::multi_path_block{}, "multi_path_block");
}

TEST(refused_methods, no_chain_of_floats_whatever_its_depth) {
    for (node_id depth = 0; depth < 6; ++depth) {
        problem b;
        auto const nodes = static_cast<std::size_t>(depth) + 1;
        b.parents = {none, 0, 1, 2, 3, 4};
        b.tokens = {0, 1, 2, 3, 1, 2};
        b.parents.resize(nodes);
        b.tokens.resize(nodes);
        b.p.assign(4 * nodes, 0.25F);
        b.q.assign(4 * nodes, 0.25F);
        b.p[0] = 0.5F;
        b.p[1] = 0.125F;
        b.p[2] = 0.125F;
        for_every_verifier_of_drafts([&](auto verifier, char const* name) {
            for (std::uint64_t seed = 0; seed < 8; ++seed) {
                std::vector<node_id> path(6, -7), again(6, -7);
                auto const v = b.run(verifier, path, seed);
                // What the scratch held before makes no difference.
                auto const w = b.run(verifier, again, seed, std::byte{0xff});
                EXPECT_EQ(v.next, w.next) << name << ", depth " << depth;
                EXPECT_EQ(path, again) << name << ", depth " << depth;
                EXPECT_TRUE(v.next >= 0 && v.next < 4) << name << ", depth " << depth;
                EXPECT_LE(v.accepted, depth) << name;
                for (std::int32_t k = 0; k < 6; ++k)
                    EXPECT_EQ(path[static_cast<std::size_t>(k)], k < v.accepted ? k + 1 : -7) << name;
            }
        });
    }
}

TEST(refused_methods, numbers_of_lists_that_are_none) {
    EXPECT_THROW(verify::shared_randomness(-1), invalid_input);
    EXPECT_THROW(verify::shared_randomness(max_nodes + 1), invalid_input);
    EXPECT_NO_THROW(verify::shared_randomness{max_nodes});
    EXPECT_NO_THROW(verify::shared_randomness{0});
}

TEST(refused_methods, no_tree_at_all) {
    std::vector<node_id> const parents;
    std::vector<token_id> const tokens;
    std::vector<float> const row(4, 0.25F);
    for_every_verifier_of_drafts([&](auto verifier, char const* name) {
        using verifier_type = decltype(verifier);
        std::vector<std::byte> scratch(verify::scratch_bytes<verifier_type>(1, 0));
        std::vector<node_id> path;
        addressed_source source;
        probability_rows<float> const rows(rows_view<float>(row.data(), 1, 4));
        EXPECT_THROW(static_cast<void>(verify::verify_tree(
                         verifier, host_group{}, make_drafted<typename verifier_type::law>({parents, tokens}, {}),
                         target_rows(rows), draft_rows(rows), source, 0, path, scratch)),
                     invalid_input)
            << name;
    });
}

}  // namespace
}  // namespace refused_methods_test
