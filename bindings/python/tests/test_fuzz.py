"""Random combinations of invalid arguments raise ValueError and nothing else. MULTIDRAFT_FUZZ_CALLS: number of calls."""

import os
import random
import sys
import threading
import time

import numpy as np
import pytest

import multidraft
from multidraft import analysis

CALLS = int(os.environ.get("MULTIDRAFT_FUZZ_CALLS", "4000"))


class Odd:
    """An object that gives invalid answers to DLPack and NumPy."""

    shape, ndim, dtype = (5, 8), 2, "float32"

    def __init__(self, what):
        self.what = what

    def __dlpack__(self, *args, **kw):
        if self.what == "raises":
            raise RuntimeError("no")
        return {"none": None, "text": "tensor", "number": 5}[self.what]

    def __dlpack_device__(self):
        return (1, 0)

    def __array__(self, *args, **kw):
        raise ValueError("no array")

    def __len__(self):
        return 5

    def __getitem__(self, i):
        raise IndexError("no entry")


def some_array(rng):
    """An array of any type, shape and strides."""
    dtype = rng.choice(["f4", "f4", "f4", "f2", "f8", "i1", "i4", "i8", "u2", "u4", "u8", "?", "c8", "O", "S3", "U2", "M8[s]", ">f4",
                        ">i4"])
    shape = tuple(rng.choice([0, 1, 2, 3, 5, 5, 8, 8]) for _ in range(rng.choice([0, 1, 1, 2, 2, 2, 3])))
    array = (np.random.default_rng(rng.getrandbits(32)).normal(size=shape) * 3).astype("f4")
    with np.errstate(all="ignore"):
        array = np.asarray(array).astype("i8").astype(dtype) if dtype.startswith("M") else np.asarray(array).astype(dtype)
    change = rng.randrange(9)
    if change == 0 and array.ndim == 2:
        array = array.T
    elif change == 1 and array.ndim:
        array = array[..., ::-1]
    elif change == 2 and array.ndim:
        array = array[::2]
    elif change == 3:
        array = np.asfortranarray(array)
    elif change == 4:
        array = np.broadcast_to(array, (5, *array.shape))
    elif change == 5:
        array = array.copy()
        array.flags.writeable = False
    elif change == 6 and array.dtype.kind == "f" and array.size:
        array = array.copy()
        array.flat[rng.randrange(array.size)] = rng.choice([np.nan, np.inf, -np.inf])
    elif change == 7 and array.dtype == np.float32 and array.ndim == 2 and array.size:
        raw = np.zeros(array.nbytes + 1, np.uint8)[1:]  # misaligned entries
        array = raw.view(np.float32).reshape(array.shape)
    return array


def some_value(rng):
    return rng.choice([
        lambda: None, lambda: rng.randint(-3, 9), lambda: rng.choice([2**31, 2**63, 2**64, -2**31 - 1, 2**200]),
        lambda: rng.choice([0.5, -1.0, float("nan"), float("inf"), 1e300, 1j]), lambda: rng.choice([True, "", "x", "2x1", b"2", "\0", "é"]),
        lambda: [rng.randint(-2, 6) for _ in range(rng.randint(0, 6))], lambda: [[1, 2], [3]], lambda: (), lambda: {}, lambda: object(),
        lambda: rng.choice([[None], ["a", 1], [1.5, 2], [[[]]], [2**70]]), lambda: Odd(rng.choice(["none", "text", "number", "raises"])),
        lambda: memoryview(b"12345678"), lambda: np.float32(2), lambda: np.int64(3), lambda: np.uint64(2**64 - 1),
        lambda: rng.choice(list(multidraft.methods())), lambda: rng.choice(list(multidraft.laws())), lambda: multidraft.Tree.parse("2x1"),
        *[lambda: some_array(rng)] * 12])()


def rows(count=5, vocabulary=8):
    return np.random.default_rng(count).normal(size=(count, vocabulary)).astype(np.float32)


