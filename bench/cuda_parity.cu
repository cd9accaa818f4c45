// Random batches on a device: what is drafted, prepared and decided there, compared with the host bit for bit.
//
//   cuda_parity [--batches N] [--seed S] [--vocabulary MOST] [--seconds N] [--plant K]
//
// Batch k has seed S + k, so `--batches 1 --seed` repeats one. --plant K changes a verdict of batch K that came from
// the device, which must be found. Prints one JSON object; exit status 1 at the first difference, 2 for an error.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "multidraft/batch/draft.hpp"
#include "multidraft/batch/host_threads.hpp"
#include "multidraft/batch/prepare.hpp"
#include "multidraft/cuda/on.cuh"
#include "multidraft/cuda/verify.cuh"
#include "multidraft/methods/list.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "support/batches.hpp"
#include "support/cuda_device.cuh"

#if defined(MULTIDRAFT_CUDA_STANDIN)
#include "launches/runtime/standin.hpp"
#endif
#if !defined(MULTIDRAFT_PARITY_METHOD)
#define MULTIDRAFT_PARITY_METHOD recursive_rejection_sequential
#endif
#if !defined(MULTIDRAFT_PARITY_ELEMENT)
#define MULTIDRAFT_PARITY_ELEMENT float
#endif

namespace cuda_parity {

using namespace multidraft;
namespace mc = multidraft::cuda;
namespace mt = multidraft::testing;
using bench::device_array;
using bench::require;

using method = methods::MULTIDRAFT_PARITY_METHOD;
using element = MULTIDRAFT_PARITY_ELEMENT;
using sampler = method::sampler;
using verifier = method::verifier;
using numbers_type = mt::test_numbers;

constexpr char const* name_of_element = sizeof(element) == 4                            ? "float"
                                        : std::is_same_v<element, multidraft::bfloat16> ? "bfloat16"
                                                                                        : "float16";
constexpr std::int32_t most_depth = 4;  // of `mt::batch`
constexpr node_id most_nodes = 24;

struct arguments {
    std::int64_t batches = 100;
    std::uint64_t seed = 1;
    index_t vocabulary = 151936;
    double seconds = 1e9;
    std::int64_t plant = -1;
};

/// A tree of up to `most_nodes` nodes in level order that the method takes.
std::vector<node_id> random_tree(numbers_type& numbers) {
    constexpr allowed_trees kind = method::trees;
    std::vector<node_id> parents{none};
    if (numbers() < 0.1) return parents;
    if (kind == allowed_trees::chains || kind == allowed_trees::forks) {
        node_id const paths = kind == allowed_trees::chains ? 1 : 1 + numbers.below(4);
        std::int32_t const depth = 1 + numbers.below(most_depth);
        for (std::int32_t level = 0; level < depth; ++level)
            for (node_id k = 0; k < paths; ++k)
                parents.push_back(level == 0 ? 0 : static_cast<node_id>(parents.size()) - paths);
        return parents;
    }
    index_t const most_children = kind == allowed_trees::pairs ? 2 : 4;
    node_id begin = 0;
    for (std::int32_t level = 0; level < most_depth; ++level) {
        auto const end = static_cast<node_id>(parents.size());
        for (node_id up = begin; up < end; ++up)
            for (index_t k = numbers.below(most_children + 1); k > 0; --k)
                if (static_cast<node_id>(parents.size()) < most_nodes) parents.push_back(up);
        begin = end;
    }
    return parents;
}

/// Short rows mostly, some as long as those of models, of lengths that are multiples of 16 bytes or not.
index_t random_vocabulary(numbers_type& numbers, index_t most) {
    double const u = numbers();
    index_t v = 2 + numbers.below(1998);
    if (u > 0.55) v = 2000 + numbers.below(8000);
    if (u > 0.8) v = 4096 * (1 + numbers.below(8));
    if (u > 0.96) {
        constexpr index_t of_models[] = {32000, 50257, 128256, 151936};
        v = of_models[numbers.below(4)];
    }
    return v < most ? v : most;
}

sampling_params random_sampling(numbers_type& numbers, index_t v) {
    sampling_params w;
    double const u = numbers();
    w.temperature = u < 0.15 ? 0.0F : u < 0.5 ? 1.0F : static_cast<float>(0.2 + 1.6 * numbers());
    if (numbers() < 0.3) w.top_k = 1 + numbers.below(v < 60 ? v : 60);
    if (numbers() < 0.3) w.top_p = static_cast<float>(0.5 + 0.5 * numbers());
    if (numbers() < 0.15) w.min_p = static_cast<float>(0.1 * numbers());
    return w;
}

mc::launch_options random_options(numbers_type& numbers) {
    mc::launch_options options;
    constexpr int clusters[] = {1, 2, 4, 8, 16};
    if (numbers() < 0.5) options.max_cluster = clusters[numbers.below(5)];
    if (numbers() < 0.3) options.max_grid = 1;
    options.max_prefetched_rows = numbers.below(5);
    return options;
}

/// Logits: smooth, of few values, with minus infinities, with nearly all mass in one token; the draft's like the
/// target's, or others, or the same.
void fill(mt::batch<element>& b, numbers_type& numbers) {
    double const spread = 0.5 + 5 * numbers();
    index_t const kind = numbers.below(4);
    double const difference = numbers() < 0.2 ? 0.0 : 4 * numbers();
    auto const v = static_cast<std::size_t>(b.vocabulary);
    for (std::size_t i = 0; i < b.target.size(); ++i) {
        double x = spread * (numbers() + numbers() + numbers() - 1.5);
        double y = x + (difference > 0 ? difference * (numbers() - 0.5) : 0);
        if (kind == 1) {
            x = static_cast<double>(static_cast<int>(x));
            y = static_cast<double>(static_cast<int>(y));
        }
        bool const needed = i % v == v / 2;  // always finite
        if (kind == 2 && !needed && numbers() < 0.5) x = -std::numeric_limits<double>::infinity();
        if (kind == 2 && !needed && numbers() < 0.5) y = -std::numeric_limits<double>::infinity();
        if (kind == 3 && needed) x += 20;
        b.target[i] = element(static_cast<float>(x));
        b.draft[i] = element(static_cast<float>(y));
    }
}

bool same(float x, float y) { return x == y || (x != x && y != y); }

/// The first difference between two arrays; empty where there is none.
template <class T>
std::string difference(char const* what, std::vector<T> const& device, std::vector<T> const& host) {
    for (std::size_t i = 0; i < host.size(); ++i) {
        bool equal = device[i] == host[i];
        if constexpr (std::is_same_v<T, float>) equal = same(device[i], host[i]);
        if (!equal)
            return std::string(what) + "[" + std::to_string(i) + "] = " + std::to_string(device[i]) +
                   " on the device, " + std::to_string(host[i]) + " on the host";
    }
    return "";
}

std::string difference(char const* what, std::vector<row_state> const& device, std::vector<row_state> const& host) {
    // Groups may name another last entry of equal ones that are all kept.
    for (std::size_t i = 0; i < host.size(); ++i)
        if (!same(device[i].largest, host[i].largest) || !same(device[i].scale, host[i].scale) ||
            !same(device[i].mass, host[i].mass) || !same(device[i].cut_value, host[i].cut_value))
            return std::string(what) + "[" + std::to_string(i) + "]: mass " + std::to_string(device[i].mass) +
                   " on the device, " + std::to_string(host[i].mass) + " on the host";
    return "";
}

/// A batch of a seed, on the host and on the device.
class comparison {
public:
    comparison(std::uint64_t seed, index_t most)
        : numbers_(seed), host_(make(most)), options_(random_options(numbers_)) {
        // As many seeds as requests, some equal.
        auto const requests = static_cast<std::size_t>(host_.size());
        host_.seeds.resize(requests);
        host_.ids.resize(requests);
        host_.positions.resize(requests);
        for (std::size_t b = 0; b < requests; ++b) {
            host_.seeds[b] = static_cast<std::uint64_t>(numbers_.below(1000));
            host_.ids[b] = static_cast<std::uint32_t>(numbers_.below(3));
            host_.positions[b] = numbers_.below(100000);
        }
        fill(host_, numbers_);
    }

