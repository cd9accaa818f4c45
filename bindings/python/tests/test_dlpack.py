"""Arrays of other libraries by DLPack, without these libraries: types, strides and devices."""

import ctypes

import numpy as np
import pytest

import multidraft


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", Device), ("ndim", ctypes.c_int32), ("dtype", DataType),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class ManagedTensor(ctypes.Structure):
    pass


Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(ManagedTensor))
ManagedTensor._fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", Deleter)]
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
FLOAT, BFLOAT, INT, UINT, COMPLEX = 2, 4, 0, 1, 5


class Exported:
    """An array that supports DLPack only."""

    kept = []
    deleted = 0

    def __init__(self, array, code, bits, device=1, lanes=1, fails=False):
        self.array, self.dtype_of = array, (code, bits, lanes)
        self.device, self.fails = device, fails
        self.shape, self.ndim, self.dtype = array.shape, array.ndim, "bfloat16" if code == BFLOAT else str(array.dtype)

    def __dlpack_device__(self):
        return (self.device, 0)

    def __dlpack__(self, **_):
        if self.fails:
            raise BufferError("this tensor is not for others")
        dimensions = ctypes.c_int64 * max(self.array.ndim, 1)
        shape = dimensions(*self.array.shape)
        strides = dimensions(*(s // self.array.itemsize for s in self.array.strides))

        def delete(_):
            Exported.deleted += 1

        managed = ManagedTensor(
            Tensor(self.array.ctypes.data, Device(self.device, 0), self.array.ndim, DataType(*self.dtype_of), shape,
                   strides, 0), None, Deleter(delete))
        Exported.kept.append((managed, shape, strides, self.array))
        return new_capsule(ctypes.addressof(managed), b"dltensor", None)


def bfloat16_bits(array):
    return (array.view(np.uint32) >> 16).astype(np.uint16)


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    # Multiples of 1/8, exact in all types.
    p, q = ((rng.integers(-64, 64, (5, 30)) / 8).astype(np.float32) for _ in range(2))
    method = "recursive_rejection/sequential"
    drawn = multidraft.draft(q[:3], 2, method=method, nodes=[0, 1, 2], seeds=3, positions=0)
    tokens = [0, *drawn.tokens[0], drawn.tokens[1][0], drawn.tokens[2][0]]

    def decide(target, draft):
        return multidraft.verify(method, "2x1", tokens, target, draft, law=drawn.law, seeds=3, positions=0).tokens

    return p, q, decide


def test_types(case):
    p, q, decide = case
    first = decide(p, q)
    assert decide(Exported(p, FLOAT, 32), Exported(q, FLOAT, 32)) == first
    assert decide(Exported(p, FLOAT, 32), q) == first
    half = [x.astype(np.float16) for x in (p, q)]
    assert decide(*(Exported(x, FLOAT, 16) for x in half)) == first
    bits = [bfloat16_bits(x) for x in (p, q)]
    assert decide(*(Exported(x, BFLOAT, 16) for x in bits)) == first
    assert Exported.deleted > 0
    drawn = multidraft.draft(Exported(bits[1], BFLOAT, 16), 2, law="sequential", seeds=3, nodes=np.arange(len(q)), positions=0)
    assert np.array_equal(drawn.tokens, multidraft.draft(q, 2, law="sequential", seeds=3, nodes=np.arange(len(q)), positions=0).tokens)
    text = multidraft.speculate("recursive_rejection/sequential", "2x1", lambda t: Exported(bits[0][: len(t)], BFLOAT, 16),
                                lambda t: q[: len(t)], [1], tokens=5)
    assert len(text.tokens) == 5


def test_strides(case):
    p, q, decide = case
    wide = np.zeros((5, 64), np.float32)
    wide[:, 3:33] = p
    assert decide(Exported(wide[:, 3:33], FLOAT, 32), q) == decide(p, q)
    with pytest.raises(ValueError, match="stride of 1"):
        decide(Exported(wide[:, ::2][:, :30], FLOAT, 32), q)


@pytest.mark.parametrize("what, argument, part", [
    (dict(code=FLOAT, bits=64), "target_logits.dtype", "float32"),
    (dict(code=INT, bits=32), "target_logits.dtype", "float32"),
    (dict(code=COMPLEX, bits=64), "target_logits.dtype", "float32"),
    (dict(code=UINT, bits=16), "target_logits.dtype", "float32"),
    (dict(code=FLOAT, bits=32, lanes=4), "target_logits.dtype", "numbers"),
    (dict(code=FLOAT, bits=32, device=2), "target_logits.device", "memory of the CPU"),
    (dict(code=FLOAT, bits=32, device=10), "target_logits.device", "memory of the CPU"),
    (dict(code=FLOAT, bits=32, fails=True), "target_logits", "DLPack exports"),
])
def test_refusals(case, what, argument, part):
    p, q, decide = case
    with pytest.raises(multidraft.InvalidInput) as refused:
        decide(Exported(p, **what), q)
    assert refused.value.argument == argument and part in str(refused.value)
