// SPDX-License-Identifier: Apache-2.0
#include "errors.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include "multidraft.h"
#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/version.hpp"

namespace MULTIDRAFT_NAMESPACE::c_interface {
namespace {

/// A text of limited length, so that storing an error cannot fail.
template <std::size_t Size>
class kept_text {
public:
    void operator=(std::string_view text) noexcept {
        std::size_t const size = std::min(text.size(), Size - 1);
        std::memcpy(text_.data(), text.data(), size);
        text_[size] = '\0';
    }
    [[nodiscard]] char const* c_str() const noexcept { return text_.data(); }

private:
    std::array<char, Size> text_{};
};

struct last_error {
    md_status status = MD_OK;
    std::int32_t node = none;
    std::int64_t index = none;
    kept_text<2048> message;
    kept_text<128> argument;
    kept_text<256> value;
    kept_text<1536> reason;
};

thread_local last_error error_of_thread;

md_status keep(md_status status, std::string_view message) noexcept {
    last_error& e = error_of_thread;
    e.status = status;
    e.node = none;
    e.index = none;
    e.message = message;
    e.argument = "";
    e.value = "";
    e.reason = message;
    return status;
}

}  // namespace

md_status keep_current_exception() noexcept {
    try {
        throw;
    } catch (invalid_input const& input) {
        keep(MD_INVALID_INPUT, input.what());
        last_error& e = error_of_thread;
        e.node = input.node();
        e.index = input.index();
        e.argument = input.argument();
        e.value = input.value();
        e.reason = input.reason();
        return MD_INVALID_INPUT;
    } catch (std::bad_alloc const&) {
        return keep(MD_OUT_OF_MEMORY, "out of memory");
    } catch (std::length_error const&) {
        return keep(MD_OUT_OF_MEMORY, "out of memory");
    } catch (std::system_error const& e) {
        return keep(MD_SYSTEM, e.what());
    } catch (system_failure const& e) {
        return keep(MD_SYSTEM, e.what());
    } catch (unavailable const& e) {
        return keep(MD_UNAVAILABLE, e.what());
    } catch (std::exception const& e) {
        return keep(MD_INTERNAL, e.what());
    } catch (...) {
        return keep(MD_INTERNAL, "an exception of no known type");
    }
}

void refuse_as(invalid_input const& e, std::span<argument_name const> names) {
    std::string_view const argument = e.argument();
    for (argument_name const& name : names) {
        std::string_view const member = argument.substr(std::min(name.of_call.size(), argument.size()));
        if (argument.substr(0, name.of_call.size()) == name.of_call && (member.empty() || member.front() == '.'))
            throw invalid_input(std::string(name.here) + std::string(member), e.index(), e.value(), e.reason(),
                                e.node());
    }
    throw e;
}

}  // namespace MULTIDRAFT_NAMESPACE::c_interface

using namespace multidraft;
using namespace multidraft::c_interface;

md_status md_last_error(md_error* error) {
    if (error == nullptr || error->size < sizeof(md_error)) return MD_INVALID_INPUT;
    last_error const& e = error_of_thread;
    error->status = e.status;
    error->node = e.node;
    error->index = e.index;
    error->message = e.message.c_str();
    error->argument = e.argument.c_str();
    error->value = e.value.c_str();
    error->reason = e.reason.c_str();
    return e.status;
}

char const* md_last_message(void) { return error_of_thread.message.c_str(); }

std::int32_t md_version(void) {
    return MULTIDRAFT_VERSION_MAJOR * 10000 + MULTIDRAFT_VERSION_MINOR * 100 + MULTIDRAFT_VERSION_PATCH;
}
