// The speculative loop over a target that is distributed over ranks: each rank has its columns of the target's rows and
// the whole draft.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/decode/accepted_text.hpp"
#include "multidraft/decode/generation_loop.hpp"
#include "multidraft/decode/static_tree_drafter.hpp"
#include "multidraft/decode/step_outcome.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/mpi/communicator.hpp"
#include "multidraft/shards.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/verdict.hpp"
#include "tensor_parallel/sharded_transformer.hpp"
#include "transformer/transformer.hpp"

namespace multidraft::examples {

/// The draft's rows for a batch of one tree, with the normalisers that its tokens were drawn with.
template <class Rows>
struct rows_of_one_tree {
    Rows rows;
    index_t vocabulary;

    template <group G>
    [[nodiscard]] auto operator()(G const& g, std::int64_t i, std::int32_t) const {
        return rows(g, static_cast<node_id>(i));
    }
};

/// Generates with the same draws as `multidraft::speculative`. All ranks call it with the same prompt and options, and
/// get the same text. Every rank has the whole draft model, so all draw the same tree.
template <class Method>
class sharded_generation : public generation_loop<sharded_generation<Method>> {
    using verifier = typename Method::verifier;
    using law = typename Method::law;

public:
    /// References to the models and to the communicator are kept. `shape`: of each draft tree.
    sharded_generation(sharded_transformer& target, transformer& draft, mpi::communicator& ranks, topology shape)
        : target_(target), tree_(draft, std::move(shape)), team_(ranks, target.columns()) {
        tree_.check(target.vocabulary());
    }

    /// The communication of all verifications so far.
    [[nodiscard]] shards::traffic sent() const noexcept { return team_.sent(); }
    /// The number of the target's rows in the verifications of the last text.
    [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }

private:
    friend class generation_loop<sharded_generation>;

    sharded_transformer& target_model() noexcept { return target_; }
    void reset() {
        target_.keep(0, {});
        tree_.reset();
        rows_ = 0;
    }
    void read_prompt(std::span<token_id const> text, generation_options const&) {
        auto const context = text.first(text.size() - 1);
        std::vector<std::int32_t> positions(context.size());
        std::iota(positions.begin(), positions.end(), 0);
        target_.forward({context, positions, 0, {}}, 0);
        tree_.read(context);
    }

    template <draw_source Source>
    void step(text_state& state, generation_options const& options, Source& source, generation_metrics& m) {
        std::int32_t const context = state.length() - 1;
        step_counts const counted = m.totals();
        std::int32_t const deepest = tree_.depth_limit(state.length());
        std::int32_t const room = std::min(state.left() - 1, target_.context_limit() - state.length());
        std::int32_t const depth = std::max(0, std::min(deepest, room));
        // All ranks draw the same tree and score it with their part of the target.
        tree_.grow(host_group{}, state.text(), depth, options.draft_sampling.value_or(options.sampling), source, m);
        auto const logits = scored(context, m);
        // From their own columns of the target's rows they compute the same verdict.
        verdict const v = verified(logits, context, options, m);
        tree_view const tree = tree_.tree().tree;
        multidraft::detail::count_step(tree,
                                       std::span<node_id const>(path_).first(static_cast<std::size_t>(v.accepted)),
                                       counted, room >= deepest, m);
        accepted_.assign(tree, path_, v);
        auto const emitted = static_cast<std::size_t>(state.emit(accepted_.tokens()));
        // Both caches keep the text without its last token.
        multidraft::detail::stopwatch const time(m.time.cache);
        target_.keep(context, accepted_.nodes().first(emitted));
        tree_.keep(context, accepted_.nodes().first(emitted));
    }

    [[nodiscard]] std::span<float const> scored(std::int32_t context, generation_metrics& m) {
        multidraft::detail::stopwatch const time(m.time.target);
        ++m.target_calls;
        rows_ += tree_.size();
        return target_.forward(
            {tree_.tokens(), tree_.positions(), context, tree_.size() == 1 ? mask_view{} : tree_.mask()}, tree_.size());
    }

    [[nodiscard]] verdict verified(std::span<float const> logits, std::int32_t position,
                                   generation_options const& options, generation_metrics& m) {
        multidraft::detail::stopwatch const time(m.time.verify);
        drafted<law> const drawn = tree_.tree();
        node_id const nodes = tree_.size();
        std::int64_t const offsets[] = {0, nodes};
        tree_batch trees{1, nodes, offsets, drawn.tree.parents.data(), drawn.tree.tokens.data()};
        if constexpr (counts_certain<law>) trees.certain = drawn.certain.data();
        index_t const vocabulary = target_.vocabulary();
        shards::shard_batch<float> const p{logits.data(), target_.columns().size(), vocabulary, nullptr,
                                           nullptr,       options.sampling};
        rows_of_one_tree<decltype(tree_.rows())> const q{tree_.rows(), vocabulary};
        request_batch const requests{&options.seed, &position, &options.request};
        path_.resize(static_cast<std::size_t>(nodes));
        verdict v;
        auto const bytes = scratch_.of(verify_workspace_size<verifier>(team_, 1, nodes, drawn.tree.depth(nodes - 1)));
        verify_batch(team_, verifier{}, drawn_by<law>(trees), target_rows(p), draft_rows(q), requests,
                     verdict_batch{path_.data(), 0, &v.accepted, &v.next}, bytes);
        return v;
    }

    sharded_transformer& target_;
    static_tree_drafter<transformer, typename Method::sampler> tree_;
    shards::rank_team<mpi::communicator> team_;
    verify::scratch_memory scratch_;
    std::vector<node_id> path_;
    accepted_text accepted_;
    std::int64_t rows_ = 0;
};

}  // namespace multidraft::examples
