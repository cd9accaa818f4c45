// The methods by name: a sampler and the verifier of its law. Proofs, tests of errors, recorded texts, fuzzers and
// programs are generated from these lists, so that no method is offered without a proof.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>
#include <type_traits>

#include "multidraft/draft/conditional_poisson.hpp"
#include "multidraft/draft/gumbel_top_k.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/shared_randomness.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/draft/top_paired.hpp"
#include "multidraft/draft/top_then_one.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/tree/allowed_trees.hpp"
#include "multidraft/verify/block.hpp"
#include "multidraft/verify/greedy_optimal.hpp"
#include "multidraft/verify/k_seq.hpp"
#include "multidraft/verify/merged.hpp"
#include "multidraft/verify/multi_path_block.hpp"
#include "multidraft/verify/multi_round.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/ranked.hpp"
#include "multidraft/verify/ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/shared_randomness.hpp"
#include "multidraft/verify/spec_hub.hpp"
#include "multidraft/verify/speculative_sampling.hpp"
#include "multidraft/verify/traversal.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// How the output law of a method is proved to be the target's.
enum class proof_by {
    enumeration,  ///< of every draw, by `testing::prove_lossless`
    integration,  ///< of its quantiles, by `testing::prove_lossless`
    itself  ///< noise, quantiles in floats, rows of several drafts: a separate test, without which the proofs do not
            ///< link
};

/// A sampler and a verifier of the same law. Methods that differ from these defaults hide members.
template <class Sampler, class Verifier>
struct listed_method {
    using sampler = Sampler;
    using verifier = Verifier;
    using law = typename Verifier::law;
    static constexpr allowed_trees trees = verify::trees_of<Verifier>;
    static constexpr proof_by proof = proof_by::enumeration;

    static_assert(Verifier::traits.lossless, "multidraft: this list is of lossless methods");
    static_assert(std::is_same_v<typename Sampler::law, law> || std::is_same_v<law, multidraft::law::independent>,
                  "multidraft: the sampler draws by another law than the verifier is for");
};

/// Some methods, in order.
template <class... Methods>
struct method_list {
    static constexpr std::size_t size = sizeof...(Methods);

    /// Calls `f(Method{})` for each.
    template <class F>
    static constexpr void for_each(F&& f) {
        (static_cast<void>(f(Methods{})), ...);
    }

    /// Whether one of them has this verifier.
    template <class Verifier>
    static constexpr bool has = (std::is_same_v<Verifier, typename Methods::verifier> || ...);

    template <template <class...> class To>
    using as = To<Methods...>;
};

namespace detail {

template <class... Lists>
struct join;
template <class... Methods>
struct join<method_list<Methods...>> {
    using type = method_list<Methods...>;
};
template <class... First, class... Second, class... Lists>
struct join<method_list<First...>, method_list<Second...>, Lists...>
    : join<method_list<First..., Second...>, Lists...> {};

}  // namespace detail

/// The concatenation of several lists.
template <class... Lists>
using joined = typename detail::join<Lists...>::type;

