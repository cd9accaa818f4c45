// Functions of an entry that have a cheaper form on a run of adjacent entries.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/group/optional_members.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Entries of a run: the unit in which a group evaluates a function (see `has_runs`).
inline constexpr index_t run_length = 64;

/// The entries of a run, written out: the form on a run of a function that is expensive to evaluate.
template <class Real>
class run_values {
public:
    using real = Real;

    run_values() = default;
    /// `values[k]` is entry begin + k of a row of `size`.
    MULTIDRAFT_HD run_values(Real const* values, index_t begin, index_t size) noexcept
        : values_(values), begin_(begin), size_(size) {}

    [[nodiscard]] MULTIDRAFT_HD index_t size() const noexcept { return size_; }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD Real operator()(index_t i) const noexcept {
        return values_[i - begin_];
    }

private:
    Real const* values_ = nullptr;
    index_t begin_ = 0;
    index_t size_ = 0;
};

/// The entries of a run that are all the same.
template <class Real>
class constant_run {
public:
    using real = Real;

    constant_run() = default;
    /// A run of a row of `size` entries.
    MULTIDRAFT_HD constant_run(Real value, index_t size) noexcept : value_(value), size_(size) {}

    [[nodiscard]] MULTIDRAFT_HD index_t size() const noexcept { return size_; }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD Real operator()(index_t) const noexcept { return value_; }

private:
    Real value_ = 0;
    index_t size_ = 0;
};

namespace detail {

/// The type of a function's value at an index.
template <class F>
using result_of = std::decay_t<std::invoke_result_t<F const&, index_t>>;

/// A function on the entries of one chunk.
template <class F>
[[nodiscard]] MULTIDRAFT_HD MULTIDRAFT_INLINE F in_chunk(F const& f, [[maybe_unused]] index_t begin,
                                                         [[maybe_unused]] index_t end) {
    if constexpr (has_runs<F>)
        return f.in_chunk(begin, end);
    else
        return f;
}

/// Calls `body` with a function, or with its form on a run.
template <class F, class Body>
MULTIDRAFT_HD MULTIDRAFT_INLINE void on_run(F const& f, [[maybe_unused]] index_t begin, [[maybe_unused]] index_t end,
                                            Body const& body) {
    if constexpr (has_runs<F>)
        f.on_run(begin, end, body);
    else
        body(f);
}

/// Calls `body(here, begin, end)` for each run of some entries that begin at a multiple of `run_length`; once for all
/// of them where the function has no runs.
template <class F, class Body>
MULTIDRAFT_HD MULTIDRAFT_INLINE void by_runs(F const& f, index_t begin, index_t end, Body const& body) {
    if constexpr (has_runs<F>) {
        for (index_t at = begin; at < end; at += run_length) {
            index_t const last = at + run_length < end ? at + run_length : end;
            f.on_run(at, last, [&](auto const& here) MULTIDRAFT_INLINE_LAMBDA { body(here, at, last); });
        }
    } else {
        body(f, begin, end);
    }
}

}  // namespace detail

/// f(x, i) as a function of i, which has runs where x has: in place of a lambda that captures x. `EmptyAlike`: f does
/// not count either where x does not.
template <class X, class F, bool EmptyAlike = false>
struct function_of {
    X x;
    F f;

    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD auto operator()(index_t i) const { return f(x, i); }
    [[nodiscard]] MULTIDRAFT_HD function_of in_chunk(index_t begin, index_t end) const requires has_runs<X> {
        return {x.in_chunk(begin, end), f};
    }
    [[nodiscard]] MULTIDRAFT_HD bool is_empty_run([[maybe_unused]] index_t begin) const requires has_runs<X> {
        if constexpr (EmptyAlike)
            return x.is_empty_run(begin);
        else
            return false;
    }
    template <class Body>
    MULTIDRAFT_INLINE MULTIDRAFT_HD void on_run(index_t begin, index_t end,
                                                Body const& body) const requires has_runs<X> {
        x.on_run(begin, end, [&](auto const& here) MULTIDRAFT_INLINE_LAMBDA {
            body(function_of<std::remove_cvref_t<decltype(here)>, F, EmptyAlike>{here, f});
        });
    }
};
template <class X, class F>
MULTIDRAFT_GUIDE function_of(X, F)->function_of<X, F>;

namespace detail {

/// f(begin + i) as a function of i, with the optional members of f: how a thread or a rank reads its part of a row.
/// `begin` is a multiple of `chunk_size`.
template <class F>
struct from_entry {
    F f;
    index_t begin;

    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD auto operator()(index_t i) const { return f(begin + i); }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool may_be_nonzero(index_t i) const requires has_may_be_nonzero<F> {
        return f.may_be_nonzero(begin + i);
    }
    [[nodiscard]] MULTIDRAFT_INLINE MULTIDRAFT_HD bool is_dense() const requires has_may_be_nonzero<F> {
        return f.is_dense();
    }
    [[nodiscard]] MULTIDRAFT_HD bool is_elsewhere(index_t first, index_t end) const requires has_elsewhere<F> {
        return f.is_elsewhere(begin + first, begin + end);
    }
    [[nodiscard]] MULTIDRAFT_HD auto elsewhere() const requires has_elsewhere<F> {
        return from_entry<std::remove_cvref_t<decltype(f.elsewhere())>>{f.elsewhere(), begin};
    }
    [[nodiscard]] MULTIDRAFT_HD from_entry in_chunk(index_t first, index_t end) const requires has_runs<F> {
        return {f.in_chunk(begin + first, begin + end), begin};
    }
    [[nodiscard]] MULTIDRAFT_HD bool is_empty_run(index_t first) const requires has_runs<F> {
        return f.is_empty_run(begin + first);
    }
    template <class Body>
    MULTIDRAFT_INLINE MULTIDRAFT_HD void on_run(index_t first, index_t end,
                                                Body const& body) const requires has_runs<F> {
        f.on_run(begin + first, begin + end, [&](auto const& here) MULTIDRAFT_INLINE_LAMBDA {
            body(from_entry<std::remove_cvref_t<decltype(here)>>{here, begin});
        });
    }
};
template <class F>
MULTIDRAFT_GUIDE from_entry(F, index_t)->from_entry<F>;

}  // namespace detail

}  // namespace MULTIDRAFT_NAMESPACE
