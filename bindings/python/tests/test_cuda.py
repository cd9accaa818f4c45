"""multidraft.cuda: refusals in every build; over the stand-in for the CUDA runtime, the results of the host, bit for bit.

How to build the stand-in: standin/CMakeLists.txt. On a device the same tests run with a module built with CUDA.
"""

import contextlib
import ctypes
import gc
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import multidraft
from multidraft import Tree, _core, cuda
from test_dlpack import BFLOAT, FLOAT, UINT, Exported, bfloat16_bits

STANDIN = (Path(_core.__file__).resolve().parents[2] / "library_methods.hpp").exists()
REJECTION, TRAVERSAL = "recursive_rejection/sequential", "traversal/sequential"

if STANDIN:  # it begins without a device
    ctypes.CDLL(_core.__file__).standin_reset(1)


def has_device():
    if not cuda.is_built():
        return False
    try:
        return _core.cuda_device_count() > 0
    except OSError:
        return False


needs_device = pytest.mark.skipif(not has_device(), reason="no device, and no stand-in for one (tests/standin)")
needs_standin = pytest.mark.skipif(not STANDIN, reason="not the stand-in (tests/standin)")


class Foreign:
    """A device array of a framework: DLPack alone. It remembers what it was asked."""

    def __init__(self, values, code=None, stream=0, device=None):
        self.array = values if isinstance(values, cuda.Array) else cuda.to_device(values, stream=stream)
        self.code, self.device, self.asked = code, device, []
        self.shape, self.offset = self.array.shape, 0

    def __dlpack_device__(self):
        return (2, self.array.device if self.device is None else self.device)

    def __dlpack__(self, *, stream=None, **kw):
        self.asked.append(stream)
        if self.code is None:
            return self.array.__dlpack__(stream=stream)
        _core.cuda_order(0, self.array.stream, 0 if stream in (None, 1) else stream)
        return _core.cuda_exported(self.array, self.array._pointer, self.array.device, self.shape, self.code,
                                   8 * self.array.dtype.itemsize)


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    # Multiples of 1/8, exact in all types.
    p, q = ((rng.integers(-64, 64, (9, 40)) / 8).astype(np.float32) for _ in range(2))
    tree = Tree.parse("2x1")
    drawn = multidraft.draft(q[:3], 2, method=REJECTION, seeds=3, positions=5)
    tokens = np.array([0, *drawn.tokens[0], drawn.tokens[1][0], drawn.tokens[2][0]], np.int32)
    return tree, tokens, p[:5], q[:5]


def same(verdicts, expected):
    path, accepted, following = (x.numpy() for x in verdicts)
    for b, e in enumerate(expected):
        assert accepted[b] == e.accepted and following[b] == e.tokens[-1]
        assert path[b].tolist() == [*e.path.tolist(), *[-1] * (path.shape[1] - e.accepted)]
    return True


# --- Any build -------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(cuda.is_built(), reason="the module is built with CUDA")
def test_a_build_without_cuda_says_how_to_build_it():
    rows = np.zeros((5, 8), np.float32)
    for call in (lambda: cuda.draft(rows, 1, law="sequential"), lambda: cuda.to_device(rows),
                 lambda: cuda.verify(REJECTION, "2x1", [0] * 5, rows, rows, law="sequential")):
        with pytest.raises(RuntimeError, match="MULTIDRAFT_CUDA=ON"):
            call()
    with pytest.raises(multidraft.InvalidInput, match="MULTIDRAFT_CUDA=ON"):
        multidraft.draft(Exported(rows, FLOAT, 32, device=2), 1, law="sequential")
    with pytest.raises(RuntimeError, match="MULTIDRAFT_CUDA=ON"):
        _core.cuda_device_count()


