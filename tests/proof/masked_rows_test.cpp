// Masks and biases change the target, and verifiers are lossless for the changed target: exact laws of whole trees
// verified from logits.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/logit_rows.hpp"
#include "multidraft/testing/enumerating.hpp"
#include "multidraft/testing/exact_law.hpp"
#include "multidraft/testing/test_numbers.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/traversal.hpp"
#include "multidraft/verify/verifier.hpp"

namespace masked_rows_test {
namespace {

using namespace multidraft;
using multidraft::testing::text;

constexpr index_t vocabulary = 4;
constexpr host_group g;

/// Logits, a mask and a bias for each context of up to two tokens, as from a grammar and penalties.
struct adjusted_model {
    explicit adjusted_model(std::uint64_t seed, bool with_masks) {
        multidraft::testing::test_numbers numbers(seed);
        for (int c = 0; c < contexts; ++c) {
            std::uint32_t mask = 0;
            for (index_t i = 0; i < vocabulary; ++i) {
                logits.push_back(4 * numbers());
                if (!with_masks || numbers() < 0.6) mask |= 1U << i;
            }
            if (mask == 0) mask = 1U << numbers.below(vocabulary);
            masks.push_back(mask);
            offsets.push_back(static_cast<std::int64_t>(tokens.size()));
            for (index_t i = 0; i < vocabulary; ++i) {
                if (numbers() < 0.5) continue;
                tokens.push_back(i);
                values.push_back(static_cast<float>(3 * numbers() - 1.5));
            }
        }
        offsets.push_back(static_cast<std::int64_t>(tokens.size()));
    }
    static constexpr int contexts = 1 + vocabulary + vocabulary * vocabulary;

    [[nodiscard]] static int context_of(text const& t) {
        int c = 0;
        for (token_id const x : t) c = c * vocabulary + x + 1;
        return c;
    }
    /// The probability of a token after a text, straight from the definition.
    [[nodiscard]] double probability(text const& t, token_id x) const {
        auto const c = static_cast<std::size_t>(context_of(t));
        double weights[vocabulary];
        double sum = 0;
        for (index_t i = 0; i < vocabulary; ++i) {
            double logit = logits[c * vocabulary + static_cast<std::size_t>(i)];
            for (auto k = offsets[c]; k < offsets[c + 1]; ++k)
                if (tokens[static_cast<std::size_t>(k)] == i)
                    logit += static_cast<double>(values[static_cast<std::size_t>(k)]);
            weights[i] = (masks[c] >> i & 1U) != 0 ? std::exp(logit) : 0.0;
            sum += weights[i];
        }
        return weights[x] / sum;
    }

    std::vector<double> logits;
    std::vector<std::uint32_t> masks;
    std::vector<token_id> tokens;
    std::vector<float> values;
    std::vector<std::int64_t> offsets;
};

/// The rows of a tree's nodes as an engine lays them out: logits, words of masks, biases with offsets.
struct tree_rows {
    explicit tree_rows(adjusted_model const& of) : model(of) {}
    void add(text const& t) {
        auto const c = static_cast<std::size_t>(adjusted_model::context_of(t));
        for (std::size_t i = 0; i < vocabulary; ++i) logits.push_back(model.logits[c * vocabulary + i]);
        masks.push_back(model.masks[c]);
        for (auto k = model.offsets[c]; k < model.offsets[c + 1]; ++k) {
            tokens.push_back(model.tokens[static_cast<std::size_t>(k)]);
            values.push_back(model.values[static_cast<std::size_t>(k)]);
        }
        offsets.push_back(static_cast<std::int64_t>(tokens.size()));
    }
    [[nodiscard]] auto rows() const {
        return logit_rows(rows_view<double>(logits.data(), static_cast<index_t>(masks.size()), vocabulary),
                          sampling_params{}, {.allowed = {masks, 1}, .bias = {tokens, values, offsets}});
    }

