// One step of many requests: draft trees grown together, scored by one call of the target, verified by one call.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/compact_caches.hpp"
#include "multidraft/batch/detail/step_arrays.hpp"
#include "multidraft/batch/detail/step_draws.hpp"
#include "multidraft/batch/detail/step_methods.hpp"
#include "multidraft/batch/detail/step_rows.hpp"
#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/execution_policy.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/level_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/step_inputs.hpp"
#include "multidraft/batch/step_request.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/rows/sampling_params.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// One step of a batch of requests, with all arrays that it needs: `batch_step<Sampler, Verifier>`, or
/// `any_batch_step`, in which each request names its method (methods/any_batch_step.hpp).
///
///     step.start();
///     for (auto& r : requests) step.add({.text = r.text, .shape = &r.shape, .seed = r.seed, ..});
///     for (auto in = step.next_level(); !in.empty(); in = step.next_level()) {
///         .. the draft reads `in` and writes its logits to row `in.first_row + k` of q for input k ..
///         step.draw(pool, q);
///     }
///     .. the target reads `step.target_inputs()` and writes row k of p for input k ..
///     step.verify(pool, p, q);
///     .. `step.tokens(b)` continue the text of request b; its caches keep `step.kept_in_target()` and
///        `step.kept_in_draft()`, and then hold `step.in_target(b)` and `step.in_draft(b)` of its tokens ..
///
/// Trees are grown level by level, with one call of the draft for a level of all of them. A model reads what its cache
/// lacks of a text before the root, the root, then nodes: the target all of them, the draft those that are to have
/// children. A request's inputs take the entries of its cache that follow those it has, in the order read. The draft
/// never reads an accepted leaf; `in_draft` counts that, and the draft reads its token in the next step.
///
/// `q` and `p` are logits, indexed by input; with `row_of` the engine may leave out rows that nothing reads (see
/// `step_inputs::scored`), and `q` may be empty where nothing was drawn. Masks and biases are numbered the same way. A
/// draft whose rows have a few candidates gives a `candidate_batch`, of which no sampling parameters are read.
/// Rows are processed with the requests' sampling parameters, so trees are verified as they were drawn; nodes that were
/// drawn with a mask or a bias are not verified without one, nor the other way round.
///
/// A text depends neither on the other requests nor on threads, bit for bit. A request whose rows are no distributions
/// gets no tokens (see `undecided`). Memory is kept: nothing allocates after the largest step. Calls out of turn throw
/// `invalid_input`; of a step that was moved from there is `start` alone. On host threads, with logits in host memory;
/// for logits in device memory: `cuda::batch_step` (cuda/batch_step.cuh).
template <class Methods>
class basic_batch_step {
public:
    using choice = typename Methods::choice;  ///< how a request names its method

    basic_batch_step() = default;
    /// A step with methods that are not the default ones: `{sampler, verifier}`.
    explicit basic_batch_step(Methods methods) : methods_(std::move(methods)) {}

    /// Begins a step without requests.
    void start() {
        requests_.clear();
        trees_.clear();
        draft_.reader.clear();
        target_.reader.clear();
        level_.depth = none;
        groups_.clear();
        draws_.clear();
        phase_ = phase::adding;
    }

    /// Adds a request and returns its number, from 0. `method`: requests of one method that follow one another are
    /// drawn and verified in one call. O(nodes + requests + tokens to read). Throws `invalid_input`, and adds nothing,
    /// for an empty text, negative tokens, a cache that holds the root or more, a shape that the verifier does not
    /// take, sampling parameters out of their range, and for the seed and the id of another request of the step: both
    /// would have the same draws wherever their texts have one length.
    std::int32_t add(step_request const& r, choice const& method = {}) {
        require(phase_ == phase::adding, "add", "requests are added after `start` and before the first level");
        require(decoded() == requests(), "add", "requests that only read are added last");
        static topology const root_alone;
        topology const& shape = r.shape == nullptr ? root_alone : *r.shape;
        detail::check_decoded(r, shape, methods_.trees(method));
        if (std::int32_t const twin = requests_.same_draws(r.seed, r.id); twin != none)
            refuse("id", r.id,
                   "request " + std::to_string(twin) +
                       " has this seed and id: both would have the same draws where their texts have one length");
        if (groups_.empty() || !(groups_.back().method == method)) groups_.push_back({method, requests()});
        requests_.add(r.text, r.seed, r.id, r.sampling, r.draft_sampling ? *r.draft_sampling : r.sampling);
        trees_.add(shape, r.text[r.text.size() - 1]);
        draft_.reader.add_request(shape.size(), r.in_draft);
        target_.reader.add_request(shape.size(), r.in_target);
        return requests() - 1;
    }

