// Storage on cache-line boundaries, weights on huge pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace multidraft::examples {

/// Storage on cache-line boundaries that never moves.
template <class T>
class aligned_array {
    static_assert(std::is_trivially_copyable_v<T>);

public:
    aligned_array() = default;
    /// Zeroed. Pages that are never used take no memory.
    explicit aligned_array(std::size_t size)
        : aligned_array(size, std::calloc(1, size * sizeof(T) + cache_line), cache_line) {}
    /// With contents that the caller sets. A large one is on huge pages if the system has them: a product that reads it
    /// from memory waits less for addresses.
    [[nodiscard]] static aligned_array unset(std::size_t size) {
        std::size_t const bytes = size * sizeof(T);
        std::size_t const alignment = bytes >= huge_page ? huge_page : cache_line;
        aligned_array made(size, std::malloc(bytes + alignment), alignment);
#if defined(__linux__)
        if (alignment == huge_page) static_cast<void>(::madvise(made.data(), bytes, MADV_HUGEPAGE));
#endif
        return made;
    }
    [[nodiscard]] T* data() const noexcept { return data_.get(); }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

private:
    static constexpr std::size_t cache_line = 64;
    static constexpr std::size_t huge_page = std::size_t{1} << 21;

    struct release {
        void* memory = nullptr;  ///< what the array lies in
        void operator()(T*) const noexcept { std::free(memory); }
    };

    aligned_array(std::size_t size, void* memory, std::size_t alignment) : size_(size) {
        if (memory == nullptr) throw std::bad_alloc();
        auto const address = reinterpret_cast<std::uintptr_t>(memory);
        data_ = {reinterpret_cast<T*>((address + alignment - 1) / alignment * alignment), release{memory}};
    }

    std::unique_ptr<T, release> data_;
    std::size_t size_ = 0;
};

}  // namespace multidraft::examples
