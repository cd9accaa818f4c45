// The usual calls: one tree, or one set of parameters for all rows, in NumPy arrays and Python's own numbers. They
// return None for anything else, and for anything that is refused; the package's Python code then converts the
// arguments and reports errors. SPDX-License-Identifier: Apache-2.0
#include "usual.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "multidraft.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

/// Objects of Python that are looked up once. Never freed: the interpreter may be gone at exit.
struct names {
    nb::object array = nb::module_::import_("numpy").attr("ndarray");
    nb::object empty = nb::module_::import_("numpy").attr("empty");
    nb::object int32 = nb::module_::import_("numpy").attr("dtype")("int32");
    nb::object tree = nb::module_::import_("multidraft.tree").attr("Tree");
    nb::object parents = nb::steal(PyUnicode_InternFromString("_parents"));
    nb::object name = nb::steal(PyUnicode_InternFromString("name"));
    nb::object law = nb::module_::import_("multidraft.methods").attr("Law");
    nb::object method = nb::module_::import_("multidraft.methods").attr("Method");
    nb::object drafted = nb::module_::import_("multidraft.batch").attr("DraftedTree");
    nb::object verdict = nb::module_::import_("multidraft.batch").attr("Verdict");
    nb::object new_tuple = nb::borrow(reinterpret_cast<PyObject*>(&PyTuple_Type)).attr("__new__");
    std::map<std::string_view, md_method const*> methods;

    names() {
        for (std::int32_t k = 0; k < md_method_count(); ++k) {
            md_method const* found = nullptr;
            if (md_find_method(md_method_name(k), &found) == MD_OK) methods[md_method_name(k)] = found;
        }
    }
};

names const& known() {
    static auto const* const all = new names;
    return *all;
}

bool is_a(nb::handle object, nb::object const& type) {
    return reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())) == type.ptr();
}

/// A result of the C API: its error is dropped, as the Python code finds it again.
nb::object found(PyObject* object) {
    if (object == nullptr) PyErr_Clear();
    return nb::steal(object);
}

/// The memory of a NumPy array. The buffer protocol takes less time than DLPack.
class memory {
public:
    memory() = default;
    memory(memory const&) = delete;
    memory& operator=(memory const&) = delete;
    ~memory() {
        if (held_) PyBuffer_Release(&view_);
    }
    bool read(nb::handle array, int dimensions) {
        if (!is_a(array, known().array)) return false;
        held_ = PyObject_GetBuffer(array.ptr(), &view_, PyBUF_STRIDES | PyBUF_FORMAT) == 0;
        if (!held_) PyErr_Clear();
        return held_ && view_.ndim == dimensions && view_.format != nullptr && view_.format[0] != 0 &&
               view_.format[1] == 0;
    }
    bool write(nb::handle array) {
        held_ = PyObject_GetBuffer(array.ptr(), &view_, PyBUF_WRITABLE) == 0;
        if (!held_) PyErr_Clear();
        return held_;
    }
    [[nodiscard]] char format() const { return view_.format[0]; }
    [[nodiscard]] std::int64_t entry() const { return view_.itemsize; }
    [[nodiscard]] std::int64_t size(int dimension) const { return view_.shape[dimension]; }
    [[nodiscard]] std::int64_t stride(int dimension) const { return view_.strides[dimension]; }
    [[nodiscard]] void* data() const { return view_.buf; }

private:
    Py_buffer view_{};
    bool held_ = false;
};

bool to_integer(nb::handle object, std::int64_t low, std::int64_t high, std::int64_t& value) {
    if (!PyLong_CheckExact(object.ptr())) return false;
    int overflow = 0;
    value = PyLong_AsLongLongAndOverflow(object.ptr(), &overflow);
    return overflow == 0 && value >= low && value <= high;
}

template <class T>
bool to(nb::handle object, T& value) {
    std::int64_t wide = 0;
    if (!to_integer(object, std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), wide)) return false;
    value = static_cast<T>(wide);
    return true;
}

template <>
bool to(nb::handle object, std::uint64_t& value) {
    if (!PyLong_CheckExact(object.ptr())) return false;
    value = PyLong_AsUnsignedLongLong(object.ptr());
    if (value != std::numeric_limits<std::uint64_t>::max() || PyErr_Occurred() == nullptr) return true;
    PyErr_Clear();
    return false;
}

template <>
bool to(nb::handle object, float& value) {
    if (!PyFloat_CheckExact(object.ptr())) return false;
    value = static_cast<float>(PyFloat_AsDouble(object.ptr()));
    return true;
}

