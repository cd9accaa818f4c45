#include "transformer/linear.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "transformer/aligned_array.hpp"
#include "transformer/block_rounding.hpp"
#include "transformer/kernels.hpp"
#include "transformer/matmul.hpp"
#include "transformer/product.hpp"

namespace multidraft::examples {
/// Weights of many matrices one after another, on huge pages: most matrices of a small model are smaller than one.
class weight_memory {
public:
    /// Room on a cache line, with contents that the caller sets.
    [[nodiscard]] std::shared_ptr<std::byte> take(std::size_t bytes) {
        bytes = (bytes + 63) / 64 * 64;
        if (memory_ == nullptr || bytes > memory_->size() - used_) {
            memory_ =
                std::make_shared<aligned_array<std::byte>>(aligned_array<std::byte>::unset(std::max(bytes, chunk)));
            used_ = 0;
        }
        used_ += bytes;
        return {memory_, memory_->data() + used_ - bytes};
    }

private:
    static constexpr std::size_t chunk = std::size_t{32} << 20U;  // pages that are not used take no memory

    std::shared_ptr<aligned_array<std::byte>> memory_{};
    std::size_t used_ = 0;
};

namespace {

using kernels::bfloat16;
using product::in_blocks;
using product::kernel;
using product::weight_type;

std::size_t size(std::int64_t n) noexcept { return static_cast<std::size_t>(n); }

char const* name_of(weight_type type) noexcept {
    switch (type) {
        case weight_type::bf16:
            return "bf16";
        case weight_type::f32:
            return "f32";
        case weight_type::int8:
            return "int8";
        case weight_type::q8_0:
            return "Q8_0";
        case weight_type::q4_0:
            return "Q4_0";
        case weight_type::q4_1:
            return "Q4_1";
    }
    return "";
}

/// The type that has a tensor's numbers exactly, in the fewest bytes that a kernel multiplies.
weight_type stored_type(tensor_type type) noexcept {
    switch (type) {
        case tensor_type::bf16:
            return weight_type::bf16;
        case tensor_type::q8_0:
            return weight_type::q8_0;
        case tensor_type::q4_0:
            return weight_type::q4_0;
        case tensor_type::q4_1:
            return weight_type::q4_1;
        case tensor_type::f32:
        case tensor_type::f16:
            break;
    }
    return weight_type::f32;
}

/// How a tensor's numbers are multiplied in rows of so many where weights stay in blocks, or are rounded to them.
weight_type type_in_blocks(tensor_type stored, std::int32_t inputs, precision numbers) noexcept {
    bool const whole = size(inputs) % block_numbers(tensor_type::q8_0) == 0;
    return numbers == precision::q8_0 && block_numbers(stored) == 1 && whole ? weight_type::q8_0 : stored_type(stored);
}

/// Products by product.hpp.
class streamed_linear final : public linear {
public:
    streamed_linear(std::vector<linear_maker::part> const& parts, kernel const& by, std::int32_t inputs, bool rounded,
                    weight_memory& memory, team& threads)
        : by_(by), inputs_(inputs), rounded_(rounded) {
        for (linear_maker::part const& p : parts) outputs_ += p.outputs;
        panels_ = (outputs_ + product::panel - 1) / product::panel;
        weights_ = memory.take(bytes());
        if (by.weights == weight_type::int8) scales_ = aligned_array<float>(size(panels_) * product::panel);
        threads.run(panels_, threads.threads(), [&](std::int32_t first, std::int32_t last, int) {
            std::vector<float> rows(in_blocks(by.weights) ? 0 : size(product::panel) * size(inputs));
            std::vector<std::byte const*> stored;
            std::vector<std::byte> made;  // where the file has others
            for (std::int32_t p = first; p < last; ++p) {
                std::int32_t const there = std::min(product::panel, outputs_ - p * product::panel);
                std::byte* const to = weights_.get() + size(p) * product::panel_bytes(by, inputs);
                if (in_blocks(by.weights)) {
                    stored.clear();
                    for (std::int32_t n = 0; n < there; ++n) {
                        auto const [tensor, row] = place_of(parts, p * product::panel + n);
                        stored.push_back(row_in_blocks(*tensor, row, n, made).data());
                    }
                    product::store_blocks(by, stored, inputs, to);
                    continue;
                }
                for (std::int32_t n = 0; n < there; ++n) {
                    auto const [tensor, row] = place_of(parts, p * product::panel + n);
                    tensor->read(row * size(inputs), std::span(rows).subspan(size(n) * size(inputs), size(inputs)));
                }
                product::store_panel(by, rows.data(), there, inputs, to,
                                     scales_.size() == 0 ? nullptr : scales_.data() + size(p) * product::panel);
            }
        });
    }

