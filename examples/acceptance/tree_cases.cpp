#include "acceptance/tree_cases.hpp"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "acceptance/json_file.hpp"
#include "acceptance/latex.hpp"
#include "multidraft/analysis/input.hpp"
#include "multidraft/analysis/tree_limit.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/testing/exact_law.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/traversal.hpp"
#include "reference/exact_ranked_law.hpp"
#if MULTIDRAFT_HAS_GLPK
#include "acceptance/glpk_solver.hpp"
#endif

namespace multidraft::examples {
namespace {

using nlohmann::ordered_json;

/// A tree of this size cannot be enumerated in practice.
constexpr double most_contexts = 1e5;
/// Nor can this many draws: all are enumerated, each with every branch of the verifiers.
constexpr double most_trees = 1e9;

struct tree_case {
    testing::model_pair models;
    testing::shape children;
};

/// Fills the rows of a model for all prefixes of up to `depth` tokens from an object of rows by prefix.
void read_rows(nlohmann::json const& rows, char const* which, testing::small_model& model, std::string const& prefix,
               std::size_t context, int depth) {
    std::string const what = std::string(which) + "[\"" + prefix + "\"]";
    auto const found = rows.find(prefix);
    if (found == rows.end()) throw std::runtime_error(what + " is missing");
    auto row = numbers(*found, what);
    if (row.size() != static_cast<std::size_t>(model.vocabulary()))
        throw std::runtime_error(what + ": has " + std::to_string(row.size()) +
                                 " entries, but V = " + std::to_string(model.vocabulary()));
    // Checked, but not divided by its sum: the given rows are verified as they are.
    (void)analysis::detail::checked(row, what.c_str());
    model[context] = std::move(row);
    if (depth == 0) return;
    for (token_id x = 0; x < model.vocabulary(); ++x)
        read_rows(rows, which, model, prefix + (prefix.empty() ? "" : ",") + std::to_string(x), model.after(context, x),
                  depth - 1);
}

tree_case read(nlohmann::json const& one) {
    index_t const vocabulary = whole(member(one, "V"), "V");
    if (vocabulary < 1) refuse("V", vocabulary, "a vocabulary has one token or more");
    auto const& levels = member(one, "children");
    if (!levels.is_array() || levels.empty())
        throw std::runtime_error("children = " + shown(levels) + ": must be a list of numbers of children by level");
    testing::shape children;
    for (std::size_t l = 0; l < levels.size(); ++l) {
        std::string const what = "children[" + std::to_string(l) + "]";
        index_t const n = whole(levels[l], what);
        if (n < 1) refuse("children", static_cast<std::int64_t>(l), n, "a level has one child per node or more");
        if (n > vocabulary) refuse("children", static_cast<std::int64_t>(l), n, "beyond the support");
        children.push_back(n);
    }
    auto const depth = static_cast<int>(children.size());
    if (!(std::pow(static_cast<double>(vocabulary), depth) <= most_contexts))
        throw std::runtime_error("V = " + std::to_string(vocabulary) + ": too many contexts to enumerate in " +
                                 std::to_string(depth) + " levels");
    double width = 1;
    double drafted = 0;
    for (index_t const n : children) drafted += width *= static_cast<double>(n);
    if (!(std::pow(static_cast<double>(vocabulary), drafted) <= most_trees))
        throw std::runtime_error("children = " + shown(levels) +
                                 ": too many trees to enumerate over V = " + std::to_string(vocabulary) + " tokens");
    for (char const* which : {"p", "q"})
        if (!member(one, which).is_object())
            throw std::runtime_error(std::string(which) + " = " + shown(one[which]) + ": must be rows by prefix");
    tree_case result{{testing::small_model(vocabulary, depth), testing::small_model(vocabulary, depth)}, children};
    read_rows(one["p"], "p", result.models.target, "", 0, depth);
    read_rows(one["q"], "q", result.models.draft, "", 0, depth - 1);
    return result;
}

/// Collects the results of one case.
class results {
public:
    explicit results(tree_case const& given) : given_(given) {
        wanted_ = testing::law_of_target(given.models.target, given.children.size() + 1);
    }

