#include "acceptance/tree_arrays.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <exception>
#include <limits>
#include <stdexcept>
#include <string_view>

#include "acceptance/npy.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/methods/any_method.hpp"
#include "multidraft/methods/list.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/verifier.hpp"

namespace multidraft::examples {
namespace {

/// What a file has of all nodes, one number each.
std::vector<std::int64_t> numbers_of_nodes(std::filesystem::path const& file, std::int64_t rows) {
    auto numbers = read_npy_integers(file);
    if (static_cast<std::int64_t>(numbers.size()) != rows)
        throw std::runtime_error(file.string() + ": " + std::to_string(numbers.size()) + " entries for " +
                                 std::to_string(rows) + " rows: there is one a node");
    return numbers;
}

[[noreturn]] void fail(std::filesystem::path const& file, std::int64_t entry, std::int64_t value,
                       std::string const& what) {
    throw std::runtime_error(file.string() + ": entry " + std::to_string(entry) + " = " + std::to_string(value) + ": " +
                             what);
}

/// The shapes that all of some trees have.
struct shapes {
    bool chains = true;
    bool pairs = true;
    bool forks = true;

    [[nodiscard]] bool are_taken_by(allowed_trees trees) const {
        switch (trees) {
            case allowed_trees::any:
                return true;
            case allowed_trees::pairs:
                return pairs;
            case allowed_trees::forks:
                return forks;
            case allowed_trees::chains:
                return chains;
        }
        return false;
    }
};

shapes shapes_of(std::vector<tree_place> const& trees) {
    shapes result;
    for (tree_place const& t : trees) {
        tree_view const tree{t.parents, t.tokens};
        std::int32_t const depth = tree.depth(tree.size() - 1);
        for (node_id v = 0; v < tree.size(); ++v) {
            index_t const children = tree.children(v).count;
            result.chains = result.chains && children <= 1;
            result.pairs = result.pairs && children <= 2;
            // Paths part at the root, and all end at the last level.
            result.forks = result.forks && (v == 0 || children == (tree.depth(v) < depth ? 1 : 0));
        }
    }
    return result;
}

}  // namespace

std::vector<tree_place> read_trees(row_pairs const& rows, tree_files const& files) {
    auto const parents = numbers_of_nodes(files.parents, rows.rows());
    auto const tokens = numbers_of_nodes(files.tokens, rows.rows());
    std::vector<std::int64_t> certain;
    if (!files.certain.empty()) certain = numbers_of_nodes(files.certain, rows.rows());
    if (parents[0] != -1) fail(files.parents, 0, parents[0], "the first node is a root, -1");
    std::vector<tree_place> result;
    for (std::size_t v = 0; v < parents.size(); ++v) {
        auto const entry = static_cast<std::int64_t>(v);
        if (parents[v] == -1) result.push_back({entry, {}, {}, {}});
        tree_place& tree = result.back();
        std::int64_t const node = entry - tree.first;
        if (node >= max_nodes) fail(files.parents, entry, parents[v], "a tree has at most 2^24 nodes");
        if (node > 0 && (parents[v] < 0 || parents[v] >= node))
            fail(files.parents, entry, parents[v],
                 "the parent of node " + std::to_string(node) + " of a tree is a node before it");
        if (node > 1 && parents[v] < tree.parents.back())
            fail(files.parents, entry, parents[v], "nodes stand in level order: parents never become less in a tree");
        if (node > 0 && (tokens[v] < 0 || tokens[v] >= rows.vocabulary()))
            fail(files.tokens, entry, tokens[v], "a token is below " + std::to_string(rows.vocabulary()));
        if (!certain.empty() && (certain[v] < 0 || certain[v] > max_nodes))
            fail(files.certain, entry, certain[v], "a number of children");
        tree.parents.push_back(node == 0 ? none : static_cast<node_id>(parents[v]));
        tree.tokens.push_back(node == 0 ? 0 : static_cast<token_id>(tokens[v]));
        tree.certain.push_back(certain.empty() ? 0 : static_cast<index_t>(certain[v]));
    }
    return result;
}

std::vector<tree_method> methods_for(tree_files const& files, std::vector<tree_place> const& trees) {
    std::string const& law = files.law;
    shapes const common = shapes_of(trees);
    std::vector<tree_method> result;
    std::vector<std::string> laws;
    for (std::string_view const name : method_names()) {
        any_method const method = parse_method(name);
        auto const slash = name.find('/');
        // Not those of one more sampler of a law, nor of what is drawn from several models or with shared noise.
        if (slash == std::string_view::npos || name.substr(slash + 1) != method.law_name() ||
            method.of_several_drafts())
            continue;
        if (std::find(laws.begin(), laws.end(), method.law_name()) == laws.end()) laws.emplace_back(method.law_name());
        if (method.law_name() != law || !common.are_taken_by(method.trees())) continue;
        if (method.counts_certain() && files.certain.empty())
            throw std::runtime_error("--law " + law +
                                     ": requires --certain, how many children of each node were certain");
        result.push_back(
            {std::string(name.substr(0, slash)), law,
             [method](tree_rows const& t, std::uint64_t seed, std::uint32_t request, std::int32_t position) {
                 std::vector<node_id> path(static_cast<std::size_t>(t.depth()));
                 verify::scratch_memory scratch;
                 return method
                     .verify(any_drafted{t.tree(), t.certain, method.law_name()}, target_rows(t.target_rows()),
                             draft_rows(t.draft_rows()), draw_key{seed, request, position}, span<node_id>(path),
                             scratch.of(method.scratch_bytes(t.nodes(), t.depth())))
                     .accepted;
             }});
    }
    if (std::find(laws.begin(), laws.end(), law) == laws.end()) {
        std::string names;
        for (std::string const& one : laws) names += (names.empty() ? "" : ", ") + one;
        throw std::runtime_error("--law " + law + ": must be one of " + names);
    }
    return result;
}

summary survey_trees(row_pairs const& rows, tree_files const& files, std::filesystem::path const& groups,
                     std::vector<own_verifier> const& own, survey_options const& options) {
    auto const trees = read_trees(rows, files);
    auto methods = methods_for(files, trees);
    for (own_verifier const& one : own)
        if (one.of_trees.law == files.law) methods.push_back(one.of_trees);
    auto const count = static_cast<std::int64_t>(trees.size());

    summary result;
    result.rows = count;
    result.nodes = rows.rows();
    result.vocabulary = rows.vocabulary();
    result.baseline = options.baseline;
    result.units = read_units(groups, trees.size(), "trees");
    for (tree_method const& m : methods) {
        summary_line line;
        line.law = m.law;
        line.verifier = m.verifier;
        line.values.resize(trees.size());
        line.errors.resize(trees.size());
        for (own_verifier const& one : own)
            if (one.of_trees.name() == m.name()) line.lossless = one.at_a_node.lossless;
        result.lines.push_back(std::move(line));
    }
    require_baseline(result);

    std::int64_t const trials = options.trials > 0 ? options.trials : std::clamp<std::int64_t>(16384 / count, 64, 4096);
    for_all(count, options.threads, "trees", [&](std::int64_t k) {
        tree_place const& place = trees[static_cast<std::size_t>(k)];
        tree_rows tree{place.parents, place.tokens, place.certain, {}, {}, rows.vocabulary()};
        auto const width = static_cast<std::size_t>(rows.vocabulary());
        for (node_id v = 0; v < tree.nodes(); ++v) {
            auto const p = rows.load_target(place.first + v);
            tree.target.insert(tree.target.end(), p.begin(), p.end());
            if (tree.tree().children(v).count > 0) {
                auto const q = rows.load_draft(place.first + v, 1);
                tree.draft.insert(tree.draft.end(), q.begin(), q.end());
            } else {
                tree.draft.resize(tree.draft.size() + width, std::numeric_limits<double>::quiet_NaN());
            }
        }
        for (std::size_t m = 0; m < methods.size(); ++m) {
            try {
                double sum = 0;
                double squares = 0;
                for (std::int64_t trial = 0; trial < trials; ++trial) {
                    double const accepted = methods[m].accepted(tree, options.seed, static_cast<std::uint32_t>(k),
                                                                static_cast<std::int32_t>(trial));
                    sum += accepted;
                    squares += accepted * accepted;
                }
                auto const n = static_cast<double>(trials);
                double const mean = sum / n;
                result.lines[m].values[static_cast<std::size_t>(k)] = mean;
                if (trials > 1)
                    result.lines[m].errors[static_cast<std::size_t>(k)] =
                        std::sqrt(std::max(squares / n - mean * mean, 0.0) / (n - 1));
            } catch (std::exception const& e) {
                throw std::runtime_error("tree " + std::to_string(k) + ", which begins with row " +
                                         std::to_string(place.first) + ": " + methods[m].name() + ": " + e.what());
            }
        }
    });
    summarise(result);
    return result;
}

}  // namespace multidraft::examples
