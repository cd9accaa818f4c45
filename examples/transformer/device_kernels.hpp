// The loops between the matrix products of the example transformer, for the threads of a block on a device.
//
// Each is the work of one block on one row (one token), written over a lane context
// (`multidraft/cuda/lane_context.hpp`), so that the tests run this source on the CPU. A row's sums depend on its own
// numbers and on the order of the entries that it attends to, not on their location nor on the rest of the batch.
#pragma once

#include <cstdint>

#include "multidraft/base/config.hpp"
#include "multidraft/base/exp_log.hpp"
#include "multidraft/base/float16.hpp"
#include "multidraft/base/span.hpp"

namespace multidraft::examples::device {

inline constexpr int threads = 128;
inline constexpr int largest_head = 256;  ///< numbers of a head at most
inline constexpr int keys_together = 512;

/// The host's description of a block of tokens, in device memory.
struct step {
    std::int32_t rows;
    std::int32_t first;
    std::int32_t context;
    std::int32_t row_words;  ///< words that are set in each row of the mask
};

/// A block's shared memory.
struct shared_memory {
    float warp[threads / 32];
    float query[largest_head];
    float score[keys_together];
    float part[2 * threads];
};

/// The sum of x over the threads of a block, in one order; all threads get it.
template <class Lanes>
[[nodiscard]] MULTIDRAFT_HD float block_sum(Lanes const& lanes, float x, shared_memory& shared) {
    for (int mask = 16; mask > 0; mask /= 2) x += lanes.shuffle_xor(x, mask);
    lanes.sync();
    if (lanes.thread() % 32 == 0) shared.warp[lanes.thread() / 32] = x;
    lanes.sync();
    return (shared.warp[0] + shared.warp[1]) + (shared.warp[2] + shared.warp[3]);
}

template <class Lanes>
[[nodiscard]] MULTIDRAFT_HD float block_largest(Lanes const& lanes, float x, shared_memory& shared) {
    for (int mask = 16; mask > 0; mask /= 2) {
        float const other = lanes.shuffle_xor(x, mask);
        x = other > x ? other : x;
    }
    lanes.sync();
    if (lanes.thread() % 32 == 0) shared.warp[lanes.thread() / 32] = x;
    lanes.sync();
    float best = shared.warp[0];
    for (int w = 1; w < threads / 32; ++w) best = shared.warp[w] > best ? shared.warp[w] : best;
    return best;
}

/// Writes the cache entries that row r attends to, in their order, and how many they are.
struct list_entries {
    device::step const* step;
    std::uint64_t const* words;
    std::int32_t width;     ///< words from one row to the next
    std::int32_t* entries;  ///< `capacity` a row
    std::int32_t* counts;
    std::int32_t capacity;

    template <class Lanes>
    MULTIDRAFT_HD void operator()(Lanes const& lanes, int r, shared_memory&) const {
        if (r >= step->rows) return;
        std::int32_t* const out = entries + static_cast<std::int64_t>(r) * capacity;
        std::int32_t const context = step->context;
        for (std::int32_t k = lanes.thread(); k < context; k += threads) out[k] = k;
        std::uint64_t const* const row = words + static_cast<std::int64_t>(r) * width;
        for (std::int32_t w = lanes.thread(); w < step->row_words; w += threads) {
            std::int32_t at = context;
            for (std::int32_t before = 0; before < w; ++before) at += ones(row[before]);
            for (int bit = 0; bit < 64; ++bit)
                if ((row[w] >> bit) & 1U) out[at++] = context + 64 * w + bit;
            if (w + 1 == step->row_words) counts[r] = at;
        }
        if (step->row_words == 0 && lanes.thread() == 0) counts[r] = context;
    }

private:
    [[nodiscard]] MULTIDRAFT_HD static int ones(std::uint64_t x) {
        int count = 0;
        for (; x != 0; x &= x - 1) ++count;
        return count;
    }
};

/// residual = the embedding of token r.
struct embed {
    device::step const* step;
    token_id const* tokens;
    bfloat16 const* embedding;
    float* residual;
    std::int32_t hidden;

