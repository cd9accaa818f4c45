// Errors of the library on their way to Python. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <string>
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

inline void check(md_status status) {
    if (status == MD_OK) return;
    md_error error = MD_ERROR_INIT;
    md_last_error(&error);
    failure f;
    f.status = status;
    f.index = error.index;
    f.message = error.message;
    f.argument = error.argument;
    f.value = error.value;
    f.reason = error.reason;
    throw f;
}