    /// Adds a request whose text both models only read, to its end: a piece of a prompt, beside requests that are
    /// decoded. It has no tree and gets no tokens; afterwards both caches hold the text. Of `r`, `text`, `in_target`
    /// and `in_draft` are read; with `in_draft` of `text.size()` the draft reads nothing, as of a text that is beyond
    /// its context. Such requests follow those that are decoded. Throws as `add`.
    std::int32_t add_reading(step_request const& r) {
        require(phase_ == phase::adding, "add_reading", "requests are added after `start` and before the first level");
        detail::check_read(r);
        requests_.add_reading(r.text);
        draft_.reader.add_request(0, r.in_draft);
        target_.reader.add_request(0, r.in_target);
        return requests() - 1;
    }

    /// The number of requests.
    [[nodiscard]] std::int32_t requests() const noexcept { return static_cast<std::int32_t>(requests_.text.size()); }
    /// How many of them have a tree: the first ones.
    [[nodiscard]] std::int32_t decoded() const noexcept { return static_cast<std::int32_t>(requests_.seeds.size()); }

    /// What the draft reads next, empty when the trees are grown: first what its cache lacks of the texts, and the
    /// roots; then the nodes of the next level that are to have children. O(requests + inputs + nodes of the level).
    [[nodiscard]] step_inputs next_level() {
        require(phase_ == phase::adding || phase_ == phase::drawn, "next_level",
                phase_ == phase::moved_from ? "the step was moved from: it begins again with `start`"
                : phase_ > phase::grown     ? "a new step begins with `start`"
                : phase_ == phase::grown    ? "the trees are grown: the target reads `target_inputs` next"
                                            : "the children of the nodes that it returned are drawn first");
        draft_.reader.begin();
        level_.clear();
        std::int32_t const depth = ++level_.depth;
        if (depth == 0) draws_.start(trees_.nodes());
        for (std::int32_t b = 0; b < decoded(); ++b) {
            topology const& shape = trees_.shape(b);
            if (depth < shape.max_depth()) {
                if (depth == 0) draft_.reader.read_text(b, requests_.text[at(b)]);
                node_range const nodes = shape.level(depth);
                for (node_id v = nodes.first; v < nodes.end(); ++v)
                    if (shape.child_count(v) > 0 && trees_.is_present(b, v)) {
                        read(draft_.reader, b, v);
                        level_.add(b, v, shape.child_count(v), depth, trees_.index(b, shape.first_child(v)),
                                   trees_.index(b, v));
                    }
            }
            draft_.reader.end_request();
        }
        for (std::int32_t b = decoded(); b < requests(); ++b) {
            draft_.reader.read_all(b, requests_.text[at(b)]);
            draft_.reader.end_request();
        }
        step_inputs const inputs = draft_.reader.inputs();
        phase_ = inputs.empty() ? phase::grown : phase::drawing;
        return inputs;
    }

    /// Draws the children of the nodes that `next_level` returned. `q`: the draft's logits, row `first_row + k` for
    /// input k. Throws as `draft_batch`, or on a stream returns the error, with nothing drawn.
    template <detail::step_policy<Methods> P, detail::rows_of_step Rows>
    auto draw(P const& policy, Rows const& q) {
        return draw_from(policy, q, detail::as_they_are{}, false);
    }

    /// The same with masks and biases.
    template <detail::step_policy<Methods> P, detail::whole_rows Rows>
    auto draw(P const& policy, Rows const& q, logit_adjustments const& adjustments) {
        return draw_from(policy, q, with(draft_, drawn_nodes(), adjustments), true);
    }

