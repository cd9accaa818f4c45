"""The answers of models that are Python functions."""

import numpy as np

from ._arrays import as_float32, as_numpy, rows
from ._errors import refuse
from .candidates import Candidates


def checked_model(name, model, method=None):
    """A function, or an object with this method."""
    if not callable(model) and not (method and hasattr(model, method)):
        refuse(name, type(model).__name__, "a function from a list of token lists to their rows of logits is wanted"
               + (f", or an object with `{method}`" if method else ""))


def checked_rows(logits, name, count, vocabulary):
    """Rows of logits that a model returned for so many token lists, as `rows` takes them: double precision as float32, each row
    less its largest logit before it is rounded. Of a draft they may be `Candidates`."""
    if isinstance(logits, Candidates):
        if name == "target":
            refuse("target(..)", repr(logits), "the target's rows have all tokens")
        if len(logits) != count:
            refuse(f"{name}(..)", repr(logits), f"a model gives one row of logits for each of {count} token lists")
        if vocabulary is not None and logits.vocabulary != vocabulary:
            refuse(f"{name}(..).vocabulary", logits.vocabulary, f"draft and target have one vocabulary, of {vocabulary}")
        return logits
    if isinstance(logits, tuple):
        refuse(f"{name}(..)", "a tuple", "rows of logits are wanted: features are returned to a draft that has `observe`")
    shape = getattr(logits, "shape", None)
    if shape is None:
        try:
            logits = np.asarray(logits, np.float64)
        except (TypeError, ValueError) as error:
            refuse(f"{name}(..)", type(logits).__name__, f"rows of logits are wanted ({error})")
        shape = logits.shape
    if len(shape) != 2 or int(shape[0]) != count:
        refuse(f"{name}(..).shape", tuple(shape), f"a model gives one row of logits for each of {count} token lists: ({count}, vocabulary)")
    if vocabulary is not None and int(shape[1]) != vocabulary:
        refuse(f"{name}(..).shape[1]", int(shape[1]), f"draft and target have one vocabulary, of {vocabulary}")
    if not isinstance(logits, np.ndarray) and str(getattr(logits, "dtype", "")).endswith("float64"):
        logits = np.from_dlpack(logits)
    if isinstance(logits, np.ndarray):
        if logits.dtype == np.float64:
            return _rounded(logits)
        if logits.ndim == 2 and logits.shape[1] > 1 and logits.strides[1] != logits.itemsize:
            return np.ascontiguousarray(logits)
    elif callable(getattr(logits, "is_contiguous", None)) and not logits.is_contiguous():
        return logits.contiguous()
    return logits


def _rounded(logits):
    """float32, in which a large offset of a row would leave nothing of its differences."""
    largest = logits.max(axis=1, keepdims=True, initial=-np.inf)
    with np.errstate(over="ignore"):
        return (logits - np.where(np.isfinite(largest), largest, 0)).astype(np.float32)


def float32_rows(values):
    """Rows in float32, whichever their type."""
    return as_float32(as_numpy(rows(values)[0]))
