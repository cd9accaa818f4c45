// The trees of `generate`: one for all steps, or chosen at each step.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "multidraft/control/controller.hpp"
#include "multidraft/tree/shape_text.hpp"
#include "multidraft/tree/topology.hpp"

namespace multidraft::examples {

/// A polymorphic `tree_controller`, so that each method is compiled once.
class tree_choices {
public:
    tree_choices() = default;
    tree_choices(tree_choices const&) = delete;
    tree_choices& operator=(tree_choices const&) = delete;
    virtual ~tree_choices() = default;

    [[nodiscard]] virtual std::int32_t depth() const = 0;
    virtual void start() = 0;
    [[nodiscard]] virtual topology const& choose(step_situation const& situation) = 0;
    virtual void learn(step_outcome const& outcome) = 0;
    /// Which of several verifiers the tree is for.
    [[nodiscard]] virtual std::int32_t const& verifier() const = 0;
};

/// The same shape at every step.
class fixed_tree final : public tree_choices {
public:
    explicit fixed_tree(topology shape, std::int32_t verifier = 0) : shape_(std::move(shape)), verifier_(verifier) {}

    [[nodiscard]] std::int32_t depth() const override { return shape_.max_depth(); }
    void start() override {}
    [[nodiscard]] topology const& choose(step_situation const&) override { return shape_; }
    void learn(step_outcome const&) override {}
    [[nodiscard]] std::int32_t const& verifier() const override { return verifier_; }

private:
    topology shape_;
    std::int32_t verifier_;
};

/// The library's controller, with counts of its choices.
class automatic_tree final : public tree_choices {
public:
    automatic_tree(step_times times, controller_options const& options) : inner_(std::move(times), options) {}

    [[nodiscard]] std::int32_t depth() const override { return inner_.depth(); }
    void start() override {
        inner_.start();
        chosen_.clear();
    }
    [[nodiscard]] topology const& choose(step_situation const& situation) override {
        topology const& shape = inner_.choose(situation);
        if (shape != last_) {
            last_ = shape;
            name_ = to_string(shape);
        }
        ++chosen_[{inner_.verifier(), name_}];
        return shape;
    }
    void learn(step_outcome const& outcome) override { inner_.learn(outcome); }
    [[nodiscard]] std::int32_t const& verifier() const override { return inner_.verifier(); }

    /// Steps of the last text by verifier and shape.
    [[nodiscard]] std::map<std::pair<std::int32_t, std::string>, std::int64_t> const& chosen() const noexcept {
        return chosen_;
    }

private:
    controller inner_;
    topology last_;
    std::string name_ = "0";
    std::map<std::pair<std::int32_t, std::string>, std::int64_t> chosen_;
};

}  // namespace multidraft::examples