    /// Enumerates every draw of the sampler and the verifier.
    template <class Sampler, class Verifier>
    void add(char const* name, Sampler const& sampler, Verifier const& verifier) {
        add(name, testing::law_of_step(sampler, verifier, given_.children, given_.models));
    }
    void add(char const* name, testing::output_law const& law) {
        mean_accepted_[name] = law.mean_accepted;
        total_variation_[name] = testing::total_variation(law.law, wanted_);
    }
    void add_limit([[maybe_unused]] char const* name, [[maybe_unused]] analysis::tree_draw law) {
#if MULTIDRAFT_HAS_GLPK
        auto const row_of = [this](testing::small_model const& model) {
            return [&model](std::span<token_id const> prefix) -> std::span<double const> {
                std::size_t context = 0;
                for (token_id const x : prefix) context = model.after(context, x);
                return model[context];
            };
        };
        limit_[name] = analysis::tree_limit(row_of(given_.models.target), row_of(given_.models.draft), given_.children,
                                            law, solve_by_glpk);
#else
        limit_[name] = nullptr;  // built without a solver
#endif
    }
    [[nodiscard]] ordered_json json() const {
        return {{"mean_accepted", mean_accepted_}, {"limit", limit_}, {"total_variation", total_variation_}};
    }

private:
    tree_case const& given_;
    std::map<testing::text, double> wanted_;
    ordered_json mean_accepted_ = ordered_json::object();
    ordered_json limit_ = ordered_json::object();
    ordered_json total_variation_ = ordered_json::object();
};

ordered_json rates_of(tree_case const& given) {
    results found(given);
    found.add("recursive_rejection/iid", draft::iid{}, verify::recursive_rejection<law::iid>{});
    found.add("recursive_rejection/sequential", draft::sequential{}, verify::recursive_rejection<law::sequential>{});
    found.add("traversal/iid", draft::iid{}, verify::traversal<law::iid>{});
    found.add("traversal/sequential", draft::sequential{}, verify::traversal<law::sequential>{});
    // Ranks are continuous and integrated out, by the verifier's own distribution functions.
    auto const& [models, children] = given;
    found.add("ranked_block/iid", testing::law_of_ranked_step<false>(draft::iid{}, children, models));
    found.add("ranked_block/stratified", testing::law_of_ranked_step<false>(draft::stratified{}, children, models));
    found.add("nested_ranked_block/iid", testing::law_of_ranked_step<true>(draft::iid{}, children, models));
    found.add("nested_ranked_block/stratified",
              testing::law_of_ranked_step<true>(draft::stratified{}, children, models));
    found.add_limit("iid", analysis::tree_draw::iid);
    found.add_limit("sequential", analysis::tree_draw::sequential);
    found.add_limit("stratified", analysis::tree_draw::stratified);
    return found.json();
}

}  // namespace

ordered_json rates_of_trees(std::filesystem::path const& file) {
    auto const cases = read_cases(file);
    auto list = ordered_json::array();
    // All are read before the first one is enumerated, which may take long.
    std::vector<tree_case> given;
    for (std::size_t k = 0; k < cases.size(); ++k) {
        try {
            given.push_back(read(cases[k]));
        } catch (std::exception const& e) {
            throw std::runtime_error(file.string() + ": case " + std::to_string(k) + ": " + e.what());
        }
    }
    for (tree_case const& one : given) list.push_back(rates_of(one));
    return {{"cases", std::move(list)}};
}

void print_trees(std::ostream& out, ordered_json const& result) {
    char buffer[160];
    auto const& cases = result.at("cases");
    for (std::size_t k = 0; k < cases.size(); ++k) {
        std::snprintf(buffer, sizeof buffer, "%scase %-29zu accepted   limit  of the limit  total variation\n",
                      k > 0 ? "\n" : "", k);
        out << buffer;
        for (auto const& [name, mean] : cases[k].at("mean_accepted").items()) {
            auto const accepted = mean.get<double>();
            double const variation = cases[k].at("total_variation").at(name).get<double>();
            auto const& limit = cases[k].at("limit").at(name.substr(name.find('/') + 1));
            if (limit.is_null())
                std::snprintf(buffer, sizeof buffer, "%-34s  %7.4f       -             -          %7.1e\n",
                              name.c_str(), accepted, variation);
            else
                std::snprintf(buffer, sizeof buffer, "%-34s  %7.4f %7.4f      %6.2f %%          %7.1e\n", name.c_str(),
                              accepted, limit.get<double>(), 100 * accepted / limit.get<double>(), variation);
            out << buffer;
        }
    }
}

void print_trees_latex(std::ostream& out, ordered_json const& result) {
    latex_table table{
        "Mean number of accepted tokens of whole trees, enumerated, and the limit of any lossless verifier.",
        {"Case", "Drafts", "Verifier", "Accepted", "Limit"},
        3};
    auto const& cases = result.at("cases");
    for (std::size_t k = 0; k < cases.size(); ++k) {
        table.groups.emplace_back();
        for (auto const& [name, mean] : cases[k].at("mean_accepted").items()) {
            auto const slash = name.find('/');
            auto const& limit = cases[k].at("limit").at(name.substr(slash + 1));
            table.groups.back().push_back({table.groups.back().empty() ? std::to_string(k) : "",
                                           latex_name(name.substr(slash + 1)), latex_name(name.substr(0, slash)),
                                           latex_interval({mean.get<double>(), {}, {}}),
                                           limit.is_null() ? "--" : latex_interval({limit.get<double>(), {}, {}})});
        }
    }
    write_latex(out, table);
}

}  // namespace multidraft::examples
