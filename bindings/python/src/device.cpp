// Calls on arrays in device memory, given by their addresses: multidraft.cuda has converted and checked the arguments.
// SPDX-License-Identifier: Apache-2.0
#include "device.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "failure.hpp"
#include "multidraft.h"

#if defined(MULTIDRAFT_PYTHON_CUDA)
#include <cuda_runtime_api.h>
#endif

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using address = std::uintptr_t;

template <class T>
T* at(address pointer) {
    return reinterpret_cast<T*>(pointer);
}

#if defined(MULTIDRAFT_PYTHON_CUDA)

void check(cudaError_t result) {
    if (result == cudaSuccess) return;
    failure f;
    f.status = MD_SYSTEM;
    f.message = std::string("CUDA: ") + cudaGetErrorName(result) + ": " + cudaGetErrorString(result);
    throw f;
}

/// The current device of the thread is this one while the object lives.
class on_device {
public:
    explicit on_device(int device) {
        check(cudaGetDevice(&before_));
        is_other_ = before_ != device;
        if (is_other_) check(cudaSetDevice(device));
    }
    on_device(on_device const&) = delete;
    on_device& operator=(on_device const&) = delete;
    ~on_device() {
        if (is_other_) static_cast<void>(cudaSetDevice(before_));
    }

private:
    int before_ = 0;
    bool is_other_ = false;
};

cudaStream_t stream_of(address stream) { return reinterpret_cast<cudaStream_t>(stream); }

int device_count() {
    int count = 0;
    check(cudaGetDeviceCount(&count));
    return count;
}

address allocate(int device, address stream, std::size_t bytes) {
    on_device const here(device);
    void* data = nullptr;
    check(cudaMallocAsync(&data, bytes, stream_of(stream)));
    return reinterpret_cast<address>(data);
}

/// Frees in the order of the stream. Errors are not reported: this is the end of an array.
void release(int device, address stream, address data) noexcept {
    try {
        on_device const here(device);
        static_cast<void>(cudaFreeAsync(at<void>(data), stream_of(stream)));
    } catch (failure const&) {
    }
}

bool is_capturing(int device, address stream) {
    on_device const here(device);
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    check(cudaStreamIsCapturing(stream_of(stream), &capture));
    return capture != cudaStreamCaptureStatusNone;
}

void upload(int device, address stream, address to, nb::bytes const& bytes) {
    if (is_capturing(device, stream))
        throw failure("stream", "capturing",
                      "a graph would keep the address of host memory that is freed; the calls of a DraftPlan or a "
                      "VerifyPlan can be captured");
    on_device const here(device);
    // Memory that is not pinned has been read when the call returns.
    check(cudaMemcpyAsync(at<void>(to), bytes.c_str(), bytes.size(), cudaMemcpyHostToDevice, stream_of(stream)));
}

void synchronize(int device, address stream) {
    nb::gil_scoped_release const others;
    on_device const here(device);
    check(cudaStreamSynchronize(stream_of(stream)));
}

/// Waits for the stream.
nb::bytes download(int device, address stream, address from, std::size_t size) {
    std::vector<char> bytes(size);
    {
        nb::gil_scoped_release const others;
        on_device const here(device);
        check(cudaMemcpyAsync(bytes.data(), at<void const>(from), size, cudaMemcpyDeviceToHost, stream_of(stream)));
        check(cudaStreamSynchronize(stream_of(stream)));
    }
    return nb::bytes(bytes.data(), size);
}

void fill(int device, address stream, address data, int byte, std::size_t bytes) {
    on_device const here(device);
    check(cudaMemsetAsync(at<void>(data), byte, bytes, stream_of(stream)));
}

/// What `later` is given from now on runs after what `earlier` has been given so far.
void order(int device, address earlier, address later) {
    if (earlier == later) return;
    on_device const here(device);
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    cudaError_t result = cudaEventRecord(event, stream_of(earlier));
    if (result == cudaSuccess) result = cudaStreamWaitEvent(stream_of(later), event, 0);
    static_cast<void>(cudaEventDestroy(event));
    check(result);
}

#else

[[noreturn]] void refuse() {
    failure f;
    f.status = MD_UNAVAILABLE;
    f.message = "multidraft is built without CUDA; " how_to_build_with_cuda;
    throw f;
}
struct on_device {
    explicit on_device(int) { refuse(); }
};
int device_count() { refuse(); }
bool is_capturing(int, address) { refuse(); }
address allocate(int, address, std::size_t) { refuse(); }
void release(int, address, address) {}
void upload(int, address, address, nb::bytes const&) { refuse(); }
void synchronize(int, address) { refuse(); }
nb::bytes download(int, address, address, std::size_t) { refuse(); }
void fill(int, address, address, int, std::size_t) { refuse(); }
void order(int, address, address) { refuse(); }

