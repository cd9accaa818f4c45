// A step of a batch: requests, the inputs of both models, draws, verdicts.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "errors.hpp"
#include "kernels.hpp"
#include "methods.hpp"
#include "multidraft.h"
#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/batch/arguments.hpp"
#include "multidraft/batch/batch_step.hpp"
#include "multidraft/batch/level_batch.hpp"
#include "multidraft/batch/row_batch.hpp"
#include "multidraft/batch/step_inputs.hpp"
#include "multidraft/methods/any_method_batch.hpp"
#include "multidraft/tree/allowed_trees.hpp"
#include "multidraft/tree/topology.hpp"
#include "pool.hpp"
#include "rows.hpp"
#include "structs.hpp"

namespace MULTIDRAFT_NAMESPACE::c_interface {
namespace {

/// The methods of a step, by the kernels of the library.
struct methods_of_handles {
    using choice = any_c_method;

    [[nodiscard]] static bool counts_certain(choice const& method) noexcept { return method.counts_certain(); }
    [[nodiscard]] static bool reads_draft(choice const& method) noexcept { return method.reads_draft(); }
    [[nodiscard]] static allowed_trees trees(choice const& method) noexcept { return method.trees(); }
    template <class Rows>
    static void draw(choice const& method, pool_policy const& policy, level_batch const& level, Rows const& q,
                     request_batch const& requests, children_batch const& out) {
        draft_rows_of(policy, method, level, q, requests, out);
    }
    [[nodiscard]] static std::size_t workspace_size(choice const& method, pool_policy const& policy,
                                                    std::int32_t requests, node_id nodes, std::int32_t depth) {
        return verify_workspace_size(policy, method, requests, nodes, depth);
    }
    template <class Target, class Draft>
    static void verify(choice const& method, pool_policy const& policy, tree_batch const& trees, Target const& p,
                       Draft const& q, request_batch const& requests, verdict_batch const& out,
                       workspace const& scratch) {
        verify_rows(policy, method, any_drafted_batch{trees, method.law_name()}, p, &q, requests, out, scratch);
    }
};

}  // namespace
}  // namespace MULTIDRAFT_NAMESPACE::c_interface

using namespace multidraft;
using namespace multidraft::c_interface;

/// A step, the shapes of its trees, the inputs returned last, and the entries that caches keep, the root's first.
struct md_step {
    basic_batch_step<methods_of_handles> inner;
    std::deque<topology> shapes;
    step_inputs inputs;
    std::vector<std::int32_t> kept_in_target, kept_in_draft;
};

namespace MULTIDRAFT_NAMESPACE::c_interface {
namespace {

md_rows checked_rows_of_step(md_rows const& r, char const* name) {
    if (r.kind != MD_LOGITS) refuse_kind(r, name, "the rows of a step are MD_LOGITS");
    if (r.sampling != nullptr)
        refuse(std::string(name) + ".sampling", "given", "a step has the sampling parameters of its requests");
    return r;
}

md_rows logits_of_step(md_rows const* given, char const* name) {
    return checked_rows_of_step(read_rows(given, name), name);
}

/// The same of the draft, which may have candidates.
md_rows draft_of_step(md_rows const* given) { return checked_rows_of_step(read_draft_rows(given, "draft"), "draft"); }

template <class T>
rows_of_batch<T> plain(md_rows const& r) {
    return {static_cast<T const*>(r.data), r.row_stride, r.vocabulary, r.row_of};
}

/// The members of a request as the struct names them. A call out of turn is the step's fault.
constexpr argument_name names_of_request[] = {{"shape", "request.parents"},
                                              {"text", "request.text"},
                                              {"id", "request.id"},
                                              {"sampling", "request.sampling"},
                                              {"draft_sampling", "request.draft_sampling"},
                                              {"in_target", "request.in_target"},
                                              {"in_draft", "request.in_draft"},
                                              {"add", "step"},
                                              {"add_reading", "step"}};

step_request request_of(md_step& step, md_step_request const* given) {
    md_step_request const r = read(given, "request");
    step_request result;
    result.text = array(r.text, r.text_size, "request.text");
    if (r.nodes < 0) refuse("request.nodes", r.nodes, "a tree has its root, or 0: no tree");
    if (r.nodes > 0)
        with_names({{"parents", "request.parents"}}, [&] {
            result.shape =
                &step.shapes.emplace_back(topology::from_parents(array(r.parents, r.nodes, "request.parents")));
        });
    result.seed = r.seed;
    result.id = r.id;
    result.sampling = sampling_of(r.sampling);
    if (r.draft_sampling != nullptr) result.draft_sampling = sampling_of(*r.draft_sampling);
    result.in_target = r.in_target;
    result.in_draft = r.in_draft;
    return result;
}

void write_inputs(md_step& step, md_step_inputs* out) {
    step_inputs const& in = step.inputs;
    out->count = static_cast<std::int64_t>(in.size());
    out->tokens = in.tokens.data();
    out->positions = in.positions.data();
    out->requests = in.requests.data();
    out->entries = in.entries.data();
    out->offsets = in.offsets.data();
    out->first_row = in.first_row;
    out->scored = in.scored.data();
    out->scored_count = static_cast<std::int64_t>(in.scored.size());
    out->mask_words = in.mask_words();
}

/// The entries that a cache keeps behind `context`, which is the root's: 0, then those of accepted nodes.
std::int64_t kept_of(kept_batch const& kept, std::int32_t b, std::vector<std::int32_t>& out) {
    out.assign(1, 0);
    out.insert(out.end(), kept.nodes_of(b), kept.nodes_of(b) + kept.counts[b]);
    return kept.bases[b];
}

}  // namespace
}  // namespace MULTIDRAFT_NAMESPACE::c_interface

