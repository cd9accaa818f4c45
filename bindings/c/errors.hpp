// The boundary of the library: exceptions become codes and a message per thread, structs and pointers are checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "multidraft.h"
#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/span.hpp"

namespace MULTIDRAFT_NAMESPACE::c_interface {

/// A failure of the system: MD_SYSTEM.
class system_failure : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// A feature that the library was built without: MD_UNAVAILABLE.
class unavailable : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Stores the exception being handled as the thread's last error. Allocates nothing.
[[nodiscard]] md_status keep_current_exception() noexcept;

/// Runs the body of a function of the interface and converts exceptions to codes.
template <class Body>
[[nodiscard]] md_status guarded(Body const& body) noexcept {
    try {
        body();
        return MD_OK;
    } catch (...) {
        return keep_current_exception();
    }
}

/// The name that an argument of a C++ call has in this interface.
struct argument_name {
    std::string_view of_call;
    std::string_view here;
};

/// Throws again what a C++ call refused, with the name of the argument in this interface: that of the first of `names`
/// which is the argument or what it is a member of, otherwise the one that it has.
[[noreturn]] void refuse_as(invalid_input const& e, std::span<argument_name const> names);

/// Calls a function of the library whose arguments have other names than those of this interface.
template <std::size_t N, class Call>
decltype(auto) with_names(argument_name const (&names)[N], Call const& call) {
    try {
        return call();
    } catch (invalid_input const& e) {
        refuse_as(e, names);
    }
}

/// Throws for a null pointer.
inline void refuse_null(void const* pointer, char const* name) {
    if (pointer == nullptr) refuse(name, "null", "this is read or written");
}

/// No struct of any version is larger: what claims to be is a mistake, and is not read to its end.
inline constexpr std::size_t largest_struct = 4096;

/// Throws unless a struct has at least the size of this version's, or one of the sizes `older` of earlier versions.
template <class S>
void check_size(S const* given, char const* name, std::initializer_list<std::size_t> older = {}) {
    refuse_null(given, name);
    if (given->size < sizeof(S) && std::find(older.begin(), older.end(), given->size) == older.end())
        refuse(std::string(name) + ".size", given->size,
               "it is the sizeof of the struct, " + std::to_string(sizeof(S)) + " or more");
    if (given->size > largest_struct)
        refuse(std::string(name) + ".size", given->size,
               "it is the sizeof of the struct, " + std::to_string(largest_struct) + " at most");
}

/// Copies a caller's struct to this version's. The additional fields of a newer caller must be zero. The fields missing
/// in an older caller's struct, whose size is one of `older`, become zero.
template <class S>
[[nodiscard]] S read(S const* given, char const* name, std::initializer_list<std::size_t> older = {}) {
    check_size(given, name, older);
    auto const* const bytes = reinterpret_cast<unsigned char const*>(given);
    for (std::size_t k = sizeof(S); k < given->size; ++k)
        if (bytes[k] != 0)
            refuse(std::string(name) + ".size", given->size,
                   "this version of the library knows " + std::to_string(sizeof(S)) +
                       " bytes of this struct, and the others are not zero");
    S result{};
    std::memcpy(&result, given, std::min(sizeof(S), given->size));
    return result;
}

/// A caller's array of `size` entries. Throws for a negative size, and for null unless `size` is 0.
template <class T>
[[nodiscard]] span<T> array(T* data, std::int64_t size, char const* name) {
    if (size < 0) refuse(std::string(name) + ".size", size, "an array has 0 entries or more");
    if (size > 0) refuse_null(data, name);
    return {data, static_cast<std::size_t>(size)};
}

}  // namespace MULTIDRAFT_NAMESPACE::c_interface
