// Products by AMX: in a tile, 32 inputs of up to 16 rows times 32 inputs of 16 outputs, in bfloat16.
#include "transformer/product_kernel.hpp"

#if defined(__AMX_TILE__) && defined(__AMX_BF16__)
#include "transformer/product_tile.hpp"

namespace multidraft::examples::product {
namespace {

// Of the eight tile registers four are the sums of as many groups of rows, one each the inputs of a group of more rows
// and of fewer, which have other shapes, and two are weights of a step, which are read once for all groups.
constexpr int most_groups = 4;
constexpr int larger_inputs = 4;
constexpr int smaller_inputs = 5;
constexpr int weights = 6;
constexpr int more_weights = 7;

constexpr std::int32_t most_rows = 16;
constexpr std::ptrdiff_t row_bytes = 64;  ///< of every tile
constexpr std::ptrdiff_t step_bytes = 1024;

// The instructions by name: the intrinsics of g++ take no constant of a template. They keep their order.

template <int tile>
inline void load(std::byte const* from) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(row_bytes), "i"(tile) : "memory");
}
template <int tile>
inline void store(float* to, std::ptrdiff_t next_row) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(next_row), "i"(tile) : "memory");
}
template <int tile>
inline void clear() {
    __asm__ volatile("tilezero %%tmm%c0" : : "i"(tile));
}
template <int sums, int inputs, int by>
inline void add_products() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sums), "i"(inputs), "i"(by));
}

/// The shapes of the registers, as the processor reads them.
struct alignas(64) tile_shapes {
    std::uint8_t palette = 1;
    std::uint8_t start_row = 0;
    std::uint8_t reserved[14] = {};
    std::uint16_t bytes[16] = {};
    std::uint8_t rows[16] = {};

    void set(int tile, std::int32_t of_rows) {
        bytes[tile] = row_bytes;
        rows[tile] = static_cast<std::uint8_t>(of_rows);
    }
    void use() const { __asm__ volatile("ldtilecfg %0" : : "m"(*this) : "memory"); }
};

/// While it lives, the registers are in use.
class tiles_in_use {
public:
    tiles_in_use() = default;
    ~tiles_in_use() { __asm__ volatile("tilerelease"); }
    tiles_in_use(tiles_in_use const&) = delete;
    tiles_in_use& operator=(tiles_in_use const&) = delete;

    /// Shapes for `groups` groups of rows, the first `larger` with one row more than the others, if there are others.
    void shape(int groups, int larger, std::int32_t rows) {
        if (groups == groups_ && larger == larger_ && rows == rows_) return;
        tile_shapes shapes;
        for (int g = 0; g < groups; ++g) shapes.set(g, g < larger ? rows : rows - 1);
        shapes.set(larger_inputs, rows);
        shapes.set(smaller_inputs, larger < groups ? rows - 1 : rows);
        shapes.set(weights, most_rows);
        shapes.set(more_weights, most_rows);
        shapes.use();
        groups_ = groups;
        larger_ = larger;
        rows_ = rows;
    }

private:
    int groups_ = 0, larger_ = 0;
    std::int32_t rows_ = 0;
};

/// Groups of rows that are multiplied by a panel together.
struct group_inputs {
    std::byte const* at[most_groups];   ///< the next step of each
    std::ptrdiff_t bytes[most_groups];  ///< of a step
};

template <int groups, int g = 0>
inline void clear_sums() {
    clear<g>();
    if constexpr (g + 1 < groups) clear_sums<groups, g + 1>();
}

template <int groups, int larger, int by, int g = 0>
inline void add_step(group_inputs& inputs) {
    constexpr int tile = g < larger ? larger_inputs : smaller_inputs;
    load<tile>(inputs.at[g]);
    inputs.at[g] += inputs.bytes[g];
    add_products<g, tile, by>();
    if constexpr (g + 1 < groups) add_step<groups, larger, by, g + 1>(inputs);
}

