// The module multidraft._core: the C interface over arrays. Arguments are already converted by the package's Python
// code, except rows, which come by DLPack or the buffer protocol and are checked here. SPDX-License-Identifier:
// Apache-2.0
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "device.hpp"
#include "failure.hpp"
#include "multidraft.h"
#include "usual.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

void raise(failure const& f) {
    try {
        switch (f.status) {
            case MD_OUT_OF_MEMORY:
                PyErr_SetString(PyExc_MemoryError, f.what());
                return;
            case MD_SYSTEM:
                PyErr_SetString(PyExc_OSError, f.what());
                return;
            case MD_INVALID_INPUT: {
                nb::object const type = nb::module_::import_("multidraft._errors").attr("InvalidInput");
                nb::object const error = type(f.message, f.argument, f.index, f.value, f.reason);
                PyErr_SetObject(type.ptr(), error.ptr());
                return;
            }
            default:
                PyErr_SetString(PyExc_RuntimeError, f.what());
        }
    } catch (nb::python_error& e) {
        e.restore();
    }
}

template <class T, class... Options>
using input = nb::ndarray<T const, nb::ro, nb::c_contig, nb::device::cpu, Options...>;
using ints = input<std::int32_t, nb::ndim<1>>;
using longs = input<std::int64_t, nb::ndim<1>>;
using doubles = input<double, nb::ndim<1>>;

/// A new NumPy array. NumPy's own allocation takes less time than an array around memory of the module.
template <class T>
struct output {
    nb::object array;
    T* data = nullptr;

    explicit output(std::vector<std::size_t> const& shape) {
        static auto const* const empty = new nb::object(nb::module_::import_("numpy").attr("empty"));
        static auto const* const type =
            new nb::object(nb::module_::import_("numpy").attr("dtype")((std::is_floating_point_v<T> ? "f"
                                                                        : std::is_signed_v<T>       ? "i"
                                                                                                    : "u") +
                                                                       std::to_string(sizeof(T))));
        nb::object const extents = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(shape.size())));
        for (std::size_t d = 0; d < shape.size(); ++d)
            PyTuple_SetItem(extents.ptr(), static_cast<Py_ssize_t>(d), PyLong_FromSize_t(shape[d]));
        array = (*empty)(extents, *type);
        Py_buffer memory;
        if (PyObject_GetBuffer(array.ptr(), &memory, PyBUF_WRITABLE) != 0) throw nb::python_error();
        data = static_cast<T*>(memory.buf);
        PyBuffer_Release(&memory);  // the array keeps its entries where they are
    }
    [[nodiscard]] nb::object release() { return std::move(array); }
};

/// Pools by their number of threads, for the life of the process. A forked child has none of their threads.
class pools {
public:
    [[nodiscard]] md_pool* of(int threads) {
        if (threads == 1) return nullptr;
        std::lock_guard<std::mutex> const lock(*mutex_);
        md_pool*& pool = pools_[threads];
        if (pool == nullptr) check(md_make_pool(threads, &pool));
        return pool;
    }
    void forget() {
        static_cast<void>(mutex_.release());
        mutex_ = std::make_unique<std::mutex>();
        pools_.clear();
    }

private:
    std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
    std::map<int, md_pool*> pools_;
};

pools& all_pools() {
    static auto* const all = new pools;  // never freed: other threads may be using them at exit
    return *all;
}

/// A text as C takes it, which ends at the first zero.
[[nodiscard]] char const* c_text(std::string const& text, char const* argument) {
    if (text.find('\0') != std::string::npos) throw failure(argument, text, "a text has no zero in it");
    return text.c_str();
}

[[nodiscard]] md_method const* method_of(std::string const& name) {
    md_method const* method = nullptr;
    check(md_find_method(c_text(name, "method"), &method));
    return method;
}

[[nodiscard]] md_method_info info_of(md_method const* method) {
    md_method_info info = MD_METHOD_INFO_INIT;
    check(md_describe_method(method, &info));
    return info;
}

nb::dict describe(std::string const& name) {
    md_method_info const info = info_of(method_of(name));
    constexpr char const* shapes[] = {"any", "pairs", "forks", "chains"};
    nb::dict d;
    d["name"] = info.name;
    d["summary"] = info.summary;
    d["law"] = info.law;
    d["shapes"] = shapes[info.shapes];
    d["lossless"] = info.lossless != 0;
    d["reads_draft"] = info.reads_draft != 0;
    d["counts_certain"] = info.counts_certain != 0;
    d["drawn_by_text"] = info.drawn_by_text != 0;
    d["decides_by_node"] = info.decides_by_node != 0;
    d["lists_may_be_shared"] = info.lists_may_be_shared != 0;
    d["children_may_be_left_out"] = info.children_may_be_left_out != 0;
    return d;
}