    /// What the target reads: what its cache lacks of the texts, the roots, and the nodes that were drawn, in level
    /// order. O(requests + inputs + nodes).
    [[nodiscard]] step_inputs target_inputs() {
        require(phase_ == phase::grown || (phase_ == phase::adding && trees_.deepest() == 0 && decoded() == requests()),
                "target_inputs",
                phase_ > phase::grown ? "it was called: `verify` is next, then `start`"
                                      : "the trees are grown first, until `next_level` returns nothing");
        target_.reader.begin();
        for (std::int32_t b = 0; b < decoded(); ++b) {
            target_.reader.read_text(b, requests_.text[at(b)]);
            for (node_id v = 0; v < trees_.shape(b).size(); ++v)
                if (trees_.is_present(b, v)) read(target_.reader, b, v);
            target_.reader.end_request();
        }
        for (std::int32_t b = decoded(); b < requests(); ++b) {
            target_.reader.read_all(b, requests_.text[at(b)]);
            target_.reader.end_request();
        }
        phase_ = phase::scoring;
        return target_.reader.inputs();
    }

    /// Verifies the trees. `p`: the target's logits, row k for input k of `target_inputs`; `q`: as at the draws. Throws
    /// as `verify_batch`, and where the verifier reads the draft's rows for nodes that were drawn with a mask or a bias
    /// and have none now, or the other way round, and for rows of another kind than those of the draws (whole rows or
    /// as many candidates, of no narrower type); or on a stream returns the error. Nothing is verified then.
    template <detail::step_policy<Methods> P, detail::whole_rows Target, detail::rows_of_step Draft>
    auto verify(P const& policy, Target const& p, Draft const& q) {
        return verify_rows(policy, p, detail::as_they_are{}, or_unread(q, p), detail::as_they_are{}, false);
    }

    /// The same with masks and biases of the target.
    template <detail::step_policy<Methods> P, detail::whole_rows Target, detail::rows_of_step Draft>
    auto verify(P const& policy, Target const& p, logit_adjustments const& of_target, Draft const& q) {
        auto const target = with(target_, all_nodes(), of_target);
        return verify_rows(policy, p, target, or_unread(q, p), detail::as_they_are{}, false);
    }

    /// The same with masks and biases of both models.
    template <detail::step_policy<Methods> P, detail::whole_rows Target, detail::whole_rows Draft>
    auto verify(P const& policy, Target const& p, logit_adjustments const& of_target, Draft const& q,
                logit_adjustments const& of_draft) {
        auto const target = with(target_, all_nodes(), of_target);
        return verify_rows(policy, p, target, or_unread(q, p), with(draft_, all_nodes(), of_draft), true);
    }

    /// The tokens by which the text of request b grows: those of the accepted nodes, and the one that follows.
    [[nodiscard]] std::span<token_id const> tokens(std::int32_t b) const {
        check_verified(b, "tokens");
        if (b >= decoded()) return {};
        auto const first = verdicts_.first_token[at(b)];
        return {verdicts_.tokens.data() + first, at(verdicts_.first_token[at(b) + 1] - first)};
    }

    /// The accepted nodes of request b in its tree, without the root.
    [[nodiscard]] std::span<node_id const> accepted(std::int32_t b) const {
        check_verified(b, "accepted");
        if (b >= decoded()) return {};
        return {verdicts_.path.data() + trees_.offsets()[b], at(verdicts_.accepted[at(b)])};
    }

    /// Whether a row of the draft of request b was no distribution; `verify` gives such a request no tokens.
    [[nodiscard]] bool is_refused_by_draft(std::int32_t b) const noexcept { return draws_.refuses(b); }

    /// How many tokens of the grown text the target's cache holds once the kept entries are in place. Of a request
    /// without tokens (`undecided`) those before the last one, so that it may be added again.
    [[nodiscard]] index_t in_target(std::int32_t b) const {
        check_verified(b, "in_target");
        return static_cast<index_t>(requests_.text[at(b)].size()) + (b < decoded() ? kept_tokens(b) : 0);
    }
    /// The same for the draft's cache. It lacks an accepted leaf, and all of a tree without children.
    [[nodiscard]] index_t in_draft(std::int32_t b) const {
        check_verified(b, "in_draft");
        if (b >= decoded()) return static_cast<index_t>(requests_.text[at(b)].size());
        if (!draft_.reader.has_read(b)) return draft_.reader.in_cache(b);
        bool const grows = kept_tokens(b) >= 0;
        return static_cast<index_t>(requests_.text[at(b)].size()) + (grows ? verdicts_.read_by_draft[at(b)] : -1);
    }

    /// The entries of the step that the target's caches keep besides those before the trees and the roots: an argument
    /// of `compact_caches`.
    [[nodiscard]] kept_batch kept_in_target() const {
        return kept("kept_in_target", verdicts_.target_cache, verdicts_.accepted);
    }
    /// The same for the draft's caches.
    [[nodiscard]] kept_batch kept_in_draft() const {
        return kept("kept_in_draft", verdicts_.draft_cache, verdicts_.read_by_draft);
    }

