// expect: ok
#include "multidraft/decode/lookup_drafter.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/testing/prove_lossless.hpp"
#include "multidraft/verify/multi_round.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/traversal.hpp"

using namespace multidraft;

struct my_rows {
    float const* data;
    [[nodiscard]] index_t rows() const { return 4; }
    [[nodiscard]] index_t size() const { return 8; }
    template <group G>
    [[nodiscard]] probabilities<float> operator()(G const& /*g*/, node_id node) const {
        return {data + node * 8, 8};
    }
};

struct my_rows_of_models {
    float const* data;
    [[nodiscard]] index_t rows() const { return 4; }
    [[nodiscard]] index_t size() const { return 8; }
    template <group G>
    [[nodiscard]] probabilities<float> operator()(G const& /*g*/, node_id node, index_t child) const {
        return {data + (node * 2 + child) * 8, 8};
    }
};

struct my_verifier : verify::node_by_node<my_verifier, law::iid> {
    static constexpr multidraft::verify::verifier_traits traits{};
    template <group G, distribution P, distribution Q, draw_source Source>
    verify::node_verdict decide(G const& g, P const& p, Q const& q, span<token_id const> candidates, Source& source,
                                draw_site site) const;
};

struct my_path_verifier {
    using law = multidraft::law::iid;
    static constexpr verify::verifier_traits traits{};

    template <group G, class Target, class Draft, draw_source Source>
    verdict operator()(G const& g, drafted<law> const& tree, target_rows<Target> const& p, draft_rows<Draft> const& q,
                       Source& source, std::int32_t position, span<node_id> path) const;
};

static_assert(row_source<my_rows, host_group> && !child_row_source<my_rows, host_group>);
static_assert(!row_source<my_rows_of_models, host_group> && child_row_source<my_rows_of_models, host_group>);
static_assert(verify::verifier<my_verifier> && verify::decides_by_node<my_verifier>);
static_assert(verify::verifier<my_path_verifier> && !verify::decides_by_node<my_path_verifier>);
static_assert(!verify::is_lossless<my_verifier> && verify::is_lossless<verify::traversal<law::iid>>);
static_assert(drafter<lookup_drafter>);

verdict verify_it(drafted<law::iid> tree, my_rows p, probability_rows<float> q, addressed_source& source,
                  span<node_id> path, span<std::byte> scratch) {
    verdict const of_mine =
        verify::verify_tree(my_verifier{}, host_group{}, tree, target_rows(p), draft_rows(q), source, 0, path, {});
    verdict const of_nobody = verify::verify_tree(verify::naive<law::iid>{}, host_group{}, tree, target_rows(p),
                                                  draft_rows(verify::no_draft_rows{}), source, 0, path, {});
    verdict const of_tree =
        verify::traversal<law::iid>{}(host_group{}, tree, target_rows(p), draft_rows(q), source, 0, path, scratch);
    return of_mine.accepted < of_nobody.accepted ? of_tree : of_mine;
}

// The rows of several models are for those that read them so, and for those that read none.
verdict verify_both(drafted<law::independent> tree, my_rows p, my_rows_of_models q, addressed_source& source,
                    span<node_id> path) {
    verdict const of_models = verify::verify_tree(verify::multi_round<law::independent>{}, host_group{}, tree,
                                                  target_rows(p), draft_rows(q), source, 0, path, {});
    verdict const of_nobody = verify::verify_tree(verify::naive<law::independent>{}, host_group{}, tree, target_rows(p),
                                                  draft_rows(q), source, 0, path, {});
    return of_models.accepted < of_nobody.accepted ? of_nobody : of_models;
}

auto prove_it() { return testing::prove_lossless(draft::iid{}, my_path_verifier{}); }
