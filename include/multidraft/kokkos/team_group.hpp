// The group of a Kokkos team on any backend, and the policy for launching one team per task.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <type_traits>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/kokkos/lane_team_group.hpp"
#include "multidraft/kokkos/thread_team_group.hpp"

namespace MULTIDRAFT_NAMESPACE::kokkos {

/// The group over a TeamPolicy member: CPU threads with vector units, or lanes of a device.
///
/// Construct it at the start of a kernel, with `team_group<Member>::scratch_bytes()` of level-0 team scratch set on the
/// policy (`team_policy` does this). Every operation gives the host group's bits, whatever the size of the team.
template <class Member>
using team_group = std::conditional_t<std::is_same_v<typename Member::execution_space::memory_space, Kokkos::HostSpace>,
                                      thread_team_group<Member>, lane_team_group<Member>>;

static_assert(group<thread_team_group<Kokkos::TeamPolicy<Kokkos::DefaultHostExecutionSpace>::member_type>>);
static_assert(group<lane_team_group<Kokkos::TeamPolicy<Kokkos::DefaultExecutionSpace>::member_type>>);

/// The options of a launch.
struct launch_options {
    /// Members of a team; 0: one on a CPU (the batch keeps the cores busy), 256 on a device.
    int team_size = 0;
};

/// The policy of `teams` teams with scratch for a `Group`, in order with the other work of `space`.
///
/// Throws `invalid_input` for a number of teams that Kokkos cannot count, and for a team size below 0 or, on a CPU,
/// beyond what the space takes.
template <template <class> class Group = team_group, class Space>
[[nodiscard]] Kokkos::TeamPolicy<Space> team_policy(Space const& space, std::size_t teams,
                                                    launch_options const& options) {
    using policy = Kokkos::TeamPolicy<Space>;
    if (teams > 0x7fffffffU) refuse("teams", teams, "Kokkos launches fewer than 2^31 teams");
    if (options.team_size < 0)
        refuse("options.team_size", options.team_size, "a team has one member or more; 0: as it suits");
    constexpr bool cpu = std::is_same_v<typename Space::memory_space, Kokkos::HostSpace>;
    int const members = options.team_size > 0 ? options.team_size : (cpu ? 1 : 256);
    if constexpr (cpu) {
        int const most = members == 1
                             ? 1
                             : policy(space, 1, 1)
                                   .team_size_max([](typename policy::member_type const&) {}, Kokkos::ParallelForTag());
        if (members > most)
            refuse("options.team_size", options.team_size,
                   "this space has teams of " + std::to_string(most) + " at most");
    }
    policy result(space, static_cast<int>(teams), members);
    result.set_scratch_size(
        0, Kokkos::PerTeam(static_cast<int>(Group<typename policy::member_type>::scratch_bytes() + 64)));
    return result;
}

}  // namespace MULTIDRAFT_NAMESPACE::kokkos
