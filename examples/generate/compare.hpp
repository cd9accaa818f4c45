// `generate --compare`: every method on the same prompts, as a table.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "generate/drafter_option.hpp"
#include "generate/energy.hpp"
#include "generate/methods.hpp"
#include "generate/perplexity.hpp"
#include "generate/report.hpp"
#include "multidraft/analysis/block_efficiency.hpp"
#include "multidraft/analysis/bootstrap.hpp"

namespace multidraft::examples {

/// The progress of a longer piece of work, on standard error if that is a terminal.
class steps_bar {
public:
    explicit steps_bar(std::size_t steps) : steps_(steps), shown_(isatty(STDERR_FILENO) != 0) { draw(""); }
    ~steps_bar() {
        if (shown_) std::fprintf(stderr, "\r\033[K");
    }
    steps_bar(steps_bar const&) = delete;
    steps_bar& operator=(steps_bar const&) = delete;

    void step(std::string const& what) {
        ++done_;
        draw(what);
    }

private:
    void draw(std::string const& what) const {
        if (!shown_) return;
        constexpr std::size_t width = 30;
        std::size_t const full = steps_ == 0 ? width : done_ * width / steps_;
        std::fprintf(stderr, "\r\033[K[%s%s] %zu/%zu %s", std::string(full, '#').c_str(),
                     std::string(width - full, '.').c_str(), done_, steps_, what.c_str());
        std::fflush(stderr);
    }

    std::size_t steps_;
    std::size_t done_ = 0;
    bool shown_;
};

/// One row of the table: a method over all prompts and seeds.
struct comparison {
    method const* how = nullptr;
    std::string tree;
    generation_metrics sum;
    double speed_up = 0;
    std::size_t same_text = 0;  ///< runs whose tokens were those of the autoregressive loop
    std::size_t runs = 0;
    std::int32_t depth = 0;                ///< of the requested tree
    double size_ratio = 0;                 ///< parameters of the draft / of the target
    bool one_call = false;                 ///< the draft gives all levels in one call
    std::vector<generation_metrics> each;  ///< the runs, for intervals
    std::vector<double> nll;               ///< of each run's tokens, if requested
    std::vector<double> joules;            ///< of each run, where there is a counter
    std::string energy_source;

