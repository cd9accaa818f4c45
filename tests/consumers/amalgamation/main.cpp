// Prints the bits of results of the library. Compiled with the headers and with the single header, the output must be
// the same.
#ifdef MULTIDRAFT_SINGLE_HEADER
#include "multidraft.hpp"
#else
#include "multidraft/analysis/acceptance.hpp"
#include "multidraft/base/float16.hpp"
#include "multidraft/draft/gumbel_top_k.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/logit_rows.hpp"
#include "multidraft/rows/softmax.hpp"
#include "multidraft/tree/mask.hpp"
#include "multidraft/tree/shape_text.hpp"
#include "multidraft/verify/naive.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#endif

#include <bit>
#include <cstdint>
#include <cstdio>
#include <vector>

using namespace multidraft;

template <class Sampler, class Verifier>
void run(char const* name, sampling_params w) {
    index_t const vocabulary = 9000;  // more than two chunks
    topology const shape = parse_shape("3x2x1");
    auto const nodes = static_cast<std::size_t>(shape.size());
    std::vector<bfloat16> p;
    std::vector<bfloat16> q;
    std::uint32_t state = 1;
    for (std::size_t i = 0; i < nodes * static_cast<std::size_t>(vocabulary); ++i) {
        state = state * 1664525U + 1013904223U;
        auto const shared = static_cast<float>(state >> 24) / 16.0F;
        p.emplace_back(shared);
        q.emplace_back(shared + static_cast<float>((state >> 16) & 0xffU) / 128.0F);
    }
    host_group const g;
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
        addressed_source source{addressed_uniforms(seed)};
        std::vector<token_id> tokens(nodes, 0);
        for (node_id v = 0; v < shape.size(); ++v) {
            auto row = process_logits(g, row_view<bfloat16>(q.data() + v * vocabulary, vocabulary), w);
            if (seed == 0) std::printf("%08x ", std::bit_cast<std::uint32_t>(row.row.mass()));
            [[maybe_unused]] auto const drawn =
                Sampler{}(g, row.row, row.sums, source, {5, v},
                          {tokens.data() + shape.first_child(v), static_cast<std::size_t>(shape.child_count(v))});
        }
        std::vector<node_id> path(nodes);
        drafted<typename Sampler::law> const tree{{shape.parents(), tokens}};
        auto const v =
            Verifier{}(g, tree, target_rows(logit_rows<bfloat16>({p.data(), shape.size(), vocabulary}, w)),
                       draft_rows(logit_rows<bfloat16>({q.data(), shape.size(), vocabulary}, w)), source, 5, path);
        std::printf("%s: %d accepted, then %d; drafted", name, v.accepted, v.next);
        for (auto const x : tokens) std::printf(" %d", x);
        std::printf("\n");
    }
}

int main() {
    run<draft::iid, verify::recursive_rejection<law::iid>>("iid", {.temperature = 0.7F});
    run<draft::sequential, verify::recursive_rejection<law::sequential>>("sequential", {.top_p = 0.9F});
    run<draft::gumbel_top_k, verify::recursive_rejection<law::sequential>>("gumbel_top_k", {.top_k = 100});
    run<draft::sequential, verify::naive<law::sequential>>("naive", {.min_p = 0.05F});
}