    [[nodiscard]] std::int32_t inputs() const noexcept override { return inputs_; }
    [[nodiscard]] std::int32_t outputs() const noexcept override { return outputs_; }
    [[nodiscard]] std::size_t bytes() const noexcept override {
        return size(panels_) * product::panel_bytes(by_, inputs_);
    }
    [[nodiscard]] std::size_t workspace_bytes(std::int32_t rows) const override {
        return product::packed_bytes(by_, inputs_, rows);
    }
    [[nodiscard]] std::string description() const override {
        return std::to_string(outputs_) + ' ' + name_of(by_.weights) +
               (by_.inputs == product::input_form::bytes ? " with inputs of 8 bits by " : " by ") + by_.name + ", " +
               std::to_string(by_.together) + " rows together";
    }

    void multiply(team& threads, int active, float const* rows, std::int32_t count, float* output,
                  std::byte* workspace) const override {
        multiply(threads, active, rows, count, output, size(outputs_), workspace);
    }
    /// With rows of outputs `output_row` numbers apart.
    void multiply(team& threads, int active, float const* rows, std::int32_t count, float* output,
                  std::size_t output_row, std::byte* workspace) const {
        std::int32_t const groups = product::groups_of(by_, count).count;
        threads.run(groups, std::int64_t{count} * inputs_ > numbers_for_threads ? active : 1,
                    [&](std::int32_t first, std::int32_t last, int) {
                        product::pack_groups(by_, rows, size(inputs_), count, inputs_, rounded_, workspace, first,
                                             last);
                    });
        // In pairs of panels, which kernels take together.
        threads.run((panels_ + 1) / 2, active, [&](std::int32_t first, std::int32_t last, int) {
            by_.run({weights_.get(), scales_.size() == 0 ? nullptr : scales_.data(), outputs_, 2 * first,
                     std::min(2 * last, panels_), product::steps(by_, inputs_), workspace, count, output, output_row});
        });
    }

private:
    /// The tensor and its row that have the weights of an output of the parts, which lie one after the other.
    static std::pair<tensor_view const*, std::size_t> place_of(std::vector<linear_maker::part> const& parts,
                                                               std::int32_t output) {
        auto part = parts.begin();
        for (; output >= part->outputs; ++part) output -= part->outputs;
        return {part->tensor, size(output)};
    }

    /// A row of a tensor in the blocks that are multiplied: as it is stored, or rounded to them in the n-th place of
    /// `made`.
    [[nodiscard]] std::span<std::byte const> row_in_blocks(tensor_view const& tensor, std::size_t row, std::int32_t n,
                                                           std::vector<std::byte>& made) const {
        if (stored_type(tensor.type) == by_.weights) return tensor.stored_row(row);
        std::size_t const bytes = size(inputs_) / block_numbers(tensor_type::q8_0) * block_bytes(tensor_type::q8_0);
        made.resize(size(product::panel) * bytes);
        std::vector<float> numbers(size(inputs_));
        tensor.read(row * numbers.size(), numbers);
        auto const place = std::span(made).subspan(size(n) * bytes, bytes);
        round_to_blocks(numbers, place.data());
        return place;
    }

    kernel const& by_;
    std::int32_t inputs_;
    std::int32_t outputs_ = 0;
    std::int32_t panels_ = 0;
    bool rounded_;
    std::shared_ptr<std::byte> weights_{};
    aligned_array<float> scales_{};  ///< for 8 bits
};

/// Matrices of several types, one after the other.
class joined_linear final : public linear {
public:
    explicit joined_linear(std::vector<std::unique_ptr<streamed_linear>> parts) : parts_(std::move(parts)) {
        for (auto const& part : parts_) outputs_ += part->outputs();
    }

