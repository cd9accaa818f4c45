// Generates text with a target that is distributed over MPI ranks, without gathering a row of logits:
//
//   mpirun -n 2 tensor_parallel --prompt "And the LORD said unto Moses," --tree 3x2x1 --temperature 0.7
//
// The text is the same for any number of ranks: powers of two that divide the number of the target's heads.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "command_line.hpp"
#include "multidraft/mpi/communicator.hpp"
#include "multidraft/tree/topology.hpp"
#include "run_report.hpp"
#include "tensor_parallel/sharded_generation.hpp"
#include "tensor_parallel/sharded_transformer.hpp"
#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"
#include "tree_option.hpp"
#include "with_method.hpp"

namespace {

using namespace multidraft;
using namespace multidraft::examples;

struct command {
    std::string target = MULTIDRAFT_MODELS_DIR "/target";
    std::string draft = MULTIDRAFT_MODELS_DIR "/draft-distilled";
    std::string prompt = "And the LORD said unto Moses,";
    std::string method{methods::nested_ranked_block_stratified::name};
    std::string tree = "2x1x1";
    bool json = false;
    generation_options generation;
};

/// The text of a run and its communication.
struct outcome {
    multidraft::generation generation;
    shards::traffic layers, verification;
    std::uint64_t gathered = 0;  ///< bytes that this rank would have received for whole rows
};

/// Returns `make()`, called on every rank. If it throws on a rank, all ranks throw the same error.
template <class Make>
auto on_all(mpi::communicator& ranks, Make const& make) {
    decltype(make()) made;
    std::array<char, 400> fault{};
    try {
        made = make();
    } catch (std::exception const& e) {
        std::string const what = "rank " + std::to_string(ranks.rank()) + ": " + e.what();
        std::copy_n(what.begin(), std::min(what.size(), fault.size() - 1), fault.begin());
    }
    std::vector<char> all(fault.size() * static_cast<std::size_t>(ranks.size()));
    ranks.all_gather(fault.data(), fault.size(), all.data());
    for (std::size_t at = 0; at < all.size(); at += fault.size())
        if (all[at] != 0) throw std::runtime_error(all.data() + at);
    return made;
}

/// The maximum over the ranks.
std::uint64_t most(mpi::communicator& ranks, std::uint64_t mine) {
    std::vector<std::uint64_t> all(static_cast<std::size_t>(ranks.size()));
    ranks.all_gather(&mine, sizeof mine, all.data());
    return *std::max_element(all.begin(), all.end());
}

/// The text of the emitted tokens as a continuation of the prompt.
std::string text_of(tokenizer const& tokens, std::span<token_id const> emitted) {
    stream_decoder decoder(tokens, false);
    std::string text;
    for (token_id const t : emitted)
        if (t < tokens.vocabulary()) text += decoder.push(t);
    return text + decoder.finish();
}

void run(mpi::communicator& ranks, command const& asked) {
    topology const shape = tree_of_option(asked.tree);
    auto const target =
        on_all(ranks, [&] { return std::make_unique<sharded_transformer>(asked.target, ranks, shape.size() + 1); });
    auto const draft = on_all(ranks, [&] {
        transformer_options options;
        options.threads = 1;
        options.numbers = precision::f32;
        options.tree_entries = shape.size() + 1;
        return std::make_unique<transformer>(asked.draft, options);
    });
    // Models may have rows beyond the tokenizer's pieces.
    auto const tokens = on_all(ranks, [&] {
        auto found = std::make_unique<tokenizer>(find_tokenizer(asked.target));
        if (found->vocabulary() > target->vocabulary())
            throw std::runtime_error(asked.target + ": has " + std::to_string(target->vocabulary()) +
                                     " tokens, and the tokenizer " + std::to_string(found->vocabulary()) + " pieces");
        return found;
    });

    generation_options options = asked.generation;
    options.stop_tokens.assign(target->config().eos_tokens.begin(), target->config().eos_tokens.end());
    options.draft_sampling = options.sampling;
    // At temperature 0 a draft of temperature 0 would have one candidate.
    if (options.sampling.greedy()) options.draft_sampling->temperature = 0.1F;
    outcome result;
    with_method(asked.method, shape, [&](auto method) {
        sharded_generation<decltype(method)> generate(*target, *draft, ranks, shape);
        result.generation = generate(tokens->encode(asked.prompt), options);
        result.layers = target->sent();
        result.verification = generate.sent();
        result.gathered = static_cast<std::uint64_t>(generate.rows()) * sizeof(float) *
                          static_cast<std::uint64_t>(target->vocabulary() - target->columns().size());
    });

    std::string const text = text_of(*tokens, result.generation.tokens);
    auto report = run_as_json(asked.method, true, result.generation, text, options.seed);
    report["ranks"] = ranks.size();
    report["weight_bytes_per_rank"] = most(ranks, target->weight_bytes());
    report["layer_calls"] = result.layers.calls;
    report["layer_bytes_per_rank"] = most(ranks, result.layers.received);
    report["verification_calls"] = result.verification.calls;
    report["verification_bytes_per_rank"] = most(ranks, result.verification.received);
    report["gathered_bytes_per_rank"] = most(ranks, result.gathered);
    if (ranks.rank() != 0) return;
    if (asked.json) {
        std::cout << report.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
    } else {
        std::cout << asked.prompt << text << '\n';
        print_summary(asked.method, result.generation.metrics);
        std::cerr << "[" << ranks.size() << " ranks; a rank received " << report["layer_bytes_per_rank"]
                  << " bytes of layers in " << report["layer_calls"] << " calls, "
                  << report["verification_bytes_per_rank"] << " of verification in " << report["verification_calls"]
                  << "; whole rows: " << report["gathered_bytes_per_rank"] << "]\n";
    }
    check_output();
}

}  // namespace

