// Samplers and verifiers with hostile rows and trees: `invalid_input`, or a verdict that is one - a path of the tree
// and a token of the vocabulary.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fuzz/bytes.hpp"
#include "multidraft/core/error.hpp"
#include "multidraft/core/host_group.hpp"
#include "multidraft/distribution/probabilities.hpp"
#include "multidraft/distribution/softmax.hpp"
#include "multidraft/draft/gumbel_top_k.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/tree/topology.hpp"
#include "multidraft/verify/block.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/scratch.hpp"
#include "multidraft/verify/speculative_sampling.hpp"
#include "multidraft/verify/traversal.hpp"

namespace {

using namespace multidraft;

struct problem {
    index_t vocabulary = 1;
    std::vector<node_id> parents;
    std::vector<token_id> tokens;
    std::vector<float> p;
    std::vector<float> q;
    warp w;
    std::uint64_t seed = 0;
};

std::vector<float> rows(fuzz::bytes& in, std::size_t count) {
    std::vector<float> result(count);
    auto const kind = in.below(3);
    for (auto& x : result)
        x = kind == 0 ? in.number() : (in.byte() < 4 ? in.number() : static_cast<float>(in.byte()) / 256.0F);
    return result;
}

/// Mostly a tree with mostly drawn tokens, sometimes neither.
problem read(fuzz::bytes& in) {
    problem b;
    b.vocabulary = 1 + in.below(9);
    auto const nodes = in.below(9);
    node_id last = 0;
    bool const is_chain = in.byte() < 80;
    for (node_id i = 0; i < nodes; ++i) {
        bool const hostile = in.byte() > 250;
        if (i > 0 && !hostile) last = is_chain ? i - 1 : last + in.below(i - last);
        b.parents.push_back(hostile ? in.index(9) : (i == 0 ? none : last));
        b.tokens.push_back(in.byte() > 250 ? in.index(9) : in.below(b.vocabulary));
    }
    auto const entries = static_cast<std::size_t>(nodes) * static_cast<std::size_t>(b.vocabulary);
    b.p = rows(in, entries);
    b.q = in.byte() < 60 ? b.p : rows(in, entries);
    b.w.temperature = in.byte() < 40 ? in.number() : static_cast<float>(in.below(5)) * 0.4F;
    b.w.top_k = in.byte() < 200 ? 0 : in.index(10);
    b.w.top_p = in.byte() < 200 ? 1.0F : in.number();
    b.w.min_p = in.byte() < 200 ? 0.0F : in.number();
    b.seed = in.byte();
    return b;
}

template <class Verifier, class Target, class Draft>
void verify_one(problem const& b, Target const& target, Draft const& draft) {
    addressed_source source{addressed_uniforms(b.seed)};
    std::vector<node_id> path(b.parents.size(), -9);
    auto const nodes = static_cast<node_id>(b.parents.size());
    std::vector<std::byte> memory(verify::scratch_bytes<Verifier>(nodes, nodes) + 16);
    try {
        auto const v =
            verify::verify_tree(Verifier{}, host_group{}, drafted<typename Verifier::law>{{b.parents, b.tokens}},
                                target, draft, source, 3, span<node_id>(path), span<std::byte>(memory));
        fuzz::require(v.next >= 0 && v.next < b.vocabulary, "the next token is in the vocabulary");
        fuzz::require(v.accepted >= 0 && v.accepted < nodes, "no more is accepted than there is");
        node_id parent = 0;
        for (std::int32_t k = 0; k < v.accepted; ++k) {
            node_id const node = path[static_cast<std::size_t>(k)];
            fuzz::require(node > 0 && node < nodes, "the path is one of nodes");
            fuzz::require(b.parents[static_cast<std::size_t>(node)] == parent, "the path leads from parent to child");
            parent = node;
        }
    } catch (invalid_input const&) {
        for (node_id const node : path) fuzz::require(node == -9, "nothing of the caller's was changed");
    }
}

template <class Target, class Draft>
void verify_all(problem const& b, Target const& target, Draft const& draft) {
    verify_one<verify::recursive_rejection<law::iid>>(b, target, draft);
    verify_one<verify::recursive_rejection<law::sequential>>(b, target, draft);
    verify_one<verify::speculative_sampling<law::iid>>(b, target, draft);
    verify_one<verify::naive<law::deterministic>>(b, target, verify::unread{});
    verify_one<verify::block<law::iid>>(b, target, draft);
    verify_one<verify::traversal<law::iid>>(b, target, draft);
    verify_one<verify::traversal<law::sequential>>(b, target, draft);
}

template <class Sampler>
void sample(problem const& b, bool different) {
    host_group const g;
    addressed_source source{addressed_uniforms(b.seed)};
    try {
        auto row = warped(g, row_view<float>(b.p.data(), b.vocabulary), b.w);
        token_id out[12];
        auto const n = Sampler{}(g, row.row, row.weights, source, place{3, 0}, {out, 12});
        fuzz::require(n >= 1 && n <= 12, "a distribution has a token");
        for (index_t k = 0; k < n; ++k) {
            fuzz::require(out[k] >= 0 && out[k] < b.vocabulary, "a token is in the vocabulary");
            fuzz::require(row.row.weight(out[k]) > 0, "a token that was drawn has mass");
            for (index_t j = 0; different && j < k; ++j) fuzz::require(out[j] != out[k], "tokens are different");
        }
    } catch (invalid_input const&) {
        return;
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    fuzz::bytes in(data, size);
    bool const probabilities = in.byte() % 2 == 0;
    problem const b = read(in);
    auto const nodes = static_cast<index_t>(b.parents.size());
    rows_view<float> const p(b.p.data(), nodes, b.vocabulary);
    rows_view<float> const q(b.q.data(), nodes, b.vocabulary);
    if (probabilities) {
        verify_all(b, probability_rows<float>(p), probability_rows<float>(q));
        return 0;
    }
    try {
        validate(b.w);
    } catch (invalid_input const&) {
        return 0;
    }
    if (nodes > 0) {
        sample<draft::iid>(b, false);
        sample<draft::sequential>(b, true);
        sample<draft::gumbel_top_k>(b, true);
        sample<draft::top_n>(b, true);
    }
    verify_all(b, logit_rows<float>(p, b.w), logit_rows<float>(q, b.w));
    return 0;
}
