// Energy of decoding from counted operations and bytes, where no counter can be read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"

namespace MULTIDRAFT_NAMESPACE::research {

/// A machine's rates and the two powers of [MTAD] (9), given by the caller from measurements or a data sheet.
struct machine_powers {
    double operations_per_second = 0;
    double bytes_per_second = 0;
    double watts_of_operations = 0;  ///< while it computes
    double watts_of_memory = 0;      ///< while it reads memory
};

/// Operations computed and bytes read.
struct counted_work {
    double operations = 0;
    double bytes = 0;

    /// Adds other work.
    counted_work& operator+=(counted_work const& other) noexcept {
        operations += other.operations;
        bytes += other.bytes;
        return *this;
    }
};

namespace detail {

inline void check_positive(double value, char const* argument) {
    if (!(value > 0) || !std::isfinite(value)) refuse(argument, value, "it is finite and positive");
}
inline void check_not_negative(double value, char const* argument) {
    if (!(value >= 0) || !std::isfinite(value)) refuse(argument, value, "it is finite and not negative");
}

}  // namespace detail

/// The work of some forward calls of a dense model: two operations for each parameter and row, and all parameters read
/// once per call. Key-value caches are ignored.
///
/// Throws `invalid_input` for numbers that are negative or not finite.
[[nodiscard]] inline counted_work work_of_calls(double parameters, double bytes_per_parameter, double calls,
                                                double rows) {
    detail::check_not_negative(parameters, "parameters");
    detail::check_not_negative(bytes_per_parameter, "bytes_per_parameter");
    detail::check_not_negative(calls, "calls");
    detail::check_not_negative(rows, "rows");
    return {2 * parameters * rows, parameters * bytes_per_parameter * calls};
}

/// The energy in joules by the decomposition of [MTAD] (9): E = PW_flop T_flop + PW_mem T_mem, with T the time that
/// each takes alone. A model, not a measurement: prefer a hardware counter where there is one.
///
/// Throws `invalid_input` for rates that are not positive and numbers that are negative or not finite.
[[nodiscard]] inline double modelled_joules(counted_work const& work, machine_powers const& machine) {
    detail::check_positive(machine.operations_per_second, "operations_per_second");
    detail::check_positive(machine.bytes_per_second, "bytes_per_second");
    detail::check_not_negative(machine.watts_of_operations, "watts_of_operations");
    detail::check_not_negative(machine.watts_of_memory, "watts_of_memory");
    detail::check_not_negative(work.operations, "operations");
    detail::check_not_negative(work.bytes, "bytes");
    return machine.watts_of_operations * work.operations / machine.operations_per_second +
           machine.watts_of_memory * work.bytes / machine.bytes_per_second;
}

}  // namespace MULTIDRAFT_NAMESPACE::research
