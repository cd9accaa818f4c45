// Writes the input of the ablation: the logits of both shipped models after the same tokens of the shipped texts.
//
//   multidraft_ablation_rows DIRECTORY TEXTS_OF_EACH_KIND EVERY
//
// DIRECTORY/target.npy and draft.npy: float32, one row per position, every EVERYth of the first 160 tokens of a text.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"

namespace {

using namespace multidraft;
using namespace multidraft::examples;

/// Version 1.0 of the format: a magic, the length of a header padded to 64 bytes, the header, the numbers.
void write_npy(std::string const& file, std::size_t rows, std::size_t columns, std::vector<float> const& values) {
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ", " +
                         std::to_string(columns) + "), }";
    header.append(63 - (10 + header.size()) % 64, ' ');
    header += '\n';
    std::ofstream out(file, std::ios::binary);
    out.write("\x93NUMPY\x01\x00", 8);
    out.put(static_cast<char>(header.size() & 0xffU)).put(static_cast<char>(header.size() >> 8U));
    out << header;
    out.write(reinterpret_cast<char const*>(values.data()),
              static_cast<std::streamsize>(values.size() * sizeof(float)));
    if (!out.flush()) throw std::runtime_error(file + ": cannot be written");
}

int run(std::string const& directory, std::size_t texts_of_each_kind, std::size_t every) {
    std::string const models = MULTIDRAFT_MODELS_DIR;
    std::ifstream in(models + "/held_out.json");
    if (!in) throw std::runtime_error(models + "/held_out.json: cannot be read");
    auto const texts = nlohmann::json::parse(in);
    for (char const* name : {"target", "draft"}) {
        transformer model(models + '/' + name);
        tokenizer const tokens(models + "/tokenizer.model", model.vocabulary());
        auto const vocabulary = static_cast<std::size_t>(model.vocabulary());
        std::vector<float> values;
        std::size_t rows = 0;
        for (auto const* kind : {"scripture", "definitions", "satire"}) {
            constexpr std::size_t first_text = 3;  // earlier ones begin with lists of names
            for (std::size_t i = first_text; i < first_text + texts_of_each_kind && i < texts.at(kind).size(); ++i) {
                auto ids = tokens.encode(texts.at(kind).at(i).get<std::string>());
                if (ids.size() > 160) ids.resize(160);
                std::vector<std::int32_t> positions(ids.size());
                std::iota(positions.begin(), positions.end(), 0);
                std::vector<float> logits(ids.size() * vocabulary);
                model.keep(0, {});
                model.forward(token_batch{ids, positions, 0, {}}, logits);
                for (std::size_t at = every; at < ids.size(); at += every, ++rows) {
                    auto const row = std::span<float const>(logits).subspan(at * vocabulary, vocabulary);
                    values.insert(values.end(), row.begin(), row.end());
                }
            }
        }
        write_npy(directory + '/' + name + ".npy", rows, vocabulary, values);
        std::printf("%s: %zu rows of %zu\n", name, rows, vocabulary);
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        if (argc != 4) throw std::runtime_error("arguments: DIRECTORY TEXTS_OF_EACH_KIND EVERY");
        auto const number = [&](int i) {
            int const x = std::atoi(argv[i]);
            if (x < 1) throw std::runtime_error(std::string(argv[i]) + ": a number of 1 or more is expected");
            return static_cast<std::size_t>(x);
        };
        return run(argv[1], number(2), number(3));
    } catch (std::exception const& e) {
        std::cerr << "multidraft_ablation_rows: " << e.what() << '\n';
        return 1;
    }
}
