// Shapes of draft trees as text: "4x2x2x1", "fork:3x4", lists of choices or of parents.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/base/error.hpp"
#include "multidraft/tree/shapes.hpp"
#include "multidraft/tree/topology.hpp"

namespace MULTIDRAFT_NAMESPACE {

namespace detail {

/// Reads the pieces of a shape's text: whole numbers, and single characters between blanks.
class shape_reader {
public:
    explicit shape_reader(std::string_view text) : rest_(text) { skip(); }

    [[nodiscard]] bool ended() const noexcept { return rest_.empty(); }
    [[nodiscard]] char peek() const noexcept { return rest_.empty() ? '\0' : rest_.front(); }

    /// Takes the next character if it is one of these.
    bool take(std::string_view any) {
        if (rest_.empty() || any.find(rest_.front()) == std::string_view::npos) return false;
        rest_.remove_prefix(1);
        skip();
        return true;
    }

    /// The next whole number; `entry` is what an error names.
    std::int32_t number(std::int64_t entry) {
        std::int32_t value = 0;
        auto const read = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
        if (read.ec == std::errc::result_out_of_range)
            refuse("shape", entry, rest_.substr(0, 24), "a number of a shape is below 2^31");
        if (read.ec != std::errc{}) fail(entry, "a number is expected here");
        rest_.remove_prefix(static_cast<std::size_t>(read.ptr - rest_.data()));
        skip();
        return value;
    }

    [[noreturn]] void fail(std::int64_t entry, std::string const& reason) const {
        refuse("shape", entry, '"' + std::string(rest_.substr(0, 24)) + '"',
               reason +
                   "; a shape is 4x2x2x1, fork:3x4, chain:5, choices such as [[0], [1], [0, 0]] or parents such as "
                   "[-1 0 0 1]");
    }

private:
    void skip() {
        while (!rest_.empty() &&
               (rest_.front() == ' ' || rest_.front() == '\n' || rest_.front() == '\t' || rest_.front() == '\r'))
            rest_.remove_prefix(1);
    }

    std::string_view rest_;
};

/// "[[0], [1], [0, 0]]" or "[(0,), (1,), (0, 0)]", after the first bracket; or parents, "[-1 0 0 1]".
inline topology parse_list(shape_reader& reader, bool round) {
    std::int64_t entry = 0;
    std::string_view const closing = round ? ")" : "]";
    if (reader.peek() == '-' || (reader.peek() >= '0' && reader.peek() <= '9')) {
        std::vector<node_id> parents;
        while (!reader.take(closing)) {
            parents.push_back(reader.number(entry));
            reader.take(",");
            if (++entry > max_shape_nodes) reader.fail(entry, "the tree would have more than 2^20 nodes");
        }
        if (!reader.ended()) reader.fail(entry, "nothing follows the list");
        return topology::from_parents(parents);
    }
    std::vector<std::vector<std::int32_t>> choices;
    while (!reader.take(closing)) {
        bool const inner_round = reader.peek() == '(';
        if (!reader.take("[(")) reader.fail(entry, "a list of ranks is expected here");
        std::vector<std::int32_t> path;
        while (!reader.take(inner_round ? ")" : "]")) {
            path.push_back(reader.number(entry));
            if (!reader.take(",") && reader.peek() != (inner_round ? ')' : ']'))
                reader.fail(entry, "a comma or the end of the list is expected here");
            if (static_cast<std::int64_t>(path.size()) > max_shape_nodes)
                reader.fail(entry, "the tree would have more than 2^20 nodes");
        }
        choices.push_back(std::move(path));
        reader.take(",");
        if (++entry > max_shape_nodes) reader.fail(entry, "the tree would have more than 2^20 nodes");
    }
    if (!reader.ended()) reader.fail(entry, "nothing follows the list");
    return from_choices(choices);
}

/// "3x4" as two numbers.
inline std::pair<std::int32_t, std::int32_t> parse_two(shape_reader& reader) {
    std::int32_t const first = reader.number(0);
    if (!reader.take("x")) reader.fail(0, "an x is expected here");
    std::int32_t const second = reader.number(1);
    if (!reader.ended()) reader.fail(1, "nothing follows");
    return {first, second};
}

}  // namespace detail

/// Reads a shape as it is written on a command line or in a file:
///
/// - "4x2x2x1": the factors of `branching`; "0": the root alone;
/// - "fork:3x4": three chains of four tokens; "chain:5"; "eagle": the default tree of EAGLE;
/// - "[[0], [1], [0, 0], [1, 0]]" or "[(0,), (1,), (0, 0), (1, 0)]": the choice lists that Medusa and EAGLE publish
///   (see `from_choices`);
/// - "[-1 0 0 1]": the parents of all nodes.
///
/// Throws `invalid_input`, naming the level or entry, for any other text, a factor below 1, an invalid tree and a tree
/// that is too large.
[[nodiscard]] inline topology parse_shape(std::string_view text) {
    if (text == "0") return topology();
    if (text == "eagle") return eagle_tree();
    if (text.starts_with("fork:")) {
        detail::shape_reader reader(text.substr(5));
        auto const [width, length] = detail::parse_two(reader);
        return fork(width, length);
    }
    if (text.starts_with("chain:")) {
        detail::shape_reader reader(text.substr(6));
        std::int32_t const length = reader.number(0);
        if (!reader.ended()) reader.fail(0, "nothing follows");
        return chain(length);
    }
    detail::shape_reader reader(text);
    bool const round = reader.peek() == '(';
    if (reader.take("[(")) return detail::parse_list(reader, round);
    std::vector<std::int32_t> factors;
    std::string_view rest = text;
    for (bool more = true; more;) {
        std::size_t const cut = rest.find('x');
        more = cut != std::string_view::npos;
        std::string_view const part = rest.substr(0, cut);
        std::int32_t factor = 0;
        auto const read = std::from_chars(part.data(), part.data() + part.size(), factor);
        auto const level = static_cast<std::int64_t>(factors.size());
        if (read.ec == std::errc::result_out_of_range)
            refuse("shape", level, part, "the tree would have more than 2^20 nodes");
        if (read.ec != std::errc{} || read.ptr != part.data() + part.size())
            refuse("shape", level, '"' + std::string(part) + '"',
                   "a shape is written as whole numbers with x between them, for example 4x2x2x1");
        if (factor < 1) refuse("shape", level, factor, "a level has at least one child per node");
        factors.push_back(factor);
        if (more) rest.remove_prefix(cut + 1);
    }
    return branching(factors);
}

/// The name `parse_shape` reads; a tree that is not `branching` gives its parents: "[-1 0 0 1]".
[[nodiscard]] inline std::string to_string(topology const& shape) {
    if (shape.size() == 1) return "0";
    std::string name;
    bool regular = true;
    for (std::int32_t d = 0; d < shape.max_depth() && regular; ++d) {
        node_range const level = shape.level(d);
        node_id const factor = shape.child_count(level.first);
        for (node_id v = level.first; v < level.end(); ++v) regular = regular && shape.child_count(v) == factor;
        if (d > 0) name += 'x';
        name += std::to_string(factor);
    }
    if (regular) return name;
    name = '[';
    for (node_id const parent : shape.parents()) {
        if (name.size() > 1) name += ' ';
        name += std::to_string(parent);
    }
    name += ']';
    return name;
}

}  // namespace MULTIDRAFT_NAMESPACE
