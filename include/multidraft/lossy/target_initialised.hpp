// The target-initialised tree: its first tokens are drawn from the target, and the longest accepted path wins. Lossy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/decode/generation_loop.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/decode/options.hpp"
#include "multidraft/decode/single_model_drafter.hpp"
#include "multidraft/decode/stop_rule.hpp"
#include "multidraft/decode/text_state.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/tree/mask.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/detail/checks.hpp"
#include "multidraft/verify/node_by_node.hpp"
#include "multidraft/verify/residual.hpp"
#include "multidraft/verify/traits.hpp"
#include "multidraft/verify/verdict.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::lossy {

/// The children of the root were drawn from the target itself; below each of them `Verifier` decides node by node, and
/// the longest of the paths is kept, the first one of equal length ([ImprovingMCSD] 3.1).
///
/// Not lossless, though each path by itself is: keeping the longest prefers first tokens that are easy to continue. At
/// temperature 0 with starts that are the target's n best it emits tokens that greedy decoding would not. Its accepted
/// lengths count the start, a token that any method would have drawn from the target, and are not comparable with
/// those of lossless methods.
///
/// Where there is no start a token is emitted from the target. Cost: that of `Verifier` along
/// one path for each start.
template <verify::verifier Verifier>
class target_initialised
    : public verify::whole_tree<target_initialised<Verifier>, law::target_initialised<typename Verifier::law>> {
public:
    using law = multidraft::law::target_initialised<typename Verifier::law>;
    static constexpr verify::verifier_traits traits{.lossless = false, .reads_draft = verify::reads_draft<Verifier>};

    target_initialised() = default;
    /// Wraps a verifier that has parameters.
    MULTIDRAFT_HD explicit target_initialised(Verifier verifier) : verifier_(verifier) {}

    /// The wrapped verifier's scratch, if it needs some.
    [[nodiscard]] MULTIDRAFT_HD static constexpr std::size_t scratch_bytes(
        node_id nodes, std::int32_t depth) requires verify::needs_scratch<Verifier> {
        return Verifier::scratch_bytes(nodes, depth);
    }

    /// The verdict on one tree; see `whole_tree::operator()`, which calls it. The draft's row of the root
    /// is not read.
    template <group G, class Target, class Draft, draw_source Source>
    MULTIDRAFT_HD verdict decide_tree(G const& g, drafted<law> const& drafts, Target const& target, Draft const& draft,
                                      Source& source, std::int32_t position, span<node_id> path,
                                      [[maybe_unused]] span<std::byte> scratch = {}) const {
        auto const starts = drafts.tree.children(0);
        verify::detail::walk_end best;
        for (node_id start = starts.first; start < starts.end(); ++start) {
            if (is_absent(drafts.tree.tokens[start])) break;
            auto walk =
                verify::detail::walk_down(g, verifier_, drafts, target, draft, start, source, position, scratch);
            if (walk.result.next == none) return {};
            ++walk.result.accepted;  // the start
            if (walk.result.accepted > best.result.accepted) best = walk;
        }
        if (best.result.accepted == 0) best.result.next = verify::emit_at(g, target, 0, source, draw_site{position, 0});
        return verify::detail::accepted_path(g, drafts, target, verify::no_draft_rows{}, best.last, best.result.next,
                                             path);
    }

private:
    Verifier verifier_;
};

namespace detail {

/// Chains of the draft below given tokens; `Rule` may end all of them early.
///
/// The mask of a tree that may end early is a slice of the full fork's, which is made once ([ImprovingMCSD] 3.2).
template <language_model Draft, stop_rule Rule = never_stop>
class chains_below : public single_model_drafter<Draft, law::iid> {
    static_assert(!Rule::reads_hidden_state || reveals_hidden_state<Draft>,
                  "multidraft: the stop rule reads the draft's hidden states and this model does not show them "
                  "(hidden_size, hidden_states)");
    static_assert(
        !observes_features<Draft>,
        "multidraft: this model observes features of the target, which trees that begin with the target's own "
        "tokens do not hand on");

public:
    /// The model belongs to the caller and must outlive this object.
    explicit chains_below(Draft& draft, Rule rule = {})
        : single_model_drafter<Draft, law::iid>(draft), rule_(std::move(rule)) {}

    [[nodiscard]] std::int32_t depth_limit(std::int32_t length) const noexcept {
        return this->model_.depth_limit(length);
    }

