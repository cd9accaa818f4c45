// The reference forms of the ranked methods, which sort: listed for the tests alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/methods/list.hpp"
#include "reference/nested_ranked_block.hpp"
#include "reference/ranked.hpp"
#include "reference/ranked_block.hpp"

namespace MULTIDRAFT_NAMESPACE::testing::reference {

struct ranked_iid : listed_method<draft::iid, ranked<law::iid>> {
    static constexpr std::string_view name = "reference ranked/iid";
};

struct ranked_stratified : listed_method<draft::stratified, ranked<law::stratified>> {
    static constexpr std::string_view name = "reference ranked/stratified";
};

struct ranked_block_iid : listed_method<draft::iid, ranked_block<law::iid>> {
    static constexpr std::string_view name = "reference ranked_block/iid";
};

struct ranked_block_stratified : listed_method<draft::stratified, ranked_block<law::stratified>> {
    static constexpr std::string_view name = "reference ranked_block/stratified";
};

struct nested_ranked_block_iid : listed_method<draft::iid, nested_ranked_block<law::iid>> {
    static constexpr std::string_view name = "reference nested_ranked_block/iid";
    static constexpr proof_by proof = proof_by::integration;
};

struct nested_ranked_block_stratified : listed_method<draft::stratified, nested_ranked_block<law::stratified>> {
    static constexpr std::string_view name = "reference nested_ranked_block/stratified";
    static constexpr proof_by proof = proof_by::integration;
};

/// The exact forms of `verify::ranked`, `ranked_block` and `nested_ranked_block`: by sorting in double, on hosts only.
using methods = method_list<ranked_iid, ranked_stratified, ranked_block_iid, ranked_block_stratified,
                            nested_ranked_block_iid, nested_ranked_block_stratified>;

}  // namespace MULTIDRAFT_NAMESPACE::testing::reference