/// The numbers of an array of 32 or 64 bits or of a list of integers, which are copied unless they are an array of
/// contiguous 32-bit integers.
class integers {
public:
    bool read(nb::handle object) {
        if (PyList_CheckExact(object.ptr())) {
            auto const count = static_cast<std::size_t>(PyList_Size(object.ptr()));
            copy_.resize(count);
            for (std::size_t i = 0; i < count; ++i)
                if (!to(nb::handle(PyList_GetItem(object.ptr(), static_cast<Py_ssize_t>(i))), copy_[i])) return false;
            data_ = copy_.data();
            size_ = count;
            return true;
        }
        if (!memory_.read(object, 1) || (memory_.format() != 'i' && memory_.format() != 'l' && memory_.format() != 'q'))
            return false;
        size_ = static_cast<std::size_t>(memory_.size(0));
        if (memory_.entry() == sizeof(std::int32_t) && memory_.stride(0) == sizeof(std::int32_t)) {
            data_ = static_cast<std::int32_t const*>(memory_.data());
            return true;
        }
        if (memory_.entry() != sizeof(std::int64_t)) return false;
        copy_.resize(size_);
        for (std::size_t i = 0; i < size_; ++i) {
            std::int64_t wide = 0;
            std::memcpy(&wide,
                        static_cast<char const*>(memory_.data()) + static_cast<std::int64_t>(i) * memory_.stride(0),
                        sizeof(wide));
            if (wide < std::numeric_limits<std::int32_t>::min() || wide > std::numeric_limits<std::int32_t>::max())
                return false;
            copy_[i] = static_cast<std::int32_t>(wide);
        }
        data_ = copy_.data();
        return true;
    }
    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] std::int32_t const* data() const { return data_; }
    std::int32_t operator[](std::size_t i) const { return data_[i]; }

private:
    memory memory_;
    std::vector<std::int32_t> copy_;
    std::int32_t const* data_ = nullptr;
    std::size_t size_ = 0;
};

/// Rows of logits in an array of float32 or float16.
class logits {
public:
    bool read(nb::handle object) {
        if (!memory_.read(object, 2)) return false;
        std::int64_t const entry = memory_.entry();
        std::int64_t const width = memory_.size(1);
        if (memory_.format() != 'f' && memory_.format() != 'e') return false;
        if (width < 1 || width > 0x7fffffff - 4096 || (width > 1 && memory_.stride(1) != entry) ||
            (memory_.size(0) > 1 && memory_.stride(0) % entry != 0))
            return false;
        view_.dtype = memory_.format() == 'f' ? MD_FLOAT32 : MD_FLOAT16;
        if (md_has_dtype(view_.dtype) == 0) return false;
        view_.data = memory_.data();
        // The library has no rows from the last to the first, nor one that is seen several times.
        if (memory_.size(0) > 1 && memory_.stride(0) < width * entry) return false;
        view_.row_stride = memory_.size(0) > 1 ? memory_.stride(0) / entry : 0;
        view_.vocabulary = static_cast<std::int32_t>(width);
        return true;
    }
    [[nodiscard]] std::int64_t count() const { return memory_.size(0); }
    [[nodiscard]] md_rows& view() { return view_; }

private:
    memory memory_;
    md_rows view_ = MD_ROWS_INIT;
};

/// The name of a method or a law, which is a text or an object of this type with a name.
char const* name_of(nb::handle object, nb::object const& type, nb::object& kept) {
    if (is_a(object, type)) {
        kept = found(PyObject_GetAttr(object.ptr(), known().name.ptr()));
        object = kept;
    }
    if (!object.is_valid() || !PyUnicode_CheckExact(object.ptr())) return nullptr;
    Py_ssize_t length = 0;
    char const* const text = PyUnicode_AsUTF8AndSize(object.ptr(), &length);
    if (text == nullptr) PyErr_Clear();
    return text != nullptr && std::strlen(text) == static_cast<std::size_t>(length) ? text : nullptr;
}

md_method const* method_named(char const* name) {
    if (name == nullptr) return nullptr;
    auto const at = known().methods.find(name);
    return at == known().methods.end() ? nullptr : at->second;
}

/// An array of 32-bit integers, not initialised.
nb::object new_array(nb::handle shape) {
    std::array<PyObject*, 2> const arguments{shape.ptr(), known().int32.ptr()};
    return found(PyObject_Vectorcall(known().empty.ptr(), arguments.data(), arguments.size(), nullptr));
}

nb::object array_of(std::int32_t const* numbers, std::int32_t count) {
    nb::object array = new_array(nb::steal(PyLong_FromLong(count)));
    memory to_array;
    if (!array.is_valid() || !to_array.write(array)) return {};
    std::copy_n(numbers, count, static_cast<std::int32_t*>(to_array.data()));
    return array;
}

/// Integers of a node or a row, on the stack if they are few.
class few {
public:
    explicit few(std::size_t count) : more_(count > near_.size() ? count : 0) {}
    std::int32_t* data() { return more_.empty() ? near_.data() : more_.data(); }

private:
    std::array<std::int32_t, 64> near_;  // NOLINT: not initialised
    std::vector<std::int32_t> more_;
};

