#include "acceptance/program.hpp"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "acceptance/cases.hpp"
#include "acceptance/intervals.hpp"
#include "acceptance/plot.hpp"
#include "acceptance/row_pairs.hpp"
#include "acceptance/summary.hpp"
#include "acceptance/survey.hpp"
#include "acceptance/tree_arrays.hpp"
#include "acceptance/tree_cases.hpp"
#include "command_line.hpp"
#include "multidraft/base/error.hpp"

namespace multidraft::examples {
namespace {

constexpr char const* footer =
    "The arrays from Python, one row a position of the text:\n"
    "  p = torch.softmax(target(ids).logits[0].float(), -1).numpy()   # or logits as they are, with --logits\n"
    "  q = torch.softmax(draft(ids).logits[0].float(), -1).numpy()    # the same tokenizer, the same positions\n"
    "  numpy.save('p.npy', p); numpy.save('q.npy', q)";

/// Fails before the work is done rather than after it.
void check_writable(std::string const& file) {
    if (file.empty()) return;
    bool const existed = std::filesystem::exists(file);
    std::ofstream const probe(file, std::ios::app);
    if (!probe) throw std::runtime_error(file + ": cannot be written: " + std::strerror(errno));
    if (!existed) std::filesystem::remove(file);
}

void write(std::string const& file, std::string const& content) {
    std::ofstream out(file, std::ios::binary);
    out << content << std::flush;
    if (!out) throw std::runtime_error(file + ": cannot be written: " + std::strerror(errno));
}

/// Whether a name ends so.
bool ends_with(std::string const& name, char const* ending) {
    return std::filesystem::path(name).extension() == ending;
}

int run(int argc, char** argv, std::vector<own_verifier> const& own) {
    std::string target;
    std::string draft;
    std::string cases;
    std::string tree_cases;
    std::string csv;
    std::string plot;
    std::string per_row;
    std::string groups;
    std::string parents;
    std::string tokens;
    std::string certain;
    std::string law;
    bool json = false;
    bool latex = false;
    row_options rows;
    survey_options options;

    CLI::App app{
        "Acceptance rates of a target and a draft model at one node: for each law of the drafts the bound that no "
        "lossless\nverifier can exceed, and what the verifiers reach. Means over the rows, with 95 % intervals."};
    app.footer(footer);
    auto* const target_option =
        app.add_option("--target", target, "p: a .npy array (V) or (rows, V) of float16, float32 or float64, C order");
    auto* const draft_option = app.add_option("--draft", draft, "q: an array of the same shape");
    auto* const drafts_option =
        app.add_option("--drafts", options.drafts,
                       "tokens drafted at a node; several numbers, such as 2,3,4, for several tables")
            ->delimiter(',')
            ->take_all();
    auto* const logits = app.add_flag("--logits", rows.logits, "the arrays hold logits, not probabilities");
    auto* const temperature = app.add_option("--temperature", rows.temperature, "of logits; 0 is greedy")
                                  ->capture_default_str()
                                  ->needs(logits);
    auto* const draft_temperature =
        app.add_option("--draft-temperature", rows.draft_temperature, "of the draft's logits (default: the target's)")
            ->needs(logits);
    app.add_option("--top-k", rows.top_k, "of logits; 0: off")->capture_default_str()->needs(logits);
    app.add_option("--top-p", rows.top_p, "of logits; 1: off")->capture_default_str()->needs(logits);
    app.add_option("--min-p", rows.min_p, "of logits; 0: off")->capture_default_str()->needs(logits);
    auto* const json_flag = app.add_flag("--json", json, "print one JSON object");
    app.add_flag("--latex", latex, "print tables for LaTeX, with the package booktabs")->excludes(json_flag);
    app.add_flag("--by-rank", options.by_rank, "also how often the first, second, .. child is the one accepted");
    app.add_option("--baseline", options.baseline,
                   "also the differences of all others from this one, such as recursive_rejection/iid or bound/iid: "
                   "paired, row by row");
    app.add_option("--groups", groups,
                   "a .npy array of whole numbers: the text, or other group, that each row (or tree) is from. Rows of "
                   "a group may be correlated: intervals are made by resampling groups");
    app.add_option("--per-row", per_row,
                   "also write every row's values to this file: CSV, or for .jsonl one JSON object a line");
    app.add_option("--csv", csv, "also write the table to this file");
    app.add_option(
        "--plot", plot,
        "also draw bounds and rates for 1 to --drafts drafts, or for the numbers of --drafts, as SVG, to this "
        "file");
    app.add_option("--threads", options.threads, "0: one a core")->check(CLI::Range(0, 1024))->capture_default_str();
    app.add_option("--seed", options.seed,
                   "of the rates that are estimated: recursive rejection without replacement where V^(n-1) is above a "
                   "million")
        ->check(CLI::Validator(fault_of_unsigned, "0 .. 2^64 - 1"))
        ->capture_default_str();
    app.add_option("--trials", options.trials,
                   "runs a row of a verifier of your own, or a tree of every verifier; 0: fewer the more there are")
        ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 31U))
        ->capture_default_str();
    auto* const parents_option =
        app.add_option("--parents", parents,
                       "instead of --drafts: whole trees, tree after tree, whose nodes the rows of the arrays are. The "
                       "parent of each node in its tree, -1 for a root, in level order: a .npy array of whole numbers");
    auto* const tokens_option = app.add_option("--tokens", tokens, "with --parents: the token of each node");
    auto* const law_option =
        app.add_option("--law", law, "with --parents: how the children were drawn, such as sequential or iid");
    app.add_option("--certain", certain,
                   "with --parents: how many children of each node were certain, for laws such as stratified")
        ->needs(parents_option);
    auto* const cases_option =
        app.add_option("--cases", cases, "instead of arrays: {\"cases\": [{\"p\": [..], \"q\": [..], \"n\": 3}, ..]}");
    auto* const trees_option = app.add_option(
        "--tree-cases", tree_cases,
        "instead of arrays: whole trees over a few tokens, {\"cases\": [{\"V\", \"children\", \"p\", \"q\"}, ..]}");
    target_option->needs(draft_option);
    parents_option->needs(target_option)->needs(tokens_option)->needs(law_option)->excludes(drafts_option);
    tokens_option->needs(parents_option);
    law_option->needs(parents_option);
    draft_option->needs(target_option);
    drafts_option->needs(target_option);
    for (auto* const option : {cases_option, trees_option}) option->excludes(target_option)->excludes(draft_option);
    cases_option->excludes(trees_option);
    (void)temperature;
    try {
        app.parse(argc, argv);
    } catch (CLI::ParseError const& e) {
        return app.exit(e) == 0 ? 0 : 1;
    }