@pytest.mark.skipif(not cuda.is_built(), reason="the module is built without CUDA")
def test_the_host_functions_name_the_module_for_device_memory():
    with pytest.raises(multidraft.InvalidInput, match="multidraft.cuda"):
        multidraft.draft(Exported(np.zeros((5, 8), np.float32), FLOAT, 32, device=2), 1, law="sequential")


@pytest.mark.skipif(not cuda.is_built() or has_device(), reason="for a module built with CUDA where there is no device")
def test_no_device_is_an_error_with_its_name():
    with pytest.raises(OSError, match="CUDA: cudaError"):
        _core.cuda_device_count()
    with pytest.raises(OSError, match="CUDA: cudaError"):
        cuda.to_device(np.zeros(3))
    with pytest.raises(OSError, match="CUDA: cudaError"):
        cuda.draft(Exported(np.zeros((5, 8), np.float32), FLOAT, 32, device=2), 1, law="sequential")


@pytest.mark.skipif(not cuda.is_built(), reason="the module is built without CUDA")
@pytest.mark.parametrize("rows, argument", [
    (np.zeros((5, 8), np.float32), "logits.device"), (Exported(np.zeros((5, 8), np.float32), FLOAT, 32), "logits.device"),
    (object(), "logits"), (Exported(np.zeros((5, 8), np.float64), FLOAT, 64, device=2), "logits.dtype"),
    (Exported(np.zeros((5, 8), np.int16), UINT, 16, device=2), "logits.dtype"),
    (Exported(np.zeros((5, 8), np.float32), FLOAT, 32, device=2, lanes=2), "logits.dtype"),
    (Exported(np.zeros(5, np.float32), FLOAT, 32, device=2), "logits.ndim"),
    (Exported(np.zeros((5, 16), np.float32)[:, ::2], FLOAT, 32, device=2), "logits.strides"),
    (Exported(np.zeros((5, 0), np.float32), FLOAT, 32, device=2), "logits.shape[1]"),
    (Exported(np.zeros((5, 8), np.float32), FLOAT, 32, device=2, fails=True), "logits")])
def test_rows_that_are_refused(rows, argument):
    with pytest.raises(multidraft.InvalidInput) as refused:
        cuda.draft(rows, 1, law="sequential")
    assert refused.value.argument == argument


# --- A device, or its stand-in ---------------------------------------------------------------------------------------


@needs_device
def test_draws_are_those_of_the_host(case):
    _, _, _, q = case
    kw = dict(seeds=3, positions=5, temperature=0.7, top_k=30)
    host = multidraft.draft(q, 4, law="sequential", **kw)
    bits = bfloat16_bits(q)
    for rows in (cuda.to_device(q), Foreign(q), cuda.to_device(q.astype(np.float16)), Foreign(bits, BFLOAT)):
        found = cuda.draft(rows, 4, law="sequential", **kw)
        assert found.law is host.law and isinstance(found.tokens, cuda.Array)
        for name in ("tokens", "counts", "certain"):
            assert np.array_equal(getattr(found, name).numpy(), getattr(host, name)), name
    arrays = dict(seeds=np.array([3, 4, 5, 6, 2**64 - 1], np.uint64), positions=np.arange(5), ids=[1, 2, 3, 4, 5], nodes=[4, 3, 2, 1, 0],
                  temperature=[0.5, 0.6, 0.7, 0.8, 0.9])
    host = multidraft.draft(q, 2, method=REJECTION, **arrays)
    found = cuda.draft(cuda.to_device(q), 2, method=REJECTION, **arrays)
    assert np.array_equal(found.tokens.numpy(), host.tokens)
    arrays |= {name: cuda.to_device(np.array(arrays[name], dtype)) for name, dtype in
               (("seeds", np.uint64), ("positions", np.int32), ("ids", np.uint32), ("nodes", np.int32))}
    found = cuda.draft(cuda.to_device(q), 2, method=REJECTION, **arrays)
    assert np.array_equal(found.tokens.numpy(), host.tokens)
    assert cuda.draft(cuda.to_device(q), 0, law="sequential").counts.numpy().tolist() == [0] * 5