    [[nodiscard]] std::int32_t inputs() const noexcept override { return parts_.front()->inputs(); }
    [[nodiscard]] std::int32_t outputs() const noexcept override { return outputs_; }
    [[nodiscard]] std::size_t bytes() const noexcept override {
        std::size_t all = 0;
        for (auto const& part : parts_) all += part->bytes();
        return all;
    }
    [[nodiscard]] std::size_t workspace_bytes(std::int32_t rows) const override {
        std::size_t most = 0;
        for (auto const& part : parts_) most = std::max(most, part->workspace_bytes(rows));
        return most;
    }
    [[nodiscard]] std::string description() const override {
        std::string text;
        for (auto const& part : parts_) text += (text.empty() ? "" : " + ") + part->description();
        return text;
    }
    void multiply(team& threads, int active, float const* rows, std::int32_t count, float* output,
                  std::byte* workspace) const override {
        for (auto const& part : parts_) {
            part->multiply(threads, active, rows, count, output, size(outputs_), workspace);
            output += part->outputs();
        }
    }

private:
    std::vector<std::unique_ptr<streamed_linear>> parts_;
    std::int32_t outputs_ = 0;
};

/// Products by oneDNN, in slabs of outputs that are distributed over threads.
class packed_linear final : public linear {
public:
    struct slab {
        std::shared_ptr<matmul const> products;
        dnnl::memory weights;
        std::int32_t first;
    };

    packed_linear(std::vector<slab> slabs, std::int32_t inputs, std::int32_t outputs, bool rounded)
        : slabs_(std::move(slabs)), inputs_(inputs), outputs_(outputs), rounded_(rounded) {
        for (slab const& s : slabs_) scratchpad_ = std::max(scratchpad_, s.products->scratchpad_bytes());
        scratchpad_ = (scratchpad_ + 63) / 64 * 64;
    }

    [[nodiscard]] std::int32_t inputs() const noexcept override { return inputs_; }
    [[nodiscard]] std::int32_t outputs() const noexcept override { return outputs_; }
    [[nodiscard]] std::size_t bytes() const noexcept override {
        std::size_t all = 0;
        for (slab const& s : slabs_) all += s.products->packed_bytes();
        return all;
    }
    [[nodiscard]] std::size_t workspace_bytes(std::int32_t rows) const override {
        return input_bytes(rows) + output_bytes(rows) + slabs_.size() * scratchpad_;
    }
    [[nodiscard]] std::string description() const override {
        matmul const& first = *slabs_.front().products;
        std::string text = std::to_string(outputs_) + (rounded_ ? " bf16" : " f32") + " by oneDNN " +
                           first.implementation() + ", slabs of " + std::to_string(first.n()) + ", rows";
        for (std::int32_t const rows : first.row_counts()) text += ' ' + std::to_string(rows);
        return text;
    }