    /// The trees, for masks and outputs in engines' formats.
    [[nodiscard]] tree_batch trees() const noexcept { return trees_.view(); }
    /// The verdicts as `verify_batch` writes them.
    [[nodiscard]] verdict_batch verdicts() noexcept { return verdicts_.out(); }

private:
    enum class phase { moved_from, adding, drawing, drawn, grown, scoring, verified };

    static std::size_t at(std::int64_t i) noexcept { return static_cast<std::size_t>(i); }

    static void require(bool in_turn, char const* call, char const* what) {
        if (!in_turn) refuse(call, "out of turn", what);
    }
    void check_verified(std::int32_t b, char const* call) const {
        require(phase_ == phase::verified, call, "the step is verified first");
        if (b < 0 || b >= requests()) refuse("b", b, "the step has " + std::to_string(requests()) + " requests");
    }

    /// Accepted tokens of a request; -1 where it is undecided, whose root is read again.
    [[nodiscard]] std::int32_t kept_tokens(std::int32_t b) const noexcept {
        return verdicts_.next[at(b)] == none ? -1 : verdicts_.accepted[at(b)];
    }

    void read(detail::step_reader& model, std::int32_t b, node_id v) {
        topology const& shape = trees_.shape(b);
        model.read_node(b, trees_.index(b, v), trees_.index(b, shape.parent(v)), trees_.token(b, v),
                        requests_.positions[at(b)] + shape.depth(v));
    }

    /// Requests of one method that follow one another.
    struct group_of_requests {
        choice method;
        std::int32_t first;
    };
    [[nodiscard]] std::int32_t end_of(std::size_t group) const noexcept {
        return group + 1 < groups_.size() ? groups_[group + 1].first : decoded();
    }

    /// The nodes of a call: those whose children are drawn, or all.
    [[nodiscard]] auto drawn_nodes() const noexcept {
        return std::pair(static_cast<std::int64_t>(level_.node_index.size()),
                         [this](std::int64_t e) { return level_.node_index[at(e)]; });
    }
    [[nodiscard]] auto all_nodes() const noexcept {
        return std::pair(trees_.nodes(), [](std::int64_t i) { return i; });
    }

    /// Whether the verification reads rows that children were drawn from.
    [[nodiscard]] bool reads_draws() const noexcept { return draws_.has_draws() && reads_draft(); }
    /// The draft's rows. Where none is read there need be none: those of the target take their place.
    template <class Rows, class Target>
    [[nodiscard]] Rows or_unread(Rows const& q, Target const& p) const noexcept {
        return q.data != nullptr || q.vocabulary != 0 || reads_draws() ? q : detail::unread_rows(q, p);
    }

    /// Whether a verifier of the step reads the draft's rows.
    [[nodiscard]] bool reads_draft() const noexcept {
        return std::any_of(groups_.begin(), groups_.end(),
                           [&](auto const& g) { return methods_.reads_draft(g.method); });
    }
    /// Where the verifier reads the draft's rows.
    void check_adjustments(bool adjusted) const {
        for (std::size_t k = 0; k < groups_.size(); ++k)
            if (methods_.reads_draft(groups_[k].method))
                for (std::int32_t b = groups_[k].first; b < end_of(k); ++b) draws_.check(b, trees_, draft_, adjusted);
    }

    template <class P, class Rows, class Adjust>
    auto draw_from(P const& policy, Rows const& q, Adjust const& adjust, bool adjusted) {
        return detail::checked(
            policy,
            [&] {
                require(phase_ == phase::drawing, "draw", "`next_level` returns the nodes whose children are drawn");
                if (!level_.empty()) draws_.check(detail::kind_of_rows(q));
            },
            [&] {
                return draw_level(policy,
                                  adjust(detail::rows_of_nodes(draft_, drawn_nodes(), q, requests_.draft_sampling)),
                                  adjusted);
            });
    }