md_status md_make_step(md_step** step) {
    return guarded([&] {
        refuse_null(step, "step");
        *step = std::make_unique<md_step>().release();
    });
}

void md_free_step(md_step* step) { delete step; }

md_status md_start_step(md_step* step) {
    return guarded([&] {
        refuse_null(step, "step");
        step->inputs = {};  // they are of the arrays that the step begins anew
        step->inner.start();
        step->shapes.clear();
    });
}

md_status md_add_request(md_step* step, md_method const* method, md_step_request const* request, std::int32_t* number) {
    return guarded([&] {
        refuse_null(step, "step");
        any_c_method const m = method_of(method);
        step_request const r = request_of(*step, request);
        std::int32_t const b = with_names(names_of_request, [&] { return step->inner.add(r, m); });
        if (number != nullptr) *number = b;
    });
}

md_status md_add_reading(md_step* step, md_step_request const* request, std::int32_t* number) {
    return guarded([&] {
        refuse_null(step, "step");
        step_request const r = request_of(*step, request);
        std::int32_t const b = with_names(names_of_request, [&] { return step->inner.add_reading(r); });
        if (number != nullptr) *number = b;
    });
}

md_status md_next_level(md_step* step, md_step_inputs* inputs) {
    return guarded([&] {
        refuse_null(step, "step");
        check_size(inputs, "inputs");
        step->inputs = with_names({{"next_level", "step"}}, [&] { return step->inner.next_level(); });
        write_inputs(*step, inputs);
    });
}

md_status md_target_inputs(md_step* step, md_step_inputs* inputs) {
    return guarded([&] {
        refuse_null(step, "step");
        check_size(inputs, "inputs");
        step->inputs = with_names({{"target_inputs", "step"}}, [&] { return step->inner.target_inputs(); });
        write_inputs(*step, inputs);
    });
}

md_status md_write_step_mask(md_step const* step, std::uint64_t* words, std::int64_t count) {
    return guarded([&] {
        refuse_null(step, "step");
        auto const out = array(words, count, "words");
        step->inputs.write_mask({out.data(), out.size()});
    });
}

md_status md_draw_level(md_step* step, md_pool* pool, md_rows const* draft) {
    return guarded([&] {
        refuse_null(step, "step");
        md_rows const q = draft_of_step(draft);
        pool_policy const policy(pool);
        if (q.candidates != nullptr) {
            with_names(names_of_candidates, [&] {
                with_names({{"draw", "step"}}, [&] { step->inner.draw(policy, candidates_of(q, "draft")); });
            });
            return;
        }
        with_element(q, "draft", [&](auto element) {
            using T = decltype(element);
            with_names({{"draw", "step"}}, [&] {
                if (q.adjustments == nullptr)
                    step->inner.draw(policy, plain<T>(q));
                else
                    step->inner.draw(policy, plain<T>(q), adjustments_of(q, "draft"));
            });
        });
    });
}

md_status md_verify_step(md_step* step, md_pool* pool, md_rows const* target, md_rows const* draft) {
    return guarded([&] {
        refuse_null(step, "step");
        md_rows const p = logits_of_step(target, "target");
        // Without rows of the draft the step refuses to verify what was drawn.
        md_rows q = MD_ROWS_INIT;
        if (draft != nullptr) {
            q = draft_of_step(draft);
            refuse_unlike(p, &q);
        }
        pool_policy const policy(pool);
        with_element(p, "target", [&](auto element) {
            using T = decltype(element);
            // The tokens of the trees are the step's.
            with_names({{"verify", "step"}, {"tokens", "step.tokens"}, {"of_draft", "draft.adjustments"}}, [&] {
                if (q.candidates != nullptr)
                    with_names(names_of_candidates, [&] {
                        step->inner.verify(policy, plain<T>(p), adjustments_of(p, "target"), candidates_of(q, "draft"));
                    });
                else if (p.adjustments == nullptr && q.adjustments == nullptr)
                    step->inner.verify(policy, plain<T>(p), plain<T>(q));
                else
                    step->inner.verify(policy, plain<T>(p), adjustments_of(p, "target"), plain<T>(q),
                                       adjustments_of(q, "draft"));
            });
        });
    });
}

md_status md_finish_request(md_step* step, std::int32_t number, md_step_result* result) {
    return guarded([&] {
        refuse_null(step, "step");
        check_size(result, "result");
        auto& inner = step->inner;
        auto const tokens = with_names({{"b", "number"}, {"tokens", "step"}}, [&] { return inner.tokens(number); });
        auto const path = inner.accepted(number);
        bool const decoded = number < inner.decoded();
        step->kept_in_target.clear();
        step->kept_in_draft.clear();
        result->tokens = tokens.data();
        result->token_count = static_cast<std::int64_t>(tokens.size());
        result->path = path.data();
        result->accepted = static_cast<std::int64_t>(path.size());
        result->in_target = inner.in_target(number);
        result->in_draft = inner.in_draft(number);
        result->target_context = decoded ? kept_of(inner.kept_in_target(), number, step->kept_in_target) : 0;
        result->draft_context = decoded ? kept_of(inner.kept_in_draft(), number, step->kept_in_draft) : 0;
        if (result->draft_context < 0) {  // the draft has read nothing of the request
            result->draft_context = 0;
            step->kept_in_draft.clear();
        }
        result->kept_in_target = step->kept_in_target.data();
        result->kept_in_target_count = static_cast<std::int64_t>(step->kept_in_target.size());
        result->kept_in_draft = step->kept_in_draft.data();
        result->kept_in_draft_count = static_cast<std::int64_t>(step->kept_in_draft.size());
    });
}
