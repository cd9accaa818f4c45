// Methods that end a tree early when a decision model predicts no further gain.
#include "generate/decisions.hpp"
#include "generate/tree_methods.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

namespace multidraft::examples {

void add_early_stop_methods(std::vector<method>& all) {
    using rejection = verify::recursive_rejection<law::sequential>;
    std::string const tree = multiplies_by_tiles() ? "fork:4x6" : "fork:1x4";
    all.push_back(drafter_method<rejection>(
        "recursive_rejection/early_stop",
        "the tree ends when probabilities and entropy say that no path goes on (Improving MCSD 3.3, T2)", tree,
        [](transformer& draft, topology const& shape) {
            return static_tree_drafter<transformer, draft::sequential, probability_stop>(
                draft, shape, {}, load_probability_stop(settings().early_stop, settings().stop_below));
        }));
    all.push_back(drafter_method<rejection>(
        "recursive_rejection/early_stop_hidden",
        "the tree ends when the draft's hidden states say that no path goes on (Improving MCSD 3.3, T1)", tree,
        [](transformer& draft, topology const& shape) {
            return static_tree_drafter<transformer, draft::sequential, hidden_state_stop>(
                draft, shape, {},
                load_hidden_state_stop(settings().early_stop, draft.hidden_size(), settings().stop_below));
        }));
}

}  // namespace multidraft::examples
