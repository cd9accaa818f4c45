// The programs for comparing groups, over rows of many sizes and sampling parameters: a line of hashes each. The lines
// are the same for every compiler and its flags.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <vector>

#include "multidraft/base/exp_log.hpp"
#include "multidraft/base/fma.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "multidraft/verify/detail/block_weights.hpp"
#include "multidraft/verify/detail/rank_table.hpp"
#include "multidraft/verify/detail/ranked_pick.hpp"
#include "multidraft/verify/multi_path_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "support/group_programs.hpp"

namespace {

using namespace multidraft;
namespace mt = multidraft::testing;

/// Without library functions, so that nothing but the library's own arithmetic is compared.
std::vector<float> logits(index_t n, std::uint64_t seed) {
    mt::test_numbers numbers(seed);
    std::vector<float> row(static_cast<std::size_t>(n));
    for (float& x : row) {
        double const u = numbers();
        double v = 6 * (numbers() + numbers() + numbers() - 1.5);
        if (u < 0.1) v = -std::numeric_limits<double>::infinity();
        if (u > 0.9) v = 1.25;
        if (u > 0.9995) v += 8;
        x = static_cast<float>(v);
    }
    row[static_cast<std::size_t>(n) / 2] = 0.5F;
    return row;
}

/// Numbers that decisions are based on, to the last bit, since most decisions do not depend on it.
class bits {
public:
    void operator()(double x) { mix(__builtin_bit_cast(std::uint64_t, x)); }
    void operator()(float x) { mix(__builtin_bit_cast(std::uint32_t, x)); }
    [[nodiscard]] unsigned long long value() const { return value_; }

private:
    void mix(std::uint64_t x) { value_ = (value_ ^ x) * 0x9E3779B97F4A7C15U + (value_ >> 29); }
    unsigned long long value_ = 0;
};

unsigned long long numbers_of(mt::program_input<float> const& in) {
    host_group const g;
    bits record;
    auto const p = process_logits(g, in.p, in.w).row;
    auto const q = process_logits(g, in.q, in.w).row;
    record(p.mass());
    record(g.sum(p.size(), p));
    record(g.sum(p.size(), [p, q](index_t i) { return p(i) + q(i); }));
    record(g.sum(p.size(), [p](index_t i) { return p(i) > 0 ? fp::mul(p(i), fp::log(p(i))) : 0.0F; }));
    record(g.sum(p.size(), verify::residual{p, q, 0.7F}));
    record(g.sum(p.size(), verify::residual_of_path(p, q, 0.9F)));
    for (index_t const draws : {1, 2, 5}) {
        std::vector<token_id> children(static_cast<std::size_t>(draws) + 2);
        g.top_k(q.size(), weight_of{q}, span<token_id>(children));
        for (index_t const certain : {0, 2}) {
            verify::candidate_list const candidates(children, certain);
            static verify::detail::rank_table table;
            static verify::detail::pick_numbers<float> numbers;
            if (verify::detail::make_pick(g, p, q, candidates, verify::detail::best_rank_cdf{candidates.draws()}, table,
                                          numbers) != verify::detail::made::sets)
                continue;
            for (double const x : table.length) record(x);
            for (double const x : table.density) record(x);
            record(numbers.passed);
            record(numbers.certain_factor);
            record(g.sum(p.size(), numbers.law(p, q, candidates)));
        }
    }
    double first[4] = {0.25, 0.5, 0.125, 0.125};
    double next[4] = {};
    verify::detail::first_survivor const who{first, 4, 0.3};
    for (index_t i = 0; i < 50; ++i) {
        double const worse = static_cast<double>(p(i));
        double const same = static_cast<double>(q(i)) + 0.01;
        record(who.factor(worse, same));
        record(who.after(worse, same, same, next));
        for (double const x : next) record(x);
    }
    for (index_t i = 0; i < in.p.size(); ++i) {
        record(fp::exp(in.p(i)));
        record(fp::log(p(i)));
        record(exp_nonpositive<float>(1.7F)(in.p(i) - 40.0F));
        record(exponential_variate(static_cast<std::uint32_t>(i) * 2654435761U));
    }
    return record.value();
}

void run(index_t n, std::uint64_t seed, sampling_params const& w) {
    auto const p = logits(n, seed);
    auto q = p;
    auto const other = logits(n, seed + 100);
    for (std::size_t i = 0; i < q.size(); i += 3) q[i] = other[i];
    std::vector<token_id> tokens(64);
    std::vector<node_id> path(16);
    struct alignas(16) block {
        std::byte bytes[16];
    };
    std::vector<block> scratch(mt::tree_program_scratch / sizeof(block));
    mt::program_input<float> const in{
        row_view<float>(p.data(), n), row_view<float>(q.data(), n), w, seed, tokens.data(), path.data(),
        scratch.data()->bytes};
    auto const hash = [&](auto const& program) {
        std::vector<std::uint64_t> out(mt::recorder::capacity);
        mt::recorder record(out.data());
        program(host_group{}, in, record);
        std::uint64_t result = static_cast<std::uint64_t>(record.size());
        for (int k = 0; k < record.size(); ++k)
            result = (result ^ out[static_cast<std::size_t>(k)]) * 0x9E3779B97F4A7C15U + (result >> 29);
        return static_cast<unsigned long long>(result);
    };
    std::printf("%d %g %d %g: %016llx %016llx %016llx %016llx\n", n, static_cast<double>(w.temperature), w.top_k,
                static_cast<double>(w.top_p), numbers_of(in),
                hash([](auto const& g, auto const& i, mt::recorder& r) { mt::run_operations(g, i, r); }),
                hash([](auto const& g, auto const& i, mt::recorder& r) { mt::run_samplers(g, i, r); }),
                hash([](auto const& g, auto const& i, mt::recorder& r) { mt::run_verifiers(g, i, r); }));
}

}  // namespace

int main() {
    std::uint64_t seed = 1;
    for (sampling_params const& w :
         {sampling_params{}, sampling_params{.temperature = 0.7F, .top_k = 50, .top_p = 0.9F},
          sampling_params{.temperature = 1.3F}, sampling_params{.temperature = 0.3F, .min_p = 0.001F}})
        for (index_t const n : {300, 4096, 9000, 50257}) run(n, seed++, w);
    return 0;
}