    void multiply(team& threads, int active, float const* rows, std::int32_t count, float* output,
                  std::byte* workspace) const override {
        std::size_t const numbers = size(count) * size(inputs_);
        std::size_t const bytes = numbers * input_size();
        if (rounded_)
            kernels::round(rows, numbers, reinterpret_cast<bfloat16*>(workspace));
        else
            std::memcpy(workspace, rows, bytes);
        std::fill(workspace + bytes, workspace + input_bytes(count), std::byte{});
        // oneDNN's rows are consecutive, and more rows than requested may be written.
        bool const direct = slabs_.size() == 1 && padded(count) == count;
        auto* const results = reinterpret_cast<float*>(workspace + input_bytes(count));
        std::byte* const scratchpads = workspace + input_bytes(count) + output_bytes(count);
        threads.run(static_cast<std::int32_t>(slabs_.size()), active, [&](std::int32_t first, std::int32_t last, int) {
            for (std::int32_t i = first; i < last; ++i) {
                slab const& s = slabs_[size(i)];
                std::size_t const width = size(s.products->n());
                float* const to = direct ? output : results + size(padded(count)) * size(s.first);
                s.products->run(s.weights, count, workspace, to, scratchpads + size(i) * scratchpad_);
                if (direct) continue;
                for (std::size_t r = 0; r < size(count); ++r)
                    std::copy_n(to + r * width, width, output + r * size(outputs_) + size(s.first));
            }
        });
    }

private:
    [[nodiscard]] std::int32_t padded(std::int32_t rows) const noexcept {
        std::int32_t most = rows;
        for (slab const& s : slabs_) most = std::max(most, s.products->padded(rows));
        return most;
    }
    [[nodiscard]] std::size_t input_size() const noexcept { return rounded_ ? sizeof(bfloat16) : sizeof(float); }
    [[nodiscard]] std::size_t input_bytes(std::int32_t rows) const noexcept {
        return (size(padded(rows)) * size(inputs_) * input_size() + 63) / 64 * 64;
    }
    [[nodiscard]] std::size_t output_bytes(std::int32_t rows) const noexcept {
        return (size(padded(rows)) * size(outputs_) * sizeof(float) + 63) / 64 * 64;
    }

    std::vector<slab> slabs_;
    std::int32_t inputs_;
    std::int32_t outputs_;
    std::size_t scratchpad_ = 0;
    bool rounded_;
};

/// Outputs of a slab of a large model: enough for a call of oneDNN, few enough for several threads.
constexpr std::int32_t slab_outputs = 512;

/// A model with up to this many bytes of weights stays in a cache between calls.
constexpr std::size_t cached_bytes = std::size_t{16} << 20U;

bool has_kernel_of(product::input_form form) {
    return std::ranges::any_of(product::kernels(), [&](kernel const* k) { return k->inputs == form; });
}

/// Where the CPU has tiles that the compiler of the kernels does not know.
bool suits_onednn(precision numbers) {
    return numbers == precision::bf16 && multiplies_by_tiles() && !has_kernel_of(product::input_form::tiles);
}

}  // namespace

bool multiplies_by_tiles() {
    if (has_kernel_of(product::input_form::tiles)) return true;
    // Later sets contain the bits of earlier ones.
    auto const isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
    auto const tiles = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_amx);
    return (isa & tiles) == tiles;
}

bool multiplies_bfloat16() { return multiplies_by_tiles() || has_kernel_of(product::input_form::pairs); }

std::size_t loaded_bytes(std::size_t weights, tensor_type type, precision numbers) noexcept {
    bool const in_blocks = block_numbers(type) > 1;
    if (numbers == precision::int8) return weights;
    if (numbers == precision::q8_0 && !in_blocks) type = tensor_type::q8_0;
    if (keeps_blocks(numbers)) return weights / block_numbers(type) * block_bytes(type);
    return weights * (!in_blocks ? size_of(type) : numbers == precision::f32 ? 4 : 2);
}

bool multiplies_bytes() { return product::kernel_for(weight_type::q4_1, true).name != std::string_view("portable"); }

struct linear_maker::library {
    dnnl::memory::data_type type;
    std::int32_t most_rows;
    std::int32_t most_outputs;  ///< of a slab
    /// By inputs and outputs: one serves all matrices of that size.
    std::map<std::pair<std::int32_t, std::int32_t>, std::shared_ptr<matmul const>> products{};

    std::shared_ptr<matmul const> of(std::int32_t inputs, std::int32_t outputs) {
        auto& entry = products[{inputs, outputs}];
        if (!entry) entry = std::make_shared<matmul const>(inputs, outputs, type, most_rows);
        return entry;
    }

