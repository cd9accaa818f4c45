"""Conversion of users' arguments to the arrays that the compiled module takes."""

import sys

import numpy as np

from . import _core
from ._errors import InvalidInput, refuse

_LIMITS = {t: (np.iinfo(t).min, np.iinfo(t).max) for t in (np.int32, np.int64, np.uint32, np.uint64)}
_NUMBERS = (float, int, np.floating, np.integer)
SAMPLING = np.dtype([("temperature", "<f4"), ("top_k", "<i4"), ("top_p", "<f4"), ("min_p", "<f4")])


def like(given, array):
    """A tensor over the same memory where `given` is a tensor of PyTorch."""
    if isinstance(given, np.ndarray) or type(given).__module__.partition(".")[0] != "torch":
        return array
    return sys.modules["torch"].from_numpy(array)


def readable(name, values):
    """Refuses an array whose numbers are not those in its memory."""
    if isinstance(values, np.ndarray):
        if isinstance(values, np.ma.MaskedArray):
            refuse(name, "a masked array", "its mask is not read: give minus infinity where no token is allowed")
    elif getattr(values, "requires_grad", False) is True:  # DLPack may export it nevertheless
        refuse(name, "a tensor with a gradient", "rows carry no gradients: detach() it")
    elif callable(getattr(values, "is_neg", None)) and values.is_neg():  # which DLPack does not say
        refuse(name, "a tensor with the negative bit", "its numbers have another sign in memory: resolve_neg() it")


def unmasked(name, values):
    """The same for arrays that NumPy converts."""
    if isinstance(values, np.ma.MaskedArray):
        refuse(name, "a masked array", "its mask is not read")


def integers(name, values, dtype=np.int32):
    """A contiguous array of one dimension of `dtype`. Integers of other types must fit."""
    if type(values) is np.ndarray and values.dtype == dtype and values.ndim == 1 and values.flags.c_contiguous:
        return values
    unmasked(name, values)
    try:
        array = np.asarray(values)
        if array.dtype.kind in "fO" and isinstance(values, (list, tuple)) and all(isinstance(x, (int, np.integer)) for x in values):
            array = np.array(values, dtype)  # integers of 63 bits and of 64 together become floats
    except OverflowError:
        info = np.iinfo(dtype)
        bad = next((i for i, x in enumerate(values) if not info.min <= x <= info.max), 0)
        refuse(name, values[bad], f"an integer is in [{info.min}, {info.max}]", bad)
    except Exception as error:  # any exception of another library's array
        refuse(name, type(values).__name__, f"an array of integers is wanted ({error})")
    if array.size == 0:
        array = np.zeros(array.shape, dtype)
    if array.dtype.kind not in "iu":
        refuse(name + ".dtype", array.dtype, "integers are wanted")
    if array.ndim != 1:
        refuse(name + ".ndim", array.ndim, "one dimension is wanted")
    info = np.iinfo(dtype)
    if array.dtype != dtype and array.size and (int(array.min()) < info.min or int(array.max()) > info.max):
        bad = next(i for i, x in enumerate(array.tolist()) if not info.min <= x <= info.max)
        refuse(name, array[bad], f"an integer is in [{info.min}, {info.max}]", bad)
    return np.ascontiguousarray(array, dtype)


def integer(name, value, low, high):
    """An int in [low, high]."""
    if type(value) is int and low <= value <= high:
        return value
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        refuse(name, value, "an integer is wanted")
    value = int(value)
    if not low <= value <= high:
        refuse(name, value, f"it lies in [{low}, {high}]")
    return value


def root_positions(positions):
    """The positions of the roots, which have no default."""
    if positions is None:
        refuse("positions", None, "the position of each root in its text addresses its draws: say positions=.., which grows by the tokens "
               "of each step (0 for the first token of a text)")
    return positions


