// Ranked verification: the candidate that is offered is chosen by ranks, at a node and along whole paths.
#include "generate/tree_methods.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/verify/binned_nested_ranked_block.hpp"
#include "multidraft/verify/binned_ranked.hpp"
#include "multidraft/verify/binned_ranked_block.hpp"

namespace multidraft::examples {

// The binned forms: linear in the vocabulary, and within a thousandth of the exact ones.

void add_best_method(std::vector<method>& all) {
    all.push_back(tree_method<draft::stratified, verify::binned_nested_ranked_block<law::stratified>>(
        "nested_ranked_block/stratified",
        "the likely candidates with certainty, the rest drawn; the path of the best subtrees, accepted as a block",
        default_tree()));
}

void add_ranked_methods(std::vector<method>& all) {
    std::string const tree = default_tree();
    all.push_back(tree_method<draft::iid, verify::binned_nested_ranked_block<law::iid>>(
        "nested_ranked_block/iid", "the same of independent candidates", tree));
    all.push_back(tree_method<draft::stratified, verify::binned_ranked_block<law::stratified>>(
        "ranked_block/stratified", "the path that ranked verification offers, accepted as a block", tree));
    all.push_back(tree_method<draft::iid, verify::binned_ranked_block<law::iid>>(
        "ranked_block/iid", "the same of independent candidates", tree));
    all.push_back(tree_method<draft::stratified, verify::binned_ranked<law::stratified>>(
        "ranked/stratified", "certain and drawn candidates, the best verifier at one node", tree));
    all.push_back(tree_method<draft::iid, verify::binned_ranked<law::iid>>(
        "ranked/iid", "independent candidates, the best verifier at one node", tree));
}

}  // namespace multidraft::examples
