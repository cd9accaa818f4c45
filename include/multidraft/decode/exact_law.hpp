// The exact law of what a sampler and a verifier emit together, by enumeration: small vocabularies, whole trees.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <vector>

#include "multidraft/core/config.hpp"
#include "multidraft/core/host_group.hpp"
#include "multidraft/core/span.hpp"
#include "multidraft/distribution/distribution.hpp"
#include "multidraft/distribution/probabilities.hpp"
#include "multidraft/draft/law.hpp"
#include "multidraft/random/enumerating.hpp"
#include "multidraft/random/place.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/scratch.hpp"
#include "multidraft/verify/verdict.hpp"

namespace multidraft::exact {

// How a method is proved lossless: every branch of sampling and verifying is run with its probability
// (`enumerating_source`), and the law of what comes out is compared with the target's. For a handful of tokens and
// trees of a handful of nodes; a new sampler or verifier needs nothing but its usual call operator.
//
//     auto const distance = exact::distance_from_target(draft::sequential{}, my_verifier{}, {2, 1}, models);

using text = std::vector<token_id>;

/// Children a node at each level: {2, 1} is two children of the root with one child each.
using shape = std::vector<int>;

/// A language model over a small vocabulary: a distribution for every context of up to `depth` tokens.
///
/// Contexts are numbered as the nodes of a V-ary heap: the empty one is 0, context c followed by token x is c V + x
/// + 1.
class small_model {
public:
    using context = std::size_t;

    small_model(index_t vocabulary, int depth) : vocabulary_(vocabulary) {
        std::size_t count = 0;
        std::size_t level = 1;
        for (int d = 0; d <= depth; ++d, level *= static_cast<std::size_t>(vocabulary)) count += level;
        rows_.resize(count);
    }

    [[nodiscard]] index_t vocabulary() const noexcept { return vocabulary_; }
    [[nodiscard]] std::size_t contexts() const noexcept { return rows_.size(); }
    [[nodiscard]] context after(context c, token_id x) const noexcept {
        return c * static_cast<std::size_t>(vocabulary_) + static_cast<std::size_t>(x) + 1;
    }
    [[nodiscard]] std::vector<double>& operator[](context c) { return rows_.at(c); }
    [[nodiscard]] std::vector<double> const& operator[](context c) const { return rows_.at(c); }

private:
    index_t vocabulary_;
    std::vector<std::vector<double>> rows_;
};

/// A target and a draft model.
struct model_pair {
    small_model target;
    small_model draft;
};

/// The rows of a tree: for each node the row of the model after the node's context.
class rows_of_nodes {
public:
    explicit rows_of_nodes(index_t vocabulary) noexcept : vocabulary_(vocabulary) {}

    void clear() noexcept { rows_.clear(); }
    void push_back(std::vector<double> const& row) { rows_.push_back(row.data()); }
    [[nodiscard]] index_t rows() const noexcept { return static_cast<index_t>(rows_.size()); }
    [[nodiscard]] index_t size() const noexcept { return vocabulary_; }
    template <group G>
    [[nodiscard]] probabilities<double> operator()(G const&, node_id node) const {
        return {rows_.at(static_cast<std::size_t>(node)), vocabulary_};
    }

private:
    std::vector<double const*> rows_;
    index_t vocabulary_;
};

/// One step of speculative decoding over two small models: grow a tree level by level, verify it, emit.
template <class Sampler, class Verifier>
class small_step {
public:
    small_step(Sampler sampler, Verifier verifier, model_pair const& models)
        : sampler_(sampler),
          verifier_(verifier),
          models_(models),
          target_(models.target.vocabulary()),
          draft_(models.draft.vocabulary()) {}

    /// Appends the emitted tokens to `out` and returns how many of them were drafted. The root is the last token of the
    /// context `root`, at `position`.
    template <class Source>
    std::int32_t operator()(shape const& children, std::size_t root, std::int32_t position, Source& source, text& out) {
        grow(children, root, position, source);
        path_.assign(children.size(), unwritten);
        scratch_.resize(
            verify::scratch_bytes<Verifier>(static_cast<node_id>(parents_.size()), static_cast<int>(children.size())));
        verdict const v =
            verify::verify_tree(verifier_, g_, drafted<typename Sampler::law>{tree_view{parents_, tokens_}}, target_,
                                draft_, source, position, span<node_id>(path_), span<std::byte>(scratch_));
        node_id node = 0;
        for (std::size_t k = 0; k < path_.size(); ++k) {
            if (k >= static_cast<std::size_t>(v.accepted)) {
                if (path_[k] != unwritten) throw std::logic_error("the path was written beyond the accepted nodes");
                continue;
            }
            if (path_[k] <= 0 || parents_.at(static_cast<std::size_t>(path_[k])) != node)
                throw std::logic_error("the path does not follow the tree");
            node = path_[k];
            out.push_back(tokens_[static_cast<std::size_t>(node)]);
        }
        if (v.next < 0 || v.next >= models_.target.vocabulary()) throw std::logic_error("no token was emitted");
        out.push_back(v.next);
        return v.accepted;
    }

private:
    static constexpr node_id unwritten = -7;

