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
    lib = ctypes.CDLL(_core.__file__)
    for name in ("standin_stream", "standin_allocated", "standin_launches", "standin_end_capture"):
        getattr(lib, name).restype = ctypes.c_size_t
    for name in ("standin_begin_capture", "standin_end_capture", "standin_launch_graph"):
        getattr(lib, name).argtypes = [ctypes.c_size_t] * (2 if name == "standin_launch_graph" else 1)
    lib.standin_reset(1)


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
        if stream != -1:
            _core.cuda_order(0, self.array.stream, 0 if stream in (None, 1) else stream)
        return _core.cuda_exported(self.array, self.array._pointer, self.array.device, self.shape, self.code,
                                   8 * self.array.dtype.itemsize)


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    # Multiples of 1/8, exact in all types.
    p, q = ((rng.integers(-64, 64, (9, 40)) / 8).astype(np.float32) for _ in range(2))
    tree = Tree.parse("2x1")
    drawn = multidraft.draft(q[:3], 2, method=REJECTION, nodes=[0, 1, 2], seeds=3, positions=5)
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
    for call in (lambda: cuda.draft(rows, 1, law="sequential", nodes=0, positions=0), lambda: cuda.to_device(rows),
                 lambda: cuda.verify(REJECTION, "2x1", [0] * 5, rows, rows, law="sequential", positions=0)):
        with pytest.raises(RuntimeError, match="MULTIDRAFT_CUDA=ON"):
            call()
    with pytest.raises(multidraft.InvalidInput, match="MULTIDRAFT_CUDA=ON"):
        multidraft.draft(Exported(rows, FLOAT, 32, device=2), 1, law="sequential", nodes=np.arange(5), positions=0)
    with pytest.raises(RuntimeError, match="MULTIDRAFT_CUDA=ON"):
        _core.cuda_device_count()


@pytest.mark.skipif(not cuda.is_built(), reason="the module is built without CUDA")
def test_the_host_functions_name_the_module_for_device_memory():
    with pytest.raises(multidraft.InvalidInput, match="multidraft.cuda"):
        multidraft.draft(Exported(np.zeros((5, 8), np.float32), FLOAT, 32, device=2), 1, law="sequential", nodes=np.arange(5), positions=0)


@pytest.mark.skipif(not cuda.is_built() or has_device(), reason="for a module built with CUDA where there is no device")
def test_no_device_is_an_error_with_its_name():
    with pytest.raises(OSError, match="CUDA: cudaError"):
        _core.cuda_device_count()
    with pytest.raises(OSError, match="CUDA: cudaError"):
        cuda.to_device(np.zeros(3))
    with pytest.raises(OSError, match="CUDA: cudaError"):
        cuda.draft(Exported(np.zeros((5, 8), np.float32), FLOAT, 32, device=2), 1, law="sequential", nodes=np.arange(5), positions=0)


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
        cuda.draft(rows, 1, law="sequential", nodes=0, positions=0)
    assert refused.value.argument == argument


# --- A device, or its stand-in ---------------------------------------------------------------------------------------


