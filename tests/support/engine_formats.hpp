// All engine formats written with any policy, as one list of numbers to compare.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "multidraft/batch/accepted_tokens.hpp"
#include "multidraft/batch/compact_caches.hpp"
#include "multidraft/batch/linked_trees.hpp"
#include "multidraft/batch/masks.hpp"
#include "multidraft/batch/predictions.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "support/batches.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// Host memory, with the interface of the device memory of other tests.
template <class T>
class on_host {
public:
    explicit on_host(std::vector<T> contents) : contents_(std::move(contents)) {}
    [[nodiscard]] T* data() const { return contents_.data(); }
    [[nodiscard]] std::vector<T> host() const { return contents_; }

private:
    mutable std::vector<T> contents_;
};

/// Calls every function of `batch/` that writes an engine format, with a policy and arrays of its memory, `Memory<T>`
/// (made from a vector; `data()`, `host()`). `done(call)` makes each call and checks its return value, if any.
template <template <class> class Memory, class Policy, class Done>
[[nodiscard]] std::vector<std::int64_t> write_engine_formats(Policy const& policy, Done const& done) {
    auto const in = random_trees({1, 9, 40, 64, 100}, 7);
    constexpr std::int32_t requests = 5;
    auto const all = static_cast<std::size_t>(in.offsets.back());
    std::vector<std::int64_t> result;
    auto const keep = [&](auto const& array) {
        for (auto const x : array.host()) result.push_back(static_cast<std::int64_t>(x));
    };
    Memory<std::int64_t> const offsets(in.offsets);
    Memory<node_id> const parents(in.parents);
    tree_batch trees{requests, in.offsets.back(), offsets.data(), parents.data()};

    Memory<std::int64_t> const first_child(std::vector<std::int64_t>(all, 77)), next_sibling(first_child.host());
    done([&] { return write_links(policy, trees, first_child.data(), next_sibling.data()); });
    test_numbers numbers(3);
    std::vector<std::int64_t> candidates;
    for (std::size_t i = 0; i < all; ++i) candidates.push_back(numbers.below(5));
    Memory<std::int64_t> const tokens_in(candidates), rows(std::vector<std::int64_t>(all, 77));
    Memory<node_id> const built_parents(std::vector<node_id>(all, 77)), order(built_parents.host());
    Memory<token_id> const tokens(built_parents.host());
    Memory<std::int32_t> const depths(built_parents.host()), faults(std::vector<std::int32_t>(requests, 77));
    built_trees out{built_parents.data(), tokens.data(), order.data(), depths.data(),
                    faults.data(),        nullptr,       rows.data()};
    done([&] {
        return build_trees(policy, trees,
                           link_batch<std::int64_t>{first_child.data(), next_sibling.data(), tokens_in.data()}, out);
    });
    keep(first_child), keep(next_sibling), keep(built_parents), keep(tokens), keep(order), keep(depths), keep(faults),
        keep(rows);
    trees.parents = built_parents.data();
    trees.tokens = tokens.data();
    trees.largest = 100;

    Memory<std::int32_t> const contexts(std::vector<std::int32_t>{3, 0, 17, 1, 5});
    Memory<std::int64_t> const positions(std::vector<std::int64_t>(all, 77));
    done([&] { return write_positions(policy, trees, contexts.data(), positions.data()); });
    Memory<std::uint8_t> const words(std::vector<std::uint8_t>(all * 13, 77));
    done([&] { return write_masks(policy, trees, words.data(), 13); });
    Memory<std::int64_t> const starts(std::vector<std::int64_t>(requests + 1, 77)), bit_starts(starts.host());
    done([&] { return write_mask_starts(policy, trees, contexts.data(), 1, starts.data()); });
    done([&] { return write_mask_starts(policy, trees, contexts.data(), 8, bit_starts.data()); });
    auto const entries = starts.host().back();
    auto const bytes = bit_starts.host().back();
    Memory<float> const full(std::vector<float>(static_cast<std::size_t>(entries), 77.0F));
    Memory<std::uint8_t> const bits(std::vector<std::uint8_t>(static_cast<std::size_t>(bytes), 77));
    done([&] {
        return write_ragged_masks(
            policy, trees, ragged_masks<float>{full.data(), entries, starts.data(), contexts.data()}, 0.0F, -9.0F);
    });
    done([&] { return write_ragged_bits(policy, trees, {bits.data(), bytes, bit_starts.data(), contexts.data()}); });
    keep(positions), keep(words), keep(starts), keep(bit_starts), keep(full), keep(bits);

    // Some predictions are tokens of children, some are not.
    Memory<std::int64_t> const predicted(candidates);
    Memory<node_id> const path(std::vector<node_id>(all, -7));
    Memory<std::int32_t> const accepted(std::vector<std::int32_t>(requests, 77));
    Memory<token_id> const next(accepted.host());
    verdict_batch const verdicts{path.data(), 0, accepted.data(), next.data()};
    done([&] {
        return verify_predictions(policy, trees, prediction_batch<std::int64_t>{predicted.data(), rows.data()},
                                  verdicts);
    });
    constexpr std::int64_t stride = 101;
    Memory<std::int64_t> const accepted_of(std::vector<std::int64_t>(requests * stride, 77));
    Memory<std::int32_t> const counts(accepted.host()), accept_index(std::vector<std::int32_t>(requests * stride, 77)),
        num(counts.host()), predicts(std::vector<std::int32_t>(all, 77));
    done([&] {
        return write_accepted_tokens(policy, trees, verdicts,
                                     accepted_tokens<std::int64_t>{accepted_of.data(), stride, counts.data()});
    });
    done([&] {
        return write_accepted_index(
            policy, trees, verdicts,
            accepted_index<std::int32_t>{predicts.data(), accept_index.data(), stride, num.data(), order.data()});
    });
    keep(path), keep(accepted), keep(next), keep(accepted_of), keep(counts), keep(accept_index), keep(num),
        keep(predicts);

    // Keys and values of two layers, in separate allocations.
    std::vector<float> cache;
    for (int k = 0; k < 100 * 8; ++k) cache.push_back(static_cast<float>(k));
    Memory<float> const k0(cache), v0(cache), k1(cache), v1(cache);
    Memory<void*> const list(std::vector<void*>{k0.data(), v0.data(), k1.data(), v1.data()});
    Memory<node_id> const kept_nodes(std::vector<node_id>{2, 3, 7, 1, 5, 9});
    Memory<std::int32_t> const kept_counts(std::vector<std::int32_t>{3, 3});
    Memory<std::int64_t> const bases(std::vector<std::int64_t>{4, 10});
    contiguous_cache layers;
    layers.request_stride = 50 * 8 * 4;
    layers.entry_stride = 8 * 4;
    layers.entry_bytes = 8 * 4;
    layers.list = list.data();
    layers.listed = 4;
    done([&] {
        return compact_caches(policy, layers, kept_batch{2, kept_nodes.data(), 3, kept_counts.data(), bases.data()});
    });
    keep(k0), keep(v0), keep(k1), keep(v1);
    return result;
}

/// The formats as host threads write them.
[[nodiscard]] inline std::vector<std::int64_t> engine_formats_of_host() {
    return write_engine_formats<on_host>(host_threads(1), [](auto const& call) { call(); });
}

}  // namespace MULTIDRAFT_NAMESPACE::testing
