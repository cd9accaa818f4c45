// What the trees of a block drafter look like, and the methods of the list over them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "generate/continued_text.hpp"
#include "generate/lookup_text.hpp"
#include "generate/methods.hpp"
#include "generate/tree_methods.hpp"
#include "multidraft/control/budgeted_block_drafter.hpp"
#include "multidraft/control/budgeted_lookup_shape.hpp"
#include "multidraft/decode/block_drafter.hpp"
#include "multidraft/decode/block_shapes.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/shape_of_rows.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/tree/allowed_trees.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/traits.hpp"
#include "transformer/block_drafter.hpp"

namespace multidraft::examples {

/// By what the worth of a sampler's children is estimated: the sampler itself where the library knows their shares.
template <class Sampler>
auto estimated_by(Sampler const& sampler) {
    if constexpr (requires { draft::shares_of(sampler, std::span<double const>(), index_t{1}); })
        return sampler;
    else
        return draft::sequential{};
}

/// A given shape at every step, or where that is the root alone the best by the rows of the step (`best_first_shape`).
/// One class for both, so that a method is compiled once.
class given_or_best_shape {
public:
    static constexpr multidraft::shape_depends_on depends_on = multidraft::shape_depends_on::nothing;

    given_or_best_shape(topology given, draft::shape_budget const& budget) : given_(std::move(given)), best_(budget) {}

    [[nodiscard]] std::int32_t depth() const noexcept { return is_given() ? given_.max_depth() : best_.depth(); }
    template <class G, class Model, class Rows, class Sampler>
    void start(G const& g, Model& model, Rows& rows, std::int32_t depth, token_id root, sampling_params const& w,
               Sampler const& sampler) {
        if (!is_given()) best_.start(g, model, rows, depth, root, w, estimated_by(sampler));
    }
    [[nodiscard]] topology const& shape() const noexcept { return is_given() ? given_ : best_.shape(); }

private:
    [[nodiscard]] bool is_given() const noexcept { return given_.size() > 1; }

    topology given_;
    best_first_shape best_;
};

/// A shape from rows for every sampler.
template <class Shape>
class estimated : public Shape {
public:
    using Shape::Shape;

    template <class G, class Model, class Rows, class Sampler>
    void start(G const& g, Model& model, Rows& rows, std::int32_t depth, token_id root, sampling_params const& w,
               Sampler const& sampler) {
        Shape::start(g, model, rows, depth, root, w, estimated_by(sampler));
    }
    template <class G, class Model, class Rows, class Sampler>
    [[nodiscard]] index_t children(G const& g, Model const& model, Rows const& rows, index_t row, node_id node,
                                   token_id token, sampling_params const& w, Sampler const& sampler) {
        return Shape::children(g, model, rows, row, node, token, w, estimated_by(sampler));
    }
};

/// Whether the trees of a method may be chosen from rows: not noise that belongs to places in the text, on which no
/// choice may depend; nor paths of one length.
template <class Listed>
inline constexpr bool trees_from_rows =
    Listed::trees != allowed_trees::forks && !Listed::sampler::law::traits.addressed_by_text;

/// A text by a method of the library's lists, over the trees of a block drafter by the settings.
template <class Listed, block_model Model>
generation run_block(continued_pair<transformer, Model>& both, topology const& shape, std::span<token_id const> prompt,
                     generation_options const& options, token_callback const& on_tokens) {
    using model = continued_drafter<Model>;
    using sampler = typename Listed::sampler;
    using verifier = typename Listed::verifier;
    constexpr index_t children = Listed::trees == allowed_trees::chains  ? 1
                                 : Listed::trees == allowed_trees::pairs ? 2
                                                                         : most_children_from_rows;
    auto const run = [&](auto drafter) {
        return make_speculative<verifier>(both.target, std::move(drafter))(prompt, options, on_tokens);
    };
    method_settings& s = settings();
    if constexpr (trees_from_rows<Listed>) {
        auto const chosen = [&](auto trees) {
            return run(
                budgeted_block_drafter<model, sampler, decltype(trees)>(both.drafter, *s.choices, std::move(trees)));
        };
        std::int32_t const levels = both.drafter.block_size();
        if (s.choices != nullptr && shape.size() == 1) {
            // Where certain children may be any tokens, those of the text itself are offered beside.
            if constexpr (std::is_same_v<typename sampler::law, law::stratified>)
                if (s.lookup_paths > 0) {
                    using best = budgeted_lookup_shape<>;
                    auto const look = looking_back(lookup_options{}.length);
                    if (s.by_reach)
                        return chosen(estimated<budgeted_reach_shape<budget_controller, best>>(
                            *s.choices, children, levels, s.lookup_rates, look));
                    return chosen(estimated<best>(*s.choices, children, s.lookup_rates, look));
                }
            if (s.by_reach) return chosen(estimated<budgeted_reach_shape<>>(*s.choices, children, levels));
            return chosen(estimated<budgeted_shape<>>(*s.choices, children));
        }
        if (s.by_reach && shape.size() == 1) {
            using reach = estimated<reach_shape>;
            return run(block_drafter<model, sampler, reach>(both.drafter, reach(s.least, children, levels)));
        }
    }
    return run(block_drafter<model, sampler, given_or_best_shape>(
        both.drafter, given_or_best_shape(shape, {s.budget, children, s.least})));
}

/// The block drafter's part of a method of the library's lists.
template <class Listed>
void add_block_run(method& m) {
    m.trees_from_rows = trees_from_rows<Listed>;
    m.run_block = [](transformer& target, transformer&, topology const& shape, std::span<token_id const> prompt,
                     generation_options const& options, token_callback const& on_tokens) {
        if (settings().turns != nullptr) return run_block<Listed>(*settings().turns, shape, prompt, options, on_tokens);
        continued_pair<transformer, block_drafter_model> anew(target, block_drafter_of(target));
        return run_block<Listed>(anew, shape, prompt, options, on_tokens);
    };
}

/// The same where rows may be short, for a method that has that part.
template <class Listed>
void add_short_block_run(method& m) {
    m.short_rows = true;
    m.run_block = [whole = m.run_block](transformer& target, transformer& draft, topology const& shape,
                                        std::span<token_id const> prompt, generation_options const& options,
                                        token_callback const& on_tokens) {
        if (settings().candidates == 0) return whole(target, draft, shape, prompt, options, on_tokens);
        if (settings().short_turns != nullptr)
            return run_block<Listed>(*settings().short_turns, shape, prompt, options, on_tokens);
        continued_pair<transformer, short_block_drafter> anew(target, short_block_drafter_of(target));
        return run_block<Listed>(anew, shape, prompt, options, on_tokens);
    };
}

/// That of all methods of one of the lists, which are in the program's list already.
template <class List>
void add_block_runs_of(std::vector<method>& all) {
    List::for_each([&](auto listed) {
        using type = decltype(listed);
        add_block_run<type>(
            *std::ranges::find(all, type::name, [](method const& m) { return std::string_view(m.name); }));
    });
}

}  // namespace multidraft::examples
