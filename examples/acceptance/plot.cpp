#include "acceptance/plot.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace multidraft::examples {
namespace {

constexpr double width = 860;
constexpr double height = 520;
constexpr double left = 70;
constexpr double right = 560;
constexpr double top = 50;
constexpr double bottom = 460;

/// Colours that are distinguishable with colour vision deficiency (Okabe and Ito).
constexpr char const* colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"};
constexpr char const* dashes[] = {"", "9 3", "2 3", "12 3 2 3"};

struct curve {
    std::string law;
    std::string verifier;
    std::vector<std::pair<index_t, interval>> points;
};

/// Text between tags or in an attribute.
std::string escaped(std::string_view text) {
    std::string result;
    for (char const c : text) {
        switch (c) {
            case '&':
                result += "&amp;";
                break;
            case '<':
                result += "&lt;";
                break;
            case '>':
                result += "&gt;";
                break;
            case '"':
                result += "&quot;";
                break;
            default:
                result += c;
        }
    }
    return result;
}

std::string number(double x) {
    char buffer[32];
    std::snprintf(buffer, sizeof buffer, "%.2f", x);
    return buffer;
}

std::vector<curve> curves_of(summary const& found) {
    std::vector<curve> result;
    for (summary_line const& line : found.lines) {
        auto const same = [&](curve const& c) { return c.law == line.law && c.verifier == line.verifier; };
        auto at = std::find_if(result.begin(), result.end(), same);
        if (at == result.end()) at = result.insert(at, curve{line.law, line.verifier, {}});
        at->points.emplace_back(line.drafts, line.rate);
    }
    // Laws together, in the order in which they came.
    std::vector<std::string> order;
    for (curve const& c : result)
        if (std::find(order.begin(), order.end(), c.law) == order.end()) order.push_back(c.law);
    auto const place = [&](curve const& c) { return std::find(order.begin(), order.end(), c.law) - order.begin(); };
    std::stable_sort(result.begin(), result.end(), [&](curve const& a, curve const& b) { return place(a) < place(b); });
    return result;
}

/// The ends of an axis, and the distance of its ticks.
struct axis {
    double low;
    double high;
    double step;
};

axis rates_axis(std::vector<curve> const& curves) {
    double low = 1;
    double high = 0;
    for (curve const& c : curves)
        for (auto const& [n, x] : c.points) {
            low = std::min(low, x.low.value_or(x.mean));
            high = std::max(high, x.high.value_or(x.mean));
        }
    double step = 0.2;
    for (double const finer : {0.1, 0.05, 0.02, 0.01})
        if ((high - low) / finer <= 10) step = finer;
    low = std::max(std::floor(low / step - 1e-9) * step, 0.0);
    high = std::min(std::ceil(high / step + 1e-9) * step, 1.0);
    if (high - low < step) low = high - step;
    return {low, high, step};
}

}  // namespace

void write_plot(std::ostream& out, summary const& found) {
    auto const curves = curves_of(found);
    axis const y = rates_axis(curves);
    index_t first = found.drafts.front();
    index_t last = found.drafts.back();
    for (summary_line const& line : found.lines) {
        first = std::min(first, line.drafts);
        last = std::max(last, line.drafts);
    }
    auto const at_x = [&](double n) {
        return first == last ? (left + right) / 2 : left + 20 + (right - left - 40) * (n - first) / (last - first);
    };
    auto const at_y = [&](double rate) { return bottom - (bottom - top) * (rate - y.low) / (y.high - y.low); };

    out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << width << ' ' << height
        << "\" font-family=\"sans-serif\" font-size=\"13\">\n"
        << "<title>Acceptance rates of " << escaped(found.target) << " and " << escaped(found.draft) << "</title>\n"
        << "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        << "<text x=\"" << left << "\" y=\"26\" font-size=\"15\">Acceptance rate at one node: " << found.rows
        << (found.rows == 1 ? " row" : " rows") << ", V = " << found.vocabulary << "</text>\n";
    for (double tick = y.low; tick < y.high + y.step / 2; tick += y.step)
        out << "<path d=\"M" << left << ' ' << number(at_y(tick)) << "H" << right << "\" stroke=\"#ddd\"/><text x=\""
            << left - 8 << "\" y=\"" << number(at_y(tick) + 4) << "\" text-anchor=\"end\">" << number(tick)
            << "</text>\n";
    index_t const every = std::max((last - first) / 10, 1);
    for (index_t n = first; n <= last; n += every)
        out << "<text x=\"" << number(at_x(n)) << "\" y=\"" << bottom + 20 << "\" text-anchor=\"middle\">" << n
            << "</text>\n";
    out << "<text x=\"" << (left + right) / 2 << "\" y=\"" << bottom + 42
        << "\" text-anchor=\"middle\">drafts n</text>\n"
        << "<path d=\"M" << left << ' ' << top << "V" << bottom << "H" << right
        << "\" fill=\"none\" stroke=\"black\"/>\n";

    std::size_t colour = 0;
    std::size_t dash = 0;
    double legend = top + 4;
    std::string_view law;
    for (curve const& c : curves) {
        bool const is_bound = c.verifier.empty();
        if (c.law != law) {
            if (!law.empty()) {
                ++colour;
                legend += 8;
            }
            law = c.law;
            dash = 0;
        }
        std::string const style = std::string("stroke=\"") + colours[colour % std::size(colours)] +
                                  "\" fill=\"none\" stroke-width=\"" + (is_bound ? "1.2" : "2") + "\"" +
                                  " stroke-dasharray=\"" + (is_bound ? "5 4" : dashes[dash++ % std::size(dashes)]) +
                                  "\"";
        std::string path;
        std::string marks;
        for (auto const& [n, x] : c.points) {
            path += (path.empty() ? "M" : "L") + number(at_x(n)) + ' ' + number(at_y(x.mean));
            if (!is_bound)
                marks += "<circle cx=\"" + number(at_x(n)) + "\" cy=\"" + number(at_y(x.mean)) +
                         "\" r=\"2.5\" fill=\"" + colours[colour % std::size(colours)] + "\"/>";
            if (x.low && !is_bound)
                marks += "<path d=\"M" + number(at_x(n)) + ' ' + number(at_y(*x.low)) + "V" + number(at_y(*x.high)) +
                         "\" stroke=\"" + colours[colour % std::size(colours)] + "\" stroke-width=\"1\"/>";
        }
        std::string const name = c.law + ": " + (is_bound ? "bound" : c.verifier);
        out << "<g><title>" << escaped(name) << "</title><path d=\"" << path << "\" " << style << "/>" << marks
            << "<path d=\"M" << right + 20 << ' ' << legend << "h34\" " << style << "/><text x=\"" << right + 62
            << "\" y=\"" << legend + 4 << "\">" << escaped(name) << "</text></g>\n";
        legend += 18;
    }
    out << "</svg>\n";
}

}  // namespace multidraft::examples
