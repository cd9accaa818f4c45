// Errors that name methods: a reason, and the nearest names for a name that no method has.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"

namespace MULTIDRAFT_NAMESPACE::detail {

/// The edit distance between a and b.
inline std::size_t edits(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            std::size_t const replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
        }
    }
    return row[b.size()];
}

/// Why a method refuses something: its name, and what it does.
[[nodiscard]] MULTIDRAFT_COLD inline std::string reason_of(std::string_view name, std::string_view what) {
    std::string text(name);
    text += ' ';
    text += what;
    return text;
}

/// Throws `invalid_input` for a name that is not in `names`, listing the nearest ones.
[[noreturn]] MULTIDRAFT_COLD inline void refuse_name(std::string_view name, std::span<std::string_view const> names) {
    constexpr std::size_t longest = 100;
    constexpr std::size_t most = 3;
    std::string const shown(name.substr(0, longest));
    std::vector<std::size_t> distance;
    for (std::string_view const other : names)
        distance.push_back(other.find(shown) == std::string_view::npos ? edits(shown, other) : 0);
    std::string list;
    for (std::size_t k = 0; k < std::min(most, names.size()); ++k) {
        auto const best = std::min_element(distance.begin(), distance.end());
        list += (k == 0 ? "" : ", ") + std::string(names[static_cast<std::size_t>(best - distance.begin())]);
        *best = static_cast<std::size_t>(-1);
    }
    refuse("name", shown, "no method has this name; the nearest are " + list + " (method_names() has all)");
}

}  // namespace MULTIDRAFT_NAMESPACE::detail
