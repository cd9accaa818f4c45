"""`draft`, `verify` and the trees' masks, positions and caches in device memory, as launches on a stream. Needs a module
built with CUDA.

    children = multidraft.cuda.draft(draft_logits, 3, law="sequential", seeds=seed, positions=position)
    verdicts = multidraft.cuda.verify("recursive_rejection/sequential", tree, tokens, target_logits, draft_logits,
                                      law=children.law, seeds=seed, positions=position)

Rows of logits are read in place, by DLPack: tensors of PyTorch, arrays of CuPy, JAX and others. Results are tensors of
PyTorch for such logits, arrays of CuPy for those of CuPy, and otherwise `Array`s, which DLPack exports. Other arguments
may be in device memory too, or on the host (numbers, lists, NumPy arrays), from where they are copied in one piece.

Calls use the device of the logits and, unless `stream` says otherwise, the framework's current stream: that of PyTorch or
CuPy, or the default stream. Except with ``validate=True`` they do not wait. The results have the same bits as those of
the functions for the host: `multidraft.draft`, `multidraft.verify`, `Tree.mask`, `Tree.positions`, `Tree.from_any_order`
and `multidraft.compact`.

A stream that is being captured in a graph is refused, as shapes of trees are copied from the host: a `DraftPlan` or a
`VerifyPlan`, made before for a fixed shape, has the calls that a graph can capture.

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
from ._arrays import each, four, integer, integers, one_id, readable, root_positions, sampling
from ._errors import refuse
from .batch import (DraftedTree, _addresses, _joined, _law_of_draws, _level_of, _listed, _sampler, _target_sampling, _trees_of,
                    needs_depths)
from .methods import Law, Method, check_shape, law as law_of, laws, method as method_of
from .tree import Tree, as_tree, mask_type

_DEVICE_MEMORY = (2, 13)  # DLPack's kDLCUDA and kDLCUDAManaged
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
_ROWS = {(2, 32): 1, (2, 16): 2, (4, 16): 3}  # DLPack's code and bits: the library's type
_BIASES = {"float32": 1, "float16": 2, "bfloat16": 3}
_MOST_AXES = 4  # of a cache, around its entries
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
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype.kind not in _CODES and array.dtype.name != "bfloat16":
        refuse("values.dtype", array.dtype, "numbers are wanted")
    result = Array(array.shape, array.dtype, integer("device", device, 0, 2**16), _stream(stream))
    _core.cuda_upload(result.device, result.stream, result._pointer, array.tobytes())
    return result


@dataclass(frozen=True)
class Children:
    """The children drawn for each row, in device memory, and their law."""

    tokens: Any  #: (rows, n) int32; `SUPPORT_ENDED` where no token was left to draw
    counts: Any  #: (rows,) int32: number drawn
    certain: Any  #: (rows,) int32: number that are certain
    law: Law


class Verdicts(NamedTuple):
    """The verdicts on all trees, in device memory."""

    path: Any  #: (trees, depth of the deepest, 1 or more) int32: the accepted nodes, root excluded, in order; then -1
    accepted: Any  #: (trees,) int32: the number of accepted nodes
    next: Any  #: (trees,) int32: the token that follows; -1 if a row was not a distribution


class LevelOrder(NamedTuple):
    """Trees in level order, in device memory."""

    parents: Any  #: (nodes,) int32: of each node in the new order, counted from its tree's root
    order: Any  #: (nodes,) int32: each node's number in the input, counted within its tree
    rows: Any  #: (nodes,) int64: each node's place in arrays in the order of the input, such as `target_rows`
    faults: Any  #: (trees,) int32: the number of nodes that are not connected to the root; 0 for a tree


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

    def __init__(self, name, array, stream, is_planned=False):
        """They are those of `array`; without one, device 0 and no framework. is_planned: a graph may capture the call."""
        _wants_cuda()
        self.device, self.framework = 0, ""
        if array is not None:
            where = getattr(array, "__dlpack_device__", None)
            if where is None:
                refuse(name, type(array).__name__, "an array in device memory is wanted that DLPack exports")
            kind, self.device = (int(x) for x in where())
            if kind not in _DEVICE_MEMORY:
                refuse(name + ".device", kind, "the array lies in device memory (DLPack device 2); multidraft.draft and "
                       "multidraft.verify take arrays on the CPU")
            self.framework = type(array).__module__.partition(".")[0]
        self.is_current = stream is None
        self.stream = self._current() if stream is None else _stream(stream)
        self.kept = []
        self.is_captured = is_planned and _core.cuda_is_capturing(self.device, self.stream)

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
        if dtype == "bfloat16":
            if self.framework == "cupy":
                refuse("dtype", dtype, "CuPy has no such type")
            import ml_dtypes

            dtype = ml_dtypes.bfloat16
        if self.framework == "cupy":
            import cupy

            array = cupy.empty(shape, dtype)
            return array, array.data.ptr
        array = Array(shape, dtype, self.device, self.stream)
        return array, array._pointer

    def results(self, *shapes, dtypes=()):
        """Arrays with their addresses, of int32 unless `dtypes` are given."""
        found = [self.empty(*shape, dtype=dtype) for shape, dtype in zip(shapes, dtypes or ["int32"] * len(shapes))]
        if self.framework not in ("torch", "cupy"):
            for array, _ in found:
                array._kept = self.kept  # nobody else keeps the arguments until the launches have read them
        return found

    def view(self, name, array):
        readable(name, array)
        # The framework has this stream wait for the array, unless it is its own (-1). 1 is DLPack's default stream. A
        # stream that is captured cannot wait for work outside of the graph.
        framework = type(array).__module__.partition(".")[0]
        is_own = self.is_captured or (
            self.is_current and framework == self.framework and framework in ("torch", "cupy"))
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
    if count > 1 and view.strides[0] < vocabulary:
        refuse(name + ".strides", view.strides[0], "rows lie one after another: contiguous() copies those that do not")
    # Exporters may give the stride of a dimension of one entry any value.
    return _Rows(view.pointer, _ROWS[view.code, view.bits], view.strides[0] if count > 1 else vocabulary, vocabulary, count)


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
    of_rows = _add_level(arguments, entries, requests, nodes, depths, params)
    _add_draws(arguments, seeds, positions, ids, count)
    workspace = arguments.send()
    _run_draft(place, method, rows, n, of_rows, arguments, (to_tokens, to_counts, to_certain), workspace)
    return tokens, counts, certain


def _add_level(arguments, entries, requests, nodes, depths, params):
    arguments.add("requests", requests, entries, np.int32, lambda x: each("requests", x, entries, np.int32))
    arguments.add("nodes", nodes, entries, np.int32, lambda x: each("nodes", x, entries, np.int32))
    arguments.add("depths", depths, entries, np.int32, lambda x: each("depths", x, entries, np.int32))
    return arguments.add_sampling("sampling", params)


def _run_draft(place, method, rows, n, of_rows, at, outputs, workspace):
    """`at`: the address of each argument. `outputs`: addresses. `workspace`: its address and size."""
    _core.cuda_draft(method.name, place.device, place.stream, rows.count, at["requests"], at["nodes"], at["depths"], n,
                     rows.tuple(0, of_rows, at["sampling"]), _draws(at), *outputs, *workspace)


def _add_draws(arguments, seeds, positions, ids, count):
    arguments.add("seeds", seeds, count, np.uint64, lambda x: each("seeds", x, count, np.uint64))
    arguments.add("positions", positions, count, np.int32, lambda x: each("positions", x, count, np.int32))
    arguments.add("ids", ids, count, np.uint32, lambda x: each("ids", x, count, np.uint32))


def _draws(at):
    return at["seeds"], at["positions"], at["ids"]


def draft(logits: Any, n: int | None = None, *, law: Law | str | None = None, method: Method | str | None = None,
          temperature: Any = 1.0, top_k: Any = 0, top_p: Any = 1.0, min_p: Any = 0.0, seeds: Any = 0,
          positions: Any = None, nodes: Any = None, tree: Tree | str | Sequence[int] | None = None, level: int | None = None, depths: Any = None,
          ids: Any = None, stream: int | None = None) -> Children:
    """Draws n children for each row of the draft's logits, which lie in device memory.

    The arguments are those of `multidraft.draft`. seeds, positions, nodes, depths and ids may be device arrays of one entry
    per row: int32, seeds 64 bits, ids 32 bits. Sampling parameters are on the host.
    stream: a cudaStream_t as an integer, by default the current stream of the logits' framework.

    Returns `Children` in device memory, without waiting. Raises `InvalidInput` for invalid arguments, `OSError` for an
    error of CUDA, `RuntimeError` in a build without CUDA.
    """
    chosen = _sampler(method, law)
    root_positions(positions)
    with _Place("logits", logits, stream) as place:
        rows = _rows(place, "logits", logits)
        on_device = {name: x for name, x in (("nodes", nodes), ("depths", depths)) if _is_on_device(x)}
        requests, nodes, depths, wanted, n = _level_of(
            chosen, rows.count, n, 0 if "nodes" in on_device else nodes, 0 if "depths" in on_device else depths, tree, level)
        if wanted is not None:
            refuse("tree", f"{wanted.min()} to {wanted.max()} children", "on a device the nodes of a call have equally many: "
                   "say nodes=.., one call for each number of children")
        count = int(requests[-1]) + 1 if rows.count else 0
        if chosen.law != "deterministic" and "nodes" not in on_device and n > 0:
            one_id(ids, count, seeds, positions, *([] if tree is not None else [nodes]))
        drawn = _launch_draft(place, chosen, rows, requests, count, n, sampling(temperature, top_k, top_p, min_p, count),
                              on_device.get("nodes", nodes), on_device.get("depths", depths), seeds, positions, ids)
        return Children(*drawn, _law_of_draws(chosen, law))


def _joined_trees(trees):
    """(sizes, offsets, parents) of trees on the host."""
    sizes = np.array([len(t) for t in trees], np.int64)
    return sizes, _offsets(sizes), np.concatenate([t.parents for t in trees])


def _offsets(sizes):
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


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
    of_rows = _add_trees(arguments, offsets, parents, params, of_draft)
    arguments.add("tokens", tokens, nodes, np.int32, lambda x: _joined("tokens", x, nodes))
    arguments.add("certain", certain, nodes, np.int32, lambda x: _joined("certain", x, nodes))
    arguments.add("target_rows", target_row_of, nodes, np.int64, lambda x: x)
    arguments.add("draft_rows", draft_row_of, nodes, np.int64, lambda x: x)
    _add_draws(arguments, seeds, positions, ids, count)
    workspace = arguments.send()
    addresses = [address for _, address in outputs]
    if validate:
        _run_verify(place, method, law, (count, nodes, largest), target, draft_rows, of_rows, arguments, stride, addresses,
                    workspace, True)
    _run_verify(place, method, law, (count, nodes, largest), target, draft_rows, of_rows, arguments, stride, addresses,
                workspace, False)


def _add_trees(arguments, offsets, parents, params, of_draft):
    """Returns the sampling parameters of the target and the draft that all requests share."""
    arguments.host("offsets", offsets)
    arguments.add("parents", parents, int(offsets[-1]), np.int32, lambda x: x)
    return arguments.add_sampling("sampling", params), arguments.add_sampling("draft_sampling", of_draft)


def _run_verify(place, method, law, sizes, target, draft, of_rows, at, stride, outputs, workspace, only_validate):
    """`sizes`: of trees, nodes, nodes of the largest tree. Others as for `_run_draft`."""
    count, nodes, largest = sizes
    trees = (count, nodes, at["offsets"], at["parents"], at["tokens"], at["certain"], largest)
    p = target.tuple(at["target_rows"], of_rows[0], at["sampling"])
    q = draft.tuple(at["draft_rows"], of_rows[1], at["draft_sampling"])
    path, accepted, following = outputs
    if not only_validate:
        _core.cuda_fill(place.device, place.stream, path, 255, 4 * (count * stride or nodes))  # -1
    _core.cuda_verify(method.name, law, place.device, place.stream, trees, p, q, _draws(at), path, stride, accepted,
                      following, *workspace, only_validate)


def verify(method: Method | str, tree: Tree | DraftedTree | str | Sequence[Any], tokens: Any = None,
           target_logits: Any = None, draft_logits: Any = None, *, law: Law | str | None = None, certain: Any = None,
           temperature: Any = None, top_k: Any = None, top_p: Any = None, min_p: Any = None,
           draft_sampling: Sequence[Any] | None = None, seeds: Any = None, positions: Any = None, ids: Any = None,
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
    temperature, top_k, top_p, min_p = _target_sampling(tree, temperature, top_k, top_p, min_p)
    seeds, positions, ids, draft_sampling = _addresses(tree, seeds, positions, ids, draft_sampling, (temperature, top_k, top_p, min_p))
    trees, _, tokens, certain, law = _trees_of(tree, tokens, certain, law)
    count = len(trees)
    one_id(ids, count, seeds, positions)
    if tokens is None or target_logits is None:
        refuse("target_logits" if tokens is not None else "tokens", None, "this is read")
    if chosen.counts_certain and certain is None:
        refuse("certain", None, f"trees of law '{chosen.law}' say how many children of each node are certain")
    if chosen.reads_draft and draft_logits is None:
        refuse("draft_logits", None, f"{chosen.name} reads them")
    for one in trees:
        check_shape(chosen, one)
    sizes, offsets, parents = _joined_trees(trees)
    nodes = int(offsets[-1])
    stride = max(1, *(t.depth for t in trees))
    params = sampling(temperature, top_k, top_p, min_p, count)
    of_draft = params if draft_sampling is None else sampling(*four("draft_sampling", draft_sampling), count)
    with _Place("target_logits", target_logits, stream) as place:
        p = _rows(place, "target_logits", target_logits)
        q = _NO_ROWS if draft_logits is None else _rows(place, "draft_logits", draft_logits)
        of_p = _check_row_of("target_logits", target_rows, p, nodes)
        of_q = None if draft_logits is None else _check_row_of("draft_logits", draft_rows, q, nodes)
        outputs = place.results((count, stride), (count,), (count,))
        _launch_verify(place, chosen, str(law_of(law)), (count, offsets, parents, int(sizes.max())), tokens,
                       certain if chosen.counts_certain else None, p, q, of_p, of_q, params, of_draft, seeds, positions, ids,
                       bool(validate), stride, outputs)
        return Verdicts(*(array for array, _ in outputs))


# --- Graphs


class _Plan:
    """What is copied from the host for a call, the workspace and the results: in device memory, for all calls."""

    def __init__(self, place, constants, results):
        self._device = place.device
        self._workspace = constants.send()
        self._constants = constants
        self._results = results
        self._kept_constants, self._kept = place.kept, None
        _core.cuda_synchronize(place.device, place.stream)  # calls may be on any stream

    def _on(self, name, logits, stream):
        place = _Place(name, logits, stream, is_planned=True)
        if place.device != self._device:
            refuse(name + ".device", place.device, f"this plan is for device {self._device}")
        return place

    def _addresses(self, place, arguments):
        """The addresses of the constants and of `arguments`: for each name the array, its number of entries and their type."""
        call = _Arguments(place, 0)
        for name, (values, count, dtype) in arguments.items():
            if values is not None and not _is_on_device(values):
                refuse(name + ".device", type(values).__name__, "the arguments of a plan lie in device memory")
            call.add(name, values, count, dtype, None)
        self._kept = place.kept  # until the next call
        return {name: of[name] for of in (self._constants, call) for name in of.addresses}

    def _arrays(self):
        return [array for array, _ in self._results]

    def _pointers(self):
        return [address for _, address in self._results]


def _draws_of(seeds, positions, ids, count):
    for name, values in (("seeds", seeds), ("positions", positions)):
        if values is None:
            refuse(name, None, "this is read")
    return {"seeds": (seeds, count, np.uint64), "positions": (positions, count, np.int32), "ids": (ids, count, np.uint32)}


class DraftPlan(_Plan):
    """`draft` for a fixed number of rows, with calls that a graph can capture: they launch kernels, and neither copy from
    the host nor allocate nor wait.

    The plan holds the workspace and the results, which the next call overwrites. It and the arguments of its calls must
    live until the streams, and the graphs that captured a call, no longer run. One call at a time may run.
    """

    def __init__(self, rows: int, n: int, *, law: Law | str | None = None, method: Method | str | None = None,
                 temperature: Any = 1.0, top_k: Any = 0, top_p: Any = 1.0, min_p: Any = 0.0, nodes: Any,
                 depths: Any = None, like: Any = None, stream: int | None = None) -> None:
        """rows: of the logits. n: children per row. Others as for `draft`; `nodes` is required, `nodes` and `depths` may be device arrays.
        like: an array of the framework that allocates, on the plan's device, by default an `Array` on device 0. Waits."""
        self._method = _sampler(method, law)
        self._law = _law_of_draws(self._method, law)
        self._rows, self._n = integer("rows", rows, 1, 2**31 - 1), integer("n", n, 1, 2**24)
        if depths is None and not _is_on_device(nodes):
            needs_depths(self._method, nodes)
        order = np.arange(rows, dtype=np.int32)
        with _Place("like", like, stream) as place:
            constants = _Arguments(place, _core.cuda_draft_workspace(rows))
            self._of_rows = _add_level(constants, rows, order, nodes,
                                       np.zeros(rows, np.int32) if depths is None else depths,
                                       sampling(temperature, top_k, top_p, min_p, rows))
            super().__init__(place, constants, place.results((rows, n), (rows,), (rows,)))

    def draft(self, logits: Any, *, seeds: Any, positions: Any, ids: Any = None, stream: int | None = None) -> Children:
        """`draft` of (rows, vocabulary) logits. seeds, positions, ids: device arrays of one entry per row, with 64, 32 and
        32 bits. A stream that is being captured does not wait for others. Returns the plan's `Children`."""
        with self._on("logits", logits, stream) as place:
            rows = _rows(place, "logits", logits)
            if rows.count != self._rows:
                refuse("logits.shape[0]", rows.count, f"this plan is for {self._rows} rows")
            at = self._addresses(place, _draws_of(seeds, positions, ids, rows.count))
            _run_draft(place, self._method, rows, self._n, self._of_rows, at, self._pointers(), self._workspace)
        return Children(*self._arrays(), self._law)


