// Draft trees as pictures: as text, as DOT for Graphviz, and as SVG; the accepted path marked, p and q at each node.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "multidraft/base/config.hpp"
#include "multidraft/decode/options.hpp"

namespace multidraft::examples {

/// The readable text of a token.
using token_text = std::function<std::string(token_id)>;

/// A step to be drawn.
struct drawn_tree {
    std::vector<node_id> parents;
    std::vector<token_id> tokens;
    std::vector<node_id> path;
    token_id next = none;
    std::vector<double> p;
    std::vector<double> q;  ///< empty where the drafter has no rows

    drawn_tree() = default;
    explicit drawn_tree(step_view const& step)
        : parents(step.tree.parents.begin(), step.tree.parents.end()),
          tokens(step.tree.tokens.begin(), step.tree.tokens.end()),
          path(step.path.begin(), step.path.end()),
          next(step.next),
          p(step.p.begin(), step.p.end()),
          q(step.q.begin(), step.q.end()) {}

    [[nodiscard]] std::size_t size() const { return parents.size(); }
    [[nodiscard]] bool accepted(std::size_t v) const {
        return v == 0 || std::find(path.begin(), path.end(), static_cast<node_id>(v)) != path.end();
    }
    [[nodiscard]] std::vector<std::size_t> children(std::size_t v) const {
        std::vector<std::size_t> result;
        for (std::size_t c = v + 1; c < size(); ++c)
            if (parents[c] == static_cast<node_id>(v)) result.push_back(c);
        return result;
    }
    /// The last accepted node, below which `next` is emitted.
    [[nodiscard]] std::size_t last() const { return path.empty() ? 0 : static_cast<std::size_t>(path.back()); }
};

namespace detail {

/// In quotes, with special characters escaped.
inline std::string quoted(std::string const& text) {
    std::string result = "\"";
    for (char const c : text) {
        auto const byte = static_cast<unsigned char>(c);
        if (c == '\n') {
            result += "\\n";
        } else if (c == '"' || c == '\\') {
            result += '\\';
            result += c;
        } else if (byte < 0x20 || byte == 0x7f) {
            char buffer[8];
            std::snprintf(buffer, sizeof buffer, "\\x%02x", static_cast<unsigned>(byte));
            result += buffer;
        } else {
            result += c;
        }
    }
    return result + '"';
}

inline std::string probability(double x) {
    char buffer[32];
    std::snprintf(buffer, sizeof buffer, "%.3f", x);
    return buffer;
}

/// "p 0.412  q 0.388", as far as they are known.
inline std::string probabilities(drawn_tree const& tree, std::size_t v) {
    std::string result;
    if (v < tree.p.size()) result = "p " + probability(tree.p[v]);
    if (v < tree.q.size()) result += (result.empty() ? "q " : "  q ") + probability(tree.q[v]);
    return result;
}

inline std::string replaced(std::string const& text, std::string_view what, std::string const& by) {
    std::string result;
    for (char const c : text) {
        if (what.find(c) != std::string_view::npos)
            result += by + c;
        else
            result += c;
    }
    return result;
}

inline std::string for_xml(std::string const& text) {
    std::string result;
    for (char const c : text) {
        if (c == '<')
            result += "&lt;";
        else if (c == '>')
            result += "&gt;";
        else if (c == '&')
            result += "&amp;";
        else if (c == '"')
            result += "&quot;";
        else
            result += c;
    }
    return result;
}

inline void text_below(drawn_tree const& tree, token_text const& name, std::size_t v, std::string const& margin,
                       std::string& out) {
    auto const children = tree.children(v);
    bool const ends_here = v == tree.last();
    for (std::size_t k = 0; k < children.size(); ++k) {
        std::size_t const c = children[k];
        bool const last = k + 1 == children.size() && !ends_here;
        out += margin + (last ? "`-" : "|-") + (tree.accepted(c) ? "* " : "  ") + quoted(name(tree.tokens[c]));
        out += "  " + probabilities(tree, c) + '\n';
        text_below(tree, name, c, margin + (last ? "    " : "|   "), out);
    }
    if (ends_here) out += margin + "`-> " + quoted(name(tree.next)) + '\n';
}

}  // namespace detail

/// The tree as lines; `*` marks the accepted path, `->` the token emitted after it.
[[nodiscard]] inline std::string tree_as_text(drawn_tree const& tree, token_text const& name) {
    if (tree.size() == 0) return "";
    std::string out = detail::quoted(name(tree.tokens[0])) + '\n';
    detail::text_below(tree, name, 0, "", out);
    return out;
}

/// The tree in the language of Graphviz: `dot -Tpng tree.dot`.
[[nodiscard]] inline std::string tree_as_dot(drawn_tree const& tree, token_text const& name) {
    std::string out =
        "digraph draft_tree {\n  rankdir=LR;\n  node [shape=box, style=rounded, fontname=\"monospace\"];\n";
    auto const label = [&](std::string const& text) { return detail::replaced(detail::quoted(text), "\\\"", "\\"); };
    for (std::size_t v = 0; v < tree.size(); ++v) {
        out += "  n" + std::to_string(v) + " [label=\"" + label(name(tree.tokens[v]));
        if (v > 0) out += "\\n" + detail::probabilities(tree, v);
        out += tree.accepted(v) ? "\", penwidth=2.5, color=\"#0072b2\"];\n" : "\"];\n";
        if (v > 0) {
            out += "  n" + std::to_string(tree.parents[v]) + " -> n" + std::to_string(v);
            out += tree.accepted(v) ? " [penwidth=2.5, color=\"#0072b2\"];\n" : ";\n";
        }
    }
    if (tree.size() > 0) {
        out += "  next [label=\"" + label(name(tree.next)) + "\", style=\"rounded,dashed\", color=\"#d55e00\"];\n";
        out += "  n" + std::to_string(tree.last()) + " -> next [style=dashed, color=\"#d55e00\"];\n";
    }
    return out + "}\n";
}

/// The tree as SVG: the root on the left, one column per level, siblings by rank from the top.
[[nodiscard]] inline std::string tree_as_svg(drawn_tree const& tree, token_text const& name) {
    constexpr int column = 190;
    constexpr int row = 46;
    constexpr int box_width = 150;
    constexpr int box_height = 36;
    constexpr int margin = 14;
    std::vector<int> depth(tree.size() + 1, 0);
    std::vector<double> place(tree.size() + 1, 0);
    double lines = 0;
    // Each leaf gets a line, from the top; a parent is between its first and its last child. The token emitted after
    // the path is drawn as the last child; it has the number size().
    auto const put = [&](auto const& self, std::size_t v, int level) -> void {
        depth[v] = level;
        auto below = v == tree.size() ? std::vector<std::size_t>{} : tree.children(v);
        if (v != tree.size() && v == tree.last()) below.push_back(tree.size());
        for (std::size_t const c : below) self(self, c, level + 1);
        place[v] = below.empty() ? lines++ : 0.5 * (place[below.front()] + place[below.back()]);
    };
    if (tree.size() > 0) put(put, 0, 0);
    int const deepest = *std::max_element(depth.begin(), depth.end());
    auto const x = [&](std::size_t v) { return margin + column * depth[v]; };
    auto const y = [&](std::size_t v) { return margin + static_cast<int>(place[v] * row + 0.5); };
    int const width = 2 * margin + column * deepest + box_width;
    int const height = 2 * margin + static_cast<int>(std::max(0.0, lines - 1)) * row + box_height;
    std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + std::to_string(width) + "\" height=\"" +
                      std::to_string(height) + "\" font-family=\"monospace\" font-size=\"12\">\n" +
                      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
    auto const edge = [&](std::size_t from, std::size_t to, std::string const& style) {
        out += "<path d=\"M" + std::to_string(x(from) + box_width) + ' ' + std::to_string(y(from) + box_height / 2) +
               " L" + std::to_string(x(to)) + ' ' + std::to_string(y(to) + box_height / 2) + "\" fill=\"none\" " +
               style + "/>\n";
    };
    auto const box = [&](std::size_t v, std::string const& style, std::string const& first, std::string const& second) {
        out += "<rect x=\"" + std::to_string(x(v)) + "\" y=\"" + std::to_string(y(v)) + "\" width=\"" +
               std::to_string(box_width) + "\" height=\"" + std::to_string(box_height) + "\" rx=\"6\" " + style +
               "/>\n";
        out += "<text x=\"" + std::to_string(x(v) + 8) + "\" y=\"" + std::to_string(y(v) + (second.empty() ? 22 : 15)) +
               "\" fill=\"#000000\" xml:space=\"preserve\">" + detail::for_xml(first) + "</text>\n";
        if (!second.empty())
            out += "<text x=\"" + std::to_string(x(v) + 8) + "\" y=\"" + std::to_string(y(v) + 30) +
                   "\" fill=\"#555555\" xml:space=\"preserve\">" + detail::for_xml(second) + "</text>\n";
    };
    std::string const marked = "stroke=\"#0072b2\" stroke-width=\"2.5\"";
    std::string const plain = "stroke=\"#999999\"";
    std::string const emitted = "stroke=\"#d55e00\" stroke-width=\"1.5\" stroke-dasharray=\"5 3\"";
    for (std::size_t v = 1; v < tree.size(); ++v)
        edge(static_cast<std::size_t>(tree.parents[v]), v, tree.accepted(v) ? marked : plain);
    if (tree.size() > 0) edge(tree.last(), tree.size(), emitted);
    for (std::size_t v = 0; v < tree.size(); ++v)
        box(v, (tree.accepted(v) ? "fill=\"#e3f1fa\" " + marked : "fill=\"#ffffff\" " + plain),
            detail::quoted(name(tree.tokens[v])), v == 0 ? "" : detail::probabilities(tree, v));
    if (tree.size() > 0) box(tree.size(), "fill=\"#fdf1e7\" " + emitted, detail::quoted(name(tree.next)), "");
    return out + "</svg>\n";
}

}  // namespace multidraft::examples
