// acceptance: what the verifiers accept of a draft, and what any could, for the rows of your own models.
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

#include "acceptance/cases.hpp"
#include "acceptance/plot.hpp"
#include "acceptance/row_pairs.hpp"
#include "acceptance/summary.hpp"
#include "acceptance/survey.hpp"
#include "acceptance/tree_cases.hpp"
#include "command_line.hpp"
#include "multidraft/core/error.hpp"

namespace {

using namespace multidraft;
using namespace multidraft::examples;

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

int run(int argc, char** argv) {
    std::string target;
    std::string draft;
    std::string cases;
    std::string tree_cases;
    std::string csv;
    std::string plot;
    bool json = false;
    row_options rows;
    survey_options options;
    options.drafts = 0;

    CLI::App app{
        "Acceptance rates of a target and a draft model at one node: for each law of the drafts the bound that no "
        "lossless\nverifier can exceed, and what the verifiers reach. Means over the rows, with 95 % intervals."};
    app.footer(footer);
    auto* const target_option =
        app.add_option("--target", target, "p: a .npy array (V) or (rows, V) of float16, float32 or float64, C order");
    auto* const draft_option = app.add_option("--draft", draft, "q: an array of the same shape");
    auto* const drafts_option = app.add_option("--drafts", options.drafts, "tokens drafted at a node");
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
    app.add_flag("--json", json, "print one JSON object");
    app.add_option("--csv", csv, "also write the table to this file");
    app.add_option("--plot", plot, "also draw bounds and rates for 1 to --drafts drafts, as SVG, to this file");
    app.add_option("--threads", options.threads, "0: one a core")->check(CLI::Range(0, 1024))->capture_default_str();
    app.add_option("--seed", options.seed,
                   "of the rates that are estimated: recursive rejection without replacement where V^(n-1) is above a "
                   "million")
        ->check(CLI::Validator(fault_of_unsigned, "0 .. 2^64 - 1"))
        ->capture_default_str();
    auto* const cases_option =
        app.add_option("--cases", cases, "instead of arrays: {\"cases\": [{\"p\": [..], \"q\": [..], \"n\": 3}, ..]}");
    auto* const trees_option = app.add_option(
        "--tree-cases", tree_cases,
        "instead of arrays: whole trees over a few tokens, {\"cases\": [{\"V\", \"children\", \"p\", \"q\"}, ..]}");
    target_option->needs(draft_option)->needs(drafts_option);
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
        bool const trees = trees_option->count() > 0;
        auto const result = trees ? rates_of_trees(tree_cases) : rates_of_cases(cases);
        if (json)
            std::cout << result.dump() << '\n';
        else if (trees)
            print_trees(std::cout, result);
        else
            print_cases(std::cout, result);
        return 0;
    }
    if (target_option->count() == 0)
        throw std::runtime_error("name two arrays with --target and --draft, or a file with --cases; see --help");

    if (draft_temperature->count() == 0) rows.draft_temperature = rows.temperature;
    if (rows.top_k > 0 && rows.top_k < options.drafts)
        refuse("drafts", options.drafts, "beyond the support: --top-k leaves " + std::to_string(rows.top_k));
    check_writable(csv);
    check_writable(plot);
    options.fewer_too = !plot.empty();
    summary found = survey(row_pairs(target, draft, rows), options);
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
    if (json)
        std::cout << to_json(found).dump(2) << '\n';
    else
        print_table(std::cout, found);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        int const result = run(argc, argv);
        check_output();
        return result;
    } catch (std::exception const& e) {
        std::cerr << "acceptance: " << e.what() << '\n';
        return 1;
    }
}