@needs_device
def test_draws_are_those_of_the_host(case):
    _, _, _, q = case
    kw = dict(seeds=3, positions=5, temperature=0.7, top_k=30, nodes=np.arange(5))
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
    by_level = dict(law="sequential", tree="4x1", level=1, seeds=3, positions=0)
    found = cuda.draft(cuda.to_device(q[:4]), **by_level)
    assert np.array_equal(found.tokens.numpy(), multidraft.draft(q[:4], **by_level).tokens)
    assert cuda.draft(cuda.to_device(q), 0, law="sequential", nodes=0, positions=0).counts.numpy().tolist() == [0] * 5


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
    first = multidraft.draft(q[:2], 1, method=method, nodes=[0, 1], seeds=8, ids=[1, 1], positions=2)
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
    blocks = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "cuda." in block]
    assert len(blocks) == 3
    drawn = multidraft.draft(q[:1], 3, law="sequential", nodes=0, seeds=5, positions=8)
    tokens = [0, *drawn.tokens[0].tolist()]
    names = {"tree": Tree.branching([3]), "tokens": tokens, "seed": 5, "position": 8,
             "target_logits": cuda.to_device(p[:4]), "draft_logits": cuda.to_device(q[:4]), "root_logits": cuda.to_device(q[:1])}
    names |= {name: cuda.to_device(np.zeros((1, 2, 20, 8), np.float32)) for name in ("keys", "values")}
    names |= {"tokens_on_device": cuda.to_device(np.array(tokens, np.int32)), "seeds": cuda.to_device(np.array([5], np.uint64)),
              "positions": cuda.to_device(np.array([8], np.int32))}
    exec(blocks[0], names)
    assert np.array_equal(names["children"].tokens.numpy()[0], drawn.tokens[0])
    step = (REJECTION, names["tree"], tokens, p[:4], q[:4])
    assert same(names["verdicts"], [multidraft.verify(*step, law="sequential", seeds=5, positions=8)])
    exec(blocks[1], names)
    assert np.array_equal(names["mask"].numpy(), names["tree"].mask("float16", 8))
    assert np.array_equal(names["where"].numpy(), names["tree"].positions(8))
    exec(blocks[2], names)
    assert same(names["verdicts"], [multidraft.verify(*step, law="sequential", seeds=5, positions=8, temperature=0.7)])


@needs_device
def test_what_is_refused(case):
    tree, tokens, p, q = case
    dp, dq = cuda.to_device(p), cuda.to_device(q)
    good = dict(method=REJECTION, tree=tree, tokens=tokens, target_logits=dp, draft_logits=dq, law="sequential", positions=0)
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
    cuda.verify(REJECTION, tree, tokens, on_default, cuda.to_device(q), law="sequential", positions=0)
    assert on_default.asked == [1]  # DLPack's number of the default stream
    # Results are exported in the order of the reader's stream, and freed after it has read them.
    children = cuda.draft(dq, 2, law="sequential", stream=ours, nodes=np.arange(5), seeds=3, positions=5)
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
    own, other = lib.standin_stream(), lib.standin_stream()
    current = [own]

    class Framework(types.ModuleType):
        int32, uint8, bool = "int32", "uint8", "bool"

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
        children = cuda.draft(dq, 2, stream=stream, nodes=np.arange(5), **kw)
        assert np.array_equal(children.tokens.array.numpy(), multidraft.draft(q, 2, nodes=np.arange(5), **kw).tokens)
        mask = cuda.masks(tree, like=dq, stream=stream)
        assert isinstance(mask, array_type) and np.array_equal(mask.array.numpy(), tree.mask())
        plan = cuda.VerifyPlan(REJECTION, tree, law="sequential", like=dp, stream=stream)
        there = [array_type(cuda.to_device(x, stream=own)) for x in (tokens, np.array([3]), np.array([5], np.int32))]
        verdicts = plan.verify(there[0], dp, dq, seeds=there[1], positions=there[2], stream=stream)
        assert all(isinstance(x, array_type) for x in verdicts) and same([x.array for x in verdicts], [expected])
        assert there[0].asked == [-1 if stream is None else other] and current == [own]


@needs_standin
def test_errors_of_cuda(case):
    _, _, _, q = case
    rows = cuda.to_device(q)
    stream = lib.standin_stream()
    memory = cuda.to_device(q, stream=stream)
    lib.standin_begin_capture(stream)
    with pytest.raises(multidraft.InvalidInput, match="stream = capturing.*VerifyPlan"):
        _core.cuda_upload(0, stream, memory._pointer, b"12345678")
    assert lib.standin_end_capture(stream) != 0
    for call in (b"cudaMallocAsync", b"cudaMemcpyAsync", b"cudaGetDevice", b"cudaLaunchKernelEx"):
        lib.standin_fail(call, 2)
        with pytest.raises(OSError, match="CUDA: cudaErrorMemoryAllocation"):
            cuda.draft(rows, 2, law="sequential", nodes=np.arange(5), positions=0)
    kw = dict(law="sequential", nodes=np.arange(5), positions=0)
    assert np.array_equal(cuda.draft(rows, 2, **kw).tokens.numpy(), multidraft.draft(q, 2, **kw).tokens)


