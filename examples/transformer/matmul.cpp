#include "transformer/matmul.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "transformer/aligned_array.hpp"
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

/// The numbers of rows that get a primitive: all small ones, then steps of at most a quarter or so.
std::vector<std::int32_t> candidate_rows(std::int32_t max_rows) {
    std::vector<std::int32_t> rows{reference_rows};
    for (std::int32_t n = 1; n < max_rows; n += n < 8 ? 1 : n < 16 ? 2 : n < 32 ? 4 : n < 64 ? 8 : 16) {
        if (n != reference_rows) rows.push_back(n);
    }
    if (max_rows != reference_rows) rows.push_back(max_rows);
    return rows;
}

dnnl::matmul::primitive_desc describe(dnnl::memory::desc const& input, dnnl::memory::desc const& weights,
                                      dnnl::memory::desc const& output) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
#if DNNL_VERSION_MAJOR >= 3
    return {cpu_engine(), input, weights, output, attributes};
#else
    return {dnnl::matmul::desc(input, weights, output), attributes, cpu_engine()};
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
    // Without OpenMP at compile time, uses the one that oneDNN loaded, if any.
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

/// While it lives, oneDNN's calls in this thread take one thread. A product is distributed over the threads of `team`.
class one_thread {
public:
    one_thread() noexcept : before_(openmp().get()) {
        if (before_ != 1) openmp().set(1);
    }
    ~one_thread() {
        if (before_ != 1) openmp().set(before_);
    }
    one_thread(one_thread const&) = delete;
    one_thread& operator=(one_thread const&) = delete;

private:
    int before_;
};

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
    auto numbers = aligned_array<std::byte>::unset(count * width);
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

dnnl::engine const& cpu_engine() {
    static dnnl::engine const engine(dnnl::engine::kind::cpu, 0);
    return engine;
}

