"""The answers of models that are Python functions."""

import numpy as np

from ._arrays import as_float32, as_numpy, readable, rounded, rows
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
            _refuse_vocabulary(name, f"{name}(..).vocabulary", logits.vocabulary, vocabulary)
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
        _refuse_vocabulary(name, f"{name}(..).shape[1]", int(shape[1]), vocabulary)
    readable(f"{name}(..)", logits)
    kind = str(getattr(logits, "dtype", "float32")).rpartition(".")[2]
    if not isinstance(logits, np.ndarray) and kind == "float64":
        logits = np.from_dlpack(logits)
    if isinstance(logits, np.ndarray):
        logits, kind = np.asarray(logits), logits.dtype.name  # of a matrix its array
    if kind not in ("float16", "bfloat16", "float32", "float64"):
        refuse(f"{name}(..).dtype", kind, "rows are float32, float16 or bfloat16, or float64, which is rounded")
    if isinstance(logits, np.ndarray):
        if logits.dtype == np.float64:
            return rounded(logits)
        if logits.ndim == 2 and logits.shape[1] > 1 and logits.strides[1] != logits.itemsize:
            return np.ascontiguousarray(logits)
    elif callable(getattr(logits, "is_contiguous", None)) and not logits.is_contiguous():
        return logits.contiguous()
    return logits


def _refuse_vocabulary(name, argument, found, others):
    """Of a target whose rows have other tokens than the draft's, which were asked for before; or of later rows of one model."""
    if name == "target":
        refuse("draft(..).vocabulary", others, f"draft and target have one vocabulary, and the target's rows have {found} tokens")
    refuse(argument, found, f"draft and target have one vocabulary, and the rows so far are of {others} tokens")


def checked_features(features, count):
    """The target's features for a draft that observes them, an array of NumPy: bfloat16 as float32, exactly."""
    name = "target(..)[1]"
    readable(name, features)
    if not hasattr(features, "shape"):
        try:
            features = np.asarray(features, np.float32)
        except (TypeError, ValueError) as error:
            refuse(name, type(features).__name__, f"features are an array ({error})")
    if len(features.shape) != 2 or int(features.shape[0]) != count:
        refuse(name + ".shape", tuple(features.shape), f"features are ({count}, width), a row for each token list")
    if str(getattr(features, "dtype", "")).endswith("bfloat16"):
        return as_float32(as_numpy(features))
    return as_numpy(features)


def float32_rows(values):
    """Rows in float32, whichever their type."""
    return as_float32(as_numpy(rows(values)[0]))