    template <class Lanes>
    MULTIDRAFT_HD void operator()(Lanes const& lanes, int r, shared_memory&) const {
        if (r >= step->rows) return;
        bfloat16 const* const from = embedding + static_cast<std::int64_t>(tokens[r]) * hidden;
        float* const to = residual + static_cast<std::int64_t>(r) * hidden;
        for (std::int32_t i = lanes.thread(); i < hidden; i += threads) to[i] = to_real(from[i]);
    }
};

/// residual += update (unless null), then out = residual / sqrt(mean square + eps) * scale.
struct norm {
    device::step const* step;
    float const* update;
    float const* scale;
    float* residual;
    bfloat16* out;
    std::int32_t hidden;
    float eps;

    template <class Lanes>
    MULTIDRAFT_HD void operator()(Lanes const& lanes, int r, shared_memory& shared) const {
        if (r >= step->rows) return;
        std::int64_t const row = static_cast<std::int64_t>(r) * hidden;
        float squares = 0;
        for (std::int32_t i = lanes.thread(); i < hidden; i += threads) {
            float x = residual[row + i];
            if (update != nullptr) {
                x += update[row + i];
                residual[row + i] = x;
            }
            squares += x * x;
        }
        float const mean = block_sum(lanes, squares, shared) / static_cast<float>(hidden);
        float const factor = 1.0F / square_root(mean + eps);
        for (std::int32_t i = lanes.thread(); i < hidden; i += threads)
            out[row + i] = bfloat16(residual[row + i] * factor * scale[i]);
    }

private:
    [[nodiscard]] MULTIDRAFT_HD static float square_root(float x) {
#if MULTIDRAFT_ON_DEVICE
        return sqrtf(x);
#else
        return __builtin_sqrtf(x);
#endif
    }
};

/// The layout of a layer's keys and values: head h's entry e begins at `(h * capacity + e) * head_dim`.
struct layer_cache {
    float* keys;
    float* values;
};

/// Rotates the queries of row r in place and puts its keys and values into the cache.
struct rotate_and_cache {
    device::step const* step;
    std::int32_t const* positions;
    float const* cosines;  ///< a row of head_dim / 2 a position
    float const* sines;
    float* qkv;
    layer_cache cache;
    std::int32_t heads;
    std::int32_t kv_heads;
    std::int32_t head_dim;
    std::int32_t capacity;

    template <class Lanes>
    MULTIDRAFT_HD void operator()(Lanes const& lanes, int r, shared_memory&) const {
        if (r >= step->rows) return;
        std::int32_t const half = head_dim / 2;
        std::int64_t const angle = static_cast<std::int64_t>(positions[r]) * half;
        float* const row = qkv + static_cast<std::int64_t>(r) * (heads + 2 * kv_heads) * head_dim;
        std::int32_t const entry = step->first + r;
        for (std::int32_t k = lanes.thread(); k < (heads + kv_heads) * half; k += threads) {
            std::int32_t const h = k / half;
            std::int32_t const i = k % half;
            float* const head = row + h * head_dim;
            float const a = head[i];
            float const b = head[i + half];
            float const low = a * cosines[angle + i] - b * sines[angle + i];
            float const high = b * cosines[angle + i] + a * sines[angle + i];
            if (h < heads) {
                head[i] = low;
                head[i + half] = high;
            } else {
                float* const key = cache.keys + (static_cast<std::int64_t>(h - heads) * capacity + entry) * head_dim;
                key[i] = low;
                key[i + half] = high;
            }
        }
        float const* const values = row + (heads + kv_heads) * head_dim;
        for (std::int32_t k = lanes.thread(); k < kv_heads * head_dim; k += threads)
            cache.values[(static_cast<std::int64_t>(k / head_dim) * capacity + entry) * head_dim + k % head_dim] =
                values[k];
    }
};

/// The attention of query head h of row r; block r * heads + h. Scores are taken `keys_together` at a time, by their
/// order among the attended entries, with the running largest as in online softmax.
struct attend {
    device::step const* step;
    std::int32_t const* entries;
    std::int32_t const* counts;
    float const* qkv;
    layer_cache cache;
    bfloat16* out;
    std::int32_t heads;
    std::int32_t kv_heads;
    std::int32_t head_dim;
    std::int32_t capacity;
    float scale;