    /// The tokens `starts` below the last token of the text, each followed by draws of the draft: `depth` levels of
    /// them, depth >= 0, or fewer where the rule ends them; the first level is always drafted.
    template <draw_source Source>
    void grow(host_group const& g, std::span<token_id const> text, std::span<token_id const> starts, std::int32_t depth,
              sampling_params const& w, Source& source, generation_metrics& m) {
        this->start(text, static_cast<node_id>(starts.size()) * (depth + 1) + 1);
        auto const position = static_cast<std::int32_t>(text.size()) - 1;
        level_.clear();
        for (token_id const x : starts) level_.push_back(this->add(0, x));
        node_id const root = 0;
        if (depth > 0) this->expand(g, text, {&root, 1}, w, m);
        for (std::int32_t d = 0; d < depth && !level_.empty(); ++d) {
            this->expand(g, text, level_, w, m);
            multidraft::detail::stopwatch const time(m.time.sample);
            if constexpr (stops_early)
                if (d > 0 && stops(g)) break;
            next_.clear();
            for (node_id const v : level_) {
                token_id x = none;
                drawn_children const drawn = draft::iid{}(g, this->distribution(v), this->sums(v), source,
                                                          draw_site{position, v}, span<token_id>(&x, 1));
                if (drawn.count == 1) next_.push_back(this->add(v, x));
            }
            level_.swap(next_);
        }
        if constexpr (stops_early) {
            // Nodes of whole levels, as all chains have one length: a corner of the full fork.
            auto const width = static_cast<node_id>(starts.size());
            sliced_ = (this->tree_.size() - 1) % width == 0 &&
                      this->tree_.added().depths.back() == (this->tree_.size() - 1) / width;
            if (sliced_ && (width != full_width_ || depth + 1 > full_length_)) {
                full_width_ = width;
                full_length_ = depth + 1;
                full_ = ancestor_mask(fork(width, full_length_).parents());
            }
            this->finish(m, {}, !sliced_);
        } else {
            this->finish(m);
        }
    }

    [[nodiscard]] mask_view mask() const noexcept {
        if constexpr (stops_early)
            if (sliced_) return sliced(full_.view(), full_.size(), this->size());
        return single_model_drafter<Draft, law::iid>::mask();
    }

private:
    static constexpr bool stops_early = !std::is_same_v<Rule, never_stop>;

    /// Whether the rule is met for every chain, by the rows of the nodes just read.
    bool stops(host_group const& g) {
        for (std::size_t i = 0; i < level_.size(); ++i) {
            std::span<float const> hidden;
            if constexpr (Rule::reads_hidden_state) {
                auto const width = static_cast<std::size_t>(this->model_.model().hidden_size());
                hidden = this->model_.model().hidden_states().subspan(i * width, width);
            }
            if (!(rule_(g, this->distribution(level_[i]), hidden) < rule_.threshold())) return false;
        }
        return true;
    }

    [[no_unique_address]] Rule rule_;
    std::vector<node_id> level_, next_;
    bool sliced_ = false;
    std::int32_t full_width_ = 0;
    std::int32_t full_length_ = 0;
    ancestor_mask full_{topology().parents()};
};

}  // namespace detail

/// Multi-candidate decoding with a target-initialised tree ([ImprovingMCSD] 3.1): `width` different tokens are drawn
/// from the target's last distribution, each starts a chain of `depth` draws of the draft, and the path with the most
/// accepted nodes wins.
///
/// Not lossless: which of several tokens of the target is emitted depends on the draft's continuations of them, so
/// likely continuations of the draft win too often. At temperature 0 the tokens are the target's `width` likeliest, and
/// the text differs from greedy decoding. With width 1 it is exact. Its block efficiency is not comparable with that of
/// lossless methods.
///
/// With a `Rule` (`probability_stop`, `hidden_state_stop`) the chains end when its estimate is below the threshold for
/// all of them: the complete method of the paper, tree, decision model and sliced mask.
template <language_model Target, language_model Draft, stop_rule Rule = never_stop>
class target_initialised_decoding : public generation_loop<target_initialised_decoding<Target, Draft, Rule>> {
public:
    static constexpr bool lossless = false;

