// Verifiers of further laws, of paths and lossy ones with hostile rows and trees: `invalid_input` or a valid verdict.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "fuzz/problem.hpp"
#include "multidraft/draft/conditional_poisson.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/draft/top_paired.hpp"
#include "multidraft/lossy/joint_likelihood.hpp"
#include "multidraft/lossy/rollback.hpp"
#include "multidraft/lossy/target_initialised.hpp"
#include "multidraft/lossy/typical_acceptance.hpp"
#include "multidraft/verify/greedy_optimal.hpp"
#include "multidraft/verify/k_seq.hpp"
#include "multidraft/verify/merged.hpp"
#include "multidraft/verify/multi_path_block.hpp"
#include "multidraft/verify/multi_round.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/shared_randomness.hpp"
#include "multidraft/verify/spec_hub.hpp"
#include "support/optimal_transport.hpp"

namespace {

using namespace multidraft;

/// Two models by turns.
template <class Rows>
struct two_models {
    Rows const& even;
    Rows const& odd;

    [[nodiscard]] index_t rows() const { return even.rows(); }
    [[nodiscard]] index_t size() const { return even.size(); }
    template <group G>
    [[nodiscard]] auto operator()(G const& g, node_id node, index_t child) const {
        return child % 2 == 0 ? even(g, node) : odd(g, node);
    }
};

/// Runs a verifier whose constructor may refuse its numbers.
template <class Make>
void configured(Make&& make) {
    try {
        make();
    } catch (invalid_input const&) {
        return;
    }
}

/// Few enough tuples to be enumerated for every input.
bool is_small(fuzz::problem const& b) {
    std::int32_t most = 0;
    for (node_id const parent : b.parents)
        most = std::max(most, static_cast<std::int32_t>(std::count(b.parents.begin(), b.parents.end(), parent)));
    return b.vocabulary <= 4 && most <= 3;
}

template <class Target, class Draft>
void verify_all(fuzz::problem const& b, fuzz::bytes& in, Target const& target, Draft const& draft) {
    fuzz::verify_one<verify::k_seq<law::iid>>(b, target, draft);
    fuzz::verify_one<verify::multi_round<law::independent>>(b, target, two_models<Draft>{draft, draft});
    fuzz::verify_one<verify::multi_round<law::independent>>(b, target, two_models<Target>{draft, target});
    fuzz::verify_one<verify::multi_path_block>(b, target, draft);
    fuzz::verify_one<verify::spec_hub<law::top_paired>>(b, target, draft);
    fuzz::verify_one<verify::greedy_optimal<law::top_then_one>>(b, target, draft);
    fuzz::verify_one<verify::merged<verify::recursive_rejection<law::iid>>>(b, target, draft);
    if (is_small(b)) {
        fuzz::verify_one<multidraft::testing::optimal_transport<draft::iid>>(b, target, draft);
        fuzz::verify_one<multidraft::testing::optimal_transport<draft::stratified>>(b, target, draft);
        fuzz::verify_one<multidraft::testing::optimal_transport<draft::top_paired>>(b, target, draft);
        fuzz::verify_one<multidraft::testing::optimal_transport<draft::conditional_poisson>>(b, target, draft);
    }
    configured([&] {
        auto const lists = in.index(40);
        if (lists == 1 << 24) return;  // as many as a tree has nodes: no error, and as slow as that
        verify::shared_randomness const verifier(lists);
        fuzz::verify_one(b, target, verify::no_draft_rows{}, verifier);
    });
    using below = verify::recursive_rejection<law::sequential>;
    fuzz::verify_one<lossy::target_initialised<below>>(b, target, draft);
    fuzz::verify_one<lossy::typical_acceptance<law::deterministic>>(b, target, verify::no_draft_rows{});
    configured([&] {
        auto const eps = in.number();
        lossy::typical_acceptance<law::deterministic> const verifier(eps, in.number());
        fuzz::verify_one(b, target, verify::no_draft_rows{}, verifier);
    });
    configured([&] {
        lossy::joint_likelihood<law::deterministic> const verifier(in.number());
        fuzz::verify_one(b, target, draft, verifier);
    });
    configured([&] {
        lossy::rollback<law::iid> const verifier(in.number());
        fuzz::verify_one(b, target, draft, verifier);
    });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    fuzz::bytes in(data, size);
    bool const probabilities = in.byte() % 2 == 0;
    auto const b = fuzz::read_problem(in, true);
    fuzz::with_rows(b, probabilities, [&](auto const& target, auto const& draft) { verify_all(b, in, target, draft); });
    return 0;
}
