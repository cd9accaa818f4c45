// Whole trees over large vocabularies: how much the verifiers of a law accept of trees drawn by a user, with the rows
// of their nodes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "acceptance/own_verifier.hpp"
#include "acceptance/row_pairs.hpp"
#include "acceptance/summary.hpp"
#include "acceptance/survey.hpp"

namespace multidraft::examples {

/// The arrays of some trees, tree after tree, one entry per node; the rows are those of two `row_pairs` files. A node
/// comes after its parent, and the children of a node after those of the nodes before it (level order).
struct tree_files {
    std::filesystem::path parents;  ///< the node's parent in its own tree, counted from 0; -1 for a root
    std::filesystem::path tokens;   ///< the root's is not read
    std::filesystem::path certain;  ///< how many children of the node are certain, for laws that have such
    std::string law;                ///< how the children were drawn
};

/// One tree: which rows of the arrays it has.
struct tree_place {
    std::int64_t first = 0;
    std::vector<node_id> parents;
    std::vector<token_id> tokens;
    std::vector<index_t> certain;
};

/// The trees of the files, checked: `std::runtime_error` naming the file, the entry and what is wrong with it.
[[nodiscard]] std::vector<tree_place> read_trees(row_pairs const& rows, tree_files const& files);

/// The methods of the library that verify trees of the law of `files`, of these shapes. Throws `std::runtime_error` for
/// a law that none takes, and for one whose trees have certain children where `files` does not say which.
[[nodiscard]] std::vector<tree_method> methods_for(tree_files const& files, std::vector<tree_place> const& trees);

/// How many drafted tokens each of them accepts, and each user's verifier of this law: the mean over `options.trials`
/// verifications of each tree, with independent draws. Draft rows are read of nodes with children only. Throws for the
/// first tree that cannot be verified.
[[nodiscard]] summary survey_trees(row_pairs const& rows, tree_files const& files, std::filesystem::path const& groups,
                                   std::vector<own_verifier> const& own, survey_options const& options);

}  // namespace multidraft::examples
