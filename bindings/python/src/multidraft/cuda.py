"""`draft` and `verify` over arrays in device memory, as launches on a stream. Needs a module built with CUDA.

    children = multidraft.cuda.draft(draft_logits, 3, law="sequential", seeds=seed, positions=position)
    verdicts = multidraft.cuda.verify("recursive_rejection/sequential", tree, tokens, target_logits, draft_logits,
                                      law=children.law, seeds=seed, positions=position)

Rows of logits are read in place, by DLPack: tensors of PyTorch, arrays of CuPy, JAX and others. Results are tensors of
PyTorch for such logits, arrays of CuPy for those of CuPy, and otherwise `Array`s, which DLPack exports. Other arguments
may be in device memory too, or on the host (numbers, lists, NumPy arrays), from where they are copied in one piece.

Calls use the device of the logits and, unless `stream` says otherwise, the framework's current stream: that of PyTorch or
CuPy, or the default stream. Except with ``validate=True`` they do not wait. A stream that is being captured in a
graph is refused, as shapes of trees are copied from the host. The results have the same bits as those of
`multidraft.draft` and `multidraft.verify`.

Integers in device memory are not checked, except with ``validate=True``: tokens, numbers of rows and nodes must be in range.
A tree with a row that is not a distribution gets the token -1.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from . import _core
from ._arrays import each, four, integer, integers, sampling
from ._errors import refuse
from .batch import DraftedTree, _joined, _sampler, _trees_of
from .methods import Law, Method, law as law_of, laws, method as method_of
from .tree import Tree

_DEVICE_MEMORY = (2, 13)  # DLPack's kDLCUDA and kDLCUDAManaged
_CODES = {"i": 0, "u": 1, "f": 2}
_ROWS = {(2, 32): 1, (2, 16): 2, (4, 16): 3}  # DLPack's code and bits: the library's type
_BUILD = "build the module with CUDA: pip install bindings/python -C cmake.define.MULTIDRAFT_CUDA=ON"


def is_built() -> bool:
    """Whether the module is built with CUDA."""
    return _core.has_cuda()


class Array:
    """An array in device memory for frameworks other than PyTorch and CuPy. Contiguous; DLPack exports it.

    Its memory is freed in the order of its stream and of those that it was exported to.
    """

    def __init__(self, shape, dtype, device, stream):
        self.shape, self.dtype, self.device, self.stream = tuple(shape), np.dtype(dtype), device, stream
        self._kept = self._pointer = None
        self._readers = set()
        self._pointer = _core.cuda_allocate(device, stream, max(1, self.nbytes))

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """The number of bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def numpy(self) -> np.ndarray:
        """A copy on the host. Waits for the stream."""
        return np.frombuffer(_core.cuda_download(self.device, self.stream, self._pointer, self.nbytes),
                             self.dtype).reshape(self.shape)

    def __dlpack_device__(self):
        return (2, self.device)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if copy or (dl_device is not None and tuple(dl_device) != (2, self.device)):
            raise BufferError("an array in device memory is exported where it is")
        # -1: the reader does not want to wait. None and 1 are the default stream.
        if stream != -1:
            reader = 0 if stream in (None, 1) else stream
            _core.cuda_order(self.device, self.stream, reader)
            if reader != self.stream:
                self._readers.add(reader)
        code = 4 if self.dtype.name == "bfloat16" else _CODES[self.dtype.kind]
        return _core.cuda_exported(self, self._pointer, self.device, self.shape, code, 8 * self.dtype.itemsize)

    def __del__(self, core=_core):  # at exit the module may have gone
        if self._pointer is not None:
            try:
                for reader in self._readers:
                    core.cuda_order(self.device, reader, self.stream)
            except OSError:
                pass  # the reader's stream is gone, and what it was given with it
            core.cuda_release(self.device, self.stream, self._pointer)


def to_device(values: Any, device: int = 0, stream: int = 0) -> Array:
    """A copy of a host array in device memory, for programs without a framework that allocates there."""
    _wants_cuda()
    array = np.ascontiguousarray(values)
    if array.dtype.kind not in _CODES and array.dtype.name != "bfloat16":
        refuse("values.dtype", array.dtype, "numbers are wanted")
    result = Array(array.shape, array.dtype, integer("device", device, 0, 2**16), _stream(stream))
    _core.cuda_upload(result.device, result.stream, result._pointer, array.tobytes())
    return result