# --- Masks, positions, level order, caches


SHAPES = ["2x1", "0", "4x2x2x1", "chain:70", "fork:3x4"]


def joined(trees, what):
    return np.concatenate([what(tree) for tree in trees])


@needs_device
def test_masks_and_positions_are_those_of_the_host():
    trees = [Tree.parse(shape) for shape in SHAPES]
    sizes = [len(tree) for tree in trees]
    parents = cuda.to_device(joined(trees, lambda t: t.parents))
    for tree in trees:
        for dtype in (bool, np.float16, "float32"):
            for context in (0, 5):
                found = cuda.masks(tree, dtype, contexts=context).numpy()
                assert found.dtype == tree.mask(dtype, context).dtype and np.array_equal(found, tree.mask(dtype, context))
        found = cuda.masks(tree, "packed").numpy()
        assert found.dtype == np.uint64 and np.array_equal(found, tree.mask("packed"))
        assert np.array_equal(cuda.positions(tree, 9).numpy(), tree.positions(9))
    contexts, columns = [3, 0, 40, 2, 17], 131
    for on_device in (False, True):
        of = dict(tree=parents, sizes=sizes) if on_device else dict(tree=SHAPES)
        where = cuda.to_device(np.array(contexts)) if on_device else contexts
        for dtype, hidden in ((bool, False), ("float32", -np.inf), (np.float16, -np.inf)):
            wanted = np.full((sum(sizes), columns), hidden, dtype)
            row = 0
            for tree, context in zip(trees, contexts):
                wanted[row: row + len(tree), : context + len(tree)] = tree.mask(dtype, context)
                row += len(tree)
            assert np.array_equal(cuda.masks(**of, dtype=dtype, contexts=where, columns=columns).numpy(), wanted)
            if not on_device:
                assert np.array_equal(cuda.masks(**of, dtype=dtype, contexts=where).numpy(), wanted[:, :85])
        words = np.zeros((sum(sizes), 2), np.uint64)
        row = 0
        for tree in trees:
            words[row: row + len(tree), : -(-len(tree) // 64)] = tree.mask("packed")
            row += len(tree)
        assert np.array_equal(cuda.masks(**of, dtype="packed").numpy(), words)
        where = cuda.to_device(np.array(contexts, np.int32)) if on_device else contexts
        assert np.array_equal(cuda.positions(**of, roots=where).numpy(),
                              np.concatenate([tree.positions(c) for tree, c in zip(trees, contexts)]))
    # The framework and the device of `like`.
    assert isinstance(cuda.positions("2x1", like=Foreign(np.zeros(1, np.float32))), cuda.Array)
    pytest.importorskip("ml_dtypes")
    assert np.array_equal(cuda.masks(trees[0], "bfloat16").numpy().view(np.uint16), trees[0].mask("bfloat16").view(np.uint16))


@needs_device
def test_lists_for_several_nodes_keep_their_law(case):
    _, _, p, q = case
    law, where = "shared_lists/sequential", dict(seeds=3, positions=5)
    if REJECTION not in multidraft.law(law).methods:
        pytest.skip("the library is built without this method")
    rows = cuda.to_device(q[:1])
    children = cuda.draft(rows, 2, law=law, nodes=0, **where)
    planned = cuda.DraftPlan(1, 2, law=law, nodes=0).draft(rows, seeds=cuda.to_device(np.array([3])), positions=cuda.to_device(np.array([5], np.int32)))
    assert children.law == planned.law == law and np.array_equal(children.tokens.numpy(), planned.tokens.numpy())
    tree, drawn = Tree.parse("2x1"), children.tokens.numpy()[0]
    tokens, of_draft = np.array([1, *drawn, *drawn[:1].repeat(2)], np.int32), np.repeat(q[:1], 5, 0)
    host = multidraft.verify(REJECTION, tree, tokens, p, of_draft, law=law, **where)
    dp, dq = cuda.to_device(p), cuda.to_device(of_draft)
    assert same(cuda.verify(REJECTION, tree, tokens, dp, dq, law=children.law, **where), [host])
    plan = cuda.VerifyPlan(REJECTION, tree, law=children.law)
    assert same(plan.verify(cuda.to_device(tokens), dp, dq, seeds=cuda.to_device(np.array([3])), positions=cuda.to_device(np.array([5], np.int32))), [host])


@needs_device
def test_level_order_is_that_of_the_host():
    rng = np.random.default_rng(2)
    trees, shuffled = [Tree.parse(shape) for shape in SHAPES], []
    for tree in trees:
        place = rng.permutation(len(tree))  # of each node in the input
        parents = np.empty(len(tree), np.int32)
        parents[place] = np.where(tree.parents < 0, -1, place[tree.parents])
        shuffled.append(parents)
    sizes = [len(tree) for tree in trees]
    given = np.concatenate(shuffled)
    found = cuda.level_order(cuda.to_device(given), sizes=sizes)
    expected = [Tree.from_any_order(parents) for parents in shuffled]
    assert np.array_equal(found.parents.numpy(), joined(expected, lambda e: e[0].parents))
    assert np.array_equal(found.order.numpy(), joined(expected, lambda e: e[1]))
    begins = np.repeat(np.cumsum([0, *sizes[:-1]]), sizes)
    assert found.rows.numpy().dtype == np.int64 and np.array_equal(found.rows.numpy(), found.order.numpy() + begins)
    assert found.faults.numpy().tolist() == [0] * len(trees)
    assert np.array_equal(cuda.masks(found.parents, sizes=sizes).numpy(), cuda.masks([e[0] for e in expected]).numpy())
    alone = cuda.level_order(cuda.to_device(shuffled[2]))
    assert np.array_equal(alone.order.numpy(), expected[2][1])
    assert cuda.level_order(cuda.to_device(np.array([-1, 0, 3, 2, -1], np.int32)), sizes=[2, 3]).faults.numpy().tolist() == [0, 1]


def cache_of(shape, dtype, rng):
    return rng.integers(0, 200, shape).astype(dtype)


class Shifted(Foreign):
    """A part of an array in device memory."""

    def __init__(self, array, shift, shape):
        super().__init__(array)
        self.shift, self.part = shift, shape

    def __dlpack__(self, *, stream=None, **kw):
        kind = self.array.dtype
        return _core.cuda_exported(self.array, self.array._pointer + self.shift * kind.itemsize, 0, self.part,
                                   {"u": UINT, "f": FLOAT}[kind.kind], 8 * kind.itemsize)


@needs_device
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint8])
def test_caches_are_compacted_as_on_the_host(dtype, monkeypatch):
    alignments, compact = [], _core.cuda_compact
    monkeypatch.setattr(_core, "cuda_compact", lambda *given: (alignments.append(given[6]), compact(*given)))
    rng = np.random.default_rng(3)
    path = np.array([[1, 3, 6], [2, -1, -1], [-1, -1, -1], [3, 5, 7]], np.int32)
    accepted = np.array([3, 1, 0, 3], np.int32)
    verdicts = cuda.Verdicts(cuda.to_device(path), cuda.to_device(accepted), None)
    bases = np.array([4, 0, 2, 8])

    def on_host(cache, axis, batch):
        for b in range(4):
            here = cache.take(b, batch) if batch is not None else cache
            before = axis - (batch is not None and batch < axis)
            multidraft.compact(here, int(bases[b]), [0, *path[b, : accepted[b]].tolist()], axis=before)
            if batch is not None:
                cache[(slice(None),) * batch + (b,)] = here

    # As in transformers, vLLM before pages, with heads or tokens innermost, one plane; sizes that 16 does not divide.
    for shape, axis, batch in (((4, 3, 20, 8), 2, 0), ((4, 20, 3, 5), 1, 0), ((20, 4, 7), 0, 1), ((4, 6, 20), 2, 0), ((4, 20), 1, 0),
                               ((2, 4, 3, 20, 2, 4), 3, 1)):
        host = [cache_of(shape, dtype, rng) for _ in range(3)]
        device = [cuda.to_device(x) for x in host]
        for x in host:
            on_host(x, axis, batch)
        cuda.compact(device, verdicts, bases, axis=axis - len(shape), batch_axis=batch)
        assert all(np.array_equal(x.numpy(), y) for x, y in zip(device, host)), shape
        again = [cuda.to_device(x) for x in host]
        cuda.compact(again[0], (path_of := cuda.to_device(path), cuda.to_device(accepted * 0)), 3, axis=axis, batch_axis=batch)
        assert np.array_equal(again[0].numpy(), host[0]) and path_of.shape == path.shape
    # Addresses and entries that 16 does not divide, each for itself.
    for shift, size in ((1, 16), (0, 5), (3, 7)):
        wide = cache_of((4, 20, size), dtype, rng)
        whole = [cuda.to_device(np.concatenate([np.zeros(shift, dtype), wide.reshape(-1)])) for _ in range(2)]
        on_host(wide, 1, 0)
        shifted = [Shifted(array, shift, wide.shape) for array in whole]
        cuda.compact(shifted, verdicts, bases)
        # The device reads pieces of this size, which the stand-in could read anywhere.
        assert all((array._pointer + shift * array.dtype.itemsize) % alignments[-1] == 0 for array in whole)
        assert all(np.array_equal(array.numpy()[shift:].reshape(wide.shape), wide) for array in whole)
    # One request alone.
    host = cache_of((3, 20, 8), dtype, rng)
    device = cuda.to_device(host)
    multidraft.compact(host, 4, [0, 1, 3, 6], axis=1)
    cuda.compact(device, (cuda.to_device(path[:1]), cuda.to_device(accepted[:1])), cuda.to_device(np.array([4])), batch_axis=None)
    assert np.array_equal(device.numpy(), host)
    # Pages of 4 entries and of one, in any order.
    for entries in (4, 1):
        table = rng.permutation(4 * 20 // entries).reshape(4, -1).astype(np.int32)
        host = cache_of((80 // entries, entries, 3, 8), dtype, rng)
        flat = host.reshape(80, 3, 8)
        device = [cuda.to_device(host) for _ in range(3)]
        for b in range(4):
            slots = (table[b][:, None] * entries + np.arange(entries)).reshape(-1)
            mine = flat[slots]
            multidraft.compact(mine, int(bases[b]), [0, *path[b, : accepted[b]].tolist()])
            flat[slots] = mine
        for pages in (table, cuda.to_device(table)):
            one = cuda.to_device(device[2].numpy())
            cuda.compact(one, verdicts, bases, axis=1, pages=pages)
            assert np.array_equal(one.numpy(), host)
        cuda.compact(device[:2], verdicts, cuda.to_device(bases), axis=1, pages=table)
        assert np.array_equal(device[0].numpy(), host) and np.array_equal(device[1].numpy(), host)


@needs_device
def test_what_these_refuse():
    parents = cuda.to_device(np.array([-1, 0, -1], np.int32))
    cache = cuda.to_device(np.zeros((2, 3, 9, 4), np.float32))
    path, accepted = cuda.to_device(np.full((2, 2), -1, np.int32)), cuda.to_device(np.zeros(2, np.int32))
    verdicts = (path, accepted)
    for call, argument in (
            (lambda: cuda.masks("2x1", "float64"), "dtype"), (lambda: cuda.masks("2x1", contexts=[1, 2]), "contexts.size"),
            (lambda: cuda.masks("2x1", contexts=-1), "contexts"), (lambda: cuda.masks("2x1", contexts=3, columns=7), "columns"),
            (lambda: cuda.masks("2x1", "packed", contexts=1), "contexts"), (lambda: cuda.masks("2x1", "packed", columns=5), "columns"),
            (lambda: cuda.masks("2x1", contexts=cuda.to_device(np.zeros(1, np.int64))), "columns"),
            (lambda: cuda.masks("2x1", contexts=cuda.to_device(np.zeros(1, np.int32)), columns=9), "contexts.dtype"),
            (lambda: cuda.masks("2x1", sizes=[5]), "sizes"), (lambda: cuda.masks(parents, sizes=[2, 0]), "sizes"),
            (lambda: cuda.masks(parents, sizes=[]), "sizes"), (lambda: cuda.masks(parents, sizes=[2, 2]), "tree.size"),
            (lambda: cuda.masks("2x1", like=np.zeros(3)), "like.device"), (lambda: cuda.positions("2x1", -1), "roots"),
            (lambda: cuda.positions(["2x1", "3"], [1]), "roots.size"), (lambda: cuda.level_order([-1, 0]), "parents.device"),
            (lambda: cuda.level_order(parents, sizes=[2]), "parents.size"), (lambda: cuda.compact([], verdicts, 0), "caches"),
            (lambda: cuda.compact([cache, cuda.to_device(np.zeros((2, 3, 9, 5), np.float32))], verdicts, 0), "caches"),
            (lambda: cuda.compact([cache, cuda.to_device(np.zeros((2, 3, 9, 4), np.float16))], verdicts, 0), "caches"),
            (lambda: cuda.compact(np.zeros((2, 3, 9, 4)), verdicts, 0), "caches[0].device"),
            (lambda: cuda.compact(cache, (accepted, accepted), 0), "verdicts.path"),
            (lambda: cuda.compact(cache, (path, path), 0), "verdicts.accepted.size"),
            (lambda: cuda.compact(cache, verdicts, [0, -1]), "bases"), (lambda: cuda.compact(cache, verdicts, 0, axis=4), "axis"),
            (lambda: cuda.compact(cache, verdicts, 0, axis=0), "batch_axis"),
            (lambda: cuda.compact(cache, verdicts, 0, batch_axis=None), "caches[0].shape"),
            (lambda: cuda.compact(cache, verdicts, 0, batch_axis=None, pages=[[0], [1]]), "batch_axis"),
            (lambda: cuda.compact(cache, verdicts, 0, pages=[[0]]), "pages.shape"),
            (lambda: cuda.compact(cache, verdicts, 0, pages=cuda.to_device(np.zeros((2, 2)))), "pages")):
        with pytest.raises(multidraft.InvalidInput) as refused:
            call()
        assert refused.value.argument == argument, (refused.value, argument)


# --- Graphs


def write(array, values):
    """New contents for an array in device memory."""
    _core.cuda_upload(array.device, array.stream, array._pointer, np.ascontiguousarray(values, array.dtype).tobytes())


@needs_device
@pytest.mark.parametrize("method", [REJECTION, TRAVERSAL])
def test_plans_have_the_results_of_the_calls(case, method):
    tree, tokens, p, q = case
    dp, dq = cuda.to_device(p), cuda.to_device(q)
    dtokens = cuda.to_device(tokens)
    seeds, positions, ids = (cuda.to_device(np.array([x], t)) for x, t in ((3, np.uint64), (5, np.int32), (7, np.uint32)))
    for params in (dict(), dict(temperature=0.7, top_k=20), dict(temperature=[0.7], draft_sampling=(0.9, 0, 1.0, 0.0))):
        plan = cuda.VerifyPlan(method, tree, law="sequential", **params)
        for position in (5, 6, 7):
            write(positions, [position])
            kw = dict(law="sequential", seeds=3, positions=position, **params)
            verdicts = plan.verify(dtokens, dp, dq, seeds=seeds, positions=positions)
            assert same(verdicts, [multidraft.verify(method, tree, tokens, p, q, **kw)])
            assert plan.verify(dtokens, dp, dq, seeds=seeds, positions=positions, ids=ids).path is verdicts.path
            assert same(verdicts, [multidraft.verify(method, tree, tokens, p, q, ids=7, **kw)])
    # Several trees, rows elsewhere, another stream.
    trees, row_of = [tree, Tree.chain(2)], [4, 3, 2, 1, 0, 0, 1, 2]
    plan = cuda.VerifyPlan(method, trees, law="sequential")
    joint = np.concatenate([tokens, [7, 8, 9]]).astype(np.int32)
    drafted = [multidraft.DraftedTree(t, x, x * 0, multidraft.law("sequential")) for t, x in zip(trees, (joint[:5], joint[5:]))]
    two = dict(seeds=[3, 4], positions=[5, 9])
    on_device = dict(seeds=cuda.to_device(np.array([3, 4])), positions=cuda.to_device(np.array([5, 9], np.int32)))
    where = cuda.to_device(np.array(row_of))
    verdicts = plan.verify(cuda.to_device(joint), dp, dq, target_rows=where, draft_rows=where, **on_device)
    assert same(verdicts, multidraft.verify(method, drafted, None, p, q, target_rows=row_of, draft_rows=row_of, **two))
    plan = cuda.DraftPlan(5, 3, method=method, temperature=0.8, nodes=[4, 3, 2, 1, 0])
    many = dict(seeds=np.array([9, 2, 3, 4, 5], np.uint64), positions=np.arange(5, dtype=np.int32), ids=np.arange(5, dtype=np.uint32))
    children = plan.draft(dq, **{name: cuda.to_device(x) for name, x in many.items()})
    host = multidraft.draft(q, 3, method=method, temperature=0.8, nodes=[4, 3, 2, 1, 0], **many)
    assert children.law == "sequential" and np.array_equal(children.tokens.numpy(), host.tokens)
    assert np.array_equal(children.counts.numpy(), host.counts) and np.array_equal(children.certain.numpy(), host.certain)


@needs_standin
@pytest.mark.parametrize("method", [REJECTION, TRAVERSAL])
def test_graphs_of_plans(case, method):
    """What a graph repeats reads the arguments' memory anew; nothing is allocated or copied from the host while capturing."""
    tree, tokens, p, q = case
    stream, other = lib.standin_stream(), lib.standin_stream()
    dp, dq, dtokens = cuda.to_device(p), cuda.to_device(q, stream=other), cuda.to_device(tokens)
    seeds, positions = cuda.to_device(np.array([3], np.uint64)), cuda.to_device(np.array([5], np.int32))
    of_rows = [cuda.to_device(np.array([3] * 3, np.uint64)), cuda.to_device(np.array([5] * 3, np.int32)),
               cuda.to_device(np.zeros(3, np.uint32))]
    root = cuda.to_device(q[:3])
    verifier = cuda.VerifyPlan(method, tree, law="sequential", temperature=0.9)
    drafter = cuda.DraftPlan(3, 2, method=method, temperature=0.9, nodes=[0, 1, 2])
    for array in (dp, dq, dtokens, seeds, positions, root, *of_rows):
        _core.cuda_synchronize(0, array.stream)
    gc.collect()
    before, launched = lib.standin_allocated(), lib.standin_launches()
    lib.standin_begin_capture(stream)
    assert _core.cuda_is_capturing(0, stream) and not _core.cuda_is_capturing(0, other)
    verdicts = verifier.verify(dtokens, dp, dq, seeds=seeds, positions=positions, stream=stream)
    children = drafter.draft(root, seeds=of_rows[0], positions=of_rows[1], ids=of_rows[2], stream=stream)
    graph = lib.standin_end_capture(stream)
    assert graph != 0 and lib.standin_allocated() == before and lib.standin_launches() >= launched + 2
    rng = np.random.default_rng(4)
    for position in range(5, 10):
        p, q = ((rng.integers(-64, 64, p.shape) / 8).astype(np.float32) for _ in range(2))
        drawn = multidraft.draft(q[:3], 2, method=method, temperature=0.9, nodes=[0, 1, 2], seeds=3, positions=position, ids=0)
        tokens = np.array([0, *drawn.tokens[0], drawn.tokens[1][0], drawn.tokens[2][0]], np.int32)
        for array, values in ((dp, p), (dq, q), (dtokens, tokens), (positions, [position]), (root, q[:3]), (of_rows[1], [position] * 3)):
            write(array, values)
            _core.cuda_synchronize(0, array.stream)
        assert lib.standin_launch_graph(graph, stream) == 0
        _core.cuda_synchronize(0, stream)
        assert np.array_equal(children.tokens.numpy(), drawn.tokens)
        assert same(verdicts, [multidraft.verify(method, tree, tokens, p, q, law="sequential", temperature=0.9, seeds=3,
                                                 positions=position)])
    # Other calls are refused while capturing, and the arguments of a plan that lie on the host.
    with pytest.raises(multidraft.InvalidInput) as refused:
        verifier.verify(tokens, dp, dq, seeds=seeds, positions=positions, stream=stream)
    assert refused.value.argument == "tokens.device"


@needs_device
def test_what_plans_refuse(case):
    tree, tokens, p, q = case
    dp, dq = cuda.to_device(p), cuda.to_device(q)
    plan = cuda.VerifyPlan(REJECTION, tree, law="sequential")
    seeds, positions = cuda.to_device(np.array([3], np.uint64)), cuda.to_device(np.array([5], np.int32))
    good = dict(tokens=cuda.to_device(tokens), target_logits=dp, draft_logits=dq, seeds=seeds, positions=positions)
    plan.verify(**good)
    drafts = cuda.DraftPlan(5, 2, law="sequential", nodes=0)
    five = dict(seeds=cuda.to_device(np.zeros(5, np.uint64)), positions=cuda.to_device(np.zeros(5, np.int32)))
    for call, argument in (
            (lambda: cuda.VerifyPlan(REJECTION, tree, law="stratified"), "law"), (lambda: cuda.DraftPlan(0, 2, law="sequential", nodes=0), "rows"),
            (lambda: cuda.DraftPlan(5, 0, law="sequential", nodes=0), "n"), (lambda: cuda.DraftPlan(5, 2, nodes=0), "law"),
            (lambda: cuda.VerifyPlan(REJECTION, tree, law="sequential", temperature=[1.0, 2.0]), "temperature.shape"),
            (lambda: cuda.VerifyPlan(REJECTION, tree, law="sequential", like=p), "like.device"),
            (lambda: plan.verify(**good | dict(tokens=None)), "tokens"), (lambda: plan.verify(**good | dict(seeds=3)), "seeds.device"),
            (lambda: plan.verify(**good | dict(positions=None)), "positions"), (lambda: plan.verify(**good | dict(ids=[1])), "ids.device"),
            (lambda: plan.verify(**good | dict(draft_logits=None)), "draft_logits"),
            (lambda: plan.verify(**good | dict(target_logits=cuda.to_device(p[:4]))), "target_logits.shape[0]"),
            (lambda: plan.verify(**good | dict(tokens=cuda.to_device(tokens[:4]))), "tokens.size"),
            (lambda: plan.verify(**good | dict(target_rows=[0] * 5)), "target_rows.device"),
            (lambda: plan.verify(**good | dict(target_logits=p)), "target_logits.device"),
            (lambda: drafts.draft(cuda.to_device(q[:4]), **five), "logits.shape[0]"),
            (lambda: drafts.draft(dq, seeds=seeds, positions=five["positions"]), "seeds.size")):
        with pytest.raises(multidraft.InvalidInput) as refused:
            call()
        assert refused.value.argument == argument, (refused.value, argument)