def shared_id(ids, seeds, positions, nodes=None):
    """Refuses one id for several requests that nothing else tells apart: a list of ids says that equal draws are meant."""
    if ids is None or not isinstance(ids, (int, np.integer)) or len(seeds) < 2:
        return
    seen = {}
    for b, address in enumerate(zip(seeds.tolist(), positions.tolist(), *([] if nodes is None else [nodes.tolist()]))):
        if seen.setdefault(address, b) != b:
            _refuse_shared_id(ids, seen[address], b)


def one_id(ids, count, *others):
    """The same for calls that do not look: without ids, too, where all that addresses a draw is known here and not in tensors."""
    known = (int, np.integer, np.ndarray, list, tuple)
    if count < 2 or not (ids is None or isinstance(ids, (int, np.integer))) or not all(isinstance(x, known) for x in others):
        return
    try:
        found = list(zip(*(np.broadcast_to(np.asarray(x), (count,)).tolist() for x in others)))
    except ValueError:
        return  # of another length, which is refused where it is read
    if not all(isinstance(x, int) and 0 <= x < 2**64 for address in found for x in address):
        return  # so are these
    seen = {}
    for b, address in enumerate(found):
        if seen.setdefault(address, b) != b:
            _refuse_shared_id(ids, seen[address], b)


def _refuse_shared_id(ids, a, b):
    refuse("ids", ids, f"requests {a} and {b} have {'no id' if ids is None else 'this id'}, one seed and one position, and would get the "
           "same draws: give an id for each (equal ones in a list where that is meant)")


def is_elsewhere(values):
    """Whether an array lies in other memory than the CPU's, where it is not read here."""
    where = None if isinstance(values, np.ndarray) else getattr(values, "__dlpack_device__", None)
    return where is not None and int(where()[0]) != 1


def thread_count(threads):
    """Threads of a call."""
    return integer("threads", threads, 1, 4096)


def each(name, value, count, dtype):
    """One integer per request: an array of `count`, or one number for all."""
    if type(value) is int or (isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_))):
        low, high = _LIMITS[dtype]
        if not low <= value <= high:
            refuse(name, value, f"it lies in [{low}, {high}]")
        return np.array((value,), dtype) if count == 1 else np.full(count, value, dtype)
    array = integers(name, value, dtype)
    if len(array) != count:
        refuse(name + ".size", len(array), f"there is one value, or one for each of {count} requests")
    return array


def rows(values):
    """(rows, is_bfloat16): bfloat16 of ml_dtypes as its bits in uint16, all other arrays as they are."""
    readable("logits", values)
    if isinstance(values, np.ndarray):
        if not values.dtype.isnative:
            refuse("logits.dtype", values.dtype.str, "numbers are in the byte order of the machine")
        if values.dtype.char in "fe":  # a dtype's name takes microseconds
            return values, False
        if values.dtype.name == "bfloat16":
            return values.view(np.uint16), True
        if values.dtype == np.uint16:  # ambiguous: the bits of float16 or of bfloat16
            refuse("logits.dtype", "uint16", "rows are float32, float16 or bfloat16")
        if values.dtype == object:
            refuse("logits.dtype", "object", "rows are float32, float16 or bfloat16")
    return values, False


def as_numpy(array):
    """An array of NumPy over the same memory, bfloat16 as its bits in uint16."""
    if isinstance(array, np.ndarray):
        return array
    if str(getattr(array, "dtype", "")).endswith("bfloat16"):
        return _core.bfloat16_bits(array)
    return np.from_dlpack(array)


def as_float32(array):
    """An array of `as_numpy` in float32, exactly."""
    if array.dtype == np.uint16:
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32, copy=False)


def rounded(logits):
    """Rows of double precision as float32, each less its largest logit: a large offset would leave nothing of its differences."""
    largest = logits.max(axis=1, keepdims=True, initial=-np.inf)
    with np.errstate(over="ignore"):
        return (logits - np.where(np.isfinite(largest), largest, 0)).astype(np.float32)