    template <class Lanes>
    MULTIDRAFT_HD void operator()(Lanes const& lanes, int block, shared_memory& shared) const {
        int const r = block / heads;
        int const h = block % heads;
        if (r >= step->rows) return;
        int const t = lanes.thread();
        float const* const query =
            qkv + static_cast<std::int64_t>(r) * (heads + 2 * kv_heads) * head_dim + h * head_dim;
        for (int i = t; i < head_dim; i += threads) shared.query[i] = query[i] * scale;
        lanes.sync();
        std::int64_t const head = static_cast<std::int64_t>(h / (heads / kv_heads)) * capacity;
        std::int32_t const* const list = entries + static_cast<std::int64_t>(r) * capacity;
        std::int32_t const count = counts[r];

        // A thread adds up number d of the values, over every `strands`-th key; of wide heads two numbers.
        int const strands = head_dim < threads ? threads / head_dim : 1;
        int const d = t % head_dim;
        int const strand = head_dim < threads ? t / head_dim : 0;
        float sums[2] = {0, 0};
        float largest = minus_infinity<float>;
        float total = 0;
        for (std::int32_t begin = 0; begin < count; begin += keys_together) {
            std::int32_t const here = count - begin < keys_together ? count - begin : keys_together;
            float best = minus_infinity<float>;
            for (std::int32_t k = t; k < here; k += threads) {
                float const* const key = cache.keys + (head + list[begin + k]) * head_dim;
                float score = 0;
                for (int i = 0; i < head_dim; ++i) score += shared.query[i] * key[i];
                shared.score[k] = score;
                best = score > best ? score : best;
            }
            best = block_largest(lanes, best, shared);
            best = best > largest ? best : largest;
            float weights = 0;
            for (std::int32_t k = t; k < here; k += threads) {
                float const weight = fp::exp(shared.score[k] - best);
                shared.score[k] = weight;
                weights += weight;
            }
            float const shrink = begin == 0 ? 0.0F : fp::exp(largest - best);
            total = total * shrink + block_sum(lanes, weights, shared);  // its barriers show the weights to all
            largest = best;
            for (int j = 0; j < 2; ++j) sums[j] *= shrink;
            if (strand < strands)
                for (std::int32_t k = strand; k < here; k += strands) {
                    float const* const value = cache.values + (head + list[begin + k]) * head_dim;
                    sums[0] += shared.score[k] * value[d];
                    if (d + threads < head_dim) sums[1] += shared.score[k] * value[d + threads];
                }
            lanes.sync();
        }
        shared.part[t] = sums[0];
        shared.part[threads + t] = sums[1];
        lanes.sync();
        bfloat16* const to = out + (static_cast<std::int64_t>(r) * heads + h) * head_dim;
        for (int i = t; i < head_dim; i += threads) {
            float sum = shared.part[i];
            for (int s = 1; s < strands; ++s) sum += shared.part[s * head_dim + i];
            to[i] = bfloat16(sum / total);
        }
    }
};

/// out = silu(gate) * up; a row holds the gates, then the ups.
struct gated {
    device::step const* step;
    float const* gate_up;
    bfloat16* out;
    std::int32_t width;

    template <class Lanes>
    MULTIDRAFT_HD void operator()(Lanes const& lanes, int r, shared_memory&) const {
        if (r >= step->rows) return;
        float const* const row = gate_up + static_cast<std::int64_t>(r) * 2 * width;
        for (std::int32_t i = lanes.thread(); i < width; i += threads) {
            float const gate = row[i];
            out[static_cast<std::int64_t>(r) * width + i] = bfloat16(gate / (1.0F + fp::exp(-gate)) * row[width + i]);
        }
    }
};

}  // namespace multidraft::examples::device
