// A draft law of your own: say what it is, draw from it, and let the compiler and the enumeration judge.
//
// The law here: the token that followed the last time comes first, whatever the draft thinks of it, then one draw from
// the draft without it. `verify::naive` fits every law, a new one too; verify::recursive_rejection<repeat_then_draw>
// does not compile, for p / q would be wrong for a token that was not drawn from q.
#include <cmath>
#include <cstdio>
#include <vector>

#include "multidraft/distribution/probabilities.hpp"
#include "multidraft/draft/sampler.hpp"
#include "multidraft/testing/enumerating.hpp"
#include "multidraft/verify/naive.hpp"

namespace md = multidraft;

// The law: an empty type with a name.
struct repeat_then_draw {
    static constexpr std::string_view name = "repeat_then_draw";
};

// Its sampler, over any group, row and source.
struct repeat_sampler {
    using law = repeat_then_draw;
    md::token_id last_time = 0;

    template <md::group G, md::distribution Q, class Ledger, md::draw_source Source>
    md::index_t operator()(G const& g, Q const& q, Ledger& sums, Source& source, md::place where,
                           md::span<md::token_id> out) const {
        if (out.empty()) return 0;
        out[0] = last_time;
        if (out.size() == 1) return 1;
        md::weight_of const w{q};
        g.reweigh(sums, q.size(), w, out.first(1), last_time);  // the draft's mass without that token
        if (!(sums.total > 0)) return 1;
        out[1] = source.pick(g, sums, q.size(), w, out.first(1), where(md::purpose::draft, 1));
        return 2;
    }
};
static_assert(md::draft_law<repeat_then_draw> && md::sampler<repeat_sampler>);

int main() {
    std::vector<double> const p{0.40, 0.25, 0.05, 0.30};
    std::vector<double> const q{0.10, 0.20, 0.60, 0.10};
    md::index_t const vocabulary = 4;

    // Every branch of drawing and verifying, with its probability: the exact law of the first token that comes out.
    std::vector<double> law(p.size(), 0.0);
    double accepted = 0;
    auto const branches = md::testing::enumerate([&](md::testing::enumerating_source& source) {
        md::host_group const g;
        md::probabilities<double> const row(q.data(), vocabulary);
        auto sums = g.weigh(vocabulary, md::weight_of{row});
        md::node_id const parents[] = {-1, 0, 0};
        md::token_id tokens[3] = {};
        repeat_sampler const draw{.last_time = 3};
        draw(g, row, sums, source, {0, 0}, {tokens + 1, 2});

        // A stride of 0: the same row after every node, which is enough for one level.
        md::probability_rows<double> const target(md::rows_view<double>(p.data(), 3, vocabulary, 0));
        md::drafted<repeat_then_draw> const tree{{parents, tokens}};
        md::node_id path[1];
        auto const v = md::verify::naive<repeat_then_draw>{}(g, tree, target, md::verify::unread{}, source, 0, path);
        md::token_id const first = v.accepted > 0 ? tokens[path[0]] : v.next;
        law[static_cast<std::size_t>(first)] += source.probability();
        accepted += v.accepted * source.probability();
    });

    double worst = 0;
    for (std::size_t i = 0; i < p.size(); ++i) worst = std::max(worst, std::abs(law[i] - p[i]));
    std::printf("%d branches, acceptance rate %.6f\n", static_cast<int>(branches), accepted);
    std::printf("the law is the target's: %s\n", worst < 1e-12 ? "yes" : "no");
    return worst < 1e-12 ? 0 : 1;
}

// Output:
// 30 branches, acceptance rate 0.433333
// the law is the target's: yes
