// The default method over short rows of a block drafter.
#include <algorithm>
#include <string_view>

#include "generate/block_trees.hpp"

namespace multidraft::examples {

void add_block_runs_of_short_rows(std::vector<method>& all) {
    multidraft::methods::best::for_each([&](auto listed) {
        using type = decltype(listed);
        add_short_block_run<type>(
            *std::ranges::find(all, type::name, [](method const& m) { return std::string_view(m.name); }));
    });
}

}  // namespace multidraft::examples
