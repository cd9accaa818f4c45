// The autoregressive loop: one target call per token. The baseline of every lossless method.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/generation_loop.hpp"
#include "multidraft/decode/language_model.hpp"
#include "multidraft/decode/metrics.hpp"
#include "multidraft/decode/options.hpp"
#include "multidraft/decode/text_state.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/softmax.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace detail {

/// A step reads the last token, and draws the next one.
template <language_model Target>
class autoregressive_loop : public generation_loop<autoregressive_loop<Target>> {
public:
    explicit autoregressive_loop(Target& target) : target_(target) {}

private:
    friend class generation_loop<autoregressive_loop>;
    using logit = logit_of<Target>;

    Target& target_model() noexcept { return target_; }
    void reset() { target_.keep(0, {}); }
    void read_prompt(std::span<token_id const> text, generation_options const&) {
        catch_up(target_, text.first(text.size() - 1), positions_, {});
    }

    template <draw_source Source>
    void step(text_state& state, generation_options const& options, Source& source, generation_metrics& m) {
        std::span<logit const> logits;
        step_counts const counted = m.totals();
        {
            stopwatch const time(m.time.target);
            std::int32_t const last = state.length() - 1;  // the first token that the cache lacks
            logits = logits_of_call(target_, token_batch{state.text().last(1), {&last, 1}, last, {}}, 1, room_);
            ++m.target_calls;
        }
        token_id next = none;
        {
            stopwatch const time(m.time.verify);
            host_group const g;
            row_view<logit> const row(logits.data(), target_.vocabulary());
            auto const p = process_logits(g, row, options.sampling, "target logits");
            draw_site const site{state.length() - 1, 0};
            next = source.categorical(g, p.sums, p.row.size(), weight_of{p.row}, {}, site(purpose::target, 0));
        }
        m.add_whole_step(counted, 1);
        state.emit({&next, 1});
    }

    Target& target_;
    std::vector<logit> room_;
    std::vector<std::int32_t> positions_;
};

}  // namespace detail

/// Generates text from the target alone, drawing from `source`.
///
/// The cache is emptied first and holds the text up to its last token but one afterwards. `on_tokens` may be empty. For
/// errors see `generation_loop`.
template <language_model Target, draw_source Source>
generation autoregressive(Target& target, std::span<token_id const> prompt, generation_options const& options,
                          Source& source, token_callback const& on_tokens = {}) {
    return detail::autoregressive_loop<Target>(target)(prompt, options, source, on_tokens);
}

/// The same with the draws of `options.seed` and `options.request`.
template <language_model Target>
generation autoregressive(Target& target, std::span<token_id const> prompt, generation_options const& options,
                          token_callback const& on_tokens = {}) {
    return detail::autoregressive_loop<Target>(target)(prompt, options, on_tokens);
}

}  // namespace MULTIDRAFT_NAMESPACE