#endif

/// What a DLPack capsule says: (address, type of device, device, shape, strides, dtype's code, bits and lanes, owner).
std::tuple<address, int, int, std::vector<std::int64_t>, std::vector<std::int64_t>, int, int, int, nb::object> view(
    nb::object const& capsule) {
    nb::ndarray<nb::ro> array;
    if (!nb::try_cast(capsule, array, false)) {
        PyErr_Clear();
        throw failure("array", "a capsule", "a DLPack capsule is wanted");
    }
    std::vector<std::int64_t> shape, strides;
    for (std::size_t d = 0; d < array.ndim(); ++d) {
        shape.push_back(static_cast<std::int64_t>(array.shape(d)));
        strides.push_back(array.stride(d));
    }
    auto* const owner = new nb::ndarray<nb::ro>(array);
    return {reinterpret_cast<address>(array.data()),
            array.device_type(),
            array.device_id(),
            shape,
            strides,
            array.dtype().code,
            array.dtype().bits,
            array.dtype().lanes,
            nb::capsule(owner, [](void* p) noexcept { delete static_cast<nb::ndarray<nb::ro>*>(p); })};
}

/// A DLPack capsule of contiguous device memory, which keeps `owner`.
nb::object exported(nb::object const& owner, address data, int device, std::vector<std::size_t> const& shape, int code,
                    int bits) {
    nb::dlpack::dtype const type{static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(bits), 1};
    return nb::cast(nb::ndarray<>(at<void>(data), shape.size(), shape.data(), owner, nullptr, type,
                                  nb::device::cuda::value, device));
}

md_method const* method_of(std::string const& name) {
    md_method const* method = nullptr;
    check(md_find_method(name.c_str(), &method));
    return method;
}

/// (address, md_dtype, row stride, vocabulary, address of row_of, (temperature, top_k, top_p, min_p), address of one
/// set of these per request or 0)
using rows =
    std::tuple<address, int, std::int64_t, int, address, std::tuple<float, std::int32_t, float, float>, address>;

md_rows rows_of(rows const& given) {
    auto const& [data, dtype, stride, vocabulary, row_of, all, each] = given;
    auto const& [temperature, top_k, top_p, min_p] = all;
    md_rows r = MD_ROWS_INIT;
    r.dtype = dtype;
    r.data = at<void const>(data);
    r.row_stride = stride;
    r.vocabulary = vocabulary;
    r.row_of = at<std::int64_t const>(row_of);
    r.default_sampling = {temperature, top_k, top_p, min_p};
    r.sampling = at<md_sampling const>(each);
    return r;
}

/// Addresses of (seeds, positions, ids or 0).
using draws = std::tuple<address, address, address>;

md_requests requests_of(draws const& given) {
    md_requests r = MD_REQUESTS_INIT;
    r.seeds = at<std::uint64_t const>(std::get<0>(given));
    r.positions = at<std::int32_t const>(std::get<1>(given));
    r.ids = at<std::uint32_t const>(std::get<2>(given));
    return r;
}

std::size_t draft_workspace(int entries) {
    std::size_t bytes = 0;
    check(md_cuda_draft_workspace_size(entries, &bytes));
    return bytes;
}

std::size_t verify_workspace(std::string const& method, int requests, int nodes, int depth, bool validates) {
    std::size_t bytes = 0;
    std::size_t more = 0;
    check(md_cuda_verify_workspace_size(method_of(method), requests, nodes, depth, &bytes));
    if (validates) check(md_cuda_validate_workspace_size(&more));
    return bytes < more ? more : bytes;
}

void draft(std::string const& method, int device, address stream, int entries, address requests, address nodes,
           address depths, int count, rows const& logits, draws const& of_requests, address tokens, address counts,
           address certain, address workspace, std::size_t workspace_size) {
    md_method const* const chosen = method_of(method);
    on_device const here(device);
    md_level level = MD_LEVEL_INIT;
    level.entries = entries;
    level.requests = at<std::int32_t const>(requests);
    level.nodes = at<std::int32_t const>(nodes);
    level.depths = at<std::int32_t const>(depths);
    md_rows const q = rows_of(logits);
    md_requests const r = requests_of(of_requests);
    md_children out = MD_CHILDREN_INIT;
    out.tokens = at<std::int32_t>(tokens);
    out.stride = count;
    out.counts = at<std::int32_t>(counts);
    out.certain = at<std::int32_t>(certain);
    check(md_cuda_draft(chosen, at<void>(stream), &level, &q, &r, &out, at<void>(workspace), workspace_size));
}