    /// Draws the level, which is empty where requests only read.
    template <class P, class Rows>
    auto draw_level(P const& policy, Rows const& rows, bool adjusted) {
        children_batch out;
        out.tokens = trees_.tokens();
        out.first = level_.first.data();
        out.node_index = level_.node_index.data();
        out.certain = trees_.certain();
        level_batch const level = level_.view();
        auto const draw_entries = [&](choice const& method, std::int32_t begin, std::int32_t end) {
            auto mine = out;
            mine.first += begin;
            mine.node_index += begin;
            if (!methods_.counts_certain(method)) mine.certain = nullptr;
            return methods_.draw(method, policy,
                                 level_batch{end - begin, level.requests + begin, level.nodes + begin,
                                             level.wanted + begin, level.depths + begin, begin},
                                 detail::rows_from(rows, begin, 0), requests_.view(), mine);
        };
        using error = decltype(draw_entries(std::declval<choice const&>(), 0, 0));
        std::int32_t end = 0;
        return detail::in_turn(
            groups_.size(),
            [&](std::size_t k) {
                std::int32_t const begin = end;
                while (end < level.entries && level.requests[end] < end_of(k)) ++end;
                return end > begin ? draw_entries(groups_[k].method, begin, end) : error();
            },
            [&] {
                draws_.draw(level_, trees_.tokens(), draft_, adjusted, detail::kind_of_rows(rows));
                phase_ = phase::drawn;
            });
    }

    /// Gives the rows of a call's nodes their masks and biases.
    template <class Nodes>
    [[nodiscard]] static auto with(detail::step_model& model, Nodes const& nodes, logit_adjustments const& given) {
        return [&model, nodes, &given](auto const& rows) {
            return adjusted_batch(rows, detail::adjustments_of_nodes(model, nodes, given));
        };
    }

    /// Rows are looked up when the step is known to have read them.
    template <class P, class Target, class OfTarget, class Draft, class OfDraft>
    auto verify_rows(P const& policy, Target const& p, OfTarget const& of_target, Draft const& q,
                     OfDraft const& of_draft, bool adjusted) {
        auto const verify_all = [&] {
            auto const target = of_target(detail::rows_of_nodes(target_, all_nodes(), p, requests_.sampling));
            auto const draft = of_draft(detail::rows_of_nodes(draft_, all_nodes(), q, requests_.draft_sampling));
            auto const verify_group = [&](std::size_t k) {
                auto const& [method, first] = groups_[k];
                auto const trees = trees_.view(methods_.counts_certain(method), first, end_of(k), verdicts_.offsets);
                std::int64_t const nodes = trees_.offsets()[first];
                auto const bytes =
                    methods_.workspace_size(method, policy, trees.requests, trees_.largest(), trees_.deepest());
                return methods_.verify(method, policy, trees, detail::rows_from(target, nodes, first),
                                       detail::rows_from(draft, nodes, first), requests_.view(first),
                                       verdicts_.out(nodes, first), workspace(verdicts_.scratch.of(bytes)));
            };
            auto const verify_groups = [&] {
                verdicts_.make(at(decoded()), at(trees_.nodes()));
                return detail::in_turn(groups_.size(), verify_group, [&] {
                    verdicts_.lay_out(trees_, target_.reader, draft_.reader, draws_.refused());
                    phase_ = phase::verified;
                });
            };
            auto const check = [&] { check_adjustments(adjusted); };
            return detail::checked(policy, check, verify_groups);
        };
        return detail::checked(
            policy,
            [&] {
                require(phase_ == phase::scoring, "verify", "the target reads `target_inputs` first");
                if (reads_draws()) draws_.check(detail::kind_of_rows(q));
            },
            verify_all);
    }

    [[nodiscard]] kept_batch kept(char const* call, detail::step_cache const& of,
                                  std::vector<std::int32_t> const& counts) const {
        require(phase_ == phase::verified, call, "the step is verified first");
        return {decoded(), of.entries.data(), 0, counts.data(), of.roots.data(), 1, trees_.offsets()};
    }

    Methods methods_{};
    std::vector<group_of_requests> groups_;
    detail::step_requests requests_;
    detail::step_trees trees_;
    detail::step_level level_;
    detail::step_model draft_, target_;
    detail::step_draws draws_;
    detail::step_verdicts verdicts_;
    detail::state_left_by_moves<phase::moved_from> phase_{phase::adding};
};

/// The step of requests that all have one method, known when the program is compiled.
template <sampler Sampler, verify::verifier Verifier>
using batch_step = basic_batch_step<detail::one_method<Sampler, Verifier>>;

}  // namespace MULTIDRAFT_NAMESPACE
