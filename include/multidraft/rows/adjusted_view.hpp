// A row of logits with a mask and a bias applied as it is read: nothing is copied, nothing is written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/runs.hpp"
#include "multidraft/rows/logit_bias.hpp"
#include "multidraft/rows/token_mask.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Masks and biases of the rows of a tree, for `logit_rows`: either may be left out.
struct logit_adjustments {
    token_masks allowed{};
    logit_biases bias{};
};

namespace detail {

/// x plus the bias of token i, if it has one. On a device a function of its own: inlined, the search would be repeated
/// for each entry of an unrolled loop over a row, and be most of a kernel.
template <class Real>
#if defined(__CUDA_ARCH__)
__noinline__
#endif
    [[nodiscard]] MULTIDRAFT_HD Real
    biased(Real x, index_t i, logit_bias bias) noexcept {
    std::size_t const k = bias.before(i);
    return k < bias.size() && bias.tokens[k] == i ? x + static_cast<Real>(bias.values[k]) : x;
}

}  // namespace detail

/// A row whose entries are x_i + b_i where the mask allows token i, and minus infinity elsewhere, whatever x_i is.
///
/// `View` is a `row_view` or another row of logits. Every operation of every group gives the same bits as for a row
/// that was changed beforehand. The host group reads a mask a word at a time and applies the bias only where there is
/// one (`has_runs`). Runs whose tokens are all allowed are read as they are; runs with no allowed token are not read.
/// Other groups test the bit of each entry and search the bias for it: O(log of the number of biased tokens) an entry.
template <class View>
class adjusted_view {
public:
    using real = typename View::real;

    adjusted_view() = default;
    /// The row with the tokens that the mask forbids at minus infinity and with the bias added to the others. On the
    /// host a mask without a bit for each token is an `invalid_input`.
    MULTIDRAFT_HD adjusted_view(View row, token_mask allowed, logit_bias bias = {})
        : row_(row), allowed_(allowed), bias_(bias) {
#if !MULTIDRAFT_ON_DEVICE
        if (!allowed.empty() && allowed.tokens() < row.size())
            refuse("allowed.tokens", allowed.tokens(),
                   "a mask has a bit for each of the " + std::to_string(row.size()) + " tokens");
#endif
    }

    [[nodiscard]] MULTIDRAFT_HD index_t size() const noexcept { return row_.size(); }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real operator()(index_t i) const noexcept {
        real x = row_(i);
        if (!bias_.empty()) x = detail::biased(x, i, bias_);
        return allowed_(i) ? x : minus_infinity<real>;
    }
    /// Whether the mask allows a token.
    [[nodiscard]] MULTIDRAFT_HD bool allows(index_t i) const noexcept { return allowed_(i); }

    /// See `has_runs`.
    [[nodiscard]] MULTIDRAFT_HD adjusted_view in_chunk(index_t begin, index_t end) const noexcept {
        adjusted_view result = *this;
        if (bias_.empty()) return result;
        result.bias_ = bias_.part(begin, end);
        result.chunk_ = begin;
        result.biased_runs_ = 0;
        for (token_id const x : result.bias_.tokens)
            result.biased_runs_ |= std::uint64_t{1} << ((x - begin) / run_length % 64);
        return result;
    }
    /// See `has_runs`.
    template <class Body>
    MULTIDRAFT_INLINE MULTIDRAFT_HD void on_run(index_t begin, index_t end, Body const& body) const {
        std::uint64_t const bits = allowed_.bits(begin, end);
        bool const has_bias =
            !bias_.empty() && (chunk_ == none || (biased_runs_ >> ((begin - chunk_) / run_length % 64) & 1U) != 0);
        if (bits == ~std::uint64_t{0} && !has_bias) {
            body(row_);
            return;
        }
        if (bits == 0) {
            body(forbidden(row_.size()));
            return;
        }
        real values[static_cast<std::size_t>(run_length)];
        if (end - begin == run_length) {
            write_half(begin, static_cast<std::uint32_t>(bits), values);
            write_half(begin + 32, static_cast<std::uint32_t>(bits >> 32), values + 32);
        } else {
            for (index_t i = begin; i < end; ++i) values[i - begin] = allowed_(i) ? row_(i) : minus_infinity<real>;
        }
        if (has_bias) add_bias(begin, end, values);
        body(run_values<real>(values, begin, row_.size()));
    }

private:
    using bits_of_real = std::conditional_t<sizeof(real) == 4, std::uint32_t, std::uint64_t>;

    /// A run with no allowed token.
    class forbidden {
    public:
        using real = typename View::real;
        forbidden() = default;
        MULTIDRAFT_HD explicit forbidden(index_t size) noexcept : size_(size) {}
        [[nodiscard]] MULTIDRAFT_HD index_t size() const noexcept { return size_; }
        [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD real operator()(index_t) const noexcept {
            return minus_infinity<real>;
        }

    private:
        index_t size_ = 0;
    };

    /// 32 entries; those whose bit is 0 become minus infinity. Written with masks so that compilers vectorise it.
    MULTIDRAFT_INLINE MULTIDRAFT_HD void write_half(index_t begin, std::uint32_t allowed, real* values) const noexcept {
        constexpr auto nothing = __builtin_bit_cast(bits_of_real, minus_infinity<real>);
        bits_of_real x[32];
        for (index_t l = 0; l < 32; ++l) x[l] = __builtin_bit_cast(bits_of_real, row_(begin + l));
        for (index_t l = 0; l < 32; ++l) {
            bits_of_real const keep = bits_of_real(0) - static_cast<bits_of_real>(allowed >> l & 1U);
            values[l] = __builtin_bit_cast(real, static_cast<bits_of_real>(nothing ^ ((nothing ^ x[l]) & keep)));
        }
    }

    MULTIDRAFT_HD void add_bias(index_t begin, index_t end, real* values) const noexcept {
        for (std::size_t k = bias_.before(begin); k < bias_.size() && bias_.tokens[k] < end; ++k) {
            token_id const i = bias_.tokens[k];
            if (allowed_(i)) values[i - begin] += static_cast<real>(bias_.values[k]);
        }
    }

    View row_{};
    token_mask allowed_{};
    logit_bias bias_{};
    std::uint64_t biased_runs_ = 0;  ///< the runs of the chunk that have a biased token
    index_t chunk_ = none;           ///< where the chunk begins, once there is one
};

}  // namespace MULTIDRAFT_NAMESPACE