/// Requests, nodes, addresses of offsets and parents.
using shapes = std::tuple<int, std::int64_t, address, address>;

md_trees trees_of(shapes const& given) {
    md_trees t = MD_TREES_INIT;
    t.requests = std::get<0>(given);
    t.nodes = std::get<1>(given);
    t.offsets = at<std::int64_t const>(std::get<2>(given));
    t.parents = at<std::int32_t const>(std::get<3>(given));
    return t;
}

void write_masks(int device, address stream, shapes const& trees, address words, std::int64_t row_words) {
    on_device const here(device);
    md_trees const t = trees_of(trees);
    check(md_cuda_write_masks(at<void>(stream), &t, at<std::uint64_t>(words), row_words));
}

/// `dtype`: that of a bias, or 0 for bytes.
void write_dense_masks(int device, address stream, shapes const& trees, address words, std::int64_t row_words,
                       int dtype, address data, std::int64_t columns, address contexts) {
    on_device const here(device);
    md_trees const t = trees_of(trees);
    md_dense_masks out = MD_DENSE_MASKS_INIT;
    out.data = at<void>(data);
    out.columns = columns;
    out.row_stride = columns;
    out.contexts = at<std::int64_t const>(contexts);
    auto const* const packed = at<std::uint64_t const>(words);
    check(dtype == 0 ? md_cuda_write_mask_bytes(at<void>(stream), &t, packed, row_words, &out)
                     : md_cuda_write_mask_bias(at<void>(stream), &t, packed, row_words, dtype, &out));
}

void write_positions(int device, address stream, shapes const& trees, address of_roots, address out) {
    on_device const here(device);
    md_trees const t = trees_of(trees);
    check(md_cuda_write_positions(at<void>(stream), &t, at<std::int32_t const>(of_roots), at<std::int32_t>(out)));
}

std::size_t level_order_workspace(int device, std::int64_t nodes) {
    on_device const here(device);
    std::size_t bytes = 0;
    check(md_cuda_level_order_workspace_size(nodes, &bytes));
    return bytes;
}

void level_order(int device, address stream, shapes const& trees, address parents, address order, address rows,
                 address faults, address workspace, std::size_t workspace_size) {
    on_device const here(device);
    md_trees const t = trees_of(trees);
    check(md_cuda_level_order(at<void>(stream), &t, at<std::int32_t>(parents), at<std::int32_t>(order),
                              at<std::int64_t>(rows), at<std::int32_t>(faults), at<void>(workspace), workspace_size));
}

/// `layout`: bytes of an entry, between requests (between pages, if there are pages), and between entries; the entries
/// of a page. `axes`: (count, bytes between planes). `list`: the addresses of the caches, in device memory. `pages`:
/// the address of the table and its stride, or 0.
void compact(int device, address stream,
             std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t> const& layout,
             std::vector<std::tuple<std::int64_t, std::int64_t>> const& axes, address list, std::int64_t listed,
             std::int64_t alignment, std::tuple<address, std::int64_t> const& pages, int requests, address path,
             std::int64_t path_stride, address accepted, address bases) {
    on_device const here(device);
    std::vector<md_axis> of_cache;
    for (auto const& [count, stride] : axes) of_cache.push_back({count, stride});
    md_cuda_cache c = MD_CUDA_CACHE_INIT;
    c.entry_bytes = std::get<0>(layout);
    c.entry_stride = std::get<2>(layout);
    c.axes = of_cache.data();
    c.axis_count = static_cast<std::int64_t>(of_cache.size());
    c.list = at<void* const>(list);
    c.listed = listed;
    c.list_alignment = alignment;
    c.pages = at<std::int32_t const>(std::get<0>(pages));
    if (c.pages == nullptr) {
        c.request_stride = std::get<1>(layout);
    } else {
        c.pages_stride = std::get<1>(pages);
        c.page_stride = std::get<1>(layout);
        c.page_entries = std::get<3>(layout);
    }
    md_verdicts v = MD_VERDICTS_INIT;
    v.path = at<std::int32_t>(path);
    v.path_stride = path_stride;
    v.accepted = at<std::int32_t>(accepted);
    check(md_cuda_compact(at<void>(stream), &c, requests, &v, at<std::int64_t const>(bases)));
}

