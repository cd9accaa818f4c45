// Errors of rows name the model, the node and the entry; sampling parameters are checked where they are used.
#include "multidraft/verify/detail/checks.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "multidraft/draft/sequential.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/lossy/joint_likelihood.hpp"
#include "multidraft/lossy/target_initialised.hpp"
#include "multidraft/lossy/typical_acceptance.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/logit_rows.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/verify/block.hpp"
#include "multidraft/verify/k_seq.hpp"
#include "multidraft/verify/multi_path_block.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/shared_randomness.hpp"
#include "multidraft/verify/traversal.hpp"
#include "multidraft/verify/verifier.hpp"
#include "reference/nested_ranked_block.hpp"

namespace named_rows_test {
namespace {

using namespace multidraft;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// A chain of three over four tokens, rows of equal logits: whatever is drafted is accepted.
struct problem {
    std::vector<node_id> parents{none, 0, 1, 2};
    std::vector<token_id> tokens{0, 1, 2, 3};
    std::vector<index_t> certain{0, 0, 0, 0};
    std::vector<float> p = std::vector<float>(16, 0.0F);
    std::vector<float> q = std::vector<float>(16, 0.0F);
    sampling_params of_target{};
    sampling_params of_draft{};

    template <class Verifier>
    void run(Verifier const& verifier, bool directly) const {
        logit_rows<float> const target(rows_view<float>(p.data(), 4, 4), of_target);
        logit_rows<float> const draft(rows_view<float>(q.data(), 4, 4), of_draft);
        addressed_source source{addressed_uniforms(1)};
        std::vector<node_id> path(3);
        verify::scratch_memory memory;
        auto const tree = make_drafted<typename Verifier::law>({parents, tokens}, certain);
        host_group const g;
        auto const scratch = memory.of<Verifier>(4, 3);
        if (!directly)
            static_cast<void>(verify::verify_tree(verifier, g, tree, target_rows(target), draft_rows(draft), source, 0,
                                                  span<node_id>(path), scratch));
        else if constexpr (verify::needs_scratch<Verifier>)
            static_cast<void>(verifier(g, tree, target_rows(target), draft_rows(draft), source, 0, path, scratch));
        else
            static_cast<void>(verifier(g, tree, target_rows(target), draft_rows(draft), source, 0, path));
    }
};

template <class Verifier>
void expect(problem const& b, Verifier const& verifier, std::string const& name, std::string const& said,
            node_id node) {
    for (bool const directly : {false, true}) {
        try {
            b.run(verifier, directly);
            ADD_FAILURE() << name << ": no error";
        } catch (invalid_input const& e) {
            EXPECT_EQ(std::string(e.what()).substr(0, said.size()), said) << name;
            EXPECT_EQ(e.node(), node) << name;
        }
    }
}

template <class F>
void for_verifiers_of_drafts(F f) {
    f(verify::recursive_rejection<law::iid>{}, "recursive_rejection");
    f(verify::k_seq<law::iid>{}, "k_seq");
    f(verify::block<law::iid>{}, "block");
    f(verify::traversal<law::sequential>{}, "traversal");
    f(verify::multi_path_block{}, "multi_path_block");
    f(verify::ranked_block<law::iid>{}, "ranked_block");
    f(verify::nested_ranked_block<law::stratified>{}, "nested_ranked_block");
    f(multidraft::testing::reference::nested_ranked_block<law::iid>{}, "nested_ranked_block");
    f(lossy::joint_likelihood<law::iid>{}, "joint_likelihood");
}
template <class F>
void for_verifiers(F f) {
    for_verifiers_of_drafts(f);
    f(verify::naive<law::iid>{}, "naive");
    f(verify::shared_randomness{}, "shared_randomness");
    f(lossy::typical_acceptance<law::iid>{}, "typical_acceptance");
}

TEST(named_rows, say_which_row_and_entry_is_wrong) {
    problem b;
    b.p[2] = nan;
    for_verifiers([&](auto verifier, char const* name) {
        expect(b, verifier, name, "target row of node 0[2] = nan: a logit is a number", 0);
    });
    problem c;
    c.q[3] = std::numeric_limits<float>::infinity();
    for_verifiers_of_drafts([&](auto verifier, char const* name) {
        expect(c, verifier, name, "draft row of node 0[3] = inf: a logit is a number", 0);
    });
    problem d;
    for (std::size_t i = 8; i < 12; ++i) d.p[i] = -std::numeric_limits<float>::infinity();
    expect(d, verify::recursive_rejection<law::iid>{}, "recursive_rejection",
           "target row of node 2.size = 4: a row has at least one token", 2);
    expect(d, lossy::target_initialised<verify::recursive_rejection<law::iid>>{}, "target_initialised",
           "target row of node 2.size = 4: a row has at least one token", 2);
}

TEST(named_rows, sampling_parameters_are_looked_at_where_they_are_used) {
    for_verifiers([&](auto verifier, char const* name) {
        problem b;
        b.of_target.temperature = -1;
        expect(b, verifier, name, "temperature of the target row of node 0 = -1: a temperature is", 0);
        b.of_target = {.top_p = 0};
        expect(b, verifier, name, "top_p of the target row of node 0 = 0: top-p lies", 0);
        b.of_target = {.top_k = -2};
        expect(b, verifier, name, "top_k of the target row of node 0 = -2: ", 0);
        b.of_target = {.min_p = nan};
        expect(b, verifier, name, "min_p of the target row of node 0 = nan: ", 0);
    });
    for_verifiers_of_drafts([&](auto verifier, char const* name) {
        problem b;
        b.of_draft.temperature = nan;
        expect(b, verifier, name, "temperature of the draft row of node 0 = nan: ", 0);
    });
    // Where a draft is drawn, too.
    std::vector<float> const row(4, 0.0F);
    for (sampling_params const& w : {sampling_params{.temperature = -1}, sampling_params{.top_p = 2},
                                     sampling_params{.top_k = -1}, sampling_params{.min_p = -1}})
        EXPECT_THROW(static_cast<void>(process_logits(host_group{}, row_view<float>(row.data(), 4), w)), invalid_input);
}

struct silent_group : host_group {
    static constexpr bool throws = false;
};

// In a launch nothing is thrown: the result is `none`.
TEST(named_rows, launches_answer_none) {
    std::vector<float> const row(4, 0.0F);
    for (sampling_params const& w : {sampling_params{.temperature = -1}, sampling_params{.top_p = 2},
                                     sampling_params{.top_k = -1}, sampling_params{.min_p = -1}}) {
        logit_rows<float> const rows(rows_view<float>(row.data(), 1, 4), w);
        addressed_source source{addressed_uniforms(1)};
        std::vector<node_id> const parents{none};
        std::vector<token_id> const tokens{0};
        std::vector<node_id> path;
        auto const v =
            verify::naive<law::iid>{}(silent_group{}, drafted<law::iid>{{parents, tokens}}, target_rows(rows),
                                      draft_rows(verify::no_draft_rows{}), source, 0, span<node_id>(path));
        EXPECT_EQ(v.next, none);
        EXPECT_EQ(v.accepted, 0);
    }
}

}  // namespace
}  // namespace named_rows_test
