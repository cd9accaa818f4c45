// expect: verifier
// expect: node_decision
// errors: 1
// A decision at one node that leaves out an argument.
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/verify/node_by_node.hpp"

using namespace multidraft;

struct my_verifier : verify::node_by_node<my_verifier, law::iid> {
    static constexpr multidraft::verify::verifier_traits traits{};
    template <group G, distribution P, distribution Q, draw_source Source>
    verify::node_verdict decide(G const& g, P const& p, Q const& q, span<token_id const> candidates,
                                Source& source) const;
};

verdict verify_it(drafted<law::iid> tree, probability_rows<float> p, probability_rows<float> q,
                  addressed_source& source, span<node_id> path) {
    return verify::verify_tree(my_verifier{}, host_group{}, tree, target_rows(p), draft_rows(q), source, 0, path, {});
}