/// As NumPy and PyTorch write a type.
[[nodiscard]] std::string name_of(nb::dlpack::dtype type) {
    constexpr std::array<char const*, 7> kinds{"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
    if (type.code >= kinds.size()) return "code " + std::to_string(type.code);
    std::string const kind = kinds[type.code];
    return kind == "bool" ? kind : kind + std::to_string(type.bits);
}

/// A user's rows: an array of two dimensions with any row stride and contiguous entries within a row.
class matrix {
public:
    matrix(nb::handle object, char const* name, bool is_bfloat16) {
        if (!nb::try_cast<any_array>(object, array_, false)) {
            PyErr_Clear();
            throw failure(name, nb::cast<std::string>(nb::str(nb::type_name(object.type()))),
                          "an array is wanted: NumPy's, or one that DLPack exports (a tensor with a gradient does not: "
                          "detach() it)");
        }
        if (array_.device_type() != nb::device::cpu::value)
            throw failure(std::string(name) + ".device", std::to_string(array_.device_type()),
                          std::string("arrays lie in the memory of the CPU (DLPack device 1)") +
                              (array_.device_type() != nb::device::cuda::value ? ""
                               : md_has_cuda() != 0 ? "; multidraft.cuda takes those in device memory"
                                                    : "; for device memory " how_to_build_with_cuda));
        if (array_.ndim() != 2)
            throw failure(std::string(name) + ".ndim", std::to_string(array_.ndim()),
                          "rows are an array of two dimensions, (nodes, vocabulary)");
        nb::dlpack::dtype const type = array_.dtype();
        if (type.lanes != 1) throw failure(std::string(name) + ".dtype", "of lanes", "numbers are wanted");
        if (type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float) && type.bits == 32)
            dtype_ = MD_FLOAT32;
        else if (type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float) && type.bits == 16)
            dtype_ = MD_FLOAT16;
        else if ((type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat) && type.bits == 16) ||
                 (is_bfloat16 && type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::UInt) &&
                  type.bits == 16))
            dtype_ = MD_BFLOAT16;
        else
            throw failure(std::string(name) + ".dtype", name_of(type), "rows are float32, float16 or bfloat16");
        if (array_.shape(0) > 0 && array_.shape(1) > 1 && array_.stride(1) != 1)
            throw failure(std::string(name) + ".strides", std::to_string(array_.stride(1)),
                          "the entries of a row lie together, as a stride of 1 says");
        if (array_.shape(1) > 0x7fffffff - 4096)
            throw failure(std::string(name) + ".shape", std::to_string(array_.shape(1)),
                          "a row has 1 to 2^31 - 4097 entries");
    }

    [[nodiscard]] std::int64_t rows() const { return static_cast<std::int64_t>(array_.shape(0)); }
    [[nodiscard]] std::int32_t vocabulary() const { return static_cast<std::int32_t>(array_.shape(1)); }
    /// Entries from one row to the next: of any sign, 0 for one row seen several times.
    [[nodiscard]] std::int64_t stride() const { return rows() > 1 ? array_.stride(0) : vocabulary(); }
    [[nodiscard]] std::int32_t dtype() const { return dtype_; }
    [[nodiscard]] void const* data() const { return array_.data(); }

    /// The rows of `entries` nodes; `row_of` is kept in `renumbered` where the library would count other rows.
    [[nodiscard]] md_rows view(std::optional<longs> const& row_of, std::size_t entries,
                               std::vector<std::int64_t>& renumbered) const {
        md_rows r = MD_ROWS_INIT;
        r.dtype = dtype_;
        r.data = array_.data();
        r.row_stride = stride();
        r.vocabulary = vocabulary();
        r.row_of = row_of ? row_of->data() : nullptr;
        if (md_has_dtype(dtype_) == 0) {
            widen();
            r.dtype = MD_FLOAT32;
            r.data = widened_.data();
            r.row_stride = vocabulary();
            return r;
        }
        if (r.row_stride > 0 || rows() == 0) return r;
        // The library has no stride of 0 for a row that is seen several times, nor rows from the last to the first.
        std::int64_t const last = r.row_stride < 0 ? rows() - 1 : 0;
        std::int64_t const bytes = dtype_ == MD_FLOAT32 ? 4 : 2;
        r.data = static_cast<char const*>(r.data) + last * r.row_stride * bytes;
        r.row_stride = -r.row_stride;
        renumbered.resize(entries);
        for (std::size_t k = 0; k < entries; ++k)
            renumbered[k] = std::max<std::int64_t>(0, last - (row_of ? (*row_of)(k) : static_cast<std::int64_t>(k)));
        r.row_of = renumbered.data();
        return r;
    }

private:
    /// Makes single precision of rows of 16 bits, which changes no value.
    void widen() const {
        static std::vector<float> const halves = [] {
            std::vector<float> all(65536);
            for (std::size_t bits = 0; bits < all.size(); ++bits) {
                int const exponent = static_cast<int>(bits >> 10U & 31U);
                float const fraction = static_cast<float>(bits & 1023U);
                float const size = exponent == 0   ? std::ldexp(fraction, -24)
                                   : exponent < 31 ? std::ldexp(fraction + 1024, exponent - 25)
                                   : fraction == 0 ? std::numeric_limits<float>::infinity()
                                                   : std::numeric_limits<float>::quiet_NaN();
                all[bits] = bits >> 15U != 0 ? -size : size;
            }
            return all;
        }();
        auto const width = static_cast<std::size_t>(vocabulary());
        widened_.resize(static_cast<std::size_t>(rows()) * width);
        for (std::int64_t i = 0; i < rows(); ++i) {
            auto const* const from = static_cast<std::uint16_t const*>(array_.data()) + i * stride();
            float* const to = widened_.data() + static_cast<std::size_t>(i) * width;
            for (std::size_t k = 0; k < width; ++k) {
                if (dtype_ == MD_FLOAT16) {
                    to[k] = halves[from[k]];
                } else {
                    std::uint32_t const bits = std::uint32_t{from[k]} << 16U;
                    std::memcpy(&to[k], &bits, sizeof bits);
                }
            }
        }
    }

    using any_array = nb::ndarray<nb::ro>;
    any_array array_;
    std::int32_t dtype_ = 0;
    mutable std::vector<float> widened_;  ///< the rows, where the library was built without their type
};

/// The tokens of a draft's rows of a few candidates, laid out as their logits.
using candidates = std::optional<input<std::int32_t, nb::ndim<2>>>;

/// Makes rows of logits those of candidates, where these are given.
void apply(candidates const& tokens, std::int32_t vocabulary, matrix const& logits, md_rows& rows) {
    if (!tokens) return;
    auto const count = static_cast<std::size_t>(logits.rows());
    auto const width = static_cast<std::size_t>(logits.vocabulary());
    if (tokens->shape(0) != count || tokens->shape(1) != width || logits.stride() != logits.vocabulary())
        throw failure("candidates.shape", std::to_string(tokens->shape(0)) + " x " + std::to_string(tokens->shape(1)),
                      "there is a token for each logit, row by row");
    rows.candidates = tokens->data();
    rows.candidate_count = rows.vocabulary;
    rows.vocabulary = vocabulary;
}

/// Sampling parameters: one set for all requests, or one per request as rows of 16 bytes.
struct sampling {
    md_sampling all = MD_SAMPLING_INIT;
    std::optional<input<std::uint8_t, nb::ndim<2>>> each;

