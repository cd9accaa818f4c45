// Answers of a chat model with its hidden states: what train_drafter.py trains a drafter of such a model on.
//
//     answer_states MODEL.gguf PROMPTS.jsonl OUT/sampled-1 --seed 1
//
// A line of PROMPTS is {"prompt": TEXT, "temperature": T}; 0: the most probable token. Prompt number i is answered with
// draws of its own (of the seed and i), so the answers do not depend on what else is decoded at a time.
//
// Writes for every 64 prompts, N tokens in all:
//     OUT-000.tokens.npy  uint16 [N]          a text after the other: the prompt's turn and the answer with its end
//     OUT-000.states.npy  float16 [N, 3, H]   outputs of the layers of --layers at these tokens
//     OUT-000.texts.npy   int32 [texts, 4]    number of the prompt, 1000 x temperature, tokens, tokens before the
//     answer
// The system message is the same in all texts and not among these tokens: OUT-system.tokens.npy and .states.npy have
// it. What the head multiplies is not written: it is the norm of the last layer's output. No states are known at the
// last token of a text; they are zeros. Files that are there are kept, so a run can go on.
//
// With --only-prompts, OUT-prompts.tokens.npy and OUT-prompts.texts.npy have the turns of all prompts, to be answered by
// train_on_device.py, and there are no states.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "multidraft/base/float16.hpp"
#include "transformer/attended.hpp"
#include "transformer/chat_markup.hpp"
#include "transformer/gguf.hpp"
#include "transformer/host_layers.hpp"
#include "transformer/key_value_cache.hpp"
#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"

namespace {

using namespace multidraft;
using namespace multidraft::examples;

constexpr std::size_t texts_of_file = 64;

std::size_t at(std::int64_t i) noexcept { return static_cast<std::size_t>(i); }

struct text {
    std::size_t number = 0;  ///< of its prompt
    double temperature = 1;
    std::vector<token_id> tokens;  ///< without the system message
    std::size_t prompt_tokens = 0;
    std::vector<std::uint16_t> states;
};

/// A text that is being read or continued.
struct slot {
    std::unique_ptr<key_value_cache> cache;
    text now;
    std::size_t read = 0;  ///< tokens that are in the cache, beside the system message
    bool busy = false;
    std::mt19937_64 draw;
};

template <class T>
void write_npy(std::filesystem::path const& path, std::string const& type, std::vector<std::size_t> const& shape,
               std::span<T const> data) {
    std::string sizes;
    for (std::size_t const n : shape) sizes += std::to_string(n) + ", ";
    std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + sizes + "), }";
    header.resize((header.size() + 11 + 63) / 64 * 64 - 11, ' ');
    header += '\n';
    std::filesystem::path const part = path.string() + ".part";
    {
        std::ofstream file(part, std::ios::binary);
        file << std::string("\x93NUMPY\x01\x00", 8) << static_cast<char>(header.size() & 255U)
             << static_cast<char>(header.size() >> 8U) << header;
        file.write(reinterpret_cast<char const*>(data.data()), static_cast<std::streamsize>(data.size_bytes()));
        if (!file.flush()) throw std::runtime_error(part.string() + ": cannot be written");
    }
    std::filesystem::rename(part, path);
}

/// A token of softmax(logits / temperature), by one uniform number.
token_id sample(std::span<float const> logits, double temperature, double uniform, std::vector<float>& sums) {
    auto const largest = std::ranges::max_element(logits);
    if (temperature <= 0) return static_cast<token_id>(largest - logits.begin());
    sums.resize(logits.size());
    float const scale = static_cast<float>(1 / temperature);
    double total = 0;
    for (std::size_t i = 0; i < logits.size(); ++i) {
        float const x = (logits[i] - *largest) * scale;
        sums[i] = x < -25.0F ? 0.0F : std::exp(x);  // all of the smaller ones together are below 1e-6
        total += static_cast<double>(sums[i]);
    }
    double left = uniform * total;
    for (std::size_t i = 0; i < logits.size(); ++i) {
        left -= static_cast<double>(sums[i]);
        if (left < 0 && sums[i] > 0) return static_cast<token_id>(i);
    }
    return static_cast<token_id>(largest - logits.begin());
}

class answering {
public:
    answering(std::shared_ptr<transformer_weights const> weights, std::vector<std::int32_t> const& layers,
              std::int32_t slots)
        : layers_(std::move(weights)), attended_(block_rows), slots_(at(slots)) {
        layers_.tapped = layers;
        auto const& c = layers_.w.config;
        for (slot& s : slots_)
            s.cache = std::make_unique<key_value_cache>(c.layers, c.kv_heads, c.head_dim, layers_.w.capacity,
                                                        layers_.w.cache);
    }

