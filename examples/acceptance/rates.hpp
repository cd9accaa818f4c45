// Every acceptance rate of one pair of rows: for each draft law its bound and the rates of the verifiers.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "acceptance/row_pairs.hpp"
#include "multidraft/analysis/ratio_rows.hpp"
#include "multidraft/base/config.hpp"

namespace multidraft::examples {

/// A rate, and its standard error if it is an estimate.
struct rate {
    double value = 0;
    std::optional<double> standard_error = {};
    std::vector<double> by_rank = {};  ///< how often the first, second, .. child is accepted, if requested
};

/// How rates without an exact formula are estimated, and further options.
struct estimation {
    std::int64_t samples = 16384;
    std::int64_t trials = 4096;  ///< for a verifier without a formula
    std::uint64_t seed = 1;
    bool by_rank = false;
};

/// A quantity computed from a pair of rows.
struct measure {
    std::string law;
    std::string verifier;  ///< empty for the law's bound, alpha*
    std::function<rate(row_pair const&, analysis::ratio_rows const&, index_t drafts, estimation const&)> compute;
    index_t drafts_from = 1;  ///< the numbers of drafts for which it is defined
    index_t drafts_to = std::numeric_limits<index_t>::max();
    bool lossless = true;  ///< a lossy one may exceed the bound

    [[nodiscard]] bool is_bound() const { return verifier.empty(); }
    [[nodiscard]] bool applies(index_t drafts) const { return drafts >= drafts_from && drafts <= drafts_to; }
    /// verifier/law, as `generate` names methods; bound/law.
    [[nodiscard]] std::string name() const { return (is_bound() ? "bound" : verifier) + "/" + law; }
};

/// All measures of the library, grouped by law, each law's bound first.
[[nodiscard]] std::vector<measure> const& measures();

/// Recursive rejection of drafts without replacement: exact where V^(n-1) is up to a million, else by Monte Carlo with
/// its standard error; without rates by rank.
[[nodiscard]] rate recursive_sequential(analysis::ratio_rows const& rows, index_t drafts, estimation const& how);

/// Ranked verification of independent and of stratified drafts, in its exact form without pooling: the mass that the
/// law of the verifier's candidate shares with p.
[[nodiscard]] double ranked_iid(row_pair const& pair, index_t drafts);
[[nodiscard]] double ranked_stratified(row_pair const& pair, index_t drafts);

}  // namespace multidraft::examples
