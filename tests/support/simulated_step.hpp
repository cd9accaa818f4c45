// The law of a step by simulation, for verifiers that draw quantiles: chi-squared of the texts against the target's
// law.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/testing/exact_law.hpp"
#include "multidraft/testing/small_models.hpp"
#include "multidraft/testing/small_step.hpp"
#include "support/chi_squared.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// Many steps with addressed draws.
struct simulation {
    chi_squared fit;
    double mean_accepted = 0;
    double error = 0;  ///< of the mean, one standard deviation
};

/// Runs whole steps with addressed draws. Texts that ended early are completed from the target by separate draws.
template <class Verifier, class Group = host_group, class Sampler, class Real>
[[nodiscard]] simulation simulate(Sampler sampler, shape const& children, basic_model_pair<Real> const& models,
                                  int runs, std::uint64_t seed, shape_rule const& rule = {},
                                  bool shared_lists = false) {
    small_step<Sampler, Verifier, Real, Group> step(sampler, Verifier{}, models, rule, shared_lists);
    auto const expected = law_of_target(models.target, children.size() + 1);
    std::map<text, std::size_t> number;
    std::vector<double> wanted;
    for (auto const& [sequence, chance] : expected) {
        number.emplace(sequence, wanted.size());
        wanted.push_back(chance * runs);
    }
    wanted.push_back(0);
    std::vector<std::uint64_t> counts(wanted.size());
    double sum = 0;
    double squares = 0;
    text out;
    for (int run = 0; run < runs; ++run) {
        addressed_source source{addressed_uniforms(seed, static_cast<std::uint32_t>(run))};
        out.clear();
        auto const accepted = static_cast<double>(step(children, 0, 0, source, out));
        sum += accepted;
        squares += accepted * accepted;
        std::size_t context = 0;
        for (auto const x : out) context = models.target.after(context, x);
        while (out.size() <= children.size()) {
            double u = source.uniform<double>({static_cast<std::int32_t>(out.size()), 0, purpose::target, 0});
            auto const& row = models.target[context];
            std::size_t x = 0;
            std::size_t last = 0;
            for (; x < row.size(); ++x) {
                if (!(row[x] > 0)) continue;
                last = x;
                if (u < static_cast<double>(row[x])) break;
                u -= static_cast<double>(row[x]);
            }
            x = last;
            out.push_back(static_cast<token_id>(x));
            context = models.target.after(context, out.back());
        }
        auto const found = number.find(out);
        ++counts[found == number.end() ? counts.size() - 1 : found->second];
    }
    // Rare texts share a class.
    std::vector<std::uint64_t> pooled{0};
    std::vector<double> expected_pooled{0};
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        if (wanted[i] >= 10 || wanted[i] == 0) {
            pooled.push_back(counts[i]);
            expected_pooled.push_back(wanted[i]);
        } else {
            pooled[0] += counts[i];
            expected_pooled[0] += wanted[i];
        }
    }
    simulation result;
    result.fit = compare(pooled, expected_pooled);
    result.mean_accepted = sum / runs;
    result.error = std::sqrt((squares / runs - result.mean_accepted * result.mean_accepted) / runs);
    return result;
}

}  // namespace MULTIDRAFT_NAMESPACE::testing
