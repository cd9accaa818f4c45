// Bug: a dynamic tree of drawn tokens that is re-ranked like one of deterministic tokens.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "multidraft/decode/single_model_drafter.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"

namespace multidraft::bugs {

/// Draws two children of the root without replacement and keeps the likelier one: EAGLE-2's re-ranking, which is valid
/// for deterministic candidates. A drawn token that is kept depending on itself does not have the law q.
template <language_model Draft>
class reranked_draws : public single_model_drafter<Draft, law::sequential> {
public:
    static constexpr bool shape_depends_on_draws = true;

    explicit reranked_draws(Draft& draft) : single_model_drafter<Draft, law::sequential>(draft) {}

    [[nodiscard]] std::int32_t depth_limit(std::int32_t length) const noexcept {
        return std::min(1, this->model_.depth_limit(length));
    }

    template <draw_source Source>
    void grow(host_group const& g, std::span<token_id const> text, std::int32_t depth, sampling_params const& w,
              Source& source, generation_metrics& m) {
        this->start(text, 3);
        std::vector<char> kept{1};
        if (depth > 0) {
            node_id const root = 0;
            this->expand(g, text, {&root, 1}, w, m);
            std::vector<token_id> drawn(2);
            auto const position = static_cast<std::int32_t>(text.size()) - 1;
            drawn_children const found = draft::sequential{}(g, this->distribution(0), this->sums(0), source,
                                                             draw_site{position, 0}, span<token_id>(drawn));
            index_t const count = found.count;
            for (index_t k = 0; k < count; ++k) this->add(0, drawn[static_cast<std::size_t>(k)]);
            auto const q = this->distribution(0);
            bool const second = count == 2 && q(drawn[1]) > q(drawn[0]);
            kept.resize(static_cast<std::size_t>(count) + 1, 0);
            if (count > 0) kept[second ? 2 : 1] = 1;
        }
        this->finish(m, kept);
    }
};

}  // namespace multidraft::bugs