class VerifyPlan(_Plan):
    """`verify` for trees of fixed shapes, with calls that a graph can capture: they launch kernels, and neither copy from
    the host nor allocate nor wait.

    The plan holds the shapes, the workspace and the results, which the next call overwrites. It and the arguments of its
    calls must live until the streams, and the graphs that captured a call, no longer run. One call at a time may run.
    """

    def __init__(self, method: Method | str, tree: Tree | str | Sequence[Any], *, law: Law | str, temperature: Any = 1.0,
                 top_k: Any = 0, top_p: Any = 1.0, min_p: Any = 0.0, draft_sampling: Sequence[Any] | None = None,
                 like: Any = None, stream: int | None = None) -> None:
        """tree: one tree or a list, for all calls. law: how children will be drawn. Others as for `verify`.
        like: an array of the framework that allocates, on the plan's device, by default an `Array` on device 0. Waits."""
        self._method = method_of(method)
        self._law = str(law_of(law))
        if self._method.name not in law_of(law).methods:
            refuse("law", self._law, f"{self._method.name} verifies trees of law '{self._method.law}'; this one is verified by "
                   + ", ".join(laws()[self._law].methods))
        trees = [as_tree(t) for t in _listed(tree)[0]]
        for one in trees:
            check_shape(self._method, one)
        sizes, offsets, parents = _joined_trees(trees)
        count, largest = len(trees), int(sizes.max())
        self._sizes = (count, int(offsets[-1]), largest)
        self._stride = max(1, *(t.depth for t in trees))
        params = sampling(temperature, top_k, top_p, min_p, count)
        of_draft = params if draft_sampling is None else sampling(*four("draft_sampling", draft_sampling), count)
        with _Place("like", like, stream) as place:
            constants = _Arguments(place, _core.cuda_verify_workspace(self._method.name, count, largest, self._stride, False))
            self._of_rows = _add_trees(constants, offsets, parents, params, of_draft)
            super().__init__(place, constants, place.results((count, self._stride), (count,), (count,)))

    def verify(self, tokens: Any, target_logits: Any, draft_logits: Any = None, *, seeds: Any, positions: Any,
               ids: Any = None, certain: Any = None, target_rows: Any = None, draft_rows: Any = None,
               stream: int | None = None) -> Verdicts:
        """`verify` of these trees. All arguments lie in device memory: tokens, certain and positions int32, ids 32 bits,
        seeds and the rows of nodes 64 bits. A stream that is being captured does not wait for others. Returns the plan's
        `Verdicts`."""
        count, nodes, _ = self._sizes
        if tokens is None:
            refuse("tokens", None, "this is read")
        if self._method.counts_certain and certain is None:
            refuse("certain", None, f"trees of law '{self._law}' say how many children of each node are certain")
        if self._method.reads_draft and draft_logits is None:
            refuse("draft_logits", None, f"{self._method.name} reads them")
        with self._on("target_logits", target_logits, stream) as place:
            p = _rows(place, "target_logits", target_logits)
            q = _NO_ROWS if draft_logits is None else _rows(place, "draft_logits", draft_logits)
            for name, rows, row_of in (("target_logits", p, target_rows), ("draft_logits", q, draft_rows)):
                if row_of is None and rows is not _NO_ROWS:
                    _check_row_of(name, None, rows, nodes)
            at = self._addresses(place, {
                "tokens": (tokens, nodes, np.int32),
                "certain": (certain if self._method.counts_certain else None, nodes, np.int32),
                "target_rows": (target_rows, nodes, np.int64), "draft_rows": (draft_rows, nodes, np.int64),
                **_draws_of(seeds, positions, ids, count)})
            _run_verify(place, self._method, self._law, self._sizes, p, q, self._of_rows, at, self._stride, self._pointers(),
                        self._workspace, False)
        return Verdicts(*self._arrays())


