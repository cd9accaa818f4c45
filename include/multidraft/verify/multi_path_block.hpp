// Greedy multi-path block verification: the best of K independent paths is selected and verified as a block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/distribution.hpp"
#include "multidraft/rows/truncation.hpp"
#include "multidraft/tree/allowed_trees.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/detail/block_weights.hpp"
#include "multidraft/verify/detail/checks.hpp"
#include "multidraft/verify/verdict.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::verify {

namespace detail {

/// The law of the best of K independent paths, given its tokens so far.
///
/// At every level the tokens are in classes, from the worst to the best. The survivors are the paths that agree with
/// the kept one so far. Among those whose next token is of the best class the first decides the token; the survivors
/// are then the paths with that token. `first[k]` is the probability that path k is the first survivor. `survive` is
/// the probability that a later path, known only not to be better, survives. Both are plain scalars: no powers are
/// subtracted.
///
/// For a class of mass `same` under q, above tokens of mass `worse`, the kept path continues with a token x of it with
/// probability q(x) F. With one token a class F is [(A+y+z)^K - (A+y)^K] / ([(A+Q)^K - A^K] q(x)), the law of the
/// lexicographically largest path (Q: mass of the prefix, A: mass ranked below it, y = Q worse, z = Q q(x)).
struct first_survivor {
    double const* first;
    std::int32_t paths;
    double survive;

    /// The factor F. O(K).
    [[nodiscard]] MULTIDRAFT_HD double factor(double worse, double same) const {
        double result = 0;
        walk(worse, same, [&](std::int32_t, double begins, double known) { result = fp::fma(result, known, begins); });
        return result;
    }

    /// The same after a token of mass `mass` of that class: writes K numbers to `next`, which is not `first`; returns
    /// the new `survive`. O(K).
    MULTIDRAFT_HD double after(double worse, double same, double mass, double* next) const {
        double sum = 0;
        walk(worse, same, [&](std::int32_t k, double begins, double known) {
            for (std::int32_t j = 0; j < k; ++j) next[j] *= known;
            next[k] = begins;
            sum = fp::fma(sum, known, begins);
        });
        for (std::int32_t k = 0; k < paths; ++k) next[k] /= sum;
        return fp::mul(survive, mass) / fp::fma(survive, worse + same, 1 - survive);
    }

private:
    /// Calls `visit(k, begins, known)` for every path. `begins` is the weight of the event that it is the first to
    /// continue with a given token of the class, those before it being worse; `known` is the weight of a path after it.
    template <class Visit>
    MULTIDRAFT_HD void walk(double worse, double same, Visit const& visit) const {
        double const known = fp::fma(survive, worse + same, 1 - survive);
        double const below = fp::fma(survive, worse, 1 - survive);
        double earlier = 0;  // an earlier path was the first survivor, and all survivors before this path were worse
        for (std::int32_t k = 0; k < paths; ++k) {
            visit(k, fp::fma(fp::mul(survive, worse), earlier, first[k]), known);
            earlier = fp::fma(earlier, below, first[k]);
        }
    }
};

/// The classes of `multi_path_block`: p/q in steps of a 32nd of an octave, from 2^-8 to 2^8.
inline constexpr index_t ratio_classes = 512;

template <class Real>
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE index_t ratio_class(Real p, Real q) {
    constexpr std::int32_t lowest = 0x3b800000;  // 2^-8
    auto const ratio = static_cast<float>(fp::div(p, q));
    std::int32_t const bits = __builtin_bit_cast(std::int32_t, ratio);
    std::int32_t const above = bits < lowest ? 0 : bits - lowest;
    std::int32_t const step = above >> 18;
    return step < ratio_classes ? step : ratio_classes - 1;
}

/// q(x) F(class of x), the law of the next token of the kept path.
template <distribution P, distribution Q>
struct kept_row {
    using real = probability_of<P>;
    P p;
    Q q;
    double const* factors;

