// A directory for the files of a model that a test changes.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>

#include "examples/model_support.hpp"
#include "multidraft/base/abi.hpp"

namespace MULTIDRAFT_NAMESPACE::testing {

/// A directory of its own, removed at the end.
class model_files : public ::testing::Test {
protected:
    void SetUp() override {
        directory =
            std::filesystem::temp_directory_path() / ("multidraft_transformer_test_" + std::to_string(::getpid()));
        std::filesystem::remove_all(directory);
        std::filesystem::create_directories(directory);
        std::filesystem::copy_file(models / "draft-tiny" / "config.json", directory / "config.json");
    }
    void TearDown() override { std::filesystem::remove_all(directory); }

    static std::string read(std::filesystem::path const& file) {
        std::ifstream stream(file, std::ios::binary);
        return {std::istreambuf_iterator<char>(stream), {}};
    }
    void write(std::string const& name, std::string const& bytes) const {
        std::ofstream(directory / name, std::ios::binary | std::ios::trunc) << bytes;
    }
    /// A safetensors file of that header and data.
    static std::string safetensors(std::string const& header, std::string const& data) {
        std::uint64_t const length = header.size();
        std::string bytes(sizeof length, '\0');
        std::memcpy(bytes.data(), &length, sizeof length);
        return bytes + header + data;
    }
    /// The shipped smallest model's header and data.
    static std::pair<nlohmann::json, std::string> shipped() {
        std::string const bytes = read(models / "draft-tiny" / "model.safetensors");
        std::uint64_t length = 0;
        std::memcpy(&length, bytes.data(), sizeof length);
        return {nlohmann::json::parse(bytes.substr(8, length)), bytes.substr(8 + length)};
    }
    void write_changed(std::function<void(nlohmann::json&)> const& change) const {
        auto [header, data] = shipped();
        change(header);
        write("model.safetensors", safetensors(header.dump(), data));
    }
    [[nodiscard]] std::string load_error() const {
        auto const message =
            message_of<std::runtime_error>([&] { transformer_weights(directory, options_for(precision::f32)); });
        EXPECT_MESSAGE(message, directory.string());
        return message;
    }
    void change_config(std::string const& key, nlohmann::json const& value) const {
        nlohmann::json config = nlohmann::json::parse(read(models / "draft-tiny" / "config.json"));
        if (value.is_discarded()) {
            config.erase(key);
        } else {
            config[key] = value;
        }
        write("config.json", config.dump());
    }

    std::filesystem::path directory;
};

}  // namespace MULTIDRAFT_NAMESPACE::testing
