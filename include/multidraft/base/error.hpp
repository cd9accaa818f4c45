// How bad input is reported: one exception type that names the argument, the index and the value.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "multidraft/base/config.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// Thrown on the host when an argument cannot be used. Nothing of the caller's was changed before it was thrown.
///
/// `what()` reads, for example, `parents[3] = 7: a parent must come before its child`.
class invalid_input : public std::invalid_argument {
public:
    /// `value` is already printed; `node` is the node of the tree that is at fault, `none` where no node is concerned.
    invalid_input(std::string argument, std::int64_t index, std::string value, std::string reason, node_id node = none)
        : std::invalid_argument(text(argument, index, value, reason)),
          argument_(std::move(argument)),
          value_(std::move(value)),
          reason_(std::move(reason)),
          index_(index),
          node_(node) {}

    /// The name of the argument, as in the function's signature.
    [[nodiscard]] std::string const& argument() const noexcept { return argument_; }
    /// The index in the argument, or -1 when it is not a sequence.
    [[nodiscard]] std::int64_t index() const noexcept { return index_; }
    /// The offending value, printed.
    [[nodiscard]] std::string const& value() const noexcept { return value_; }
    /// What is wrong with it.
    [[nodiscard]] std::string const& reason() const noexcept { return reason_; }
    /// The node of the tree whose row is at fault, or `none`.
    [[nodiscard]] node_id node() const noexcept { return node_; }

private:
    MULTIDRAFT_COLD static std::string text(std::string const& argument, std::int64_t index, std::string const& value,
                                            std::string const& reason) {
        std::string place = argument;
        if (index >= 0) {
            place += '[';
            place += std::to_string(index);
            place += ']';
        }
        return place + " = " + value + ": " + reason;
    }

    std::string argument_;
    std::string value_;
    std::string reason_;
    std::int64_t index_;
    node_id node_;
};

namespace detail {

/// A text as it is, a number as a stream prints it; <sstream> takes long to compile.
template <class T>
[[nodiscard]] MULTIDRAFT_COLD std::string printed(T const& value) {
    if constexpr (std::is_convertible_v<T const&, std::string_view>) {
        return std::string(std::string_view(value));
    } else if constexpr (std::is_integral_v<T>) {
        return std::to_string(value);
    } else {
        char text[32];
        int const length = std::snprintf(text, sizeof text, "%g", static_cast<double>(value));
        return std::string(text, static_cast<std::size_t>(length));
    }
}

}  // namespace detail

/// Throws `invalid_input` for `argument` (or, with an index, its entry) of the given value: a number or a text.
template <class T>
[[noreturn]] MULTIDRAFT_COLD void refuse(std::string argument, T const& value, std::string const& reason) {
    throw invalid_input(std::move(argument), -1, detail::printed(value), reason);
}

/// The same for one entry of a sequence.
template <class T>
[[noreturn]] MULTIDRAFT_COLD void refuse(std::string argument, std::int64_t index, T const& value,
                                         std::string const& reason) {
    throw invalid_input(std::move(argument), index, detail::printed(value), reason);
}

/// Throws again what was refused about a member of `argument`, in the words of the function that has this argument: the
/// name is `argument.member`, an index is counted from `first`, and `whose` follows the reason.
[[noreturn]] MULTIDRAFT_COLD inline void refuse_member(std::string argument, invalid_input const& e,
                                                       std::string const& whose = {}, std::int64_t first = 0) {
    throw invalid_input(std::move(argument) + '.' + e.argument(), e.index() < 0 ? e.index() : first + e.index(),
                        e.value(), e.reason() + whose, e.node());
}

/// Throws `invalid_input` naming `argument` and `member` unless a row may have so many entries: 1 to `max_row_size`.
template <class Size>
void validate_row_size(Size size, char const* argument, char const* member = ".size") {
    if (size < 1 || static_cast<std::uint64_t>(size) > static_cast<std::uint64_t>(max_row_size))
        refuse(std::string(argument) + member, size, "a row has 1 to 2^31 - 4097 entries");
}

}  // namespace MULTIDRAFT_NAMESPACE