    /// `depth` levels of the draft below the starts, as the paper counts them: a step emits `depth` + 1 tokens at most,
    /// and `metrics::accepted_fraction(depth)` is 1 where all are accepted. Throws `invalid_input` for a width below 1
    /// and a depth below 0.
    target_initialised_decoding(Target& target, Draft& draft, std::int32_t width, std::int32_t depth, Rule rule = {})
        : target_(target), tree_(draft, std::move(rule)), width_(width), depth_(depth) {
        if (width < 1 || width > 1 << 12) refuse("width", width, "1 to 2^12 tokens start a tree");
        if (depth < 0 || depth > 1 << 12) refuse("depth", depth, "0 to 2^12 levels are drafted below the starts");
        tree_.check_read("width", width, static_cast<std::int64_t>(width) * (depth + 1));
        if (tree_.calls(&target))
            refuse("draft", "the target", "it is a model of its own: both keep what they have read");
        tree_.check(target.vocabulary());
    }

private:
    friend class generation_loop<target_initialised_decoding>;
    using logit = logit_of<Target>;
    using real = real_of<logit>;
    using row = softmax_row<row_view<logit>>;

    static std::size_t at(std::int32_t i) noexcept { return static_cast<std::size_t>(i); }

    Target& target_model() noexcept { return target_; }
    void reset() {
        target_.keep(0, {});
        tree_.reset();
    }
    void read_prompt(std::span<token_id const> text, generation_options const& options) {
        step_.logits.resize(at(target_.vocabulary()));
        catch_up(target_, text, step_.positions, std::span<logit>(step_.logits));
        tree_.read(text.first(text.size() - 1));
        set_next(options.sampling, row_view<logit>(step_.logits.data(), target_.vocabulary()));
    }

    /// The distribution of the next token: a row of the target, or the residual if a candidate drawn from `refused` was
    /// refused. At temperature 0 its `width` likeliest tokens.
    void set_next(sampling_params const& w, row_view<logit> view, row const* refused = nullptr) {
        row const p = process_logits(g_, view, w, "target logits").row;
        if (w.greedy()) {
            step_.likeliest.assign(at(std::min(width_, target_.vocabulary())), none);
            g_.top_k(view.size(), view, span<token_id>(step_.likeliest));
            auto const possible = [&](token_id x) { return view(x) > -std::numeric_limits<real>::infinity(); };
            while (step_.likeliest.size() > 1 && !possible(step_.likeliest.back())) step_.likeliest.pop_back();
            return;
        }
        step_.next.resize(at(p.size()));
        if (refused != nullptr) {
            verify::residual<row, row> const left{p, *refused, real(1)};
            auto const total = g_.sum(p.size(), left);
            for (index_t i = 0; total > 0 && i < p.size(); ++i) step_.next[at(i)] = left(i) / total;
            if (total > 0) return;
        }
        for (index_t i = 0; i < p.size(); ++i) step_.next[at(i)] = p(i);
    }

    template <draw_source Source>
    void step(text_state& state, generation_options const& options, Source& source, generation_metrics& m) {
        std::int32_t const length = state.length();
        std::int32_t const root = length - 1;
        if (length >= target_.context_limit()) {  // space for one more token, and nothing below it
            draw_starts(options.sampling, 1, source, root);
            state.emit(step_.starts);
            return;
        }
        // A start is a token too and needs a position.
        step_counts const counted = m.totals();
        std::int32_t const room = std::min(state.left() - 1, target_.context_limit() - length - 1);
        std::int32_t const deepest = std::min(depth_, tree_.depth_limit(length) - 1);
        bool const is_whole = room >= deepest;
        std::int32_t const depth = std::max(0, std::min(deepest, room));
        draw_starts(options.sampling, width_, source, root);
        tree_.grow(g_, state.text(), step_.starts, depth, options.draft_sampling.value_or(options.sampling), source, m);
        score(root, m);
        multidraft::detail::stopwatch const time(m.time.verify);
        bool const refused = find_longest_path(options.sampling, source, root, is_whole, m);
        row const q = tree_.rows()(g_, step_.best.back());
        set_next(options.sampling, target_row(step_.best.back()), refused ? &q : nullptr);
        m.accepted += static_cast<std::int64_t>(step_.best.size()) - 1;
        if (is_whole) count(counted, m);
        step_.emitted.clear();
        for (node_id const v : step_.best) step_.emitted.push_back(tree_.tokens()[at(v)]);
        std::int32_t const emitted = state.emit(step_.emitted);
        step_.kept.assign(1, 0);
        step_.kept.insert(step_.kept.end(), step_.best.begin(), step_.best.begin() + emitted);
        target_.keep(root, step_.kept);
        tree_.keep(root, step_.kept);
    }