def sampling(temperature, top_k, top_p, min_p, count):
    """A tuple for all requests, or an array with one set of parameters per request."""
    given = (temperature, top_k, top_p, min_p)
    if type(temperature) is float and type(top_k) is int and type(top_p) is float and type(min_p) is float:
        return (temperature, integer("top_k", top_k, -(2**31), 2**31 - 1), top_p, min_p)
    if isinstance(temperature, _NUMBERS) and isinstance(top_k, _NUMBERS) and isinstance(top_p, _NUMBERS) and isinstance(
            min_p, _NUMBERS):
        return (real("temperature", temperature), integer("top_k", top_k, -(2**31), 2**31 - 1), real("top_p", top_p),
                real("min_p", min_p))
    table = np.empty(count, SAMPLING)
    for name, values in zip(SAMPLING.names, given):
        unmasked(name, values)
        array = np.asarray(values)
        if values is None:
            refuse(name, None, "a number is wanted")
        if array.dtype.kind not in ("iu" if name == "top_k" else "iuf"):
            refuse(name + ".dtype", array.dtype, "numbers are wanted")
        if array.ndim > 1 or (array.ndim == 1 and len(array) != count):
            refuse(name + ".shape", array.shape, f"there is one value, or one for each of {count} requests")
        if name == "top_k" and array.size and not -(2**31) <= int(array.min()) <= int(array.max()) < 2**31:
            refuse(name, int(array.max() if int(array.max()) >= 2**31 else array.min()), f"it lies in [{-(2**31)}, {2**31 - 1}]")
        with np.errstate(over="ignore"):  # the result is infinity, which is refused
            table[name] = array
    return table.view(np.uint8).reshape(count, SAMPLING.itemsize)


def four(name, values):
    """(temperature, top_k, top_p, min_p), checked to be four values."""
    if not isinstance(values, (tuple, list)) or len(values) != 4:
        refuse(name, values, "it is (temperature, top_k, top_p, min_p)")
    return tuple(values)


def one_sampling(values, prefix=""):
    """(temperature, top_k, top_p, min_p) of all texts, refused by these names where the library would refuse them."""
    table = sampling(*values, 1)
    try:
        _core.distributions(np.zeros((1, 1), np.float32), False, table)
    except InvalidInput as error:
        refuse(prefix + error.argument.rpartition(".")[2], error.value, error.reason)
    return values


def are_off(name, given, reason):
    """Refuses sampling parameters that would change something; None is off."""
    for part, values, off in zip(SAMPLING.names, given, (1.0, 0, 1.0, 0.0)):
        if values is not None and not np.array_equal(np.unique(np.asarray(values)), [off]):
            refuse(part if name is None else f"{name}.{part}", values, reason)


def two_dimensional(name, array):
    """The two extents of an array of rows."""
    shape = getattr(array, "shape", None)
    if not isinstance(shape, (tuple, list)) or len(shape) != 2:  # torch.Size is a tuple
        refuse(name + ".shape", tuple(shape) if isinstance(shape, (tuple, list)) else type(array).__name__,
               "rows are an array of two dimensions, (rows, vocabulary)")
    return int(shape[0]), int(shape[1])


def real(name, value):
    """A float."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, _NUMBERS):
        refuse(name, value, "a number is wanted")
    try:
        return float(value)
    except OverflowError:
        refuse(name, value, "a number of double precision is wanted")


def reals(name, values, dimensions=(1,)):
    """A contiguous array in double precision."""
    unmasked(name, values)
    try:
        array = np.asarray(values)
    except Exception as error:
        refuse(name, type(values).__name__, f"an array of numbers is wanted ({error})")
    if array.dtype.name == "bfloat16":
        array = array.astype(np.float32)
    if array.size == 0:
        array = np.zeros(array.shape)
    if array.dtype.kind not in "iuf":
        refuse(name + ".dtype", array.dtype, "numbers are wanted")
    if array.ndim not in dimensions:
        refuse(name + ".ndim", array.ndim, " or ".join(map(str, dimensions)) + " dimensions are wanted")
    return np.ascontiguousarray(array, np.float64)
