// A draft law of your own: define it, draw from it, and let the compiler and the proof check it.
//
// The law here: first a token that is likely for other reasons, whatever its probability under the draft, then draws
// from the draft without it. `verify::naive` accepts every law, including new ones.
// verify::recursive_rejection<guess_then_draw> does not compile, since p / q would be wrong for a token that was not
// drawn from q.
#include <cstddef>
#include <cstdio>

#include "multidraft/draft/sampler.hpp"
#include "multidraft/testing/prove_lossless.hpp"
#include "multidraft/verify/naive.hpp"

namespace md = multidraft;

// The law: an empty type that says what is known of it.
struct guess_then_draw {
    static constexpr md::law_traits traits{.name = "guess_then_draw"};
};

// Its sampler, over any group, row and source. It takes the sums by value, since it removes a token from them.
struct guess_sampler {
    using law = guess_then_draw;
    md::token_id guess = 0;

    template <md::group G, md::distribution Q, class Sums, md::draw_source Source>
    md::drawn_children operator()(G const& g, Q const& q, Sums sums, Source& source, md::draw_site site,
                                  md::span<md::token_id> out) const {
        if (out.empty()) return {};
        out[0] = guess;
        md::weight_of const w{q};
        g.update_chunk(sums, q.size(), w, out.first(1), guess);  // the draft's mass without that token
        for (std::size_t k = 1; k < out.size(); ++k) {
            auto const index = static_cast<md::index_t>(k);
            if (!md::can_draw(sums)) return {index};
            out[k] = source.categorical(g, sums, q.size(), w, out.first(1), site(md::purpose::draft, index));
        }
        return {static_cast<md::index_t>(out.size())};
    }
};
static_assert(md::draft_law<guess_then_draw> && md::sampler<guess_sampler>);

int main() {
    auto const proof = md::testing::prove_lossless(guess_sampler{}, md::verify::naive<guess_then_draw>{});
    std::printf("naive verification of %s is lossless: %s, in %d cases\n", guess_then_draw::traits.name.data(),
                proof.holds() ? "yes" : "no", proof.cases);
    if (!proof.holds()) std::puts(proof.report().c_str());

    // How often it accepts one of two children, and the bound alpha* of any lossless verifier.
    md::testing::model_pair models{md::testing::small_model(4, 1), md::testing::small_model(4, 1)};
    for (std::size_t context = 0; context < models.target.contexts(); ++context) {
        models.target[context] = {0.40, 0.25, 0.05, 0.30};
        models.draft[context] = {0.10, 0.20, 0.60, 0.10};
    }
    guess_sampler const sampler{.guess = 3};
    auto const found = md::testing::law_of_step(sampler, md::verify::naive<guess_then_draw>{}, {2}, models);
    std::printf("acceptance rate %.6f of at most %.6f\n", found.mean_accepted,
                md::testing::best_acceptance(sampler, models.target[0], models.draft[0], 2));
    return proof.holds() ? 0 : 1;
}

// Output:
// naive verification of guess_then_draw is lossless: yes, in 2112 cases
// acceptance rate 0.433333 of at most 0.683333