P, Q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.5, 0.3])
FUNCTIONS = [
    (multidraft.verify, dict(method="traversal/sequential", tree="2x1", tokens=[0, 1, 2, 3, 4], target_logits=rows(), draft_logits=rows(),
                             law="sequential", seeds=1, positions=0, ids=0, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0,
                             target_rows=None, draft_rows=None, certain=None, draft_sampling=None, threads=1, validate=False,
                             probabilities=False)),
    (multidraft.draft, dict(logits=rows(), n=2, law="sequential", method=None, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seeds=0,
                            positions=0, nodes=[0, 1, 2, 3, 4], tree=None, level=None, depths=None, ids=None, threads=1)),
    (multidraft.distributions, dict(logits=rows(), temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)),
    (multidraft.compact, dict(cache=rows(9, 4), context=2, kept=[0, 2], axis=0, entries=None)),
    (multidraft.Tree, dict(parents=[-1, 0, 0, 1])),
    (multidraft.Tree.parse, dict(text="2x1")),
    (multidraft.Tree.branching, dict(factors=[2, 1])),
    (multidraft.Tree.from_choices, dict(choices=[[0], [1], [0, 0]])),
    (multidraft.Tree.from_any_order, dict(parents=[3, 3, 0, -1, 1])),
    (multidraft.Tree.parse("2x2").mask, dict(dtype="float32", context=2)),
    (multidraft.Tree.parse("2x2").positions, dict(context=2)),
    (multidraft.Tree.parse("2x2").children, dict(node=2)),
    (analysis.alpha_star, dict(p=P, q=Q, n=2, law="iid")),
    (analysis.acceptance, dict(p=P, q=Q, n=2, method="ranked/iid", samples=64, seed=1)),
    (analysis.block_efficiency, dict(rates=[0.5, 0.5])),
    (analysis.improvement_factor, dict(alpha=0.5, depth=2, cost=0.1)),
    (analysis.mbsu, dict(efficiency=1.5, depth=2, size_ratio=0.1)),
    (analysis.best_tree, dict(rates=[[0.6, 0.3]], nodes=3, depth=None)),
]


@pytest.mark.parametrize("function, good", FUNCTIONS, ids=lambda x: getattr(x, "__qualname__", ""))
def test_any_arguments(function, good):
    function(**{k: v.copy() if isinstance(v, np.ndarray) else v for k, v in good.items()})
    rng = random.Random(function.__qualname__)
    refused = 0
    for _ in range(CALLS // len(FUNCTIONS)):
        arguments = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in good.items()}
        for name in rng.sample(sorted(good), rng.randint(1, min(3, len(good)))):
            arguments[name] = some_value(rng)
        try:
            function(**arguments)
        except ValueError as error:
            assert str(error)
            refused += 1
        except Exception as error:
            raise AssertionError(f"{function.__qualname__}({arguments})") from error
    assert refused > CALLS // len(FUNCTIONS) / 10


def test_the_library_lets_other_threads_work():
    vocabulary = 20_000
    logits = np.random.default_rng(0).normal(size=(21, vocabulary)).astype(np.float32)
    tree = multidraft.Tree.parse("4x2x1")
    tokens = np.arange(len(tree))
    counted, ends = [0], threading.Event()

    def count():
        while not ends.is_set():
            counted[0] += 1
            time.sleep(0.0001)

    def lets_others_count(call):
        before = counted[0]
        call()
        return counted[0] > before

    # Threads alternate only when one releases the lock; on a busy machine the other may be late for a single call.
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    worker = threading.Thread(target=count)
    worker.start()
    try:
        for call in (lambda: multidraft.verify("traversal/sequential", tree, tokens, logits[: len(tree)], logits[: len(tree)],
                                               law="sequential", positions=0),
                     lambda: multidraft.draft(logits, 4, law="sequential", top_p=0.9, nodes=np.arange(len(logits)), positions=0)):
            assert any(lets_others_count(call) for _ in range(2000))
        assert not any(lets_others_count(lambda: sum(range(100_000))) for _ in range(5))
    finally:
        ends.set()
        worker.join()
        sys.setswitchinterval(interval)