@dataclass(frozen=True)
class Children:
    """The children drawn for each row, in device memory, and their law."""

    tokens: Any  #: (rows, n) int32; -1 if the row's support was exhausted
    counts: Any  #: (rows,) int32: number drawn
    certain: Any  #: (rows,) int32: number that are certain
    law: Law


class Verdicts(NamedTuple):
    """The verdicts on all trees, in device memory."""

    path: Any  #: (trees, depth of the deepest, 1 or more) int32: the accepted nodes, root excluded, in order; then -1
    accepted: Any  #: (trees,) int32: the number of accepted nodes
    next: Any  #: (trees,) int32: the token that follows; -1 if a row was not a distribution


def _wants_cuda():
    if not _core.has_cuda():
        raise RuntimeError(f"multidraft is built without CUDA; {_BUILD}")


def _stream(stream):
    return integer("stream", stream, 0, 2**64 - 1)


def _is_on_device(values):
    if isinstance(values, (int, float, list, tuple, np.ndarray, np.generic)) or values is None:
        return False
    where = getattr(values, "__dlpack_device__", None)
    return where is not None and int(where()[0]) in _DEVICE_MEMORY


class _View(NamedTuple):
    """An array in device memory."""

    pointer: int
    kind: int
    device: int
    shape: list
    strides: list
    code: int
    bits: int
    lanes: int
    owner: Any


class _Place:
    """The device, stream and allocator of a call. The framework's device and stream are current in its `with` block."""

    def __init__(self, name, logits, stream):
        _wants_cuda()
        where = getattr(logits, "__dlpack_device__", None)
        if where is None:
            refuse(name, type(logits).__name__, "an array in device memory is wanted that DLPack exports")
        kind, self.device = (int(x) for x in where())
        if kind not in _DEVICE_MEMORY:
            refuse(name + ".device", kind, "the array lies in device memory (DLPack device 2); multidraft.draft and "
                   "multidraft.verify take arrays on the CPU")
        self.framework = type(logits).__module__.partition(".")[0]
        self.is_current = stream is None
        self.stream = self._current() if stream is None else _stream(stream)
        self.kept = []

    def _current(self):
        if self.framework == "torch":
            import torch

            return torch.cuda.current_stream(self.device).cuda_stream
        if self.framework == "cupy":
            import cupy

            with cupy.cuda.Device(self.device):
                return cupy.cuda.get_current_stream().ptr
        return 0

    def __enter__(self):
        self._scope = contextlib.ExitStack()
        if self.framework == "torch":
            import torch

            self._scope.enter_context(torch.cuda.device(self.device))
            if not self.is_current:
                self._scope.enter_context(torch.cuda.stream(torch.cuda.ExternalStream(self.stream, device=self.device)))
        elif self.framework == "cupy":
            import cupy

            self._scope.enter_context(cupy.cuda.Device(self.device))
            if not self.is_current:
                self._scope.enter_context(cupy.cuda.ExternalStream(self.stream))
        return self

    def __exit__(self, *error):
        self._scope.close()

    def empty(self, *shape, dtype="int32"):
        """(array, address)."""
        if self.framework == "torch":
            import torch

            array = torch.empty(shape, dtype=getattr(torch, dtype), device=f"cuda:{self.device}")
            return array, array.data_ptr()
        if self.framework == "cupy":
            import cupy

            array = cupy.empty(shape, dtype)
            return array, array.data.ptr
        array = Array(shape, dtype, self.device, self.stream)
        return array, array._pointer

    def results(self, *shapes):
        """Arrays of int32 with their addresses."""
        found = [self.empty(*shape) for shape in shapes]
        if self.framework not in ("torch", "cupy"):
            for array, _ in found:
                array._kept = self.kept  # nobody else keeps the arguments until the launches have read them
        return found

    def view(self, name, array):
        if getattr(array, "requires_grad", False) is True:
            refuse(name, "a tensor with a gradient", "rows carry no gradients: detach() it")
        # The framework has this stream wait for the array, unless it is its own (-1). 1 is DLPack's default stream.
        framework = type(array).__module__.partition(".")[0]
        is_own = self.is_current and framework == self.framework and framework in ("torch", "cupy")
        try:
            capsule = array.__dlpack__(stream=-1 if is_own else self.stream or 1)
        except Exception as error:
            refuse(name, type(array).__name__, f"DLPack does not export it ({error})")
        view = _View(*_core.cuda_view(capsule))
        self.kept.append((view.owner, array))
        if framework == "torch" and not is_own:
            import torch

            array.record_stream(torch.cuda.ExternalStream(self.stream, device=self.device))
        if view.kind not in _DEVICE_MEMORY or view.device != self.device:
            refuse(name + ".device", (view.kind, view.device), f"all arrays are on device {self.device} of the logits")
        if view.lanes != 1:
            refuse(name + ".dtype", "of lanes", "numbers are wanted")
        return view


