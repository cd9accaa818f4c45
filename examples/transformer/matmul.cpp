#include "transformer/matmul.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "transformer/kernels.hpp"

#if defined(_OPENMP)
#include <omp.h>
#else
#include <dlfcn.h>
#endif

namespace multidraft::examples {
namespace {

/// The number of rows whose bits the others must have.
constexpr std::int32_t reference_rows = 16;

/// The numbers of rows that get a primitive: all small ones, then steps of at most an eighth or so.
std::vector<std::int32_t> candidate_rows(std::int32_t max_rows) {
    std::vector<std::int32_t> rows{reference_rows};
    for (std::int32_t n = 1; n < max_rows; n += n < 8 ? 1 : n < 16 ? 2 : n < 32 ? 4 : 8) {
        if (n != reference_rows) rows.push_back(n);
    }
    if (max_rows != reference_rows) rows.push_back(max_rows);
    return rows;
}

dnnl::matmul::primitive_desc describe(dnnl::engine const& engine, dnnl::memory::desc const& input,
                                      dnnl::memory::desc const& weights, dnnl::memory::desc const& output) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
#if DNNL_VERSION_MAJOR >= 3
    return {engine, input, weights, output, attributes};
#else
    return {dnnl::matmul::desc(input, weights, output), attributes, engine};
#endif
}

void execute(dnnl::primitive const& primitive, dnnl::stream const& stream, dnnl_memory_t input, dnnl_memory_t weights,
             dnnl_memory_t output, dnnl_memory_t scratchpad) {
    // The C function: the C++ one builds a map and a vector on every call.
    std::array<dnnl_exec_arg_t, 4> const arguments{{{DNNL_ARG_SRC, input},
                                                    {DNNL_ARG_WEIGHTS, weights},
                                                    {DNNL_ARG_DST, output},
                                                    {DNNL_ARG_SCRATCHPAD, scratchpad}}};
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(primitive.get(), stream.get(), static_cast<int>(arguments.size()), arguments.data()),
        "could not multiply matrices");
}

/// OpenMP's functions that read and set the calling thread's number of threads.
struct openmp_functions {
    int (*get)();
    void (*set)(int);
};

openmp_functions const& openmp() noexcept {
#if defined(_OPENMP)
    static openmp_functions const functions{&omp_get_max_threads, &omp_set_num_threads};
#else
    // Compiled without OpenMP we still have to ask the one that oneDNN brought along, if it did.
    static openmp_functions const functions = [] {
        openmp_functions found{[] { return 1; }, [](int) {}};
        void* const get = ::dlsym(RTLD_DEFAULT, "omp_get_max_threads");
        void* const set = ::dlsym(RTLD_DEFAULT, "omp_set_num_threads");
        if (get != nullptr && set != nullptr) {
            found.get = reinterpret_cast<int (*)()>(get);
            found.set = reinterpret_cast<void (*)(int)>(set);
        }
        return found;
    }();
#endif
    return functions;
}

/// Numbers in [-1, 1), the same on every machine.
class noise {
public:
    float operator()() noexcept {
        state_ = state_ * 6364136223846793005U + 1442695040888963407U;
        return static_cast<float>(static_cast<std::int32_t>(state_ >> 32U)) * 0x1p-31F;
    }

private:
    std::uint64_t state_ = 1;
};

/// `count` random numbers as bytes of the given type.
aligned_array<std::byte> random_numbers(noise& source, std::size_t count, dnnl::memory::data_type type) {
    bool const narrow = type == dnnl::memory::data_type::bf16;
    std::size_t const width = narrow ? 2 : 4;
    aligned_array<std::byte> numbers(count * width);
    for (std::size_t i = 0; i < count; ++i) {
        float const value = source();
        if (narrow) {
            auto const rounded = kernels::to_bfloat16(value);
            std::memcpy(numbers.data() + 2 * i, &rounded, 2);
        } else {
            std::memcpy(numbers.data() + 4 * i, &value, 4);
        }
    }
    return numbers;
}

}  // namespace

bool multiplies_by_tiles() {
    // Later sets contain the bits of earlier ones.
    auto const isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
    auto const tiles = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_amx);
    return (isa & tiles) == tiles;
}

int available_threads() noexcept { return openmp().get(); }

thread_scope::thread_scope(int threads) noexcept : before_(openmp().get()) {
    if (threads != before_) openmp().set(threads);
}

thread_scope::~thread_scope() {
    if (openmp().get() != before_) openmp().set(before_);
}

matmul::matmul(dnnl::engine const& engine, std::int32_t k, std::int32_t n, dnnl::memory::data_type type,
               std::int32_t max_rows)
    : k_(k), n_(n), max_rows_(max_rows), type_(type) {
    using desc = dnnl::memory::desc;
    using tag = dnnl::memory::format_tag;
    for (std::int32_t const rows : candidate_rows(max_rows)) {
        desc const input({rows, k}, type, tag::ab);
        desc const output({rows, n}, dnnl::memory::data_type::f32, tag::ab);
        // The reference chooses how the weights are packed; one copy of them serves all.
        desc const weights = sizes_.empty() ? desc({k, n}, type, tag::any) : packed_;
        try {
            auto const description = describe(engine, input, weights, output);
            if (sizes_.empty()) {
                packed_ = description.weights_desc();
                implementation_ = description.impl_info_str();
            }
            sizes_.push_back({rows, dnnl::matmul(description), input, output, description.scratchpad_desc()});
        } catch (dnnl::error const&) {
            // No kernel for this number of rows with that packing: it is padded to the next. The reference must work.
            if (sizes_.empty()) throw;
        }
    }
    keep_equal_bits(engine);
    std::ranges::sort(sizes_, {}, &sized::rows);
    for (sized const& size : sizes_) scratchpad_bytes_ = std::max(scratchpad_bytes_, size.scratchpad.get_size());
}