@needs_device
@pytest.mark.parametrize("method", [REJECTION, TRAVERSAL])
def test_verdicts_are_those_of_the_host(case, method):
    if method not in multidraft.methods():
        pytest.skip("the library is built without this method")
    tree, tokens, p, q = case
    for seed in range(3, 9):
        kw = dict(law="sequential", seeds=seed, positions=5)
        host = multidraft.verify(method, tree, tokens, p, q, **kw)
        dp, dq = cuda.to_device(p), cuda.to_device(q)
        assert same(cuda.verify(method, tree, tokens, dp, dq, **kw), [host])
        assert same(cuda.verify(method, tree, tokens, dp, dq, **kw, validate=True), [host])
        assert same(cuda.verify(method, tree, cuda.to_device(tokens), Foreign(p), Foreign(q), **kw), [host])
    half = [cuda.to_device(x.astype(np.float16)) for x in (p, q)]
    assert same(cuda.verify(method, tree, tokens, *half, **kw), [host])
    bits = [Foreign(bfloat16_bits(x), BFLOAT) for x in (p, q)]
    assert same(cuda.verify(method, tree, tokens, *bits, **kw), [host])
    # A tree of its own draws, a batch, rows elsewhere, parameters of each tree.
    chain = Tree.chain(2)
    first = multidraft.draft(q[:2], 1, method=method, seeds=8, ids=[1, 1], positions=2)
    drafted = [multidraft.DraftedTree(tree, tokens, np.zeros(5, np.int32), multidraft.law("sequential")),
               multidraft.DraftedTree(chain, np.array([1, *first.tokens[:, 0]], np.int32), np.zeros(3, np.int32),
                                      multidraft.law("sequential"))]
    kw = dict(seeds=[3, 8], positions=[5, 2], ids=[0, 1], temperature=[1.0, 0.8], top_k=[0, 20])
    row_of = [0, 1, 2, 3, 4, 0, 1, 2]
    host = multidraft.verify(method, drafted, None, p, q, target_rows=row_of, draft_rows=row_of, **kw)
    assert same(cuda.verify(method, drafted, None, cuda.to_device(p), cuda.to_device(q), target_rows=row_of, draft_rows=row_of,
                            **kw), host)
    of_device = cuda.to_device(np.array(row_of))
    kw |= dict(seeds=cuda.to_device(np.array([3, 8], np.int64)), positions=cuda.to_device(np.array([5, 2], np.int32)))
    assert same(cuda.verify(method, drafted, None, cuda.to_device(p), cuda.to_device(q), target_rows=of_device,
                            draft_rows=of_device, **kw), host)


@needs_device
def test_the_code_of_the_readme(case):
    _, _, p, q = case
    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    [code] = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "import cuda" in block]
    drawn = multidraft.draft(q[:1], 3, law="sequential", seeds=5, positions=8)
    tokens = [0, *drawn.tokens[0].tolist()]
    names = {"tree": Tree.branching([3]), "tokens": tokens, "seed": 5, "position": 8,
             "target_logits": cuda.to_device(p[:4]), "draft_logits": cuda.to_device(q[:4])}
    exec(code, names)
    assert np.array_equal(names["children"].tokens.numpy()[0], drawn.tokens[0])
    assert same(names["verdicts"], [multidraft.verify(REJECTION, names["tree"], tokens, p[:4], q[:4], law="sequential", seeds=5,
                                                      positions=8)])


