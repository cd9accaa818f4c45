// Sampling parameters applied by sorting: the reference for the passes without a sort.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/row_view.hpp"
#include "multidraft/rows/sampling_params.hpp"
#include "multidraft/rows/softmax.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// The tokens kept by sampling parameters, and their probabilities.
struct processed_reference {
    std::vector<bool> kept;
    std::vector<double> probability;
};

/// The documented chain, applied to a sorted row, in double precision. The masses that top-p counts are the library's
/// own weights, since a set that depends on the last bit of a weight has no other definition.
template <class Real>
processed_reference reference_processing(std::vector<Real> const& logits, sampling_params const& w) {
    std::size_t const n = logits.size();
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return logits[a] > logits[b] || (logits[a] == logits[b] && a < b); });
    Real const largest = logits[order[0]];
    processed_reference result{std::vector<bool>(n, false), std::vector<double>(n, 0.0)};
    std::size_t count = n;
    if (w.greedy()) {
        count = 1;
    } else {
        // 2. top-k
        if (w.top_k > 0) count = std::min(count, static_cast<std::size_t>(w.top_k));
        // 3. top-p, of the remaining tokens
        if (w.top_p < 1.0F) {
            sampling_params plain;
            plain.temperature = w.temperature;
            row_view<Real> const view(logits.data(), static_cast<index_t>(n));
            auto const row = process_logits(host_group{}, view, plain).row;
            std::vector<long double> mass;
            long double total = 0;
            for (std::size_t k = 0; k < count; ++k) {
                mass.push_back(static_cast<long double>(row.weight(static_cast<index_t>(order[k]))));
                total += mass.back();
            }
            long double sum = 0;
            std::size_t k = 0;
            do {
                sum += mass[k++];
            } while (k < count && sum < static_cast<long double>(w.top_p) * total);
            count = k;
        }
        // 4. min-p
        if (w.min_p > 0.0F) {
            double const least = static_cast<double>(largest) +
                                 static_cast<double>(w.temperature) * std::log(static_cast<double>(w.min_p));
            while (count > 1 && static_cast<double>(logits[order[count - 1]]) < least) --count;
        }
    }
    long double sum = 0;
    for (std::size_t k = 0; k < count; ++k) {
        auto const x = static_cast<double>(logits[order[k]]);
        double const weight =
            w.greedy() ? 1.0 : std::exp((x - static_cast<double>(largest)) / static_cast<double>(w.temperature));
        result.kept[order[k]] = true;
        result.probability[order[k]] = weight;
        sum += static_cast<long double>(weight);
    }
    for (double& p : result.probability) p /= static_cast<double>(sum);
    return result;
}

}  // namespace MULTIDRAFT_NAMESPACE::testing
