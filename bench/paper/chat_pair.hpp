// A chat model and its block drafter: the rows of both along the model's own answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "multidraft/decode/autoregressive.hpp"
#include "multidraft/decode/options.hpp"
#include "transformer/block_drafter.hpp"
#include "transformer/chat_markup.hpp"
#include "transformer/gguf.hpp"
#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"

namespace multidraft::bench {

/// Both models' logits after some tokens of a text: what the target gives, and the drafter's row of its first position.
struct row_pairs {
    std::vector<float> target, draft;  ///< a row of the vocabulary for each token

    void clear() noexcept {
        target.clear();
        draft.clear();
    }
};

class chat_pair {
public:
    chat_pair(std::filesystem::path const& target, std::filesystem::path const& drafter)
        : target_(target, one_thread()),
          words_(target, target_.vocabulary()),
          markup_(examples::gguf_file(target).text("tokenizer.chat_template").value_or(""), words_),
          draft_(std::make_shared<examples::block_drafter_weights const>(drafter, target_.weights(), one_thread())) {
        target_.expose_features(draft_.weights()->target_layers());
    }

    [[nodiscard]] std::size_t vocabulary() const noexcept { return static_cast<std::size_t>(target_.vocabulary()); }

    /// The rows after every `every`-th token of the target's answer to a question, from the one before its first on.
    void rows_of_answer(std::string const& question, generation_options options, std::size_t every, row_pairs& out) {
        std::vector<token_id> text = markup_.ask(question);
        std::size_t const begin = text.size() - 1;
        auto const& ends = target_.weights()->config().eos_tokens;
        options.stop_tokens.assign(ends.begin(), ends.end());
        auto const answer = autoregressive(target_, text, options).tokens;
        text.insert(text.end(), answer.begin(), answer.end());
        read(text, begin, every, out);
    }

private:
    [[nodiscard]] static examples::transformer_options one_thread() {
        examples::transformer_options options;
        options.threads = 1;
        return options;
    }

    void read(std::vector<token_id> const& text, std::size_t begin, std::size_t every, row_pairs& out) {
        std::size_t const v = vocabulary();
        std::vector<std::int32_t> positions(text.size());
        std::iota(positions.begin(), positions.end(), 0);
        logits_.resize(text.size() * v);
        target_.keep(0, {});
        target_.forward({text, positions, 0, {}}, logits_);
        auto const features = target_.features();
        std::size_t const width = features.size() / text.size();
        std::size_t observed = 0;
        out.clear();
        draft_.reset();
        for (std::size_t i = begin; i + 1 < text.size(); i += every) {
            // What a drafter knows before it drafts what follows token i: the features of the tokens before.
            draft_.observe(features.subspan(observed * width, (i - observed) * width),
                           std::span(positions).subspan(observed, i - observed));
            observed = i;
            out.draft.resize(out.draft.size() + v);
            auto const first = std::span(out.draft).last(v);
            draft_.rows(std::span(text).first(i + 1), first);
            draft_.add_parent_term(0, text[i], first);
            auto const row = std::span(logits_).subspan(i * v, v);
            out.target.insert(out.target.end(), row.begin(), row.end());
        }
    }

    examples::transformer target_;
    examples::tokenizer words_;
    examples::chat_markup markup_;
    examples::block_drafter_model draft_;
    std::vector<float> logits_;
};

}  // namespace multidraft::bench
