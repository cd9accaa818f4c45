// The bodies of the CUDA launches over ragged batches, run on the CPU and compared with the host's functions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "multidraft/batch/compact_caches.hpp"
#include "multidraft/batch/detail/check_batch.hpp"
#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/masks.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/cuda/launch_shape.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/lossy/rollback.hpp"
#include "multidraft/rows/logit_rows.hpp"
#include "multidraft/tree/compaction.hpp"
#include "multidraft/tree/mask.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/block.hpp"
#include "multidraft/verify/k_seq.hpp"
#include "multidraft/verify/multi_path_block.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/residual.hpp"
#include "multidraft/verify/traversal.hpp"
#include "multidraft/verify/verifier.hpp"
#include "support/batches.hpp"
#include "support/emulated_group.hpp"

namespace batch_test {
namespace {

using namespace multidraft;
namespace mc = multidraft::cuda;
namespace md = multidraft::detail;
namespace mt = multidraft::testing;

class simt_batch : public ::testing::Test {
protected:
    void SetUp() override {
        if (!has_fma) GTEST_SKIP() << "without FMA there is no parity";
    }
};

// Level by level, every node's children are those drawn on the host; then every verdict is the host's.
template <class Sampler, class Verifier, int Threads, int Split>
void draft_and_verify(int ranks, sampling_params w, index_t vocabulary) {
    mt::batch<float> batch(vocabulary, w);
    mt::batch<float> host = batch;
    host.draft_on_host(Sampler{});
    for (auto level = batch.levels(); level.depth < level.deepest; ++level.depth) {
        auto const arrays = batch.level_arrays(level.depth);
        for (std::int32_t e = 0; e < static_cast<std::int32_t>(arrays.request.size()); ++e)
            mt::on_group<Threads, Split>(ranks, [&](auto const& g) {
                md::draft_entry(g, Sampler{}, e, batch.entries_of(arrays), batch.level_rows(arrays), batch.requests(),
                                batch.children_of(arrays));
            });
    }
    EXPECT_EQ(batch.tokens, host.tokens);
    EXPECT_EQ(batch.certain, host.certain);

    auto const expected = host.verify_on_host(Verifier{});
    mt::verdicts got(batch.size(), batch.path_stride);
    auto const with = [&](auto const& rows_of_draft) {
        std::fill(got.path.begin(), got.path.end(), -7);
        for (std::int32_t b = 0; b < batch.size(); ++b)
            mt::on_group<Threads, Split>(ranks, [&](auto const& g) {
                md::verify_request(g, Verifier{}, b, drawn_by<typename Sampler::law>(batch.trees()),
                                   batch.target_logits(), rows_of_draft, batch.requests(), got.view());
            });
        EXPECT_EQ(got.accepted, expected.accepted);
        EXPECT_EQ(got.next, expected.next);
        for (std::int32_t b = 0; b < batch.size(); ++b)
            for (std::int32_t k = 0; k < got.accepted[static_cast<std::size_t>(b)]; ++k)
                EXPECT_EQ(got.node(b, k), expected.node(b, k));
    };
    with(batch.draft_logits());
    with(batch.prepared());
}

TEST_F(simt_batch, drafts_and_verifies_as_the_host_does) {
    using sequential = verify::recursive_rejection<law::sequential>;
    draft_and_verify<draft::sequential, sequential, 64, 1>(1, {}, 300);
    draft_and_verify<draft::sequential, sequential, 64, 2>(2, {.temperature = 0.7F, .top_p = 0.9F}, 5000);
    draft_and_verify<draft::top_n, verify::naive<law::deterministic>, 32, 1>(1, {}, 4096);
}

// Only one or two tokens have mass, while up to four children are wanted.
TEST_F(simt_batch, takes_trees_whose_support_ended) {
    draft_and_verify<draft::sequential, verify::recursive_rejection<law::sequential>, 64, 1>(1, {.top_k = 2}, 300);
    draft_and_verify<draft::sequential, verify::recursive_rejection<law::sequential>, 32, 1>(1, {.temperature = 0.0F},
                                                                                             300);
}

TEST_F(simt_batch, answers_none_where_the_host_would_throw) {
    mt::batch<float> batch(300, {});
    batch.draft_on_host(draft::sequential{});
    auto const first = static_cast<std::size_t>(batch.offsets[1]) * 300;
    for (std::size_t i = 0; i < 300; ++i) batch.target[first + i] = std::numeric_limits<float>::quiet_NaN();
    mt::verdicts got(batch.size(), batch.path_stride);
    mt::on_group<32, 1>(1, [&](auto const& g) {
        md::verify_request(g, verify::recursive_rejection<law::sequential>{}, 1,
                           drawn_by<law::sequential>(batch.trees()), batch.target_logits(), batch.draft_logits(),
                           batch.requests(), got.view());
    });
    EXPECT_EQ(got.next[1], none);
    EXPECT_EQ(got.accepted[1], 0);
    // A path that is shorter than the tree's depth.
    mt::verdicts small(batch.size(), 1);
    mt::on_group<32, 1>(1, [&](auto const& g) {
        md::verify_request(g, verify::recursive_rejection<law::sequential>{}, 0,
                           drawn_by<law::sequential>(batch.trees()), batch.target_logits(), batch.draft_logits(),
                           batch.requests(), small.view());
    });
    EXPECT_EQ(small.next[0], none);
}

// A padded request with parents of an earlier batch: the result is `none` at once, whatever they are.
TEST_F(simt_batch, returns_none_for_parents_that_are_not_a_tree) {
    using traversal = verify::traversal<law::sequential>;
    using nested = verify::nested_ranked_block<law::iid>;
    mt::batch<float> good(300, {});
    good.draft_on_host(draft::iid{});
    auto const answer = [&](mt::batch<float> const& batch, auto const& verifier) {
        using verifier_type = std::decay_t<decltype(verifier)>;
        std::vector<std::byte> scratch(verify::scratch_bytes<verifier_type>(10, 6), std::byte{0x5a});
        mt::verdicts got(batch.size(), batch.path_stride);
        mt::on_group<32, 1>(1, [&](auto const& g) {
            md::verify_request(g, verifier, 0, drawn_by<typename verifier_type::law>(batch.trees()),
                               batch.target_logits(), batch.draft_logits(), batch.requests(), got.view(),
                               span<std::byte>(scratch));
        });
        EXPECT_TRUE(got.next[0] != none || got.accepted[0] == 0);
        return got.next[0];
    };
    EXPECT_NE(answer(good, nested{}), none);
    for (auto const& parents : std::vector<std::vector<node_id>>{{none, 2, 1, 0, 0, 1, 1, 2, 2, 5},
                                                                 {none, 0, 0, 0, 0, 1, 1, 2, 9, 8},
                                                                 {0, 0, 0, 0, 0, 1, 1, 2, 2, 5},
                                                                 {none, 0, 0, 0, 0, 1, 1, 2, 2, 70000},
                                                                 {none, 0, 0, 5, 0, 1, 1, 2, 2, 2}}) {
        mt::batch<float> batch = good;
        std::copy(parents.begin(), parents.end(), batch.parents.begin());
        EXPECT_EQ(answer(batch, verify::recursive_rejection<law::sequential>{}), none);
        EXPECT_EQ(answer(batch, traversal{}), none);
        EXPECT_EQ(answer(batch, nested{}), none);
        EXPECT_EQ(answer(batch, verify::multi_path_block{}), none);
        // Masks and positions are arbitrary, but stay inside of the row.
        std::vector<std::uint64_t> words(batch.parents.size(), 99);
        md::write_packed_word<std::uint64_t> const packed{batch.trees(), words.data(), 1};
        std::vector<std::int32_t> positions(batch.parents.size());
        md::write_position<std::int32_t> const position{batch.trees(), batch.positions.data(), positions.data()};
        for (std::int64_t k = 0; k < 10; ++k) {
            packed(k);
            position(k);
            EXPECT_EQ(words[static_cast<std::size_t>(k)] >> k, 1U) << k;
            EXPECT_LE(positions[static_cast<std::size_t>(k)], batch.positions[0] + k) << k;
        }
    }
    // A token outside the vocabulary, whether the verifier would read rows at it or not.
    for (token_id const token : {299, 300, 1 << 20}) {
        mt::batch<float> batch = good;
        batch.tokens[9] = token;
        EXPECT_EQ(answer(batch, verify::naive<law::iid>{}) == none, token >= 300) << token;
        if (token >= 300) {
            EXPECT_EQ(answer(batch, nested{}), none);
            EXPECT_EQ(answer(batch, traversal{}), none);
        }
    }
}

// A row without mass below two accepted nodes: the nodes before the fault are not accepted, in either launch.
TEST_F(simt_batch, accepts_nothing_where_no_token_follows) {
    mt::batch<float> batch(300, {});
    batch.draft_on_host(draft::iid{});
    batch.target = batch.draft;  // all is accepted, down the chain of request 1
    auto const last = static_cast<std::size_t>(batch.offsets[1] + 4) * 300;
    for (std::size_t i = 0; i < 300; ++i) batch.target[last + i] = std::numeric_limits<float>::quiet_NaN();
    auto const check = [&](auto const& verifier) {
        using verifier_type = std::decay_t<decltype(verifier)>;
        std::vector<std::byte> scratch(verify::scratch_bytes<verifier_type>(10, 6));
        std::vector<node_id> path(6, -7);
        addressed_source source{batch.requests().uniforms(1)};
        mt::silent_group const g;
        logit_rows<float> const rows(rows_view<float>(batch.target.data() + batch.offsets[1] * 300, 5, 300), {});
        logit_rows<float> const drafts(rows_view<float>(batch.draft.data() + batch.offsets[1] * 300, 5, 300), {});
        auto const v =
            verify::verify_tree(verifier, g, drafted<law::iid>{batch.trees()(1)}, target_rows(rows), draft_rows(drafts),
                                source, batch.positions[1], span<node_id>(path), span<std::byte>(scratch));
        EXPECT_EQ(v.next, none);
        EXPECT_EQ(v.accepted, 0);
        EXPECT_EQ(path, std::vector<node_id>(6, -7));
    };
    check(verify::recursive_rejection<law::iid>{});
    check(verify::block<law::iid>{});
    check(verify::traversal<law::iid>{});
    check(verify::multi_path_block{});
    check(verify::k_seq<law::iid>{});
    check(verify::ranked_block<law::iid>{});
    check(lossy::rollback<law::iid>{1000.0F});
}

// --- Scratch and shapes

/// A minimal verifier of whole trees: the leader counts for each node the candidates that the target prefers to the
/// root's most likely token, with one counter per node in scratch; all lanes go to the child with the most.
struct counting {
    using law = multidraft::law::sequential;
    static constexpr multidraft::verify::verifier_traits traits{.lossless = false};
    static constexpr std::size_t scratch_bytes(node_id nodes, std::int32_t depth) {
        return static_cast<std::size_t>(nodes) * sizeof(std::int32_t) + static_cast<std::size_t>(depth) * 2;
    }

