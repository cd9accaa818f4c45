// Common to the programs: strict reading of numbers, and checks of standard input and output.
#pragma once

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "multidraft/base/error.hpp"

namespace multidraft::examples {

/// The fault of an unsigned 64-bit number as text, empty if valid. Numbers are otherwise read by `strtoull`, which
/// accepts -1 and numbers above 2^64 - 1.
inline std::string fault_of_unsigned(std::string const& text) {
    std::uint64_t value = 0;
    char const* const end = text.data() + text.size();
    auto const [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc::result_out_of_range) return text + ": more than 2^64 - 1";
    if (error != std::errc{} || stop != end) return text + ": not a whole number of 0 or more";
    return "";
}

/// A check of a number as text: its fault, empty if it lies in [least, most], or, if `above`, in (least, most]. Not a
/// number is a fault.
inline auto number_in(double least, double most, bool above = false) {
    return [least, most, above](std::string const& text) -> std::string {
        double value = 0;
        char const* const end = text.data() + text.size();
        auto const [stop, error] = std::from_chars(text.data(), end, value);
        if (error == std::errc{} && stop == end && value >= least && value <= most && !(above && value == least))
            return "";
        std::array<char, 96> range{};
        std::snprintf(range.data(), range.size(), ": not a number in %c%g, %g]", above ? '(' : '[', least, most);
        return text + range.data();
    };
}

/// Calls `call()`. Errors of the library in an argument become those of the option that gave it, of pairs of an
/// argument and its option; others stay as they are.
template <class Call>
auto naming_options(std::initializer_list<std::pair<std::string_view, std::string_view>> options, Call&& call) {
    try {
        return call();
    } catch (invalid_input const& e) {
        for (auto const& [argument, option] : options)
            if (e.argument() == argument)
                throw std::runtime_error(std::string(option) + (argument.ends_with(".size") ? " of " : " ") +
                                         e.value() + (argument.ends_with(".size") ? " tokens: " : ": ") + e.reason());
        throw;
    }
}

/// The same for what a program is told of sampling and of the length of its text: `--top-k`, `--top-p`, `--min-p`, and
/// the options that it has for the temperature and for the most tokens.
template <class Call>
auto naming_sampling_options(std::string_view temperature, std::string_view tokens, Call&& call) {
    return naming_options({{"temperature", temperature},
                           {"top_k", "--top-k"},
                           {"top_p", "--top-p"},
                           {"min_p", "--min-p"},
                           {"max_tokens", tokens}},
                          call);
}

/// All of standard input. Throws `std::runtime_error` when it cannot be read: closed, a directory, a failing disk.
inline std::string read_standard_input() {
    std::string text;
    std::array<char, 1 << 16> buffer{};
    for (;;) {
        errno = 0;
        std::size_t const count = std::fread(buffer.data(), 1, buffer.size(), stdin);
        text.append(buffer.data(), count);
        if (count == buffer.size()) continue;
        if (std::ferror(stdin) != 0)
            throw std::runtime_error(std::string("standard input cannot be read: ") + std::strerror(errno));
        return text;
    }
}

/// Whether everything written to standard output so far was written successfully.
inline bool output_arrives() {
    std::cout.flush();
    return static_cast<bool>(std::cout) && std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
}

/// Throws `std::runtime_error` if not: a full disk, a closed output.
inline void check_output() {
    if (!output_arrives()) throw std::runtime_error("the result cannot be written to standard output");
}

}  // namespace multidraft::examples