    void apply(md_rows& rows, std::int32_t requests) const {
        rows.default_sampling = all;
        if (!each) return;
        if (each->shape(1) != sizeof(md_sampling) || each->shape(0) != static_cast<std::size_t>(requests))
            throw failure("temperature.size", std::to_string(each->shape(0)), "there is one value, or one a request");
        rows.sampling = reinterpret_cast<md_sampling const*>(each->data());
    }
};

sampling sampling_of(nb::handle given) {
    sampling s;
    if (nb::isinstance<nb::tuple>(given)) {
        auto const t = nb::borrow<nb::tuple>(given);
        s.all = {nb::cast<float>(t[0]), nb::cast<std::int32_t>(t[1]), nb::cast<float>(t[2]), nb::cast<float>(t[3])};
    } else {
        s.each = nb::cast<input<std::uint8_t, nb::ndim<2>>>(given);
    }
    return s;
}

/// An entry of an argument that is refused.
failure failure_at(std::string const& argument, std::size_t index, std::int64_t value, std::string const& reason) {
    failure f(argument, std::to_string(value), reason);
    f.index = static_cast<std::int64_t>(index);
    f.message = f.argument + '[' + std::to_string(index) + "] = " + f.value + ": " + f.reason;
    return f;
}

void check_size(std::size_t size, std::size_t wanted, char const* name, char const* reason) {
    if (size != wanted) throw failure(std::string(name) + ".size", std::to_string(size), reason);
}

/// The rows to read: all entries of row_of must be rows of the matrix.
void check_rows(matrix const& of, std::optional<longs> const& row_of, std::size_t entries, char const* name) {
    if (!row_of) {
        if (static_cast<std::size_t>(of.rows()) < entries)
            throw failure(std::string(name) + ".shape[0]", std::to_string(of.rows()),
                          "there is one row for each of " + std::to_string(entries));
        return;
    }
    std::string const argument = std::string(name).substr(0, std::string(name).find("_logits")) + "_rows";
    check_size(row_of->shape(0), entries, argument.c_str(), "there is one entry a node");
    for (std::size_t k = 0; k < entries; ++k)
        if ((*row_of)(k) < 0 || (*row_of)(k) >= of.rows())
            throw failure_at(argument, k, (*row_of)(k), "there are " + std::to_string(of.rows()) + " rows");
}

/// The number of the draft's rows that are read if row i is that of node i: the last nodes may have no children.
std::size_t rows_of_parents(longs const& offsets, ints const& parents) {
    std::size_t rows = 0;
    for (std::size_t b = 0; b + 1 < offsets.shape(0); ++b) {
        std::int64_t const begin = offsets(b);
        std::int64_t const end = offsets(b + 1);
        if (begin < 0 || end - begin < 2 || end > static_cast<std::int64_t>(parents.shape(0))) continue;
        std::int64_t const parent =
            std::clamp<std::int64_t>(parents(static_cast<std::size_t>(end - 1)), 0, end - begin);
        rows = std::max(rows, static_cast<std::size_t>(begin + parent + 1));
    }
    return rows;
}

using seeds_array = input<std::uint64_t, nb::ndim<1>>;
using ids_array = input<std::uint32_t, nb::ndim<1>>;

md_requests requests_of(seeds_array const& seeds, ints const& positions, std::optional<ids_array> const& ids,
                        std::size_t requests) {
    check_size(seeds.shape(0), requests, "seeds", "there is one seed, or one a request");
    check_size(positions.shape(0), requests, "positions", "there is one position, or one a request");
    if (ids) check_size(ids->shape(0), requests, "ids", "there is one number a request");
    md_requests r = MD_REQUESTS_INIT;
    r.seeds = seeds.data();
    r.positions = positions.data();
    r.ids = ids ? ids->data() : nullptr;
    return r;
}

/// Draws `count` children for each row, or `wanted` of them up to that: (tokens (rows, count), counts, certain).
std::tuple<nb::object, nb::object, nb::object> draft(
    std::string const& name, nb::object const& logits, bool is_bfloat16, ints const& requests, ints const& nodes,
    ints const& depths, std::int32_t count, nb::object const& params, seeds_array const& seeds, ints const& positions,
    std::optional<ids_array> const& ids, std::optional<longs> const& row_of, std::optional<ints> const& wanted,
    int threads, candidates const& few, std::int32_t vocabulary) {
    md_method const* const method = method_of(name);
    matrix const rows(logits, "logits", is_bfloat16);
    std::size_t const entries = requests.shape(0);
    check_size(nodes.shape(0), entries, "nodes", "there is one node a row");
    check_size(depths.shape(0), entries, "depths", "there is one depth a row");
    check_rows(rows, row_of, entries, "logits");
    if (count < 0) throw failure("n", std::to_string(count), "0 children or more are drawn");
    for (std::size_t e = 0; e < entries; ++e)
        if (requests(e) < 0 || static_cast<std::size_t>(requests(e)) >= seeds.shape(0))
            throw failure_at("requests", e, requests(e), "a row is of one of the requests");
    if (wanted) check_size(wanted->shape(0), entries, "n", "there is one number a row");
    md_requests const draws = requests_of(seeds, positions, ids, seeds.shape(0));
    std::vector<std::int64_t> renumbered;
    md_rows r = rows.view(row_of, entries, renumbered);
    apply(few, vocabulary, rows, r);
    sampling const s = sampling_of(params);
    s.apply(r, static_cast<std::int32_t>(seeds.shape(0)));
    output<std::int32_t> tokens({entries, static_cast<std::size_t>(count)});
    output<std::int32_t> counts({entries});
    output<std::int32_t> certain({entries});
    md_level level = MD_LEVEL_INIT;
    level.entries = static_cast<std::int32_t>(entries);
    level.requests = requests.data();
    level.nodes = nodes.data();
    level.depths = depths.data();
    level.wanted = wanted ? wanted->data() : nullptr;
    md_children children = MD_CHILDREN_INIT;
    children.tokens = tokens.data;
    children.stride = count;
    children.counts = counts.data;
    children.certain = certain.data;
    md_pool* const pool = all_pools().of(threads);
    md_status status = MD_OK;
    if (count == 0) {
        std::fill_n(counts.data, entries, 0);
        std::fill_n(certain.data, entries, 0);
    } else if (entries > 0) {
        nb::gil_scoped_release const others;
        status = md_draft(method, pool, &level, &r, &draws, &children);
    }
    check(status);
    return {tokens.release(), counts.release(), certain.release()};
}

