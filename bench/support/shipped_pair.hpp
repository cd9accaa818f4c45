// The shipped models with their texts, and the default method over trees that are chosen, for benchmarks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "generate/methods.hpp"
#include "multidraft/control/controlled_drafter.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"
#include "tree_choices.hpp"

namespace multidraft::bench {

using the_sampler = draft::stratified;
using the_verifier = verify::nested_ranked_block<law::stratified>;

/// `nested_ranked_block/stratified`.
inline examples::method const& the_method() {
    static examples::method const one = [] {
        examples::method m;
        m.name = "nested_ranked_block/stratified";
        m.verifiers = {m.name};
        m.run_choices = [](examples::transformer& target, examples::transformer& draft, examples::tree_choices& choices,
                           std::span<token_id const> prompt, generation_options const& options,
                           token_callback const& on_tokens) {
            return make_controlled<the_sampler, the_verifier>(target, draft, choices)(prompt, options, on_tokens);
        };
        return m;
    }();
    return one;
}

/// Options of a benchmark's text. Where the temperature is 0 the draft's is 0.1, as in `generate`.
inline generation_options options_of(std::int32_t tokens, float temperature, std::uint64_t seed,
                                     std::uint32_t request) {
    generation_options options;
    options.max_tokens = tokens;
    options.sampling.temperature = temperature;
    options.draft_sampling = options.sampling;
    if (options.sampling.greedy()) options.draft_sampling->temperature = 0.1F;
    options.seed = seed;
    options.request = request;
    return options;
}

/// Target, draft, tokenizer and held-out texts of models/.
class shipped_pair {
public:
    /// Positions of a text at most; 0 for the models' own.
    explicit shipped_pair(std::int32_t context_limit = 0)
        : target(models() + "/target", options(1, context_limit)),
          draft(models() + "/draft", options(1, context_limit)),
          words_(models() + "/tokenizer.model", target.vocabulary()) {
        std::ifstream in(models() + "/held_out.json");
        if (!in) throw std::runtime_error(models() + "/held_out.json: cannot be read");
        texts_ = nlohmann::json::parse(in);
    }

    /// The first words of a text.
    [[nodiscard]] std::vector<token_id> prompt(std::string const& kind, std::size_t index, int words) const {
        auto const text = texts_.at(kind).at(index).get<std::string>();
        std::size_t end = 0;
        for (int w = 0; w < words && end != std::string::npos; ++w) end = text.find(' ', end + 1);
        return words_.encode(text.substr(0, end));
    }

    static std::string models() { return MULTIDRAFT_MODELS_DIR; }
    /// Of a model in that many threads, with room for a tree of 256 nodes.
    static examples::transformer_options options(int threads, std::int32_t context_limit = 0) {
        examples::transformer_options o;
        o.threads = threads;
        o.context_limit = context_limit;
        o.tree_entries = 256;
        return o;
    }

    examples::transformer target;
    examples::transformer draft;

private:
    examples::tokenizer words_;
    nlohmann::json texts_;
};

}  // namespace multidraft::bench
