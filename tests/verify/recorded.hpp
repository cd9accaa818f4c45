// The comparison of recorded texts: a hash of the drafts and decisions of the first seeds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "multidraft/group/host_group.hpp"
#include "multidraft/law/law.hpp"
#include "multidraft/random/source.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/verify/verifier.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

class hash {
public:
    void mix(std::int32_t value) { value_ = (value_ ^ static_cast<std::uint32_t>(value)) * 0x100000001b3U; }
    [[nodiscard]] std::uint64_t value() const { return value_; }

private:
    std::uint64_t value_ = 0xcbf29ce484222325U;
};

inline std::vector<double> const q_row{0.25, 0.125, 0.5, 0.125};
inline std::vector<double> const p_row{0.375, 0.25, 0.125, 0.25};

/// The same row for each node.
inline std::vector<double> copies_of(std::vector<double> const& row, node_id nodes) {
    std::vector<double> all;
    for (node_id v = 0; v < nodes; ++v) all.insert(all.end(), row.begin(), row.end());
    return all;
}

/// The draft's rows for a verifier that reads one for each child.
struct rows_by_child {
    probability_rows<double> rows_;

    [[nodiscard]] index_t rows() const { return rows_.rows(); }
    [[nodiscard]] index_t size() const { return rows_.size(); }
    template <group G>
    [[nodiscard]] auto operator()(G const& g, node_id node, index_t) const {
        return rows_(g, node);
    }
};

/// A hash of the drafts and decisions of the first seeds.
template <class Sampler, class Verifier, class Law = typename Verifier::law>
std::uint64_t record(std::vector<node_id> const& parents) {
    host_group const g;
    hash result;
    auto const nodes = static_cast<node_id>(parents.size());
    for (std::uint64_t seed = 0; seed < 64; ++seed) {
        addressed_source source{addressed_uniforms(seed)};
        std::vector<token_id> tokens(parents.size(), 0);
        std::vector<index_t> certain(parents.size(), 0);
        auto const tree = make_drafted<Law>({parents, tokens}, certain);
        for (node_id v = 0; v < nodes; ++v) {
            probabilities<double> const row(q_row.data(), 4);
            auto sums = g.sum_chunks(4, weight_of{row});
            auto const children = tree.tree.children(v);
            auto const drawn = Sampler{}(g, row, sums, source, draw_site{11, v},
                                         {tokens.data() + children.first, static_cast<std::size_t>(children.count)});
            certain[static_cast<std::size_t>(v)] = drawn.certain;
        }
        std::vector<node_id> path(parents.size(), none);
        std::vector<std::byte> scratch(verify::scratch_bytes<Verifier>(nodes, nodes), std::byte{0xff});
        auto const p = copies_of(p_row, nodes);
        auto const q = copies_of(q_row, nodes);
        probability_rows<double> const target(p.data(), nodes, 4);
        probability_rows<double> const draft(q.data(), nodes, 4);
        verdict v;
        if constexpr (std::is_same_v<Law, law::independent>)
            v = verify::verify_tree(Verifier{}, g, tree, target_rows(target), draft_rows(rows_by_child{draft}), source,
                                    11, path, scratch);
        else
            v = verify::verify_tree(Verifier{}, g, tree, target_rows(target), draft_rows(draft), source, 11, path,
                                    scratch);
        for (token_id const x : tokens) result.mix(x);
        result.mix(v.accepted);
        result.mix(v.next);
        for (node_id const n : path) result.mix(n);
    }
    return result.value();
}

inline std::vector<node_id> const pairs{none, 0, 0, 1, 1, 2, 2};
inline std::vector<node_id> const wide{none, 0, 0, 0, 1, 1, 1};
inline std::vector<node_id> const uneven{none, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 4};
inline std::vector<node_id> const chained{none, 0, 1, 2};
inline std::vector<node_id> const forked{none, 0, 0, 0, 1, 2, 3, 4, 5, 6};

}  // namespace MULTIDRAFT_NAMESPACE::testing
