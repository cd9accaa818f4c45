#include "transformer/batched_eagle_head.hpp"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "multidraft/base/error.hpp"
#include "transformer/attended.hpp"
#include "transformer/batched_calls.hpp"
#include "transformer/eagle_layer.hpp"

namespace multidraft::examples {
namespace {

std::size_t at(std::int64_t i) noexcept { return static_cast<std::size_t>(i); }

}  // namespace

struct batched_eagle_head::implementation {
    struct sequence {
        explicit sequence(eagle_head_weights::implementation const& w) : text(w) {}

        eagle_text text;
        std::int32_t current = 0;  ///< entries that were made with all features that there are
    };

    implementation(std::shared_ptr<eagle_head_weights const> weights, eagle_head_weights::implementation const& of,
                   std::int32_t count)
        : shared(std::move(weights)), layer(of), attended(block_rows) {
        for (std::int32_t s = 0; s < count; ++s) sequences.emplace_back(of);
    }

    [[nodiscard]] std::int32_t count() const noexcept { return static_cast<std::int32_t>(sequences.size()); }
    void check_sequence(std::int32_t number) const {
        if (number < 0 || number >= count()) refuse("sequence", number, "there are " + std::to_string(count()));
    }

    /// The entry whose state an input reads; none: that of the target.
    [[nodiscard]] static std::int32_t parent_of(eagle_text const& text, step_inputs const& in, std::size_t k) {
        if (in.positions[k] <= text.observed) return none;
        auto const above = in.parent_rows[at(in.first_row + static_cast<std::int64_t>(k))];
        return above != none ? in.entry_of_row[at(above)] : in.first_entries[at(in.requests[k])] - 1;
    }

    std::shared_ptr<eagle_head_weights const> shared;
    eagle_layer layer;
    std::deque<sequence> sequences;
    attended_entries attended;
    std::vector<eagle_layer::row> rows;
    std::vector<std::int32_t> path;
};

batched_eagle_head::batched_eagle_head(std::shared_ptr<eagle_head_weights const> weights, std::int32_t sequences) {
    if (sequences < 1) refuse("sequences", sequences, "there is 1 sequence or more");
    auto const& of = *weights->implementation_;
    implementation_ = std::make_unique<implementation>(std::move(weights), of, sequences);
}
batched_eagle_head::~batched_eagle_head() = default;
batched_eagle_head::batched_eagle_head(batched_eagle_head&&) noexcept = default;
batched_eagle_head& batched_eagle_head::operator=(batched_eagle_head&&) noexcept = default;

std::int32_t batched_eagle_head::vocabulary() const noexcept { return implementation_->layer.w.sizes.vocabulary; }
std::int32_t batched_eagle_head::context_limit() const noexcept { return implementation_->layer.w.context_limit; }
std::int32_t batched_eagle_head::sequences() const noexcept { return implementation_->count(); }
std::int32_t batched_eagle_head::feature_size() const noexcept { return implementation_->layer.w.feature_size(); }

void batched_eagle_head::start(std::int32_t sequence) {
    implementation_->check_sequence(sequence);
    auto& its = implementation_->sequences[at(sequence)];
    implementation_->layer.cut(its.text, 0);
    its.current = 0;
}

void batched_eagle_head::observe(std::int32_t sequence, std::span<float const> features, std::int32_t first) {
    implementation_->check_sequence(sequence);
    auto& its = implementation_->sequences[at(sequence)];
    if (features.size() % at(feature_size()) != 0)
        refuse("features.size", features.size(),
               "there are " + std::to_string(feature_size()) + " numbers for each position");
    if (first != its.text.observed)
        refuse("first", first, "the next position of the text is " + std::to_string(its.text.observed));
    if (features.empty()) return;
    its.current = std::min(its.current, first + 1);
    implementation_->layer.observe(its.text, features);
}

std::int32_t batched_eagle_head::current_length(std::int32_t sequence) const {
    implementation_->check_sequence(sequence);
    return implementation_->sequences[at(sequence)].current;
}

void batched_eagle_head::forward(step_inputs const& in, std::span<std::int32_t const> sequence_of,
                                 std::span<float> logits) {
    auto& my = *implementation_;
    auto const& w = my.layer.w;
    check_step({w.sizes.vocabulary, w.context_limit, w.capacity}, in, sequence_of, sequences(), logits.size());
    my.rows.clear();
    my.attended.begin();
    std::size_t scored = 0;
    for (std::size_t k = 0; k < in.size(); ++k) {
        auto& its = my.sequences[at(sequence_of[at(in.requests[k])])];
        bool const wanted = scored < in.scored.size() && at(in.scored[scored]) == k;
        scored += wanted ? 1 : 0;
        my.rows.push_back({&its.text, in.tokens[k], in.positions[k], in.entries[k],
                           implementation::parent_of(its.text, in, k), wanted});
        add_attended(in, k, my.path, my.attended);
        its.current = std::max(its.current, in.entries[k] + 1);
    }
    my.layer.forward(my.rows, my.attended, logits.data());
}

void batched_eagle_head::keep(std::int32_t sequence, std::int32_t context, std::span<std::int32_t const> entries) {
    auto& my = *implementation_;
    check_kept_of(sequence, sequences(), my.layer.w.capacity, context, entries);
    auto& its = my.sequences[at(sequence)];
    for (std::size_t k = 0; k < entries.size(); ++k)
        its.text.move(context + entries[k], context + static_cast<std::int32_t>(k));
    its.current = std::min(its.current, context + static_cast<std::int32_t>(entries.size()));
}

}  // namespace multidraft::examples
