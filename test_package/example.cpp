// One verification: a candidate that target and draft agree on is accepted.
#include <cstdio>

#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/probabilities.hpp"
#include "multidraft/verify/recursive_rejection.hpp"

int main() {
    using namespace multidraft;
    float const rows[2][3] = {{0.2F, 0.5F, 0.3F}, {0.1F, 0.1F, 0.8F}};
    node_id const parents[] = {none, 0};
    token_id const tokens[] = {0, 1};
    probability_rows<float> const both(rows[0], 2, 3);
    addressed_source source{addressed_uniforms(42)};
    node_id path[1];
    drafted<law::iid> const tree{{parents, tokens}};
    verdict const v = verify::recursive_rejection<law::iid>{}(host_group{}, tree, target_rows(both), draft_rows(both),
                                                              source, 0, path);
    std::printf("accepted %d, next token %d\n", v.accepted, v.next);
    return v.accepted == 1 && path[0] == 1 ? 0 : 1;
}
