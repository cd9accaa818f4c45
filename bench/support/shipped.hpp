// The shipped models and texts, for benchmark programs that continue them.
#pragma once

#include <cstddef>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "multidraft/core/config.hpp"
#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"

namespace multidraft::bench {

/// The shipped pair and the held-out texts. Throws `std::runtime_error` for a file that cannot be read.
class shipped {
public:
    shipped() : words_(models() + "/tokenizer.model", target.vocabulary()) {
        std::ifstream in(models() + "/held_out.json");
        if (!in) throw std::runtime_error(models() + "/held_out.json: cannot be read");
        texts_ = nlohmann::json::parse(in);
    }

    /// The first words of a text.
    [[nodiscard]] std::vector<token_id> prompt(std::string const& kind, std::size_t index, int words) const {
        auto const text = texts_.at(kind).at(index).get<std::string>();
        std::size_t end = 0;
        for (int w = 0; w < words && end != std::string::npos; ++w) end = text.find(' ', end + 1);
        return words_.encode(text.substr(0, end));
    }

    /// The directory of the models.
    static std::string models() { return MULTIDRAFT_MODELS_DIR; }
    /// Options of both models; 0 threads: all.
    static examples::transformer_options options(int threads) {
        examples::transformer_options o;
        o.threads = threads;
        o.tree_entries = 256;
        return o;
    }

    examples::transformer target{models() + "/target", options(1)};  ///< on one thread
    examples::transformer draft{models() + "/draft", options(1)};    ///< on one thread

private:
    examples::tokenizer words_;
    nlohmann::json texts_;
};

}  // namespace multidraft::bench