    /// The target reads the tree below its root, which the previous step has scored: the row of node v is v - 1.
    void score(std::int32_t root, generation_metrics& m) {
        std::size_t const wanted = at(tree_.size() - 1) * at(target_.vocabulary());
        step_.logits.resize(std::max(step_.logits.size(), wanted));
        multidraft::detail::stopwatch const time(m.time.target);
        target_.forward(
            token_batch{tree_.tokens().subspan(1), tree_.positions().subspan(1), root, tree_.mask().from_row(1)},
            std::span<logit>(step_.logits.data(), wanted));
        ++m.target_calls;
    }

    /// The chain with the most accepted nodes, the first among equals. Returns whether it ends with a refused
    /// candidate.
    template <draw_source Source>
    bool find_longest_path(sampling_params const& w, Source& source, std::int32_t root, bool is_whole,
                           generation_metrics& m) {
        tree_view const tree = tree_.tree().tree;
        auto const starts = tree.children(0);
        step_.best.clear();
        bool best_refused = false;
        for (node_id start = starts.first; start < starts.end(); ++start) {
            step_.path.assign(1, start);
            bool refused = false;
            while (!refused) {
                node_id const v = step_.path.back();
                auto const child = tree.children(v);
                if (child.count == 0) break;
                token_id const x = tree.tokens[at(child.first)];
                row const p = process_logits(g_, target_row(v), w, "target logits").row;
                draw_site const site{root, v};
                refused = !source.bernoulli(site(purpose::acceptance, 0), p(x), tree_.rows()(g_, v)(x));
                if (!refused) step_.path.push_back(child.first);
            }
            if (is_whole) m.start_accepted(at(start - starts.first), static_cast<std::int64_t>(step_.path.size()) - 1);
            if (step_.path.size() > step_.best.size()) {
                step_.best.swap(step_.path);
                best_refused = refused;
            }
        }
        return best_refused;
    }

    /// Counts a whole step.
    void count(step_counts const& before, generation_metrics& m) const {
        m.add_whole_step(before, std::ssize(step_.best));
        ++m.by_start.won[at(step_.best.front() - tree_.tree().tree.children(0).first)];
        for (std::size_t d = 0; d < step_.best.size(); ++d)
            if (tree_.tree().tree.children(step_.best[d]).count > 0) m.tried(d, d + 1 < step_.best.size());
    }

    template <draw_source Source>
    void draw_starts(sampling_params const& w, std::int32_t count, Source& source, std::int32_t root) {
        if (w.greedy()) {
            step_.starts.assign(step_.likeliest.begin(),
                                step_.likeliest.begin() + std::min<std::ptrdiff_t>(count, std::ssize(step_.likeliest)));
            return;
        }
        step_.starts.assign(at(count), none);
        probabilities<real> const p(step_.next.data(), static_cast<index_t>(step_.next.size()));
        auto sums = g_.sum_chunks(p.size(), weight_of{p});
        drawn_children const drawn =
            draft::sequential{}(g_, p, sums, source, draw_site{root, 0}, span<token_id>(step_.starts));
        step_.starts.resize(at(drawn.count));
    }

    [[nodiscard]] row_view<logit> target_row(node_id v) const {
        auto const vocabulary = target_.vocabulary();
        return {step_.logits.data() + static_cast<std::ptrdiff_t>(at(v - 1) * at(vocabulary)), vocabulary};
    }

    /// What a step works on, kept from one to the next.
    struct work {
        std::vector<real> next;           ///< of the next token, where it is drawn
        std::vector<token_id> likeliest;  ///< where it is not drawn: at temperature 0
        std::vector<token_id> starts;
        std::vector<logit> logits;
        std::vector<node_id> path, best, kept;
        std::vector<token_id> emitted;
        std::vector<std::int32_t> positions;
    };

    host_group g_;
    Target& target_;
    detail::chains_below<Draft, Rule> tree_;
    std::int32_t width_;
    std::int32_t depth_;
    work step_;
};

}  // namespace MULTIDRAFT_NAMESPACE::lossy
