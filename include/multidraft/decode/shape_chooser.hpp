// Who chooses the trees of many requests in flight, and the chooser that gives all of them one shape.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/decode/step_outcome.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// A request of the next step.
struct batch_situation {
    std::int32_t request = 0;  ///< by its number
    std::int32_t depth = 0;    ///< the deepest tree that may be grown
    std::int32_t unread = 1;   ///< tokens of the text that the draft model has not read, the root included
};

/// Chooses the shapes of the trees of requests that come and go, step by step.
///
/// - `start()`: a new request; returns its number. `end(number)`: the request has ended.
/// - `depth()`: the deepest shape that it chooses, wherever a text is.
/// - `choose(step)`: a shape for each entry, no deeper than `depth`; valid until the next call.
/// - `learn(number, outcome)`: the outcome of the request's tree, which later choices may depend on.
template <class C>
concept shape_chooser = requires(C& chooser, std::int32_t number, std::span<batch_situation const> step,
                                 step_outcome const& outcome) {
    { chooser.start() } -> std::convertible_to<std::int32_t>;
    chooser.end(number);
    { std::as_const(chooser).depth() } -> std::convertible_to<std::int32_t>;
    { chooser.choose(step) } -> std::convertible_to<std::span<topology const>>;
    chooser.learn(number, outcome);
};

/// A chooser that is told how long the calls of each step took, by their rows: `learn_target_call(rows, seconds)`, of
/// calls that read no prompts, and `learn_draft_call(rows, seconds)`.
template <class C>
concept learns_from_calls = requires(C& chooser, std::int32_t rows, double seconds) {
    chooser.learn_target_call(rows, seconds);
    chooser.learn_draft_call(rows, seconds);
};

namespace detail {

/// Throws `invalid_input` for shapes that a chooser must not give for these requests.
inline void check_shapes(std::span<topology const> shapes, std::span<batch_situation const> step) {
    if (shapes.size() != step.size())
        refuse("shapes.size", shapes.size(),
               "the chooser gives one for each of " + std::to_string(step.size()) + " requests");
    for (std::size_t k = 0; k < shapes.size(); ++k)
        if (shapes[k].max_depth() > step[k].depth)
            refuse("shapes", static_cast<std::int64_t>(k), shapes[k].max_depth(),
                   "the request has room for " + std::to_string(step[k].depth) + " levels");
}

}  // namespace detail

/// The first levels of one shape for every request.
class fixed_shapes {
public:
    /// The root alone: no drafts.
    fixed_shapes() = default;
    /// `shape` for every request.
    explicit fixed_shapes(topology shape) : shape_(std::move(shape)) {}

    /// 0: requests need no numbers.
    [[nodiscard]] std::int32_t start() const noexcept { return 0; }
    /// Nothing.
    void end(std::int32_t) const noexcept {}
    /// That of the shape.
    [[nodiscard]] std::int32_t depth() const noexcept { return shape_.max_depth(); }
    /// The shape, cut to the depth. O(requests nodes), without allocation where no request is cut otherwise than
    /// before.
    [[nodiscard]] std::span<topology const> choose(std::span<batch_situation const> step) {
        if (chosen_.size() < step.size()) chosen_.resize(step.size());
        for (std::size_t k = 0; k < step.size(); ++k) {
            topology& one = chosen_[k];
            std::int32_t const depth = std::clamp(step[k].depth, 0, shape_.max_depth());
            node_range const last = shape_.level(depth);
            if (one.size() != last.end() || !std::ranges::equal(one.parents(), first_nodes(last.end())))
                one = topology::from_parents(first_nodes(last.end()));
        }
        return std::span(chosen_).first(step.size());
    }
    /// Nothing.
    void learn(std::int32_t, step_outcome const&) const noexcept {}

private:
    [[nodiscard]] std::span<node_id const> first_nodes(node_id count) const noexcept {
        return shape_.parents().first(static_cast<std::size_t>(count));
    }

    topology shape_;
    std::vector<topology> chosen_;
};

static_assert(shape_chooser<fixed_shapes>);

}  // namespace MULTIDRAFT_NAMESPACE