    if (cases_option->count() > 0 || trees_option->count() > 0) {
        if (!csv.empty() || !plot.empty()) throw std::runtime_error("--csv and --plot are for --target and --draft");
        if (!per_row.empty() || !groups.empty() || !options.baseline.empty() || options.by_rank)
            throw std::runtime_error("--per-row, --groups, --baseline and --by-rank are for --target and --draft");
        for (char const* option : {"--logits", "--temperature", "--draft-temperature", "--top-k", "--top-p", "--min-p",
                                   "--threads", "--seed", "--trials"})
            if (app.count(option) > 0)
                throw std::runtime_error(std::string(option) + ": for --target and --draft; cases are probabilities");
        bool const of_trees = trees_option->count() > 0;
        auto const result = of_trees ? rates_of_trees(tree_cases) : rates_of_cases(cases);
        if (json)
            std::cout << result.dump() << '\n';
        else if (latex && of_trees)
            print_trees_latex(std::cout, result);
        else if (latex)
            print_cases_latex(std::cout, result);
        else if (of_trees)
            print_trees(std::cout, result);
        else
            print_cases(std::cout, result);
        return 0;
    }
    if (target_option->count() == 0)
        throw std::runtime_error("name two arrays with --target and --draft, or a file with --cases; see --help");

    bool const of_trees = parents_option->count() > 0;
    if (!of_trees && drafts_option->count() == 0)
        throw std::runtime_error("--target requires --drafts, or --parents for whole trees; see --help");
    if (of_trees && (options.by_rank || !plot.empty()))
        throw std::runtime_error("--by-rank and --plot are for --drafts");

    if (draft_temperature->count() == 0) rows.draft_temperature = rows.temperature;
    for (index_t const n : options.drafts)
        if (rows.top_k > 0 && rows.top_k < n)
            refuse("drafts", n, "beyond the support: --top-k leaves " + std::to_string(rows.top_k));
    check_writable(csv);
    check_writable(plot);
    check_writable(per_row);
    options.fewer_too = !plot.empty();
    row_pairs const pairs(target, draft, rows);
    summary found =
        of_trees ? survey_trees(pairs, {parents, tokens, certain, law}, groups, own, options)
                 : survey(pairs, read_units(groups, static_cast<std::size_t>(pairs.rows()), "rows"), own, options);
    found.target = target;
    found.draft = draft;
    if (!csv.empty()) {
        std::ostringstream text;
        write_csv(text, found);
        write(csv, text.str());
    }
    if (!plot.empty()) {
        std::ostringstream text;
        write_plot(text, found);
        write(plot, text.str());
    }
    if (!per_row.empty()) {
        std::ostringstream text;
        if (ends_with(per_row, ".jsonl"))
            write_rows_json(text, found);
        else
            write_rows_csv(text, found);
        write(per_row, text.str());
    }
    if (json)
        std::cout << to_json(found).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
    else if (latex)
        print_latex(std::cout, found);
    else
        print_table(std::cout, found);
    return 0;
}

}  // namespace

int acceptance_program(int argc, char** argv, std::vector<own_verifier> const& own) {
    try {
        int const result = run(argc, argv, own);
        check_output();
        return result;
    } catch (std::exception const& e) {
        std::cerr << "acceptance: " << e.what() << '\n';
        return 1;
    }
}

}  // namespace multidraft::examples
