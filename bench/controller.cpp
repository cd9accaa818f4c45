// Runs `nested_ranked_block/stratified` on the shipped texts in virtual time: jobs as JSON, one per line, on standard
// input; results, one per line, on standard output. Started by bench/controller.
//
// A job {"texts": [[kind, index], ..], "words", "tokens", "temperature", "seed", "tree", "costs": [FILE, ..],
// "carries"} gives {"runs": [..]}, one object per text: "tokens", "steps", and "seconds", by file the sum over the
// steps of what a step costs by the times of that file: the target's call by its rows, the draft's calls by theirs, the
// library. "tree" is a shape, or "auto" for the library's controller, which knows the times of the one file and no
// clock; with "carries" it keeps its rates from text to text, else each text has a new one. The kind "mixed" of a text
// has the first half of the tokens from one prompt and so on; see bench/controller.
//
// A job {"measure": [TARGET, DRAFT], "nodes": N} gives the times of these models, as `generate --costs` writes them.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "automatic_trees.hpp"
#include "multidraft/control/controller.hpp"
#include "multidraft/tree/shape_text.hpp"
#include "support/shipped_pair.hpp"
#include "transformer/transformer.hpp"
#include "tree_choices.hpp"

namespace {

using namespace multidraft;
using namespace multidraft::bench;
using namespace multidraft::examples;
using nlohmann::json;

/// Passes everything on, and adds the seconds of each step by several tables of times.
class virtual_clock final : public tree_choices {
public:
    virtual_clock(tree_choices& inner, std::span<step_times const> tables)
        : seconds(tables.size(), 0), inner_(inner), tables_(tables) {}

    [[nodiscard]] std::int32_t depth() const override { return inner_.depth(); }
    void start() override { inner_.start(); }
    [[nodiscard]] topology const& choose(step_situation const& situation) override {
        unread_ = situation.unread;
        return inner_.choose(situation);
    }
    void learn(step_outcome const& outcome) override {
        std::int32_t const inner = draft_calls(outcome.tree, unread_, rows_);
        for (std::size_t t = 0; t < tables_.size(); ++t) {
            step_times const& times = tables_[t];
            seconds[t] +=
                times.target(outcome.tree.size()) + times.library.front().step + inner * times.library.front().inner;
            for (std::int32_t const rows : rows_) seconds[t] += times.draft(rows);
        }
        inner_.learn(outcome);
    }
    [[nodiscard]] std::int32_t const& verifier() const override { return inner_.verifier(); }

    std::vector<double> seconds;

private:
    tree_choices& inner_;
    std::span<step_times const> tables_;
    std::int32_t unread_ = 1;
    std::vector<std::int32_t> rows_;
};

json run(shipped_pair& pair, json const& job) {
    std::vector<step_times> tables;
    for (auto const& file : job.at("costs")) tables.push_back(read_times(file.get<std::string>(), the_method()));
    auto const tree = job.at("tree").get<std::string>();
    bool const carries = job.value("carries", false);
    if (tree == "auto" && tables.size() != 1) throw std::runtime_error("costs: the controller knows those of one file");
    controller_options choices = choices_of(the_method(), false, 0, 16);
    choices.learns_times = false;
    std::unique_ptr<tree_choices> inner;
    json runs = json::array();
    std::uint32_t request = 0;
    for (auto const& text : job.at("texts")) {
        auto const prompt =
            pair.prompt(text.at(0).get<std::string>(), text.at(1).get<std::size_t>(), job.at("words").get<int>());
        auto const options = options_of(job.at("tokens").get<std::int32_t>(), job.at("temperature").get<float>(),
                                        job.at("seed").get<std::uint64_t>(), request++);
        if (!inner || (tree == "auto" && !carries)) {
            if (tree == "auto")
                inner = std::make_unique<automatic_tree>(tables.front(), choices);
            else
                inner = std::make_unique<fixed_tree>(tree == "0" ? topology() : parse_shape(tree));
        }
        virtual_clock clock(*inner, tables);
        generation const g = the_method().run_choices(pair.target, pair.draft, clock, prompt, options, {});
        runs.push_back({{"tokens", g.tokens.size()}, {"steps", g.metrics.target_calls}, {"seconds", clock.seconds}});
    }
    return {{"runs", runs}};
}

json measure(shipped_pair const& pair, json const& job) {
    auto const& names = job.at("measure");
    transformer target(names.at(0).get<std::string>(), shipped_pair::options(0));
    transformer draft(names.at(1).get<std::string>(), shipped_pair::options(0));
    generation_options options;
    step_times const times = measure_times(target, draft, the_method(), pair.prompt("satire", 3, 16), options,
                                           job.at("nodes").get<std::int32_t>());
    return json(to_json(times, the_method()));
}

}  // namespace

int main() try {
    shipped_pair pair;
    for (std::string line; std::getline(std::cin, line);) {
        json const job = json::parse(line);
        std::cout << (job.contains("measure") ? measure(pair, job) : run(pair, job)).dump() << '\n' << std::flush;
    }
} catch (std::exception const& e) {
    std::cerr << "controller: " << e.what() << '\n';
    return 1;
}
