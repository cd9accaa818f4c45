// A whole file, mapped read-only.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace multidraft::examples {

/// A regular file in memory; it must not be changed while it is open. Errors are `std::runtime_error` and name it.
struct mapped_file {
    explicit mapped_file(std::filesystem::path const& path);
    ~mapped_file();
    mapped_file(mapped_file const&) = delete;
    mapped_file& operator=(mapped_file const&) = delete;

    /// Brings a piece into memory. A file that has been cut short is an error here, and not a signal later.
    void bring(std::size_t first, std::size_t bytes) const;

    std::string name;
    std::byte const* data = nullptr;
    std::size_t size = 0;
};

}  // namespace multidraft::examples
