// The report of a run by the programs that generate text: one JSON object, or a line of text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "multidraft/decode/metrics.hpp"
#include "multidraft/decode/text_state.hpp"

namespace multidraft::examples {

/// Where a run's time went.
inline nlohmann::ordered_json seconds_by_stage(generation_metrics const& m) {
    return {{"prompt", m.time.prompt}, {"target", m.time.target}, {"draft", m.time.draft}, {"sample", m.time.sample},
            {"mask", m.time.mask},     {"verify", m.time.verify}, {"cache", m.time.cache}};
}

inline char const* name_of(stop_reason reason) {
    switch (reason) {
        case stop_reason::max_tokens:
            return "max_tokens";
        case stop_reason::stop_token:
            return "stop_token";
        case stop_reason::context_limit:
            return "context_limit";
        case stop_reason::callback:
            return "callback";
    }
    return "";
}

/// A rate per step; null where no step is whole.
inline nlohmann::ordered_json rate_of(generation_metrics const& m, double rate) {
    return m.whole_steps.target_calls > 0 ? nlohmann::ordered_json(rate) : nlohmann::ordered_json();
}

/// The counts of whole steps (`generation_metrics`), which rates are of.
inline nlohmann::ordered_json to_json(step_counts const& c) {
    return {{"tokens", c.tokens},
            {"target_calls", c.target_calls},
            {"draft_calls", c.draft_calls},
            {"drafted", c.drafted},
            {"accepted", c.accepted}};
}

/// The object that `--json` prints for a run.
inline nlohmann::ordered_json run_as_json(std::string const& method, bool lossless, generation const& g,
                                          std::string const& text, std::uint64_t seed) {
    generation_metrics const& m = g.metrics;
    nlohmann::ordered_json by_depth = nlohmann::ordered_json::array();
    for (std::size_t d = 0; d < m.by_depth.tried.size(); ++d) by_depth.push_back(m.acceptance_rate(d));
    nlohmann::ordered_json by_rank = nlohmann::ordered_json::array();
    for (std::size_t k = 0; k < m.by_rank.tried.size(); ++k) by_rank.push_back(m.acceptance_rate_of_rank(k));
    return {{"method", method},
            {"lossless", lossless},
            {"text", text},
            {"token_ids", g.tokens},
            {"tokens", m.tokens},
            {"target_calls", m.target_calls},
            {"draft_calls", m.draft_calls},
            {"drafted", m.drafted},
            {"whole_steps", to_json(m.whole_steps)},
            {"block_efficiency", rate_of(m, m.block_efficiency())},
            {"acceptance_rate", rate_of(m, m.acceptance_rate())},
            {"acceptance_rate_by_depth", by_depth},
            {"acceptance_rate_by_rank", by_rank},
            {"seconds", m.seconds},
            {"tokens_per_second", m.tokens_per_second()},
            {"seed", seed},
            {"stopped_by", name_of(g.reason)},
            {"seconds_by_stage", seconds_by_stage(m)}};
}

/// Seconds as a fraction of the decoding time, without the prompt's.
inline double share(generation_metrics const& m, double seconds) {
    double const whole = m.seconds - m.time.prompt;
    return whole > 0 ? seconds / whole : 0;
}

/// One line about a run, to standard error.
inline void print_summary(std::string const& method, generation_metrics const& m) {
    char efficiency[32] = "unknown";  // of a text without a whole step
    if (m.whole_steps.target_calls > 0) std::snprintf(efficiency, sizeof efficiency, "%.2f", m.block_efficiency());
    std::fprintf(
        stderr,
        "[%s: %lld tokens, %.1f tokens/s, %lld target calls, block efficiency %s, target %.0f%%, draft %.0f%%, "
        "sampling + mask + verification %.1f%% of the time]\n",
        method.c_str(), static_cast<long long>(m.tokens), m.tokens_per_second(), static_cast<long long>(m.target_calls),
        efficiency, 100 * share(m, m.time.target), 100 * share(m, m.time.draft),
        100 * share(m, m.time.sample + m.time.mask + m.time.verify));
}

}  // namespace multidraft::examples
