// The methods that `generate` knows, by the names of the README's table.
#pragma once

#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "multidraft/decode/autoregressive.hpp"
#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/gumbel_top_k.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/speculative_sampling.hpp"
#include "transformer/matmul.hpp"
#include "transformer/transformer.hpp"

namespace multidraft::examples {

/// One way to generate text.
struct method {
    std::string name;     ///< `verifier/law`, or `verifier/sampler` where two samplers draw one law
    std::string law;      ///< of the candidates
    std::string summary;  ///< one line
    std::string tree;     ///< the shape it uses unless told otherwise; empty: it drafts nothing
    bool lossless = true;
    bool chains_only = false;
    std::function<generation(transformer& target, transformer& draft, topology const& shape,
                             std::span<token_id const> prompt, generation_options const&, token_callback const&)>
        run;
};

template <class Sampler, class Verifier>
method tree_method(std::string name, std::string summary, std::string tree, bool chains_only = false) {
    return {std::move(name),
            std::string(Sampler::law::name),
            std::move(summary),
            std::move(tree),
            Verifier::lossless,
            chains_only,
            [](transformer& target, transformer& draft, topology const& shape, std::span<token_id const> prompt,
               generation_options const& options, token_callback const& on_tokens) {
                return make_speculative<Sampler, Verifier>(target, draft, shape)(prompt, options, on_tokens);
            }};
}

/// All methods. The first drafts nothing; the second is the best, and the default.
///
/// Their trees are the best ones measured for the shipped models (bench/results): where a row of the target's forward
/// call is nearly free, bushy and deep; where it costs its multiplications, a short chain. The choice looks at the
/// CPU's kind, not at a clock: equal seeds give equal texts.
inline std::vector<method> const& methods() {
    static std::string const tree = multiplies_by_tiles() ? "3x1x1x1" : "1x1";
    static std::string const chain = multiplies_by_tiles() ? "1x1x1x1" : "1x1";
    static std::vector<method> const all{
        {"autoregressive", "none", "one target call a token", "", true, false,
         [](transformer& target, transformer&, topology const&, std::span<token_id const> prompt,
            generation_options const& options,
            token_callback const& on_tokens) { return autoregressive(target, prompt, options, on_tokens); }},
        tree_method<draft::sequential, verify::recursive_rejection<law::sequential>>(
            "recursive_rejection/sequential",
            "candidates without replacement, tried one by one (MCSD Alg. 2, RSD Alg. 1)", tree),
        tree_method<draft::gumbel_top_k, verify::recursive_rejection<law::sequential>>(
            "recursive_rejection/gumbel_top_k", "the same law drawn in one pass by Gumbel-top-k (RSD 3.2)", tree),
        tree_method<draft::iid, verify::recursive_rejection<law::iid>>(
            "recursive_rejection/iid", "independent candidates, tried one by one (MCSD Alg. 1)", tree),
        tree_method<draft::iid, verify::speculative_sampling<law::iid>>(
            "speculative_sampling/iid", "one chain of candidates (Leviathan et al. 2023)", chain, true),
        tree_method<draft::top_n, verify::naive<law::deterministic>>(
            "naive/deterministic", "the most likely candidates, accepted if the target draws one of them", tree),
        tree_method<draft::sequential, verify::naive<law::sequential>>(
            "naive/sequential", "candidates without replacement, accepted if the target draws one of them", tree),
        tree_method<draft::iid, verify::naive<law::iid>>(
            "naive/iid", "independent candidates, accepted if the target draws one of them", tree),
    };
    return all;
}

/// The method of that name. Throws `std::runtime_error` that lists the names there are.
inline method const& find_method(std::string_view name) {
    std::string names;
    for (method const& m : methods()) {
        if (m.name == name) return m;
        names += "\n  " + m.name;
    }
    throw std::runtime_error("--method " + std::string(name) + ": there is no such method; there are" + names);
}

}  // namespace multidraft::examples
