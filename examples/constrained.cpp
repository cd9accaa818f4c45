// A grammar and penalties: one bit per token for each node of the tree, and a bias of the few tokens in the text.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <vector>

#include "multidraft/draft/sequential.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/logit_rows.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "toy_engine.hpp"

namespace md = multidraft;

using text = std::vector<std::int32_t>;

// The grammar: an even token follows an odd one and vice versa. Engines get such words from xgrammar or llguidance, 32
// tokens per word.
constexpr int words_a_row = (toy::vocabulary + 31) / 32;
bool follows(std::int32_t last, std::int32_t token) { return (last + token) % 2 == 1; }

// An engine's data for each node of a tree: its row of logits, its mask and its penalties.
struct rows {
    std::vector<float> logits;
    std::vector<std::uint32_t> allowed;
    std::vector<std::int32_t> bias_tokens;
    std::vector<float> bias;
    std::vector<std::int64_t> bias_offsets{0};

    void add(toy::model which, text const& of) {
        logits.resize(logits.size() + toy::row_stride);
        toy::forward(which, of, logits.data() + logits.size() - toy::row_stride);
        std::size_t const first = allowed.size();
        allowed.resize(first + words_a_row);
        for (int i = 0; i < toy::vocabulary; ++i)
            if (follows(of.back(), i)) allowed[first + static_cast<std::size_t>(i / 32)] |= 1U << i % 32;
        // A frequency penalty of 0.6 and a presence penalty of 0.4. Tokens are in increasing order, as in a map.
        std::map<std::int32_t, int> counts;
        for (auto const token : of) ++counts[token];
        for (auto const& [token, count] : counts) {
            bias_tokens.push_back(token);
            bias.push_back(-0.6F * static_cast<float>(count) - 0.4F);
        }
        bias_offsets.push_back(static_cast<std::int64_t>(bias.size()));
    }

    // The rows as the library reads them: nothing is copied.
    auto view(md::sampling_params const& sampling) const {
        auto const nodes = static_cast<int>(bias_offsets.size()) - 1;
        return md::logit_rows(md::rows_view<float>(logits.data(), nodes, toy::vocabulary, toy::row_stride), sampling,
                              {.allowed = {allowed, words_a_row}, .bias = {bias_tokens, bias, bias_offsets}});
    }
};

// One step: a tree of three candidates at the root and one below each.
int step(text& so_far, std::uint64_t seed, md::sampling_params const& sampling) {
    md::host_group const g;
    md::addressed_source source{md::addressed_uniforms(seed)};
    auto const position = static_cast<std::int32_t>(so_far.size()) - 1;
    std::vector<std::int32_t> parents{-1};
    std::vector<std::int32_t> tokens{so_far.back()};
    std::vector<text> texts{so_far};
    rows target;
    rows draft;
    int begin = 0;
    for (int const wanted : {3, 1}) {
        int const end = static_cast<int>(tokens.size());
        for (int v = begin; v < end; ++v) {
            draft.add(toy::model::draft, texts[static_cast<std::size_t>(v)]);
            auto q = draft.view(sampling).with_sums(g, v);
            std::int32_t drawn[3];
            int const count = md::draft::sequential{}(g, q.row, q.sums, source, {position, v},
                                                      {drawn, static_cast<std::size_t>(wanted)})
                                  .count;
            for (int k = 0; k < count; ++k) {
                parents.push_back(v);
                tokens.push_back(drawn[k]);
                texts.push_back(texts[static_cast<std::size_t>(v)]);
                texts.back().push_back(drawn[k]);
            }
        }
        begin = end;
    }
    for (text const& t : texts) target.add(toy::model::target, t);

    std::int32_t path[2];
    md::drafted<md::law::sequential> const tree{{parents, tokens}};
    md::verdict const v = md::verify::recursive_rejection<md::law::sequential>{}(
        g, tree, md::target_rows(target.view(sampling)), md::draft_rows(draft.view(sampling)), source, position,
        {path, 2});
    for (int d = 0; d < v.accepted; ++d) so_far.push_back(tokens[static_cast<std::size_t>(path[d])]);
    so_far.push_back(v.next);
    return v.accepted;
}

int main() {
    text t{7, 42};
    int accepted = 0;
    for (int k = 0; k < 20; ++k) accepted += step(t, 2024, {.temperature = 0.8F});
    int wrong = 0;
    for (std::size_t i = 2; i < t.size(); ++i) wrong += follows(t[i - 1], t[i]) ? 0 : 1;
    std::vector<std::int32_t> different(t);
    std::sort(different.begin(), different.end());
    different.erase(std::unique(different.begin(), different.end()), different.end());
    std::printf("20 steps, %d drafted tokens accepted, text of %d tokens, %d of them different\n", accepted,
                static_cast<int>(t.size()), static_cast<int>(different.size()));
    std::printf("tokens that the grammar forbids: %d\n", wrong);
    return wrong;
}

// Output:
// 20 steps, 35 drafted tokens accepted, text of 57 tokens, 56 of them different
// tokens that the grammar forbids: 0
