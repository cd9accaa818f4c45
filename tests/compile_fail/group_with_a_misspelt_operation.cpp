// expect: not satisfied|does not satisfy
// expect: g\.count_part\(n, n, n, is\)
// errors: 1
// A group that means to count within a part of a row in its own way, but misspells it: the default is not taken.
#include "multidraft/group/group_defaults.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/softmax.hpp"

using namespace multidraft;

struct my_group : group_defaults<my_group> {
    using defaults = group_defaults<my_group>;
    using defaults::counters;
    using defaults::digit_bits;
    using defaults::fast_top_k;
    using defaults::histogram_bin_reaching;
    using defaults::histogram_total;
    using defaults::nth;
    using defaults::sum_chunks_of;
    using defaults::sums_from;
    using defaults::sums_of_one;
    using defaults::throws;
    using defaults::top_k_of_logits;

    template <class Is>
    [[nodiscard]] index_t count_parts(index_t /*n*/, index_t first, index_t size, Is const& is) const {
        index_t found = 0;
        for (index_t i = first; i < first + size; ++i) found += is(i) ? 1 : 0;
        return found;
    }

    // The other operations are the host's.
    template <class Real>
    using chunk_sums_type = chunk_sums<Real>;
    host_group host;
    // clang-format off
    template <class F> auto sum(index_t n, F const& f) const { return host.sum(n, f); }
    template <class F> auto max(index_t n, F const& f) const { return host.max(n, f); }
    template <class F> index_t argmax(index_t n, F const& f) const { return host.argmax(n, f); }
    template <class F> void top_k(index_t n, F const& f, span<token_id> out) const { host.top_k(n, f, out); }
    template <class W> auto sum_chunks(index_t n, W const& w) const { return host.sum_chunks(n, w); }
    template <class X> auto softmax(index_t n, X const& x, float scale) const { return host.softmax(n, x, scale); }
    template <class... A> index_t inverse_cdf(A const&... a) const { return host.inverse_cdf(a...); }
    template <class Sums, class... A> void update_chunk(Sums& sums, A const&... a) const { host.update_chunk(sums, a...); }
    template <class... A> void histogram(A const&... a) const { host.histogram(a...); }
    template <class... A> void histogram_pairs(A const&... a) const { host.histogram_pairs(a...); }
    bool leader() const { return true; }
    void barrier() const {}
    // clang-format on
};

index_t most_likely(my_group const& g, row_view<float> logits) { return most_likely_token(g, logits); }
