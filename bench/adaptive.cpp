// Trees that adapt within a step and fixed ones on the shipped texts: jobs as JSON, one per line, on standard input;
// results, one per line, on standard output. Started by bench/adaptive.
//
// A job {"verifier", "texts": [[kind, index], ..], "words", "tokens", "temperature", "draft_temperature", "seed",
// "tree"} gives {"runs": [..]}, one object per text: "tokens", "steps" (target calls), "nodes" (drafted),
// "draft_calls". "verifier" is nested_ranked_block or ranked_block, its candidates are stratified. With "mean",
// "nodes", "depth" and "children" instead of "tree" the trees adapt, by_threshold for the former verifier and
// by_level_budget for the latter; threshold and rates are kept from text to text.
//
// With "measure": [SHAPE, ..], "budgets": [N, ..], "depths" and "children" instead of "tree", the result is {"trees":
// {N: [SHAPE, ..]}}: the optimal trees of N nodes and of each of these depths, for the rates of the texts with trees of
// the first shapes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "multidraft/analysis/optimal_tree.hpp"
#include "multidraft/decode/acceptance_history.hpp"
#include "multidraft/decode/controlled_drafter.hpp"
#include "multidraft/decode/controller.hpp"
#include "multidraft/decode/reach_drafter.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/ranked_block.hpp"
#include "support/shipped_pair.hpp"

namespace {

using namespace multidraft;
using multidraft::bench::shipped_pair;
using multidraft::examples::transformer;
using nlohmann::json;

/// One shape, and the acceptance rates of its trees.
class counted_tree {
public:
    counted_tree(topology shape, acceptance_history& rates) : shape_(std::move(shape)), rates_(rates) {}

    [[nodiscard]] std::int32_t depth() const { return shape_.max_depth(); }
    void start() {}
    [[nodiscard]] topology const& choose(step_situation const& situation) {
        now_ = situation.depth < depth() ? topology() : shape_;
        return now_;
    }
    void learn(step_outcome const& outcome) {
        if (now_.size() > 1) rates_.learn(now_, outcome);
    }

private:
    topology shape_, now_;
    acceptance_history& rates_;
};

/// Continues the texts of a job and calls `count(generation)` for each.
template <class Loop, class Count>
void continue_texts(Loop&& loop, shipped_pair const& pair, json const& job, Count count) {
    generation_options options;
    options.max_tokens = job.at("tokens").get<std::int32_t>();
    options.sampling.temperature = job.at("temperature").get<float>();
    options.draft_sampling = options.sampling;
    options.draft_sampling->temperature = job.at("draft_temperature").get<float>();
    options.seed = job.at("seed").get<std::uint64_t>();
    for (auto const& text : job.at("texts")) {
        auto const prompt =
            pair.prompt(text.at(0).get<std::string>(), text.at(1).get<std::size_t>(), job.at("words").get<int>());
        count(loop(prompt, options));
        ++options.request;
    }
}

/// What `generate` calls a method: a verifier, and the drafter of adaptive trees that it allows.
template <class Verifier, class Rule>
json run(shipped_pair& pair, json const& job) {
    json runs = json::array();
    auto const count = [&](generation const& g) {
        runs.push_back({{"tokens", g.tokens.size()},
                        {"steps", g.metrics.target_calls},
                        {"nodes", g.metrics.drafted},
                        {"draft_calls", g.metrics.draft_calls}});
    };
    if (job.contains("measure")) {
        acceptance_history rates(1e9);
        for (auto const& name : job.at("measure")) {
            counted_tree shape(parse_shape(name.get<std::string>()), rates);
            continue_texts(make_controlled<draft::stratified, Verifier>(pair.target, pair.draft, shape), pair, job,
                           [](generation const&) {});
        }
        json trees = json::object();
        for (auto const& depth : job.at("depths")) {
            auto const budgets = job.at("budgets").get<std::vector<std::int32_t>>();
            analysis::optimal_trees const best(
                rates.rank_rates(depth.get<std::int32_t>(), job.at("children").get<std::int32_t>()),
                *std::max_element(budgets.begin(), budgets.end()));
            for (std::int32_t const nodes : budgets) trees[std::to_string(nodes)].push_back(to_string(best(nodes)));
        }
        return {{"trees", trees}};
    }
    if (job.contains("tree")) {
        continue_texts(make_speculative<draft::stratified, Verifier>(pair.target, pair.draft,
                                                                     parse_shape(job.at("tree").get<std::string>())),
                       pair, job, count);
    } else {
        reach_options options;
        options.nodes = job.at("nodes").get<std::int32_t>();
        options.depth = job.at("depth").get<std::int32_t>();
        options.children = job.at("children").get<std::int32_t>();
        options.mean_nodes = job.at("mean").get<double>();
        continue_texts(make_speculative<Verifier>(
                           pair.target, reach_drafter<transformer, draft::stratified, Rule>(pair.draft, options)),
                       pair, job, count);
    }
    return {{"runs", runs}};
}

json run_any(shipped_pair& pair, json const& job) {
    auto const verifier = job.at("verifier").get<std::string>();
    if (verifier == "nested_ranked_block")
        return run<verify::nested_ranked_block<law::stratified>, by_threshold>(pair, job);
    if (verifier == "ranked_block") return run<verify::ranked_block<law::stratified>, by_level_budget>(pair, job);
    throw std::runtime_error("verifier: nested_ranked_block or ranked_block, not " + verifier);
}

}  // namespace

int main() try {
    shipped_pair pair;
    for (std::string line; std::getline(std::cin, line);)
        std::cout << run_any(pair, json::parse(line)).dump() << '\n' << std::flush;
} catch (std::exception const& e) {
    std::cerr << "adaptive: " << e.what() << '\n';
    return 1;
}
