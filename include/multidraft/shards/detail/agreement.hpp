// Checks that all ranks were called with valid and equal arguments, in one exchange: all throw the same error, and none
// waits for another.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/detail/check_batch.hpp"
#include "multidraft/batch/level_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/validation.hpp"
#include "multidraft/shards/exchange.hpp"
#include "multidraft/shards/shard_rows.hpp"
#include "multidraft/verify/traits.hpp"

namespace MULTIDRAFT_NAMESPACE::shards::detail {

/// A 64-bit hash of values and arrays.
class checksum {
public:
    template <class T>
    void add(T const& x) {
        static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
        std::uint64_t bits = 0;
        std::memcpy(&bits, &x, sizeof x);
        sum_ = (sum_ ^ bits) * 0x9E3779B97F4A7C15U;
        sum_ ^= sum_ >> 29;
    }
    template <class T>
    void add(T const* data, std::int64_t count) {
        add(data == nullptr);
        if (data == nullptr) return;
        add(count);
        for (std::int64_t i = 0; i < count; ++i) add(data[i]);
    }
    void add(sampling_params const& w) {
        add(w.temperature);
        add(w.top_k);
        add(w.top_p);
        add(w.min_p);
    }
    [[nodiscard]] std::uint64_t value() const noexcept { return sum_; }

private:
    std::uint64_t sum_ = 0x243F6A8885A308D3U;
};

/// What a rank sends about its arguments: their checksums, or an error, or the first fault that validation found.
struct argument_summary {
    static constexpr std::size_t kinds = 5;
    static constexpr std::array<std::string_view, kinds> names{"trees", "requests", "target", "draft", "level"};

    std::array<std::uint64_t, kinds> sums{};  ///< checksums of what must be equal on all ranks, by `names`
    std::int64_t index = -1;
    std::int32_t is_bad = 0;
    multidraft::detail::fault_key fault = multidraft::detail::no_fault;
    validation_report report{};  ///< of `fault`
    char argument[60]{};
    char value[64]{};
    char reason[192]{};

    /// Records an error of this rank.
    void set(invalid_input const& e) {
        is_bad = 1;
        index = e.index();
        copy(e.argument(), argument);
        copy(e.value(), value);
        copy(e.reason(), reason);
    }

private:
    template <std::size_t N>
    static void copy(std::string const& from, char (&to)[N]) {
        std::size_t const n = std::min(from.size(), N - 1);
        std::copy_n(from.begin(), n, to);
        to[n] = 0;
    }
};

/// Throws the same `invalid_input` on all ranks if a rank's arguments are invalid or differ from those of rank 0.
/// Returns on all ranks the report of the first fault that any of them found; their arguments are then not compared.
inline validation_report agree(exchange& ranks, argument_summary const& mine) {
    auto const all = ranks.gather<argument_summary>(1, [&](argument_summary* out) { *out = mine; });
    for (int r = 0; r < ranks.ranks(); ++r) {
        argument_summary const& s = *all.of<argument_summary>(r);
        if (s.is_bad != 0)
            throw invalid_input(s.argument, s.index, s.value, std::string(s.reason) + ", rank " + std::to_string(r));
    }
    argument_summary const& first = *all.of<argument_summary>(0);
    argument_summary const* faulty = &first;
    for (int r = 1; r < ranks.ranks(); ++r)
        if (all.of<argument_summary>(r)->fault < faulty->fault) faulty = all.of<argument_summary>(r);
    if (faulty->fault != multidraft::detail::no_fault) return faulty->report;
    for (int r = 1; r < ranks.ranks(); ++r)
        for (std::size_t k = 0; k < argument_summary::kinds; ++k)
            if (all.of<argument_summary>(r)->sums[k] != first.sums[k])
                refuse(std::string(argument_summary::names[k]), static_cast<std::int64_t>(r), "not those of rank 0",
                       "all ranks are called with the same trees, requests and sampling parameters; the index is the "
                       "rank");
    return {};
}

/// The checksum of what must be equal on all ranks about rows: size, type and sampling parameters.
template <class Rows>
[[nodiscard]] std::uint64_t checksum_of_rows(Rows const& rows, std::int32_t requests) {
    checksum sum;
    if constexpr (!std::is_same_v<Rows, verify::no_draft_rows>) {
        sum.add(index_t{rows.vocabulary});
        if constexpr (multidraft::detail::has_element<Rows>) sum.add(sizeof(typename Rows::element));
        if constexpr (multidraft::detail::has_sampling<Rows>)
            for (std::int32_t b = 0; b < requests; ++b) sum.add(rows.sampling_of(b));
    }
    return sum.value();
}

[[nodiscard]] inline std::uint64_t checksum_of_trees(tree_batch const& trees) {
    checksum sum;
    sum.add(trees.requests);
    sum.add(trees.offsets, trees.requests + 1);
    sum.add(trees.parents, trees.nodes);
    sum.add(trees.tokens, trees.nodes);
    sum.add(trees.certain, trees.nodes);
    return sum.value();
}

[[nodiscard]] inline std::uint64_t checksum_of_requests(request_batch const& requests, std::int32_t count) {
    checksum sum;
    for (std::int32_t b = 0; b < count; ++b) {
        sum.add(requests.seed(b));
        sum.add(requests.position(b));
        sum.add(requests.id(b));
    }
    return sum.value();
}

[[nodiscard]] inline std::uint64_t checksum_of_level(level_batch const& level, children_batch const& out) {
    checksum sum;
    sum.add(level.entries);
    sum.add(level.requests, level.entries);
    sum.add(level.nodes, level.entries);
    for (std::int32_t e = 0; e < level.entries; ++e) sum.add(level.wanted == nullptr ? out.stride : level.wanted[e]);
    sum.add(level.depths, level.entries);
    return sum.value();
}

}  // namespace MULTIDRAFT_NAMESPACE::shards::detail