/// Verifies trees: (path of all, accepted, next).
std::tuple<nb::object, nb::object, nb::object> verify(
    std::string const& name, std::string const& law, longs const& offsets, ints const& parents, ints const& tokens,
    std::optional<ints> const& certain, nb::object const& target, bool target_is_bfloat16,
    nb::object const& draft_logits, bool draft_is_bfloat16, std::optional<longs> const& target_rows,
    std::optional<longs> const& draft_rows, nb::object const& params, nb::object const& draft_params,
    seeds_array const& seeds, ints const& positions, std::optional<ids_array> const& ids, int threads,
    bool only_validate, bool probabilities, candidates const& few, std::int32_t vocabulary) {
    md_method const* const method = method_of(name);
    std::size_t const requests = seeds.shape(0);
    std::size_t const nodes = parents.shape(0);
    check_size(offsets.shape(0), requests + 1, "offsets", "there is one more than requests");
    check_size(tokens.shape(0), nodes, "tokens", "a tree has one token a node, its root's among them");
    if (certain) check_size(certain->shape(0), nodes, "certain", "there is one number a node");
    matrix const p(target, "target_logits", target_is_bfloat16);
    check_rows(p, target_rows, nodes, "target_logits");
    std::optional<matrix> q;
    if (!draft_logits.is_none()) {
        q.emplace(draft_logits, "draft_logits", draft_is_bfloat16);
        check_rows(*q, draft_rows, draft_rows ? nodes : rows_of_parents(offsets, parents), "draft_logits");
    }
    md_trees trees = MD_TREES_INIT;
    trees.requests = static_cast<std::int32_t>(requests);
    trees.nodes = static_cast<std::int64_t>(nodes);
    trees.offsets = offsets.data();
    trees.parents = parents.data();
    trees.tokens = tokens.data();
    trees.certain = certain ? certain->data() : nullptr;
    trees.law = c_text(law, "law");
    sampling const s = sampling_of(params);
    sampling const t = sampling_of(draft_params);
    std::vector<std::int64_t> renumbered_target, renumbered_draft;
    md_rows of_target = p.view(target_rows, nodes, renumbered_target);
    s.apply(of_target, trees.requests);
    md_rows of_draft = MD_ROWS_INIT;
    if (q) {
        of_draft = q->view(draft_rows, nodes, renumbered_draft);
        apply(few, vocabulary, *q, of_draft);
        t.apply(of_draft, trees.requests);
    }
    if (probabilities) of_target.kind = of_draft.kind = MD_PROBABILITIES;
    md_requests const draws = requests_of(seeds, positions, ids, requests);
    output<std::int32_t> path({nodes});
    output<std::int32_t> accepted({requests});
    output<std::int32_t> next({requests});
    md_verdicts out = MD_VERDICTS_INIT;
    out.path = path.data;
    out.accepted = accepted.data;
    out.next = next.data;
    md_pool* const pool = all_pools().of(threads);
    md_status status = MD_OK;
    if (requests > 0) {
        nb::gil_scoped_release const others;
        if (only_validate)
            status = md_validate(method, pool, &trees, &of_target, q ? &of_draft : nullptr, &draws);
        else
            status = md_verify(method, pool, &trees, &of_target, q ? &of_draft : nullptr, &draws, &out, nullptr, 0);
    }
    check(status);
    return {path.release(), accepted.release(), next.release()};
}

/// The bits of rows of bfloat16, which NumPy has no type for.
nb::object bfloat16_bits(nb::object const& logits) {
    matrix const rows(logits, "logits", false);
    if (rows.dtype() != MD_BFLOAT16)
        throw failure("logits.dtype", std::to_string(rows.dtype()), "rows are bfloat16 here");
    auto const count = static_cast<std::size_t>(rows.rows());
    auto const width = static_cast<std::size_t>(rows.vocabulary());
    output<std::uint16_t> out({count, width});
    for (std::size_t i = 0; i < count && width > 0; ++i)
        std::memcpy(out.data + i * width,
                    static_cast<std::uint16_t const*>(rows.data()) + static_cast<std::int64_t>(i) * rows.stride(),
                    width * sizeof(std::uint16_t));
    return out.release();
}

nb::object distributions(nb::object const& logits, bool is_bfloat16, nb::object const& params) {
    matrix const rows(logits, "logits", is_bfloat16);
    std::vector<std::int64_t> renumbered;
    md_rows r = rows.view(std::nullopt, static_cast<std::size_t>(rows.rows()), renumbered);
    sampling const s = sampling_of(params);
    s.apply(r, static_cast<std::int32_t>(rows.rows()));
    output<float> out({static_cast<std::size_t>(rows.rows()), static_cast<std::size_t>(rows.vocabulary())});
    md_status status = MD_OK;
    {
        nb::gil_scoped_release const others;
        status = md_distributions(&r, rows.rows(), out.data);
    }
    check(status);
    return out.release();
}

nb::object parse_shape(std::string const& text) {
    std::int64_t nodes = 0;
    check(md_parse_shape(c_text(text, "shape"), nullptr, 0, &nodes));
    output<std::int32_t> parents({static_cast<std::size_t>(nodes)});
    check(md_parse_shape(text.c_str(), parents.data, nodes, &nodes));
    return parents.release();
}

nb::object tree_depths(ints const& parents) {
    output<std::int32_t> depths({parents.shape(0)});
    check(md_tree_depths(parents.data(), static_cast<std::int64_t>(parents.shape(0)), depths.data));
    return depths.release();
}

std::tuple<nb::object, nb::object> level_order(ints const& parents) {
    output<std::int32_t> order({parents.shape(0)});
    output<std::int32_t> sorted({parents.shape(0)});
    check(md_level_order(parents.data(), static_cast<std::int64_t>(parents.shape(0)), order.data, sorted.data));
    return {order.release(), sorted.release()};
}

