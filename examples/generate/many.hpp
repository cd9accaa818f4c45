// Many prompts together: `--prompt-file`, `--parallel`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "generate/methods.hpp"
#include "multidraft/control/controller.hpp"
#include "multidraft/decode/options.hpp"
#include "multidraft/tree/topology.hpp"
#include "transformer/block_drafter.hpp"
#include "transformer/eagle_head.hpp"
#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"

namespace multidraft::examples {

/// How prompts are run together.
struct many_options {
    std::int32_t parallel = 4;  ///< requests in flight at most
    topology shape;             ///< of every tree
    /// What drafts: a model, a block drafter of the target or a head of EAGLE-3; none of them: nothing.
    std::shared_ptr<transformer_weights const> draft{};
    std::shared_ptr<block_drafter_weights const> drafter{};
    std::shared_ptr<eagle_head_weights const> head{};
    std::int32_t candidates = 0;  ///< of a row of the block drafter; 0: all its tokens
    /// With times the trees share a budget instead (`batch_controller`), of that many nodes a request in flight.
    std::optional<step_times> times{};
    std::int32_t budget = 16;
    bool json = false;
};

/// The times of calls with the rows of several requests, of both models, and of the library's part of a step. With a
/// block drafter those of its calls are by the requests, all levels of each.
step_times times_of_many(transformer& target, transformer& draft, method const& how,
                         std::vector<token_id> const& prompt, generation_options const& options,
                         many_options const& many);

/// Continues all prompts and prints them in their order, as `continue_many` says.
int generate_many(std::shared_ptr<transformer_weights const> const& target, tokenizer const& tokens,
                  std::span<std::string const> texts, std::span<std::vector<token_id> const> prompts,
                  generation_options const& options, many_options const& many);

}  // namespace multidraft::examples
