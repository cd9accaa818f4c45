// The optimal verifier of any law by optimal transport: for tests and small vocabularies.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <queue>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/testing/enumerating.hpp"
#include "multidraft/verify/node_by_node.hpp"
#include "multidraft/verify/residual.hpp"
#include "multidraft/verify/verdict.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// The plan with the highest acceptance rate: how much of the probability of each drafted tuple goes to each of its
/// tokens.
///
/// The linear program of optimal transport with membership cost (OTM of [SpecTr], section 3) gains 1 for every unit
/// that goes to a token of its tuple and 0 otherwise. So it is a maximum flow from tuples, each with its probability,
/// to their tokens, each with capacity p. By Dinic's algorithm on doubles.
class transport_plan {
public:
    using tuple = std::vector<token_id>;

    /// `law`: the probability of every tuple; `p`: the target.
    transport_plan(std::map<tuple, double> const& law, std::vector<double> const& p) {
        auto const tuples = static_cast<int>(law.size());
        auto const tokens = static_cast<int>(p.size());
        int const sink = tuples + tokens + 1;
        heads_.resize(static_cast<std::size_t>(sink) + 1);
        int s = 1;
        for (auto const& [drawn, chance] : law) {
            connect(0, s, chance);
            tuple different = drawn;
            std::sort(different.begin(), different.end());
            different.erase(std::unique(different.begin(), different.end()), different.end());
            auto& edges = parts_[drawn];
            for (token_id const x : different) edges[x] = connect(s, 1 + tuples + x, chance);
            chance_[drawn] = chance;
            ++s;
        }
        for (int x = 0; x < tokens; ++x) connect(1 + tuples + x, sink, p[static_cast<std::size_t>(x)]);
        while (levels(sink)) {
            next_.assign(heads_.size(), 0);
            while (push(0, sink, std::numeric_limits<double>::infinity()) > 0) {
            }
        }
        left_ = p;
        for (auto const& [drawn, edges] : parts_)
            for (auto const& [x, at] : edges) {
                double const flow = edges_[static_cast<std::size_t>(at) ^ 1U].room;
                acceptance_ += flow;
                left_[static_cast<std::size_t>(x)] = std::max(left_[static_cast<std::size_t>(x)] - flow, 0.0);
            }
    }

    /// The acceptance rate: alpha* of the law.
    [[nodiscard]] double acceptance() const noexcept { return acceptance_; }
    /// The part of a tuple's probability that goes to a token.
    [[nodiscard]] double flow(tuple const& drawn, token_id x) const {
        auto const& edges = parts_.at(drawn);
        auto const found = edges.find(x);
        return found == edges.end() ? 0.0 : edges_[static_cast<std::size_t>(found->second) ^ 1U].room;
    }
    /// The probability of a tuple; 0 for one that cannot be drawn.
    [[nodiscard]] double chance(tuple const& drawn) const {
        auto const found = chance_.find(drawn);
        return found == chance_.end() ? 0.0 : found->second;
    }
    /// The mass of the target that no tuple supplies.
    [[nodiscard]] std::vector<double> const& left() const noexcept { return left_; }

private:
    struct edge {
        int to;
        double room;
    };
    static constexpr double nothing = 1e-16;

    int connect(int from, int to, double room) {
        heads_[static_cast<std::size_t>(from)].push_back(static_cast<int>(edges_.size()));
        edges_.push_back({to, room});
        heads_[static_cast<std::size_t>(to)].push_back(static_cast<int>(edges_.size()));
        edges_.push_back({from, 0});
        return static_cast<int>(edges_.size()) - 2;
    }
    bool levels(int sink) {
        level_.assign(heads_.size(), -1);
        level_[0] = 0;
        std::queue<int> open;
        open.push(0);
        while (!open.empty()) {
            int const v = open.front();
            open.pop();
            for (int const e : heads_[static_cast<std::size_t>(v)]) {
                auto const& [to, room] = edges_[static_cast<std::size_t>(e)];
                if (room > nothing && level_[static_cast<std::size_t>(to)] < 0) {
                    level_[static_cast<std::size_t>(to)] = level_[static_cast<std::size_t>(v)] + 1;
                    open.push(to);
                }
            }
        }
        return level_[static_cast<std::size_t>(sink)] >= 0;
    }
    double push(int v, int sink, double most) {
        if (v == sink) return most;
        for (auto& k = next_[static_cast<std::size_t>(v)]; k < heads_[static_cast<std::size_t>(v)].size(); ++k) {
            int const e = heads_[static_cast<std::size_t>(v)][k];
            auto& [to, room] = edges_[static_cast<std::size_t>(e)];
            if (!(room > nothing) || level_[static_cast<std::size_t>(to)] != level_[static_cast<std::size_t>(v)] + 1)
                continue;
            double const pushed = push(to, sink, std::min(most, room));
            if (pushed > 0) {
                room -= pushed;
                edges_[static_cast<std::size_t>(e) ^ 1U].room += pushed;
                return pushed;
            }
        }
        return 0;
    }

