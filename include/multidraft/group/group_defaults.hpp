// The operations of a group that follow from others: a base that a group takes them from, one by one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/numbers.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/optional_members.hpp"
#include "multidraft/group/runs.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace detail {

/// 1 where a predicate holds, else 0.
template <class Is>
struct ones_where {
    Is is;
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD float operator()(index_t i) const { return is(i) ? 1.0F : 0.0F; }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool may_be_nonzero(index_t i) const requires has_may_be_nonzero<Is> {
        return is.may_be_nonzero(i);
    }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool is_dense() const requires has_may_be_nonzero<Is> {
        return is.is_dense();
    }
};

/// Counters in a lane's own memory.
template <std::size_t N>
class own_counters {
public:
    MULTIDRAFT_HD own_counters() noexcept {}  // NOLINT: `group.histogram` writes every entry
    [[nodiscard]] MULTIDRAFT_HD std::uint64_t* data() noexcept { return count_; }

private:
    std::uint64_t count_[N];
};

}  // namespace detail

/// What a group need not write itself. The members are protected: a group derives from `group_defaults<itself>` and
/// takes each that it does not define by a `using` in its public part:
///
///     class my_group : public group_defaults<my_group> {
///     public:
///         using group_defaults<my_group>::throws;
///         using group_defaults<my_group>::nth;
///         ..
///
/// The concept `group` requires all of them. So a member whose name is misspelt does not stand beside a default
/// unnoticed: the default is not taken, and the class is no group.
template <class Self>
class group_defaults {
protected:
    /// Bad input is reported by throwing, on a host.
    static constexpr bool throws = true;
    /// Top-k is never listed, always found by counting.
    static constexpr index_t fast_top_k = 0;
    /// A selection counts 11 bits of the keys at a time.
    static constexpr int digit_bits = 11;

    /// Counters in the lane's own memory.
    template <std::size_t N>
    [[nodiscard]] MULTIDRAFT_HD detail::own_counters<N> counters() const noexcept {
        return {};
    }
    /// One counter after the other.
    template <class Counters>
    [[nodiscard]] MULTIDRAFT_HD std::uint64_t histogram_total(Counters const& counters) const noexcept {
        std::uint64_t total = 0;
        for (std::size_t b = 0; b < counters.size(); ++b) total += counters[b];
        return total;
    }
    /// One counter after the other.
    template <class Counters>
    [[nodiscard]] MULTIDRAFT_HD index_t histogram_bin_reaching(Counters const& counters,
                                                               std::uint64_t& wanted) const noexcept {
        auto b = static_cast<index_t>(counters.size()) - 1;
        for (; b > 0 && counters[static_cast<std::size_t>(b)] < wanted; --b)
            wanted -= counters[static_cast<std::size_t>(b)];
        return b;
    }
    /// A sum over `size` entries, 2^24 at most, entry 0 being `first`: for groups whose lanes may evaluate a function
    /// anywhere.
    template <class Is>
    [[nodiscard]] MULTIDRAFT_HD index_t count_part(index_t /*n*/, index_t first, index_t size, Is const& is) const {
        return static_cast<index_t>(
            self().sum(size, [is, first](index_t i) MULTIDRAFT_INLINE_LAMBDA { return is(first + i) ? 1.0F : 0.0F; }));
    }
    /// The chunk sums of the row.
    template <class Is, class Number>
    [[nodiscard]] MULTIDRAFT_HD index_t nth(index_t n, Is const& is, Number const& number) const {
        detail::ones_where<Is> const one{is};
        auto const sums = self().sum_chunks(n, one);
        if (!(sums.total > 0)) return none;
        auto count = static_cast<std::uint64_t>(sums.total);
        if (!(sums.total < 0x1p24F)) count = counted(n, is);  // floats do not count further
        // The k-th of n ones has the fractions from (k - 1) / n to k / n: its middle is safe from rounding.
        double const middle = (static_cast<double>(number(count)) - 0.5) / static_cast<double>(count);
        return self().inverse_cdf(sums, n, one, middle, span<token_id const>{});
    }
    /// For groups whose lanes each have all sums (`chunk_sums`).
    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD chunk_sums<Real> sums_of_one(index_t n, index_t where) const noexcept {
        chunk_sums<Real> sums;
        for (index_t c = 0; c < kept_sums(n); ++c) sums.values[c] = c == where / chunk_size ? Real(1) : Real(0);
        sums.total = 1;
        return sums;
    }
    /// Copied, for such groups too.
    template <class Real>
    [[nodiscard]] MULTIDRAFT_HD chunk_sums<Real> sums_from(index_t n, Real const* values, Real total) const noexcept {
        chunk_sums<Real> sums;
        for (index_t c = 0; c < kept_sums(n); ++c) sums.values[c] = values[c];
        sums.total = total;
        return sums;
    }
    /// A pass that checks the row, and `top_k`.
    template <class X>
    [[nodiscard]] MULTIDRAFT_HD bool top_k_of_logits(index_t n, X const& x, span<token_id> list) const {
        using real = std::decay_t<std::invoke_result_t<X const&, index_t>>;
        real const faults = self().max(n, function_of{x, [](auto const& row, index_t i) MULTIDRAFT_INLINE_LAMBDA {
                                                          return row(i) <= largest_number<real> ? real(0) : real(1);
                                                      }});
        if (faults > 0) return false;
        self().top_k(n, x, list);
        return x(list[0]) > minus_infinity<real>;
    }
    /// The whole row is summed.
    template <class W>
    [[nodiscard]] MULTIDRAFT_HD auto sum_chunks_of(index_t n, W const& w, span<token_id const> /*list*/) const {
        return self().sum_chunks(n, w);
    }

private:
    [[nodiscard]] MULTIDRAFT_HD Self const& self() const noexcept { return static_cast<Self const&>(*this); }

    template <class Is>
    [[nodiscard]] MULTIDRAFT_HD std::uint64_t counted(index_t n, Is const& is) const {
        auto storage = self().template counters<1>();
        span<std::uint64_t> const count(storage.data(), 1);
        self().histogram(
            n, [is](index_t i) MULTIDRAFT_INLINE_LAMBDA { return is(i) ? 0 : none; },
            [](index_t) MULTIDRAFT_INLINE_LAMBDA { return std::int32_t(1); }, count);
        return count[0];
    }
};

}  // namespace MULTIDRAFT_NAMESPACE