@needs_device
def test_what_is_refused(case):
    tree, tokens, p, q = case
    dp, dq = cuda.to_device(p), cuda.to_device(q)
    good = dict(method=REJECTION, tree=tree, tokens=tokens, target_logits=dp, draft_logits=dq, law="sequential")
    cuda.verify(**good)
    for wrong, argument in (
            (dict(draft_logits=None), "draft_logits"), (dict(draft_logits=q), "draft_logits.device"),
            (dict(target_logits=cuda.to_device(p[:4])), "target_logits.shape[0]"), (dict(law="stratified"), "law"),
            (dict(tokens=tokens[:3]), "tokens.size"), (dict(tokens=cuda.to_device(tokens[:3])), "tokens.size"),
            (dict(tokens=cuda.to_device(tokens.astype(np.int64))), "tokens.dtype"), (dict(seeds=[1, 2]), "seeds.size"),
            (dict(seeds=cuda.to_device(np.zeros(2, np.uint64))), "seeds.size"), (dict(target_rows=[0, 1, 2, 3, 9]), "target_rows"),
            (dict(target_rows=[0]), "target_rows.size"), (dict(stream=-1), "stream"), (dict(stream="x"), "stream"),
            (dict(draft_logits=Foreign(q, device=1)), "draft_logits.device"), (dict(temperature="x"), "temperature.dtype"),
            (dict(draft_logits=cuda.to_device(q.astype(np.float16))), "draft.dtype"), (dict(tokens=None), "tokens"),
            (dict(draft_logits=cuda.to_device(q[:, :30])), "draft.vocabulary")):
        if wrong.get("draft_logits") is not None and getattr(wrong["draft_logits"], "device", 0) == 1:
            continue  # only one device here
        with pytest.raises(multidraft.InvalidInput) as refused:
            cuda.verify(**good | wrong)
        assert refused.value.argument == argument, (refused.value, argument)
    # What lies in device memory is found only by `validate`.
    outside = dict(tokens=cuda.to_device(np.array([0, 40, 1, 2, 3], np.int32)))
    with pytest.raises(multidraft.InvalidInput, match="40"):
        cuda.verify(**good | outside, validate=True)
    broken = p.copy()
    broken[0, 3] = np.nan
    assert cuda.verify(**good | dict(target_logits=cuda.to_device(broken))).next.numpy().tolist() == [-1]
    with pytest.raises(multidraft.InvalidInput, match="nan|not a distribution|finite"):
        cuda.verify(**good | dict(target_logits=cuda.to_device(broken)), validate=True)


@needs_standin
def test_streams_and_memory(case):
    tree, tokens, p, q = case
    lib = ctypes.CDLL(_core.__file__)
    lib.standin_stream.restype = ctypes.c_size_t
    lib.standin_allocated.restype = ctypes.c_size_t
    ours, theirs = lib.standin_stream(), lib.standin_stream()
    expected = multidraft.verify(REJECTION, tree, tokens, p, q, law="sequential", seeds=3, positions=5)
    gc.collect()
    before = lib.standin_allocated()
    # The rows are written on another stream, which ours waits for: the exporter is told which one.
    dp, dq = Foreign(p, stream=theirs), Foreign(q, stream=theirs)
    verdicts = cuda.verify(REJECTION, tree, tokens, dp, dq, law="sequential", seeds=3, positions=5, stream=ours)
    assert dp.asked == dq.asked == [ours] and verdicts.path.stream == ours
    assert Foreign(p).asked == []
    assert same(verdicts, [expected])
    on_default = Foreign(p)
    cuda.verify(REJECTION, tree, tokens, on_default, cuda.to_device(q), law="sequential")
    assert on_default.asked == [1]  # DLPack's number of the default stream
    # Results are exported in the order of the reader's stream, and freed after it has read them.
    children = cuda.draft(dq, 2, law="sequential", stream=ours, seeds=3, positions=5)
    next_rows = Foreign(children.tokens)
    assert cuda._Place("logits", next_rows, theirs).view("tokens", next_rows).shape == [5, 2]
    with pytest.raises(BufferError):
        children.tokens.__dlpack__(dl_device=(1, 0))
    assert children.tokens._readers == {theirs} and children.tokens.__dlpack_device__() == (2, 0)
    del dp, dq, verdicts, on_default, children, next_rows
    gc.collect()
    assert lib.standin_allocated() == before


