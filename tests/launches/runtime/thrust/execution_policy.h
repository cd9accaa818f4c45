// Thrust's sequential policy.
#pragma once

namespace thrust {

struct sequential_policy {};
inline constexpr sequential_policy seq{};

}  // namespace thrust