/// `trees`: requests, nodes, addresses of offsets, parents, tokens and certain or 0, nodes of the largest tree.
void verify(std::string const& method, std::string const& law, int device, address stream,
            std::tuple<int, std::int64_t, address, address, address, address, std::int64_t> const& trees,
            rows const& target, rows const& draft_rows, draws const& of_requests, address path,
            std::int64_t path_stride, address accepted, address next, address workspace, std::size_t workspace_size,
            bool only_validate) {
    md_method const* const chosen = method_of(method);
    on_device const here(device);
    md_trees t = trees_of({std::get<0>(trees), std::get<1>(trees), std::get<2>(trees), std::get<3>(trees)});
    t.law = law.c_str();
    t.tokens = at<std::int32_t const>(std::get<4>(trees));
    t.certain = at<std::int32_t const>(std::get<5>(trees));
    t.largest = std::get<6>(trees);
    md_rows const p = rows_of(target);
    md_rows const q = rows_of(draft_rows);
    md_rows const* const of_draft = q.data == nullptr ? nullptr : &q;
    md_requests const r = requests_of(of_requests);
    md_verdicts out = MD_VERDICTS_INIT;
    out.path = at<std::int32_t>(path);
    out.path_stride = path_stride;
    out.accepted = at<std::int32_t>(accepted);
    out.next = at<std::int32_t>(next);
    md_status status = MD_OK;
    if (only_validate) {
        nb::gil_scoped_release const others;  // it waits
        status = md_cuda_validate(chosen, at<void>(stream), &t, &p, of_draft, &r, at<void>(workspace), workspace_size);
    } else {
        status =
            md_cuda_verify(chosen, at<void>(stream), &t, &p, of_draft, &r, &out, at<void>(workspace), workspace_size);
    }
    check(status);
}

}  // namespace

void define_device_calls(nb::module_& m) {
    m.def("has_cuda", [] { return md_has_cuda() != 0; });
    m.def("cuda_device_count", &device_count);
    m.def("cuda_is_capturing", &is_capturing, "device"_a, "stream"_a);
    m.def("cuda_allocate", &allocate, "device"_a, "stream"_a, "bytes"_a);
    m.def("cuda_release", &release, "device"_a, "stream"_a, "data"_a);
    m.def("cuda_upload", &upload, "device"_a, "stream"_a, "to"_a, "bytes"_a);
    m.def("cuda_synchronize", &synchronize, "device"_a, "stream"_a);
    m.def("cuda_download", &download, "device"_a, "stream"_a, "data"_a, "size"_a);
    m.def("cuda_fill", &fill, "device"_a, "stream"_a, "data"_a, "byte"_a, "bytes"_a);
    m.def("cuda_order", &order, "device"_a, "earlier"_a, "later"_a);
    m.def("cuda_view", &view, "capsule"_a);
    m.def("cuda_exported", &exported, "owner"_a, "data"_a, "device"_a, "shape"_a, "code"_a, "bits"_a);
    m.def("cuda_draft_workspace", &draft_workspace, "entries"_a);
    m.def("cuda_verify_workspace", &verify_workspace, "method"_a, "requests"_a, "nodes"_a, "depth"_a, "validates"_a);
    m.def("cuda_draft", &draft, "method"_a, "device"_a, "stream"_a, "entries"_a, "requests"_a, "nodes"_a, "depths"_a,
          "count"_a, "logits"_a, "draws"_a, "tokens"_a, "counts"_a, "certain"_a, "workspace"_a, "workspace_size"_a);
    m.def("cuda_verify", &verify, "method"_a, "law"_a, "device"_a, "stream"_a, "trees"_a, "target"_a, "draft"_a,
          "draws"_a, "path"_a, "path_stride"_a, "accepted"_a, "next"_a, "workspace"_a, "workspace_size"_a,
          "only_validate"_a);
    m.def("cuda_write_masks", &write_masks, "device"_a, "stream"_a, "trees"_a, "words"_a, "row_words"_a);
    m.def("cuda_write_dense_masks", &write_dense_masks, "device"_a, "stream"_a, "trees"_a, "words"_a, "row_words"_a,
          "dtype"_a, "data"_a, "columns"_a, "contexts"_a);
    m.def("cuda_write_positions", &write_positions, "device"_a, "stream"_a, "trees"_a, "of_roots"_a, "out"_a);
    m.def("cuda_level_order_workspace", &level_order_workspace, "device"_a, "nodes"_a);
    m.def("cuda_level_order", &level_order, "device"_a, "stream"_a, "trees"_a, "parents"_a, "order"_a, "rows"_a,
          "faults"_a, "workspace"_a, "workspace_size"_a);
    m.def("cuda_compact", &compact, "device"_a, "stream"_a, "layout"_a, "axes"_a, "list"_a, "listed"_a, "alignment"_a,
          "pages"_a, "requests"_a, "path"_a, "path_stride"_a, "accepted"_a, "bases"_a);
}
