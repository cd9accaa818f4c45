// A model of many sequences with a known law: a wrong mask, position or cache entry changes the law or throws.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/batch/step_inputs.hpp"
#include "multidraft/decode/batched_language_model.hpp"
#include "support/table_model.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// Satisfies `batched_language_model`. Caches hold tokens.
template <class Logit = double>
class batched_table_model {
public:
    using logit = Logit;

    batched_table_model(std::int32_t vocabulary, conditional law, std::int32_t sequences,
                        std::int32_t context_limit = 1 << 20)
        : law_(std::move(law)),
          caches_(static_cast<std::size_t>(sequences)),
          vocabulary_(vocabulary),
          context_limit_(context_limit) {}

    [[nodiscard]] std::int32_t vocabulary() const { return vocabulary_; }
    [[nodiscard]] std::int32_t context_limit() const { return context_limit_; }
    [[nodiscard]] std::int32_t sequences() const { return static_cast<std::int32_t>(caches_.size()); }

    void forward(step_inputs const& in, std::span<std::int32_t const> sequence_of, std::span<Logit> logits) {
        ++calls;
        rows_read += in.size();
        if (logits.size() != in.scored.size() * at(vocabulary_)) throw std::logic_error("forward: shapes");
        for (std::size_t k = 0; k < in.size(); ++k)
            if (fails && fails(in.tokens[k])) throw failed_request(in.requests[k], "the model cannot read this token");
        for (std::size_t k = 0; k < in.size(); ++k) {
            auto& cache = caches_.at(at(sequence_of[at(in.requests[k])]));
            if (at(in.entries[k]) > cache.size()) throw std::logic_error("forward: an entry was left out");
            if (at(in.entries[k]) == cache.size()) cache.push_back(0);
            cache[at(in.entries[k])] = in.tokens[k];
        }
        std::int64_t const words = in.mask_words();
        mask_.resize(in.size() * at(words));
        in.write_mask(mask_);
        std::size_t scored = 0;
        for (std::size_t k = 0; k < in.size(); ++k) {
            auto const& cache = caches_[at(sequence_of[at(in.requests[k])])];
            std::int32_t const first = in.first_entries[at(in.requests[k])];
            seen_.assign(cache.begin(), cache.begin() + first);
            for (std::int64_t j = 0; j < 64 * words; ++j)
                if ((mask_[k * at(words) + at(j / 64)] >> (j % 64) & 1U) != 0) seen_.push_back(cache.at(at(first + j)));
            if (in.positions[k] != static_cast<std::int32_t>(seen_.size()) - 1)
                throw std::logic_error("forward: a position is not the number of tokens attended to");
            if (in.positions[k] >= context_limit_) throw std::logic_error("forward: position beyond the context");
            if (scored == in.scored.size() || in.scored[scored] != static_cast<std::int64_t>(k)) continue;
            auto const p = law_(seen_);
            for (std::size_t x = 0; x < p.size(); ++x)
                logits[scored * p.size() + x] = static_cast<Logit>(std::log(p[x]));
            ++scored;
        }
    }

    void keep(std::int32_t sequence, std::int32_t context, std::span<std::int32_t const> entries) {
        auto& cache = caches_.at(at(sequence));
        std::vector<token_id> kept(cache.begin(), cache.begin() + context);
        for (std::size_t k = 0; k < entries.size(); ++k) {
            if (k > 0 && entries[k] <= entries[k - 1]) throw std::logic_error("keep: entries must increase");
            kept.push_back(cache.at(at(context + entries[k])));
        }
        cache = std::move(kept);
    }

    std::size_t calls = 0;
    std::size_t rows_read = 0;
    std::function<bool(token_id)> fails{};  ///< tokens that it cannot read

private:
    static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

    conditional law_;
    std::vector<std::vector<token_id>> caches_;
    std::int32_t vocabulary_;
    std::int32_t context_limit_;
    std::vector<std::uint64_t> mask_;
    std::vector<token_id> seen_;
};

}  // namespace MULTIDRAFT_NAMESPACE::testing
