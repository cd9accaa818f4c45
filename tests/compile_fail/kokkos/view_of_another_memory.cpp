// expect: the execution space cannot access the memory of this view
// Views of memory that the space does not see, as a host's are for a device.
#include "multidraft/kokkos/from_views.hpp"
#include "multidraft/kokkos/on.hpp"

using namespace multidraft;

/// Memory of some device.
struct far_memory {
    using memory_space = far_memory;
    using execution_space = Kokkos::DefaultHostExecutionSpace;
    using device_type = Kokkos::Device<execution_space, memory_space>;
    using size_type = std::size_t;
};
struct far_view {
    using memory_space = far_memory;
    using value_type = std::byte;
    static constexpr unsigned rank = 1;
    std::byte* data() const;
    std::size_t extent(unsigned) const;
    std::size_t stride(unsigned) const;
    bool span_is_contiguous() const;
};
template <>
struct Kokkos::SpaceAccessibility<Kokkos::DefaultHostExecutionSpace, far_memory> {
    enum : bool { accessible = false };
};

workspace lend(far_view const& bytes) {
    return kokkos::workspace_from_view(kokkos::on(Kokkos::DefaultHostExecutionSpace()), bytes);
}
