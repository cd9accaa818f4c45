// Methods on rows that are distributed over ranks: all ranks get the verdicts of the host.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "batch/ragged.hpp"
#include "multidraft/methods/list.hpp"
#include "multidraft/testing/small_step.hpp"
#include "shards/ragged_shards.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

using shape = std::vector<node_id>;

/// The trees of several requests, of a kind that a method accepts.
inline std::vector<shape> shapes_for(allowed_trees trees) {
    switch (trees) {
        case allowed_trees::chains:
            return {{none, 0, 1, 2}, {none}, {none, 0, 1, 2, 3, 4}, {none, 0}, {none, 0, 1}, {none, 0, 1, 2}};
        case allowed_trees::forks:
            return {{none, 0, 0, 0, 1, 2, 3}, {none, 0, 1, 2}, {none},
                    {none, 0, 0, 1, 2},       {none, 0},       {none, 0, 0, 1, 2}};
        case allowed_trees::pairs:
            return {{none, 0, 0, 1, 1, 2}, {none, 0, 1, 2}, {none}, {none, 0, 0, 1, 2}, {none, 0}, {none, 0, 0, 1, 2}};
        default:
            return ragged_shapes;
    }
}

/// Names of typed tests.
struct method_names {
    template <class Method>
    static std::string GetName(int) {
        std::string name(Method::name);
        for (char& c : name) c = c == '/' ? '_' : c;
        return name;
    }
};
template <class... Methods>
::testing::Types<Methods...> types_of(method_list<Methods...>);

/// A method decides on ranks as it does on one host, for any number of ranks and any ranges of columns.
template <class Method>
void expect_method_of_host() {
    ragged<float> b(shapes_for(Method::trees), 9001, samplings_of_all_kinds);
    b.draw_alone(typename Method::sampler{});
    typename Method::verifier const verifier{};
    std::string const name(Method::name);
    for (int const ranks : {1, 2, 3, 5, 8}) expect_verdicts_of_host<sharded::both>(verifier, b, ranks, cut::even, name);
    for (cut const how : all_cuts) expect_verdicts_of_host<sharded::both>(verifier, b, 4, how, name);
}

}  // namespace MULTIDRAFT_NAMESPACE::testing
