#include "transformer/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace multidraft::examples {
namespace {

[[noreturn]] void fail(std::string const& file, std::string const& what) {
    throw std::runtime_error(file + ": " + what);
}

}  // namespace

mapped_file::mapped_file(std::filesystem::path const& path) : name(path.string()) {
    int const descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) fail(name, std::strerror(errno));
    struct stat status {};
    if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
        ::close(descriptor);
        fail(name, "is not a regular file");
    }
    size = static_cast<std::size_t>(status.st_size);
    if (size != 0) {
        void* const at = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
        int const error = errno;
        ::close(descriptor);
        if (at == MAP_FAILED) fail(name, std::strerror(error));
        data = static_cast<std::byte const*>(at);
    } else {
        ::close(descriptor);
    }
}

mapped_file::~mapped_file() {
    if (data != nullptr) ::munmap(const_cast<std::byte*>(data), size);
}

void mapped_file::bring(std::size_t first, [[maybe_unused]] std::size_t bytes) const {
#if defined(MADV_POPULATE_READ)
    if (::madvise(const_cast<std::byte*>(data) + first, bytes, MADV_POPULATE_READ) == 0) return;
    if (errno == EFAULT || errno == EIO) fail(name, "cannot be read to its end");
#endif
    // An older system: pages are loaded on use.
    static_cast<void>(first);
}

}  // namespace multidraft::examples
