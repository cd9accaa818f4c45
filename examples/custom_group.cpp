// A group of your own: the row operations of a machine. This one is the host group with a meter: it counts how many
// entries each operation reads, which shows the cost of a verification.
//
// A group for real hardware is written the same way: the same dozen operations, with sums in the order fixed in
// group/group.hpp. Every sampler and verifier of the library then runs on it and takes the same decisions.
#include <cstdio>
#include <vector>

#include "multidraft/group/group_defaults.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

namespace md = multidraft;

class metered_group : public md::group_defaults<metered_group> {
    using defaults = md::group_defaults<metered_group>;

public:
    // What this group leaves to the library, which writes it in terms of the operations below. The concept `md::group`
    // requires every name, so that a misspelt one does not compile.
    using defaults::count_part;
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

    template <class Real>
    using chunk_sums_type = md::chunk_sums<Real>;

    explicit metered_group(long long& entries) : entries_(&entries) {}

    template <class F>
    auto sum(md::index_t n, F const& f) const {
        return read(n), host_.sum(n, f);
    }
    template <class F>
    auto max(md::index_t n, F const& f) const {
        return read(n), host_.max(n, f);
    }
    template <class F>
    md::index_t argmax(md::index_t n, F const& f) const {
        return read(n), host_.argmax(n, f);
    }
    template <class F>
    void top_k(md::index_t n, F const& f, md::span<md::token_id> out) const {
        read(n);
        host_.top_k(n, f, out);
    }
    template <class W>
    auto sum_chunks(md::index_t n, W const& w) const {
        return read(n), host_.sum_chunks(n, w);
    }
    template <class X, class Real>
    auto softmax(md::index_t n, X const& x, Real scale) const {
        return read(n), host_.softmax(n, x, scale);
    }
    // One chunk, however long the row.
    template <class Sums, class W>
    md::index_t inverse_cdf(Sums const& sums, md::index_t n, W const& w, double u,
                            md::span<md::token_id const> taken = {}) const {
        return read(n < md::chunk_size ? n : md::chunk_size), host_.inverse_cdf(sums, n, w, u, taken);
    }
    template <class Sums, class W>
    void update_chunk(Sums& sums, md::index_t n, W const& w, md::span<md::token_id const> taken, md::index_t i) const {
        read(n < md::chunk_size ? n : md::chunk_size);
        host_.update_chunk(sums, n, w, taken, i);
    }
    template <class Bin, class Mass>
    void histogram(md::index_t n, Bin const& bin, Mass const& mass, md::span<std::uint64_t> bins) const {
        read(n);
        host_.histogram(n, bin, mass, bins);
    }
    template <class F>
    void histogram_pairs(md::index_t n, F const& f, md::span<std::uint64_t> bins) const {
        read(n);
        host_.histogram_pairs(n, f, bins);
    }
    bool leader() const { return true; }
    void barrier() const {}

private:
    void read(md::index_t n) const { *entries_ += n; }

    md::host_group host_;
    long long* entries_;
};
static_assert(md::group<metered_group>);

int main() {
    md::index_t const vocabulary = 100'000;
    // The target has mass on the first half of the vocabulary, the draft on all of it.
    std::vector<float> p(static_cast<std::size_t>(vocabulary), 0.0F);
    for (std::size_t i = 0; i < p.size() / 2; ++i) p[i] = 2.0F / static_cast<float>(vocabulary);
    std::vector<float> const q(p.size(), 1.0F / static_cast<float>(vocabulary));

    for (md::token_id const candidate : {123, 77'000}) {
        long long entries = 0;
        metered_group const g(entries);
        md::probabilities<float> const target(p.data(), vocabulary);
        md::probabilities<float> const draft(q.data(), vocabulary);
        md::addressed_source source{md::addressed_uniforms(1)};
        md::token_id const candidates[] = {candidate};
        auto const v =
            md::verify::recursive_rejection<md::law::iid>{}.decide(g, target, draft, candidates, source, {0, 0});
        std::printf("candidate %d: %s; entries of the row that the group read: %lld\n", candidate,
                    v.child == 0 ? "accepted" : "rejected", entries);
    }
}

// Output:
// candidate 123: accepted; entries of the row that the group read: 0
// candidate 77000: rejected; entries of the row that the group read: 104096