dnnl::memory matmul::pack(dnnl::engine const& engine, void const* weights) const {
    dnnl::memory plain({{k_, n_}, type_, dnnl::memory::format_tag::ba}, engine, const_cast<void*>(weights));
    dnnl::memory packed(packed_, engine);
    dnnl::stream stream(engine);
    dnnl::reorder(plain, packed).execute(stream, plain, packed);
    stream.wait();
    return packed;
}

std::vector<std::int32_t> matmul::row_counts() const {
    std::vector<std::int32_t> rows;
    for (sized const& size : sizes_) rows.push_back(size.rows);
    return rows;
}

void matmul::keep_equal_bits(dnnl::engine const& engine) {
    auto const width = static_cast<std::size_t>(n_);
    std::size_t const row_bytes = static_cast<std::size_t>(k_) * (type_ == dnnl::memory::data_type::bf16 ? 2 : 4);
    // The rows, twice over, so that a block may begin at any of them.
    std::int32_t const distinct = std::max(max_rows_, reference_rows);
    noise source;
    auto const weights = pack(engine, random_numbers(source, static_cast<std::size_t>(k_) * width, type_).data());
    auto const once = random_numbers(source, static_cast<std::size_t>(distinct) * static_cast<std::size_t>(k_), type_);
    aligned_array<std::byte> inputs(2 * once.size());
    std::memcpy(inputs.data(), once.data(), once.size());
    std::memcpy(inputs.data() + once.size(), once.data(), once.size());
    dnnl::stream stream(engine);

    aligned_array<float> result(static_cast<std::size_t>(distinct) * width);
    auto const multiply = [&](sized const& size, std::int32_t first) {
        // A copy, so that every block has the alignment of the real ones.
        aligned_array<std::byte> block(static_cast<std::size_t>(size.rows) * row_bytes);
        std::memcpy(block.data(), inputs.data() + static_cast<std::size_t>(first) * row_bytes, block.size());
        dnnl::memory const input(size.input, engine, block.data());
        dnnl::memory const output(size.output, engine, result.data());
        dnnl::memory const scratchpad(size.scratchpad, engine);
        execute(size.primitive, stream, input.get(), weights.get(), output.get(), scratchpad.get());
        stream.wait();
    };

    // What every row must give, found block by block of the reference.
    aligned_array<float> expected(static_cast<std::size_t>(distinct) * width);
    for (std::int32_t first = 0; first < distinct; first += reference_rows) {
        multiply(sizes_.front(), first);
        auto const rows = static_cast<std::size_t>(std::min(reference_rows, distinct - first));
        std::memcpy(expected.data() + static_cast<std::size_t>(first) * width, result.data(),
                    rows * width * sizeof(float));
    }
    auto const agrees = [&](sized const& size) {
        for (std::int32_t const first : {0, 1, 5, distinct / 2 + 3}) {
            multiply(size, first);
            for (std::int32_t r = 0; r < size.rows; ++r) {
                auto const row = static_cast<std::size_t>((first + r) % distinct);
                if (std::memcmp(result.data() + static_cast<std::size_t>(r) * width, expected.data() + row * width,
                                width * sizeof(float)) != 0) {
                    return false;
                }
            }
        }
        return true;
    };
    if (agrees(sizes_.front())) {
        std::erase_if(sizes_, [&](sized const& size) { return !agrees(size); });
    } else {
        std::erase_if(sizes_, [](sized const& size) { return size.rows != 1; });
    }
}

matmul::binding::binding(dnnl::engine const& engine, matmul const& products, void* input, float* output,
                         void* scratchpad)
    : products_(&products), bound_(output) {
    for (sized const& size : products.sizes_) {
        buffers_.push_back(
            {{size.input, engine, input}, {size.output, engine, output}, {size.scratchpad, engine, scratchpad}});
    }
}

void matmul::binding::run(dnnl::stream const& stream, dnnl::memory const& weights, std::int32_t rows, float* output) {
    auto const n = static_cast<std::size_t>(products_->n_);
    auto const& sizes = products_->sizes_;
    std::int32_t done = 0;
    while (done < rows) {
        auto const next = std::ranges::lower_bound(sizes, rows - done, {}, &sized::rows);
        auto const at = static_cast<std::size_t>((next == sizes.end() ? next - 1 : next) - sizes.begin());
        sized const& size = sizes[at];
        std::int32_t const count = std::min(size.rows, rows - done);
        buffers& use = buffers_[at];
        // Only a model without batch-invariant primitives comes here more than once.
        void* const input = use.input.get_data_handle();
        if (done != 0) {
            std::size_t const row_bytes = size.input.get_size() / static_cast<std::size_t>(size.rows);
            use.input.set_data_handle(static_cast<std::byte*>(input) + static_cast<std::size_t>(done) * row_bytes);
        }
        bool const direct = output != nullptr && count == size.rows;
        float* const target = direct ? output : bound_;
        use.output.set_data_handle(target + static_cast<std::size_t>(done) * n);
        execute(size.primitive, stream, use.input.get(), weights.get(), use.output.get(), use.scratchpad.get());
        if (done != 0) use.input.set_data_handle(input);
        if (output != nullptr && !direct) {
            std::memcpy(output + static_cast<std::size_t>(done) * n, bound_ + static_cast<std::size_t>(done) * n,
                        static_cast<std::size_t>(count) * n * sizeof(float));
        }
        done += count;
    }
}

}  // namespace multidraft::examples
