// A tiny problem from the fuzzer's bytes: a tree's shape, rows of floats of every kind, and the target's own law.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <numeric>
#include <vector>

#include "fuzz/bytes.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/testing/kinds.hpp"
#include "multidraft/testing/small_models.hpp"

namespace multidraft::fuzz {

/// The input, and what follows from it: a short input is a random case, and each of its bytes can still be changed.
inline std::vector<std::uint8_t> continued(std::uint8_t const* data, std::size_t size, std::size_t length) {
    std::vector<std::uint8_t> out(data, data + std::min(size, length));
    std::uint64_t state = 0xcbf29ce484222325U;
    for (std::uint8_t const x : out) state = (state ^ x) * 0x100000001b3U;
    while (out.size() < length) {
        state += 0x9e3779b97f4a7c15U;
        std::uint64_t z = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9U;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
        z ^= z >> 31;
        for (int k = 0; k < 8 && out.size() < length; ++k) out.push_back(static_cast<std::uint8_t>(z >> (8 * k)));
    }
    return out;
}

/// In (0, 1).
inline double unit(bytes& in) { return (in.byte() * 256 + in.byte() + 0.5) * 0x1p-16; }

/// A float of any magnitude below 2^(highest - 127), subnormal ones too: 1.4e-45 and more.
inline double small_float(bytes& in, std::uint32_t highest) {
    return static_cast<double>(std::bit_cast<float>(1 + in.word() % (highest << 23)));
}

/// Truncates a row to the heaviest tokens, to those that make up a share of it, or to any.
inline void cut(std::vector<double>& row, bytes& in) {
    std::vector<std::size_t> order(row.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return row[a] > row[b]; });
    std::size_t kept = 1;
    switch (in.below(3)) {
        case 0:  // top-k
            kept = 1 + in.byte() % row.size();
            break;
        case 1: {  // top-p
            double const share = unit(in) * std::accumulate(row.begin(), row.end(), 0.0);
            double sum = row[order[0]];
            while (kept < row.size() && sum < share) sum += row[order[kept++]];
            break;
        }
        default: {  // a grammar's mask
            kept = row.size();
            unsigned const mask = in.byte();
            for (std::size_t i = 0; i < row.size(); ++i)
                if ((mask >> i & 1U) == 0) row[i] = 0;
        }
    }
    for (std::size_t k = kept; k < order.size(); ++k) row[order[k]] = 0;
}

/// A distribution in floats; `other`, the row of the other model, may be repeated.
inline std::vector<float> read_row(bytes& in, index_t vocabulary, std::vector<float> const& other) {
    std::vector<double> row(static_cast<std::size_t>(vocabulary));
    auto const kind = in.below(12);
    auto& top = row[in.byte() % row.size()];
    switch (kind) {
        case 0:
        case 1:
        case 2:  // any
            for (double& x : row) x = -std::log(unit(in));
            break;
        case 3: {  // a softmax, mild to steep
            double const scale = std::exp2(in.below(7));
            for (double& x : row) x = std::exp(-scale * unit(in));
            break;
        }
        case 4:  // ties
        case 5: {
            int const levels = 2 + in.below(3);
            for (double& x : row) x = in.below(levels);
            break;
        }
        case 6:  // tails at the end of the numbers
        case 7:
            for (double& x : row) x = in.byte() < 50 ? 0 : small_float(in, 28);
            top = 1;
            break;
        case 8:  // any magnitudes
            for (double& x : row) x = in.byte() < 30 ? 0 : small_float(in, 127);
            break;
        case 9:  // at the rounding of a row of floats
            for (double& x : row) x = in.byte() < 50 ? 0 : small_float(in, 127 - 10) + 0x1p-30 * unit(in);
            top = 1;
            break;
        case 10:  // the other model's, or nearly
            for (std::size_t i = 0; i < std::min(row.size(), other.size()); ++i)
                row[i] = static_cast<double>(other[i]) * (1 + 0x1p-23 * (in.below(9) - 4));
            break;
        default:
            top = 1;
            break;
    }
    if (in.byte() < 90) cut(row, in);
    if (!(std::accumulate(row.begin(), row.end(), 0.0) > 0)) top = 1;
    testing::normalise(row);
    return {row.begin(), row.end()};
}