    [[nodiscard]] std::vector<slot>& slots() noexcept { return slots_; }
    [[nodiscard]] std::size_t width() const noexcept { return layers_.tapped.size() * at(layers_.w.config.hidden); }

    /// Reads the system message in every slot and returns its states.
    std::vector<std::uint16_t> read_system(std::vector<token_id> const& tokens) {
        system_ = static_cast<std::int32_t>(tokens.size());
        std::vector<std::uint16_t> states;
        for (slot& s : slots_) {
            begin();
            for (std::int32_t k = 0; k < system_; ++k) add(s, tokens[at(k)], k);
            forward();
            states.clear();
            for (float const x : layers_.features) states.push_back(float16(x).bits);
        }
        return states;
    }

    /// One call: a row of every text that is being continued, and as many rows of prompts as there is place for. A text
    /// is continued by a token; `ended` says of which text that was the last one.
    template <class Ended>
    std::size_t step(std::size_t longest_answer, token_id end, Ended const& ended) {
        begin();
        std::vector<std::pair<slot*, std::size_t>> of_row;  // and whether its logits are wanted
        std::vector<slot*> wants;
        auto const take = [&](slot& s, std::size_t count) {
            for (; count > 0; --count, ++s.read) {
                of_row.emplace_back(&s, s.read);
                add(s, s.now.tokens[s.read], system_ + static_cast<std::int32_t>(s.read));
                if (s.read + 1 == s.now.tokens.size()) {
                    wanted_.push_back(static_cast<std::int32_t>(rows_.size()) - 1);
                    wants.push_back(&s);
                }
            }
        };
        for (bool const answers : {true, false})
            for (slot& s : slots_)
                if (s.busy && (s.read >= s.now.prompt_tokens) == answers)
                    take(s, std::min(s.now.tokens.size() - s.read, at(block_rows) - rows_.size()));
        if (rows_.empty()) return 0;
        forward();
        for (std::size_t r = 0; r < of_row.size(); ++r) {
            text& now = of_row[r].first->now;
            now.states.resize((of_row[r].second + 1) * width());
            for (std::size_t i = 0; i < width(); ++i)
                now.states[of_row[r].second * width() + i] = float16(layers_.features[r * width() + i]).bits;
        }
        auto const vocabulary = at(layers_.w.config.vocabulary);
        for (std::size_t k = 0; k < wants.size(); ++k) {
            slot& s = *wants[k];
            double const uniform = static_cast<double>(s.draw() >> 11U) * 0x1.0p-53;
            auto const row = std::span<float const>(logits_).subspan(k * vocabulary, vocabulary);
            token_id const next = sample(row, s.now.temperature, uniform, sums_);
            s.now.tokens.push_back(next);
            if (next == end || next == 0 || s.now.tokens.size() - s.now.prompt_tokens >= longest_answer) {
                s.now.states.resize(s.now.tokens.size() * width());
                s.busy = false;
                ended(s);
            }
        }
        return of_row.size();
    }

private:
    void begin() {
        rows_.clear();
        wanted_.clear();
        attended_.begin();
        layers_.features.clear();
        layers_.shown.clear();
    }
    void add(slot& s, token_id token, std::int32_t position) {
        rows_.push_back({token, position, position, s.cache.get()});
        attended_.add(0, position + 1);
        attended_.end_row();
    }
    void forward() {
        logits_.resize(wanted_.size() * at(layers_.w.config.vocabulary));
        layers_.forward(rows_, attended_, wanted_, logits_.data());
    }