    template <class Source>
    void grow(shape const& children, std::size_t root, std::int32_t position, Source& source) {
        parents_.assign(1, none);
        tokens_.assign(1, 0);
        contexts_.assign(1, root);
        target_.clear();
        draft_.clear();
        target_.push_back(models_.target[root]);
        std::size_t begin = 0;
        for (int const wanted : children) {
            std::size_t const end = parents_.size();
            for (std::size_t v = begin; v < end; ++v) {
                auto const node = static_cast<node_id>(v);
                draft_.push_back(models_.draft[contexts_[v]]);
                auto const q = draft_(g_, node);
                auto sums = g_.weigh(q.size(), weight_of{q});
                drawn_.assign(static_cast<std::size_t>(wanted), unwritten);
                index_t const count = sampler_(g_, q, sums, source, place{position, node}, span<token_id>(drawn_));
                for (index_t k = 0; k < count; ++k) {
                    token_id const x = drawn_[static_cast<std::size_t>(k)];
                    parents_.push_back(node);
                    tokens_.push_back(x);
                    contexts_.push_back(models_.target.after(contexts_[v], x));
                    target_.push_back(models_.target[contexts_.back()]);
                }
            }
            begin = end;
        }
    }

    Sampler sampler_;
    Verifier verifier_;
    model_pair const& models_;
    host_group g_;
    rows_of_nodes target_;
    rows_of_nodes draft_;
    std::vector<node_id> parents_;
    std::vector<token_id> tokens_;
    std::vector<std::size_t> contexts_;
    std::vector<token_id> drawn_;
    std::vector<node_id> path_;
    std::vector<std::byte> scratch_;
};

/// The exact law of texts of a fixed length, and how it came about.
struct output_law {
    std::map<text, double> law;
    double mean_accepted = 0;  ///< drafted tokens accepted in a step
    std::uint64_t branches = 0;
};

namespace detail {

inline void complete(small_model const& target, text& sequence, std::size_t context, std::size_t length, double chance,
                     std::map<text, double>& law) {
    if (sequence.size() == length) {
        law[sequence] += chance;
        return;
    }
    std::vector<double> const& row = target[context];
    for (std::size_t x = 0; x < row.size(); ++x) {
        if (!(row[x] > 0)) continue;
        auto const token = static_cast<token_id>(x);
        sequence.push_back(token);
        complete(target, sequence, target.after(context, token), length, chance * row[x], law);
        sequence.pop_back();
    }
}

}  // namespace detail

/// The law of the first (levels + 1) tokens of a text whose first step is speculative: outcomes of fewer tokens are
/// completed with the target's own conditionals, which is what later steps would do if they are right.
///
/// The models have rows for contexts of up to `children.size()` tokens.
template <class Sampler, class Verifier>
[[nodiscard]] output_law law_of_step(Sampler sampler, Verifier verifier, shape const& children,
                                     model_pair const& models) {
    small_step<Sampler, Verifier> step(sampler, verifier, models);
    output_law result;
    std::map<text, double> emitted;
    text out;
    result.branches = enumerate([&](enumerating_source& source) {
        out.clear();
        std::int32_t const accepted = step(children, 0, 0, source, out);
        emitted[out] += source.probability();
        result.mean_accepted += source.probability() * accepted;
    });
    for (auto const& [sequence, chance] : emitted) {
        text prefix = sequence;
        std::size_t context = 0;
        for (token_id const x : prefix) context = models.target.after(context, x);
        detail::complete(models.target, prefix, context, children.size() + 1, chance, result.law);
    }
    return result;
}

/// The law of the first `length` tokens of a text generated by as many speculative steps as it takes, as a decoding
/// loop does it: the last trees are no deeper than there are tokens left.
///
/// All steps are one run of the enumeration, so a draw of one step that used the address of another's is found.
template <class Sampler, class Verifier>
[[nodiscard]] output_law law_of_text(Sampler sampler, Verifier verifier, shape const& children,
                                     model_pair const& models, std::size_t length) {
    small_step<Sampler, Verifier> step(sampler, verifier, models);
    output_law result;
    text out;
    result.branches = enumerate([&](enumerating_source& source) {
        out.clear();
        std::size_t context = 0;
        while (out.size() < length) {
            std::size_t const before = out.size();
            auto const depth = std::min(children.size(), length - before - 1);
            shape const now(children.begin(), children.begin() + static_cast<std::ptrdiff_t>(depth));
            step(now, context, static_cast<std::int32_t>(before), source, out);
            for (std::size_t k = before; k < out.size(); ++k) context = models.target.after(context, out[k]);
        }
        result.law[out] += source.probability();
    });
    return result;
}

/// The target's own law of texts of `length` tokens.
[[nodiscard]] inline std::map<text, double> law_of_target(small_model const& target, std::size_t length) {
    std::map<text, double> law;
    text sequence;
    detail::complete(target, sequence, 0, length, 1.0, law);
    return law;
}

/// Half the sum of the differences of two laws: the largest difference of the probabilities of any event.
[[nodiscard]] inline double total_variation(std::map<text, double> const& a, std::map<text, double> const& b) {
    double sum = 0;
    for (auto const& [sequence, chance] : a) {
        auto const other = b.find(sequence);
        sum += std::abs(chance - (other == b.end() ? 0.0 : other->second));
    }
    for (auto const& [sequence, chance] : b)
        if (!a.contains(sequence)) sum += chance;
    return sum / 2;
}

/// How far the output of one step is from the target.
template <class Sampler, class Verifier>
[[nodiscard]] double distance_from_target(Sampler sampler, Verifier verifier, shape const& children,
                                          model_pair const& models) {
    return total_variation(law_of_step(sampler, verifier, children, models).law,
                           law_of_target(models.target, children.size() + 1));
}

}  // namespace multidraft::exact
