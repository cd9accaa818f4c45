// A group that counts passes over rows.
#pragma once

#include <cstdint>
#include <type_traits>

#include "multidraft/base/span.hpp"
#include "multidraft/group/group.hpp"
#include "multidraft/group/group_defaults.hpp"
#include "multidraft/group/host_group.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// The host group, counting passes over a whole row.
class counting_group : public group_defaults<counting_group> {
public:
    using group_defaults<counting_group>::count_part;
    using group_defaults<counting_group>::counters;
    using group_defaults<counting_group>::digit_bits;
    using group_defaults<counting_group>::histogram_bin_reaching;
    using group_defaults<counting_group>::histogram_total;
    using group_defaults<counting_group>::nth;
    using group_defaults<counting_group>::throws;
    template <class Real>
    using chunk_sums_type = chunk_sums<Real>;
    static constexpr index_t fast_top_k = host_group::fast_top_k;

    explicit counting_group(std::int64_t& passes) : passes_(passes) {}

    [[nodiscard]] bool leader() const noexcept { return true; }
    void barrier() const noexcept {}
    template <class F>
    [[nodiscard]] auto sum(index_t n, F const& f) const {
        ++passes_;
        return g_.sum(n, f);
    }
    template <class F>
    [[nodiscard]] auto max(index_t n, F const& f) const {
        ++passes_;
        return g_.max(n, f);
    }
    template <class F>
    [[nodiscard]] index_t argmax(index_t n, F const& f) const {
        ++passes_;
        return g_.argmax(n, f);
    }
    template <class F>
    void top_k(index_t n, F const& f, span<token_id> out) const {
        ++passes_;
        g_.top_k(n, f, out);
    }
    template <class F>
    [[nodiscard]] bool top_k_of_logits(index_t n, F const& f, span<token_id> out) const {
        ++passes_;
        return g_.top_k_of_logits(n, f, out);
    }
    template <class W>
    [[nodiscard]] auto sum_chunks_of(index_t n, W const& w, span<token_id const> list) const {
        return g_.sum_chunks_of(n, w, list);
    }
    template <class W>
    [[nodiscard]] auto sum_chunks(index_t n, W const& w) const {
        ++passes_;
        return g_.sum_chunks(n, w);
    }
    template <class Real>
    [[nodiscard]] chunk_sums<Real> sums_of_one(index_t n, index_t where) const {
        return g_.template sums_of_one<Real>(n, where);
    }
    template <class Real>
    [[nodiscard]] chunk_sums<Real> sums_from(index_t n, Real const* values, Real total) const {
        return g_.sums_from(n, values, total);
    }
    template <class X, class Real = std::decay_t<std::invoke_result_t<X const&, index_t>>>
    [[nodiscard]] softmax_sums<Real> softmax(index_t n, X const& x, Real scale) const {
        ++passes_;
        return g_.softmax(n, x, scale);
    }
    template <class... Arguments>
    [[nodiscard]] index_t inverse_cdf(Arguments const&... arguments) const {
        return g_.inverse_cdf(arguments...);
    }
    template <class Real, class W>
    void update_chunk(chunk_sums<Real>& sums, index_t n, W const& w, span<token_id const> taken,
                      index_t changed) const {
        g_.update_chunk(sums, n, w, taken, changed);
    }
    template <class Bin, class Mass>
    void histogram(index_t n, Bin const& bin, Mass const& mass, span<std::uint64_t> bins) const {
        ++passes_;
        g_.histogram(n, bin, mass, bins);
    }
    template <class F>
    void histogram_pairs(index_t n, F const& f, span<std::uint64_t> bins) const {
        ++passes_;
        g_.histogram_pairs(n, f, bins);
    }

private:
    host_group g_;
    std::int64_t& passes_;
};
static_assert(group<counting_group>);

}  // namespace MULTIDRAFT_NAMESPACE::testing
