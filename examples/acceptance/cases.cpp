#include "acceptance/cases.hpp"

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "acceptance/json_file.hpp"
#include "acceptance/latex.hpp"
#include "acceptance/rates.hpp"
#include "multidraft/analysis/acceptance.hpp"
#include "multidraft/analysis/alpha_star.hpp"
#include "multidraft/analysis/ratio_rows.hpp"
#include "multidraft/base/error.hpp"

namespace multidraft::examples {
namespace {

using nlohmann::ordered_json;

ordered_json rates_of(nlohmann::json const& one) {
    row_pair const pair{numbers(member(one, "p"), "p"), numbers(member(one, "q"), "q")};
    index_t const n = whole(member(one, "n"), "n");
    if (n < 1) refuse("n", n, "one token or more is drafted");
    analysis::ratio_rows const rows(pair.p, pair.q);
    if (n > rows.support())
        refuse("n", n, "beyond the support of q, which is " + std::to_string(rows.support()) + " tokens");

    auto stratified = ordered_json::object();
    for (index_t j = 1; j <= n; ++j) stratified[std::to_string(j)] = analysis::alpha_star_stratified(rows, n, j);
    rate const sequential = recursive_sequential(rows, n, estimation{});
    ordered_json result = {{"n", n},
                           {"alpha_star",
                            {{"iid", analysis::alpha_star_iid(rows, n)},
                             {"sequential", analysis::alpha_star_sequential(rows, n)},
                             {"conditional_poisson", analysis::alpha_star_conditional_poisson(rows, n)},
                             {"stratified", stratified}}},
                           {"alpha",
                            {{"recursive_iid", analysis::acceptance_recursive_iid(pair.p, pair.q, n)},
                             {"recursive_sequential", sequential.value},
                             {"kseq", analysis::acceptance_k_seq(pair.p, pair.q, n)},
                             {"ranked_iid", ranked_iid(pair, n)},
                             {"ranked_stratified", ranked_stratified(pair, n)},
                             {"naive_iid", analysis::acceptance_naive_iid(pair.p, pair.q, n)}}},
                           {"kseq_rho", analysis::k_seq_rho(pair.p, pair.q, n)}};
    if (sequential.standard_error) result["stderr"] = {{"recursive_sequential", *sequential.standard_error}};
    return result;
}

}  // namespace

ordered_json rates_of_cases(std::filesystem::path const& file) {
    auto const cases = read_cases(file);
    auto list = ordered_json::array();
    for (std::size_t k = 0; k < cases.size(); ++k) {
        try {
            list.push_back(rates_of(cases[k]));
        } catch (std::exception const& e) {
            throw std::runtime_error(file.string() + ": case " + std::to_string(k) + ": " + e.what());
        }
    }
    return {{"cases", std::move(list)}};
}

void print_cases(std::ostream& out, ordered_json const& result) {
    char buffer[200];
    out << "case   n | iid: bound recurs.  k_seq  ranked   naive | sequential: bound recurs. | cond. poisson: bound | "
           "stratified: ranked\n";
    auto const& cases = result.at("cases");
    for (std::size_t k = 0; k < cases.size(); ++k) {
        auto const& star = cases[k].at("alpha_star");
        auto const& alpha = cases[k].at("alpha");
        auto const at = [](ordered_json const& from, char const* key) { return from.at(key).get<double>(); };
        std::snprintf(buffer, sizeof buffer,
                      "%4zu %3d |     %.4f  %.4f  %.4f  %.4f  %.4f |            %.4f  %.4f |               %.4f |"
                      "             %.4f\n",
                      k, cases[k].at("n").get<index_t>(), at(star, "iid"), at(alpha, "recursive_iid"),
                      at(alpha, "kseq"), at(alpha, "ranked_iid"), at(alpha, "naive_iid"), at(star, "sequential"),
                      at(alpha, "recursive_sequential"), at(star, "conditional_poisson"),
                      at(alpha, "ranked_stratified"));
        out << buffer;
    }
}

void print_cases_latex(std::ostream& out, ordered_json const& result) {
    latex_table table{"Bounds and acceptance rates at one node of $n$ drafts, for each law of the drafts.",
                      {"Case", "$n$", "iid bound", "recursive rejection", "k-seq", "ranked", "naive",
                       "sequential bound", "recursive rejection", "conditional Poisson bound", "stratified ranked"},
                      1};
    table.groups.resize(1);
    auto const& cases = result.at("cases");
    for (std::size_t k = 0; k < cases.size(); ++k) {
        auto const& star = cases[k].at("alpha_star");
        auto const& alpha = cases[k].at("alpha");
        std::vector<std::string> row{std::to_string(k), std::to_string(cases[k].at("n").get<index_t>())};
        for (double const x :
             {star.at("iid").get<double>(), alpha.at("recursive_iid").get<double>(), alpha.at("kseq").get<double>(),
              alpha.at("ranked_iid").get<double>(), alpha.at("naive_iid").get<double>(),
              star.at("sequential").get<double>(), alpha.at("recursive_sequential").get<double>(),
              star.at("conditional_poisson").get<double>(), alpha.at("ranked_stratified").get<double>()})
            row.push_back(latex_interval({x, {}, {}}));
        table.groups.front().push_back(std::move(row));
    }
    write_latex(out, table);
}

}  // namespace multidraft::examples