namespace methods {

struct recursive_rejection_sequential : listed_method<draft::sequential, verify::recursive_rejection<law::sequential>> {
    static constexpr std::string_view name = "recursive_rejection/sequential";
    static constexpr std::string_view summary =
        "candidates without replacement, tried one by one (MCSD Alg. 2, RSD Alg. 1)";
};

struct recursive_rejection_gumbel_top_k
    : listed_method<draft::gumbel_top_k, verify::recursive_rejection<law::sequential>> {
    static constexpr std::string_view name = "recursive_rejection/gumbel_top_k";
    static constexpr std::string_view summary = "the same law drawn in one pass by Gumbel-top-k (RSD 3.2)";
    static constexpr proof_by proof = proof_by::itself;
};

struct recursive_rejection_iid : listed_method<draft::iid, verify::recursive_rejection<law::iid>> {
    static constexpr std::string_view name = "recursive_rejection/iid";
    static constexpr std::string_view summary = "independent candidates, tried one by one (MCSD Alg. 1)";
};

struct speculative_sampling_iid : listed_method<draft::iid, verify::speculative_sampling<law::iid>> {
    static constexpr std::string_view name = "speculative_sampling/iid";
    static constexpr std::string_view summary = "one chain of candidates (Leviathan et al. 2023)";
};

struct naive_deterministic : listed_method<draft::top_n, verify::naive<law::deterministic>> {
    static constexpr std::string_view name = "naive/deterministic";
    static constexpr std::string_view summary = "the most likely candidates, accepted if the target draws one of them";
};

struct naive_sequential : listed_method<draft::sequential, verify::naive<law::sequential>> {
    static constexpr std::string_view name = "naive/sequential";
    static constexpr std::string_view summary =
        "candidates without replacement, accepted if the target draws one of them";
};

struct naive_iid : listed_method<draft::iid, verify::naive<law::iid>> {
    static constexpr std::string_view name = "naive/iid";
    static constexpr std::string_view summary = "independent candidates, accepted if the target draws one of them";
};

struct naive_conditional_poisson : listed_method<draft::conditional_poisson, verify::naive<law::conditional_poisson>> {
    static constexpr std::string_view name = "naive/conditional_poisson";
    static constexpr std::string_view summary =
        "sets in proportion to their products, accepted if the target draws one of them";
};

struct k_seq_iid : listed_method<draft::iid, verify::k_seq<law::iid>> {
    static constexpr std::string_view name = "k_seq/iid";
    static constexpr std::string_view summary = "independent candidates, each accepted with p/(rho q) (SpecTr)";
};

struct greedy_optimal_top_then_one : listed_method<draft::top_then_one, verify::greedy_optimal<law::top_then_one>> {
    static constexpr std::string_view name = "greedy_optimal/top_then_one";
    static constexpr std::string_view summary =
        "the most likely candidates and one drawn, the best verifier of them (Optimal MDSD 5)";
};

struct spec_hub_top_paired : listed_method<draft::top_paired, verify::spec_hub<law::top_paired>> {
    static constexpr std::string_view name = "spec_hub/top_paired";
    static constexpr std::string_view summary = "two candidates, one of them the most likely (SpecHub)";
};

/// Methods that decide node by node.
using by_node = method_list<recursive_rejection_sequential, recursive_rejection_gumbel_top_k, recursive_rejection_iid,
                            speculative_sampling_iid, naive_deterministic, naive_sequential, naive_iid,
                            naive_conditional_poisson, k_seq_iid, greedy_optimal_top_then_one, spec_hub_top_paired>;

// Ranked verification by histograms: linear in the vocabulary.

struct nested_ranked_block_stratified : listed_method<draft::stratified, verify::nested_ranked_block<law::stratified>> {
    static constexpr std::string_view name = "nested_ranked_block/stratified";
    static constexpr std::string_view summary =
        "the likely candidates with certainty, the rest drawn; the path of the best subtrees, accepted as a block";
    static constexpr proof_by proof = proof_by::itself;
};

struct nested_ranked_block_iid : listed_method<draft::iid, verify::nested_ranked_block<law::iid>> {
    static constexpr std::string_view name = "nested_ranked_block/iid";
    static constexpr std::string_view summary = "the same of independent candidates";
    static constexpr proof_by proof = proof_by::itself;
};

struct ranked_block_stratified : listed_method<draft::stratified, verify::ranked_block<law::stratified>> {
    static constexpr std::string_view name = "ranked_block/stratified";
    static constexpr std::string_view summary = "the path that ranked verification offers, accepted as a block";
};

struct ranked_block_iid : listed_method<draft::iid, verify::ranked_block<law::iid>> {
    static constexpr std::string_view name = "ranked_block/iid";
    static constexpr std::string_view summary = "the same of independent candidates";
};

struct ranked_stratified : listed_method<draft::stratified, verify::ranked<law::stratified>> {
    static constexpr std::string_view name = "ranked/stratified";
    static constexpr std::string_view summary = "certain and drawn candidates, the best verifier at one node";
};

struct ranked_iid : listed_method<draft::iid, verify::ranked<law::iid>> {
    static constexpr std::string_view name = "ranked/iid";
    static constexpr std::string_view summary = "independent candidates, the best verifier at one node";
};

/// The default method, and the other ranked methods.
using best = method_list<nested_ranked_block_stratified>;
using by_rank =
    method_list<nested_ranked_block_iid, ranked_block_stratified, ranked_block_iid, ranked_stratified, ranked_iid>;

struct traversal_sequential : listed_method<draft::sequential, verify::traversal<law::sequential>> {
    static constexpr std::string_view name = "traversal/sequential";
    static constexpr std::string_view summary =
        "candidates without replacement, the whole tree weighed from its leaves";
};

struct traversal_iid : listed_method<draft::iid, verify::traversal<law::iid>> {
    static constexpr std::string_view name = "traversal/iid";
    static constexpr std::string_view summary = "independent candidates, the whole tree weighed from its leaves";
};

struct block_iid : listed_method<draft::iid, verify::block<law::iid>> {
    static constexpr std::string_view name = "block/iid";
    static constexpr std::string_view summary = "one chain of candidates, accepted as a whole as far as it goes";
};

struct multi_path_block_iid : listed_method<draft::iid, verify::multi_path_block> {
    static constexpr std::string_view name = "multi_path_block/iid";
    static constexpr std::string_view summary =
        "independent paths: the one that the target prefers, accepted as a block";
};

struct shared_randomness : listed_method<draft::shared_randomness, verify::shared_randomness> {
    static constexpr std::string_view name = "shared_randomness";
    static constexpr std::string_view summary =
        "draft and target race over the same noise; no draft probabilities are needed";
    static constexpr proof_by proof = proof_by::itself;
};

/// Methods that verify whole paths and trees.
using by_tree = method_list<traversal_sequential, traversal_iid, block_iid, multi_path_block_iid, shared_randomness>;

/// All methods that draw trees of a fixed shape with one sampler; the first is the default.
using of_shapes = joined<best, by_node, by_rank, by_tree>;

// Methods whose trees are drawn differently: sequences that share nodes, several drafts. The samplers are those of
// their proofs.

struct k_seq_sequences : listed_method<draft::iid, verify::merged<verify::k_seq<law::iid>>> {
    static constexpr std::string_view name = "k_seq/sequences";
    static constexpr std::string_view summary =
        "independent sequences that share nodes while they agree, by K-SEQ (SpecTr)";
};

struct recursive_rejection_sequences
    : listed_method<draft::iid, verify::merged<verify::recursive_rejection<law::iid>>> {
    static constexpr std::string_view name = "recursive_rejection/sequences";
    static constexpr std::string_view summary =
        "independent sequences that share nodes while they agree, tried one by one";
};

struct naive_independent : listed_method<draft::iid, verify::naive<law::independent>> {
    static constexpr std::string_view name = "naive/independent";
    static constexpr std::string_view summary =
        "one draw from each of several draft models, accepted if the target draws one of them";
    static constexpr proof_by proof = proof_by::itself;
};

struct multi_round_independent : listed_method<draft::iid, verify::multi_round<law::independent>> {
    static constexpr std::string_view name = "multi_round/independent";
    static constexpr std::string_view summary =
        "one draw from each of several draft models, tried one by one (SpecInfer)";
    static constexpr proof_by proof = proof_by::itself;
};

using of_drafters =
    method_list<k_seq_sequences, recursive_rejection_sequences, naive_independent, multi_round_independent>;

/// The methods for engines (`any_method`); the first is the default.
using for_engines = joined<of_shapes, of_drafters>;

}  // namespace methods

}  // namespace MULTIDRAFT_NAMESPACE
