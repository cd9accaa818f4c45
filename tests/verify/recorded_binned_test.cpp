// Texts of old seeds of the ranked verifiers by histograms: the addresses of their draws, which no proof sees change.
#include <gtest/gtest.h>

#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/verify/binned_nested_ranked_block.hpp"
#include "multidraft/verify/binned_ranked.hpp"
#include "multidraft/verify/binned_ranked_block.hpp"
#include "verify/recorded.hpp"

namespace {

using namespace multidraft;
using namespace multidraft::testing;

TEST(recorded_binned, texts_of_old_seeds) {
    EXPECT_EQ((record<draft::iid, verify::binned_ranked<law::iid>>(wide)), 970485036604241297U);
    EXPECT_EQ((record<draft::stratified, verify::binned_ranked<law::stratified>>(wide)), 11084727773554260189U);
    EXPECT_EQ((record<draft::iid, verify::binned_ranked_block<law::iid>>(pairs)), 8608719293849468013U);
    EXPECT_EQ((record<draft::stratified, verify::binned_ranked_block<law::stratified>>(wide)), 17042413148619055759U);
    EXPECT_EQ((record<draft::iid, verify::binned_nested_ranked_block<law::iid>>(pairs)), 8440578031898215203U);
    EXPECT_EQ((record<draft::stratified, verify::binned_nested_ranked_block<law::stratified>>(wide)),
              1967930355202141512U);
    EXPECT_EQ((record<draft::stratified, verify::binned_ranked_block<law::stratified>>(pairs)), 15657472523034366844U);
    EXPECT_EQ((record<draft::stratified, verify::binned_nested_ranked_block<law::stratified>>(pairs)),
              13152438658002856807U);
    EXPECT_EQ((record<draft::stratified, verify::binned_nested_ranked_block<law::stratified>>(uneven)),
              12387812988937042907U);
}

}  // namespace