/// A Verdict on one tree.
nb::object verify_usual(nb::handle method, nb::handle tree, nb::handle tokens, nb::handle target, nb::handle draft,
                        nb::handle law, nb::handle certain, nb::handle temperature, nb::handle top_k, nb::handle top_p,
                        nb::handle min_p, nb::handle seed, nb::handle position, nb::handle id, nb::handle threads,
                        nb::handle validate, nb::handle probabilities) {
    std::int64_t one = 0;
    std::uint64_t seed_ = 0;
    std::int32_t position_ = 0;
    std::uint32_t id_ = 0;
    md_sampling sampling = MD_SAMPLING_INIT;
    if (!validate.is(Py_False) || !probabilities.is(Py_False) || !to_integer(threads, 1, 1, one) ||
        !to(temperature, sampling.temperature) || !to(top_k, sampling.top_k) || !to(top_p, sampling.top_p) ||
        !to(min_p, sampling.min_p) || !to(seed, seed_) || !to(position, position_) || (!id.is_none() && !to(id, id_)))
        return nb::none();
    if (is_a(tree, known().drafted)) {
        if (!tokens.is_none() || !certain.is_none() || !law.is_none()) return nb::none();
        tokens = PyTuple_GetItem(tree.ptr(), 1);
        certain = PyTuple_GetItem(tree.ptr(), 2);
        law = PyTuple_GetItem(tree.ptr(), 3);
        tree = PyTuple_GetItem(tree.ptr(), 0);
    }
    if (!is_a(tree, known().tree)) return nb::none();
    nb::object name, of_law;
    md_method const* const chosen = method_named(name_of(method, known().method, name));
    md_trees trees = MD_TREES_INIT;
    trees.law = name_of(law, known().law, of_law);
    integers parents, of_nodes, are_certain;
    nb::object const shape = found(PyObject_GetAttr(tree.ptr(), known().parents.ptr()));
    if (chosen == nullptr || trees.law == nullptr || !shape.is_valid() || !parents.read(shape) ||
        !of_nodes.read(tokens) || of_nodes.size() != parents.size())
        return nb::none();
    auto const nodes = static_cast<std::int64_t>(parents.size());
    md_method_info info = MD_METHOD_INFO_INIT;
    if (md_describe_method(chosen, &info) != MD_OK) return nb::none();
    if (info.counts_certain != 0 && (!are_certain.read(certain) || are_certain.size() != parents.size()))
        return nb::none();
    logits p, q;
    // Rows of the draft are of nodes with children.
    std::int64_t const of_draft = nodes > 1 ? std::min<std::int64_t>(parents[parents.size() - 1], nodes) + 1 : 0;
    if (!p.read(target) || p.count() < nodes || (!draft.is_none() && (!q.read(draft) || q.count() < of_draft)))
        return nb::none();
    p.view().default_sampling = q.view().default_sampling = sampling;

    std::array<std::int64_t, 2> const offsets{0, nodes};
    trees.requests = 1;
    trees.nodes = nodes;
    trees.offsets = offsets.data();
    trees.parents = parents.data();
    trees.tokens = of_nodes.data();
    trees.certain = are_certain.data();
    md_requests requests = MD_REQUESTS_INIT;
    requests.seeds = &seed_;
    requests.positions = &position_;
    requests.ids = &id_;
    few path(parents.size());
    std::int32_t accepted = 0;
    std::int32_t next = 0;
    md_verdicts out = MD_VERDICTS_INIT;
    out.path = path.data();
    out.accepted = &accepted;
    out.next = &next;
    md_status status = MD_OK;
    {
        nb::gil_scoped_release const others;
        status = md_verify(chosen, nullptr, &trees, &p.view(), draft.is_none() ? nullptr : &q.view(), &requests, &out,
                           nullptr, 0);
    }
    if (status != MD_OK) return nb::none();

    nb::object const of_path = array_of(path.data(), accepted);
    nb::object const emitted = found(PyList_New(accepted + 1));
    if (!of_path.is_valid() || !emitted.is_valid()) return nb::none();
    for (std::int32_t i = 0; i <= accepted; ++i) {
        std::int32_t const token = i < accepted ? of_nodes[static_cast<std::size_t>(path.data()[i])] : next;
        PyList_SetItem(emitted.ptr(), i, PyLong_FromLong(token));
    }
    nb::object const fields = nb::steal(PyTuple_Pack(3, of_path.ptr(), emitted.ptr(), nb::int_(accepted).ptr()));
    std::array<PyObject*, 2> const arguments{known().verdict.ptr(), fields.ptr()};
    nb::object result =
        found(PyObject_Vectorcall(known().new_tuple.ptr(), arguments.data(), arguments.size(), nullptr));
    return result.is_valid() ? result : nb::none();
}

