// An engine whose method is chosen on the command line: draw a tree and verify it, by any method of the list.
//
// `choose_method` runs the default, `choose_method recursive_rejection/iid 3x2` another one with a tree of that shape,
// `choose_method --list` prints the names with their laws.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "multidraft/methods/any_method.hpp"
#include "multidraft/rows/logit_rows.hpp"
#include "multidraft/tree/shape_text.hpp"
#include "multidraft/tree/shapes.hpp"
#include "toy_engine.hpp"

namespace md = multidraft;

struct tree {
    std::vector<std::int32_t> parents{-1};
    std::vector<std::int32_t> tokens;
    std::vector<std::int32_t> certain{};  // certain children of each node, as returned by the sampler
    std::vector<std::int32_t> depths{0};

    std::vector<std::int32_t> text_of(std::vector<std::int32_t> const& text, std::int32_t node) const {
        std::vector<std::int32_t> path;
        for (std::int32_t v = node; v > 0; v = parents[static_cast<std::size_t>(v)])
            path.push_back(tokens[static_cast<std::size_t>(v)]);
        std::vector<std::int32_t> result = text;
        result.insert(result.end(), path.rbegin(), path.rend());
        return result;
    }
};

// The rows of a tree, one per node, as a model writes them.
struct model_rows {
    toy::model model;
    std::vector<float> logits{};

    float const* forward(std::vector<std::int32_t> const& text, std::size_t node) {
        if (logits.size() < (node + 1) * toy::row_stride) logits.resize((node + 1) * toy::row_stride);
        float* const row = logits.data() + node * toy::row_stride;
        toy::forward(model, text, row);
        return row;
    }
    md::logit_rows<float> rows(std::size_t nodes, md::sampling_params const& sampling) const {
        return {{logits.data(), static_cast<md::index_t>(nodes), toy::vocabulary, toy::row_stride}, sampling};
    }
};

using method_memory = md::method_memory<md::logit_rows<float>>;

// One step of one request; returns the number of accepted tokens.
int step(md::any_method const& method, md::topology const& shape, std::vector<std::int32_t>& text, std::uint64_t seed,
         md::sampling_params const& sampling, method_memory& kept) {
    md::draw_key const key{.seed = seed, .position = static_cast<std::int32_t>(text.size()) - 1};

    // 1. The tree, node by node. Children that cannot be drawn, for lack of tokens, are not in the tree.
    tree t{.tokens = {text.back()}};
    model_rows draft{toy::model::draft};
    std::vector<md::node_id> like{0};  // the node of the shape that each node corresponds to
    for (std::size_t v = 0; v < like.size(); ++v) {
        md::node_range const wanted = shape.children(like[v]);
        float const* const row = draft.forward(t.text_of(text, static_cast<std::int32_t>(v)), v);
        std::vector<md::token_id> children(static_cast<std::size_t>(wanted.count));
        auto const drawn = method.draw(md::row_view<float>(row, toy::vocabulary), sampling, key,
                                       {.node = static_cast<md::node_id>(v), .depth = t.depths[v]}, children);
        t.certain.push_back(drawn.certain);
        for (md::index_t k = 0; k < drawn.count; ++k) {
            t.parents.push_back(static_cast<std::int32_t>(v));
            t.tokens.push_back(children[static_cast<std::size_t>(k)]);
            t.depths.push_back(t.depths[v] + 1);
            like.push_back(wanted.first + k);
        }
    }

    // 2. The target reads the tree: one call in an engine.
    model_rows target{toy::model::target};
    for (std::size_t v = 0; v < like.size(); ++v) target.forward(t.text_of(text, static_cast<std::int32_t>(v)), v);

    // 3. The verdict. The tree carries the law by which it was drawn.
    std::vector<md::node_id> path(like.size());
    md::verdict const verdict = method.verify({{t.parents, t.tokens}, t.certain, method.law_name()},
                                              md::target_rows(target.rows(like.size(), sampling)),
                                              md::draft_rows(draft.rows(like.size(), sampling)), key, path, kept);
    for (int k = 0; k < verdict.accepted; ++k)
        text.push_back(t.tokens[static_cast<std::size_t>(path[static_cast<std::size_t>(k)])]);
    text.push_back(verdict.next);
    return verdict.accepted;
}

int main(int argc, char** argv) try {
    if (argc > 1 && std::strcmp(argv[1], "--list") == 0) {
        for (auto const name : md::method_names())
            std::printf("%-32s %s\n", std::string(name).c_str(),
                        std::string(md::parse_method(name).law_name()).c_str());
        return 0;
    }
    md::any_method const method = argc > 1 ? md::parse_method(argv[1]) : md::any_method{};
    md::topology const shape = md::parse_shape(argc > 2                                      ? argv[2]
                                               : method.trees() == md::allowed_trees::chains ? "chain:3"
                                               : method.trees() == md::allowed_trees::forks  ? "fork:3x2"
                                               : method.trees() == md::allowed_trees::pairs  ? "2x2"
                                                                                             : "3x2");
    std::vector<std::int32_t> text{7, 42};
    method_memory kept;
    int accepted = 0;
    for (int k = 0; k < 20; ++k) accepted += step(method, shape, text, 2024, {.temperature = 0.8F}, kept);
    std::printf("%s, tree %s: %d tokens in 20 steps, %d of them drafted\n", std::string(method.name()).c_str(),
                md::to_string(shape).c_str(), static_cast<int>(text.size()) - 2, accepted);
} catch (md::invalid_input const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
}

// Output:
// nested_ranked_block/stratified, tree 3x2: 60 tokens in 20 steps, 40 of them drafted
