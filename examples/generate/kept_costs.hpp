// The costs of steps on this machine, measured once and kept in the user's cache: equal seeds give equal texts by them.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "automatic_trees.hpp"
#include "available_threads.hpp"

namespace multidraft::examples {

/// `multidraft/costs` in `$XDG_CACHE_HOME` or, where that is no absolute path, in `~/.cache`, made where it is not
/// there; empty where nothing can be written to it. (A relative path is to be ignored: XDG Base Directory
/// Specification.)
inline std::filesystem::path directory_of_kept_costs() {
    std::filesystem::path cache;
    if (char const* named = std::getenv("XDG_CACHE_HOME"); named != nullptr && *named == '/')
        cache = named;
    else if (char const* home = std::getenv("HOME"); home != nullptr && *home != '\0')
        cache = std::filesystem::path(home) / ".cache";
    if (cache.empty()) return {};
    auto directory = cache / "multidraft" / "costs";
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    if (error) return {};
    auto const trial = directory / (std::to_string(::getpid()) + ".trial");
    bool const written = write_once(trial, "written");
    std::filesystem::remove(trial, error);
    return written ? directory : std::filesystem::path();
}

/// The processor's name as the system gives it, and the cores that this process may use.
inline std::string name_of_processor() {
    std::ifstream info("/proc/cpuinfo");
    std::string name;
    for (std::string line; name.empty() && std::getline(info, line);)
        if (auto const colon = line.find(": "); line.rfind("model name", 0) == 0 && colon != line.npos)
            name = line.substr(colon + 2);
    return name + " x " + std::to_string(available_threads());
}

/// A text as JSON holds it: what is no UTF-8, as paths may be, is replaced.
inline std::string as_json_text(std::string_view text) {
    auto const written =
        nlohmann::json(std::string(text)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    return nlohmann::json::parse(written).get<std::string>();
}

/// A model's files: where they are, or on any machine the last part of that, and their bytes, which decide what a call
/// costs.
inline std::string name_of_model(std::string const& model, bool with_folder = true) {
    std::error_code error;
    std::filesystem::path const path = std::filesystem::weakly_canonical(model, error);
    std::uintmax_t bytes = 0;
    if (std::filesystem::is_directory(path, error)) {
        for (auto const& file : std::filesystem::directory_iterator(path, error))
            if (file.path().extension() == ".safetensors") bytes += file.file_size(error);
    } else {
        bytes = std::filesystem::file_size(path, error);
    }
    return (with_folder ? path : path.filename()).string() + " of " + std::to_string(bytes) + " bytes";
}

/// When this program was built, where the system says which file it is: other kernels have other costs.
inline std::string name_of_program() {
    std::error_code error;
    auto const written = std::filesystem::last_write_time("/proc/self/exe", error);
    return "program of " + std::to_string(error ? 0 : written.time_since_epoch().count());
}

/// What kept costs depend on, in one line. `parts`: the models with their folders, the method and its nodes.
inline std::string what_costs_are_of(std::initializer_list<std::string> parts, time_conditions const& with) {
    std::string all = name_of_program() + ", " + name_of_processor();
    for (std::string const& part : parts) all += ", " + part;
    for (auto const& [name, value] : with) all += ", " + name + " " + value;
    return all;
}

/// The file in that directory for those costs: named by a hash (FNV-1a), so that each has its own.
inline std::filesystem::path file_of_kept_costs(std::filesystem::path const& directory, std::string_view what) {
    std::uint64_t hash = 14695981039346656037U;
    for (char const c : what) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
    constexpr char digits[] = "0123456789abcdef";
    std::string name;
    for (int shift = 60; shift >= 0; shift -= 4) name += digits[(hash >> shift) & 15U];
    return directory / (name + ".json");
}

/// The kept times of `what`. None where there are none, or a file that is not whole.
template <class Method>
std::optional<step_times> read_kept_times(std::filesystem::path const& file, std::string_view what, Method const& how) {
    try {
        std::ifstream in(file);
        if (!in || nlohmann::json::parse(in).at("of").template get<std::string>() != as_json_text(what)) return {};
        return read_times(file.string(), how);
    } catch (std::exception const&) {
        return {};
    }
}

/// The times of `what` that the directory has, or else those that `measure()` gives, which are then kept; and their
/// file. Of processes that measure at once all have the times of the first one.
template <class Method, class Measure>
std::pair<step_times, std::string> kept_times(std::filesystem::path const& directory, std::string_view what,
                                              Method const& how, time_conditions const& with, Measure const& measure) {
    auto const file = file_of_kept_costs(directory, what);
    if (auto known = read_kept_times(file, what, how)) return {std::move(*known), file.string()};
    std::error_code error;
    std::filesystem::remove(file, error);  // one that is not whole, or of other numbers
    step_times times = measure();
    auto json = to_json(times, how, with);
    json["of"] = as_json_text(what);
    write_once(file, json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    if (auto known = read_kept_times(file, what, how)) return {std::move(*known), file.string()};
    return {std::move(times), std::string()};
}

}  // namespace multidraft::examples