# --- Masks, positions, level order, caches


def _place_of(like, arguments, stream):
    """The place of `like`, or of the first of the arguments that is in device memory."""
    if like is None:
        like = next((array for array in arguments if _is_on_device(array)), None)
    return _Place("like", like, stream)


def _shapes(tree, sizes):
    """(sizes on the host, offsets on the host, parents on the host or in device memory)."""
    if not _is_on_device(tree):
        if sizes is not None:
            refuse("sizes", "given", "trees on the host have their sizes")
        return _joined_trees([as_tree(t.tree if isinstance(t, DraftedTree) else t) for t in _listed(tree)[0]])
    sizes = np.array([math.prod(tree.shape)]) if sizes is None else integers("sizes", sizes, np.int64)
    wrong = np.flatnonzero((sizes < 1) | (sizes > 2**24))
    if len(wrong):
        refuse("sizes", sizes[wrong[0]], "a tree has 1 to 2^24 nodes", int(wrong[0]))
    if not len(sizes):
        refuse("sizes", "empty", "there is one tree or more")
    return sizes, _offsets(sizes), tree


def _add_shapes(arguments, name, sizes, offsets, parents):
    arguments.host("offsets", offsets)
    arguments.add(name, parents, int(offsets[-1]), np.int32, lambda x: x)