/// Writes the sums of a panel, whose first output is `begin`, to the rows from `output` on.
template <int groups, int g = 0>
inline void store_sums(task const& t, std::int32_t begin, group_inputs const& inputs, float* output) {
    auto const rows = static_cast<std::size_t>(inputs.bytes[g] / row_bytes);
    if (begin + panel <= t.outputs) {
        store<g>(output + begin, static_cast<std::ptrdiff_t>(t.output_row * sizeof(float)));
    } else {
        alignas(64) float sums[most_rows][panel];
        store<g>(sums[0], row_bytes);
        for (std::size_t r = 0; r < rows; ++r) write_outputs(t, sums[r], begin, output + r * t.output_row);
    }
    if constexpr (g + 1 < groups) store_sums<groups, g + 1>(t, begin, inputs, output + rows * t.output_row);
}

/// Panel `p` times some groups of rows. Fetches `lines` of the weights to come in each step.
template <int groups, int larger>
void multiply_groups(task const& t, std::int32_t p, group_inputs inputs, float* output, fetched& next,
                     std::ptrdiff_t lines) {
    std::byte const* from = t.weights + std::ptrdiff_t{p} * t.steps * step_bytes;
    auto const fetch_lines = [&] {
        for (std::ptrdiff_t line = 0; line < lines; ++line) fetch_step(next);
    };
    clear_sums<groups>();
    std::int32_t s = 0;
    // With few rows reading takes the time: two tiles of weights are read together.
    if constexpr (groups <= 2) {
        for (; s + 1 < t.steps; s += 2, from += 2 * step_bytes) {
            load<weights>(from);
            load<more_weights>(from + step_bytes);
            fetch_lines();
            fetch_lines();
            add_step<groups, larger, weights>(inputs);
            add_step<groups, larger, more_weights>(inputs);
        }
    }
    for (; s < t.steps; ++s, from += step_bytes) {
        load<weights>(from);
        fetch_lines();
        add_step<groups, larger, weights>(inputs);
    }
    store_sums<groups>(t, p * panel, inputs, output);
}

using multiplication = void (*)(task const&, std::int32_t, group_inputs, float*, fetched&, std::ptrdiff_t);
constexpr multiplication multiplications[most_groups][most_groups] = {
    {multiply_groups<1, 1>, nullptr, nullptr, nullptr},
    {multiply_groups<2, 1>, multiply_groups<2, 2>, nullptr, nullptr},
    {multiply_groups<3, 1>, multiply_groups<3, 2>, multiply_groups<3, 3>, nullptr},
    {multiply_groups<4, 1>, multiply_groups<4, 2>, multiply_groups<4, 3>, multiply_groups<4, 4>}};

void multiply(task const& t) {
    tiles_in_use registers;
    row_groups const groups(t.rows, most_rows, most_rows);
    std::int32_t const turns = (groups.count + most_groups - 1) / most_groups;
    std::ptrdiff_t const panel_bytes = t.steps * step_bytes;
    // In the turns of a panel together the next panel is fetched, or in a single one what lies a little further on.
    constexpr std::ptrdiff_t line = 64;
    std::ptrdiff_t const lines = (step_bytes / line + turns - 1) / turns;
    constexpr std::ptrdiff_t little = 8192;
    std::ptrdiff_t const distance = turns == 1 && panel_bytes > little ? little : panel_bytes;
    for (std::int32_t p = t.first; p < t.last; ++p) {
        fetched next{t.weights + p * panel_bytes + distance, line};
        std::int32_t g = 0;
        for (std::int32_t turn = 0; turn < turns; ++turn) {
            std::int32_t const count = groups.count / turns + (turn < groups.count % turns ? 1 : 0);
            std::int32_t const rows = groups.size(g);
            float* const output = t.output + static_cast<std::size_t>(groups.begin(g)) * t.output_row;
            std::int32_t larger = 0;
            group_inputs inputs{};
            for (std::int32_t k = 0; k < count; ++k, ++g) {
                larger += groups.size(g) == rows ? 1 : 0;
                inputs.at[k] = t.inputs + groups.begin(g) * t.steps * row_bytes;
                inputs.bytes[k] = groups.size(g) * row_bytes;
            }
            registers.shape(count, larger, rows);
            multiplications[count - 1][larger - 1](t, p, inputs, output, next, lines);
        }
    }
}

constexpr kernel list[] = {{"amx", weight_type::bf16, input_form::tiles, most_rows, most_rows, multiply}};

}  // namespace

kernel_list const amx_kernels{list, sizeof list / sizeof *list};

}  // namespace multidraft::examples::product

#else
namespace multidraft::examples::product {
kernel_list const amx_kernels{nullptr, 0};
}  // namespace multidraft::examples::product
#endif
