// `generate --compare`: every method on the same prompts, as a table.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "generate/methods.hpp"
#include "generate/report.hpp"

namespace multidraft::examples {

/// How far a longer piece of work has come, on standard error; nothing when that is no terminal.
class progress {
public:
    explicit progress(std::size_t steps) : steps_(steps), shown_(isatty(STDERR_FILENO) != 0) { draw(""); }
    ~progress() {
        if (shown_) std::fprintf(stderr, "\r\033[K");
    }
    progress(progress const&) = delete;
    progress& operator=(progress const&) = delete;

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
    metrics sum;
    double speed_up = 0;
    std::size_t same_text = 0;  ///< runs whose tokens were those of the autoregressive loop
    std::size_t runs = 0;
};

/// A prompt in tokens.
using prompt_tokens = std::vector<token_id>;

/// Runs every method on every prompt with seeds `options.seed` .. + repeat - 1, the methods in turn on each prompt so
/// that all meet the same machine. `shape_of` gives the tree of a method.
template <class ShapeOf>
std::vector<comparison> compare(transformer& target, transformer& draft, std::vector<prompt_tokens> const& prompts,
                                generation_options options, std::uint64_t repeat, ShapeOf shape_of) {
    std::vector<comparison> rows;
    for (method const& m : methods()) rows.push_back({&m, shape_of(m).first, {}, 0, 0, 0});
    std::uint64_t const first = options.seed;
    progress bar(rows.size() * prompts.size() * repeat);
    for (prompt_tokens const& prompt : prompts)
        for (std::uint64_t r = 0; r < repeat; ++r) {
            options.seed = first + r;
            std::vector<token_id> reference;
            for (comparison& row : rows) {
                generation const g = row.how->run(target, draft, shape_of(*row.how).second, prompt, options, {});
                if (row.how == &methods().front()) reference = g.tokens;
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
    std::printf("%-34s %-12s %9s %9s %11s %11s %7s %7s %7s%s\n", "method", "tree", "tokens/s", "speed-up", "block eff.",
                "acceptance", "target", "draft", "ours", greedy ? "  same text" : "");
    for (comparison const& row : rows) {
        metrics const& m = row.sum;
        std::printf("%-34s %-12s %9.1f %8.2fx %11.3f %11.3f %6.1f%% %6.1f%% %6.1f%%", row.how->name.c_str(),
                    row.tree.empty() ? "-" : row.tree.c_str(), m.tokens_per_second(), row.speed_up,
                    m.block_efficiency(), m.acceptance_rate(), 100 * share(m, m.target_seconds),
                    100 * share(m, m.draft_seconds),
                    100 * share(m, m.sample_seconds + m.mask_seconds + m.verify_seconds));
        if (greedy) std::printf("  %zu of %zu", row.same_text, row.runs);
        std::printf("\n");
    }
    std::printf(
        "\nacceptance: how often a node with children had one accepted. target, draft: forward calls; ours: "
        "sampling, masks, verification.\n");
}

inline nlohmann::ordered_json to_json(comparison const& row) {
    metrics const& m = row.sum;
    return {{"method", row.how->name},
            {"lossless", row.how->lossless},
            {"law", row.how->law},
            {"tree", row.tree},
            {"runs", row.runs},
            {"tokens", m.tokens},
            {"target_calls", m.target_calls},
            {"draft_calls", m.draft_calls},
            {"tokens_per_second", m.tokens_per_second()},
            {"speed_up", row.speed_up},
            {"block_efficiency", m.block_efficiency()},
            {"acceptance_rate", m.acceptance_rate()},
            {"target_share", share(m, m.target_seconds)},
            {"draft_share", share(m, m.draft_seconds)},
            {"library_share", share(m, m.sample_seconds + m.mask_seconds + m.verify_seconds)},
            {"same_text", row.same_text}};
}

}  // namespace multidraft::examples
