// JSON that a user wrote: read with errors that say where.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "multidraft/base/config.hpp"

namespace multidraft::examples {

/// The cases of a file {"cases": [{..}, ..]}. Throws `std::runtime_error` naming the file.
[[nodiscard]] inline nlohmann::json read_cases(std::filesystem::path const& file) {
    std::string const name = file.string();
    std::ifstream in(file, std::ios::binary);
    if (!in) throw std::runtime_error(name + ": " + std::strerror(errno));
    nlohmann::json data;
    try {
        data = nlohmann::json::parse(in);
    } catch (std::exception const& e) {
        throw std::runtime_error(name + ": " + e.what());
    }
    if (!data.is_object() || !data.contains("cases") || !data["cases"].is_array())
        throw std::runtime_error(name + ": must be an object with a list \"cases\"");
    auto cases = std::move(data["cases"]);
    for (std::size_t k = 0; k < cases.size(); ++k)
        if (!cases[k].is_object()) throw std::runtime_error(name + ": case " + std::to_string(k) + ": is no object");
    return cases;
}

/// The start of a JSON value, for an error message.
[[nodiscard]] inline std::string shown(nlohmann::json const& value) {
    constexpr std::size_t most = 60;
    std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    return text.size() > most ? text.substr(0, most) + ".." : text;
}

/// The member `key`. Throws `std::runtime_error` when there is none.
[[nodiscard]] inline nlohmann::json const& member(nlohmann::json const& object, char const* key) {
    auto const found = object.find(key);
    if (found == object.end()) throw std::runtime_error(std::string(key) + " is missing");
    return *found;
}

/// A list of numbers. Throws `std::runtime_error` naming `what` and the entry.
[[nodiscard]] inline std::vector<double> numbers(nlohmann::json const& value, std::string const& what) {
    if (!value.is_array()) throw std::runtime_error(what + " = " + shown(value) + ": must be a list of numbers");
    std::vector<double> result;
    result.reserve(value.size());
    for (std::size_t i = 0; i < value.size(); ++i) {
        if (!value[i].is_number())
            throw std::runtime_error(what + "[" + std::to_string(i) + "] = " + shown(value[i]) + ": must be a number");
        result.push_back(value[i].get<double>());
    }
    return result;
}

/// A whole number that fits. Throws `std::runtime_error` naming `what`.
[[nodiscard]] inline index_t whole(nlohmann::json const& value, std::string const& what) {
    std::optional<std::int64_t> number;
    if (value.is_number_unsigned()) {
        auto const n = value.get<std::uint64_t>();
        if (n <= static_cast<std::uint64_t>(std::numeric_limits<index_t>::max())) number = static_cast<std::int64_t>(n);
    } else if (value.is_number_integer()) {
        number = value.get<std::int64_t>();
    }
    if (!number || *number > std::numeric_limits<index_t>::max() || *number < std::numeric_limits<index_t>::min())
        throw std::runtime_error(what + " = " + shown(value) + ": must be a whole number");
    return static_cast<index_t>(*number);
}

}  // namespace multidraft::examples