    adjusted_model const& model;
    std::vector<double> logits;
    std::vector<std::uint32_t> masks;
    std::vector<token_id> tokens;
    std::vector<float> values;
    std::vector<std::int64_t> offsets{0};
};

/// The law of the first three tokens of a text whose first step verifies a tree of two children and one below each.
template <class Sampler, class Verifier>
std::map<text, double> law_of(adjusted_model const& target, adjusted_model const& draft) {
    std::map<text, double> law;
    auto const complete = [&](auto const& self, text const& t, double chance) -> void {
        if (t.size() >= 3) {
            law[t] += chance;
            return;
        }
        for (token_id x = 0; x < vocabulary; ++x) {
            double const p = target.probability(t, x);
            if (!(p > 0)) continue;
            text longer = t;
            longer.push_back(x);
            self(self, longer, chance * p);
        }
    };
    multidraft::testing::enumerate([&](multidraft::testing::enumerating_source& source) {
        std::vector<node_id> parents{none};
        std::vector<token_id> tokens{0};
        std::vector<text> texts{{}};
        tree_rows p(target), q(draft);
        std::size_t begin = 0;
        for (std::size_t const wanted : {std::size_t{2}, std::size_t{1}}) {
            std::size_t const end = tokens.size();
            for (std::size_t v = begin; v < end; ++v) {
                q.add(texts[v]);
                auto row = q.rows().with_sums(g, static_cast<node_id>(v));
                token_id drawn[2];
                auto const count = Sampler{}(g, row.row, row.sums, source, draw_site{0, static_cast<node_id>(v)},
                                             span<token_id>(drawn, wanted))
                                       .count;
                for (index_t k = 0; k < count; ++k) {
                    parents.push_back(static_cast<node_id>(v));
                    tokens.push_back(drawn[k]);
                    text longer = texts[v];
                    longer.push_back(drawn[k]);
                    texts.push_back(longer);
                }
            }
            begin = end;
        }
        for (std::size_t v = 0; v < texts.size(); ++v) {
            p.add(texts[v]);
            if (v >= begin) q.add(texts[v]);
        }
        std::vector<node_id> path(2);
        std::vector<std::byte> scratch(verify::scratch_bytes<Verifier>(static_cast<node_id>(tokens.size()), 2));
        drafted<typename Sampler::law> const tree{{parents, tokens}};
        verdict const v = verify::verify_tree(Verifier{}, g, tree, target_rows(p.rows()), draft_rows(q.rows()), source,
                                              0, span<node_id>(path), span<std::byte>(scratch));
        text out;
        for (std::int32_t k = 0; k < v.accepted; ++k)
            out.push_back(tokens[static_cast<std::size_t>(path[static_cast<std::size_t>(k)])]);
        out.push_back(v.next);
        complete(complete, out, source.probability());
    });
    return law;
}

std::map<text, double> law_of_target(adjusted_model const& target) {
    std::map<text, double> law;
    for (token_id a = 0; a < vocabulary; ++a)
        for (token_id b = 0; b < vocabulary; ++b)
            for (token_id c = 0; c < vocabulary; ++c) {
                double const chance =
                    target.probability({}, a) * target.probability({a}, b) * target.probability({a, b}, c);
                if (chance > 0) law[{a, b, c}] = chance;
            }
    return law;
}

template <class Sampler, class Verifier>
void expect_lossless(bool mask_draft) {
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
        adjusted_model const target(seed, true), draft(seed + 100, mask_draft);
        auto const law = law_of<Sampler, Verifier>(target, draft);
        EXPECT_LE(multidraft::testing::total_variation(law, law_of_target(target)), 1e-12) << "seed " << seed;
        // The mask matters: another target's law is far.
        EXPECT_GT(multidraft::testing::total_variation(law, law_of_target(adjusted_model(seed, false))), 1e-3)
            << "seed " << seed;
    }
}

TEST(masked_rows, recursive_rejection_has_the_law_of_the_masked_target) {
    for (bool const mask_draft : {true, false}) {
        expect_lossless<draft::iid, verify::recursive_rejection<law::iid>>(mask_draft);
        expect_lossless<draft::sequential, verify::recursive_rejection<law::sequential>>(mask_draft);
    }
}

TEST(masked_rows, traversal_has_the_law_of_the_masked_target) {
    for (bool const mask_draft : {true, false}) {
        expect_lossless<draft::iid, verify::traversal<law::iid>>(mask_draft);
        expect_lossless<draft::sequential, verify::traversal<law::sequential>>(mask_draft);
    }
}

}  // namespace
}  // namespace masked_rows_test
