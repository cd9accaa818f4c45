// Draws by address: a uniform is a pure function of seed, request, position, node, purpose and index.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/random/philox.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// What a draw decides. Draws of different purposes never share a random word, whatever their other coordinates.
///
/// The numbers are part of the address and so of every recorded text: add at the end, never reorder.
enum class purpose : std::uint8_t {
    draft = 0,       ///< which tokens are drafted
    acceptance = 1,  ///< whether a candidate is accepted
    rank = 2,        ///< a candidate's rank among its siblings
    residual = 3,    ///< the token emitted when every candidate is refused
    naive = 4,       ///< a token drawn from the target as it is
    gumbel = 5,      ///< noise per token of the vocabulary: races, Gumbel-max
    path = 6,        ///< which path of a tree is followed
    shape = 7,       ///< the shape of a random tree
    target = 8,      ///< plain decoding of the target, and tokens that start a tree
    test = 9,        ///< tests and benchmarks
};

/// Where a draw belongs. Two different addresses have two different counters, hence independent words.
struct address {
    std::int32_t position = 0;  ///< position in the text of the last token known to be right (the tree's root)
    node_id node = 0;           ///< the node of the draft tree, in [0, 2^24)
    multidraft::purpose purpose = multidraft::purpose::draft;
    index_t index = 0;  ///< which of several draws at that node: candidate, token or round

    friend constexpr bool operator==(address const&, address const&) = default;
};

/// The uniforms of one request: a value without state, to be copied to wherever draws are made.
///
/// A uniform is a pure function of (seed, request, position, node, purpose, index), by Philox4x32-10: the key is the
/// seed's two halves (lower first), the counter is {index, node | purpose << 24, position, request}. Hence the same
/// seed gives the same tokens whatever the batch, the schedule, the backend or the draws that were skipped.
class addressed_uniforms {
public:
    addressed_uniforms() = default;

    /// `request` distinguishes requests that have the same seed; 0 when every request has its own seed.
    MULTIDRAFT_HD MULTIDRAFT_INLINE explicit constexpr addressed_uniforms(std::uint64_t seed,
                                                                          std::uint32_t request = 0) noexcept
        : seed_(seed), request_(request) {}

    /// The seed of the run.
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE constexpr std::uint64_t seed() const noexcept { return seed_; }
    /// The number that distinguishes requests with the same seed.
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE constexpr std::uint32_t request() const noexcept { return request_; }

    /// The counter of an address. Different addresses of all requests have different counters.
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE constexpr philox_block counter(address const& at) const noexcept {
        return {{static_cast<std::uint32_t>(at.index),
                 (static_cast<std::uint32_t>(at.node) & 0x00ffffffU) | (static_cast<std::uint32_t>(at.purpose) << 24),
                 static_cast<std::uint32_t>(at.position), request_}};
    }

    /// All four words of an address, for draws that need many: one block serves four tokens of a row.
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE constexpr philox_block words(address const& at) const noexcept {
        return philox4x32(counter(at), {{static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32)}});
    }

    /// The first word of an address.
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE constexpr std::uint32_t word(address const& at) const noexcept {
        return words(at).word[0];
    }

    /// A uniform in [0, 1): a multiple of 2^-24 for float, of 2^-53 for double, never 1.
    ///
    /// The float of an address is its double truncated to 24 bits, too coarse for decisions about a vocabulary: see
    /// `draw_source`.
    template <class T>
    [[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE constexpr T uniform(address const& at) const noexcept {
        static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>,
                      "multidraft: uniforms are float or double");
        if constexpr (std::is_same_v<T, float>) {
            return static_cast<float>(static_cast<std::int32_t>(word(at) >> 8)) * 0x1p-24F;
        } else {
            philox_block const block = words(at);
            std::uint64_t const high = static_cast<std::uint64_t>(block.word[0]) << 21;
            return static_cast<double>(static_cast<std::int64_t>(high | (block.word[1] >> 11))) * 0x1p-53;
        }
    }

private:
    std::uint64_t seed_ = 0;
    std::uint32_t request_ = 0;
};

/// Where a draw happens: the position of the root in the text and the node whose children are drawn or verified.
struct draw_site {
    std::int32_t position = 0;
    node_id node = 0;

    /// The address of a draw for a purpose; `index` distinguishes draws with the same purpose at one node.
    [[nodiscard]] MULTIDRAFT_HD constexpr address operator()(purpose use, index_t index) const noexcept {
        return {position, node, use, index};
    }
};

/// The draws that an algorithm may make. Each draw has its own address; no address is used twice.
///
/// - `bernoulli(a, numerator, denominator)`: true with probability min(1, numerator / denominator), never when the
///   numerator is 0.
/// - `categorical(g, sums, n, w, taken, a)`: a token with probability in proportion to w, tokens `taken` excluded;
///   `sums` are the chunk sums of exactly those weights, with a positive total. `none` where the total is not a number:
///   infinite, or NaN.
/// - `uniform<Real>(a)`: a number in [0, 1), for ranks and positions.
///
/// All are decided by uniforms of 53 bits whatever the type of the row. With the 24 bits of a float at most 2^24
/// tokens could ever be drawn, and all probabilities below 2^-24 would be treated alike.
template <class S>
concept draw_source = requires(S& source, address a, float x, host_group const& g, chunk_sums<float> const& sums,
                               index_t n, group_archetype::term w, span<token_id const> taken) {
    { source.bernoulli(a, x, x) } -> std::same_as<bool>;
    { source.categorical(g, sums, n, w, taken, a) } -> std::same_as<index_t>;
    { source.template uniform<float>(a) } -> std::same_as<float>;
};

/// The source of real runs: every draw is a pure function of (seed, request, address).
///
/// A Bernoulli draw is `u * denominator < numerator` in double precision, strict, so that u = 0 never accepts a token
/// of no mass; its probability is right to 2^-53. A categorical draw is the inverse of the running sum at the fraction
/// u, `group.inverse_cdf`: each token's share is right to 2^-51 of the total, up to the rounding of the sums. For
/// floats that is about 2^-24 of the token's share. So even tokens of probability 2^-40 are drawn in proportion.
class addressed_source {
public:
    addressed_source() = default;
    /// Draws by these uniforms: their seed and request.
    MULTIDRAFT_HD constexpr explicit addressed_source(addressed_uniforms uniforms) noexcept : uniforms_(uniforms) {}

    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD bool bernoulli(address a, Real numerator, Real denominator) const {
        return fp::mul(uniforms_.template uniform<double>(a), static_cast<double>(denominator)) <
               static_cast<double>(numerator);
    }

    template <group G, class Sums, class W>
    [[nodiscard]] MULTIDRAFT_HD index_t categorical(G const& g, Sums const& sums, index_t n, W const& w,
                                                    span<token_id const> taken, address a) const {
        if (!(sums.total <= largest_number<std::decay_t<decltype(sums.total)>>)) return none;
        return g.inverse_cdf(sums, n, w, uniforms_.template uniform<double>(a), taken);
    }

    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD Real uniform(address a) const {
        return uniforms_.template uniform<Real>(a);
    }

    /// The uniforms that decide.
    [[nodiscard]] MULTIDRAFT_HD constexpr addressed_uniforms const& uniforms() const noexcept { return uniforms_; }

private:
    addressed_uniforms uniforms_{};
};

}  // namespace MULTIDRAFT_NAMESPACE
