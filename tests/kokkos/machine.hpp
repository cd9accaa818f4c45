// Support for the Kokkos tests: the space they run in, the team sizes it allows, copies to and from it.
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "multidraft/kokkos/team_group.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

using space = Kokkos::DefaultExecutionSpace;
using memory = space::memory_space;

inline constexpr bool on_cpu = std::is_same_v<memory, Kokkos::HostSpace>;

/// Team sizes that this backend can run: on a CPU, at most Kokkos's number of threads.
inline std::vector<int> team_sizes() {
    if (!on_cpu) return {32, 96, 256};
    std::vector<int> sizes;
    int const threads = static_cast<int>(space().concurrency());
    for (int const size : {1, 2, 3, 4, 7})
        if (size <= threads) sizes.push_back(size);
    return sizes;
}

/// The group of this backend, and the one for devices, which is also tested on a CPU.
struct own_group {
    template <class Member>
    using type = kokkos::team_group<Member>;
};
struct device_group {
    template <class Member>
    using type = kokkos::lane_team_group<Member>;
};

template <class T>
Kokkos::View<T*, memory> to_machine(std::vector<T> const& from) {
    Kokkos::View<T*, memory> to("to", from.size());
    auto const mirror = Kokkos::create_mirror_view(to);
    for (std::size_t i = 0; i < from.size(); ++i) mirror(i) = from[i];
    Kokkos::deep_copy(to, mirror);
    return to;
}

template <class View>
std::vector<std::remove_const_t<typename View::value_type>> to_host(View const& from) {
    auto const mirror = Kokkos::create_mirror_view(from);
    Kokkos::deep_copy(mirror, from);
    return {mirror.data(), mirror.data() + mirror.span()};
}

}  // namespace MULTIDRAFT_NAMESPACE::testing