matmul::matmul(std::int32_t k, std::int32_t n, dnnl::memory::data_type type, std::int32_t max_rows)
    : k_(k), n_(n), max_rows_(max_rows), type_(type) {
    using desc = dnnl::memory::desc;
    using tag = dnnl::memory::format_tag;
    one_thread const scope;
    for (std::int32_t const rows : candidate_rows(max_rows)) {
        desc const input({rows, k}, type, tag::ab);
        desc const output({rows, n}, dnnl::memory::data_type::f32, tag::ab);
        // The reference determines the packing of the weights; all primitives share one copy.
        desc const weights = sizes_.empty() ? desc({k, n}, type, tag::any) : packed_;
        try {
            auto const description = describe(input, weights, output);
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
    keep_equal_bits();
    std::ranges::sort(sizes_, {}, &sized::rows);
    for (sized const& size : sizes_) scratchpad_bytes_ = std::max(scratchpad_bytes_, size.scratchpad.get_size());
}

dnnl::memory matmul::pack(void const* weights) const {
    one_thread const scope;
    dnnl::memory plain({{k_, n_}, type_, dnnl::memory::format_tag::ba}, cpu_engine(), const_cast<void*>(weights));
    dnnl::memory packed(packed_, cpu_engine());
    dnnl::stream stream(cpu_engine());
    dnnl::reorder(plain, packed).execute(stream, plain, packed);
    stream.wait();
    return packed;
}

std::vector<std::int32_t> matmul::row_counts() const {
    std::vector<std::int32_t> rows;
    for (sized const& size : sizes_) rows.push_back(size.rows);
    return rows;
}

std::size_t matmul::next(std::int32_t rows) const noexcept {
    auto const found = std::ranges::lower_bound(sizes_, rows, {}, &sized::rows);
    return static_cast<std::size_t>((found == sizes_.end() ? found - 1 : found) - sizes_.begin());
}

std::int32_t matmul::padded(std::int32_t rows) const noexcept {
    std::int32_t done = 0;
    while (done < rows) done += sizes_[next(rows - done)].rows;
    return done;
}

dnnl_memory_t matmul::objects::bound::to(void* data) {
    if (data != at) {
        memory.set_data_handle(data);
        at = data;
    }
    return memory.get();
}

std::unique_ptr<matmul::objects> matmul::borrow() const {
    {
        std::lock_guard const lock(guard_);
        if (!idle_.empty()) {
            auto found = std::move(idle_.back());
            idle_.pop_back();
            return found;
        }
    }
    auto made = std::make_unique<objects>(objects{dnnl::stream(cpu_engine()), {}});
    for (sized const& size : sizes_)
        made->by_size.push_back({{{size.input, cpu_engine(), DNNL_MEMORY_NONE}},
                                 {{size.output, cpu_engine(), DNNL_MEMORY_NONE}},
                                 {{size.scratchpad, cpu_engine(), DNNL_MEMORY_NONE}}});
    return made;
}

void matmul::run(dnnl::memory const& weights, std::int32_t rows, std::byte* input, float* output,
                 std::byte* scratchpad) const {
    one_thread const scope;  // several would add up in another order
    auto by = borrow();
    for (std::int32_t done = 0; done < rows;) {
        std::size_t const at = next(rows - done);
        sized const& size = sizes_[at];
        objects::buffers& use = by->by_size[at];
        execute(size.primitive, by->stream, use.input.to(input), weights.get(), use.output.to(output),
                use.scratchpad.to(scratchpad));
        by->stream.wait();
        // Only products without batch-invariant primitives come here more than once.
        done += size.rows;
        input += size.input.get_size();
        output += static_cast<std::size_t>(size.rows) * static_cast<std::size_t>(n_);
    }
    std::lock_guard const lock(guard_);
    idle_.push_back(std::move(by));
}

void matmul::keep_equal_bits() {
    auto const width = static_cast<std::size_t>(n_);
    auto const length = static_cast<std::size_t>(k_);
    std::size_t const row_bytes = length * (type_ == dnnl::memory::data_type::bf16 ? 2 : 4);
    // The rows, twice over, so that a block may begin at any of them.
    std::int32_t const distinct = std::max(max_rows_, reference_rows);
    noise source;
    auto const weights = pack(random_numbers(source, length * width, type_).data());
    auto const once = random_numbers(source, static_cast<std::size_t>(distinct) * length, type_);
    auto const inputs = aligned_array<std::byte>::unset(2 * once.size());
    std::memcpy(inputs.data(), once.data(), once.size());
    std::memcpy(inputs.data() + once.size(), once.data(), once.size());
    dnnl::stream stream(cpu_engine());

    aligned_array<float> const result(static_cast<std::size_t>(distinct) * width);
    auto const multiply = [&](sized const& size, std::int32_t first) {
        // A copy, so that every block has the alignment of the real ones.
        auto const block = aligned_array<std::byte>::unset(static_cast<std::size_t>(size.rows) * row_bytes);
        std::memcpy(block.data(), inputs.data() + static_cast<std::size_t>(first) * row_bytes, block.size());
        auto const scratch = aligned_array<std::byte>::unset(size.scratchpad.get_size() + 64);
        dnnl::memory const input(size.input, cpu_engine(), block.data());
        dnnl::memory const output(size.output, cpu_engine(), result.data());
        dnnl::memory const scratchpad(size.scratchpad, cpu_engine(), scratch.data());
        execute(size.primitive, stream, input.get(), weights.get(), output.get(), scratchpad.get());
        stream.wait();
    };
    auto const row_of = [&](aligned_array<float> const& rows, std::int32_t r) {
        return rows.data() + static_cast<std::size_t>(r) * width;
    };

    // What every row must give, found block by block of the reference.
    aligned_array<float> const expected(result.size());
    for (std::int32_t first = 0; first < distinct; first += reference_rows) {
        multiply(sizes_.front(), first);
        for (std::int32_t r = 0; r < std::min(reference_rows, distinct - first); ++r)
            std::copy_n(row_of(result, r), width, row_of(expected, first + r));
    }
    auto const agrees = [&](sized const& size) {
        for (std::int32_t const first : {0, 1, 5, distinct / 2 + 3}) {
            multiply(size, first);
            for (std::int32_t r = 0; r < size.rows; ++r)
                if (std::memcmp(row_of(result, r), row_of(expected, (first + r) % distinct), width * sizeof(float)) !=
                    0)
                    return false;
        }
        return true;
    };
    if (agrees(sizes_.front())) {
        std::erase_if(sizes_, [&](sized const& size) { return !agrees(size); });
    } else {
        std::erase_if(sizes_, [](sized const& size) { return size.rows != 1; });
    }
}

}  // namespace multidraft::examples