/// Trees (requests, nodes) given by each node's first child and next sibling, -1 for none; node 0 is the root. Returns
/// (offsets, parents, order) in level order, where node i of the result is node order[i] of all nodes of the input.
/// Nodes without a link to them are left out.
std::tuple<nb::object, nb::object, nb::object> trees_of_links(input<std::int32_t, nb::ndim<2>> const& first_child,
                                                              input<std::int32_t, nb::ndim<2>> const& next_sibling) {
    std::size_t const requests = first_child.shape(0);
    std::size_t const width = first_child.shape(1);
    if (next_sibling.shape(0) != requests || next_sibling.shape(1) != width)
        throw failure("retrieve_next_sibling.shape",
                      std::to_string(next_sibling.shape(0)) + " x " + std::to_string(next_sibling.shape(1)),
                      "there is a sibling for each of " + std::to_string(requests) + " x " + std::to_string(width));
    if (width == 0 && requests > 0) throw failure("retrieve_next_token.shape[1]", "0", "every tree has a root");
    if (width > 0x7fffffff)
        throw failure("retrieve_next_token.shape[1]", std::to_string(width), "a tree has 2^31 - 1 nodes");
    std::vector<std::int32_t> parents;
    std::vector<std::int64_t> order;
    output<std::int64_t> offsets({requests + 1});
    offsets.data[0] = 0;
    std::vector<char> seen(width);
    for (std::size_t b = 0; b < requests; ++b) {
        std::int32_t const* const child = first_child.data() + b * width;
        std::int32_t const* const sibling = next_sibling.data() + b * width;
        std::size_t const begin = order.size();
        auto const root = static_cast<std::int64_t>(b * width);
        std::fill(seen.begin(), seen.end(), char{0});
        auto const add = [&](std::int32_t node, std::int32_t parent, char const* argument, std::int64_t index) {
            bool const is_node = node >= 0 && static_cast<std::size_t>(node) < width;
            if (!is_node || seen[static_cast<std::size_t>(node)] != 0) {
                failure f(argument, std::to_string(node),
                          is_node ? "a node is reached once"
                                  : "a node is in [0, " + std::to_string(width) + "), or -1 for none");
                f.index = root + index;
                f.message = f.argument + '[' + std::to_string(f.index) + "] = " + f.value + ": " + f.reason;
                throw f;
            }
            seen[static_cast<std::size_t>(node)] = 1;
            parents.push_back(parent);
            order.push_back(root + node);
        };
        add(0, -1, "retrieve_next_token", 0);
        for (std::size_t i = begin; i < order.size(); ++i) {
            std::int64_t const node = order[i] - root;
            auto const parent = static_cast<std::int32_t>(i - begin);
            std::int32_t next = child[node];
            if (next == -1) continue;
            add(next, parent, "retrieve_next_token", node);
            for (std::int32_t last = next; (next = sibling[last]) != -1; last = next)
                add(next, parent, "retrieve_next_sibling", last);
        }
        offsets.data[b + 1] = static_cast<std::int64_t>(order.size());
    }
    output<std::int32_t> of_parents({parents.size()});
    std::copy(parents.begin(), parents.end(), of_parents.data);
    output<std::int64_t> of_order({order.size()});
    std::copy(order.begin(), order.end(), of_order.data);
    return {offsets.release(), of_parents.release(), of_order.release()};
}

nb::object packed_mask(ints const& parents) {
    std::size_t const nodes = parents.shape(0);
    std::size_t const words = (nodes + 63) / 64;
    output<std::uint64_t> mask({nodes, words});
    check(md_write_mask(parents.data(), static_cast<std::int64_t>(nodes), mask.data, static_cast<std::int64_t>(words)));
    return mask.release();
}

std::size_t columns_of(std::size_t nodes, std::int64_t context) {
    if (context < 0 || context > 0x7fffffff)
        throw failure("context", std::to_string(context), "a context has 0 to 2^31 - 1 tokens");
    return nodes + static_cast<std::size_t>(context);
}

nb::object mask_bytes(ints const& parents, std::int64_t context) {
    std::size_t const nodes = parents.shape(0);
    std::size_t const columns = columns_of(nodes, context);
    output<std::uint8_t> mask({nodes, columns});
    check(md_write_mask_bytes(parents.data(), static_cast<std::int64_t>(nodes), context, mask.data,
                              static_cast<std::int64_t>(columns)));
    return mask.release();
}

/// Entries of two bytes are returned as their bits.
nb::object mask_bias(ints const& parents, std::int64_t context, std::int32_t dtype) {
    std::size_t const nodes = parents.shape(0);
    std::size_t const columns = columns_of(nodes, context);
    auto const write = [&](auto entry) {
        output<decltype(entry)> mask({nodes, columns});
        check(md_write_mask_bias(parents.data(), static_cast<std::int64_t>(nodes), context, dtype, mask.data,
                                 static_cast<std::int64_t>(columns)));
        return mask.release();
    };
    return dtype == MD_FLOAT32 ? write(float{}) : write(std::uint16_t{});
}

nb::object positions(ints const& parents, std::int32_t context) {
    output<std::int32_t> out({parents.shape(0)});
    check(md_write_positions(parents.data(), static_cast<std::int64_t>(parents.shape(0)), context, out.data));
    return out.release();
}

