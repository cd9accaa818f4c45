// Which child an error names where a node gives no token: with several draft models each child has its own row.
#include <gtest/gtest.h>

#include <vector>

#include "multidraft/base/error.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/verify/multi_round.hpp"

namespace MULTIDRAFT_NAMESPACE {
namespace refused_child_test {
namespace {

/// The root's children were drawn from a model each.
struct rows_of_models {
    std::vector<std::vector<double>> models;
    [[nodiscard]] index_t size() const { return 3; }
    [[nodiscard]] index_t rows() const { return 1; }
    template <group G>
    [[nodiscard]] probabilities<double> operator()(G const&, node_id, index_t child) const {
        return {models[static_cast<std::size_t>(child)].data(), 3};
    }
};

TEST(refused_child, is_the_one_that_its_own_model_cannot_have_drawn) {
    std::vector<node_id> const parents{none, 0, 0, 0};
    std::vector<token_id> const tokens{0, 0, 1, 2};
    // The target has mass on token 2 only, so the first two are tried and refused. The second is impossible by the
    // first model, but possible by its own; the third is impossible by its own.
    std::vector<double> const p{0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1};
    rows_of_models const draft{{{1, 0, 0}, {0, 1, 0}, {1, 0, 0}}};
    addressed_source source{addressed_uniforms(1)};
    std::vector<node_id> path(1);
    try {
        static_cast<void>(verify::multi_round<law::independent>{}(
            host_group{}, drafted<law::independent>{{parents, tokens}},
            target_rows(probability_rows<double>(p.data(), 4, 3)), draft_rows(draft), source, 0, span<node_id>(path)));
        ADD_FAILURE();
    } catch (invalid_input const& e) {
        EXPECT_EQ(e.argument(), "tokens") << e.what();
        EXPECT_EQ(e.index(), 3) << e.what();
    }
}

}  // namespace
}  // namespace refused_child_test
}  // namespace MULTIDRAFT_NAMESPACE
