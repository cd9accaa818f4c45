// Recorded texts of every listed method: they fix the address of every draw, whose changes no proof detects.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "multidraft/methods/list.hpp"
#include "reference/methods.hpp"
#include "verify/recorded.hpp"

namespace recorded_methods_test {
namespace {

using namespace multidraft;
using namespace multidraft::testing;

std::map<std::string_view, std::uint64_t> const recorded{
    {"nested_ranked_block/stratified", 1967930355202141512U},
    {"recursive_rejection/sequential", 1756023229970187106U},
    {"recursive_rejection/gumbel_top_k", 17931881920613132625U},
    {"recursive_rejection/iid", 16938083135753419645U},
    {"speculative_sampling/iid", 3170573039038195237U},
    {"naive/deterministic", 2489759768854246788U},
    {"naive/sequential", 115062787663784067U},
    {"naive/iid", 10705830151478612006U},
    {"naive/conditional_poisson", 956460962798853418U},
    {"k_seq/iid", 18063587402538272727U},
    {"greedy_optimal/top_then_one", 11084727773554260189U},
    {"spec_hub/top_paired", 7990927174131999265U},
    {"nested_ranked_block/iid", 10382942797874073641U},
    {"ranked_block/stratified", 17042413148619055759U},
    {"ranked_block/iid", 970485036604241297U},
    {"ranked/stratified", 11084727773554260189U},
    {"ranked/iid", 970485036604241297U},
    {"traversal/sequential", 6408108558834158076U},
    {"traversal/iid", 14321488034844747999U},
    {"block/iid", 14121959204833447684U},
    {"multi_path_block/iid", 7023597712053032800U},
    {"shared_randomness", 3575668853357218620U},
    {"k_seq/sequences", 13274485975133080258U},
    {"recursive_rejection/sequences", 16938083135753419645U},
    {"naive/independent", 10705830151478612006U},
    {"multi_round/independent", 16938083135753419645U},
    {"reference ranked/iid", 5863655928647975515U},
    {"reference ranked/stratified", 11084727773554260189U},
    {"reference ranked_block/iid", 5863655928647975515U},
    {"reference ranked_block/stratified", 17042413148619055759U},
    {"reference nested_ranked_block/iid", 10382942797874073641U},
    {"reference nested_ranked_block/stratified", 1967930355202141512U},
};

std::vector<node_id> const& tree_of(allowed_trees trees) {
    switch (trees) {
        case allowed_trees::pairs:
            return pairs;
        case allowed_trees::forks:
            return forked;
        case allowed_trees::chains:
            return chained;
        default:
            return wide;
    }
}

TEST(recorded_methods, texts_of_old_seeds) {
    auto const check = [](auto listed) {
        using method = decltype(listed);
        auto const found = record<typename method::sampler, typename method::verifier>(tree_of(method::trees));
        auto const expected = recorded.find(method::name);
        if (expected == recorded.end())
            ADD_FAILURE() << "{\"" << method::name << "\", " << found << "U} is not recorded";
        else
            EXPECT_EQ(found, expected->second) << method::name;
    };
    methods::of_shapes::for_each(check);
    methods::of_drafters::for_each(check);
    multidraft::testing::reference::methods::for_each(check);
}

// Trees of other shapes, where subtrees decide.
TEST(recorded_methods, paths_of_other_trees) {
    using stratified = methods::nested_ranked_block_stratified;
    EXPECT_EQ((record<draft::iid, verify::traversal<law::iid>>(pairs)), 11064957615125190177U);
    EXPECT_EQ((record<draft::sequential, verify::traversal<law::sequential>>(pairs)), 18342949827406686649U);
    EXPECT_EQ((record<draft::iid, verify::ranked_block<law::iid>>(pairs)), 8608719293849468013U);
    EXPECT_EQ((record<draft::stratified, verify::ranked_block<law::stratified>>(pairs)), 15657472523034366844U);
    EXPECT_EQ((record<draft::iid, verify::nested_ranked_block<law::iid>>(pairs)), 8440578031898215203U);
    EXPECT_EQ((record<stratified::sampler, stratified::verifier>(pairs)), 13152438658002856807U);
    EXPECT_EQ((record<stratified::sampler, stratified::verifier>(uneven)), 12387812988937042907U);
    EXPECT_EQ((record<draft::iid, multidraft::testing::reference::ranked_block<law::iid>>(pairs)),
              13952427487803377658U);
    EXPECT_EQ((record<draft::iid, multidraft::testing::reference::nested_ranked_block<law::iid>>(pairs)),
              17795029739248216823U);
}

}  // namespace
}  // namespace recorded_methods_test