    [[nodiscard]] MULTIDRAFT_HD index_t size() const { return p.size(); }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real operator()(index_t i) const {
        real const mass = q(i);
        return fp::mul(mass, static_cast<real>(factors[ratio_class(p(i), mass)]));
    }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real weight(index_t i) const { return (*this)(i); }
};

/// K paths of equal length in level order: node 1 + (l - 1) K + k is path k's at level l. Keeps, for each level, the
/// weight, the column of the first survivor and the law of that column.
template <class Target, class Draft, class Real>
class kept_path {
public:
    MULTIDRAFT_HD kept_path(tree_view tree, Target const& target, Draft const& draft, std::int32_t paths,
                            double* memory)
        : tree_(tree),
          target_(target),
          draft_(draft),
          factors_(memory),
          levels_(memory + ratio_classes),
          paths_(paths) {}

    /// Doubles of memory for a tree of so many nodes and levels.
    [[nodiscard]] MULTIDRAFT_HD static constexpr std::size_t memory(node_id nodes, std::int32_t depth) {
        // (depth + 1) (paths + 3) with depth * paths = nodes - 1, without assuming it.
        return static_cast<std::size_t>(ratio_classes) + 2 * static_cast<std::size_t>(nodes) +
               3 * static_cast<std::size_t>(depth) + 3;
    }

    [[nodiscard]] MULTIDRAFT_HD std::int32_t length() const { return length_; }
    [[nodiscard]] MULTIDRAFT_HD node_id node(std::int32_t level) const { return node_of(level, column(level)); }
    [[nodiscard]] MULTIDRAFT_HD token_id token(std::int32_t level) const { return tree_.tokens[node(level)]; }
    [[nodiscard]] MULTIDRAFT_HD Real weight(std::int32_t level) const { return static_cast<Real>(*at(level)); }
    [[nodiscard]] MULTIDRAFT_HD std::int32_t column(std::int32_t level) const {
        return static_cast<std::int32_t>(at(level)[1]);
    }
    [[nodiscard]] MULTIDRAFT_HD node_id node_of(std::int32_t level, std::int32_t column) const {
        return level == 0 ? 0 : 1 + (level - 1) * paths_ + column;
    }
    [[nodiscard]] MULTIDRAFT_HD Target const& target() const { return target_; }
    template <group G>
    [[nodiscard]] MULTIDRAFT_HD auto conditional(G const& g, std::int32_t level) const {
        auto const p = target_(g, node(level));
        auto const q = draft_(g, node(level));
        weigh_classes(g, p, q, level);
        return kept_row<decltype(p), decltype(q)>{p, q, factors_};
    }

    /// The first survivor at the root, of weight 1.
    template <group G>
    MULTIDRAFT_HD void start(G const& g) {
        if (g.leader()) {
            double* const root = at(0);
            root[0] = 1;
            root[1] = 0;
            root[2] = 1;
            for (std::int32_t k = 0; k < paths_; ++k) root[3 + k] = k == 0 ? 1 : 0;
        }
        g.barrier();
    }

    /// The node with a child to which the draft gives no mass.
    [[nodiscard]] MULTIDRAFT_HD node_id wrong_node() const { return wrong_node_; }

    /// The outcome of one level down.
    enum class descent : std::uint8_t { down, ended, invalid };

    /// One level down: chooses the token, writes the next level.
    template <group G>
    [[nodiscard]] MULTIDRAFT_HD descent descend(G const& g) {
        std::int32_t const level = length_;
        auto const p = target_(g, node(level));
        auto const q = draft_(g, node(level));
        survivor best;
        auto const found = find_best(p, q, level, best);
        if (found != descent::down) return found;
        token_id const x = tree_.tokens[node_of(level + 1, best.column)];
        // Only one class of this level is needed: sums instead of the table of all classes.
        auto const mass_where = [&](auto const& wanted) {
            using real = probability_of<decltype(q)>;
            return static_cast<double>(g.sum(q.size(), [p, q, wanted](index_t i) MULTIDRAFT_INLINE_LAMBDA {
                real const mass = q(i);
                return wanted(ratio_class(p(i), static_cast<Real>(mass))) ? mass : real(0);
            }));
        };
        index_t const ratio = best.ratio;
        double const worse = mass_where([ratio](index_t c) MULTIDRAFT_INLINE_LAMBDA { return c < ratio; });
        double const same = mass_where([ratio](index_t c) MULTIDRAFT_INLINE_LAMBDA { return c == ratio; });
        double const better = mass_where([ratio](index_t c) MULTIDRAFT_INLINE_LAMBDA { return c > ratio; });
        double const all = worse + same + better;
        if (g.leader()) {
            double const* const here = at(level);
            double* const next = at(level + 1);
            auto const who = survivors(level);
            double const m = fp::mul(static_cast<double>(q(x)), who.factor(worse / all, same / all) / all);
            next[0] = static_cast<double>(
                detail::next_weight(static_cast<Real>(here[0]), static_cast<Real>(p(x)), static_cast<Real>(m)));
            next[1] = best.column;
            next[2] = who.after(worse / all, same / all, static_cast<double>(q(x)) / all, next + 3);
        }
        g.barrier();
        ++length_;
        return descent::down;
    }

private:
    /// A surviving path: its column, and the class of its next token.
    struct survivor {
        std::int32_t column = none;
        index_t ratio = none;
    };

