// Laws of whole texts: the target's own, and a loop's by enumeration.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "multidraft/decode/options.hpp"
#include "multidraft/decode/text_state.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/testing/enumerating.hpp"
#include "support/table_model.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

using text_law = std::map<std::vector<token_id>, double>;

/// The law of n tokens after a prompt, each drawn from the processed conditional.
inline text_law true_law(conditional const& p, std::int32_t vocabulary, std::vector<token_id> const& prompt, int n,
                         sampling_params const& w) {
    text_law law{{{}, 1.0}};
    for (int i = 0; i < n; ++i) {
        text_law next;
        for (auto const& [tokens, weight] : law) {
            std::vector<token_id> whole = prompt;
            whole.insert(whole.end(), tokens.begin(), tokens.end());
            std::vector<double> logits = p(whole);
            for (auto& x : logits) x = std::log(x);
            auto const row = process_logits(host_group{}, row_view<double>(logits.data(), vocabulary), w).row;
            for (token_id x = 0; x < vocabulary; ++x) {
                if (!(row(x) > 0)) continue;
                auto longer = tokens;
                longer.push_back(x);
                next[longer] += weight * row(x);
            }
        }
        law = std::move(next);
    }
    return law;
}

inline double distance(text_law const& a, text_law const& b) {
    double sum = 0;
    for (auto const& [tokens, p] : a) sum += std::abs(p - (b.contains(tokens) ? b.at(tokens) : 0.0));
    for (auto const& [tokens, p] : b)
        if (!a.contains(tokens)) sum += p;
    return sum / 2;
}

/// The result of an enumeration of a loop.
struct loop_law {
    text_law law;
    double total = 0;     ///< of the branches' probabilities
    double calls = 0;     ///< mean target calls
    double accepted = 0;  ///< mean accepted nodes
    std::uint64_t branches = 0;
};

/// The exact law of the text of a loop `loop(prompt, options, source)`. `after(result)` sees every branch.
template <class Loop, class After>
loop_law law_of_loop(Loop& loop, std::vector<token_id> const& prompt, generation_options const& options, After after,
                     index_t grid = 3) {
    loop_law result;
    result.branches = enumerate(
        [&](enumerating_source& source) {
            generation const g = loop(prompt, options, source);
            result.law[g.tokens] += source.probability();
            result.total += source.probability();
            result.calls += source.probability() * static_cast<double>(g.metrics.target_calls);
            result.accepted += source.probability() * static_cast<double>(g.metrics.accepted);
            after(g);
        },
        grid);
    return result;
}

}  // namespace MULTIDRAFT_NAMESPACE::testing
