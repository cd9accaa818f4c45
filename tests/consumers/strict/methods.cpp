// Instantiates every listed method over rows of logits, and what is in no list; each draws and verifies a chain of two
// tokens.
#include <cstddef>
#include <vector>

#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/lossy/joint_likelihood.hpp"
#include "multidraft/lossy/rollback.hpp"
#include "multidraft/lossy/target_initialised.hpp"
#include "multidraft/lossy/typical_acceptance.hpp"
#include "multidraft/methods/list.hpp"
#include "multidraft/rows/logit_rows.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/verifier.hpp"
#include "verify.hpp"

namespace {

using namespace multidraft;

/// Draws a chain of two and verifies it. With p equal to q at least one token follows the root.
template <class Sampler, class Verifier, class Logit = float>
bool decides(Verifier const& verifier = {}) {
    host_group const g;
    addressed_source source{addressed_uniforms(3)};
    index_t const vocabulary = 5;
    std::vector<Logit> rows;
    for (int i = 0; i < 3 * vocabulary; ++i) rows.push_back(Logit(static_cast<float>(i % 4)));
    rows_view<Logit> const view(rows.data(), 3, vocabulary);
    sampling_params const w{.temperature = 0.8F, .top_k = 4, .top_p = 0.99F};
    std::vector<node_id> const parents{none, 0, 1};
    std::vector<token_id> tokens(3, 0);
    std::vector<index_t> certain(3, 0);
    for (node_id v = 0; v < 2; ++v) {
        auto row = process_logits(g, view(v), w);
        drawn_children const drawn =
            Sampler{}(g, row.row, row.sums, source, draw_site{0, v}, span<token_id>(tokens.data() + v + 1, 1));
        certain[static_cast<std::size_t>(v)] = drawn.certain;
    }
    logit_rows<Logit> const p(view, w);
    std::vector<node_id> path(2);
    std::vector<std::byte> scratch(verify::scratch_bytes<Verifier>(3, 2));
    auto const v =
        verify::verify_tree(verifier, g, make_drafted<typename Verifier::law>({parents, tokens}, certain),
                            target_rows(p), draft_rows(p), source, 0, span<node_id>(path), span<std::byte>(scratch));
    return v.accepted >= 0 && v.accepted <= 2 && v.next >= 0 && v.next < vocabulary;
}

}  // namespace

bool every_method_decides() {
    bool all = true;
    methods::of_shapes::for_each([&all](auto method) {
        using listed = decltype(method);
        all = decides<typename listed::sampler, typename listed::verifier>() && all;
    });
    return all && decides<draft::iid, verify::recursive_rejection<law::iid>, float16>() &&
           decides<draft::sequential, verify::recursive_rejection<law::sequential>, bfloat16>() &&
           decides<draft::iid, lossy::joint_likelihood<law::iid>>() &&
           decides<draft::iid, lossy::rollback<law::iid>>() &&
           decides<draft::top_n, lossy::typical_acceptance<law::deterministic>>() &&
           decides<draft::iid, lossy::target_initialised<verify::recursive_rejection<law::iid>>>();
}