    /// The first of the survivors whose next token is of the best class; `invalid` for a token to which the draft gives
    /// no mass, `ended` where a child could not be drawn.
    template <distribution P, distribution Q>
    [[nodiscard]] MULTIDRAFT_HD descent find_best(P const& p, Q const& q, std::int32_t level, survivor& best) {
        for (std::int32_t k = column(level); k < paths_; ++k) {
            if (!survives(k, level)) continue;
            token_id const x = tree_.tokens[node_of(level + 1, k)];
            if (is_absent(x)) return descent::ended;
            if (!(q(x) > 0)) {
                wrong_node_ = node_of(level, k);
                return descent::invalid;
            }
            index_t const c = ratio_class(p(x), q(x));
            if (c > best.ratio) best = {k, c};
        }
        return descent::down;
    }

    [[nodiscard]] MULTIDRAFT_HD double* at(std::int32_t level) const {
        return levels_ + static_cast<std::ptrdiff_t>(level) * (paths_ + 3);
    }
    [[nodiscard]] MULTIDRAFT_HD first_survivor survivors(std::int32_t level) const {
        return {at(level) + 3, paths_, at(level)[2]};
    }
    [[nodiscard]] MULTIDRAFT_HD bool survives(std::int32_t k, std::int32_t level) const {
        for (std::int32_t l = 1; l <= level; ++l)
            if (tree_.tokens[node_of(l, k)] != tree_.tokens[node_of(l, column(level))]) return false;
        return true;
    }

    /// The factors of all classes at a level.
    ///
    /// Two passes over p and q: masses are counted in integers, in units of 2^-30 and the remainder in units of 2^-60,
    /// so that they do not depend on the order of summation.
    template <group G, distribution P, distribution Q>
    MULTIDRAFT_HD void weigh_classes(G const& g, P const& p, Q const& q, std::int32_t level) const {
        using real = probability_of<Q>;
        constexpr auto unit = static_cast<real>(0x1p30);
        auto counters = g.template counters<ratio_classes>();
        // Unchecked rows may hold numbers that are not probabilities and cannot be converted to an integer.
        auto const probability = [](real x) MULTIDRAFT_INLINE_LAMBDA {
            real const positive = x > 0 ? x : real(0);
            return positive < 1 ? positive : real(1);
        };
        auto const class_of = [p, q](index_t i) MULTIDRAFT_INLINE_LAMBDA {
            return ratio_class(p(i), static_cast<probability_of<P>>(q(i)));
        };
        auto const high = [q, probability](index_t i)
                              MULTIDRAFT_INLINE_LAMBDA { return static_cast<std::int32_t>(probability(q(i)) * unit); };
        auto const low = [q, probability](index_t i) MULTIDRAFT_INLINE_LAMBDA {
            real const units = probability(q(i)) * unit;
            return static_cast<std::int32_t>((units - static_cast<real>(static_cast<std::int32_t>(units))) * unit);
        };
        auto const bins = span<std::uint64_t>(counters.data(), static_cast<std::size_t>(ratio_classes));
        g.histogram(q.size(), class_of, high, bins);
        g.barrier();  // every lane has finished with the factors of another level
        if (g.leader())
            for (index_t c = 0; c < ratio_classes; ++c) factors_[c] = static_cast<double>(bins[c]) * 0x1p-30;
        g.barrier();
        g.histogram(q.size(), class_of, low, bins);
        if (g.leader()) {
            double all = 0;
            for (index_t c = 0; c < ratio_classes; ++c) {
                factors_[c] = fp::fma(static_cast<double>(bins[c]), 0x1p-60, factors_[c]);
                all += factors_[c];
            }
            auto const who = survivors(level);
            double below = 0;
            for (index_t c = 0; c < ratio_classes; ++c) {
                double const mass = factors_[c];
                factors_[c] = mass > 0 ? who.factor(below / all, mass / all) / all : 0.0;
                below += mass;
            }
        }
        g.barrier();
    }

