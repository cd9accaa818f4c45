// Gives the fuzzer's bytes to a reader that opens files, and the property of such readers.
#pragma once

#include <stdlib.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <stdexcept>

#include "fuzz/bytes.hpp"

namespace multidraft::fuzz {

/// A file of that name, alone in a directory of this process, with these bytes.
inline std::filesystem::path file_of(char const* name, std::uint8_t const* data, std::size_t size) {
    static std::filesystem::path const directory = [] {
        // In memory where there is such a place.
        char place[] = "/dev/shm/multidraft_fuzz_XXXXXX";
        char elsewhere[] = "/tmp/multidraft_fuzz_XXXXXX";
        char const* const made = mkdtemp(place) != nullptr ? place : mkdtemp(elsewhere);
        require(made != nullptr, "a directory could be made");
        static struct remover {
            std::filesystem::path path;
            ~remover() {
                std::error_code ignored;
                std::filesystem::remove_all(path, ignored);
            }
        } const at_exit{made};
        return at_exit.path;
    }();
    std::filesystem::path path = directory / name;
    std::FILE* const file = std::fopen(path.c_str(), "wb");
    require(file != nullptr && (size == 0 || std::fwrite(data, size, 1, file) == 1), "the file could be written");
    std::fclose(file);
    return path;
}

/// Calls a reader of untrusted bytes: it returns, or refuses them with a `std::runtime_error` or `invalid_input`.
template <class Read>
int reads_or_refuses(Read&& read) {
    try {
        read();
    } catch (std::runtime_error const& error) {
        require(error.what()[0] != '\0', "an error says what is wrong");
    } catch (std::invalid_argument const& error) {
        require(error.what()[0] != '\0', "an error says what is wrong");
    }
    return 0;
}

}  // namespace multidraft::fuzz
