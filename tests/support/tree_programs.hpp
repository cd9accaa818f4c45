// The verifiers of whole trees as a program: every verdict and path as bits, for any group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "multidraft/base/span.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/shared_randomness.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/lossy/joint_likelihood.hpp"
#include "multidraft/lossy/target_initialised.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/block.hpp"
#include "multidraft/verify/multi_path_block.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/ranked.hpp"
#include "multidraft/verify/ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/shared_randomness.hpp"
#include "multidraft/verify/traversal.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// Bytes of shared memory for the program.
inline constexpr std::size_t tree_program_scratch = 65536;

namespace detail {

/// Rows of logits: odd nodes have the other model's, so that successive levels differ.
template <class View>
struct swapping_rows {
    View even;
    View odd;
    sampling_params w;

    [[nodiscard]] MULTIDRAFT_HD index_t rows() const { return 64; }
    [[nodiscard]] MULTIDRAFT_HD index_t size() const { return even.size(); }
    template <class G>
    [[nodiscard]] MULTIDRAFT_HD softmax_row<View> operator()(G const& g, node_id node) const {
        return with_sums(g, node).row;
    }
    template <class G>
    [[nodiscard]] MULTIDRAFT_HD auto with_sums(G const& g, node_id node) const {
        return process_logits(g, node % 2 == 0 ? even : odd, w);
    }
};

/// Draws a tree level by level into shared memory, verifies it, and records the outcome.
template <class Law, class G, class Input, class Verifier, class Sampler>
MULTIDRAFT_HD void verify_drawn(G const& g, Input const& in, Verifier const& verifier, Sampler const& sampler,
                                std::int32_t position, int first, int second, int third, auto& record) {
    using view = std::decay_t<decltype(in.p)>;
    addressed_source source{addressed_uniforms(in.seed, 5)};
    swapping_rows<view> const target{in.p, in.q, in.w};
    swapping_rows<view> const draft{in.q, in.p, in.w};
    node_id parents[64];
    index_t certain[64];
    parents[0] = none;
    certain[0] = 0;
    g.barrier();
    if (g.leader()) in.tokens[0] = 0;
    node_id size = 1;
    node_id begin = 0;
    std::int32_t level = 0;
    int const wanted[] = {first, second, third};
    for (int const n : wanted) {
        node_id const end = size;
        for (node_id v = begin; v < end && n > 0; ++v) {
            auto q = process_logits(g, v % 2 == 0 ? in.q : in.p, in.w);
            constexpr bool by_text = Sampler::law::traits.addressed_by_text;
            drawn_children const drawn =
                sampler(g, q.row, std::move(q.sums), source, draw_site{by_text ? position + level : position, v},
                        span<token_id>(in.tokens + size, static_cast<std::size_t>(n)));
            certain[v] = drawn.certain;
            for (index_t k = 0; k < drawn.count; ++k) {
                parents[size + k] = v;
                certain[size + k] = 0;
            }
            size += drawn.count;
        }
        begin = end;
        ++level;
    }
    g.barrier();
    auto const nodes = static_cast<std::size_t>(size);
    auto const tree =
        make_drafted<Law>(tree_view{span<node_id const>(parents, nodes), span<token_id const>(in.tokens, nodes)},
                          span<index_t const>(certain, nodes));
    verdict const answer =
        verify::verify_tree(verifier, g, tree, target_rows(target), draft_rows(draft), source, position,
                            span<node_id>(in.path, 16), span<std::byte>(in.scratch, tree_program_scratch));
    g.barrier();
    record(answer.accepted);
    record(answer.next);
    for (std::int32_t k = 0; k < answer.accepted; ++k) record(in.path[k]);
}

}  // namespace detail

/// Every verifier of whole trees, several times. Needs `in.scratch`.
template <class G, class Input, class Recorder>
MULTIDRAFT_HD void run_tree_verifiers(G const& g, Input const& in, Recorder& record) {
    using detail::verify_drawn;
    std::int32_t const rounds = in.p.size() > 10000 ? 1 : 2;  // the emulated lanes are slow
    for (std::int32_t position = 0; position < rounds; ++position) {
        if (position == 0) {
            verify_drawn<law::stratified>(g, in, verify::ranked<law::stratified>{}, draft::stratified{}, 90, 4, 2, 0,
                                          record);
            verify_drawn<law::stratified>(g, in, verify::ranked_block<law::stratified>{}, draft::stratified{}, 100, 3,
                                          2, 1, record);
            verify_drawn<law::iid>(g, in, verify::nested_ranked_block<law::iid>{}, draft::iid{}, 110, 2, 2, 1, record);
            verify_drawn<law::stratified>(g, in, verify::nested_ranked_block<law::stratified>{}, draft::stratified{},
                                          120, 2, 2, 1, record);
        }
        verify_drawn<law::iid>(g, in, verify::block<law::iid>{}, draft::iid{}, position, 1, 1, 1, record);
        verify_drawn<law::iid>(g, in, verify::traversal<law::iid>{}, draft::iid{}, position + 10, 2, 2, 1, record);
        verify_drawn<law::sequential>(g, in, verify::traversal<law::sequential>{}, draft::sequential{}, position + 20,
                                      3, 1, 2, record);
        verify_drawn<law::iid>(g, in, verify::multi_path_block{}, draft::iid{}, position + 30, 3, 1, 1, record);
        verify_drawn<law::shared_randomness>(g, in, verify::shared_randomness{}, draft::shared_randomness{},
                                             position + 40, 2, 2, 1, record);
        verify_drawn<law::shared_randomness>(g, in, verify::shared_randomness{6}, draft::shared_randomness{},
                                             position + 50, 1, 1, 1, record);
        verify_drawn<law::iid>(g, in, lossy::joint_likelihood<law::iid>{}, draft::iid{}, position + 60, 1, 1, 1,
                               record);
        verify_drawn<law::target_initialised<law::iid>>(
            g, in, lossy::target_initialised<verify::recursive_rejection<law::iid>>{}, draft::iid{}, position + 70, 2,
            1, 1, record);
    }
}

}  // namespace MULTIDRAFT_NAMESPACE::testing
