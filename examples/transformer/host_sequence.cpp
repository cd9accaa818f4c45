#include "transformer/host_sequence.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>

#include "transformer/kernels.hpp"

namespace multidraft::examples {
namespace {

constexpr auto buffer_rows = static_cast<std::size_t>(block_rows);

std::size_t size(std::int64_t n) noexcept { return static_cast<std::size_t>(n); }

/// The largest workspace of the model's matrices, for any number of rows of a block.
std::size_t largest_workspace(transformer_weights::implementation const& w) {
    std::size_t most = 0;
    auto const& layer = w.layers.front();  // all are of one size
    for (linear const* const l :
         {layer.qkv.get(), layer.out.get(), layer.gate_up.get(), layer.down.get(), w.head.get()})
        for (std::int32_t rows = 1; rows <= block_rows; ++rows) most = std::max(most, l->workspace_bytes(rows));
    return most;
}

}  // namespace

host_sequence::host_sequence(std::shared_ptr<transformer_weights const> weights)
    : shared(std::move(weights)),
      w(*shared->implementation_),
      cache(w.config.layers, w.config.kv_heads, w.config.head_dim, w.capacity),
      residual_(buffer_rows * size(w.config.hidden)),
      normed_(buffer_rows * size(w.config.hidden)),
      qkv_(buffer_rows * size(w.query_width() + 2 * w.kv_width())),
      attention_(buffer_rows * size(w.query_width())),
      update_(buffer_rows * size(w.config.hidden)),
      gate_up_(buffer_rows * 2 * size(w.config.intermediate)),
      activation_(buffer_rows * size(w.config.intermediate)),
      workspace_(largest_workspace(w)),
      scores_per_thread_(kernels::attention_scratch(w.capacity, w.config.head_dim)),
      scores_(scores_per_thread_ * size(w.threads)),
      attended_(block_rows),
      threads_(w.threads),
      choice_(w.threads) {}

void host_sequence::rotate_and_cache(std::int32_t layer, std::span<std::int32_t const> positions) {
    std::int32_t const dim = w.config.head_dim;
    std::int32_t const half = dim / 2;
    std::int32_t const first = length - static_cast<std::int32_t>(positions.size());
    for (std::size_t r = 0; r < positions.size(); ++r) {
        float const* const cosines = w.angles.cosines(positions[r]);
        float const* const sines = w.angles.sines(positions[r]);
        float* head = qkv_.data() + r * size(w.query_width() + 2 * w.kv_width());
        for (std::int32_t h = 0; h < w.config.heads + w.config.kv_heads; ++h) {
            kernels::rotate(head + size(h) * size(dim), cosines, sines, half);
        }
        head += w.query_width();
        std::int32_t const entry = first + static_cast<std::int32_t>(r);
        for (std::int32_t h = 0; h < w.config.kv_heads; ++h, head += dim)
            cache.write(layer, h, entry, head, head + w.kv_width());
    }
}

void host_sequence::block(token_batch const& batch, std::int32_t first, std::int32_t rows, std::int32_t wanted,
                          float* wanted_logits, int active) {
    model_config const& c = w.config;
    std::size_t const hidden = size(c.hidden);
    std::size_t const query_width = size(w.query_width());
    std::size_t const qkv_width = query_width + 2 * size(w.kv_width());
    std::span<std::int32_t const> const positions = batch.positions.subspan(size(first), size(rows));

    length += rows;
    attended_.list(batch, first, rows, length);  // the block's own entries are in the cache by now
    for (std::size_t r = 0; r < size(rows); ++r) {
        w.embedding->read(size(batch.tokens[size(first) + r]) * hidden, {residual_.data() + r * hidden, hidden});
    }

    float const* pending = nullptr;  // the preceding layer's contribution to the residual
    auto const normalise = [&](std::vector<float> const& scale, std::int32_t count) {
        for (std::size_t r = 0; r < size(count); ++r) {
            kernels::norm(residual_.data() + r * hidden, pending == nullptr ? nullptr : pending + r * hidden,
                          scale.data(), c.hidden, c.rms_norm_eps, normed_.data() + r * hidden);
        }
        pending = update_.data();
    };
    auto const multiply = [&](linear const& by, float const* from, std::int32_t count, float* to) {
        by.multiply(threads_, active, from, count, to, workspace_.data());
    };
    // Other threads only for at least about 10 us of work.
    auto const threads_for = [&](std::int64_t work, std::int64_t enough) { return work > enough ? active : 1; };

    std::int32_t skipped = 0;  // leading rows that are no longer needed
    std::int32_t const queries = c.heads / c.kv_heads;
    for (std::int32_t l = 0; l < c.layers; ++l) {
        model::layer const& layer = w.layers[size(l)];
        normalise(layer.attention_norm, rows);
        multiply(*layer.qkv, normed_.data(), rows, qkv_.data());
        rotate_and_cache(l, positions);
        if (l + 1 == c.layers) {
            // Only the cache entries of the other tokens are needed.
            if (wanted == 0) return;
            skipped = rows - wanted;
            if (skipped != 0) {
                std::memmove(residual_.data(), residual_.data() + size(skipped) * hidden,
                             size(wanted) * hidden * sizeof(float));
            }
        }
        std::int32_t const left = rows - skipped;
        auto const attend = [&](std::int32_t begin, std::int32_t end, int thread) {
            for (std::int32_t i = begin; i < end; ++i) {
                std::size_t const r = size(i / c.kv_heads);
                std::int32_t const h = i % c.kv_heads;
                std::size_t const row = size(skipped) + r;
                std::size_t const head = size(h) * size(queries) * size(c.head_dim);
                kernels::attend(cache.view(l, h), qkv_.data() + row * qkv_width + head, queries, attended_.of(row),
                                scores_.data() + size(thread) * scores_per_thread_,
                                attention_.data() + r * query_width + head);
            }
        };
        threads_.run(left * c.kv_heads, threads_for(std::int64_t{left} * length * w.query_width(), 40'000), attend);
        multiply(*layer.out, attention_.data(), left, update_.data());
        normalise(layer.mlp_norm, left);
        multiply(*layer.gate_up, normed_.data(), left, gate_up_.data());
        auto const gate = [&](std::int32_t begin, std::int32_t end, int) {
            std::size_t const width = size(c.intermediate);
            for (std::size_t r = size(begin); r < size(end); ++r)
                kernels::gated(gate_up_.data() + r * 2 * width, c.intermediate, activation_.data() + r * width);
        };
        threads_.run(left, threads_for(std::int64_t{left} * c.intermediate, 30'000), gate);
        multiply(*layer.down, activation_.data(), left, update_.data());
    }
    normalise(w.final_norm, wanted);
    for (std::size_t i = 0; i < size(wanted) * hidden; ++i) {
        float const state = normed_.data()[i];
        shown.push_back(w.numbers == precision::f32 ? state : kernels::to_float(kernels::to_bfloat16(state)));
    }
    multiply(*w.head, normed_.data(), wanted, wanted_logits);
}

void host_sequence::forward(token_batch const& batch, std::span<float> logits) {
    shown.clear();
    auto const n = static_cast<std::int32_t>(batch.tokens.size());
    std::size_t const vocabulary = size(w.config.vocabulary);
    std::int32_t const unwanted = n - static_cast<std::int32_t>(logits.size() / vocabulary);
    for (std::int32_t first = 0; first < n; first += block_rows) {
        std::int32_t const rows = std::min(block_rows, n - first);
        std::int32_t const wanted = std::clamp(first + rows - unwanted, 0, rows);
        float* const to = wanted == 0 ? nullptr : logits.data() + size(first + rows - wanted - unwanted) * vocabulary;
        if (!w.chooses_threads) {
            block(batch, first, rows, wanted, to, w.threads);
            continue;
        }
        // Calls of 1, 2, 3 to 4, 5 to 8 rows, and so on.
        auto const kind = static_cast<int>(std::bit_width(static_cast<unsigned>(rows - 1)));
        int const active = choice_.next(kind);
        auto const begin = std::chrono::steady_clock::now();
        block(batch, first, rows, wanted, to, active);
        choice_.took(kind, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
}

}  // namespace multidraft::examples
