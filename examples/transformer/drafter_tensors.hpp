// The tensors of a drafter as what it computes with: matrices, vectors, tables. What was read is noted, so that a
// tensor that has no part in it is named.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "multidraft/base/config.hpp"
#include "transformer/linear.hpp"
#include "transformer/safetensors.hpp"
#include "transformer/team.hpp"
#include "transformer/tensor_view.hpp"

namespace multidraft::examples {

/// Reads the tensors of a drafter's file. Each function throws `std::runtime_error` that names the tensor where it is
/// missing or has another shape.
class drafter_tensors {
public:
    /// Matrices in the names and numbers of outputs of their parts.
    using parts = std::initializer_list<std::pair<std::string, std::int32_t>>;

    /// `tensors` must outlive it; the others are those of `linear_maker`. Loads the file into memory.
    drafter_tensors(tensor_store const& tensors, precision numbers, multiplier by, std::size_t model_bytes,
                    std::int32_t most_rows, int threads)
        : tensors_(tensors), maker_(numbers, by, model_bytes, most_rows), converters_(threads) {
        tensors.load([](std::size_t) {});
    }

    /// A matrix of the rows of all parts, one after another, each of `inputs` numbers.
    [[nodiscard]] std::unique_ptr<linear> matrix(parts const& of, std::int32_t inputs) {
        std::vector<linear_maker::part> found;
        for (auto const& [name, outputs] : of) found.push_back({&table(name, outputs, inputs), outputs});
        auto made = maker_.make(found, inputs, converters_);
        bytes_ += made->bytes();
        return made;
    }
    /// A matrix of single rows of a tensor of any file, one after another, in their stored numbers.
    [[nodiscard]] std::unique_ptr<linear> matrix_of_rows(tensor_view const& of, std::span<token_id const> rows) {
        std::vector<std::byte> bytes;
        for (token_id const row : rows) {
            auto const stored = of.stored_row(static_cast<std::size_t>(row));
            bytes.insert(bytes.end(), stored.begin(), stored.end());
        }
        std::int64_t const inputs = of.shape.back();
        tensor_view const gathered{of.type, {static_cast<std::int64_t>(rows.size()), inputs}, bytes, 0};
        auto made = maker_.make({{&gathered, static_cast<std::int32_t>(rows.size())}},
                                static_cast<std::int32_t>(inputs), converters_);
        bytes_ += made->bytes();
        return made;
    }
    [[nodiscard]] std::vector<float> vector(std::string const& name, std::int32_t numbers) {
        std::vector<float> values(static_cast<std::size_t>(numbers));
        note(name, numbers);
        tensors_.get(name, {numbers}).read(0, values);
        return values;
    }
    /// A matrix of which single rows are read, from the file.
    [[nodiscard]] tensor_view const& table(std::string const& name, std::int32_t rows, std::int32_t width) {
        note(name, std::int64_t{rows} * width);
        return tensors_.get(name, {rows, width});
    }
    [[nodiscard]] std::vector<std::int64_t> integers(std::string const& name, std::int32_t count) {
        note(name, 0);
        return tensors_.get_integers(name, count);
    }
    /// Whether there is a tensor of that name.
    [[nodiscard]] bool has(std::string const& name) const { return tensors_.contains(name); }

    /// Throws where there is a tensor that was not read.
    void expect_no_more() const { tensors_.expect_only(read_); }

    [[nodiscard]] std::int64_t parameters() const noexcept { return parameters_; }  ///< that were read
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }             ///< of the matrices

private:
    void note(std::string const& name, std::int64_t numbers) {
        if (read_.insert(name).second) parameters_ += numbers;
    }

    tensor_store const& tensors_;
    linear_maker maker_;
    team converters_;
    std::set<std::string> read_;
    std::int64_t parameters_ = 0;
    std::size_t bytes_ = 0;
};

}  // namespace multidraft::examples
