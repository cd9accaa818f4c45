// Lossy methods, which change the distribution of the text.
#include <algorithm>

#include "generate/decisions.hpp"
#include "generate/tree_methods.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/top_n.hpp"
#include "multidraft/lossy/joint_decoding.hpp"
#include "multidraft/lossy/joint_likelihood.hpp"
#include "multidraft/lossy/rollback.hpp"
#include "multidraft/lossy/target_initialised.hpp"
#include "multidraft/lossy/typical_acceptance.hpp"

namespace multidraft::examples {

void add_lossy_methods(std::vector<method>& all) {
    all.push_back({"lossy/bild", "iid",
                   "the draft alone until it is unsure; what the target finds too unlikely is rolled back (BiLD)",
                   "chain:8", false, true,
                   [](transformer& target, transformer& draft, topology const& shape, std::span<token_id const> prompt,
                      generation_options const& options, token_callback const& on_tokens) {
                       using chains = static_tree_drafter<transformer, draft::iid, lossy::fallback_rule>;
                       using rollback = lossy::rollback<law::iid>;
                       return make_speculative<rollback>(
                           target, chains(draft, shape, {}, lossy::fallback_rule(settings().fallback)),
                           rollback(settings().rollback))(prompt, options, on_tokens);
                   }});
    all.push_back({"lossy/target_initialised", "iid",
                   "the target's own tokens start the tree, the longest path wins (Improving MCSD 3.1)",
                   multiplies_by_tiles() ? "fork:4x4" : "fork:2x2", false, false,
                   [](transformer& target, transformer& draft, topology const& shape, std::span<token_id const> prompt,
                      generation_options const& options, token_callback const& on_tokens) {
                       std::int32_t const width = std::max(1, shape.child_count(0));
                       std::int32_t const depth = shape.max_depth();
                       method_settings const& s = settings();
                       if (s.stop_by == "probabilities")
                           return lossy::target_initialised_decoding(target, draft, width, depth,
                                                                     load_probability_stop(s.early_stop, s.stop_below))(
                               prompt, options, on_tokens);
                       if (s.stop_by == "hidden")
                           return lossy::target_initialised_decoding(
                               target, draft, width, depth,
                               load_hidden_state_stop(s.early_stop, draft.hidden_size(), s.stop_below))(prompt, options,
                                                                                                        on_tokens);
                       return lossy::target_initialised_decoding(target, draft, width, depth)(prompt, options,
                                                                                              on_tokens);
                   },
                   true});
    all.push_back(
        {"lossy/joint_likelihood", "deterministic",
         "a likely chain of the draft, its longest prefix that the target finds as likely (MTAD Alg. 1)", "chain:4",
         false, true,
         [](transformer& target, transformer& draft, topology const& shape, std::span<token_id const> prompt,
            generation_options const& options, token_callback const& on_tokens) {
             using verifier = lossy::joint_likelihood<law::deterministic>;
             return make_speculative<verifier>(
                 target,
                 lossy::beam_sampling_drafter<transformer>(draft, settings().beams, std::max(1, shape.max_depth())),
                 verifier(settings().joint_threshold))(prompt, options, on_tokens);
         }});
    all.push_back({"lossy/joint_decoding", "none",
                   "the likeliest of some sequences of the target, so many tokens at a time (MTAD 3.1); no draft",
                   "chain:4", false, true,
                   [](transformer& target, transformer&, topology const& shape, std::span<token_id const> prompt,
                      generation_options const& options, token_callback const& on_tokens) {
                       return lossy::joint_decoding(target, settings().beams, std::max(1, shape.max_depth()))(
                           prompt, options, on_tokens);
                   }});
    all.push_back({"lossy/typical_acceptance", "deterministic",
                   "the longest path of candidates that the target finds typical enough (Medusa)", default_tree(),
                   false, false,
                   [](transformer& target, transformer& draft, topology const& shape, std::span<token_id const> prompt,
                      generation_options const& options, token_callback const& on_tokens) {
                       using drafter = static_tree_drafter<transformer, draft::top_n>;
                       using verifier = lossy::typical_acceptance<law::deterministic>;
                       return make_speculative<verifier>(
                           target, drafter(draft, shape),
                           verifier(settings().typical_epsilon, settings().typical_delta))(prompt, options, on_tokens);
                   }});
}

}  // namespace multidraft::examples
