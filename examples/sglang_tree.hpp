// The tree functions of an SGLang-like engine, with its parameters, formats and arrays. They use the library's batched
// calls, which are the same on a CUDA stream with device arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "multidraft/batch/accepted_tokens.hpp"
#include "multidraft/batch/linked_trees.hpp"
#include "multidraft/batch/masks.hpp"
#include "multidraft/batch/predictions.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/traits.hpp"

// Trees have `draft_token_num` nodes, including the root; in smaller trees the other nodes have no link to them. The
// object owns its memory and allocates in the first step only. `Real`: the type of probabilities, float.
template <class Policy, class Real = float>
class sglang_tree_functions {
public:
    sglang_tree_functions(Policy const& policy, int draft_token_num, int num_spec_step, int vocabulary)
        : policy_(policy), nodes_(draft_token_num), steps_(num_spec_step), vocabulary_(vocabulary) {}

    // Writes mask, positions and links of the trees that the draft has grown. `tree_mask` has bs * nodes * nodes + sum
    // of nodes * verified_seq_len entries.
    void build_tree_kernel_efficient(int bs, std::int64_t const* parent_list, std::int64_t const* selected_index,
                                     std::int32_t const* verified_seq_len, bool* tree_mask, std::int64_t* positions,
                                     std::int64_t* retrive_index, std::int64_t* retrive_next_token,
                                     std::int64_t* retrive_next_sibling, int topk, int depth) {
        multidraft::tree_batch trees = trees_of(bs);
        write_eagle_parents(policy_, trees,
                            multidraft::eagle_batch<std::int64_t>{parent_list, std::int64_t{topk} * (depth - 1) + 1,
                                                                  selected_index, topk},
                            parents_.data());
        trees.parents = parents_.data();
        write_links(policy_, trees, retrive_next_token, retrive_next_sibling);
        write_positions(policy_, trees, verified_seq_len, positions);
        starts_.resize(at(bs) + 1);
        write_mask_starts(policy_, trees, verified_seq_len, 1, starts_.data());
        write_ragged_masks(policy_, trees,
                           multidraft::ragged_masks<bool>{tree_mask, starts_.back(), starts_.data(), verified_seq_len},
                           true, false);
        for (std::int64_t i = 0; i < trees.nodes; ++i) retrive_index[i] = i;
    }

    // Temperature 0: takes the target's most likely tokens, not its rows.
    void verify_tree_greedy(int bs, std::int32_t* predicts, std::int32_t* accept_index, std::int32_t* accept_token_num,
                            std::int64_t const* candidates, std::int64_t const* retrive_index,
                            std::int64_t const* retrive_next_token, std::int64_t const* retrive_next_sibling,
                            std::int64_t const* target_predict) {
        auto const trees = read(bs, candidates, retrive_next_token, retrive_next_sibling);
        verify_predictions(policy_, trees, multidraft::prediction_batch<std::int64_t>{target_predict, rows_.data()},
                           verdicts());
        write(trees, predicts, accept_index, accept_token_num, retrive_index);
    }

    // For candidates that were chosen without randomness, such as the most likely ones: draws a token from the target's
    // row, which is accepted if it is a child. The draws depend on seed and position; there is no `uniform_samples`.
    void tree_speculative_sampling_target_only(int bs, std::int32_t* predicts, std::int32_t* accept_index,
                                               std::int32_t* accept_token_num, std::int64_t const* candidates,
                                               std::int64_t const* retrive_index,
                                               std::int64_t const* retrive_next_token,
                                               std::int64_t const* retrive_next_sibling, std::uint64_t const* seeds,
                                               std::int32_t const* root_positions, Real const* target_probs) {
        using law = multidraft::law::deterministic;
        auto const trees = read(bs, candidates, retrive_next_token, retrive_next_sibling);
        verify_batch(policy_, multidraft::verify::naive<law>{}, multidraft::drawn_by<law>(trees),
                     multidraft::target_rows(rows_of(target_probs)),
                     multidraft::draft_rows(multidraft::verify::no_draft_rows{}),
                     multidraft::request_batch{seeds, root_positions}, verdicts());
        write(trees, predicts, accept_index, accept_token_num, retrive_index);
    }

    // For candidates that were drawn from the draft's rows without replacement, with siblings linked in the order of
    // the draws. The draft's rows are read for nodes with children.
    void tree_speculative_sampling(int bs, std::int32_t* predicts, std::int32_t* accept_index,
                                   std::int32_t* accept_token_num, std::int64_t const* candidates,
                                   std::int64_t const* retrive_index, std::int64_t const* retrive_next_token,
                                   std::int64_t const* retrive_next_sibling, std::uint64_t const* seeds,
                                   std::int32_t const* root_positions, Real const* target_probs,
                                   Real const* draft_probs) {
        using law = multidraft::law::sequential;
        auto const trees = read(bs, candidates, retrive_next_token, retrive_next_sibling);
        verify_batch(policy_, multidraft::verify::recursive_rejection<law>{}, multidraft::drawn_by<law>(trees),
                     multidraft::target_rows(rows_of(target_probs)), multidraft::draft_rows(rows_of(draft_probs)),
                     multidraft::request_batch{seeds, root_positions}, verdicts());
        write(trees, predicts, accept_index, accept_token_num, retrive_index);
    }

private:
    static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

    multidraft::tree_batch trees_of(int bs) {
        offsets_.clear();
        for (std::int64_t b = 0; b <= bs; ++b) offsets_.push_back(b * nodes_);
        auto const all = at(offsets_.back());
        for (auto* of_nodes : {&parents_, &tokens_, &order_, &path_}) of_nodes->resize(all);
        rows_.resize(all);
        accepted_.resize(at(bs));
        next_.resize(at(bs));
        return {bs, offsets_.back(), offsets_.data()};
    }
    // The engine's trees in level order; `order_` and `rows_` map back to its nodes.
    multidraft::tree_batch read(int bs, std::int64_t const* candidates, std::int64_t const* next_token,
                                std::int64_t const* next_sibling) {
        multidraft::tree_batch trees = trees_of(bs);
        build_trees(
            policy_, trees, multidraft::link_batch<std::int64_t>{next_token, next_sibling, candidates},
            multidraft::built_trees{
                .parents = parents_.data(), .tokens = tokens_.data(), .order = order_.data(), .rows = rows_.data()});
        trees.parents = parents_.data();
        trees.tokens = tokens_.data();
        trees.largest = nodes_;
        return trees;
    }
    multidraft::probability_batch<Real> rows_of(Real const* probs) const {
        return {probs, vocabulary_, vocabulary_, rows_.data()};
    }
    multidraft::verdict_batch verdicts() { return {path_.data(), 0, accepted_.data(), next_.data()}; }
    void write(multidraft::tree_batch const& trees, std::int32_t* predicts, std::int32_t* accept_index,
               std::int32_t* accept_token_num, std::int64_t const* retrive_index) {
        write_accepted_index(policy_, trees, verdicts(),
                             multidraft::accepted_index<std::int32_t>{predicts, accept_index, steps_, accept_token_num,
                                                                      order_.data(), retrive_index});
    }

    Policy const& policy_;
    std::int32_t nodes_;
    std::int64_t steps_;
    std::int32_t vocabulary_;
    std::vector<std::int64_t> offsets_, rows_, starts_;
    std::vector<std::int32_t> parents_, tokens_, order_, path_, accepted_, next_;
};