    /// A statistic of the sums over some runs, with its 95 % interval over prompts and seeds.
    template <class Statistic>
    [[nodiscard]] analysis::estimate estimate(Statistic statistic) const {
        return analysis::bootstrap(each.size(), [&](std::span<std::size_t const> runs_of) {
            generation_metrics total;
            for (std::size_t const i : runs_of) total += each[i];
            return statistic(total);
        });
    }
    /// exp of the mean -log p of a token.
    [[nodiscard]] analysis::estimate perplexity() const {
        return analysis::bootstrap(each.size(), [&](std::span<std::size_t const> runs_of) {
            double sum_nll = 0;
            double tokens = 0;
            for (std::size_t const i : runs_of) {
                sum_nll += nll[i];
                tokens += static_cast<double>(each[i].tokens);
            }
            return tokens > 0 ? std::exp(sum_nll / tokens) : 1.0;
        });
    }
    [[nodiscard]] analysis::estimate joules_per_token() const {
        std::vector<double> tokens;
        for (generation_metrics const& m : each) tokens.push_back(static_cast<double>(m.tokens));
        return analysis::bootstrap_ratio(joules, tokens);
    }
    /// Memory-bound speed-up: the speed-up if the cost of a call is the bytes of its model. Draft calls per step are
    /// used as the depth, so that it holds for trees of varying depth too.
    [[nodiscard]] double memory_bound_speed_up(generation_metrics const& m) const {
        if (m.whole_steps.target_calls == 0) return 0;
        double const calls =
            static_cast<double>(m.whole_steps.draft_calls) / static_cast<double>(m.whole_steps.target_calls);
        return m.block_efficiency() / (calls * size_ratio + 1);
    }
    /// The improvement factor from the acceptance rate and the measured costs ([Leviathan23], Theorem 3.8).
    [[nodiscard]] double improvement_factor(generation_metrics const& m) const {
        if (m.target_calls == 0 || m.time.target <= 0) return 1;
        double const target = m.time.target / static_cast<double>(m.target_calls);
        double draft = m.draft_calls > 0 ? m.time.draft / static_cast<double>(m.draft_calls) : 0;
        if (one_call && depth > 0) draft /= depth;
        return analysis::improvement_factor(std::min(1.0, m.acceptance_rate()), depth, draft / target);
    }
};

/// A prompt in tokens.
using prompt_tokens = std::vector<token_id>;

/// Runs every method on every prompt with seeds `options.seed` .. + repeat - 1, the methods in turn on each prompt so
/// that all run under the same conditions. `shape_of` returns the tree of a method.
template <class ShapeOf>
std::vector<comparison> compare(transformer& target, transformer& draft, std::vector<prompt_tokens> const& prompts,
                                generation_options options, std::uint64_t repeat, ShapeOf shape_of,
                                bool with_perplexity = false, bool on_gpu = false) {
    energy_meter energy(on_gpu);
    std::vector<comparison> rows;
    for (method const& m : offered_methods()) {
        auto const [text, shape] = shape_of(m);
        comparison row;
        row.how = &m;
        row.tree = text;
        row.depth = levels_of(shape, target);
        row.one_call = !settings().block_drafter.empty();
        row.size_ratio = static_cast<double>(parameters_of_drafter(target, draft)) /
                         static_cast<double>(std::max<std::int64_t>(1, target.weights()->parameters()));
        row.energy_source = energy.source();
        rows.push_back(std::move(row));
    }
    std::uint64_t const first = options.seed;
    steps_bar bar(rows.size() * prompts.size() * repeat);
    for (prompt_tokens const& prompt : prompts)
        for (std::uint64_t r = 0; r < repeat; ++r) {
            options.seed = first + r;
            std::vector<token_id> reference;
            for (comparison& row : rows) {
                energy.start();
                generation const g = row.how->run(target, draft, shape_of(*row.how).second, prompt, options, {});
                if (auto const joules = energy.joules()) row.joules.push_back(*joules);
                row.each.push_back(g.metrics);
                if (with_perplexity) row.nll.push_back(negative_log_likelihood(target, prompt, g.tokens));
                if (row.how == &offered_methods().front()) reference = g.tokens;
                row.sum += g.metrics;
                if (g.tokens == reference) ++row.same_text;
                ++row.runs;
                bar.step(row.how->name);
            }
        }
    for (comparison& row : rows) {
        double const base = rows.front().sum.tokens_per_second();
        row.speed_up = base > 0 ? row.sum.tokens_per_second() / base : 0;
    }
    return rows;
}

inline void print_table(std::vector<comparison> const& rows, bool greedy) {
    std::printf("%-36s %-12s %9s %9s %11s %11s %7s %7s %7s%s\n", "method", "tree", "tokens/s", "speed-up", "block eff.",
                "acceptance", "target", "draft", "library", greedy ? "  same text" : "");
    for (comparison const& row : rows) {
        generation_metrics const& m = row.sum;
        std::printf("%-36s %-12s %9.1f %8.2fx %11.3f %11.3f %6.1f%% %6.1f%% %6.1f%%", row.how->name.c_str(),
                    row.tree.empty() ? "-" : row.tree.c_str(), m.tokens_per_second(), row.speed_up,
                    m.block_efficiency(), m.acceptance_rate(), 100 * share(m, m.time.target),
                    100 * share(m, m.time.draft), 100 * share(m, m.time.sample + m.time.mask + m.time.verify));
        if (greedy) std::printf("  %zu of %zu", row.same_text, row.runs);
        std::printf("\n");
    }
    std::printf("\n%-36s %-21s %-21s %-15s%s\n", "95 % intervals over runs", "block efficiency", "acceptance",
                "memory-bound", rows.front().nll.empty() ? "" : "  perplexity of the text under the target");
    for (comparison const& row : rows) {
        auto const efficiency = row.estimate([](generation_metrics const& m) { return m.block_efficiency(); });
        auto const rate = row.estimate([](generation_metrics const& m) { return m.acceptance_rate(); });
        auto const bound = row.estimate([&](generation_metrics const& m) { return row.memory_bound_speed_up(m); });
        std::printf("%-36s %5.3f [%.3f, %.3f]  %5.3f [%.3f, %.3f]  %4.2fx", row.how->name.c_str(), efficiency.value,
                    efficiency.low, efficiency.high, rate.value, rate.low, rate.high, bound.value);
        if (!row.nll.empty()) {
            auto const found = row.perplexity();
            std::printf("            %.2f [%.2f, %.2f]", found.value, found.low, found.high);
        }
        std::printf("\n");
    }
    std::printf("energy: %s\n", rows.front().energy_source.c_str());
    std::printf(
        "\nblock efficiency: tokens per target call of whole steps, without the last ones, which the end of the text "
        "cuts; 0 where no step is whole. acceptance: how often a node with children had one accepted. target, draft: "
        "forward calls; library: sampling, masks, verification.\n");
}

inline nlohmann::ordered_json to_json(comparison const& row) {
    generation_metrics const& m = row.sum;
    auto const with_interval = [](analysis::estimate const& e) {
        return nlohmann::ordered_json{{"value", e.value}, {"low", e.low}, {"high", e.high}, {"runs", e.samples}};
    };
    auto by_depth = nlohmann::ordered_json::array();
    for (std::size_t d = 0; d < m.by_depth.tried.size(); ++d) by_depth.push_back(m.acceptance_rate(d));
    auto by_rank = nlohmann::ordered_json::array();
    for (std::size_t k = 0; k < m.by_rank.tried.size(); ++k) by_rank.push_back(m.acceptance_rate_of_rank(k));
    // Of whole steps; null where there is none.
    auto const of_steps = [&](auto const& statistic) {
        return m.whole_steps.target_calls > 0 ? with_interval(row.estimate(statistic)) : nlohmann::ordered_json();
    };
    nlohmann::ordered_json estimates = {
        {"block_efficiency", of_steps([](generation_metrics const& x) { return x.block_efficiency(); })},
        {"acceptance_rate", of_steps([](generation_metrics const& x) { return x.acceptance_rate(); })},
        {"accepted_fraction", of_steps([&](generation_metrics const& x) { return x.accepted_fraction(row.depth); })},
        {"improvement_factor", of_steps([&](generation_metrics const& x) { return row.improvement_factor(x); })},
        {"memory_bound_speed_up", of_steps([&](generation_metrics const& x) { return row.memory_bound_speed_up(x); })},
        {"tokens_per_second",
         with_interval(row.estimate([](generation_metrics const& x) { return x.tokens_per_second(); }))}};
    if (!row.nll.empty()) estimates["perplexity"] = with_interval(row.perplexity());
    if (row.joules.size() == row.each.size()) estimates["joules_per_token"] = with_interval(row.joules_per_token());
    return {{"method", row.how->name},
            {"lossless", row.how->lossless},
            {"law", row.how->law},
            {"tree", row.tree},
            {"runs", row.runs},
            {"tokens", m.tokens},
            {"target_calls", m.target_calls},
            {"draft_calls", m.draft_calls},
            {"whole_steps", to_json(m.whole_steps)},
            {"tokens_per_second", m.tokens_per_second()},
            {"speed_up", row.speed_up},
            {"block_efficiency", rate_of(m, m.block_efficiency())},
            {"acceptance_rate", rate_of(m, m.acceptance_rate())},
            {"target_share", share(m, m.time.target)},
            {"draft_share", share(m, m.time.draft)},
            {"library_share", share(m, m.time.sample + m.time.mask + m.time.verify)},
            {"same_text", row.same_text},
            {"acceptance_rate_by_depth", by_depth},
            {"acceptance_rate_by_rank", by_rank},
            {"energy", row.energy_source},
            {"estimates", estimates}};
}

}  // namespace multidraft::examples