def _natural(name, values, count, dtype):
    array = each(name, values, count, dtype)
    wrong = np.flatnonzero(array < 0)
    if len(wrong):
        refuse(name, array[wrong[0]], "it is 0 or more", int(wrong[0]))
    return array


def masks(tree: Tree | str | Sequence[Any] | Any, dtype: object = bool, *, contexts: Any = 0, columns: int | None = None,
          sizes: Any = None, like: Any = None, stream: int | None = None) -> Any:
    """The attention masks of one tree or several, one row per node: those of `Tree.mask`, in device memory.

    tree: a `Tree`, the text of a shape, or a list of these; or parents in level order in device memory, int32, of all trees
        one after another, each counted from its own root. sizes: then the number of nodes of each tree, by default one tree.
    dtype: bool (True where a node attends), or "float32", "float16" or "bfloat16" for a bias (0 where it attends, else
        -inf); "packed": (nodes, words) uint64, bit j % 64 of word j // 64 for node j.
    contexts: columns before the tree that all its nodes attend to, one number or one per tree; in device memory int64.
    columns: of all rows, those behind a tree hidden; by default as many as the largest of contexts and nodes together, which
        must then be on the host.
    like: an array whose framework allocates and whose device and stream are used; by default those of `tree` or `contexts`
        in device memory, or an `Array` on device 0.

    Returns (nodes of all trees, columns), without waiting. O(nodes columns).
    """
    name = mask_type(dtype)
    given, offsets, parents = _shapes(tree, sizes)
    count, nodes, largest = len(given), int(offsets[-1]), int(given.max())
    words = -(-largest // 64)
    if name == "packed" and (columns is not None or type(contexts) is not int or contexts != 0):
        refuse("columns" if columns is not None else "contexts", "given", "a packed mask has a bit for each node of the tree")
    if not _is_on_device(contexts):
        contexts = _natural("contexts", contexts, count, np.int64)
        needed = int((contexts + given).max())
        columns = needed if columns is None else integer("columns", columns, needed, 2**62)
        contexts = contexts if contexts.any() else None
    elif columns is None:
        refuse("columns", None, "say how many, as the contexts are in device memory")
    else:
        columns = integer("columns", columns, largest, 2**62)
    with _place_of(like, (tree, contexts), stream) as place:
        shape, of = ((nodes, words), "uint64") if name == "packed" else ((nodes, columns), name)
        [(result, to_result)] = place.results(shape, dtypes=[of])
        arguments = _Arguments(place, 0 if name == "packed" else 8 * nodes * words)
        _add_shapes(arguments, "tree", given, offsets, parents)
        arguments.add("contexts", contexts, count, np.int64, lambda x: x)
        workspace, _ = arguments.send()
        trees = (count, nodes, arguments["offsets"], arguments["tree"])
        packed = to_result if name == "packed" else workspace
        _core.cuda_write_masks(place.device, place.stream, trees, packed, words)
        if name != "packed":
            _core.cuda_write_dense_masks(place.device, place.stream, trees, packed, words, _BIASES.get(name, 0), to_result,
                                         columns, arguments["contexts"])
        return result


def positions(tree: Tree | str | Sequence[Any] | Any, roots: Any = 0, *, sizes: Any = None, like: Any = None,
              stream: int | None = None) -> Any:
    """The position of each node in its text, that of its root plus its depth: those of `Tree.positions`, in device memory.

    roots: the position of the root, one number or one per tree, in device memory int32. Others as for `masks`.

    Returns (nodes of all trees,) int32, without waiting. O(nodes depth).
    """
    given, offsets, parents = _shapes(tree, sizes)
    count, nodes = len(given), int(offsets[-1])
    with _place_of(like, (tree, roots), stream) as place:
        [(result, to_result)] = place.results((nodes,))
        arguments = _Arguments(place, 0)
        _add_shapes(arguments, "tree", given, offsets, parents)
        arguments.add("roots", roots, count, np.int32, lambda x: _natural("roots", x, count, np.int32))
        arguments.send()
        _core.cuda_write_positions(place.device, place.stream, (count, nodes, arguments["offsets"], arguments["tree"]),
                                   arguments["roots"], to_result)
        return result


def level_order(parents: Any, *, sizes: Any = None, stream: int | None = None) -> LevelOrder:
    """Brings trees with nodes in any order into level order, such as trees that were grown best-first, as
    `Tree.from_any_order` does on the host.

    parents: int32 in device memory, of all trees one after another, each counted within its tree; -1 for the root, which may
        be anywhere. sizes: the number of nodes of each tree, on the host; by default one tree.

    The children of a node keep their order. Returns `LevelOrder` in device memory, without waiting: a tree whose `faults`
    is not 0 is none. One sort, O(N log N depth).
    """
    if not _is_on_device(parents):
        refuse("parents.device", type(parents).__name__, "they lie in device memory; Tree.from_any_order takes them on the host")
    given, offsets, _ = _shapes(parents, sizes)
    count, nodes = len(given), int(offsets[-1])
    with _Place("parents", parents, stream) as place:
        results = place.results((nodes,), (nodes,), (nodes,), (count,), dtypes=["int32", "int32", "int64", "int32"])
        arguments = _Arguments(place, _core.cuda_level_order_workspace(place.device, nodes))
        _add_shapes(arguments, "parents", given, offsets, parents)
        workspace = arguments.send()
        _core.cuda_level_order(place.device, place.stream, (count, nodes, arguments["offsets"], arguments["parents"]),
                               *(address for _, address in results), *workspace)
        return LevelOrder(*(array for array, _ in results))


def _layout(view, axis, batch_axis):
    """(bytes of an entry, between requests or pages, between entries; planes): where the entries of a cache lie."""
    item = view.bits // 8
    rest = sorted((stride, size) for d, (stride, size) in enumerate(zip(view.strides, view.shape))
                  if d not in (axis, batch_axis) and size > 1)
    entry = 1
    while rest and rest[0][0] == entry:  # a dimension that lies within the entry
        entry *= rest.pop(0)[1]
    planes = []
    for stride, size in rest:
        if planes and stride == planes[-1][0] * planes[-1][1]:
            planes[-1] = (planes[-1][0], planes[-1][1] * size)
        else:
            planes.append((stride, size))
    if len(planes) > _MOST_AXES:
        refuse("caches[0].shape", tuple(view.shape), "a cache has up to four dimensions around its entries that are apart")
    # The stride of a dimension of size 1 may be any number.
    between = 0 if batch_axis is None or view.shape[batch_axis] == 1 else view.strides[batch_axis] * item
    step = entry * item if view.shape[axis] == 1 else view.strides[axis] * item
    return (entry * item, between, step), [(size, stride * item) for stride, size in reversed(planes)]


def _axis(name, value, dimensions):
    return integer(name, value, -dimensions, dimensions - 1) % dimensions


def _is_table(view):
    """Whether it is int32 of two dimensions with the entries of a row together."""
    return len(view.shape) == 2 and (view.code, view.bits) == (0, 32) and (view.shape[1] < 2 or view.strides[1] == 1)


def _told(view):
    return f"{tuple(view.shape)} of code {view.code}, {view.bits} bits, strides {tuple(view.strides)}"


def compact(caches: Any, verdicts: Verdicts | Sequence[Any], bases: Any, *, axis: int = -2, batch_axis: int | None = 0,
            pages: Any = None, stream: int | None = None) -> None:
    """Compacts caches in place, all of them in one launch: the entries of the accepted nodes move behind the root's.

    caches: an array that may be written to, or a list of arrays of one layout, such as the keys and the values of each
        layer; of any type.
    verdicts: those of `verify`, or its (path, accepted), in device memory.
    bases: the entry of the root, one number or one per tree; in device memory int64. Entry bases + k is that of node k.
    axis: of the entries, by default that of (batch, heads, length, size). batch_axis: of the requests, None for one alone.
    pages: for paged caches (requests, pages of each) int32: entry t of request b is entry t % n of page ``pages[b, t // n]``,
        with pages along `batch_axis` and their n entries along `axis`.

    Returns without waiting; arrays of frameworks other than PyTorch and CuPy must live until the stream has run. What lies
    in device memory is not checked: entries must lie within the caches.
    """
    listed = list(caches) if isinstance(caches, (list, tuple)) else [caches]
    if not listed:
        refuse("caches", "empty", "a cache or a list of them is wanted")
    with _Place("caches[0]", listed[0], stream) as place:
        views = [place.view(f"caches[{i}]", cache) for i, cache in enumerate(listed)]
        first = views[0]
        for i, view in enumerate(views):
            if (view.shape, view.strides, view.bits) != (first.shape, first.strides, first.bits):
                refuse("caches", (tuple(view.shape), tuple(view.strides)), "all caches have the layout of the first, "
                       f"{(tuple(first.shape), tuple(first.strides))}, and its type", i)
        dimensions = len(first.shape)
        axis = _axis("axis", axis, dimensions)
        batch_axis = None if batch_axis is None else _axis("batch_axis", batch_axis, dimensions)
        if axis == batch_axis:
            refuse("batch_axis", batch_axis, "the requests are along another axis than their entries")
        path = place.view("verdicts.path", verdicts[0])
        count = path.shape[0] if len(path.shape) == 2 else -1
        if count < 0 or path.shape[1] < 1 or not _is_table(path):
            refuse("verdicts.path", _told(path), "(trees, depth) int32 is wanted, as verify returns")
        if pages is None and (1 if batch_axis is None else first.shape[batch_axis]) < count:
            refuse("caches[0].shape", tuple(first.shape), f"there are {count} requests")
        if pages is not None and batch_axis is None:
            refuse("batch_axis", None, "the axis of the pages is wanted")
        if count == 0 or 0 in first.shape:
            return
        layout, planes = _layout(first, axis, batch_axis)
        together = 0
        for view in views:
            together |= view.pointer
        arguments = _Arguments(place, 0)
        arguments.host("list", np.array([view.pointer for view in views], np.uint64))
        arguments.add("verdicts.accepted", verdicts[1], count, np.int32, lambda x: each("verdicts.accepted", x, count, np.int32))
        arguments.add("bases", bases, count, np.int64, lambda x: _natural("bases", x, count, np.int64))
        table = _pages(place, arguments, pages, count)
        arguments.send()
        _core.cuda_compact(place.device, place.stream, (*layout, first.shape[axis]), planes, arguments["list"], len(views),
                           together & -together, (table[0] or arguments["pages"], table[1]), count, path.pointer,
                           path.strides[0] if count > 1 else path.shape[1], arguments["verdicts.accepted"], arguments["bases"])


def _pages(place, arguments, pages, count):
    """(address of a table in device memory or 0, its stride)."""
    arguments.addresses["pages"] = None
    if pages is None:
        return 0, 0
    if _is_on_device(pages):
        view = place.view("pages", pages)
        if not _is_table(view) or view.shape[0] != count:
            refuse("pages", _told(view), f"({count}, pages) int32 is wanted")
        return view.pointer, view.strides[0]
    table = np.asarray(pages)
    if table.ndim != 2 or table.shape[0] != count or table.dtype.kind not in "iu":
        refuse("pages.shape", table.shape, f"({count}, pages) integers are wanted")
    arguments.host("pages", integers("pages", table.reshape(-1)))
    return 0, table.shape[1]