/// The trees that a verifier accepts.
enum class trees {
    any,
    pairs,   ///< of up to two children a node
    forks,   ///< of paths that branch at the root
    chains,  ///< of one path
    level    ///< of one level
};

/// A tree's shape with few branches: mostly of one level.
inline testing::shape read_shape(bytes& in, trees which, index_t vocabulary) {
    testing::shape children{1 + in.below(6)};
    auto const deeper = in.byte();
    bool const forks = which == trees::forks;
    if (which == trees::level || deeper < 140 || vocabulary > 3) {
        // As many as have few tuples.
        double tuples = vocabulary;
        int most = 1;
        while (most < 6 && tuples * vocabulary <= (deeper < 12 ? 256 : 100)) tuples *= vocabulary, ++most;
        children[0] = std::min(children[0], most);
    } else if (deeper < 230 || vocabulary > 2) {
        testing::shape const shapes[] = {{1, 1}, {2, 1}, {1, 2}};
        children = shapes[children[0] % (forks ? 2 : 3)];
        if (vocabulary == 2 && deeper % 4 == 0) children = forks ? testing::shape{3, 1} : testing::shape{2, 2};
    } else {
        testing::shape const shapes[] = {{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {1, 1, 2}};
        children = shapes[children[0] % (forks ? 2 : 4)];
    }
    int const most = which == trees::chains ? 1 : which == trees::pairs ? 2 : 6;
    for (int& n : children) n = std::min(n, most);
    return children;
}

/// Models over one to five tokens, with rows for every text of a tree. Those of the target after a text of probability
/// 0 are NaN.
inline testing::basic_model_pair<float> read_models(bytes& in, index_t vocabulary, int depth) {
    testing::basic_model_pair<float> models{testing::basic_small_model<float>(vocabulary, depth),
                                            testing::basic_small_model<float>(vocabulary, depth)};
    for (std::size_t c = 0; c < models.target.contexts(); ++c) {
        bool const target_first = in.byte() % 2 == 0;
        if (target_first) models.target[c] = read_row(in, vocabulary, {});
        models.draft[c] = read_row(in, vocabulary, models.target[c]);
        if (!target_first) models.target[c] = read_row(in, vocabulary, models.draft[c]);
    }
    testing::poison_unreachable(models.target);
    return models;
}

/// The target's own law of texts of `length` tokens, its rows divided by their sums, in long double.
inline std::map<testing::text, long double> law_of_target(testing::basic_small_model<float> const& target,
                                                          std::size_t length) {
    std::map<testing::text, long double> law{{{}, 1}};
    std::map<testing::text, std::size_t> contexts{{{}, 0}};
    for (std::size_t k = 0; k < length; ++k) {
        std::map<testing::text, long double> longer;
        std::map<testing::text, std::size_t> after;
        for (auto const& [said, chance] : law) {
            std::vector<float> const& row = target[contexts.at(said)];
            long double sum = 0;
            for (float const x : row) sum += static_cast<long double>(x);
            for (std::size_t x = 0; x < row.size(); ++x) {
                if (!(row[x] > 0)) continue;
                testing::text text = said;
                text.push_back(static_cast<token_id>(x));
                after[text] = target.after(contexts.at(said), text.back());
                longer[text] = chance * static_cast<long double>(row[x]) / sum;
            }
        }
        law = std::move(longer);
        contexts = std::move(after);
    }
    return law;
}

/// The total variation of a law from the target's.
inline long double distance(std::map<testing::text, double> const& found,
                            std::map<testing::text, long double> const& wanted) {
    long double sum = 0;
    for (auto const& [said, chance] : found) {
        auto const other = wanted.find(said);
        sum += std::abs(static_cast<long double>(chance) - (other == wanted.end() ? 0 : other->second));
    }
    for (auto const& [said, chance] : wanted)
        if (!found.contains(said)) sum += chance;
    return sum / 2;
}

/// Prints the rows, so that they can be read back as they are.
inline void print_rows(char const* name, testing::basic_small_model<float> const& model) {
    for (std::size_t c = 0; c < model.contexts(); ++c) {
        std::fprintf(stderr, "    %s[%zu] = {", name, c);
        for (float const x : model[c]) std::fprintf(stderr, " %.9g,", static_cast<double>(x));
        std::fprintf(stderr, " }\n");
    }
}

}  // namespace multidraft::fuzz