    template <group G, draft_law Law, class Target, class Draft, draw_source Source>
    verdict operator()(G const& g, drafted<Law> const& tree, target_rows<Target> const& rows, draft_rows<Draft> const&,
                       Source& source, std::int32_t position, span<node_id> path, span<std::byte> scratch) const {
        auto const& target = rows.rows;
        auto const nodes = tree.tree.size();
        auto* const counts = reinterpret_cast<std::int32_t*>(scratch.data());
        for (node_id v = 0; v < nodes; ++v) {
            auto const p = target(g, v);
            index_t const best = g.argmax(p.size(), weight_of{p});
            if (g.leader()) {
                counts[v] = best % 7;
                for (node_id up = tree.tree.parents[static_cast<std::size_t>(v)]; up >= 0;
                     up = tree.tree.parents[static_cast<std::size_t>(up)])
                    counts[up] += best % 7;
            }
        }
        g.barrier();
        verdict result;
        node_id node = 0;
        for (auto children = tree.tree.children(0); !children.empty(); children = tree.tree.children(node)) {
            node = children.first;
            for (node_id v = children.first; v < children.end(); ++v)
                if (counts[v] > counts[node]) node = v;
            if (g.leader()) path[static_cast<std::size_t>(result.accepted)] = node;
            ++result.accepted;
        }
        g.barrier();
        result.next = verify::emit(g, target(g, node), source, draw_site{position, node});
        return result;
    }
};

TEST_F(simt_batch, verifiers_of_whole_trees_work_in_scratch) {
    static_assert(verify::needs_scratch<counting>);
    mt::batch<float> const batch(300, {});
    std::size_t const each = verify::scratch_bytes<counting>(10, static_cast<std::int32_t>(batch.path_stride));
    ASSERT_EQ(each % 16, 0U);
    std::vector<std::byte> memory(each * static_cast<std::size_t>(batch.size()), std::byte{0x5a});
    auto const slice = [&](std::int32_t b) {
        return span<std::byte>(memory.data() + each * static_cast<std::size_t>(b), each);
    };
    auto const run = [&](auto const& runner) {
        mt::verdicts result(batch.size(), batch.path_stride);
        for (std::int32_t b = 0; b < batch.size(); ++b)
            runner([&](auto const& g) {
                md::verify_request(g, counting{}, b, drawn_by<law::sequential>(batch.trees()), batch.target_logits(),
                                   batch.draft_logits(), batch.requests(), result.view(), slice(b));
            });
        return result;
    };
    auto const expected = run([](auto const& body) { body(mt::silent_group{}); });
    EXPECT_GT(*std::max_element(expected.accepted.begin(), expected.accepted.end()), 1);
    auto const block = run([](auto const& body) { mt::on_group<64, 2>(1, body); });
    auto const cluster = run([](auto const& body) { mt::on_group<32, 1>(4, body); });
    for (auto const& got : {block, cluster}) {
        EXPECT_EQ(got.accepted, expected.accepted);
        EXPECT_EQ(got.next, expected.next);
        EXPECT_EQ(got.path, expected.path);
    }
    // Too little scratch, or none.
    for (std::size_t const size : {std::size_t{0}, std::size_t{32}}) {
        mt::verdicts result(batch.size(), batch.path_stride);
        md::verify_request(host_group{}, counting{}, 0, drawn_by<law::sequential>(batch.trees()), batch.target_logits(),
                           batch.draft_logits(), batch.requests(), result.view(), slice(0).first(size));
        EXPECT_EQ(result.next[0], none);
        EXPECT_EQ(result.accepted[0], 0);
    }
}

// The choices of `detail::choose_shape`, on an H200 (132 multiprocessors) and on a device without clusters (108).
TEST(simt_shape, spreads_rows_over_a_device) {
    using mc::detail::choose_shape;
    auto const expect = [](mc::detail::shape const& s, int ranks, bool split, bool grid) {
        EXPECT_EQ(s.ranks, ranks);
        EXPECT_EQ(s.split, split);
        EXPECT_EQ(s.grid, grid);
    };
    expect(choose_shape(1, 128256, 132, 8, 128), 8, true, false);
    expect(choose_shape(1, 128256, 132, 16, 128), 16, true, false);
    expect(choose_shape(8, 128256, 132, 8, 128), 8, true, false);
    expect(choose_shape(64, 128256, 132, 8, 128), 2, false, false);
    expect(choose_shape(256, 128256, 132, 8, 128), 1, false, false);
    expect(choose_shape(256, 1000, 132, 8, 128), 1, true, false);
    // At least one chunk per block; several warps per chunk if they can then sum all chunks at once.
    expect(choose_shape(1, 32000, 132, 8, 128), 8, true, false);
    expect(choose_shape(1, 16000, 132, 8, 128), 4, true, false);
    expect(choose_shape(1, 151936, 132, 8, 128), 8, false, false);
    expect(choose_shape(1, 151936, 132, 16, 128), 16, true, false);
    // Long rows, with and without memory for the exchange between blocks of a grid.
    expect(choose_shape(1, 262144, 132, 8, 128), 32, true, true);
    expect(choose_shape(1, 1 << 20, 132, 8, 128), 128, true, true);
    expect(choose_shape(2, 1 << 20, 132, 8, 128), 66, true, true);
    expect(choose_shape(9, 1 << 20, 132, 8, 128), 8, false, false);
    expect(choose_shape(1, 1 << 20, 132, 8, 1), 8, false, false);
    // No clusters.
    expect(choose_shape(1, 128256, 108, 1, 128), 16, true, true);
    expect(choose_shape(8, 128256, 108, 1, 128), 13, true, true);
    expect(choose_shape(1, 20000, 108, 1, 128), 1, false, false);
    expect(choose_shape(64, 128256, 108, 1, 128), 1, false, false);
    // At most as many blocks as are resident on the device at once, at least one.
    for (std::int64_t const batch : {1, 2, 3, 5, 8, 9, 33, 66, 67, 132, 133, 4096})
        for (index_t const n : {1, 4096, 4097, 32000, 128256, 151936, 5000000})
            for (int const multiprocessors : {1, 20, 108, 132, 148}) {
                auto const s = choose_shape(batch, n, multiprocessors, 16, 128);
                ASSERT_GE(s.ranks, 1);
                ASSERT_LE(s.ranks, s.grid ? 128 : 16);
                ASSERT_TRUE(s.ranks == 1 || s.ranks * batch <= multiprocessors) << batch << ' ' << n;
            }
}

TEST(simt_shape, prefetches_rows_for_few_requests) {
    using mc::detail::prefetched_rows;
    EXPECT_EQ(prefetched_rows(1, {}), 4);
    EXPECT_EQ(prefetched_rows(2, {}), 4);
    EXPECT_EQ(prefetched_rows(3, {}), 2);
    EXPECT_EQ(prefetched_rows(8, {}), 1);
    EXPECT_EQ(prefetched_rows(9, {}), 0);
    EXPECT_EQ(prefetched_rows(0, {}), 0);
    EXPECT_EQ(prefetched_rows(1, {.max_prefetched_rows = 0}), 0);
    EXPECT_EQ(prefetched_rows(1, {.max_prefetched_rows = 1}), 1);
    EXPECT_EQ(prefetched_rows(1, {.max_prefetched_rows = 20}), 8);
}

// --- Validation: each fault by its name, index and value; the first of several.

/// The report of a batch, gathered as the launches do.
template <class Law = law::iid>
validation_report report_of(mt::batch<float> const& batch) {
    auto const drafts = drawn_by<Law>(batch.trees());
    md::fault_key smallest = md::no_fault;
    auto const offer = [&](std::int32_t b, md::batch_fault const& f) {
        smallest = std::min(smallest, md::key_of(b, f));
    };
    for (std::int32_t b = 0; b < batch.size(); ++b) {
        offer(b, md::check_request(batch.trees(), batch.requests(), batch.target_logits().rows,
                                   batch.draft_logits().rows, b));
        if (!md::offsets_are_valid(batch.trees(), b)) continue;
        auto const at = static_cast<std::size_t>(b);
        for (std::int64_t v = 0; v < batch.offsets[at + 1] - batch.offsets[at]; ++v) {
            auto const node = static_cast<node_id>(v);
            offer(b, md::check_node(drafts, {}, batch.vocabulary, b, node));
            md::batch_fault row;
            mt::on_group<32, 1>(1, [&](auto const& g) {
                row = md::check_row(g, batch.trees(), batch.target_logits().rows, batch_argument::target, b, node);
            });
            offer(b, row);
        }
    }
    validation_report report;
    mt::on_group<32, 1>(1, [&](auto const& g) {
        auto const found = md::report_of(g, drafts, {}, batch.target_logits().rows, batch.draft_logits().rows,
                                         batch.requests(), smallest);
        if (g.leader()) report = found;
    });
    return report;
}

TEST(simt_validation, names_the_first_fault) {
    mt::batch<float> const good(300, {});
    EXPECT_EQ(report_of(good).what, batch_argument::nothing);
    auto const expect = [&](auto const& spoil, batch_argument what, std::int32_t request, std::int64_t index,
                            double value) {
        mt::batch<float> bad = good;
        spoil(bad);
        auto const report = report_of(bad);
        EXPECT_EQ(report.what, what) << name_of(report.what);
        EXPECT_EQ(report.request, request) << name_of(what);
        EXPECT_EQ(report.index, index) << name_of(what);
        EXPECT_TRUE(report.value == value || (value != value && report.value != report.value)) << report.value;
        try {
            refuse_reported(report);
            ADD_FAILURE() << name_of(what);
        } catch (invalid_input const& e) {
            EXPECT_EQ(e.argument(), name_of(what));
        }
    };
    using batch = mt::batch<float>;
    expect([](batch& b) { b.offsets[0] = 3; }, batch_argument::offsets, 0, 0, 3);
    expect([](batch& b) { b.positions[2] = -4; }, batch_argument::positions, 2, 2, -4);
    expect([](batch& b) { b.w.temperature = -1; }, batch_argument::target_temperature, 0, 0, -1);
    expect([](batch& b) { b.w.top_p = 0; }, batch_argument::target_top_p, 0, 0, 0);
    expect([](batch& b) { b.parents[12] = 4; }, batch_argument::parents, 1, 2, 4);
    expect([](batch& b) { b.parents[10] = 0; }, batch_argument::parents, 1, 0, 0);
    expect([](batch& b) { b.tokens[7] = 300; }, batch_argument::tokens, 0, 7, 300);
    expect([](batch& b) { b.tokens[1] = none; }, batch_argument::tokens, 0, 1, none);
    float const nan = std::numeric_limits<float>::quiet_NaN();
    expect([nan](batch& b) { b.target[11 * 300 + 7] = nan; }, batch_argument::target, 1, 1,
           std::numeric_limits<double>::quiet_NaN());
    expect(
        [](batch& b) {
            b.target[299] = std::numeric_limits<float>::infinity();
            b.tokens[16] = -9;
        },
        batch_argument::target, 0, 0, std::numeric_limits<double>::infinity());
    try {
        refuse_reported({batch_argument::arithmetic, 0, 0, none, static_cast<double>(arithmetic_fault::subnormals)});
        ADD_FAILURE();
    } catch (invalid_input const& e) {
        EXPECT_EQ(e.argument(), "arithmetic");
        EXPECT_NE(std::string(e.what()).find("flushed to zero"), std::string::npos) << e.what();
    }
    // The last child of a node may be missing.
    mt::batch<float> missing = good;
    missing.tokens[4] = padding;
    EXPECT_EQ(report_of(missing).what, batch_argument::nothing);
    missing.tokens[4] = none;
    EXPECT_EQ(report_of(missing).what, batch_argument::absent);
}

// The conditions of laws on children; none for those below a child that could not be drawn.
TEST(simt_validation, asks_of_children_what_their_law_gives) {
    mt::batch<float> drawn(300, {});
    drawn.draft_on_host(draft::sequential{});
    EXPECT_EQ(report_of<law::sequential>(drawn).what, batch_argument::nothing);
    EXPECT_EQ(report_of<law::stratified>(drawn).what, batch_argument::nothing);

    auto again = drawn;
    again.tokens[4] = again.tokens[2];
    EXPECT_EQ(report_of<law::iid>(again).what, batch_argument::nothing);
    auto report = report_of<law::sequential>(again);
    EXPECT_EQ(report.what, batch_argument::tokens);
    EXPECT_EQ(report.request, 0);
    EXPECT_EQ(report.index, 4);
    EXPECT_EQ(report.value, again.tokens[2]);

    auto certain = drawn;
    certain.certain[11] = 2;  // of one child
    EXPECT_EQ(report_of<law::sequential>(certain).what, batch_argument::nothing);
    report = report_of<law::stratified>(certain);
    EXPECT_EQ(report.what, batch_argument::certain);
    EXPECT_EQ(report.request, 1);
    EXPECT_EQ(report.index, 1);
    EXPECT_EQ(report.value, 2);
    EXPECT_THROW(refuse_reported(report), invalid_input);

    // Nodes 3 and 4 of request 3 are children of node 1, which is absent, as is node 2.
    auto absent = drawn;
    std::size_t const first = 16;
    absent.tokens[first + 1] = absent.tokens[first + 2] = padding;
    absent.tokens[first + 3] = absent.tokens[first + 4] = 7;
    absent.certain[first + 1] = 5;
    EXPECT_EQ(report_of<law::sequential>(absent).what, batch_argument::nothing);
    EXPECT_EQ(report_of<law::stratified>(absent).what, batch_argument::nothing);
}

TEST(simt_masks, are_those_of_the_host) {
    auto const trees = mt::random_trees({1, 5, 64, 65, 200, 1}, 3);
    auto const nodes = trees.offsets.back();
    std::int64_t const row_words = 5;
    std::vector<std::uint64_t> words(static_cast<std::size_t>(nodes * row_words), 99);
    md::write_packed_word<std::uint64_t> const packed{trees.view(), words.data(), row_words};
    for (std::int64_t k = 0; k < nodes * row_words; ++k) packed(k);
    std::vector<std::int32_t> const bases{5, 0, 100, 7, 9, 1};
    std::vector<std::int32_t> positions(static_cast<std::size_t>(nodes));
    md::write_position<std::int32_t> const position{trees.view(), bases.data(), positions.data()};
    for (std::int64_t k = 0; k < nodes; ++k) position(k);

    std::vector<std::int64_t> const contexts{3, 0, 17, 2, 1, 0};
    std::int64_t const columns = 221;
    for (std::int64_t const stride : {columns, std::int64_t{224}}) {
        std::vector<std::uint8_t> dense(static_cast<std::size_t>(nodes * stride) + 16, 7);
        auto* const data =
            reinterpret_cast<std::uint8_t*>((reinterpret_cast<std::uintptr_t>(dense.data()) + 15) / 16 * 16);
        std::int64_t const runs = (columns + 15) / 16;
        md::write_dense_run<std::uint8_t> const run{
            trees.view(), words.data(), row_words, {data, columns, stride, contexts.data()}, runs, 1, 0};
        for (std::int64_t k = 0; k < nodes * runs; ++k) run(k);
        for (std::size_t b = 0; b + 1 < trees.offsets.size(); ++b) {
            std::int64_t const begin = trees.offsets[b];
            auto const n = static_cast<std::size_t>(trees.offsets[b + 1] - begin);
            span<node_id const> const parents(trees.parents.data() + begin, n);
            auto const shape = topology::from_parents(parents);
            ancestor_mask const mask(parents);
            for (node_id i = 0; i < shape.size(); ++i) {
                std::int64_t const row = begin + i;
                ASSERT_EQ(positions[static_cast<std::size_t>(row)], bases[b] + shape.depth(i));
                for (node_id j = 0; j < row_words * 64; ++j) {
                    bool const expected = j < shape.size() && mask.view()(i, j);
                    bool const got =
                        ((words[static_cast<std::size_t>(row * row_words + j / 64)] >> (j % 64)) & 1U) != 0;
                    ASSERT_EQ(got, expected) << b << ' ' << i << ' ' << j;
                }
                for (std::int64_t c = 0; c < stride; ++c) {
                    std::int64_t const j = c - contexts[b];
                    int const expected = c >= columns                                                             ? 7
                                         : j < 0 || (j < shape.size() && mask.view()(i, static_cast<node_id>(j))) ? 1
                                                                                                                  : 0;
                    ASSERT_EQ(static_cast<int>(data[row * stride + c]), expected) << b << ' ' << i << ' ' << c;
                }
            }
        }
    }
}

template <class Piece, class Cache>
void run_pieces(Cache const& cache, kept_batch const& kept) {
    std::int64_t planes = 1;
    for (auto const& axis : cache.axes) planes *= axis.count;
    std::int64_t const pieces = cache.entry_bytes / static_cast<std::int64_t>(sizeof(Piece));
    md::compact_piece<Piece, Cache> const body{cache, kept, pieces, planes};
    for (std::int64_t k = 0; k < pieces * planes * kept.requests; ++k) body(k);
}

TEST(simt_compaction, moves_what_the_host_moves) {
    constexpr std::int64_t entries = 40;
    constexpr std::int64_t entry = 32;
    constexpr std::int64_t plane = entries * entry;
    std::vector<node_id> const nodes{1, 2, 3, 4, 5, 6, 2, 5, 9, 10, 11, 20, 3, 0, 0, 0, 0, 0};
    std::vector<std::int32_t> const counts{6, 6, 1};
    std::vector<std::int64_t> const bases{4, 0, 10};
    kept_batch const kept{3, nodes.data(), 6, counts.data(), bases.data(), 1};

    alignas(16) static std::uint8_t bytes[3 * 2 * plane];
    std::vector<std::uint8_t> initial(sizeof(bytes));
    for (std::size_t i = 0; i < initial.size(); ++i) initial[i] = static_cast<std::uint8_t>(i * 31 + i / 251);
    auto const expect = [&](std::int64_t b, std::int64_t p, std::int64_t t, auto const& address) {
        auto const c = static_cast<std::size_t>(counts[static_cast<std::size_t>(b)]);
        std::int64_t const base = bases[static_cast<std::size_t>(b)];
        std::int64_t from = t;
        if (t > base && t <= base + static_cast<std::int64_t>(c))
            from = base + nodes[static_cast<std::size_t>(b * 6 + t - base - 1)];
        if (t > base + static_cast<std::int64_t>(c)) return;  // past the new length: unspecified
        for (std::int64_t k = 0; k < entry; ++k)
            ASSERT_EQ(bytes[address(b, p, t) + k], initial[static_cast<std::size_t>(address(b, p, from) + k)])
                << b << ' ' << p << ' ' << t;
    };
    auto const check = [&](auto const& cache, auto const& address) {
        auto const once = [&](auto piece) {
            std::copy(initial.begin(), initial.end(), bytes);
            run_pieces<decltype(piece)>(cache, kept);
            for (std::int64_t b = 0; b < 3; ++b)
                for (std::int64_t p = 0; p < 2; ++p)
                    for (std::int64_t t = 0; t < entries; ++t) expect(b, p, t, address);
        };
        once(md::bytes_16{});
        once(std::uint32_t{});
        once(std::uint8_t{});
    };
    contiguous_cache flat;
    flat.data = bytes;
    flat.request_stride = 2 * plane;
    flat.entry_stride = entry;
    flat.entry_bytes = entry;
    flat.axes[1] = {2, plane};
    check(flat, [](std::int64_t b, std::int64_t p, std::int64_t t) { return b * 2 * plane + p * plane + t * entry; });

    // Pages of 8 entries, both planes in one page, pages in any order.
    std::vector<std::int32_t> const table{14, 3, 0, 7, 9, 1, 2, 13, 4, 5, 6, 8, 10, 11, 12};
    paged_cache paged;
    paged.data = bytes;
    paged.pages.table = table.data();
    paged.pages.table_stride = 5;
    paged.pages.entries = 8;
    paged.pages.page_stride = 2 * 8 * entry;
    paged.entry_stride = entry;
    paged.entry_bytes = entry;
    paged.axes[0] = {2, 8 * entry};
    check(paged, [&](std::int64_t b, std::int64_t p, std::int64_t t) {
        return table[static_cast<std::size_t>(b * 5 + t / 8)] * 2 * 8 * entry + p * 8 * entry + t % 8 * entry;
    });
}

}  // namespace
}  // namespace batch_test