int main(int argc, char** argv) {
    command asked;
    CLI::App app{"Generates text with a target that is distributed over MPI ranks"};
    app.add_option("--target", asked.target, "target model: a directory in the Hugging Face Llama layout")
        ->capture_default_str();
    app.add_option("--draft", asked.draft, "draft model, with the same tokenizer; whole on every rank")
        ->capture_default_str();
    app.add_option("--prompt", asked.prompt, "the text to continue")->capture_default_str();
    app.add_option("--tokens", asked.generation.max_tokens, "emit at most this many tokens")->capture_default_str();
    app.add_option("--tree", asked.tree, "children by level, such as 3x2x1; 0: no draft")->capture_default_str();
    app.add_option("--method", asked.method, "sampler and verifier, such as recursive_rejection/sequential")
        ->capture_default_str();
    app.add_option("--temperature", asked.generation.sampling.temperature, "0 is greedy")->capture_default_str();
    app.add_option("--top-k", asked.generation.sampling.top_k, "0: off")->capture_default_str();
    app.add_option("--top-p", asked.generation.sampling.top_p, "1: off")->capture_default_str();
    app.add_option("--min-p", asked.generation.sampling.min_p, "0: off")->capture_default_str();
    app.add_option("--seed", asked.generation.seed, "equal seeds give equal texts")
        ->check(CLI::Validator(fault_of_unsigned, "0 .. 2^64 - 1"))
        ->capture_default_str();
    app.add_flag("--json", asked.json, "the result as JSON");
    CLI11_PARSE(app, argc, argv);
    MPI_Init(&argc, &argv);
    int status = 0;
    {
        mpi::communicator ranks;
        try {
            naming_sampling_options("--temperature", "--tokens", [&] {
                naming_options({{"prompt.size", "--prompt"}}, [&] { run(ranks, asked); });
            });
        } catch (std::exception const& e) {
            // Errors are the same on all ranks.
            if (ranks.rank() == 0) std::cerr << "tensor_parallel: " << e.what() << '\n';
            status = 1;
        }
    }
    MPI_Finalize();
    return status;
}