constexpr std::int64_t most_rows = 64;

/// (tokens, counts, certain) of the rows of some nodes of one text.
nb::object draft_usual(nb::handle method, nb::handle rows, nb::handle n, nb::handle nodes, nb::handle temperature,
                       nb::handle top_k, nb::handle top_p, nb::handle min_p, nb::handle seed, nb::handle position,
                       nb::handle id, nb::handle threads) {
    std::int64_t one = 0;
    std::int64_t children = 0;
    std::uint64_t seed_ = 0;
    std::int32_t position_ = 0;
    std::uint32_t id_ = 0;
    md_sampling sampling = MD_SAMPLING_INIT;
    if (!to_integer(threads, 1, 1, one) || !to_integer(n, 1, 1 << 24, children) ||
        !to(temperature, sampling.temperature) || !to(top_k, sampling.top_k) || !to(top_p, sampling.top_p) ||
        !to(min_p, sampling.min_p) || !to(seed, seed_) || !to(position, position_) || (!id.is_none() && !to(id, id_)))
        return nb::none();
    nb::object name;
    md_method const* const chosen = method_named(name_of(method, known().method, name));
    logits q;
    if (chosen == nullptr || !q.read(rows) || q.count() < 1 || q.count() > most_rows) return nb::none();
    q.view().default_sampling = sampling;
    integers of_nodes;
    std::int32_t node = 0;
    std::int32_t const* numbers = &node;
    if (q.count() != 1 || !to(nodes, node)) {
        if (!of_nodes.read(nodes) || static_cast<std::int64_t>(of_nodes.size()) != q.count()) return nb::none();
        numbers = of_nodes.data();
        for (std::size_t i = 1; i < of_nodes.size(); ++i)
            if (of_nodes[i] <= of_nodes[i - 1]) return nb::none();  // perhaps one twice
    }
    // Draws by text read depths, and the root's is 0.
    md_method_info info = MD_METHOD_INFO_INIT;
    if (md_describe_method(chosen, &info) != MD_OK || (info.drawn_by_text != 0 && (q.count() > 1 || numbers[0] != 0)))
        return nb::none();

    static constexpr std::array<std::int32_t, most_rows> zeros{};
    nb::object const of_rows = nb::steal(PyLong_FromLongLong(q.count()));
    nb::object const both = nb::steal(PyTuple_Pack(2, of_rows.ptr(), n.ptr()));
    nb::object const tokens = new_array(both);
    nb::object const counts = new_array(of_rows);
    nb::object const certain = new_array(of_rows);
    memory to_tokens, to_counts, to_certain;
    if (!tokens.is_valid() || !counts.is_valid() || !certain.is_valid() || !to_tokens.write(tokens) ||
        !to_counts.write(counts) || !to_certain.write(certain))
        return nb::none();
    md_requests requests = MD_REQUESTS_INIT;
    requests.seeds = &seed_;
    requests.positions = &position_;
    requests.ids = &id_;
    md_level level = MD_LEVEL_INIT;
    level.entries = static_cast<std::int32_t>(q.count());
    level.requests = level.depths = zeros.data();
    level.nodes = numbers;
    md_children out = MD_CHILDREN_INIT;
    out.tokens = static_cast<std::int32_t*>(to_tokens.data());
    out.stride = children;
    out.counts = static_cast<std::int32_t*>(to_counts.data());
    out.certain = static_cast<std::int32_t*>(to_certain.data());
    md_status status = MD_OK;
    {
        nb::gil_scoped_release const others;
        status = md_draft(chosen, nullptr, &level, &q.view(), &requests, &out);
    }
    if (status != MD_OK) return nb::none();
    return nb::steal(PyTuple_Pack(3, tokens.ptr(), counts.ptr(), certain.ptr()));
}

}  // namespace

void define_usual_calls(nb::module_& m) {
    m.def("verify_usual", &verify_usual, "method"_a.none(), "tree"_a.none(), "tokens"_a.none(), "target"_a.none(),
          "draft"_a.none(), "law"_a.none(), "certain"_a.none(), "temperature"_a.none(), "top_k"_a.none(),
          "top_p"_a.none(), "min_p"_a.none(), "seed"_a.none(), "position"_a.none(), "id"_a.none(), "threads"_a.none(),
          "validate"_a.none(), "probabilities"_a.none());
    m.def("draft_usual", &draft_usual, "method"_a.none(), "rows"_a.none(), "n"_a.none(), "nodes"_a.none(),
          "temperature"_a.none(), "top_k"_a.none(), "top_p"_a.none(), "min_p"_a.none(), "seed"_a.none(),
          "position"_a.none(), "id"_a.none(), "threads"_a.none());
}
