// The steps of the lossless methods that the sweep compares.
#include "paper/steps.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "multidraft/decode/speculative.hpp"
#include "multidraft/draft/iid.hpp"
#include "multidraft/draft/sequential.hpp"
#include "multidraft/draft/stratified.hpp"
#include "multidraft/verify/multi_path_block.hpp"
#include "multidraft/verify/nested_ranked_block.hpp"
#include "multidraft/verify/ranked_block.hpp"
#include "multidraft/verify/recursive_rejection.hpp"
#include "multidraft/verify/traversal.hpp"
#include "paper/remembered_text.hpp"

namespace multidraft::bench {
namespace {

using model = remembered_text<examples::transformer>;

/// Takes one step after a text and returns what it accepts.
using step = std::function<std::int64_t(std::span<token_id const>, generation_options const&)>;

template <class Sampler, class Verifier>
step make_step(model& target, model& draft, topology const& shape) {
    static_assert(Verifier::traits.lossless, "the text is the target's: a lossy method would have generated another");
    using loop = decltype(make_speculative<Sampler, Verifier>(target, draft, shape));
    auto const run = std::make_shared<loop>(make_speculative<Sampler, Verifier>(target, draft, shape));
    return [run](std::span<token_id const> text, generation_options const& options) {
        generation_metrics const m = (*run)(text, options, [](std::span<token_id const>) { return false; }).metrics;
        if (m.target_calls != 1) throw std::logic_error("a step is one call of the target");
        return m.accepted;
    };
}

struct entry {
    std::string_view name;
    step (*make)(model&, model&, topology const&);
};

// The verifiers of the same names in examples/generate, law by law: a tree is the next method's tree too.
constexpr entry known[] = {
    {"recursive_rejection/iid", make_step<draft::iid, verify::recursive_rejection<law::iid>>},
    {"traversal/iid", make_step<draft::iid, verify::traversal<law::iid>>},
    {"multi_path_block/iid", make_step<draft::iid, verify::multi_path_block>},
    {"ranked_block/iid", make_step<draft::iid, verify::ranked_block<law::iid>>},
    {"nested_ranked_block/iid", make_step<draft::iid, verify::nested_ranked_block<law::iid>>},
    {"recursive_rejection/sequential", make_step<draft::sequential, verify::recursive_rejection<law::sequential>>},
    {"traversal/sequential", make_step<draft::sequential, verify::traversal<law::sequential>>},
    {"ranked_block/stratified", make_step<draft::stratified, verify::ranked_block<law::stratified>>},
    {"nested_ranked_block/stratified", make_step<draft::stratified, verify::nested_ranked_block<law::stratified>>},
};

}  // namespace

std::vector<std::vector<std::int64_t>> accepted_by_position(std::span<std::string const> methods,
                                                            examples::transformer& of_target,
                                                            examples::transformer& of_draft, topology const& shape,
                                                            std::span<token_id const> text, std::size_t prompt,
                                                            std::uint32_t seeds, generation_options options) {
    for (auto const& name : methods)
        if (std::ranges::find(known, name, &entry::name) == std::end(known))
            throw std::runtime_error("the sweep has no method " + name);
    model target(of_target);
    model draft(of_draft);
    std::vector<std::pair<std::size_t, step>> steps;
    for (entry const& e : known)
        for (std::size_t m = 0; m < methods.size(); ++m)
            if (e.name == methods[m]) steps.emplace_back(m, e.make(target, draft, shape));

    options.max_tokens = shape.max_depth() + 1;
    options.stop_tokens.clear();
    std::vector<std::vector<std::int64_t>> accepted(methods.size(), std::vector<std::int64_t>(text.size() - prompt));
    for (std::size_t t = 0; t < text.size() - prompt; ++t)
        for (options.request = 1; options.request <= seeds; ++options.request)
            for (auto const& [m, take] : steps) accepted[m][t] += take(text.first(prompt + t), options);
    return accepted;
}

}  // namespace multidraft::bench
