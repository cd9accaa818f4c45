// Draws the tokens of a tree from q, verifies them against p and returns the number of accepted ones and the next
// token.
#include "verify.hpp"

#include "multidraft/draft/sequential.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/logit_rows.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/tree/compaction.hpp"
#include "multidraft/tree/mask.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/version.hpp"

int verify(std::vector<std::int32_t> const& parents, std::vector<std::int32_t>& tokens, float const* p, float const* q,
           int vocabulary, std::uint64_t seed) {
    using namespace multidraft;
    host_group const g;
    addressed_source source{addressed_uniforms(seed)};
    auto const nodes = static_cast<index_t>(parents.size());
    tree_view const tree{parents, tokens};
    for (node_id v = 0; v < nodes; ++v) {
        auto const children = tree.children(v);
        auto row = process_logits(g, row_view<float>(q + v * vocabulary, vocabulary), {});
        auto const drawn =
            draft::sequential{}(g, row.row, row.sums, source, {0, v},
                                {tokens.data() + children.first, static_cast<std::size_t>(children.count)});
        if (drawn.count < children.count) return -1;
    }
    ancestor_mask const mask(parents);
    std::vector<node_id> path(parents.size());
    auto const result = verify::recursive_rejection<law::sequential>{}(
        g, drafted<law::sequential>{tree}, target_rows(logit_rows<float>({p, nodes, vocabulary}, {})),
        draft_rows(logit_rows<float>({q, nodes, vocabulary}, {})), source, 0, path);
    return mask.size() == nodes ? 1000 * result.accepted + result.next : -1;
}
