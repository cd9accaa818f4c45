// Calls of an engine that look right and are not: each is refused with the argument's name, or reported, before the
// text loses its law or memory is read that is not there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "batch/ragged.hpp"
#include "multidraft/batch/compact_caches.hpp"
#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/masks.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/validate.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/top_paired.hpp"
#include "multidraft/draft/top_then_one.hpp"
#include "multidraft/methods/any_method_batch.hpp"
#include "multidraft/tree/absent_tokens.hpp"
#include "multidraft/verify/block.hpp"
#include "multidraft/verify/greedy_optimal.hpp"
#include "multidraft/verify/multi_path_block.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/spec_hub.hpp"
#include "multidraft/verify/traversal.hpp"
#include "support/refusal.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {
namespace mistakes_test {
namespace {

using rejection = verify::recursive_rejection<law::sequential>;

/// Three trees of two levels over 300 tokens.
ragged<float> three_trees() {
    ragged<float> b({{none, 0, 0, 1, 1, 2}, {none, 0, 0, 0, 1}, {none, 0, 0}}, 300, {{}});
    b.draw_alone(draft::sequential{});
    return b;
}

template <class Verifier = rejection, class T, class Target, class Draft>
std::string verification(ragged<T> const& b, Target const& p, Draft const& q, request_batch const& requests,
                         Verifier const& verifier = {}) {
    verdict_memory out(b.trees(), 0);
    verify::scratch_memory memory;
    host_threads const pool(2);
    std::string const result = refusal([&] {
        verify_batch(pool, verifier, drawn_by<typename Verifier::law>(b.trees()), target_rows(p), draft_rows(q),
                     requests, out.view(), memory.of(verify_workspace_size<Verifier>(pool, b.size(), 10, 9)));
    });
    EXPECT_EQ(out.is_unwritten(), result != "nothing was thrown") << result;
    return result;
}
template <class Verifier = rejection, class T>
std::string verification(ragged<T> const& b, Verifier const& verifier = {}) {
    return verification(b, b.target_logits(), b.draft_logits(), b.requests(), verifier);
}

template <class Verifier = rejection, class T, class Draft>
validation_report validation(ragged<T> const& b, Draft const& q, Verifier const& verifier = {}) {
    validation_report report;
    validate_batch(host_threads(2), verifier, drawn_by<typename Verifier::law>(b.trees()),
                   target_rows(b.target_logits()), draft_rows(q), b.requests(), &report);
    return report;
}

// --- Children that were drawn and left out ---------------------------------------------------------------------------

TEST(batch_mistakes, a_child_that_was_drawn_is_not_left_out) {
    auto b = three_trees();
    b.tokens[2] = none;  // the second child of the first root: the draft was not confident enough
    EXPECT_EQ(verification(b),
              "tokens[2] = -1: no child, and no reason: support_ended where no token was left to draw, padding outside "
              "the shape; a child that was drawn is never left out, request 0");
    // Below an absent child anything may stand.
    b.tokens[2] = padding;
    b.tokens[5] = none;
    EXPECT_EQ(verification(b), "nothing was thrown");
    // Naive verification does not depend on what was drafted.
    b.tokens[2] = none;
    EXPECT_EQ(verification(b, verify::naive<law::sequential>{}), "nothing was thrown");
    // In a launch, which checks nothing beforehand, the request gets no token.
    verdict_memory out(b.trees(), 0);
    for (std::int32_t r = 0; r < 3; ++r)
        multidraft::detail::verify_request(multidraft::detail::host_batch_group{}, rejection{}, r,
                                           drawn_by<law::sequential>(b.trees()), target_rows(b.target_logits()),
                                           draft_rows(b.draft_logits()), b.requests(), out.view());
    EXPECT_EQ(out.next[0], none);
    EXPECT_NE(out.next[1], none);
    EXPECT_NE(out.next[2], none);
}

TEST(batch_mistakes, a_support_that_did_not_end_is_reported) {
    auto b = three_trees();
    b.tokens[2] = support_ended;
    EXPECT_EQ(verification(b), "nothing was thrown") << "rows are not read for this";
    auto const report = validation(b, b.draft_logits());
    EXPECT_EQ(report.what, batch_argument::left_out);
    EXPECT_EQ(report.request, 0);
    EXPECT_EQ(report.index, 2);
    EXPECT_EQ(refusal([&] { refuse_reported(report); }),
              "tokens[2] = -2: the draft's row has more tokens to draw: a child that was drawn is never left out, "
              "request 0");
    EXPECT_EQ(validation(b, b.draft_logits(), verify::naive<law::sequential>{}).what, batch_argument::nothing);
}

/// Every sampler's own trees pass, with supports that end: top-k of two, and temperature 0.
template <class Sampler, class Verifier>
void expect_own_trees_pass() {
    for (sampling_params const w : {sampling_params{.top_k = 2}, sampling_params{.top_p = 0.05F},
                                    sampling_params{.temperature = 0.0F}, sampling_params{}}) {
        ragged<float> b({{none, 0, 0, 0, 1, 1, 2}, {none, 0, 0, 0, 1, 1, 1}, {none, 0, 0, 1, 2}}, 300, {w});
        b.draw_alone(Sampler{});
        auto const report = validation(b, b.draft_logits(), Verifier{});
        EXPECT_EQ(report.what, batch_argument::nothing) << name_of(report.what) << report.index;
    }
}
TEST(batch_mistakes, own_trees_pass) {
    expect_own_trees_pass<draft::sequential, rejection>();
    expect_own_trees_pass<draft::iid, verify::recursive_rejection<law::iid>>();
    expect_own_trees_pass<draft::stratified, verify::ranked_block<law::stratified>>();
}

// --- Rows that the children were not drawn from ----------------------------------------------------------------------

TEST(batch_mistakes, other_sampling_parameters_than_those_of_the_draws_are_reported) {
    auto b = three_trees();
    auto q = b.draft_logits();
    q.sampling = nullptr;
    q.default_sampling.top_k = 1;
    verdict_memory out(b.trees(), 0);
    verify_batch(host_threads(1), rejection{}, drawn_by<law::sequential>(b.trees()), target_rows(b.target_logits()),
                 draft_rows(q), b.requests(), out.view());
    EXPECT_GT(undecided(out.view(), 3), 0);
    EXPECT_EQ(undecided(out.view(), 3), std::count(out.next.begin(), out.next.end(), none));
    auto const report = validation(b, q);
    EXPECT_EQ(report.what, batch_argument::not_drawn);
    EXPECT_EQ(refusal([&] { refuse_reported(report); }),
              "tokens[" + std::to_string(report.index) + "] = " +
                  std::to_string(b.tokens[static_cast<std::size_t>(b.offsets[static_cast<std::size_t>(report.request)] +
                                                                   report.index)]) +
                  ": the draft's row gives this child no mass: it was not drawn from it, or with other sampling "
                  "parameters, masks or bias, request " +
                  std::to_string(report.request));
    EXPECT_EQ(validation(b, b.draft_logits()).what, batch_argument::nothing);
}

// --- Shapes that a verifier does not take ----------------------------------------------------------------------------

TEST(batch_mistakes, other_shapes_than_the_verifier_takes_are_refused) {
    ragged<float> b({{none, 0, 1}, {none, 0, 0, 1}}, 300, {{}});
    b.draw_alone(draft::iid{});
    std::string const reason = ": the verifier does not take a tree with this node";
    EXPECT_EQ(verification(b, verify::block<law::iid>{}).substr(0, 61), "parents[2] = 0" + reason.substr(0, 47));
    EXPECT_EQ(validation(b, b.draft_logits(), verify::block<law::iid>{}).what, batch_argument::shape);
    EXPECT_EQ(validation(b, b.draft_logits(), verify::block<law::iid>{}).request, 1);
    EXPECT_EQ(validation(b, b.draft_logits(), verify::multi_path_block{}).index, 3);
    EXPECT_EQ(validation(b, b.draft_logits(), verify::traversal<law::iid>{}).what, batch_argument::nothing);
    EXPECT_EQ(first_not_allowed({std::vector<node_id>{none, 0, 0, 0}, {}}, allowed_trees::pairs), 3);
    EXPECT_EQ(first_not_allowed({std::vector<node_id>{none, 0, 0, 1, 2}, {}}, allowed_trees::forks), none);
    EXPECT_EQ(first_not_allowed({std::vector<node_id>{none, 0, 0, 1}, {}}, allowed_trees::forks), 3);
    EXPECT_EQ(first_not_allowed({std::vector<node_id>{none}, {}}, allowed_trees::forks), none);
    EXPECT_EQ(first_not_allowed({std::vector<node_id>{none, 0, 1}, {}}, allowed_trees::chains), none);
}

TEST(batch_mistakes, a_node_has_as_many_children_as_the_verifier_takes) {
    ragged<float> b({{none, 0, 0, 0}, {none, 0, 0, 0, 1}}, 300, {{}});
    b.draw_alone(draft::iid{});
    tree_rules const two{.most_children = 2};
    validation_report report;
    validate_batch(host_threads(1), two, drawn_by<law::iid>(b.trees()), target_rows(b.target_logits()),
                   draft_rows(b.draft_logits()), b.requests(), &report);
    EXPECT_EQ(report.what, batch_argument::shape);
    EXPECT_EQ(report.request, 0);
    EXPECT_EQ(report.index, 3);
    validate_batch(host_threads(1), tree_rules{.most_children = 3}, drawn_by<law::iid>(b.trees()),
                   target_rows(b.target_logits()), draft_rows(b.draft_logits()), b.requests(), &report);
    EXPECT_EQ(report.what, batch_argument::nothing);
    EXPECT_EQ(rules_of<rejection>().most_children, 0);
    EXPECT_EQ(rules_of<verify::recursive_rejection<law::iid>>().most_children, 0);
}

// The verifiers that take one draw of a node say so before they decide.
TEST(batch_mistakes, a_node_has_as_many_draws_as_the_verifier_takes) {
    using greedy = verify::greedy_optimal<law::top_then_one>;
    std::string const reason =
        ": the first children of a node are certain: no more than there are, different tokens, none drawn again; "
        "greedy-optimal verification takes one draw at most, SpecHub and block verification one, request ";
    ragged<float> b({{none, 0, 0}, {none, 0, 0, 1, 1}}, 300, {{}});
    b.draw_alone(draft::top_then_one{});
    EXPECT_EQ(verification(b, greedy{}), "nothing was thrown");
    EXPECT_EQ(validation(b, b.draft_logits(), greedy{}).what, batch_argument::nothing);
    b.certain[3] = 0;  // the root of the second tree
    EXPECT_EQ(verification(b, greedy{}), "certain[0] = 0" + reason + "1");
    EXPECT_EQ(validation(b, b.draft_logits(), greedy{}).what, batch_argument::certain);
    EXPECT_EQ(verification(b, verify::naive<law::top_then_one>{}), "nothing was thrown");
    b.certain[3] = 2;  // nothing was left to draw
    EXPECT_EQ(verification(b, greedy{}), "nothing was thrown");

    using hub = verify::spec_hub<law::top_paired>;
    b.draw_alone(draft::top_paired{});
    EXPECT_EQ(validation(b, b.draft_logits(), hub{}).what, batch_argument::nothing);
    b.certain[0] = 0;
    EXPECT_EQ(verification(b, hub{}), "certain[0] = 0" + reason + "0");
    b.certain[0] = 2;
    EXPECT_EQ(verification(b, hub{}), "certain[0] = 2" + reason + "0");

    ragged<float> chain({{none, 0, 1}}, 300, {{}});
    chain.draw_alone(draft::stratified{});
    EXPECT_EQ(verification(chain, verify::block<law::stratified>{}), "nothing was thrown");
    chain.certain[1] = 1;
    EXPECT_EQ(verification(chain, verify::block<law::stratified>{}), "certain[1] = 1" + reason + "0");
    EXPECT_EQ(verification(chain, verify::ranked_block<law::stratified>{}), "nothing was thrown");
}

TEST(batch_mistakes, a_pair_of_spec_hub_begins_with_the_likeliest_token) {
    using hub = verify::spec_hub<law::top_paired>;
    ragged<float> b({{none, 0, 0}, {none, 0, 0}}, 300, {{}});
    b.draw_alone(draft::top_paired{});
    std::swap(b.tokens[4], b.tokens[5]);
    auto const report = validation(b, b.draft_logits(), hub{});
    EXPECT_EQ(report.what, batch_argument::order);
    EXPECT_EQ(refusal([&] { refuse_reported(report); }),
              "tokens[1] = " + std::to_string(b.tokens[4]) +
                  ": of a pair of SpecHub the first token is the most likely one, request 1");
    EXPECT_EQ(verification(b, hub{}), "nothing was thrown") << "rows are not read for this";
    EXPECT_EQ(validation(b, b.draft_logits(), verify::naive<law::top_paired>{}).what, batch_argument::nothing);
}

// Engines and `batch_step` verify the requests of one method as a part of a batch.
TEST(batch_mistakes, a_part_of_a_batch_has_the_numbers_of_the_batch) {
    auto b = three_trees();
    auto trees = b.trees();
    trees.first_request = 5;
    verdict_memory out(b.trees(), 0);
    auto const refused = [&] {
        return refusal([&] {
            verify_batch(host_threads(1), rejection{}, drawn_by<law::sequential>(trees), target_rows(b.target_logits()),
                         draft_rows(b.draft_logits()), b.requests(), out.view());
        });
    };
    auto const token = static_cast<std::size_t>(trees.offsets[1]) + 2;
    b.tokens[token] = 300;
    EXPECT_EQ(refused().substr(0, 17), "tokens[2] = 300: ");
    EXPECT_EQ(refused().substr(refused().size() - 11), ", request 6");
    b.positions[1] = -1;
    EXPECT_EQ(refused(), "positions[6] = -1: a position is not negative, request 6");
}

// --- Requests that would get the same draws --------------------------------------------------------------------------

TEST(batch_mistakes, equal_seeds_and_positions_need_ids) {
    auto b = three_trees();
    std::fill(b.seeds.begin(), b.seeds.end(), 42);
    std::fill(b.positions.begin(), b.positions.end(), 9);
    auto const run = [&](request_batch const& requests) {
        return verification(b, b.target_logits(), b.draft_logits(), requests, verify::naive<law::sequential>{});
    };
    EXPECT_EQ(
        run({b.seeds.data(), b.positions.data()}),
        "seeds[1] = 42: another request of the batch has this seed and position, and would get the same draws: give "
        "ids (equal ones where that is meant), request 1");
    EXPECT_EQ(run(b.requests()), "nothing was thrown");
    std::vector<std::uint32_t> const equal(3, 5);
    EXPECT_EQ(run({b.seeds.data(), b.positions.data(), equal.data()}), "nothing was thrown") << "it is meant";
    b.positions = {9, 10, 11};
    EXPECT_EQ(run({b.seeds.data(), b.positions.data()}), "nothing was thrown");
    b.positions = {9, 10, 9};
    b.seeds[0] = 41;
    EXPECT_EQ(run({b.seeds.data(), b.positions.data()}), "nothing was thrown");
}

// --- Strides and sizes -----------------------------------------------------------------------------------------------

TEST(batch_mistakes, rows_lie_one_after_another_unless_a_stride_is_given) {
    auto const b = three_trees();
    auto p = b.target_logits();
    verdict_memory expected(b.trees(), 0);
    verdict_memory found(b.trees(), 0);
    auto const run = [&](verdict_memory& out) {
        verify_batch(host_threads(1), rejection{}, drawn_by<law::sequential>(b.trees()), target_rows(p),
                     draft_rows(b.draft_logits()), b.requests(), out.view());
    };
    run(expected);
    p.row_stride = 0;
    run(found);
    EXPECT_EQ(found.outcomes(b.trees()), expected.outcomes(b.trees()));
    p.row_stride = 299;
    EXPECT_EQ(verification(b, p, b.draft_logits(), b.requests()),
              "target.row_stride = 299: rows of 300 entries would overlap; 0: one after another");
    auto q = b.draft_logits();
    q.row_stride = -300;
    EXPECT_EQ(verification(b, b.target_logits(), q, b.requests()),
              "draft.row_stride = -300: rows of 300 entries would overlap; 0: one after another");
    EXPECT_EQ(refusal([&] { static_cast<void>(rows_view<float>(b.target.data(), 3, 300, 7)); }),
              "row_stride = 7: rows of 300 entries would overlap; 0: one after another");
}

TEST(batch_mistakes, masks_have_a_size) {
    auto const b = three_trees();
    std::vector<std::uint32_t> const words(40, ~0U);
    auto const run = [&](logit_adjustments const& adjustments) {
        return verification(b, adjusted_batch(b.target_logits(), adjustments), b.draft_logits(), b.requests());
    };
    EXPECT_EQ(run({.allowed = {words, 9}}), "target.allowed.tokens = 288: a mask has a bit for each of the 300 tokens");
    EXPECT_EQ(run({.allowed = {words, 10}}),
              "target.allowed_of[4] = 4: the mask of a node is one of those there are; without allowed_of node i has "
              "mask i, request 0");
    std::vector<std::int64_t> masks(b.parents.size(), 3);
    EXPECT_EQ(run({.allowed = {words, 10}, .allowed_of = masks.data()}), "nothing was thrown");
    masks[7] = 4;
    EXPECT_EQ(run({.allowed = {words, 10}, .allowed_of = masks.data()}),
              "target.allowed_of[1] = 4: the mask of a node is one of those there are; without allowed_of node i has "
              "mask i, request 1");
    EXPECT_EQ(run({.allowed = {words.data(), 1, 10}}), "nothing was thrown") << "one for all";
    EXPECT_EQ(run({.allowed = {words.data(), 1, 10}, .allowed_of = masks.data()}),
              "target.allowed_of[0] = 3: the mask of a node is one of those there are; without allowed_of node i has "
              "mask i, request 0")
        << "one, and an index of another";
    std::vector<token_id> const token{4};
    std::vector<float> const value{1.0F};
    EXPECT_EQ(run({.bias = {.tokens = token, .values = value}}), "nothing was thrown") << "one for all";
    EXPECT_NE(run({.bias = {.tokens = token, .values = value}, .bias_of = masks.data()}), "nothing was thrown");
}

TEST(batch_mistakes, a_verdict_at_offsets_is_kept_at_offsets) {
    std::vector<std::int64_t> const offsets{0, 3, 5};
    std::vector<node_id> const nodes{2, -7, -7, 1, -7};  // as `verify_batch` writes paths without a stride
    std::vector<std::int32_t> const counts{1, 1};
    std::vector<std::int64_t> const bases{0, 4};
    std::vector<std::int32_t> cache{10, 11, 12, 13, 20, 21, 22, 23};
    contiguous_cache view;
    view.data = cache.data();
    view.entry_stride = view.entry_bytes = 4;
    kept_batch kept{2, nodes.data(), 0, counts.data(), bases.data()};
    EXPECT_EQ(refusal([&] { compact_caches(host_threads(1), view, kept); }),
              "kept.stride = 0: all requests would keep the nodes of the first: give kept.offsets, the trees'");
    kept.offsets = offsets.data();
    compact_caches(host_threads(1), view, kept);
    EXPECT_EQ(cache, (std::vector<std::int32_t>{10, 12, 12, 13, 20, 21, 22, 23}));
}

TEST(batch_mistakes, a_cache_keeps_its_place_where_requests_come_and_go) {
    // Of three places the middle one is free: the requests of the step have the first and the last.
    std::vector<std::int32_t> const slots{2, 0};
    std::vector<node_id> const nodes{2, 3};
    std::vector<std::int32_t> const counts{1, 1};
    std::vector<std::int64_t> const bases{0, 0};
    std::vector<std::int32_t> cache{10, 11, 12, 13, 20, 21, 22, 23, 30, 31, 32, 33};
    contiguous_cache view;
    view.data = cache.data();
    view.request_stride = 16;
    view.entry_stride = view.entry_bytes = 4;
    kept_batch kept{2, nodes.data(), 1, counts.data(), bases.data()};
    kept.slot_of = slots.data();
    compact_caches(host_threads(2), view, kept);
    EXPECT_EQ(cache, (std::vector<std::int32_t>{10, 13, 12, 13, 20, 21, 22, 23, 30, 32, 32, 33}));
    std::vector<std::int32_t> const table{0, 1, 2};
    paged_cache pages;
    pages.data = cache.data();
    pages.pages = {table.data(), 1, 4, 16};
    pages.entry_stride = pages.entry_bytes = 4;
    cache = {10, 11, 12, 13, 20, 21, 22, 23, 30, 31, 32, 33};
    compact_caches(host_threads(1), pages, kept);
    EXPECT_EQ(cache, (std::vector<std::int32_t>{10, 13, 12, 13, 20, 21, 22, 23, 30, 32, 32, 33}));
}

TEST(batch_mistakes, entries_of_a_cache_do_not_share_bytes) {
    std::vector<node_id> const nodes{2, 3};
    std::vector<std::int32_t> const counts{1, 1};
    std::vector<std::int64_t> const bases{0, 1};
    std::vector<std::int32_t> const untouched{10, 11, 12, 13, 14, 15, 16, 17, 20, 21, 22, 23, 24, 25, 26, 27};
    auto cache = untouched;
    kept_batch const kept{2, nodes.data(), 1, counts.data(), bases.data()};
    auto const compacted = [&](auto view) {
        view.data = cache.data();
        return refusal([&] { compact_caches(host_threads(1), view, kept); });
    };
    std::string const reason = ": entries, planes, pages and requests do not share bytes";
    std::vector<std::int32_t> const table{0, 1};
    paged_cache pages;
    pages.entry_stride = pages.entry_bytes = 4;
    for (std::int64_t const stride : {0, 8, -12}) {
        pages.pages = {table.data(), 0, 4, stride};
        EXPECT_EQ(compacted(pages), "cache.pages.page_stride = " + std::to_string(stride) + reason);
    }
    contiguous_cache flat;
    flat.entry_stride = flat.entry_bytes = 4;
    for (std::int64_t const stride : {1, -3, 4, 7}) {
        flat.axes[1] = {2, stride};
        EXPECT_EQ(compacted(flat), "cache.axes[1] = " + std::to_string(stride) + reason);
    }
    flat.axes[1] = {};
    flat.request_stride = 4;
    EXPECT_EQ(compacted(flat), "cache.request_stride = 4" + reason);
    // Heads of two bytes, three to an entry that has room for two.
    flat.request_stride = 32;
    flat.entry_bytes = 2;
    flat.axes[0] = {3, 2};
    EXPECT_EQ(compacted(flat), "cache.entry_stride = 4" + reason);
    EXPECT_EQ(cache, untouched);
    // The planes inside of the entries, and entries of several requests side by side.
    flat.axes[0] = {2, 2};
    flat.entry_stride = 8;
    flat.request_stride = 4;
    EXPECT_EQ(compacted(flat), "nothing was thrown");
    EXPECT_EQ(cache, (std::vector<std::int32_t>{10, 11, 14, 13, 14, 21, 16, 17, 20, 21, 22, 23, 24, 25, 26, 27}));
}

TEST(batch_mistakes, kept_nodes_rise_and_have_room) {
    std::vector<node_id> nodes{1, 3, 2, 4};
    std::vector<std::int32_t> counts{2, 2};
    std::vector<std::int64_t> bases{0, 0};
    std::vector<std::int32_t> slots{0, 1};
    std::vector<std::int32_t> cache{10, 11, 12, 13, 14, 20, 21, 22, 23, 24};
    auto const untouched = cache;
    contiguous_cache view;
    view.data = cache.data();
    view.request_stride = 20;
    view.entry_stride = view.entry_bytes = 4;
    kept_batch kept{2, nodes.data(), 2, counts.data(), bases.data()};
    kept.slot_of = slots.data();
    auto const refused = [&] { return refusal([&] { compact_caches(host_threads(1), view, kept); }); };
    kept.stride = 1;
    EXPECT_EQ(refused(), "kept.counts[0] = 2: a request keeps 0 nodes or more, no more than kept.stride");
    kept.stride = 2;
    counts[1] = -1;
    EXPECT_EQ(refused(), "kept.counts[1] = -1: a request keeps 0 nodes or more, no more than kept.stride");
    counts[1] = 2;
    bases[1] = -1;
    EXPECT_EQ(refused(), "kept.bases[1] = -1: an entry of a cache is not negative");
    bases[1] = 0;
    slots[0] = -2;
    EXPECT_EQ(refused(), "kept.slot_of[0] = -2: a place in a cache is not negative");
    slots[0] = 0;
    for (node_id const wrong : {2, 1, 0}) {
        nodes[3] = wrong;
        EXPECT_EQ(refused(), "kept.nodes[3] = " + std::to_string(wrong) +
                                 ": the kept nodes of a request rise, from kept.first on: request 1");
    }
    nodes[3] = 4;
    nodes[0] = 0;
    EXPECT_EQ(refused(), "kept.nodes[0] = 0: the kept nodes of a request rise, from kept.first on: request 0");
    EXPECT_EQ(cache, untouched);
    nodes[0] = 1;
    EXPECT_EQ(refused(), "nothing was thrown");
    EXPECT_EQ(cache, (std::vector<std::int32_t>{10, 11, 13, 13, 14, 20, 22, 24, 23, 24}));
}

TEST(batch_mistakes, the_offset_at_fault_is_named) {
    auto const good = three_trees();
    auto const refused = [&](std::int32_t at, std::int64_t value) {
        auto b = good;
        b.offsets[static_cast<std::size_t>(at)] = value;
        return refusal([&] { refuse_reported(validation(b, b.draft_logits())); });
    };
    auto const expected = [](std::int32_t at, std::int64_t value, std::int32_t request) {
        return "offsets[" + std::to_string(at) + "] = " + std::to_string(value) +
               ": trees follow one another and have 1 to 2^24 nodes, request " + std::to_string(request);
    };
    EXPECT_EQ(refused(0, 2), expected(0, 2, 0));
    EXPECT_EQ(refused(1, 0), expected(1, 0, 0));
    EXPECT_EQ(refused(1, 60), expected(1, 60, 0));
    EXPECT_EQ(refused(1, -3), expected(1, -3, 0));
    EXPECT_EQ(refused(2, 60), expected(2, 60, 1));
    EXPECT_EQ(refused(2, good.offsets[1]), expected(2, good.offsets[1], 1));
    EXPECT_EQ(refused(3, 60), expected(3, 60, 2));
    EXPECT_EQ(refused(3, good.offsets[3] - 1), expected(3, good.offsets[3] - 1, 2));
}

TEST(batch_mistakes, more_requests_than_nodes_are_refused_before_offsets_are_read) {
    auto const b = three_trees();
    tree_batch trees = b.trees();
    trees.requests = 1000;
    std::string const expected = "trees.nodes = 14: each of the 1000 trees has a root (nodes: offsets[requests])";
    verdict_memory out(b.trees(), 0);
    EXPECT_EQ(refusal([&] {
                  verify_batch(host_threads(1), rejection{}, drawn_by<law::sequential>(trees),
                               target_rows(b.target_logits()), draft_rows(b.draft_logits()), b.requests(), out.view());
              }),
              expected);
    std::vector<std::int32_t> positions(14);
    EXPECT_EQ(refusal([&] { write_positions(host_threads(1), trees, b.positions.data(), positions.data()); }),
              expected);
}

TEST(batch_mistakes, a_level_without_places_is_refused) {
    auto const b = three_trees();
    std::vector<std::int32_t> const requests{0};
    std::vector<node_id> const nodes{0};
    token_id token = 7;
    EXPECT_EQ(refusal([&] {
                  draft_batch(host_threads(1), draft::iid{}, {1, requests.data(), nodes.data()},
                              draft_rows(b.draft_logits()), b.requests(), {&token});
              }),
              "out.stride = 0: without `first` it is the number of places for the children of an entry");
    EXPECT_EQ(token, 7);
}

TEST(batch_mistakes, a_node_twice_in_a_level_is_refused) {
    auto const b = three_trees();
    std::vector<std::int32_t> const requests{0, 0, 1};
    std::vector<node_id> const nodes{1, 1, 1};
    std::vector<token_id> tokens(6, 7);
    EXPECT_EQ(refusal([&] {
                  draft_batch(host_threads(1), draft::iid{}, {3, requests.data(), nodes.data()},
                              draft_rows(b.draft_logits()), b.requests(), {tokens.data(), nullptr, 2});
              }),
              "level.nodes[1] = 1: entry 0 is the same node: both would get the same draws");
    EXPECT_EQ(tokens, std::vector<token_id>(6, 7));
}

TEST(batch_mistakes, requests_with_one_seed_and_position_are_refused_by_their_ids) {
    auto const b = three_trees();
    std::vector<std::int32_t> const requests{0, 1, 0};
    std::vector<node_id> nodes{0, 0, 1};
    std::vector<std::uint64_t> const seeds{5, 5, 6};
    std::vector<std::int32_t> const positions{3, 3, 3};
    std::vector<std::uint32_t> const ids{0, 1, 0};
    std::vector<token_id> tokens(6, 7);
    auto const run = [&](request_batch const& of) {
        return refusal([&] {
            draft_batch(host_threads(1), draft::iid{}, {3, requests.data(), nodes.data()}, draft_rows(b.draft_logits()),
                        of, {tokens.data(), nullptr, 2});
        });
    };
    EXPECT_EQ(run({seeds.data(), positions.data()}),
              "level.nodes[1] = 0: entry 0, of request 0, has this node, seed and position, and no ids tell the two "
              "requests apart: both would get the same draws");
    EXPECT_EQ(tokens, std::vector<token_id>(6, 7));
    EXPECT_EQ(run({seeds.data(), positions.data(), ids.data()}), "nothing was thrown");
    nodes[2] = 0;
    EXPECT_EQ(run({seeds.data(), positions.data(), ids.data()}),
              "level.nodes[2] = 0: entry 0 is the same node: both would get the same draws");
    nodes = {0, 1, 2};
    EXPECT_EQ(run({seeds.data(), positions.data()}), "nothing was thrown") << "other nodes have other draws";
}

TEST(batch_mistakes, a_node_twice_in_a_level_is_refused_wherever_it_stands) {
    auto const b = three_trees();
    std::vector<token_id> tokens(8, 7);
    std::vector<std::uint64_t> const seeds{5, 5, 6};
    std::vector<std::int32_t> const positions{3, 3, 3};
    std::vector<std::uint32_t> const ids{0, 1, 0};
    auto const run = [&](std::vector<std::int32_t> const& requests, std::vector<node_id> const& nodes,
                         std::uint32_t const* given, std::int32_t first = 0) {
        level_batch level{4, requests.data(), nodes.data()};
        level.first_entry = first;
        return refusal([&] {
            draft_batch(host_threads(1), draft::iid{}, level, draft_rows(b.draft_logits()),
                        {seeds.data(), positions.data(), given}, {tokens.data(), nullptr, 2});
        });
    };
    // Between others of its request, after entries of another.
    EXPECT_EQ(run({0, 1, 0, 0}, {1, 1, 2, 1}, ids.data()),
              "level.nodes[3] = 1: entry 0 is the same node: both would get the same draws");
    // Not the first of its request.
    EXPECT_EQ(run({0, 0, 1, 1}, {1, 2, 3, 2}, nullptr),
              "level.nodes[3] = 2: entry 1, of request 0, has this node, seed and position, and no ids tell the two "
              "requests apart: both would get the same draws");
    EXPECT_EQ(run({0, 0, 1, 1}, {1, 2, 3, 2}, ids.data()), "nothing was thrown");
    EXPECT_EQ(run({0, 0, 1, 1}, {1, 2, 3, 4}, nullptr), "nothing was thrown");
    // Of a part of a level, by the numbers of the level.
    EXPECT_EQ(run({0, 0, 0, 0}, {1, 2, 3, 2}, ids.data(), 10),
              "level.nodes[13] = 2: entry 11 is the same node: both would get the same draws");
}

// --- Lists that several nodes share, by name -------------------------------------------------------------------------

TEST(batch_mistakes, shared_lists_are_for_methods_that_take_them) {
    ragged<float> b({{none, 0, 0, 1, 1, 2, 2}}, 300, {{}});
    b.draw_alone(draft::iid{});
    b.tokens[5] = b.tokens[3];
    b.tokens[6] = b.tokens[4];
    std::copy_n(b.draft.begin() + 300, 300, b.draft.begin() + 600);
    host_threads const pool(1);
    auto const run = [&](char const* name, char const* law) {
        auto const method = parse_method(name);
        verdict_memory out(b.trees(), 0);
        verify::scratch_memory memory;
        return refusal([&] {
            verify_batch(pool, method, any_drafted_batch{b.trees(), law}, target_rows(b.target_logits()),
                         draft_rows(b.draft_logits()), b.requests(), out.view(),
                         memory.of(verify_workspace_size(pool, method, 1, 7, 2)));
        });
    };
    EXPECT_EQ(run("recursive_rejection/iid", "shared_lists/iid"), "nothing was thrown");
    EXPECT_EQ(run("ranked_block/iid", "shared_lists/iid"), "nothing was thrown");
    std::string const refused = run("traversal/iid", "shared_lists/iid");
    EXPECT_NE(refused.find("drafts.law = 'shared_lists/iid': traversal/iid verifies trees of law 'iid'"),
              std::string::npos)
        << refused;
    EXPECT_NE(refused.find("this one is verified by recursive_rejection/iid"), std::string::npos) << refused;
    EXPECT_NE(run("recursive_rejection/sequential", "shared_lists/iid"), "nothing was thrown");
}

}  // namespace
}  // namespace mistakes_test
}  // namespace MULTIDRAFT_NAMESPACE::testing
