// Errors of the library on their way to Python. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "multidraft.h"

/// An error of the library, to be raised in Python.
struct failure : std::exception {
    md_status status = MD_INTERNAL;
    std::int64_t index = -1;
    std::string message, argument, value, reason;

    failure() = default;
    failure(std::string of, std::string what, std::string cause)
        : status(MD_INVALID_INPUT), argument(std::move(of)), value(std::move(what)), reason(std::move(cause)) {
        message = argument + " = " + value + ": " + reason;
    }
    [[nodiscard]] char const* what() const noexcept override { return message.c_str(); }
};

/// The name in Python of an argument of the C interface: the members of these structs are arguments of their own there,
/// and a shape is no mere text.
inline std::string name_in_python(std::string const& argument) {
    if (argument == "text") return "shape";
    if (argument == "children.stride" || argument == "level.wanted") return "n";
    for (std::string_view const of_struct :
         {"trees.", "requests.", "request.", "level.", "options.", "rows.sampling.", "rows.default_sampling.", "rows."})
        if (argument.compare(0, of_struct.size(), of_struct) == 0) return argument.substr(of_struct.size());
    return argument;
}

inline void check(md_status status) {
    if (status == MD_OK) return;
    md_error error = MD_ERROR_INIT;
    md_last_error(&error);
    failure f;
    f.status = status;
    f.index = error.index;
    f.message = error.message;
    f.argument = name_in_python(error.argument);
    f.value = error.value;
    f.reason = error.reason;
    if (f.argument != error.argument)
        f.message =
            f.argument + (f.index < 0 ? "" : '[' + std::to_string(f.index) + ']') + " = " + f.value + ": " + f.reason;
    throw f;
}
