// `--tree auto`, `--method auto`: the cost of steps, measured or from a file, and the choices based on it.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "call_seconds.hpp"
#include "multidraft/analysis/configuration_search.hpp"
#include "multidraft/control/controller.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/decode/options.hpp"
#include "multidraft/decode/step_outcome.hpp"
#include "multidraft/rows/sampling_params.hpp"
#include "multidraft/tree/shapes.hpp"
#include "tree_choices.hpp"

namespace multidraft::examples {

/// The family of trees to choose from for a method of `name` and `run_choices`. `most_children`: of a node, 0: any
/// number. Throws `std::runtime_error` for a method whose trees cannot be chosen.
template <class Method>
controller_options choices_of(Method const& how, bool forks_only, std::int32_t most_children, std::int32_t nodes) {
    if (!how.run_choices)
        throw std::runtime_error("--tree auto: the trees of " + how.name + " are not chosen by their shape");
    if (forks_only) throw std::runtime_error("--tree auto: " + how.name + " takes chains that part at the root only");
    controller_options options;
    options.nodes = nodes;
    if (most_children > 0) options.children = most_children;
    return options;
}

/// Measures the library's part of a step, by short texts of the method with each of its verifiers, without trees and
/// with small ones in turn; the medians of 5 rounds, or fewer (at least 2) that take about a second together, after one
/// whose memory is new. `Method` has `run_choices`, and `verifiers` by name.
template <language_model Model, class Method>
std::vector<library_cost> measure_library(Model& target, Model& draft, Method const& how,
                                          std::span<token_id const> prompt, generation_options options) {
    // However few tokens are asked for: the times may be kept for other texts.
    options.max_tokens = 12;
    auto const room = static_cast<std::size_t>(std::max(1, target.context_limit() - options.max_tokens));
    prompt = prompt.first(std::min(prompt.size(), room));
    options.stop_tokens.clear();
    options.observer = {};
    options.request = ~options.request;  // other draws than the text's
    constexpr double longest = 1;
    double whole = 0;
    std::vector<library_cost> result;
    for (std::size_t v = 0; v < how.verifiers.size(); ++v) {
        auto const seconds_a_step = [&](topology const& shape, double& inner) {
            fixed_tree one(shape, static_cast<std::int32_t>(v));
            generation_metrics const m = how.run_choices(target, draft, one, prompt, options, {}).metrics;
            auto const steps = static_cast<double>(std::max<std::int64_t>(m.target_calls, 1));
            // Every tree has its shape except the last ones of the text, which end earlier.
            inner = static_cast<double>(m.drafted) / steps;
            whole += m.seconds;
            return step_seconds::of(m).library / steps;
        };
        std::vector<double> steps;
        std::vector<double> inners;
        for (int round = 0; round < 6 && (round < 3 || whole < longest); ++round) {
            double none = 0;
            double inner = 0;
            double const step = seconds_a_step(topology(), none);
            double const with_tree = seconds_a_step(chain(2), inner);
            if (round == 0) continue;
            steps.push_back(step);
            inners.push_back(inner > 0 ? std::max(0.0, (with_tree - step) / inner) : 0);
        }
        result.push_back({median_of(std::move(steps)), median_of(std::move(inners))});
    }
    return result;
}

/// The numbers of rows whose calls are measured for trees of so many nodes: all small ones, and about powers of two,
/// since products take some rows together, and one row more may take another pass.
inline std::vector<std::int32_t> measured_rows(std::int32_t nodes) {
    std::vector<std::int32_t> sizes{1, 2, 3, 4, 5, 6, 7};
    for (std::int32_t rows = 8; rows <= nodes; rows *= 2)
        for (std::int32_t const near : {rows, rows + 1, rows + rows / 2}) sizes.push_back(near);
    std::erase_if(sizes, [&](std::int32_t rows) { return rows > nodes; });
    sizes.push_back(nodes + 1);
    return sizes;
}

/// Median seconds by size, nondecreasing: `call(size)` measures one. 9 rounds of all sizes, or fewer (at least 3) that
/// take some 2 seconds together.
template <class Call>
std::vector<std::pair<std::int32_t, double>> seconds_by_size(std::span<std::int32_t const> sizes, Call&& call) {
    constexpr double longest = 2;
    std::vector<std::vector<double>> all(sizes.size());
    double whole = 0;
    for (int round = 0; round < 9 && (round < 3 || whole < longest); ++round)
        for (std::size_t k = 0; k < sizes.size(); ++k) whole += all[k].emplace_back(call(sizes[k]));
    std::vector<double> seconds;
    for (auto const& of_size : all) seconds.push_back(median_of(of_size));
    seconds = nondecreasing(seconds);
    std::vector<std::pair<std::int32_t, double>> result;
    for (std::size_t k = 0; k < sizes.size(); ++k) result.emplace_back(sizes[k], seconds[k]);
    return result;
}

/// The same of calls of a model, by rows.
template <language_model Model>
std::vector<std::pair<std::int32_t, double>> seconds_of_rows(Model& model, std::int32_t nodes) {
    std::vector<std::int32_t> const sizes = measured_rows(nodes);
    return seconds_by_size(sizes, timed_calls<Model>(model, sizes.back()));
}

/// Measures the cost of steps that no model drafts for: calls of the target by rows. What the library does is little
/// beside them, and taken for none.
template <language_model Model>
step_times measure_times_of_target(Model& target, std::int32_t nodes) {
    return {analysis::call_cost(seconds_of_rows(target, nodes)), analysis::call_cost({{1, 0.0}}), {{}}};
}

/// Measures the cost of steps: calls of both models by rows, and the library's part (`measure_library`).
template <language_model Model, class Method>
step_times measure_times(Model& target, Model& draft, Method const& how, std::span<token_id const> prompt,
                         generation_options const& options, std::int32_t nodes) {
    constexpr double longest = 4;  // seconds of all calls
    std::vector<std::int32_t> const sizes = measured_rows(nodes);
    auto const [target_seconds, draft_seconds] = median_call_seconds<Model>(target, draft, sizes, longest);
    std::vector<std::pair<std::int32_t, double>> of_target, of_draft;
    for (std::size_t k = 0; k < target_seconds.size(); ++k) {
        of_target.emplace_back(sizes[k], target_seconds[k]);
        of_draft.emplace_back(sizes[k], draft_seconds[k]);
    }
    return {analysis::call_cost(std::move(of_target)), analysis::call_cost(std::move(of_draft)),
            measure_library(target, draft, how, prompt, options)};
}

/// What times depend on besides the machine and the method, by name: models, numbers, threads, sampling.
using time_conditions = std::vector<std::pair<std::string, std::string>>;

/// What of the sampling parameters decides what the library does with a row, and so its time.
inline std::string kind_of_sampling(sampling_params const& w) {
    if (w.greedy()) return "temperature 0";
    std::string kind = "temperature above 0";
    if (w.top_k > 0) kind += ", top-k";
    if (w.top_p < 1) kind += ", top-p";
    if (w.min_p > 0) kind += ", min-p";
    return kind;
}

/// The conditions of all programs.
inline time_conditions conditions_of(std::string target, std::string draft, generation_options const& options) {
    return {{"target", std::move(target)},
            {"draft", std::move(draft)},
            {"sampling", kind_of_sampling(options.sampling)},
            {"draft_sampling", kind_of_sampling(options.draft_sampling.value_or(options.sampling))}};
}

/// `measured_with`: written beside the times, where there are any.
template <class Method>
nlohmann::ordered_json to_json(step_times const& times, Method const& how, time_conditions const& measured_with = {}) {
    auto const of = [](analysis::call_cost const& cost) {
        auto points = nlohmann::ordered_json::array();
        for (auto const& [rows, seconds] : cost.points()) points.push_back({rows, seconds});
        return points;
    };
    nlohmann::ordered_json library;
    for (std::size_t v = 0; v < how.verifiers.size(); ++v)
        library[how.verifiers[v]] = {{"step", times.library[v].step}, {"node", times.library[v].inner}};
    nlohmann::ordered_json all{{"target_seconds_by_rows", of(times.target)},
                               {"draft_seconds_by_rows", of(times.draft)},
                               {"library_seconds", library}};
    for (auto const& [name, value] : measured_with) all["measured_with"][name] = value;
    return all;
}

/// Steps by verifier and tree, the most frequent first.
template <class Method>
nlohmann::ordered_json to_json(automatic_tree const& chosen, Method const& how) {
    auto list = nlohmann::ordered_json::array();
    for (auto const& [what, steps] : chosen.chosen())
        list.push_back({{"verifier", how.verifiers[static_cast<std::size_t>(what.first)]},
                        {"tree", what.second},
                        {"steps", steps}});
    std::stable_sort(list.begin(), list.end(), [](auto const& a, auto const& b) { return a["steps"] > b["steps"]; });
    return list;
}

/// One line about the trees that were chosen, to standard error.
template <class Method>
void print_choices(automatic_tree const& chosen, Method const& how) {
    nlohmann::ordered_json const list = to_json(chosen, how);
    std::int64_t steps = 0;
    for (nlohmann::ordered_json const& one : list) steps += one["steps"].get<std::int64_t>();
    std::string line;
    for (std::size_t k = 0; k < std::min<std::size_t>(list.size(), 6); ++k) {
        auto const tree = list[k]["tree"].get<std::string>();
        line += (k > 0 ? ", " : "") + (tree == "0" ? std::string("none") : tree) + ' ' +
                std::to_string(100 * list[k]["steps"].get<std::int64_t>() / std::max<std::int64_t>(steps, 1)) + '%';
        if (how.verifiers.size() > 1 && tree != "0") line += " (" + list[k]["verifier"].get<std::string>() + ')';
    }
    std::fprintf(stderr, "[trees: %s%s]\n", line.c_str(), list.size() > 6 ? ", .." : "");
}

/// The times of a file that `to_json` wrote. Throws `std::runtime_error` that names the file and what is missing, or a
/// condition that is another there. What a file does not name is not compared.
template <class Method>
step_times read_times(std::string const& file, Method const& how, time_conditions const& wanted = {}) {
    std::ifstream in(file);
    if (!in) throw std::runtime_error("--costs " + file + ": cannot be read");
    std::string other;
    try {
        auto const json = nlohmann::json::parse(in);
        auto const measured_with = json.value("measured_with", std::map<std::string, std::string>());
        for (auto const& [name, value] : wanted)
            if (auto const found = measured_with.find(name); found != measured_with.end() && found->second != value)
                other += (other.empty() ? "" : "; ") + name + " is " + found->second + ", not " + value;
        auto const of = [&](char const* name) {
            std::vector<std::pair<std::int32_t, double>> points;
            for (auto const& point : json.at(name))
                points.emplace_back(point.at(0).get<std::int32_t>(), point.at(1).get<double>());
            return analysis::call_cost(std::move(points));
        };
        step_times times{of("target_seconds_by_rows"), of("draft_seconds_by_rows"), {}};
        for (std::string const& verifier : how.verifiers) {
            auto const& one = json.at("library_seconds").at(verifier);
            times.library.push_back({one.at("step").get<double>(), one.at("node").get<double>()});
        }
        if (other.empty()) return times;
    } catch (std::exception const& e) {
        throw std::runtime_error("--costs " + file + ": holds no times of " + how.name + " (" + e.what() + ")");
    }
    throw std::runtime_error("--costs " + file + ": was measured with others (" + other + "); name another file");
}

/// Writes a file that is not there yet. Another process never sees half of it, and of several that write it the first
/// one wins: read it afterwards. Returns false, and leaves nothing, where it cannot be written.
inline bool write_once(std::filesystem::path const& file, std::string const& text) {
    auto part = file;
    part += "." + std::to_string(::getpid()) + ".part";
    std::ofstream out(part);
    out << text << '\n';
    out.close();
    std::error_code error;
    bool written = static_cast<bool>(out);
    if (written) {
        std::filesystem::create_hard_link(part, file, error);
        if (error && error != std::errc::file_exists) {  // there are no such links
            std::filesystem::rename(part, file, error);
            written = !error;
        }
    }
    std::filesystem::remove(part, error);
    return written;
}

/// The times of the file where there is one, and else those that `measure()` gives and, where a file is named, written
/// to it.
template <class Method, class Measure>
step_times times_of(std::string const& file, Method const& how, time_conditions const& with, Measure const& measure) {
    if (!file.empty() && std::filesystem::exists(file)) return read_times(file, how, with);
    step_times times = measure();
    if (file.empty()) return times;
    if (!write_once(file, to_json(times, how, with).dump(2, ' ', false, nlohmann::json::error_handler_t::replace)))
        throw std::runtime_error("--costs " + file + ": cannot be written");
    return read_times(file, how, with);
}

}  // namespace multidraft::examples
