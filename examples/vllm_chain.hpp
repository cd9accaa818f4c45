// The rejection sampler of a vLLM-like engine: one chain of drafts per request, flat arrays, one row of logits for each
// draft and one for the token after the last. It uses the library's batched calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "multidraft/batch/accepted_tokens.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/verify.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/speculative_sampling.hpp"
#include "multidraft/verify/traits.hpp"

// The engine's arrays of one step: B requests, N drafted tokens in total, a vocabulary of V tokens.
template <class Real = float>
struct chain_step {
    std::int32_t batch_size = 0;
    std::int32_t vocab_size = 0;
    std::int32_t max_spec_len = 0;
    std::int32_t const* draft_token_ids = nullptr;      // [N]
    std::int32_t const* cu_num_draft_tokens = nullptr;  // [B]: drafted tokens up to and including this request's
    Real const* draft_probs = nullptr;                  // [N, V]; null: tokens from a lookup, not drawn
    Real const* logits = nullptr;                       // [N + B, V]: before each draft and after the last
    multidraft::sampling_arrays sampling{};             // temperature, top-k, top-p, min-p of the target
    std::int32_t const* slots = nullptr;                // [B]: indices in those arrays, seeds and positions; or null
    std::uint64_t const* seeds = nullptr;
    std::int32_t const* positions = nullptr;  // of the last token of each text
};

// The object owns its memory, which grows only for steps larger than all before.
template <class Policy, class Real = float>
class chain_rejection_sampler {
public:
    explicit chain_rejection_sampler(Policy const& policy) : policy_(policy) {}

    // Writes `output_token_ids` [B, max_spec_len + 1]: the accepted drafts of each request, the token that follows them
    // (the recovered token, or the bonus token if all drafts were accepted), then -1.
    void forward(chain_step<Real> const& s, std::int32_t* output_token_ids) {
        multidraft::tree_batch const trees = chains_of(s);
        multidraft::logit_batch<Real> p{s.logits, s.vocab_size, s.vocab_size};
        p.arrays = s.sampling;
        p.slot_of = s.slots;
        multidraft::request_batch const requests{s.seeds, s.positions, nullptr, s.slots};
        multidraft::verdict_batch const verdicts{path_.data(), 0, accepted_.data(), next_.data()};
        if (s.draft_probs == nullptr) {
            using law = multidraft::law::deterministic;
            verify_batch(policy_, multidraft::verify::naive<law>{}, multidraft::drawn_by<law>(trees),
                         multidraft::target_rows(p), multidraft::draft_rows(multidraft::verify::no_draft_rows{}),
                         requests, verdicts);
        } else {
            using law = multidraft::law::iid;
            multidraft::probability_batch<Real> const q{s.draft_probs, s.vocab_size, s.vocab_size, draft_row_.data()};
            verify_batch(policy_, multidraft::verify::speculative_sampling<law>{}, multidraft::drawn_by<law>(trees),
                         multidraft::target_rows(p), multidraft::draft_rows(q), requests, verdicts);
        }
        write_accepted_tokens(policy_, trees, verdicts,
                              multidraft::accepted_tokens<std::int32_t>{output_token_ids, s.max_spec_len + 1, nullptr});
    }

private:
    // A chain of k drafts is a tree of k + 1 nodes. Its last node has no draft row.
    multidraft::tree_batch chains_of(chain_step<Real> const& s) {
        offsets_.assign(1, 0);
        parents_.clear();
        tokens_.clear();
        draft_row_.clear();
        std::int32_t first = 0;
        for (std::int32_t b = 0; b < s.batch_size; ++b) {
            std::int32_t const end = s.cu_num_draft_tokens[b];
            for (std::int32_t k = 0; k <= end - first; ++k) {
                parents_.push_back(k - 1);
                tokens_.push_back(k == 0 ? 0 : s.draft_token_ids[first + k - 1]);  // a root's token is not read
                draft_row_.push_back(k < end - first ? first + k : multidraft::none);
            }
            offsets_.push_back(static_cast<std::int64_t>(parents_.size()));
            first = end;
        }
        path_.resize(parents_.size());
        accepted_.resize(static_cast<std::size_t>(s.batch_size));
        next_.resize(static_cast<std::size_t>(s.batch_size));
        return {s.batch_size, offsets_.back(), offsets_.data(), parents_.data(), tokens_.data()};
    }

    Policy const& policy_;
    std::vector<std::int64_t> offsets_, draft_row_;
    std::vector<std::int32_t> parents_, tokens_, path_, accepted_, next_;
};