    /// The first difference; empty where there is none.
    std::string run(bool plant) {
        auto const policy = mc::on(nullptr, options_);
        auto const nodes = static_cast<std::int64_t>(host_.parents.size());
        auto const n = static_cast<std::size_t>(nodes);
        mt::batch<element> const blank = host_;
        host_.draft_on_host(sampler{});
        auto const expected = host_.verify_on_host(verifier{});
        index_t const kept = kept_sums(host_.vocabulary);
        std::vector<row_state> states(n);
        std::vector<float> sums(n * static_cast<std::size_t>(kept));
        prepare_batch(host_threads(1), host_.trees(), host_.target_logits(), {states.data(), sums.data()});

        device_array<std::int64_t> const offsets(blank.offsets);
        device_array<node_id> const parents(blank.parents);
        device_array<token_id> const tokens(blank.tokens);
        device_array<index_t> const certain(blank.certain);
        device_array<row_state> const q_states(blank.states), p_states(n);
        device_array<float> const p_sums(sums.size());
        device_array<element> const target(blank.target), draft(blank.draft);
        device_array<std::uint64_t> const seeds(blank.seeds);
        device_array<std::uint32_t> const ids(blank.ids);
        device_array<std::int32_t> const positions(blank.positions);
        request_batch const requests{seeds.data(), positions.data(), ids.data()};
        tree_batch const trees{host_.size(),  nodes,          offsets.data(), parents.data(),
                               tokens.data(), certain.data(), most_nodes};
        auto const rows = [&](device_array<element> const& of, std::int64_t const* row_of) {
            return logit_batch<element>{of.data(), host_.vocabulary, host_.vocabulary, row_of, nullptr, host_.w};
        };
        std::size_t const bytes = verify_workspace_size<verifier>(policy, host_.size(), most_nodes, most_depth + 1) +
                                  draft_workspace_size(policy, static_cast<std::int32_t>(nodes)) +
                                  row_workspace_size(policy, nodes);
        device_array<std::byte> const memory(bytes);
        workspace const scratch(memory.data(), bytes);

        for (std::int32_t depth = 0; depth < most_depth; ++depth) {
            auto const level = host_.level_arrays(depth);
            if (level.request.empty()) continue;
            device_array<std::int32_t> const request(level.request), wanted(level.wanted), depths(level.depths);
            device_array<node_id> const of_entries(level.nodes);
            device_array<std::int64_t> const first(level.first), row(level.row);
            require(draft_batch(policy, sampler{},
                                {static_cast<std::int32_t>(level.request.size()), request.data(), of_entries.data(),
                                 wanted.data(), depths.data()},
                                draft_rows(rows(draft, row.data())), requests,
                                {tokens.data(), first.data(), 0, nullptr, certain.data(), q_states.data(), row.data()},
                                scratch));
            require(cudaDeviceSynchronize());
        }
        if (auto d = difference("tokens", tokens.host(), host_.tokens); !d.empty()) return d;
        if (auto d = difference("certain", certain.host(), host_.certain); !d.empty()) return d;
        if (auto d = difference("states of the draft", q_states.host(), host_.states); !d.empty()) return d;

        require(prepare_batch(policy, trees, target_rows(rows(target, nullptr)), {p_states.data(), p_sums.data()},
                              scratch));
        require(cudaDeviceSynchronize());
        if (auto d = difference("states of the target", p_states.host(), states); !d.empty()) return d;
        if (auto d = difference("sums of the target", p_sums.host(), sums); !d.empty()) return d;

        device_array<node_id> const path(expected.path);
        device_array<std::int32_t> const accepted(expected.accepted.size());
        device_array<token_id> const next(expected.next.size());
        verdict_batch const out{path.data(), host_.path_stride, accepted.data(), next.data()};
        auto const check = [&](char const* rows_are) -> std::string {
            require(cudaDeviceSynchronize());
            auto next_of_device = next.host();
            if (plant) next_of_device.back() ^= 1;
            std::string const of = std::string(" of verdicts over ") + rows_are;
            if (auto d = difference("accepted", accepted.host(), expected.accepted); !d.empty()) return d + of;
            if (auto d = difference("next", next_of_device, expected.next); !d.empty()) return d + of;
            mt::verdicts got(host_.size(), host_.path_stride);
            got.path = path.host();
            for (std::int32_t b = 0; b < host_.size(); ++b)
                for (std::int32_t k = 0; k < expected.accepted[static_cast<std::size_t>(b)]; ++k)
                    if (got.node(b, k) != expected.node(b, k))
                        return "node " + std::to_string(k) + " of the path of request " + std::to_string(b) + of;
            return "";
        };
        auto const drafts = drawn_by<method::law>(trees);
        auto const clear = [&] { require(cudaMemset(path.data(), 0x55, path.size() * sizeof(node_id))); };
        clear();
        require(verify_batch(policy, verifier{}, drafts, target_rows(rows(target, nullptr)),
                             draft_rows(rows(draft, nullptr)), requests, out, scratch));
        if (auto d = check("logits"); !d.empty()) return d;
        clear();
        using prepared = prepared_batch<element>;
        index_t const v = host_.vocabulary;
        require(verify_batch(policy, verifier{}, drafts,
                             target_rows(prepared{target.data(), v, v, p_states.data(), nullptr, p_sums.data()}),
                             draft_rows(prepared{draft.data(), v, v, q_states.data()}), requests, out, scratch));
        for (std::int32_t const a : expected.accepted) accepted_ += a;
        return check("prepared rows");
    }

