// Texts of old seeds of the exact ranked verifiers: the addresses of their draws, which no proof sees change.
#include <gtest/gtest.h>

#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/ranked.hpp"
#include "multidraft/verify/ranked_block.hpp"
#include "verify/recorded.hpp"

namespace {

using namespace multidraft;
using namespace multidraft::testing;

TEST(recorded_ranked, texts_of_old_seeds) {
    EXPECT_EQ((record<draft::iid, verify::ranked<law::iid>>(wide)), 5863655928647975515U);
    EXPECT_EQ((record<draft::stratified, verify::ranked<law::stratified>>(wide)), 11084727773554260189U);
    EXPECT_EQ((record<draft::iid, verify::ranked_block<law::iid>>(pairs)), 13952427487803377658U);
    EXPECT_EQ((record<draft::stratified, verify::ranked_block<law::stratified>>(wide)), 17042413148619055759U);
    EXPECT_EQ((record<draft::iid, verify::nested_ranked_block<law::iid>>(pairs)), 17795029739248216823U);
    EXPECT_EQ((record<draft::stratified, verify::nested_ranked_block<law::stratified>>(wide)), 1967930355202141512U);
}

}  // namespace
