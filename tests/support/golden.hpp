// The golden pairs of rows and their rates, computed by an independent implementation in Python.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "multidraft/base/config.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

struct golden_case {
    std::vector<double> p;
    std::vector<double> q;
    index_t n;
    nlohmann::json rates;
    [[nodiscard]] double alpha(char const* name) const { return rates.at("alpha").at(name).get<double>(); }
    [[nodiscard]] bool has_alpha(char const* name) const { return rates.at("alpha").contains(name); }
    [[nodiscard]] double alpha_star(char const* name) const { return rates.at("alpha_star").at(name).get<double>(); }
};

/// All cases of tests/data/golden.json; those with few tokens include rates that need an enumeration.
inline std::vector<golden_case> golden_cases() {
    std::string const name = MULTIDRAFT_DATA_DIR "/golden.json";
    std::ifstream file(name);
    if (!file) throw std::runtime_error("cannot open " + name);
    auto const data = nlohmann::json::parse(file);
    std::vector<golden_case> result;
    for (auto const& c : data.at("cases"))
        result.push_back(
            {c.at("p").get<std::vector<double>>(), c.at("q").get<std::vector<double>>(), c.at("n").get<index_t>(), c});
    return result;
}

}  // namespace MULTIDRAFT_NAMESPACE::testing
