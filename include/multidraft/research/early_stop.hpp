// The decision models of early stopping: small perceptrons that predict whether a drafted token will be accepted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/base/exp_log.hpp"
#include "multidraft/decode/stop_rule.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/rows/distribution.hpp"

namespace MULTIDRAFT_NAMESPACE {

/// One layer: y = W x + b, W row-major with `outputs` rows of `inputs` numbers.
struct dense_layer {
    std::int32_t inputs = 0;
    std::int32_t outputs = 0;
    std::vector<float> weights;
    std::vector<float> bias;
};

/// Layers with ReLU between them and the logistic function at the end: a probability in (0, 1).
class perceptron {
public:
    /// Throws `invalid_input`, naming the layer, for sizes that do not match, numbers that are not finite, and a last
    /// layer with more than one output.
    explicit perceptron(std::vector<dense_layer> layers) : layers_(std::move(layers)) {
        if (layers_.empty()) refuse("layers.size", 0, "a perceptron has one layer or more");
        for (std::size_t l = 0; l < layers_.size(); ++l) {
            dense_layer const& layer = layers_[l];
            auto const index = static_cast<std::int64_t>(l);
            if (layer.inputs < 1 || (l > 0 && layer.inputs != layers_[l - 1].outputs))
                refuse("layers.inputs", index, layer.inputs, "a layer takes what the one before it gives");
            if (layer.outputs < 1 || (l + 1 == layers_.size() && layer.outputs != 1))
                refuse("layers.outputs", index, layer.outputs, "a layer has an output, the last one exactly one");
            auto const in = static_cast<std::size_t>(layer.inputs);
            auto const out = static_cast<std::size_t>(layer.outputs);
            if (layer.weights.size() != in * out)
                refuse("layers.weights.size", index, layer.weights.size(), "there is one weight an input and output");
            if (layer.bias.size() != out)
                refuse("layers.bias.size", index, layer.bias.size(), "there is one bias an output");
            for (auto const* numbers : {&layer.weights, &layer.bias})
                for (float const x : *numbers)
                    if (!std::isfinite(x)) refuse("layers", index, x, "weights are finite");
        }
    }

    /// The number of inputs of the first layer.
    [[nodiscard]] std::int32_t inputs() const noexcept { return layers_.front().inputs; }
    /// How many layers there are.
    [[nodiscard]] std::size_t layers() const noexcept { return layers_.size(); }

    /// The probability for an input of `inputs()` numbers. O(weights); allocates its two working vectors. Throws
    /// `invalid_input` for another number.
    [[nodiscard]] float operator()(std::span<float const> input) const {
        if (input.size() != static_cast<std::size_t>(inputs()))
            refuse("input.size", input.size(), "the net has " + std::to_string(inputs()) + " inputs");
        std::vector<float> x(input.begin(), input.end());
        std::vector<float> y;
        for (std::size_t l = 0; l < layers_.size(); ++l) {
            dense_layer const& layer = layers_[l];
            y.assign(layer.bias.begin(), layer.bias.end());
            for (std::size_t o = 0; o < y.size(); ++o) {
                float sum = 0;
                float const* const row = layer.weights.data() + static_cast<std::ptrdiff_t>(o * x.size());
                for (std::size_t i = 0; i < x.size(); ++i) sum += row[i] * x[i];
                y[o] += sum;
                if (l + 1 < layers_.size()) y[o] = std::max(y[o], 0.0F);
            }
            x.swap(y);
        }
        return 1.0F / (1.0F + std::exp(-x.front()));
    }

private:
    std::vector<dense_layer> layers_;
};

/// The entropy of a distribution, in nats. One pass.
template <group G, distribution Q>
[[nodiscard]] double entropy(G const& g, Q const& q) {
    using real = probability_of<Q>;
    return static_cast<double>(g.sum(q.size(), [q](index_t i) MULTIDRAFT_INLINE_LAMBDA {
        real const p = q(i);
        real const term = -p * fp::log(p > 0 ? p : real(1));
        return p > 0 ? term : real(0);
    }));
}

namespace detail {

inline double checked_threshold(double threshold) {
    if (!(threshold >= 0 && threshold <= 1)) refuse("threshold", threshold, "a chance lies in [0, 1]");
    return threshold;
}

}  // namespace detail

/// Decision model T2 ([ImprovingMCSD] 3.3): a two-layer perceptron on the draft's largest probabilities and its
/// entropy, trained on whether the target accepted. The net's inputs are the k largest probabilities, largest first,
/// and the entropy in nats; k = inputs - 1.
class probability_stop {
public:
    static constexpr bool reads_hidden_state = false;

    /// Throws `invalid_input` for a threshold outside [0, 1] and a net of one input.
    explicit probability_stop(perceptron net, double threshold = 0.4)
        : net_(std::make_shared<perceptron const>(std::move(net))), threshold_(detail::checked_threshold(threshold)) {
        if (net_->inputs() < 2) refuse("net.inputs", net_->inputs(), "a probability and the entropy are two inputs");
    }

    /// The net's input for a row, in training too. `features` has one number for each input, one or more. Throws
    /// `invalid_input` for none.
    template <group G, distribution Q>
    static void read(G const& g, Q const& q, std::span<float> features) {
        if (features.empty()) refuse("features.size", 0, "the entropy is an input");
        std::vector<token_id> best(features.size() - 1, none);
        auto const k = std::min(best.size(), static_cast<std::size_t>(q.size()));
        g.top_k(q.size(), weight_of{q}, span<token_id>(best).first(k));
        for (std::size_t i = 0; i + 1 < features.size(); ++i)
            features[i] = best[i] == none ? 0.0F : static_cast<float>(q(best[i]));
        features.back() = static_cast<float>(entropy(g, q));
    }

    /// The predicted probability that a draw from q is accepted.
    template <group G, distribution Q>
    [[nodiscard]] double operator()(G const& g, Q const& q, std::span<float const>) const {
        std::vector<float> features(static_cast<std::size_t>(net_->inputs()));
        read(g, q, std::span<float>(features));
        return static_cast<double>((*net_)(features));
    }
    /// A level is not drawn if the prediction is below this at each of its nodes.
    [[nodiscard]] double threshold() const noexcept { return threshold_; }

private:
    std::shared_ptr<perceptron const> net_;
    double threshold_;
};

/// Decision model T1 ([ImprovingMCSD] 3.3): a three-layer perceptron on the draft's hidden state, trained on min(1,
/// p/q) of the drawn token (the paper prints max). The model must provide its hidden states (`reveals_hidden_state`).
class hidden_state_stop {
public:
    static constexpr bool reads_hidden_state = true;

    /// Throws `invalid_input` for a threshold outside [0, 1].
    explicit hidden_state_stop(perceptron net, double threshold = 0.4)
        : net_(std::make_shared<perceptron const>(std::move(net))), threshold_(detail::checked_threshold(threshold)) {}

    /// Throws `invalid_input` for a hidden state that is not as wide as the net's input.
    template <group G, distribution Q>
    [[nodiscard]] double operator()(G const&, Q const&, std::span<float const> hidden) const {
        if (static_cast<std::int32_t>(hidden.size()) != net_->inputs())
            refuse("hidden.size", hidden.size(), "the net was made for " + std::to_string(net_->inputs()));
        return static_cast<double>((*net_)(hidden));
    }
    /// A level is not drawn if the prediction is below this at each of its nodes.
    [[nodiscard]] double threshold() const noexcept { return threshold_; }

private:
    std::shared_ptr<perceptron const> net_;
    double threshold_;
};

}  // namespace MULTIDRAFT_NAMESPACE
