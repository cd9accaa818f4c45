// Ranked verifiers with hostile rows and trees: `invalid_input` or a valid verdict.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <type_traits>

#include "fuzz/problem.hpp"
#include "multidraft/methods/list.hpp"
#include "reference/methods.hpp"

namespace {

using namespace multidraft;

/// Every listed ranked method of a law.
template <class Law, class Target, class Draft>
void verify_law(fuzz::problem const& b, Target const& target, Draft const& draft) {
    auto const one = [&](auto listed) {
        using verifier = typename decltype(listed)::verifier;
        if constexpr (std::is_same_v<typename verifier::law, Law>) fuzz::verify_one<verifier>(b, target, draft);
    };
    methods::best::for_each(one);
    methods::by_rank::for_each(one);
    multidraft::testing::reference::methods::for_each(one);
}

/// Replaces the rows by those of a larger vocabulary: more ratios than a histogram has grid points, over many
/// magnitudes, some tokens without mass.
void enlarge(fuzz::problem& b, fuzz::bytes& in) {
    b.vocabulary = 20 + 2 * static_cast<index_t>(in.byte());
    auto const sharpness = static_cast<float>(in.below(24));
    auto const empty = static_cast<std::uint32_t>(in.byte());
    std::uint64_t state = in.word();
    auto const next = [&] {
        state = state * 0x5851f42d4c957f2dU + 0x14057b7ef767814fU;
        return static_cast<std::uint32_t>(state >> 40);  // 24 bits
    };
    auto const entries = b.parents.size() * static_cast<std::size_t>(b.vocabulary);
    for (auto* const rows : {&b.p, &b.q}) {
        rows->resize(entries);
        for (auto& x : *rows)
            x = (next() & 0x3ffU) < empty ? 0 : std::exp(sharpness * static_cast<float>(next()) * -0x1p-24F);
        for (std::size_t first = 0; first < entries; first += static_cast<std::size_t>(b.vocabulary)) {
            auto const row = std::span<float>(*rows).subspan(first, static_cast<std::size_t>(b.vocabulary));
            auto const sum = std::accumulate(row.begin(), row.end(), 0.0F);
            for (auto& x : row) x /= sum;  // of NaN where all are empty
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    fuzz::bytes in(data, size);
    auto const kind = in.byte();
    auto b = fuzz::read_problem(in);
    if (kind % 16 >= 12) enlarge(b, in);
    fuzz::with_rows(b, kind % 2 == 0, [&](auto const& target, auto const& draft) {
        if (kind % 4 < 2)
            verify_law<law::iid>(b, target, draft);
        else
            verify_law<law::stratified>(b, target, draft);
    });
    return 0;
}
