// Storage on cache-line boundaries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

namespace multidraft::examples {

/// Storage on cache-line boundaries that never moves.
template <class T>
class aligned_array {
    static_assert(std::is_trivially_copyable_v<T>);

public:
    aligned_array() = default;
    /// Zeroed. Pages that are never used take no memory.
    explicit aligned_array(std::size_t size) : aligned_array(size, std::calloc(1, size * sizeof(T) + alignment)) {}
    /// With contents that the caller sets.
    [[nodiscard]] static aligned_array unset(std::size_t size) {
        return aligned_array(size, std::malloc(size * sizeof(T) + alignment));
    }
    [[nodiscard]] T* data() const noexcept { return data_.get(); }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

private:
    static constexpr std::size_t alignment = 64;

    struct release {
        void* memory = nullptr;  ///< what the array lies in
        void operator()(T*) const noexcept { std::free(memory); }
    };

    aligned_array(std::size_t size, void* memory) : size_(size) {
        if (memory == nullptr) throw std::bad_alloc();
        auto const address = reinterpret_cast<std::uintptr_t>(memory);
        data_ = {reinterpret_cast<T*>((address + alignment - 1) / alignment * alignment), release{memory}};
    }

    std::unique_ptr<T, release> data_;
    std::size_t size_ = 0;
};

}  // namespace multidraft::examples