    [[nodiscard]] std::int64_t requests() const { return host_.size(); }
    [[nodiscard]] std::int64_t accepted() const { return accepted_; }
    [[nodiscard]] std::string text() const {
        return "V " + std::to_string(host_.vocabulary) + ", " + std::to_string(host_.size()) + " requests, " +
               std::to_string(host_.parents.size()) + " nodes, temperature " + std::to_string(host_.w.temperature) +
               ", top-k " + std::to_string(host_.w.top_k) + ", top-p " + std::to_string(host_.w.top_p) + ", min-p " +
               std::to_string(host_.w.min_p) + ", clusters to " + std::to_string(options_.max_cluster) + ", grids to " +
               std::to_string(options_.max_grid);
    }

private:
    mt::batch<element> make(index_t most) {
        index_t const v = random_vocabulary(numbers_, most);
        std::vector<std::vector<node_id>> shapes;
        for (index_t left = 1 + numbers_.below(numbers_() < 0.1 ? 12 : 4); left > 0; --left)
            shapes.push_back(random_tree(numbers_));
        return {v, random_sampling(numbers_, v), shapes};
    }

    numbers_type numbers_;
    mt::batch<element> host_;
    mc::launch_options options_;
    std::int64_t accepted_ = 0;
};

arguments parse(int argc, char** argv) {
    arguments result;
    if (argc % 2 == 0) throw std::invalid_argument("every option has a value");
    for (int k = 1; k < argc; k += 2) {
        std::string_view const option = argv[k];
        std::string const value = argv[k + 1];
        if (option == "--batches")
            result.batches = std::stoll(value);
        else if (option == "--seed")
            result.seed = std::stoull(value);
        else if (option == "--vocabulary")
            result.vocabulary = static_cast<index_t>(std::stol(value));
        else if (option == "--seconds")
            result.seconds = std::stod(value);
        else if (option == "--plant")
            result.plant = std::stoll(value);
        else
            throw std::invalid_argument("unknown option " + std::string(option));
    }
    if (result.vocabulary < 2) throw std::invalid_argument("--vocabulary: 2 or more");
    return result;
}

int compare(arguments const& options) {
#if defined(MULTIDRAFT_CUDA_STANDIN)
    standin::reset(standin::h200());
#endif
    auto const begin = std::chrono::steady_clock::now();
    auto const seconds = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    std::int64_t done = 0;
    std::int64_t requests = 0;
    std::int64_t accepted = 0;
    std::string found;
    for (; done < options.batches && found.empty() && seconds() < options.seconds; ++done) {
        std::uint64_t const seed = options.seed + static_cast<std::uint64_t>(done);
        comparison batch(seed, options.vocabulary);
        found = batch.run(done == options.plant);
        requests += batch.requests();
        accepted += batch.accepted();
        if (!found.empty()) found = "seed " + std::to_string(seed) + ": " + found + " (" + batch.text() + ")";
    }
    std::printf(
        "{\"method\": \"%s\", \"element\": \"%s\", \"seed\": %llu, \"batches\": %lld, \"wanted\": %lld, "
        "\"requests\": %lld, \"accepted\": %lld, \"seconds\": %.1f, \"difference\": \"%s\"}\n",
        std::string(method::name).c_str(), name_of_element, static_cast<unsigned long long>(options.seed),
        static_cast<long long>(done), static_cast<long long>(options.batches), static_cast<long long>(requests),
        static_cast<long long>(accepted), seconds(), found.c_str());
    return found.empty() ? 0 : 1;
}

}  // namespace cuda_parity

int main(int argc, char** argv) {
    try {
        return cuda_parity::compare(cuda_parity::parse(argc, argv));
    } catch (std::exception const& e) {
        std::fprintf(stderr, "cuda_parity: %s\n", e.what());
        return 2;
    }
}