/// Compacts an array in place along one of its dimensions, of which `entries` entries are in use.
std::int64_t compact(nb::object const& object, std::int64_t axis, std::int64_t entries, std::int64_t context,
                     ints const& kept) {
    nb::ndarray<> array;
    if (!nb::try_cast<nb::ndarray<>>(object, array, false)) {
        PyErr_Clear();
        throw failure("cache", nb::cast<std::string>(nb::str(nb::type_name(object.type()))),
                      "an array that may be written to is wanted");
    }
    if (array.device_type() != nb::device::cpu::value)
        throw failure("cache.device", std::to_string(array.device_type()), "arrays lie in the memory of the CPU");
    auto const dimensions = static_cast<std::int64_t>(array.ndim());
    if (axis < 0 || axis >= dimensions)
        throw failure("axis", std::to_string(axis), "the array has " + std::to_string(dimensions) + " dimensions");
    auto const at = static_cast<std::size_t>(axis);
    if (entries < 0 || entries > static_cast<std::int64_t>(array.shape(at)))
        throw failure("entries", std::to_string(entries), "the cache has " + std::to_string(array.shape(at)));
    std::int64_t elements = 1;
    for (std::size_t d = 0; d < array.ndim(); ++d) elements *= static_cast<std::int64_t>(array.shape(d));
    if (elements == 0) {  // nothing is moved
        if (context < 0 || context > entries)
            throw failure("context", std::to_string(context), "the cache has " + std::to_string(entries) + " entries");
        std::int64_t last = -1;
        for (std::size_t k = 0; k < kept.shape(0); ++k) {
            if (kept(k) <= last || kept(k) >= entries - context)
                throw failure_at("kept", k, kept(k), "entries increase, and lie in the cache");
            last = kept(k);
        }
        return context + static_cast<std::int64_t>(kept.shape(0));
    }
    // The last dimensions that are contiguous form one entry.
    std::int64_t together = 1;
    std::size_t inner = array.ndim();
    while (inner > at + 1 && (array.stride(inner - 1) == together || array.shape(inner - 1) == 1)) {
        together *= static_cast<std::int64_t>(array.shape(inner - 1));
        --inner;
    }
    std::vector<md_axis> axes;
    for (std::size_t d = 0; d < inner; ++d)
        if (d != at && array.shape(d) > 1) axes.push_back({static_cast<std::int64_t>(array.shape(d)), array.stride(d)});
    md_cache cache = MD_CACHE_INIT;
    cache.data = array.data();
    cache.element_size = static_cast<std::int64_t>(array.itemsize());
    cache.axes = axes.data();
    cache.axis_count = static_cast<std::int32_t>(axes.size());
    cache.entries = entries;
    // The stride of a dimension of one entry may be anything.
    cache.entry_stride = array.shape(at) > 1 ? array.stride(at) : together;
    cache.entry_size = together;
    std::int64_t left = 0;
    md_status status = MD_OK;
    {
        nb::gil_scoped_release const others;
        status = md_compact(&cache, context, kept.data(), static_cast<std::int64_t>(kept.shape(0)), &left);
    }
    check(status);
    return left;
}

double alpha_star(std::string const& law, doubles const& p, doubles const& q, std::int32_t n) {
    check_size(q.shape(0), p.shape(0), "q", "target and draft have one vocabulary");
    char const* const of = c_text(law, "law");
    double rate = 0;
    md_status status = MD_OK;
    {
        nb::gil_scoped_release const others;
        status = md_alpha_star(of, p.data(), q.data(), static_cast<std::int64_t>(p.shape(0)), n, &rate);
    }
    check(status);
    return rate;
}

std::tuple<double, double> acceptance(std::string const& name, doubles const& p, doubles const& q, std::int32_t n,
                                      std::int64_t samples, std::uint64_t seed) {
    md_method const* const method = method_of(name);
    check_size(q.shape(0), p.shape(0), "q", "target and draft have one vocabulary");
    md_estimation how = MD_ESTIMATION_INIT;
    how.samples = samples;
    how.seed = seed;
    double rate = 0;
    double error = 0;
    md_status status = MD_OK;
    {
        nb::gil_scoped_release const others;
        status =
            md_acceptance(method, p.data(), q.data(), static_cast<std::int64_t>(p.shape(0)), n, &how, &rate, &error);
    }
    check(status);
    return {rate, error};
}

double block_efficiency(doubles const& rates) {
    double result = 0;
    check(md_block_efficiency(rates.data(), static_cast<std::int64_t>(rates.shape(0)), &result));
    return result;
}

double improvement_factor(double alpha, std::int32_t depth, double cost) {
    double result = 0;
    check(md_improvement_factor(alpha, depth, cost, &result));
    return result;
}

double memory_bound_speed_up(double efficiency, std::int32_t depth, double size_ratio) {
    double result = 0;
    check(md_memory_bound_speed_up(efficiency, depth, size_ratio, &result));
    return result;
}

std::tuple<nb::object, double> optimal_tree(input<double, nb::ndim<2>> const& rates, std::int32_t nodes) {
    if (nodes < 0 || nodes > 4096) throw failure("nodes", std::to_string(nodes), "the budget is 0 to 4096 nodes");
    std::vector<std::int32_t> parents(static_cast<std::size_t>(nodes) + 1);
    std::int64_t count = 0;
    double accepted = 0;
    md_status status = MD_OK;
    {
        nb::gil_scoped_release const others;
        status = md_optimal_tree(rates.data(), static_cast<std::int32_t>(rates.shape(0)),
                                 static_cast<std::int32_t>(rates.shape(1)), nodes, parents.data(), &count, &accepted);
    }
    check(status);
    output<std::int32_t> found({static_cast<std::size_t>(count)});
    std::copy_n(parents.begin(), count, found.data);
    return {found.release(), accepted};
}

/// A controller of the C interface.
class controller {
public:
    controller(ints const& target_rows, doubles const& target_seconds, ints const& draft_rows,
               doubles const& draft_seconds, double step, double inner, std::int32_t nodes, std::int32_t depth,
               std::int32_t children, bool learns_times, double memory, double prior, double slack, double credit)
        : parents_(static_cast<std::size_t>(std::max(nodes, 0)) + 1) {
        if (target_rows.shape(0) != target_seconds.shape(0) || draft_rows.shape(0) != draft_seconds.shape(0))
            throw failure("times", "arrays of different lengths", "each number of rows has its seconds");
        md_step_times times = MD_STEP_TIMES_INIT;
        times.target_rows = target_rows.data();
        times.target_seconds = target_seconds.data();
        times.target_points = static_cast<std::int64_t>(target_rows.shape(0));
        times.draft_rows = draft_rows.data();
        times.draft_seconds = draft_seconds.data();
        times.draft_points = static_cast<std::int64_t>(draft_rows.shape(0));
        times.step = step;
        times.inner = inner;
        md_controller_options options = MD_CONTROLLER_OPTIONS_INIT;
        options.nodes = nodes;
        options.depth = depth;
        options.children = children;
        options.learns_times = learns_times ? 1 : 0;
        options.memory = memory;
        options.prior = prior;
        options.slack = slack;
        options.credit = credit;
        check(md_make_controller(&times, &options, &inner_));
    }
    controller(controller const&) = delete;
    controller& operator=(controller const&) = delete;
    ~controller() { md_free_controller(inner_); }