    std::unique_ptr<linear> make(std::vector<part> const& parts, std::int32_t inputs, team& threads) {
        bool const rounded = type == dnnl::memory::data_type::bf16;
        // Where each output's weights are.
        std::vector<std::pair<tensor_view const*, std::int32_t>> rows;
        for (part const& p : parts)
            for (std::int32_t n = 0; n < p.outputs; ++n) rows.emplace_back(p.tensor, n);
        auto const outputs = static_cast<std::int32_t>(rows.size());
        std::vector<packed_linear::slab> slabs;
        for (std::int32_t first = 0; first < outputs; first += most_outputs)
            slabs.push_back({of(inputs, std::min(most_outputs, outputs - first)), {}, first});
        auto const fill = [&](std::int32_t begin, std::int32_t end, int) {
            std::vector<float> row(size(inputs));
            std::size_t const row_bytes = row.size() * (rounded ? sizeof(bfloat16) : sizeof(float));
            for (std::int32_t i = begin; i < end; ++i) {
                packed_linear::slab& slab = slabs[size(i)];
                auto const plain = aligned_array<std::byte>::unset(size(slab.products->n()) * row_bytes);
                std::byte* to = plain.data();
                for (std::int32_t n = 0; n < slab.products->n(); ++n, to += row_bytes) {
                    auto const& [tensor, at] = rows[size(slab.first + n)];
                    tensor->read(size(at) * row.size(), row);
                    if (rounded)
                        kernels::round(row.data(), row.size(), reinterpret_cast<bfloat16*>(to));
                    else
                        std::memcpy(to, row.data(), row_bytes);
                }
                slab.weights = slab.products->pack(plain.data());
            }
        };
        threads.run(static_cast<std::int32_t>(slabs.size()), threads.threads(), fill);
        return std::make_unique<packed_linear>(std::move(slabs), inputs, outputs, rounded);
    }
};

linear_maker::linear_maker(precision numbers, multiplier by, std::size_t model_bytes, std::int32_t most_rows)
    : numbers_(numbers), memory_(std::make_unique<weight_memory>()) {
    bool const by_library = by == multiplier::onednn || (by == multiplier::automatic && suits_onednn(numbers));
    if (!by_library) return;
    if (numbers == precision::int8 || keeps_blocks(numbers))
        throw std::runtime_error("oneDNN multiplies bf16 and f32 only");
    bool const small = model_bytes <= cached_bytes;
    library_ = std::make_unique<library>(
        library{numbers == precision::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32, most_rows,
                small ? std::numeric_limits<std::int32_t>::max() : slab_outputs});
}

linear_maker::~linear_maker() = default;

std::unique_ptr<linear> linear_maker::make(std::vector<part> const& parts, std::int32_t inputs, team& threads) {
    if (library_) {
        try {
            return library_->make(parts, inputs, threads);
        } catch (dnnl::error const& e) {
            throw std::runtime_error(std::string("oneDNN, matrix products in ") +
                                     (numbers_ == precision::bf16 ? "bf16" : "f32") + ": " + e.what());
        }
    }
    if (keeps_blocks(numbers_)) {
        std::vector<std::unique_ptr<streamed_linear>> made;
        for (auto from = parts.begin(); from != parts.end();) {
            auto const type_of = [&](linear_maker::part const& p) {
                return type_in_blocks(p.tensor->type, inputs, numbers_);
            };
            weight_type const type = type_of(*from);
            auto const end = std::find_if(from, parts.end(), [&](auto const& p) { return type_of(p) != type; });
            bool const rounded = rounds_to_bytes(numbers_) && type != weight_type::f32;
            made.push_back(std::make_unique<streamed_linear>(std::vector(from, end), product::kernel_for(type, rounded),
                                                             inputs, rounded, *memory_, threads));
            from = end;
        }
        if (made.size() == 1) return std::move(made.front());
        return std::make_unique<joined_linear>(std::move(made));
    }
    // A file may have matrices of both types: bfloat16 is widened exactly.
    bool const widened = numbers_ == precision::f32 &&
                         std::ranges::any_of(parts, [](part const& p) { return p.tensor->type != tensor_type::bf16; });
    weight_type const type = numbers_ == precision::int8 ? weight_type::int8
                             : widened                   ? weight_type::f32
                                                         : weight_type::bf16;
    bool const rounded = numbers_ != precision::f32;
    return std::make_unique<streamed_linear>(parts, product::kernel_for(type, rounded), inputs, rounded, *memory_,
                                             threads);
}

}  // namespace multidraft::examples
