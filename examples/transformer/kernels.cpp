#include "transformer/kernels.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "multidraft/base/config.hpp"
#include "transformer/vectors.hpp"

namespace multidraft::examples::kernels {
namespace {

/// Lane i gets lane i + `by`, and so on round.
template <std::int32_t by>
MULTIDRAFT_INLINE floats rotated(floats v) {
    return __builtin_shufflevector(v, v, by % 16, (by + 1) % 16, (by + 2) % 16, (by + 3) % 16, (by + 4) % 16,
                                   (by + 5) % 16, (by + 6) % 16, (by + 7) % 16, (by + 8) % 16, (by + 9) % 16,
                                   (by + 10) % 16, (by + 11) % 16, (by + 12) % 16, (by + 13) % 16, (by + 14) % 16,
                                   (by + 15) % 16);
}

/// Pairwise over the lanes.
MULTIDRAFT_INLINE float sum(floats v) {
    v += rotated<8>(v);
    v += rotated<4>(v);
    v += rotated<2>(v);
    v += rotated<1>(v);
    return v[0];
}

MULTIDRAFT_INLINE floats larger(floats a, floats b) { return a > b ? a : b; }

MULTIDRAFT_INLINE float maximum(floats v) {
    v = larger(v, rotated<8>(v));
    v = larger(v, rotated<4>(v));
    v = larger(v, rotated<2>(v));
    v = larger(v, rotated<1>(v));
    return v[0];
}

/// e^x within 1e-7 of its value for |x| <= 87; 0 below, e^87 above. 2^n times a polynomial on [-log(2)/2, log(2)/2].
MULTIDRAFT_INLINE floats exponential(floats x) {
    floats const clamped = x < -87.0F ? splat(-87.0F) : (x > 87.0F ? splat(87.0F) : x);
    floats const shifted = clamped * 1.44269504088896341F + 12582912.0F;  // 1.5 * 2^23: rounds to an integer
    floats const n = shifted - 12582912.0F;
    floats const r = (clamped - n * 0.693359375F) - n * -2.12194440e-4F;
    floats p = r * 1.9875691500e-4F + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    p = p * (r * r) + r + 1.0F;
    ints const power = (__builtin_convertvector(n, ints) + 127) << 23;
    floats scale;
    std::memcpy(&scale, &power, sizeof scale);
    return x < -87.0F ? floats{} : p * scale;
}

/// The scores of `H` heads for the entries 0 .. `entries`, rounded up to whole blocks. Each score is one sum over d in
/// order.
template <std::int32_t H>
MULTIDRAFT_INLINE void score(attention_view const& cache, float const* queries, std::int32_t entries, float* scores,
                             std::int32_t stride) {
    constexpr std::int32_t groups = key_block / lanes;
    std::int32_t const dim = cache.head_dim;
    for (std::int32_t e = 0; e < entries; e += key_block) {
        float const* const keys = cache.keys + static_cast<std::ptrdiff_t>(e) * dim;
        floats total[H][groups] = {};
        for (std::int32_t d = 0; d < dim; ++d) {
            for (std::int32_t g = 0; g < groups; ++g) {
                floats key = load(keys + (g * dim + d) * lanes);
                MULTIDRAFT_EXAMPLE_IN_REGISTER(key);
                for (std::int32_t h = 0; h < H; ++h) total[h][g] += key * queries[h * dim + d];
            }
        }
        for (std::int32_t h = 0; h < H; ++h) {
            for (std::int32_t g = 0; g < groups; ++g) store(scores + h * stride + e + g * lanes, total[h][g]);
        }
    }
}

/// Replaces the first `count` scores by exp(scale * (score - largest)) and returns their sum. Lanes beyond `count` in
/// the last vector become 0.
MULTIDRAFT_INLINE float exponentials(float* scores, std::int32_t count, float scale) {
    std::int32_t const whole = round_up(count, lanes);
    for (std::int32_t i = count; i < whole; ++i) scores[i] = -HUGE_VALF;
    floats largest = load(scores);
    for (std::int32_t i = lanes; i < whole; i += lanes) {
        largest = larger(largest, load(scores + i));
    }
    float const top = maximum(largest);
    floats total{};
    for (std::int32_t i = 0; i < whole; i += lanes) {
        floats const e = exponential((load(scores + i) - top) * scale);
        store(scores + i, e);
        total += e;
    }
    return sum(total);
}

/// The weighted sums of `C` vectors of the values for `H` heads, in the order of the attended entries; `out` has whole
/// vectors.
template <std::int32_t H, std::int32_t C>
MULTIDRAFT_INLINE void gather(attention_view const& cache, std::span<run const> attended, float const* weights,
                              std::int32_t stride, float const* totals, std::int32_t from, float* out) {
    std::int32_t const padded = round_up(cache.head_dim, lanes);
    floats total[H][C] = {};
    for (run const& part : attended) {
        float const* value = cache.values + static_cast<std::ptrdiff_t>(part.first) * padded + from;
        for (std::int32_t i = 0; i < part.count; ++i, ++weights, value += padded) {
            for (std::int32_t c = 0; c < C; ++c) {
                floats entry = load(value + c * lanes);
                MULTIDRAFT_EXAMPLE_IN_REGISTER(entry);
                for (std::int32_t h = 0; h < H; ++h) total[h][c] += entry * weights[h * stride];
            }
        }
    }
    for (std::int32_t h = 0; h < H; ++h) {
        float const inverse = 1.0F / totals[h];
        for (std::int32_t c = 0; c < C; ++c) store(out + h * padded + from + c * lanes, total[h][c] * inverse);
    }
}

template <std::int32_t H>
MULTIDRAFT_INLINE void attend_heads(attention_view const& cache, float const* queries, std::span<run const> attended,
                                    float* scratch, float* out) {
    std::int32_t const entries = attended.back().first + attended.back().count;
    std::int32_t const stride = round_up(entries, key_block);
    score<H>(cache, queries, entries, scratch, stride);
    float totals[H];
    for (std::int32_t h = 0; h < H; ++h) {
        float* const scores = scratch + h * stride;
        std::int32_t count = 0;
        for (run const& part : attended) {
            if (part.first != count) {
                std::memmove(scores + count, scores + part.first, static_cast<std::size_t>(part.count) * sizeof(float));
            }
            count += part.count;
        }
        totals[h] = exponentials(scores, count, cache.scale);
    }
    // The sums go to memory in whole vectors first: a store of part of one here would cost `gather` its registers.
    std::int32_t const padded = round_up(cache.head_dim, lanes);
    float* const sums = scratch + H * stride;
    std::int32_t from = 0;
    for (; from + 4 * lanes <= padded; from += 4 * lanes) {
        gather<H, 4>(cache, attended, scratch, stride, totals, from, sums);
    }
    for (; from < padded; from += lanes) gather<H, 1>(cache, attended, scratch, stride, totals, from, sums);
    for (std::int32_t h = 0; h < H; ++h) {
        for (std::int32_t d = 0; d < cache.head_dim; d += lanes) {
            store(out + h * cache.head_dim + d, load(sums + h * padded + d), std::min(lanes, cache.head_dim - d));
        }
    }
}

}  // namespace

MULTIDRAFT_EXAMPLE_CLONES
void round(float const* from, std::size_t n, bfloat16* to) {
    std::size_t i = 0;
    for (; i + lanes <= n; i += lanes) store(to + i, load(from + i));
    for (; i < n; ++i) to[i] = to_bfloat16(from[i]);
}

MULTIDRAFT_EXAMPLE_CLONES
void norm(float* x, float const* add, float const* weight, std::int32_t n, float eps, float* out) {
    floats squares{};
    for (std::int32_t i = 0; i < n; i += lanes) {
        std::int32_t const count = std::min(lanes, n - i);
        floats v = load(x + i, count);
        if (add != nullptr) {
            v += load(add + i, count);
            store(x + i, v, count);
        }
        squares += v * v;
    }
    float const inverse = 1.0F / std::sqrt(sum(squares) / static_cast<float>(n) + eps);
    for (std::int32_t i = 0; i < n; i += lanes) {
        std::int32_t const count = std::min(lanes, n - i);
        store(out + i, load(x + i, count) * inverse * load(weight + i, count), count);
    }
}

MULTIDRAFT_EXAMPLE_CLONES
void gated(float const* gate_up, std::int32_t n, float* out) {
    for (std::int32_t i = 0; i < n; i += lanes) {
        std::int32_t const count = std::min(lanes, n - i);
        floats const gate = load(gate_up + i, count);
        store(out + i, gate / (exponential(-gate) + 1.0F) * load(gate_up + n + i, count), count);
    }
}

MULTIDRAFT_EXAMPLE_CLONES
void rotate(float* head, float const* cosines, float const* sines, std::int32_t half) {
    for (std::int32_t i = 0; i < half; i += lanes) {
        std::int32_t const count = std::min(lanes, half - i);
        floats const a = load(head + i, count);
        floats const b = load(head + half + i, count);
        floats const c = load(cosines + i, count);
        floats const s = load(sines + i, count);
        store(head + i, a * c - b * s, count);
        store(head + half + i, b * c + a * s, count);
    }
}

MULTIDRAFT_EXAMPLE_CLONES
void attend(attention_view const& cache, float const* queries, std::int32_t heads, std::span<run const> attended,
            float* scratch, float* out) {
    for (; heads >= 4; heads -= 4, queries += 4 * cache.head_dim, out += 4 * cache.head_dim) {
        attend_heads<4>(cache, queries, attended, scratch, out);
    }
    if (heads == 3) attend_heads<3>(cache, queries, attended, scratch, out);
    if (heads == 2) attend_heads<2>(cache, queries, attended, scratch, out);
    if (heads == 1) attend_heads<1>(cache, queries, attended, scratch, out);
}

}  // namespace multidraft::examples::kernels