    void start() { check(md_start_text(inner_)); }
    nb::object choose(std::int32_t depth, std::int32_t unread) {
        std::int64_t nodes = 0;
        check(md_choose_tree(inner_, depth, unread, parents_.data(), &nodes));
        output<std::int32_t> found({static_cast<std::size_t>(nodes)});
        std::copy_n(parents_.begin(), nodes, found.data);
        return found.release();
    }
    void learn(std::int64_t nodes, ints const& path, double target, double draft, double other) {
        check(
            md_learn_step(inner_, nodes, path.data(), static_cast<std::int64_t>(path.shape(0)), target, draft, other));
    }
    std::tuple<double, double, double, double> times(std::int32_t rows) const {
        double target = 0, draft = 0, step = 0, inner = 0;
        check(md_current_times(inner_, rows, &target, &draft, &step, &inner));
        return {target, draft, step, inner};
    }

private:
    md_controller* inner_ = nullptr;
    std::vector<std::int32_t> parents_;
};

/// A step of many requests. The texts are kept until the step begins again.
class step {
public:
    step() { check(md_make_step(&inner_)); }
    step(step const&) = delete;
    step& operator=(step const&) = delete;
    ~step() { md_free_step(inner_); }

    void start() {
        in_use const mine(busy_);
        check(md_start_step(inner_));
        texts_.clear();
    }
    std::int32_t add(std::string const& method, ints const& text, ints const& parents, std::uint64_t seed,
                     std::uint32_t id, nb::handle given, nb::handle given_of_draft, std::int32_t in_target,
                     std::int32_t in_draft) {
        in_use const mine(busy_);
        md_method const* const chosen = method_of(method);
        md_sampling const own = sampling_of(given).all;
        md_sampling const of_draft = sampling_of(given_of_draft).all;
        md_step_request r = request(text, in_target, in_draft);
        r.parents = parents.data();
        r.nodes = static_cast<std::int32_t>(parents.shape(0));
        r.seed = seed;
        r.id = id;
        r.sampling = own;
        r.draft_sampling = &of_draft;
        std::int32_t number = 0;
        added(md_add_request(inner_, chosen, &r, &number));
        return number;
    }
    std::int32_t add_reading(ints const& text, std::int32_t in_target, std::int32_t in_draft) {
        in_use const mine(busy_);
        md_step_request const r = request(text, in_target, in_draft);
        std::int32_t number = 0;
        added(md_add_reading(inner_, &r, &number));
        return number;
    }
    nb::tuple next_level() { return inputs(md_next_level); }
    nb::tuple target_inputs() { return inputs(md_target_inputs); }
    void draw(nb::handle logits, bool is_bfloat16, longs const& row_of, int threads, candidates const& few,
              std::int32_t vocabulary) {
        in_use const mine(busy_);
        std::vector<std::int64_t> renumbered;
        matrix const rows(logits, "logits", is_bfloat16);
        md_rows q = rows.view(row_of, row_of.shape(0), renumbered);
        apply(few, vocabulary, rows, q);
        md_pool* const pool = all_pools().of(threads);
        nb::gil_scoped_release const released;
        check(md_draw_level(inner_, pool, &q));
    }
    void verify(nb::handle target, bool target_is_bfloat16, longs const& target_rows, nb::handle draft,
                bool draft_is_bfloat16, longs const& draft_rows, int threads, candidates const& few,
                std::int32_t vocabulary) {
        in_use const mine(busy_);
        std::vector<std::int64_t> renumbered_target, renumbered_draft;
        matrix const of_target(target, "target", target_is_bfloat16);
        md_rows const p = of_target.view(target_rows, target_rows.shape(0), renumbered_target);
        std::optional<matrix> of_draft;
        md_rows q = MD_ROWS_INIT;
        if (!draft.is_none()) {
            of_draft.emplace(draft, "draft", draft_is_bfloat16);
            q = of_draft->view(draft_rows, draft_rows.shape(0), renumbered_draft);
            apply(few, vocabulary, *of_draft, q);
        }
        md_pool* const pool = all_pools().of(threads);
        nb::gil_scoped_release const released;
        check(md_verify_step(inner_, pool, &p, of_draft ? &q : nullptr));
    }
    nb::tuple result(std::int32_t number) {
        in_use const mine(busy_);
        md_step_result r = MD_STEP_RESULT_INIT;
        check(md_finish_request(inner_, number, &r));
        return nb::make_tuple(copy(r.tokens, r.token_count), copy(r.path, r.accepted), r.in_target, r.in_draft,
                              r.target_context, copy(r.kept_in_target, r.kept_in_target_count), r.draft_context,
                              copy(r.kept_in_draft, r.kept_in_draft_count));
    }

private:
    /// Refuses a call while another thread draws or verifies. The flag changes with the GIL held.
    class in_use {
    public:
        explicit in_use(bool& busy) : busy_(busy) {
            if (busy) throw failure("step", "in use", "one thread at a time: another one draws or verifies");
            busy_ = true;
        }
        ~in_use() { busy_ = false; }
        in_use(in_use const&) = delete;
        in_use& operator=(in_use const&) = delete;