    std::vector<edge> edges_;
    std::vector<std::vector<int>> heads_;
    std::vector<int> level_;
    std::vector<std::size_t> next_;
    std::map<tuple, std::map<token_id, int>> parts_;
    std::map<tuple, double> chance_;
    std::vector<double> left_;
    double acceptance_ = 0;
};

/// The verifier with the highest acceptance rate for the law of any sampler: it follows the plan of optimal transport
/// (OTM of [SpecTr]).
///
/// The law is found by enumerating the sampler's own draws, so it works for any sampler; `sampler(..)` is called with
/// the node's q. Lossless; its acceptance rate is alpha*. Memory and time grow with the number of tuples, V^n for
/// independent draws: for tests and small vocabularies. More than 50,000 tuples are an `invalid_input`. On the host.
template <class Sampler>
class optimal_transport : public verify::node_by_node<optimal_transport<Sampler>, typename Sampler::law> {
public:
    static constexpr multidraft::verify::verifier_traits traits{.lossless = true};

    /// The decision at one node: computes and follows the plan for its rows. No token where the tuple cannot have been
    /// drawn.
    template <group G, distribution P, distribution Q, draw_source Source>
    [[nodiscard]] verify::node_verdict decide(G const& g, P const& p, Q const& q, span<token_id const> candidates,
                                              Source& source, draw_site site) const {
        using real = probability_of<P>;
        if (std::pow(static_cast<double>(q.size()), static_cast<double>(candidates.size())) > 50000)
            refuse("vocabulary", q.size(), "optimal transport is for small vocabularies: there are too many tuples");
        transport_plan const plan = plan_of(g, p, q, candidates.size());
        transport_plan::tuple const drawn(candidates.begin(), candidates.end());
        double left = plan.chance(drawn);
        if (!(left > 0)) return {};
        for (std::size_t k = 0; k < drawn.size(); ++k) {
            if (std::find(drawn.begin(), drawn.begin() + static_cast<std::ptrdiff_t>(k), drawn[k]) !=
                drawn.begin() + static_cast<std::ptrdiff_t>(k))
                continue;
            double const here = plan.flow(drawn, drawn[k]);
            if (source.bernoulli(site(purpose::acceptance, static_cast<index_t>(k)), here, left))
                return {static_cast<index_t>(k), drawn[k]};
            left = std::max(left - here, 0.0);
        }
        auto const& rest = plan.left();
        auto const weight = [&rest](index_t i) { return static_cast<real>(rest[static_cast<std::size_t>(i)]); };
        return {none, verify::emit_residual(g, p, weight, g.sum_chunks(p.size(), weight), candidates, source, site)};
    }

    /// The plan for n candidates.
    template <group G, distribution P, distribution Q>
    [[nodiscard]] static transport_plan plan_of(G const& g, P const& p, Q const& q, std::size_t n) {
        std::map<transport_plan::tuple, double> law;
        enumerate([&](enumerating_source& source) {
            auto sums = g.sum_chunks(q.size(), weight_of{q});
            transport_plan::tuple out(n, none);
            drawn_children const drawn = Sampler{}(g, q, sums, source, draw_site{0, 0}, span<token_id>(out));
            out.resize(static_cast<std::size_t>(drawn.count));
            law[out] += source.probability();
        });
        std::vector<double> target(static_cast<std::size_t>(p.size()));
        for (index_t i = 0; i < p.size(); ++i) target[static_cast<std::size_t>(i)] = static_cast<double>(p(i));
        return {law, target};
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::testing
