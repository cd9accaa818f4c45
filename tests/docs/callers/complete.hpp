// Calls the README's complete: a model that counts modulo ten, and a draft that miscounts after seven.
#pragma once

#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

class counting_model {
public:
    explicit counting_model(bool miscounts) : miscounts_(miscounts) {}

    std::int32_t vocabulary() const { return 10; }
    std::int32_t context_limit() const { return 1000; }
    std::int32_t length() const { return length_; }

    void forward(multidraft::token_batch const& batch, std::span<float> logits) {
        std::size_t const rows = logits.size() / 10;
        for (std::size_t row = 0; row < rows; ++row) {
            auto const token = batch.tokens[batch.tokens.size() - rows + row];
            for (std::size_t i = 0; i < 10; ++i) logits[10 * row + i] = 0;
            auto const next = static_cast<std::size_t>((token + 1) % 10);
            logits[10 * row + (miscounts_ && token == 7 ? 0 : next)] = 50;
        }
        length_ += static_cast<std::int32_t>(batch.tokens.size());
    }
    void keep(std::int32_t context, std::span<std::int32_t const> entries) {
        length_ = context + static_cast<std::int32_t>(entries.size());
    }

private:
    bool miscounts_;
    std::int32_t length_ = 0;
};

int main() {
    counting_model target(false);
    counting_model draft(true);
    auto const tokens = complete(target, draft, {3, 4, 5});
    multidraft::token_id expected = 6;
    for (auto const token : tokens) {
        std::printf("%d ", token);
        if (token != expected) return 1;
        expected = (expected + 1) % 10;
    }
    std::printf("\n");
    return tokens.size() >= 10 ? 0 : 1;
}
