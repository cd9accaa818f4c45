#include "transformer/host_layers.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "multidraft/base/error.hpp"
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

host_layers::host_layers(std::shared_ptr<transformer_weights const> weights)
    : shared(std::move(weights)),
      w(*shared->implementation_),
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
      threads_(w.threads),
      choice_(w.threads) {}

void host_layers::rotate_and_cache(std::int32_t layer, std::span<layer_row const> rows) {
    std::int32_t const dim = w.config.head_dim;
    std::int32_t const half = dim / 2;
    for (std::size_t r = 0; r < rows.size(); ++r) {
        float const* const cosines = w.angles.cosines(rows[r].position);
        float const* const sines = w.angles.sines(rows[r].position);
        float* head = qkv_.data() + r * size(w.query_width() + 2 * w.kv_width());
        for (std::int32_t h = 0; h < w.config.heads + w.config.kv_heads; ++h) {
            kernels::rotate(head + size(h) * size(dim), cosines, sines, half);
        }
        head += w.query_width();
        for (std::int32_t h = 0; h < w.config.kv_heads; ++h, head += dim)
            rows[r].cache->write(layer, h, rows[r].entry, head, head + w.kv_width());
    }
}

void host_layers::expose(std::span<std::int32_t const> layers) {
    for (std::size_t k = 0; k < layers.size(); ++k)
        if (layers[k] < 0 || layers[k] >= w.config.layers)
            refuse("layers", static_cast<std::int64_t>(k), layers[k],
                   "the model has layers 0 to " + std::to_string(w.config.layers - 1));
    features.clear();
    tapped.assign(layers.begin(), layers.end());
}
std::int32_t host_layers::feature_size() const noexcept {
    return w.config.hidden * static_cast<std::int32_t>(tapped.size());
}

bool host_layers::is_tapped(std::int32_t layer) const noexcept {
    return std::ranges::find(tapped, layer) != tapped.end();
}

/// The residual after a layer, with the part that the next norm would add: the sums of that norm.
void host_layers::copy_features(std::int32_t layer, std::size_t rows) {
    std::size_t const hidden = size(w.config.hidden);
    float* const block = features.data() + features.size() - rows * tapped.size() * hidden;
    for (std::size_t t = 0; t < tapped.size(); ++t) {
        if (tapped[t] != layer) continue;
        for (std::size_t r = 0; r < rows; ++r) {
            float* const to = block + (r * tapped.size() + t) * hidden;
            float const* const x = residual_.data() + r * hidden;
            float const* const add = update_.data() + r * hidden;
            for (std::size_t i = 0; i < hidden; ++i) to[i] = x[i] + add[i];
        }
    }
}

