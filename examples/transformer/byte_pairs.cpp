#include "transformer/byte_pairs.hpp"

#include <cstddef>
#include <functional>
#include <queue>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "transformer/utf8.hpp"

namespace multidraft::examples {
namespace {

/// Printable bytes are spelled by the character of their number, the others by those from U+0100 on, in their order.
std::array<std::int32_t, 324> bytes_of_characters() {
    std::array<std::int32_t, 324> bytes{};
    bytes.fill(-1);
    std::size_t next = 0x100;
    for (std::int32_t byte = 0; byte < 256; ++byte) {
        bool const printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
        bytes[printable ? static_cast<std::size_t>(byte) : next++] = byte;
    }
    return bytes;
}

}  // namespace

std::optional<std::string> bytes_of_spelling(std::string_view spelling) {
    static auto const bytes = bytes_of_characters();
    std::string result;
    while (!spelling.empty()) {
        auto const [length, complete] = examine(spelling);
        if (!complete || length > 2) return std::nullopt;
        std::size_t character = static_cast<unsigned char>(spelling[0]);
        if (length == 2) character = (character & 0x1FU) << 6U | (static_cast<unsigned char>(spelling[1]) & 0x3FU);
        if (character >= bytes.size() || bytes[character] < 0) return std::nullopt;
        result += static_cast<char>(bytes[character]);
        spelling.remove_prefix(length);
    }
    return result;
}

byte_pairs::byte_pairs(std::vector<std::string> const& words, std::vector<std::string_view> const& merges) {
    of_byte_.fill(none);
    std::unordered_map<std::string_view, token_id> tokens;
    for (std::size_t t = 0; t < words.size(); ++t) {
        if (words[t].empty()) continue;
        auto const id = static_cast<token_id>(t);
        tokens.emplace(words[t], id);
        auto& single = of_byte_[static_cast<unsigned char>(words[t][0])];
        if (words[t].size() == 1 && single == none) single = id;
    }
    merges_.reserve(merges.size());
    for (std::size_t r = 0; r < merges.size(); ++r) {
        std::string_view const both = merges[r];
        auto const wrong = [&](char const* why) {
            throw std::runtime_error("merge " + std::to_string(r) + ", \"" + std::string(both) + "\": " + why);
        };
        std::size_t const space = both.find(' ');
        if (space == std::string_view::npos) wrong("must be two parts with a space between");
        auto const left = bytes_of_spelling(both.substr(0, space));
        auto const right = bytes_of_spelling(both.substr(space + 1));
        if (!left || !right) wrong("is not spelled in the characters of bytes");
        auto const l = tokens.find(*left);
        auto const n = tokens.find(*right);
        auto const whole = tokens.find(*left + *right);
        if (l == tokens.end() || n == tokens.end() || whole == tokens.end())
            wrong("its parts and their whole must be tokens");
        merges_.emplace(pair_of(l->second, n->second), merge{static_cast<std::int32_t>(r), whole->second});
    }
}

void byte_pairs::encode(std::string_view word, std::vector<token_id>& tokens) const {
    struct part {
        token_id token;
        std::size_t before;
        std::size_t after;
    };
    std::vector<part> parts;
    parts.reserve(word.size());
    for (char const byte : word) {
        token_id const token = of_byte_[static_cast<unsigned char>(byte)];
        if (token != none) parts.push_back({token, parts.size() - 1, parts.size() + 1});
    }
    std::size_t const count = parts.size();
    // A pair in the queue whose parts have changed since is passed over.
    using candidate = std::tuple<std::int32_t, std::size_t, std::uint64_t, token_id>;  // rank, left part, pair, whole
    std::priority_queue<candidate, std::vector<candidate>, std::greater<>> queue;
    auto const consider = [&](std::size_t left) {
        if (left >= count || parts[left].after >= count) return;
        std::uint64_t const pair = pair_of(parts[left].token, parts[parts[left].after].token);
        auto const found = merges_.find(pair);
        if (found != merges_.end()) queue.emplace(found->second.rank, left, pair, found->second.whole);
    };
    for (std::size_t i = 0; i + 1 < count; ++i) consider(i);
    while (!queue.empty()) {
        auto const [rank, left, pair, whole] = queue.top();
        queue.pop();
        part& at = parts[left];
        if (at.token == none || at.after >= count || pair_of(at.token, parts[at.after].token) != pair) continue;
        part& gone = parts[at.after];
        at.token = whole;
        at.after = gone.after;
        gone.token = none;
        if (at.after < count) parts[at.after].before = left;
        consider(left);
        consider(at.before);
    }
    for (part const& p : parts)
        if (p.token != none) tokens.push_back(p.token);
}

}  // namespace multidraft::examples
