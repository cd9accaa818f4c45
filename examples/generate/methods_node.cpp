// Methods that decide node by node on trees of a fixed shape.
#include "generate/tree_methods.hpp"
#include "multidraft/draft/conditional_poisson.hpp"
#include "multidraft/draft/gumbel_top_k.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/draft/top_paired.hpp"
#include "multidraft/draft/top_then_one.hpp"
#include "multidraft/verify/greedy_optimal.hpp"
#include "multidraft/verify/k_seq.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/spec_hub.hpp"
#include "multidraft/verify/speculative_sampling.hpp"

namespace multidraft::examples {

void add_node_methods(std::vector<method>& all) {
    std::string const tree = default_tree();
    std::string const chain = default_chain();
    all.push_back(tree_method<draft::sequential, verify::recursive_rejection<law::sequential>>(
        "recursive_rejection/sequential", "candidates without replacement, tried one by one (MCSD Alg. 2, RSD Alg. 1)",
        tree));
    all.push_back(tree_method<draft::gumbel_top_k, verify::recursive_rejection<law::sequential>>(
        "recursive_rejection/gumbel_top_k", "the same law drawn in one pass by Gumbel-top-k (RSD 3.2)", tree));
    all.push_back(tree_method<draft::iid, verify::recursive_rejection<law::iid>>(
        "recursive_rejection/iid", "independent candidates, tried one by one (MCSD Alg. 1)", tree));
    all.push_back(tree_method<draft::iid, verify::speculative_sampling<law::iid>>(
        "speculative_sampling/iid", "one chain of candidates (Leviathan et al. 2023)", chain, true));
    all.push_back(tree_method<draft::top_n, verify::naive<law::deterministic>>(
        "naive/deterministic", "the most likely candidates, accepted if the target draws one of them", tree));
    all.push_back(tree_method<draft::sequential, verify::naive<law::sequential>>(
        "naive/sequential", "candidates without replacement, accepted if the target draws one of them", tree));
    all.push_back(tree_method<draft::iid, verify::naive<law::iid>>(
        "naive/iid", "independent candidates, accepted if the target draws one of them", tree));
    all.push_back(tree_method<draft::conditional_poisson, verify::naive<law::conditional_poisson>>(
        "naive/conditional_poisson", "sets in proportion to their products, accepted if the target draws one of them",
        tree));
    all.push_back(tree_method<draft::iid, verify::k_seq<law::iid>>(
        "k_seq/iid", "independent candidates, each accepted with p/(rho q) (SpecTr)", tree));
    all.push_back(tree_method<draft::top_then_one, verify::greedy_optimal<law::top_then_one>>(
        "greedy_optimal/top_then_one",
        "the most likely candidates and one drawn, the best verifier of them (Optimal MDSD 5)", tree));
    all.push_back(tree_method<draft::top_paired, verify::spec_hub<law::top_paired>>(
        "spec_hub/top_paired", "two candidates, one of them the most likely (SpecHub)", tree));
    all.back().most_children = 2;
}

}  // namespace multidraft::examples