void host_layers::block(std::span<layer_row const> rows, attended_entries const& attended,
                        std::span<std::int32_t const> wanted, float* logits, int active) {
    model_config const& c = w.config;
    std::size_t const hidden = size(c.hidden);
    std::size_t const query_width = size(w.query_width());
    std::size_t const qkv_width = query_width + 2 * size(w.kv_width());
    auto const all = static_cast<std::int32_t>(rows.size());
    auto const ends = static_cast<std::int32_t>(wanted.size());
    std::int32_t length = 0;
    for (std::size_t r = 0; r < rows.size(); ++r) {
        length = std::max(length, rows[r].entry + 1);
        w.embedding->read(size(rows[r].token) * hidden, {residual_.data() + r * hidden, hidden});
    }

    float const* pending = nullptr;  // the preceding layer's contribution to the residual
    auto const threads_for = [&](std::int64_t work, std::int64_t enough) { return work > enough ? active : 1; };
    auto const normalise = [&](std::vector<float> const& scale, std::int32_t count) {
        threads_.run(count, threads_for(std::int64_t{count} * c.hidden, numbers_for_threads),
                     [&](std::int32_t begin, std::int32_t end, int) {
                         for (std::size_t r = size(begin); r < size(end); ++r)
                             kernels::norm(residual_.data() + r * hidden,
                                           pending == nullptr ? nullptr : pending + r * hidden, scale.data(), c.hidden,
                                           c.rms_norm_eps, normed_.data() + r * hidden);
                     });
        pending = update_.data();
    };
    auto const multiply = [&](linear const& by, float const* from, std::int32_t count, float* to) {
        by.multiply(threads_, active, from, count, to, workspace_.data());
    };

    features.resize(features.size() + rows.size() * tapped.size() * hidden);
    // Keeps the rows whose logits are wanted.
    auto const narrow = [&](aligned_array<float>& of) {
        for (std::size_t k = 0; k < wanted.size(); ++k)
            std::memmove(of.data() + k * hidden, of.data() + size(wanted[k]) * hidden, hidden * sizeof(float));
    };
    std::int32_t left = all;
    std::int32_t const queries = c.heads / c.kv_heads;
    groups_.set(all, queries, c.kv_heads, active,
                [&](std::int32_t r) { return rows[size(r)].cache == rows[size(r - 1)].cache; });
    for (std::int32_t l = 0; l < c.layers; ++l) {
        transformer_weights::implementation::layer const& layer = w.layers[size(l)];
        normalise(layer.attention_norm, all);
        multiply(*layer.qkv, normed_.data(), all, qkv_.data());
        rotate_and_cache(l, rows);
        bool const last = l + 1 == c.layers && !is_tapped(l);
        if (last) {
            // Only the cache entries of the other rows are needed.
            if (ends == 0) return;
            left = ends;
            narrow(residual_);
            groups_.set(ends, queries, c.kv_heads, active, [&](std::int32_t k) {
                return rows[size(wanted[size(k)])].cache == rows[size(wanted[size(k - 1)])].cache;
            });
        }
        auto const row_of = [&](std::int32_t r) { return size(last ? wanted[size(r)] : r); };
        auto const attend = [&](std::int32_t begin, std::int32_t end, int thread) {
            for (std::int32_t i = begin; i < end; ++i) {
                auto const unit = groups_.unit_at(i);
                std::int32_t const g = unit.group;
                std::int32_t const h = unit.head;
                std::size_t const head = size(h) * size(queries) * size(c.head_dim);
                groups_.attend(g, rows[row_of(groups_.of(g).first)].cache->view(l, h), queries,
                               scores_.data() + size(thread) * scores_per_thread_, [&](std::int32_t r) {
                                   auto const runs = attended.of(row_of(r));
                                   return kernels::token_attention{qkv_.data() + row_of(r) * qkv_width + head,
                                                                   attention_.data() + size(r) * query_width + head,
                                                                   runs.data(), runs.size()};
                               });
            }
        };
        threads_.run(groups_.size() * c.kv_heads, threads_for(std::int64_t{left} * length * w.query_width(), 40'000),
                     attend);
        multiply(*layer.out, attention_.data(), left, update_.data());
        normalise(layer.mlp_norm, left);
        multiply(*layer.gate_up, normed_.data(), left, gate_up_.data());
        auto const gate = [&](std::int32_t begin, std::int32_t end, int) {
            std::size_t const width = size(c.intermediate);
            for (std::size_t r = size(begin); r < size(end); ++r)
                kernels::gated(gate_up_.data() + r * 2 * width, c.intermediate, activation_.data() + r * width);
        };
        threads_.run(left, threads_for(std::int64_t{left} * c.intermediate, numbers_for_threads), gate);
        multiply(*layer.down, activation_.data(), left, update_.data());
        if (is_tapped(l)) copy_features(l, rows.size());
    }
    if (ends == 0) return;
    if (left != ends) {
        narrow(residual_);
        narrow(update_);
    }
    normalise(w.final_norm, ends);
    for (std::size_t i = 0; i < wanted.size() * hidden; ++i) {
        float const state = normed_.data()[i];
        bool const exact = w.numbers == precision::f32 || keeps_blocks(w.numbers);
        shown.push_back(exact ? state : kernels::to_float(kernels::to_bfloat16(state)));
    }
    multiply(*w.head, normed_.data(), ends, logits);
}

void host_layers::forward(std::span<layer_row const> rows, attended_entries const& attended,
                          std::span<std::int32_t const> wanted, float* logits) {
    if (!w.chooses_threads) {
        block(rows, attended, wanted, logits, w.threads);
        return;
    }
    // Calls of 1, 2, 3 to 4, 5 to 8 rows, and so on.
    choice_.run(thread_choice::kind_of(rows.size()),
                [&](int active) { block(rows, attended, wanted, logits, active); });
}

}  // namespace multidraft::examples
