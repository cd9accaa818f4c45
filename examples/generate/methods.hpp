// The methods that `generate` knows, by the names of the README's table.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "generate/continued_text.hpp"
#include "multidraft/base/config.hpp"
#include "multidraft/control/controlled_lookup_drafter.hpp"
#include "multidraft/decode/options.hpp"
#include "multidraft/decode/text_state.hpp"
#include "multidraft/tree/topology.hpp"
#include "transformer/block_drafter.hpp"
#include "transformer/eagle_head.hpp"
#include "transformer/transformer.hpp"
#include "tree_choices.hpp"

namespace multidraft::examples {

/// One way to generate text.
struct method {
    std::string name;     ///< `verifier/law`, or `verifier/how the tree is grown`; lossy ones begin with `lossy/`
    std::string law;      ///< of the candidates
    std::string summary;  ///< one line
    std::string tree;     ///< the shape it uses unless told otherwise; empty: it drafts nothing
    bool lossless = true;
    bool chains_only = false;
    std::function<generation(transformer& target, transformer& draft, topology const& shape,
                             std::span<token_id const> prompt, generation_options const&, token_callback const&)>
        run;
    bool forks_only = false;         ///< accepts only chains that branch at the root, K x 1 x 1 ..
    std::int32_t most_children = 0;  ///< of a node; 0: any number
    /// The same over trees that are chosen at each step, for methods whose trees are shapes; else empty.
    std::function<generation(transformer& target, transformer& draft, tree_choices& choices,
                             std::span<token_id const> prompt, generation_options const&, token_callback const&)>
        run_choices{};
    std::vector<std::string> verifiers{};  ///< which the choices choose among
    /// The same as `run` by the block drafter of the settings, in place of the draft model; else empty.
    decltype(run) run_block{};
    /// Whether its trees may be chosen from the rows of a block drafter: "best" (`best_first_shape`), "reach"
    /// (`reach_shape`).
    bool trees_from_rows = false;
    bool short_rows = false;  ///< whether rows of a block drafter may have their likeliest tokens only
    /// The same as `run` by the head of EAGLE-3 of the settings, in place of the draft model; else empty.
    decltype(run) run_head{};
    decltype(run_choices) run_head_choices{};  ///< the same as `run_choices`
};

/// Tokens of a row of a block drafter that has fewer tokens than its target, unless told otherwise.
inline constexpr std::int32_t default_candidates = 256;

/// Children of a node, at most, in trees from the rows of a block drafter.
inline constexpr std::int32_t most_children_from_rows = 16;

/// Settings of single methods besides the tree: set by the command line before the first run.
struct method_settings {
    std::string second_draft;   ///< directory of the second draft model
    std::string early_stop;     ///< directory of the decision models' weights
    std::string block_drafter;  ///< directory of the target's block drafter; empty: no such drafter
    std::string eagle_head;     ///< directory of the target's head of EAGLE-3; empty: no such drafter
    transformer_options models;
    double least = 0.1;        ///< best_first, trees from rows: the least worth of a draw
    std::int32_t budget = 16;  ///< trees from rows: drafted nodes at most
    bool by_reach = false;     ///< trees from rows: by the reach of each node, not best first
    /// Trees from rows and look-ups: chooses their nodes at each step; null: nothing does.
    budget_controller* choices = nullptr;
    /// Block drafters: the likeliest tokens of a row that are read of it, by methods with `short_rows`; 0: all.
    std::int32_t candidates = 0;
    /// Block drafters: both caches, kept from text to text; null: each text is read anew.
    continued_pair<transformer, block_drafter_model>* turns = nullptr;
    continued_pair<transformer, short_block_drafter>* short_turns = nullptr;  ///< those where rows are short
    std::string stop_by = "none";     ///< target_initialised: by which decision model: probabilities, hidden
    double stop_below = 0.4;          ///< early stopping: the probability below which a level is not drawn
    std::int32_t lookup_paths = 2;    ///< look-up: continuations; 0: none beside a block drafter's trees
    std::int32_t lookup_longest = 4;  ///< look-up: tokens of the longest match
    match_rates lookup_rates{};       ///< look-up, where its drafts are chosen: kept from text to text
    double fallback = 0.5;            ///< BiLD
    float rollback = 3.0F;            ///< BiLD, nats
    float joint_threshold = 0.1F;     ///< MTAD
    std::int32_t beams = 4;           ///< MTAD and joint decoding
    float typical_epsilon = 0.09F;    ///< typical acceptance
    float typical_delta = 0.3F;       ///< typical acceptance
};

/// The settings of this program. They are read when a method runs.
method_settings& settings();

/// The second draft model beside that draft, loaded on first use. Throws `std::runtime_error` as the others do, and for
/// another vocabulary.
transformer& second_draft(transformer const& draft);

/// The block drafter of the settings, loaded on first use for that target, which exposes from then on what it reads.
/// Throws `std::runtime_error` as the others do.
block_drafter_model& block_drafter_of(transformer& target);

/// Its short rows, of the settings' candidates.
short_block_drafter& short_block_drafter_of(transformer& target);

/// The same of the head of EAGLE-3.
eagle_head_model& eagle_head_of(transformer& target);

/// All methods. The first drafts nothing; the second is the default.
///
/// Their trees are the best ones measured for the shipped models (bench/results): where a row of the target's forward
/// call is nearly free, wide and deep; where it costs its multiplications, a short chain. The choice depends on the
/// kind of CPU, not on a clock: equal seeds give equal texts.
std::vector<method> const& all_methods();

/// Those of the drafter in the settings: all methods, or those of a block drafter or a head of EAGLE-3, whose `run`
/// takes no draft model.
std::vector<method> const& offered_methods();

/// The method that chooses its verifier too, of those for stratified trees: `--method auto`, in no list.
method const& automatic_method();

/// The offered method of that name, `auto` among them. Throws `std::runtime_error` that lists the names there are.
method const& find_method(std::string_view name);

// The parts of the list, one source file each, so that none takes long to compile.
void add_best_method(std::vector<method>& all);
void add_node_methods(std::vector<method>& all);
void add_ranked_methods(std::vector<method>& all);
void add_tree_methods(std::vector<method>& all);
void add_drafter_methods(std::vector<method>& all);
void add_early_stop_methods(std::vector<method>& all);
void add_lossy_methods(std::vector<method>& all);

// What methods of the list do with a block drafter.
void add_block_runs_by_node(std::vector<method>& all);
void add_block_runs_by_rank(std::vector<method>& all);
void add_block_runs_by_tree(std::vector<method>& all);
void add_block_runs_of_short_rows(std::vector<method>& all);

// What some of them do with a head of EAGLE-3.
void add_head_runs(std::vector<method>& all);

}  // namespace multidraft::examples
