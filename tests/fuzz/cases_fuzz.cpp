// The JSON cases of the program `acceptance`, of nodes and of trees: refused, or rates between 0 and 1 and accepted
// lengths within the trees.
#include <cmath>
#include <cstdint>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "acceptance/cases.hpp"
#include "acceptance/tree_cases.hpp"
#include "fuzz/files.hpp"

namespace {

using namespace multidraft;

/// Few enough draws to be enumerated for every input.
bool is_small(nlohmann::json const& one) {
    auto const vocabulary = one.find("V");
    auto const children = one.find("children");
    if (vocabulary == one.end() || !vocabulary->is_number() || children == one.end() || !children->is_array())
        return true;
    double width = 1;
    double drafted = 0;
    for (auto const& n : *children) drafted += width *= n.is_number() ? n.get<double>() : 1.0;
    return !(std::pow(vocabulary->get<double>(), drafted) > 64);
}

void trees(std::filesystem::path const& path, std::uint8_t const* data, std::size_t size) {
    auto const given = nlohmann::json::parse(data, data + size, nullptr, false);
    if (!given.is_object() || !given.contains("cases")) return;
    for (auto const& one : given["cases"])
        if (one.is_object() && !is_small(one)) return;
    auto const result = examples::rates_of_trees(path);
    std::size_t at = 0;
    for (auto const& one : result.at("cases")) {
        auto const levels = static_cast<double>(given["cases"][at++]["children"].size());
        for (auto const& [name, mean] : one.at("mean_accepted").items())
            fuzz::require(mean.get<double>() >= 0 && mean.get<double>() <= levels * (1 + 1e-9), name.c_str());
        for (auto const& [name, distance] : one.at("total_variation").items())
            fuzz::require(distance.get<double>() >= 0 && distance.get<double>() <= 1e-6, name.c_str());  // lossless
    }
}

/// The row of a model: a distribution, with some tokens of little or no mass.
nlohmann::json row(fuzz::bytes& in, int vocabulary) {
    std::vector<double> weights;
    double sum = 0;
    for (int x = 0; x < vocabulary; ++x) {
        auto const byte = in.byte();
        double const small[] = {0, 1e-300, 1e-17, 1e-9};
        weights.push_back(byte < 40 ? small[byte / 10] : byte);
        sum += weights.back();
    }
    if (!(sum > 0)) weights[0] = sum = 1;
    for (double& w : weights) w /= sum;
    return weights;
}

/// One case of a tree that is as described, but for an entry at times.
std::string case_of(fuzz::bytes& in) {
    nlohmann::json one;
    int const vocabulary = 1 + in.below(3);
    std::vector<int> children;
    for (int levels = 1 + in.below(2); levels > 0; --levels) children.push_back(1 + in.below(vocabulary > 2 ? 2 : 1));
    one["V"] = vocabulary;
    one["children"] = children;
    std::vector<std::string> prefixes{""};
    for (std::size_t l = 0; l <= children.size(); ++l) {
        std::vector<std::string> next;
        for (auto const& prefix : prefixes) {
            one["p"][prefix] = row(in, vocabulary);
            if (l < children.size()) one["q"][prefix] = in.byte() < 40 ? one["p"][prefix] : row(in, vocabulary);
            for (int x = 0; x < vocabulary; ++x)
                next.push_back(prefix + (prefix.empty() ? "" : ",") + std::to_string(x));
        }
        prefixes = std::move(next);
    }
    if (in.byte() > 200) one["p"][""][0] = static_cast<double>(in.number());
    return nlohmann::json{{"cases", {one}}}.dump();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    if (size > 0 && data[0] >= 0x80) {
        fuzz::bytes in(data + 1, size - 1);
        auto const text = case_of(in);
        auto const* const bytes = reinterpret_cast<std::uint8_t const*>(text.data());
        auto const path = fuzz::file_of("cases.json", bytes, text.size());
        return fuzz::reads_or_refuses([&] { trees(path, bytes, text.size()); });
    }
    auto const path = fuzz::file_of("cases.json", data, size);
    fuzz::reads_or_refuses([&] {
        auto const result = examples::rates_of_cases(path);
        for (auto const& one : result.at("cases"))
            for (auto const& [name, rate] : one.at("alpha").items())
                fuzz::require(rate.get<double>() >= 0 && rate.get<double>() <= 1 + 1e-9, name.c_str());
    });
    return fuzz::reads_or_refuses([&] { trees(path, data, size); });
}