    host_layers layers_;
    attended_entries attended_;
    std::vector<slot> slots_;
    std::int32_t system_ = 0;
    std::vector<layer_row> rows_;
    std::vector<std::int32_t> wanted_;
    std::vector<float> logits_, sums_;
};

std::string name_of(std::string const& out, std::size_t file) {
    std::string number = std::to_string(file);
    return out + '-' + std::string(3 - std::min<std::size_t>(3, number.size()), '0') + number;
}

void write(std::string const& name, std::vector<text>& texts, std::size_t width, std::size_t layers) {
    std::ranges::sort(texts, {}, &text::number);
    std::vector<std::uint16_t> tokens, states;
    std::vector<std::int32_t> table;
    for (text const& t : texts) {
        for (token_id const token : t.tokens) tokens.push_back(static_cast<std::uint16_t>(token));
        states.insert(states.end(), t.states.begin(), t.states.end());
        for (auto const n : {static_cast<double>(t.number), 1000 * t.temperature, static_cast<double>(t.tokens.size()),
                             static_cast<double>(t.prompt_tokens)})
            table.push_back(static_cast<std::int32_t>(std::lround(n)));
    }
    write_npy<std::uint16_t>(name + ".states.npy", "<f2", {tokens.size(), layers, width / layers}, states);
    write_npy<std::int32_t>(name + ".texts.npy", "<i4", {texts.size(), 4}, table);
    write_npy<std::uint16_t>(name + ".tokens.npy", "<u2", {tokens.size()}, tokens);
}

int run(int argc, char** argv) {
    CLI::App app("Answers of a chat model with its hidden states");
    std::string model, prompts, out;
    std::vector<std::int32_t> layers{3, 15, 29};
    std::size_t longest = 192, longest_prompt = 192;
    std::int32_t slots = 54;
    std::uint64_t seed = 1;
    transformer_options options;
    options.threads = 2;
    options.context_limit = 512;  // longer texts than any here; caches take less memory
    bool exact = false, only_prompts = false;
    app.add_option("model", model, "GGUF file with a ChatML template")->required();
    app.add_option("prompts", prompts, "JSON lines")->required();
    app.add_option("out", out, "What the names of the files begin with")->required();
    app.add_option("--layers", layers, "0 is the first layer");
    app.add_option("--longest", longest, "Tokens of an answer, at most");
    app.add_option("--longest-prompt", longest_prompt, "A prompt with more tokens is left out");
    app.add_option("--slots", slots, "Texts at a time")->check(CLI::Range(1, block_rows));
    app.add_option("--seed", seed, "Of the draws");
    app.add_option("--threads", options.threads, "Threads");
    app.add_flag("--only-prompts", only_prompts, "Write the tokens of the prompts, and answer none");
    app.add_flag("--exact", exact, "Weights as they are, not rounded to bfloat16");
    CLI11_PARSE(app, argc, argv);

    options.numbers = exact ? precision::f32 : precision::bf16;
    gguf_file const file(model);
    auto const weights = std::make_shared<transformer_weights const>(model, options);
    tokenizer const words(model, weights->config().vocabulary);
    chat_markup const markup(file.text("tokenizer.chat_template").value_or(""), words);
    std::vector<token_id> system;
    if (!markup.default_system().empty()) markup.add("system", markup.default_system(), system);

    std::vector<nlohmann::json> lines;
    std::ifstream input(prompts);
    for (std::string line; std::getline(input, line);)
        if (!line.empty()) lines.push_back(nlohmann::json::parse(line));
    if (lines.empty()) throw std::runtime_error(prompts + ": no prompts");

    // Files that are left to write, and how many of their texts are not finished.
    std::deque<std::size_t> waiting;
    std::map<std::size_t, std::vector<text>> done;
    std::map<std::size_t, std::size_t> missing;
    for (std::size_t i = 0; i < lines.size(); ++i)
        if (!std::filesystem::exists(name_of(out, i / texts_of_file) + ".tokens.npy")) {
            waiting.push_back(i);
            ++missing[i / texts_of_file];
        }

    std::vector<std::uint16_t> const system_tokens(system.begin(), system.end());
    if (only_prompts) {
        std::vector<std::uint16_t> tokens;
        std::vector<std::int32_t> table;
        for (std::size_t i = 0; i < lines.size(); ++i) {
            std::vector<token_id> prompt;
            markup.add("user", lines[i].at("prompt").get<std::string>(), prompt);
            markup.begin_answer(prompt);
            if (prompt.size() > longest_prompt) continue;
            tokens.insert(tokens.end(), prompt.begin(), prompt.end());
            auto const size = static_cast<std::int32_t>(prompt.size());
            auto const thousandths = std::lround(1000 * lines[i].at("temperature").get<double>());
            table.insert(table.end(), {static_cast<std::int32_t>(i), static_cast<std::int32_t>(thousandths), size, size});
        }
        write_npy<std::uint16_t>(out + "-system.tokens.npy", "<u2", {system.size()}, system_tokens);
        write_npy<std::int32_t>(out + "-prompts.texts.npy", "<i4", {table.size() / 4, 4}, table);
        write_npy<std::uint16_t>(out + "-prompts.tokens.npy", "<u2", {tokens.size()}, tokens);
        return 0;
    }
    answering answers(weights, layers, slots);
    auto const system_states = answers.read_system(system);
    auto const hidden = at(weights->config().hidden);
    write_npy<std::uint16_t>(out + "-system.states.npy", "<f2", {system.size(), layers.size(), hidden}, system_states);
    write_npy<std::uint16_t>(out + "-system.tokens.npy", "<u2", {system.size()}, system_tokens);

    auto const finish = [&](std::size_t number) {
        std::size_t const to = number / texts_of_file;
        if (--missing[to] > 0) return false;
        write(name_of(out, to), done[to], answers.width(), layers.size());
        done.erase(to);
        return true;
    };
    auto const begun = std::chrono::steady_clock::now();
    std::size_t rows = 0, kept = 0;
    for (;;) {
        for (slot& s : answers.slots()) {
            while (!s.busy && !waiting.empty()) {
                std::size_t const i = waiting.front();
                waiting.pop_front();
                s.now = {};
                s.now.number = i;
                s.now.temperature = lines[i].at("temperature").get<double>();
                markup.add("user", lines[i].at("prompt").get<std::string>(), s.now.tokens);
                markup.begin_answer(s.now.tokens);
                s.now.prompt_tokens = s.now.tokens.size();
                s.read = 0;
                std::seed_seq both{seed, static_cast<std::uint64_t>(i)};
                s.draw.seed(both);
                s.busy = s.now.tokens.size() <= longest_prompt;
                if (!s.busy) finish(i);
            }
        }
        std::size_t const step = answers.step(longest, markup.end(), [&](slot& s) {
            kept += s.now.tokens.size();
            std::size_t const number = s.now.number;
            done[number / texts_of_file].push_back(std::move(s.now));
            if (finish(number)) {
                std::chrono::duration<double> const time = std::chrono::steady_clock::now() - begun;
                std::cout << name_of(out, number / texts_of_file) << ", " << kept << " tokens, "
                          << std::lround(static_cast<double>(rows) / time.count()) << " rows/s" << std::endl;
            }
        });
        if (step == 0) break;
        rows += step;
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (std::exception const& error) {
        std::cerr << "answer_states: " << error.what() << '\n';
        return 1;
    }
}
