#include "acceptance/row_pairs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>

#include "multidraft/base/error.hpp"
#include "multidraft/group/host_group.hpp"
#include "multidraft/rows/row_view.hpp"
#include "multidraft/rows/sampling_params.hpp"
#include "multidraft/rows/softmax.hpp"

namespace multidraft::examples {
namespace {

std::string number(double x) {
    std::ostringstream text;
    text.precision(9);
    text << x;
    return text.str();
}

[[noreturn]] void fail(npy_file const& file, std::int64_t row, std::string const& what) {
    throw std::runtime_error(file.name() + ": row " + std::to_string(row) + ": " + what);
}

[[noreturn]] void fail(npy_file const& file, std::int64_t row, std::size_t column, double value,
                       std::string const& what) {
    fail(file, row, "column " + std::to_string(column) + " = " + number(value) + ": " + what);
}

/// How far a sum may be from 1: the effect of the format's rounding on a row of a large vocabulary.
double sum_tolerance(npy_type type) { return type == npy_type::float16 ? 5e-3 : 1e-4; }

std::string shape(npy_array const& array) {
    return array.one_dimensional ? "(" + std::to_string(array.columns) + ",)"
                                 : "(" + std::to_string(array.rows) + ", " + std::to_string(array.columns) + ")";
}

}  // namespace

row_pairs::row_pairs(std::filesystem::path const& target, std::filesystem::path const& draft,
                     row_options const& options)
    : target_(target), draft_(draft), options_(options) {
    auto const& p = target_.array();
    auto const& q = draft_.array();
    if (p.rows != q.rows || p.columns != q.columns || p.one_dimensional != q.one_dimensional)
        throw std::runtime_error(draft_.name() + ": shape = " + shape(q) + ", but " + target_.name() + " has " +
                                 shape(p) + ": target and draft have the same rows and one vocabulary");
    for (double const t : {options.temperature, options.draft_temperature})
        if (!(t >= 0) || !std::isfinite(t)) refuse("temperature", t, "a temperature is a finite number, 0 or larger");
    validate(sampling_params{1.0F, options.top_k, options.top_p, options.min_p});
}

std::vector<double> row_pairs::load(npy_file const& file, std::int64_t row, double temperature,
                                    index_t least_support) const {
    npy_array const& array = file.array();
    std::vector<double> values(static_cast<std::size_t>(array.columns));
    array.read(row, values);
    index_t support = 0;
    if (options_.logits) {
        for (std::size_t i = 0; i < values.size(); ++i) {
            if (!(values[i] <= std::numeric_limits<double>::max()))
                fail(file, row, i, values[i], "a logit is a number below plus infinity");
            support += values[i] >= -std::numeric_limits<double>::max() ? 1 : 0;
        }
        if (support == 0) fail(file, row, "no logit is above minus infinity");
    } else {
        double sum = 0;
        for (std::size_t i = 0; i < values.size(); ++i) {
            if (!(values[i] >= 0) || !std::isfinite(values[i]))
                fail(file, row, i, values[i],
                     std::string("a probability is finite and not negative") +
                         (values[i] < 0 ? " (for logits: --logits)" : ""));
            sum += values[i];
            support += values[i] > 0 ? 1 : 0;
        }
        if (!(std::abs(sum - 1) <= sum_tolerance(array.type)))
            fail(file, row, "sum = " + number(sum) + ": the probabilities of a row sum to 1 (for logits: --logits)");
        for (double& x : values) x /= sum;
    }
    if (support < least_support)
        fail(file, row,
             "drafts = " + std::to_string(least_support) + ": beyond its support, which is " + std::to_string(support) +
                 (support == 1 ? " token" : " tokens"));
    if (!options_.logits) return values;

    // The temperature is applied here, in double precision: `sampling_params` has it in single precision.
    sampling_params w{1.0F, options_.top_k, options_.top_p, options_.min_p};
    if (temperature > 0) {
        double largest = -std::numeric_limits<double>::infinity();
        for (double const x : values) largest = std::max(largest, x);
        for (double& x : values) x = (x - largest) / temperature;
    } else {
        w.temperature = 0.0F;
    }
    auto const logits = row_view<double>(values.data(), static_cast<index_t>(values.size()));
    auto const row_of_logits = process_logits(host_group{}, logits, w, file.name().c_str()).row;
    std::vector<double> result(values.size());
    double sum = 0;
    for (std::size_t i = 0; i < result.size(); ++i) {
        result[i] = row_of_logits.weight(static_cast<index_t>(i));
        sum += result[i];
    }
    for (double& x : result) x /= sum;
    return result;
}

std::vector<double> row_pairs::load_target(std::int64_t row) const {
    return load(target_, row, options_.temperature, 1);
}

std::vector<double> row_pairs::load_draft(std::int64_t row, index_t drafts) const {
    return load(draft_, row, options_.draft_temperature, drafts);
}

row_pair row_pairs::load(std::int64_t row, index_t drafts) const { return {load_target(row), load_draft(row, drafts)}; }

}  // namespace multidraft::examples
