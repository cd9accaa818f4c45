// Verifies draft trees over rows whose columns are distributed over MPI ranks, and prints the cost:
//
//   mpirun -n 4 sharded --vocabulary 50257 --requests 8 --tree 4x2x2x1 --method naive/sequential --json
//
// The rows are generated from the seed, and every rank generates its own columns only. The tokens are the same for any
// number of ranks, and with --host, which is one process without MPI.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "command_line.hpp"
#include "multidraft/mpi/communicator.hpp"
#include "sharded/ranks.hpp"

namespace {

using namespace multidraft;
using examples::sharded_options;
using examples::sharded_result;

void print(sharded_result const& result, bool json) {
    if (json) {
        nlohmann::ordered_json out;
        out["tokens"] = result.tokens;
        out["accepted"] = result.accepted;
        out["collective_calls"] = result.calls;
        out["bytes_per_rank"] = result.bytes;
        out["gathered_bytes"] = result.gathered;
        out["seconds"] = result.seconds;
        std::cout << out.dump() << '\n';
    } else {
        for (std::size_t b = 0; b < result.tokens.size(); ++b) {
            std::cout << "request " << b << ": " << result.accepted[b] << " accepted, tokens";
            for (token_id const x : result.tokens[b]) std::cout << ' ' << x;
            std::cout << '\n';
        }
        std::cout << result.calls << " calls, " << result.bytes << " bytes a rank (whole rows: " << result.gathered
                  << "), " << 1e3 * result.seconds << " ms\n";
    }
    examples::check_output();
}

}  // namespace

int main(int argc, char** argv) {
    sharded_options options;
    bool json = false;
    bool host = false;
    CLI::App app{"Verifies draft trees over rows in shards"};
    app.add_option("--vocabulary", options.vocabulary, "entries of a row")->check(CLI::Range(1, 1 << 24));
    app.add_option("--requests", options.requests, "trees that are verified together")->check(CLI::Range(1, 1 << 16));
    app.add_option("--tree", options.tree, "shape of each tree, such as 4x2x2x1");
    app.add_option("--method", options.method, "sampler and verifier, such as recursive_rejection/sequential");
    app.add_option("--temperature", options.sampling.temperature, "of both models");
    app.add_option("--top-k", options.sampling.top_k, "0: off");
    app.add_option("--top-p", options.sampling.top_p, "1: off");
    app.add_option("--min-p", options.sampling.min_p, "0: off");
    app.add_option("--seed", options.seed, "of the rows and of all draws")
        ->check(CLI::Validator(examples::fault_of_unsigned, "0 .. 2^64 - 1"));
    app.add_flag("--draft-in-shards", options.draft_in_shards, "the draft's rows are distributed too");
    app.add_flag("--json", json, "the result as JSON");
    app.add_flag("--host", host, "whole rows on one host, without MPI");
    CLI11_PARSE(app, argc, argv);
    if (host) {
        try {
            print(examples::run_on_host(options), json);
        } catch (std::exception const& e) {
            std::cerr << "sharded: " << e.what() << '\n';
            return 1;
        }
        return 0;
    }
    MPI_Init(&argc, &argv);
    int status = 0;
    {
        mpi::communicator ranks;
        try {
            sharded_result const result = examples::run_on_ranks(ranks, options);
            if (ranks.rank() == 0) print(result, json);
        } catch (std::exception const& e) {
            // Errors are the same on all ranks.
            if (ranks.rank() == 0) std::cerr << "sharded: " << e.what() << '\n';
            status = 1;
        }
    }
    MPI_Finalize();
    return status;
}