class _Arguments:
    """The integers of a call: those on the host lie one after another behind the workspace."""

    def __init__(self, place, workspace):
        self.place = place
        self.bytes = bytearray()
        self.begin = -(-workspace // 256) * 256
        self.addresses = {}

    def host(self, name, array):
        self.bytes += bytes(-len(self.bytes) % 16)
        self.addresses[name] = len(self.bytes)
        self.bytes += array.tobytes()

    def add(self, name, values, count, dtype, convert):
        """`convert(values)` is the host's array; device arrays have `count` entries of `dtype` one after another."""
        if values is None:
            self.addresses[name] = None
        elif _is_on_device(values):
            view = self.place.view(name, values)
            bits = 8 * np.dtype(dtype).itemsize
            if view.code not in (0, 1) or view.bits != bits:
                refuse(name + ".dtype", f"code {view.code}, {view.bits} bits", f"in device memory they are {np.dtype(dtype).name}")
            if math.prod(view.shape) != count:
                refuse(name + ".size", math.prod(view.shape), f"there are {count}")
            stride = 1
            for size, step in zip(reversed(view.shape), reversed(view.strides)):
                if size != 1 and step != stride:
                    refuse(name + ".strides", view.strides, "entries in device memory lie one after another")
                stride *= size
            self.addresses[name] = (view.pointer,)
        else:
            self.host(name, convert(values))

    def send(self):
        """(address of the workspace, its size). Copies the host's integers."""
        place = self.place
        array, base = place.empty(max(1, self.begin + len(self.bytes)), dtype="uint8")
        self.memory = array  # until everything is launched
        if self.bytes:
            _core.cuda_upload(place.device, place.stream, base + self.begin, bytes(self.bytes))
        self.base = base + self.begin
        return base, self.begin

    def __getitem__(self, name):
        found = self.addresses[name]
        return 0 if found is None else found[0] if isinstance(found, tuple) else self.base + found

    def add_sampling(self, name, params):
        self.addresses[name] = None
        if isinstance(params, tuple):
            return params
        self.host(name, params)
        return (1.0, 0, 1.0, 0.0)


class _Rows(NamedTuple):
    pointer: int
    dtype: int
    stride: int
    vocabulary: int
    count: int

    def tuple(self, row_of, all_, each_):
        return (self.pointer, self.dtype, self.stride, self.vocabulary, row_of, all_, each_)


_NO_ROWS = _Rows(0, 1, 0, 0, 0)


def _rows(place, name, array):
    if not _is_on_device(array):
        refuse(name + ".device", type(array).__name__, "all rows lie in device memory")
    view = place.view(name, array)
    if len(view.shape) != 2:
        refuse(name + ".ndim", len(view.shape), "rows are an array of two dimensions, (nodes, vocabulary)")
    if (view.code, view.bits) not in _ROWS:
        refuse(name + ".dtype", f"code {view.code}, {view.bits} bits", "rows are float32, float16 or bfloat16")
    count, vocabulary = view.shape
    if vocabulary > 1 and view.strides[1] != 1:
        refuse(name + ".strides", view.strides[1], "the entries of a row lie together, as a stride of 1 says")
    if not 1 <= vocabulary <= 2**31 - 4097:
        refuse(name + ".shape[1]", vocabulary, "a row has 1 to 2^31 - 4097 entries")
    return _Rows(view.pointer, _ROWS[view.code, view.bits], view.strides[0], vocabulary, count)


def _launch_draft(place, method, rows, requests, count, n, params, nodes, depths, seeds, positions, ids):
    """`requests`: the request of each row, of `count`. Returns (tokens, counts, certain)."""
    entries = rows.count
    (tokens, to_tokens), (counts, to_counts), (certain, to_certain) = place.results((entries, n), (entries,), (entries,))
    if entries == 0 or n == 0:
        for address in (to_counts, to_certain):
            _core.cuda_fill(place.device, place.stream, address, 0, 4 * entries)
        return tokens, counts, certain
    if isinstance(requests, np.ndarray) and ((requests < 0) | (requests >= count)).any():
        refuse("requests", requests[(requests < 0) | (requests >= count)][0], "a row is of one of the requests")
    arguments = _Arguments(place, _core.cuda_draft_workspace(entries))
    arguments.add("requests", requests, entries, np.int32, lambda x: each("requests", x, entries, np.int32))
    arguments.add("nodes", nodes, entries, np.int32, lambda x: each("nodes", x, entries, np.int32))
    arguments.add("depths", depths, entries, np.int32, lambda x: each("depths", x, entries, np.int32))
    _add_draws(arguments, seeds, positions, ids, count)
    all_ = arguments.add_sampling("sampling", params)
    workspace, size = arguments.send()
    _core.cuda_draft(method.name, place.device, place.stream, entries, arguments["requests"], arguments["nodes"],
                     arguments["depths"], n, rows.tuple(0, all_, arguments["sampling"]), _draws(arguments), to_tokens,
                     to_counts, to_certain, workspace, size)
    return tokens, counts, certain


def _add_draws(arguments, seeds, positions, ids, count):
    arguments.add("seeds", seeds, count, np.uint64, lambda x: each("seeds", x, count, np.uint64))
    arguments.add("positions", positions, count, np.int32, lambda x: each("positions", x, count, np.int32))
    arguments.add("ids", ids, count, np.uint32, lambda x: each("ids", x, count, np.uint32))


def _draws(arguments):
    return arguments["seeds"], arguments["positions"], arguments["ids"]


def draft(logits: Any, n: int, *, law: Law | str | None = None, method: Method | str | None = None, temperature: Any = 1.0,
          top_k: Any = 0, top_p: Any = 1.0, min_p: Any = 0.0, seeds: Any = 0, positions: Any = 0, nodes: Any = None,
          depths: Any = None, ids: Any = None, stream: int | None = None) -> Children:
    """Draws n children for each row of the draft's logits, which lie in device memory.

    The arguments are those of `multidraft.draft`. seeds, positions, nodes, depths and ids may be device arrays of one entry
    per row: int32, seeds 64 bits, ids 32 bits. Sampling parameters are on the host.
    stream: a cudaStream_t as an integer, by default the current stream of the logits' framework.

    Returns `Children` in device memory, without waiting. Raises `InvalidInput` for invalid arguments, `OSError` for an
    error of CUDA, `RuntimeError` in a build without CUDA.
    """
    chosen = _sampler(method, law)
    n = integer("n", n, 0, 2**24)
    with _Place("logits", logits, stream) as place:
        rows = _rows(place, "logits", logits)
        count = rows.count
        order = np.arange(count, dtype=np.int32)
        drawn = _launch_draft(place, chosen, rows, order, count, n, sampling(temperature, top_k, top_p, min_p, count),
                              order if nodes is None else nodes, np.zeros(count, np.int32) if depths is None else depths,
                              seeds, positions, ids)
        return Children(*drawn, laws()[chosen.law])


def _check_row_of(name, row_of, rows, nodes):
    of = name.replace("_logits", "") + "_rows"
    if row_of is None:
        if rows.count < nodes:
            refuse(name + ".shape[0]", rows.count, f"there is one row for each of {nodes}")
        return None
    if _is_on_device(row_of):
        return row_of
    row_of = integers(of, row_of, np.int64)
    if len(row_of) != nodes:
        refuse(of + ".size", len(row_of), "there is one entry a node")
    wrong = np.flatnonzero((row_of < 0) | (row_of >= rows.count))
    if len(wrong):
        refuse(of, row_of[wrong[0]], f"there are {rows.count} rows", int(wrong[0]))
    return row_of


def _launch_verify(place, method, law, trees, tokens, certain, target, draft_rows, target_row_of, draft_row_of, params,
                   of_draft, seeds, positions, ids, validate, stride, outputs):
    """`trees`: number, offsets on the host, parents, nodes of the largest. `stride`: of the path; 0: by offsets."""
    count, offsets, parents, largest = trees
    nodes = int(offsets[-1])
    if count == 0:
        return
    depth = stride or largest
    arguments = _Arguments(place, _core.cuda_verify_workspace(method.name, count, largest, depth, validate))
    arguments.host("offsets", offsets)
    arguments.add("parents", parents, nodes, np.int32, lambda x: x)
    arguments.add("tokens", tokens, nodes, np.int32, lambda x: _joined("tokens", x, nodes))
    arguments.add("certain", certain, nodes, np.int32, lambda x: _joined("certain", x, nodes))
    arguments.add("target_rows", target_row_of, nodes, np.int64, lambda x: x)
    arguments.add("draft_rows", draft_row_of, nodes, np.int64, lambda x: x)
    _add_draws(arguments, seeds, positions, ids, count)
    of_target, of_draft = arguments.add_sampling("sampling", params), arguments.add_sampling("draft_sampling", of_draft)
    (_, path), (_, accepted), (_, following) = outputs
    workspace, size = arguments.send()
    of_trees = (count, nodes, arguments["offsets"], arguments["parents"], arguments["tokens"], arguments["certain"], largest)
    p = target.tuple(arguments["target_rows"], of_target, arguments["sampling"])
    q = draft_rows.tuple(arguments["draft_rows"], of_draft, arguments["draft_sampling"])
    if validate:
        _core.cuda_verify(method.name, law, place.device, place.stream, of_trees, p, q, _draws(arguments), path, stride,
                          accepted, following, workspace, size, True)
    _core.cuda_fill(place.device, place.stream, path, 255, 4 * (count * stride or nodes))  # -1
    _core.cuda_verify(method.name, law, place.device, place.stream, of_trees, p, q, _draws(arguments), path, stride, accepted,
                      following, workspace, size, False)


def verify(method: Method | str, tree: Tree | DraftedTree | str | Sequence[Any], tokens: Any = None,
           target_logits: Any = None, draft_logits: Any = None, *, law: Law | str | None = None, certain: Any = None,
           temperature: Any = 1.0, top_k: Any = 0, top_p: Any = 1.0, min_p: Any = 0.0,
           draft_sampling: Sequence[Any] | None = None, seeds: Any = 0, positions: Any = 0, ids: Any = None,
           target_rows: Any = None, draft_rows: Any = None, validate: bool = False, stream: int | None = None) -> Verdicts:
    """Verifies one tree, or several, whose rows of logits lie in device memory.

    The arguments are those of `multidraft.verify`. Shapes of trees and sampling parameters are on the host. tokens, certain,
    seeds, positions, ids and the rows of nodes may be device arrays of one entry per node or tree, of any shape: int32, seeds
    and rows 64 bits, ids 32 bits.
    validate: check everything first, also what is in device memory, and raise `InvalidInput` for the first fault; waits.
    stream: a cudaStream_t as an integer, by default the current stream of the logits' framework.

    Returns `Verdicts` in device memory, without waiting. Raises `InvalidInput` for invalid arguments, `OSError` for an
    error of CUDA, `RuntimeError` in a build without CUDA. O(nodes), plus the cost of the method.
    """
    chosen = method_of(method)
    trees, _, tokens, certain, law = _trees_of(tree, tokens, certain, law)
    count = len(trees)
    if tokens is None or target_logits is None:
        refuse("target_logits" if tokens is not None else "tokens", None, "this is read")
    if chosen.counts_certain and certain is None:
        refuse("certain", None, f"trees of law '{chosen.law}' say how many children of each node are certain")
    if chosen.reads_draft and draft_logits is None:
        refuse("draft_logits", None, f"{chosen.name} reads them")
    sizes = [len(t) for t in trees]
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    nodes = int(offsets[-1])
    parents = np.concatenate([t.parents for t in trees])
    stride = max(1, *(t.depth for t in trees))
    params = sampling(temperature, top_k, top_p, min_p, count)
    of_draft = params if draft_sampling is None else sampling(*four("draft_sampling", draft_sampling), count)
    with _Place("target_logits", target_logits, stream) as place:
        p = _rows(place, "target_logits", target_logits)
        q = _NO_ROWS if draft_logits is None else _rows(place, "draft_logits", draft_logits)
        of_p = _check_row_of("target_logits", target_rows, p, nodes)
        of_q = None if draft_logits is None else _check_row_of("draft_logits", draft_rows, q, nodes)
        outputs = place.results((count, stride), (count,), (count,))
        _launch_verify(place, chosen, str(law_of(law)), (count, offsets, parents, max(sizes)), tokens,
                       certain if chosen.counts_certain else None, p, q, of_p, of_q, params, of_draft, seeds, positions, ids,
                       bool(validate), stride, outputs)
        return Verdicts(*(array for array, _ in outputs))