    private:
        bool& busy_;
    };
    template <class T>
    static nb::object copy(T const* data, std::int64_t count) {
        output<T> found({static_cast<std::size_t>(count)});
        std::copy_n(data, count, found.data);
        return found.release();
    }
    md_step_request request(ints const& text, std::int32_t in_target, std::int32_t in_draft) {
        auto const& kept = texts_.emplace_back(text.data(), text.data() + text.shape(0));
        md_step_request r = MD_STEP_REQUEST_INIT;
        r.text = kept.data();
        r.text_size = static_cast<std::int64_t>(kept.size());
        r.in_target = in_target;
        r.in_draft = in_draft;
        return r;
    }
    /// The text of a request that is refused is dropped: there are as many texts as requests.
    void added(md_status status) {
        if (status != MD_OK) texts_.pop_back();
        check(status);
    }
    nb::tuple inputs(md_status (*call)(md_step*, md_step_inputs*)) {
        in_use const mine(busy_);
        md_step_inputs in = MD_STEP_INPUTS_INIT;
        check(call(inner_, &in));
        output<std::uint64_t> mask({static_cast<std::size_t>(in.count), static_cast<std::size_t>(in.mask_words)});
        if (in.count > 0) check(md_write_step_mask(inner_, mask.data, in.count * in.mask_words));
        auto const requests = static_cast<std::int64_t>(texts_.size());
        return nb::make_tuple(copy(in.tokens, in.count), copy(in.positions, in.count), copy(in.requests, in.count),
                              copy(in.entries, in.count), copy(in.offsets, requests + 1), in.first_row,
                              copy(in.scored, in.scored_count), mask.release());
    }

    md_step* inner_ = nullptr;
    std::deque<std::vector<std::int32_t>> texts_;
    bool busy_ = false;
};

}  // namespace

#if !defined(MULTIDRAFT_PYTHON_MODULE)
#define MULTIDRAFT_PYTHON_MODULE _core
#endif
#define MULTIDRAFT_NB_MODULE(name, m) NB_MODULE(name, m)  // of the name's value

MULTIDRAFT_NB_MODULE(MULTIDRAFT_PYTHON_MODULE, m) {
    nb::register_exception_translator([](std::exception_ptr const& p, void*) {
        try {
            std::rethrow_exception(p);
        } catch (failure const& f) {
            raise(f);
        }
    });
    m.doc() = "The C interface of multidraft with arrays; what users call is in the package.";
    m.def("version", &md_version);
    m.def("has_dtype", &md_has_dtype, "dtype"_a);
    m.def("method_names", [] {
        nb::list names;
        for (std::int32_t k = 0; k < md_method_count(); ++k) names.append(md_method_name(k));
        return names;
    });
    m.def("forget_pools", [] { all_pools().forget(); });
    m.def("describe", &describe, "name"_a);
    m.def("draft", &draft, "method"_a, "logits"_a, "is_bfloat16"_a, "requests"_a, "nodes"_a, "depths"_a, "count"_a,
          "sampling"_a, "seeds"_a, "positions"_a, "ids"_a.none(), "row_of"_a.none(), "wanted"_a.none(), "threads"_a,
          "candidates"_a.none() = nb::none(), "vocabulary"_a = 0);
    m.def("verify", &verify, "method"_a, "law"_a, "offsets"_a, "parents"_a, "tokens"_a, "certain"_a.none(), "target"_a,
          "target_is_bfloat16"_a, "draft"_a.none(), "draft_is_bfloat16"_a, "target_rows"_a.none(),
          "draft_rows"_a.none(), "sampling"_a, "draft_sampling"_a, "seeds"_a, "positions"_a, "ids"_a.none(),
          "threads"_a, "only_validate"_a, "probabilities"_a, "candidates"_a.none() = nb::none(), "vocabulary"_a = 0);
    define_usual_calls(m);
    define_device_calls(m);
    m.def("bfloat16_bits", &bfloat16_bits, "logits"_a);
    m.def("distributions", &distributions, "logits"_a, "is_bfloat16"_a, "sampling"_a);
    m.def("parse_shape", &parse_shape, "text"_a);
    m.def("tree_depths", &tree_depths, "parents"_a);
    m.def("level_order", &level_order, "parents"_a);
    m.def("trees_of_links", &trees_of_links, "first_child"_a, "next_sibling"_a);
    m.def("packed_mask", &packed_mask, "parents"_a);
    m.def("mask_bytes", &mask_bytes, "parents"_a, "context"_a);
    m.def("mask_bias", &mask_bias, "parents"_a, "context"_a, "dtype"_a);
    m.def("positions", &positions, "parents"_a, "context"_a);
    m.def("compact", &compact, "cache"_a, "axis"_a, "entries"_a, "context"_a, "kept"_a);
    m.def("alpha_star", &alpha_star, "law"_a, "p"_a, "q"_a, "n"_a);
    m.def("acceptance", &acceptance, "method"_a, "p"_a, "q"_a, "n"_a, "samples"_a, "seed"_a);
    m.def("block_efficiency", &block_efficiency, "rates"_a);
    m.def("improvement_factor", &improvement_factor, "alpha"_a, "depth"_a, "cost"_a);
    m.def("memory_bound_speed_up", &memory_bound_speed_up, "efficiency"_a, "depth"_a, "size_ratio"_a);
    m.def("optimal_tree", &optimal_tree, "rates"_a, "nodes"_a);
    nb::class_<step>(m, "Step")
        .def(nb::init<>())
        .def("start", &step::start)
        .def("add", &step::add, "method"_a, "text"_a, "parents"_a, "seed"_a, "id"_a, "sampling"_a, "draft_sampling"_a,
             "in_target"_a, "in_draft"_a)
        .def("add_reading", &step::add_reading, "text"_a, "in_target"_a, "in_draft"_a)
        .def("next_level", &step::next_level)
        .def("target_inputs", &step::target_inputs)
        .def("draw", &step::draw, "logits"_a, "is_bfloat16"_a, "row_of"_a, "threads"_a,
             "candidates"_a.none() = nb::none(), "vocabulary"_a = 0)
        .def("verify", &step::verify, "target"_a, "target_is_bfloat16"_a, "target_rows"_a, "draft"_a.none(),
             "draft_is_bfloat16"_a, "draft_rows"_a, "threads"_a, "candidates"_a.none() = nb::none(), "vocabulary"_a = 0)
        .def("result", &step::result, "number"_a);
    nb::class_<controller>(m, "Controller")
        .def(nb::init<ints const&, doubles const&, ints const&, doubles const&, double, double, std::int32_t,
                      std::int32_t, std::int32_t, bool, double, double, double, double>())
        .def("start", &controller::start)
        .def("choose", &controller::choose)
        .def("learn", &controller::learn)
        .def("times", &controller::times);
}
