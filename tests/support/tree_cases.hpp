// Trees, random models and golden cases for proofs of verifiers of whole trees.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/testing/exact_law.hpp"
#include "multidraft/testing/kinds.hpp"
#include "multidraft/testing/prove_lossless.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// Rounding of some thousand sums of doubles.
inline constexpr double proof_tolerance = 1e-12;

/// Expects that the output of one step has exactly the target's law, for models of all kinds in doubles and in floats.
template <class Sampler, class Verifier>
void expect_lossless_trees(std::vector<tree_case> const& cases, Sampler sampler = {}, Verifier verifier = {},
                           int seeds = 3) {
    static_assert(Verifier::traits.lossless);
    proof const found = prove_lossless(sampler, verifier, {.trees = cases, .seeds = seeds, .most_branches = 2000000});
    EXPECT_TRUE(found.holds()) << found.report();
    EXPECT_TRUE(found.left_out.empty()) << found.report();
}

/// A case of tests/data/golden_trees.json, computed by an independent program in Python.
struct golden_tree {
    shape children;
    model_pair models;
    nlohmann::json values;

    [[nodiscard]] double mean_accepted(char const* method) const {
        return values.at("mean_accepted").at(method).get<double>();
    }
    [[nodiscard]] double limit(char const* law) const { return values.at("limit").at(law).get<double>(); }
};

[[nodiscard]] inline std::vector<golden_tree> golden_trees() {
    std::string const name = MULTIDRAFT_DATA_DIR "/golden_trees.json";
    std::ifstream file(name);
    if (!file) throw std::runtime_error("cannot open " + name);
    auto const fill = [](small_model& model, nlohmann::json const& rows) {
        for (auto const& [key, row] : rows.items()) {
            small_model::context context = 0;
            std::istringstream tokens(key);
            for (std::string token; std::getline(tokens, token, ',');)
                context = model.after(context, static_cast<token_id>(std::stoi(token)));
            model[context] = row.get<std::vector<double>>();
        }
    };
    std::vector<golden_tree> result;
    auto const data = nlohmann::json::parse(file);
    for (auto const& one : data.at("cases")) {
        auto const children = one.at("children").get<shape>();
        auto const vocabulary = one.at("V").get<index_t>();
        auto const depth = static_cast<int>(children.size());
        model_pair models{small_model(vocabulary, depth), small_model(vocabulary, depth)};
        fill(models.target, one.at("p"));
        fill(models.draft, one.at("q"));
        result.push_back({children, std::move(models), one});
    }
    return result;
}

}  // namespace MULTIDRAFT_NAMESPACE::testing