    tree_view tree_;
    Target const& target_;
    Draft const& draft_;
    double* factors_;
    double* levels_;
    std::int32_t paths_;
    std::int32_t length_ = 0;
    node_id wrong_node_ = none;
};

}  // namespace detail

/// Greedy multi-path block verification ([MultiPathBlock]): of K independent paths from the root one is kept, and
/// verified as a block with its own law.
///
/// The kept path is the lexicographically largest, with tokens ordered by p/q. Ratios in the same 32nd of an octave
/// form one class, within which the first path drawn comes first. Any order that is a function of p and q has an exact
/// law; with classes the law of the kept path is a table (`first_survivor`) computed from one histogram, without
/// sorting or storing a row. Duplicates count: paths that agree so far compete for the next token. The rows of their
/// nodes are equal, of which one is read: where a model may give equal texts different rows, point the batch's `row_of`
/// at one.
///
/// Lossless for `law::iid`. The tree is a fork: K children of the root, one child of every other node, all paths of one
/// length (shape K x 1 x 1 ..); any other is an `invalid_input` on the host ("no token" on a device). For trees that
/// branch below the root there is `traversal`.
///
/// Cost: three sums over p and q for each level on the way down; two counting passes and a third pass for each rejected
/// level. Rows that cost a pass to normalise are better prepared beforehand (`remembered_rows`).
class multi_path_block : public whole_tree<multi_path_block, law::iid> {
public:
    static constexpr verifier_traits traits{.lossless = true, .trees = allowed_trees::forks};

    /// A table of the classes, and for each level a few numbers per path.
    [[nodiscard]] MULTIDRAFT_HD static constexpr std::size_t scratch_bytes(node_id nodes, std::int32_t depth) {
        return detail::kept_path<int, int, double>::memory(nodes, depth) * sizeof(double);
    }

    /// The verdict on one tree; see `whole_tree::operator()`, which calls it.
    template <group G, class Target, class Draft, draw_source Source>
    MULTIDRAFT_HD verdict decide_tree(G const& g, drafted<multidraft::law::iid> const& drafts, Target const& target,
                                      Draft const& draft, Source& source, std::int32_t position, span<node_id> path,
                                      span<std::byte> scratch) const {
        using real = probability_of<std::decay_t<decltype(target(g, 0))>>;
        using kept = detail::kept_path<std::decay_t<decltype(target)>, std::decay_t<decltype(draft)>, real>;
        tree_view const tree = drafts.tree;
        std::int32_t const paths = tree.children(0).count;
        std::int32_t const depth = paths > 0 ? (tree.size() - 1) / paths : 0;
        if (first_not_allowed(tree, allowed_trees::forks) != none) {
            detail::refuse_on_host<G>(
                "parents", tree.size() - 1, tree.parents[tree.size() - 1],
                "multi-path verification takes paths of one length that part at the root (K x 1 x 1 ..); for "
                "other trees use verify::traversal");
            return {};
        }
        kept best(tree, target, draft, paths, reinterpret_cast<double*>(scratch.data()));
        best.start(g);
        while (best.length() < depth && best.weight(best.length()) > 0) {
            auto const descent = best.descend(g);
            if (descent == kept::descent::ended) break;
            if (descent == kept::descent::invalid) {
                detail::refuse_node_on_host(g, drafts, target, draft, best.wrong_node());
                return {};
            }
        }
        return detail::verify_block(g, tree, best, source, position, path);
    }
};

}  // namespace MULTIDRAFT_NAMESPACE::verify
