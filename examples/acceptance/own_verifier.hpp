// A user's sampler and verifier, as a line of the tables of `acceptance`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "acceptance/rates.hpp"
#include "acceptance/row_pairs.hpp"
#include "multidraft/analysis/estimate_acceptance.hpp"
#include "multidraft/analysis/ratio_rows.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/testing/node_trial.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/verifier.hpp"

namespace multidraft::examples {

/// A drawn tree with the rows of its nodes.
struct tree_rows {
    std::vector<node_id> parents;
    std::vector<token_id> tokens;
    std::vector<index_t> certain;  ///< certain children of each node, for laws that have such
    std::vector<double> target;    ///< one row per node, one after another
    std::vector<double> draft;     ///< the same; the rows of nodes without children are not read
    index_t vocabulary = 0;

    [[nodiscard]] index_t nodes() const noexcept { return static_cast<index_t>(parents.size()); }
    [[nodiscard]] tree_view tree() const noexcept { return {parents, tokens}; }
    [[nodiscard]] std::int32_t depth() const { return tree().depth(nodes() - 1); }
    [[nodiscard]] probability_rows<double> target_rows() const { return {target.data(), nodes(), vocabulary}; }
    [[nodiscard]] probability_rows<double> draft_rows() const { return {draft.data(), nodes(), vocabulary}; }
};

/// How a method verifies trees: how many nodes it accepts, with the draws of (seed, request, position).
struct tree_method {
    std::string verifier;
    std::string law;
    std::function<std::int32_t(tree_rows const&, std::uint64_t seed, std::uint32_t request, std::int32_t position)>
        accepted;

    [[nodiscard]] std::string name() const { return verifier + "/" + law; }
};

/// A user's verifier for `acceptance`: a line in the table of one node, and one in that of whole trees.
struct own_verifier {
    measure at_a_node;
    tree_method of_trees;
};

/// `name` appears in the table; the law is the sampler's. Its rates are estimated by trials (`--trials`), those of the
/// library's verifiers are computed. In the table of one node it appears for `fewest` to `most` children.
template <sampler Sampler, verify::verifier Verifier>
[[nodiscard]] own_verifier make_own_verifier(std::string const& name, Sampler sampler, Verifier verifier,
                                             index_t fewest = 1, index_t most = std::numeric_limits<index_t>::max()) {
    std::string const law(Sampler::law::traits.name);
    own_verifier result;
    result.at_a_node = {law,
                        name,
                        [=](row_pair const& x, analysis::ratio_rows const&, index_t n, estimation const& how) -> rate {
                            testing::node_trial trial(sampler, verifier, x.p, x.q, n, how.seed);
                            auto const found = analysis::estimate_acceptance(trial, how.trials);
                            rate value{found.rate, found.standard_error};
                            if (how.by_rank) value.by_rank = found.by_rank;
                            return value;
                        },
                        fewest,
                        most,
                        verify::is_lossless<Verifier>};
    result.of_trees = {
        name, law, [=](tree_rows const& t, std::uint64_t seed, std::uint32_t request, std::int32_t position) {
            addressed_source source{addressed_uniforms(seed, request)};
            std::vector<node_id> path(static_cast<std::size_t>(t.depth()));
            verify::scratch_memory scratch;
            return verify::verify_tree(verifier, host_group{}, make_drafted<typename Sampler::law>(t.tree(), t.certain),
                                       target_rows(t.target_rows()), draft_rows(t.draft_rows()), source, position,
                                       span<node_id>(path), scratch.of<Verifier>(t.nodes(), t.depth()))
                .accepted;
        }};
    return result;
}

}  // namespace multidraft::examples
