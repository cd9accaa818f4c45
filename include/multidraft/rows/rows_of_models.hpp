// The rows of several draft models, for trees in which each child of a node comes from one of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "multidraft/base/config.hpp"
#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// The rows of several draft models (`child_row_source`): child k of a node was drawn from model k modulo their number.
/// `Rows` is a `row_source`.
template <class Rows>
class rows_of_models {
public:
    /// One source for each model, one at least, all with one vocabulary; they belong to the caller.
    explicit rows_of_models(span<Rows const> models) noexcept : models_(models) {}

    /// How many nodes have a row of every model.
    [[nodiscard]] index_t rows() const {
        index_t fewest = models_[0].rows();
        for (Rows const& model : models_) fewest = model.rows() < fewest ? model.rows() : fewest;
        return fewest;
    }
    [[nodiscard]] index_t size() const { return models_[0].size(); }
    /// The row that child k of a node was drawn from.
    template <group G>
    [[nodiscard]] auto operator()(G const& g, node_id node, index_t k) const {
        return models_[static_cast<std::size_t>(k) % models_.size()](g, node);
    }
    /// The row of the first model, for verifiers that read none.
    template <group G>
    [[nodiscard]] auto operator()(G const& g, node_id node) const {
        return (*this)(g, node, 0);
    }

private:
    span<Rows const> models_;
};

}  // namespace MULTIDRAFT_NAMESPACE