class Tensor(Foreign):
    """What multidraft.cuda uses of a framework's array."""

    def data_ptr(self):
        return self.array._pointer

    @property
    def data(self):
        return type("Memory", (), {"ptr": self.array._pointer})

    def record_stream(self, stream):
        self.recorded = stream


@needs_standin
@pytest.mark.parametrize("name", ["torch", "cupy"])
def test_the_stream_and_the_memory_are_the_frameworks(case, name, monkeypatch):
    """With a model of the framework: a module of its name with the functions that are called."""
    tree, tokens, p, q = case
    lib = ctypes.CDLL(_core.__file__)
    lib.standin_stream.restype = ctypes.c_size_t
    own, other = lib.standin_stream(), lib.standin_stream()
    current = [own]

    class Framework(types.ModuleType):
        int32, uint8 = "int32", "uint8"

        @staticmethod
        def empty(shape, dtype, device="cuda:0"):
            assert device == "cuda:0"
            return array_type(cuda.Array(shape, dtype, 0, current[0]))

    @contextlib.contextmanager
    def make_current(stream):
        current.append(current[0])
        current[0] = stream
        yield
        current[0] = current.pop()

    array_type = type("Tensor", (Tensor,), {"__module__": name})
    framework, streams = Framework(name), types.SimpleNamespace()
    framework.cuda = streams
    if name == "torch":
        streams.current_stream = lambda device: types.SimpleNamespace(cuda_stream=current[0])
        streams.device = contextlib.nullcontext
        streams.ExternalStream = lambda pointer, device: pointer
        streams.stream = make_current
    else:
        streams.get_current_stream = lambda: types.SimpleNamespace(ptr=current[0])
        streams.Device = contextlib.nullcontext
        streams.ExternalStream = make_current
    monkeypatch.setitem(sys.modules, name, framework)
    kw = dict(law="sequential", seeds=3, positions=5)
    expected = multidraft.verify(REJECTION, tree, tokens, p, q, **kw)
    for stream in (None, other):
        dp, dq = (array_type(cuda.to_device(x, stream=own)) for x in (p, q))
        verdicts = cuda.verify(REJECTION, tree, tokens, dp, dq, stream=stream, **kw)
        assert all(isinstance(x, array_type) and x.array.stream == (stream or own) for x in verdicts)
        assert dp.asked == [-1 if stream is None else other]  # its own stream needs no waiting
        assert getattr(dp, "recorded", None) == (other if stream and name == "torch" else None)
        assert same([x.array for x in verdicts], [expected]) and current == [own]
        children = cuda.draft(dq, 2, stream=stream, **kw)
        assert np.array_equal(children.tokens.array.numpy(), multidraft.draft(q, 2, **kw).tokens)


@needs_standin
def test_errors_of_cuda(case):
    _, _, _, q = case
    lib = ctypes.CDLL(_core.__file__)
    rows = cuda.to_device(q)
    lib.standin_stream.restype = ctypes.c_size_t
    stream = lib.standin_stream()
    memory = cuda.to_device(q, stream=stream)
    lib.standin_capture(ctypes.c_size_t(stream), 1)
    with pytest.raises(multidraft.InvalidInput, match="stream = capturing"):
        _core.cuda_upload(0, stream, memory._pointer, b"12345678")
    lib.standin_capture(ctypes.c_size_t(stream), 0)
    for call in (b"cudaMallocAsync", b"cudaMemcpyAsync", b"cudaGetDevice", b"cudaLaunchKernelEx"):
        lib.standin_fail(call, 2)
        with pytest.raises(OSError, match="CUDA: cudaErrorMemoryAllocation"):
            cuda.draft(rows, 2, law="sequential")
    assert np.array_equal(cuda.draft(rows, 2, law="sequential").tokens.numpy(), multidraft.draft(q, 2, law="sequential").tokens)
