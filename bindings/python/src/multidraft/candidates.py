"""A draft's rows of a few tokens each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._arrays import as_float32, as_numpy, integer, integers, readable, rounded, rows, two_dimensional, unmasked
from ._errors import refuse


class Candidates:
    """Rows of a draft that gives a few tokens of each, such as its 64 likeliest; all others have no mass. They stand where
    the draft's logits do: children are drawn from them, and verified with them.

    >>> values, tokens = torch.topk(logits, 64)
    >>> few = multidraft.Candidates(tokens, values, vocabulary=logits.shape[1])

    What is left out costs acceptance, never the law; of SmolLM2's drafter 256 of 49,152 lose nothing that can be measured.
    Verifiers then read a few entries of a row instead of all of them.
    """

    tokens: np.ndarray  #: (rows, k) int32, increasing within a row
    logits: np.ndarray  #: (rows, k) float32
    vocabulary: int  #: the number of tokens that there are

    def __init__(self, tokens: Any, logits: Any, vocabulary: int) -> None:
        """tokens, logits: (rows, k), in any order within a row, on the CPU; lists or double precision are rounded to float32, each
        row less its largest logit. Raises `InvalidInput` for a token that a row has twice, or that is not in [0, vocabulary).
        O(rows k log k)."""
        self.vocabulary = integer("vocabulary", vocabulary, 1, 2**31 - 4097)
        values = _values(logits)
        count, k = two_dimensional("logits", values)
        unmasked("tokens", tokens)
        try:
            found = np.asarray(tokens)
        except Exception as error:  # any exception of another library's array
            refuse("tokens", type(tokens).__name__, f"an array of integers is wanted ({error})")
        if found.dtype.kind not in "iu":
            refuse("tokens.dtype", found.dtype, "integers are wanted")
        if found.shape != (count, k):
            refuse("tokens.shape", found.shape, f"there is a token for each logit: ({count}, {k})")
        if not 1 <= k <= self.vocabulary:
            refuse("logits.shape[1]", k, f"a row has 1 to {self.vocabulary} candidates")
        outside = (found < 0) | (found >= self.vocabulary)
        if outside.any():
            r, e = np.argwhere(outside)[0].tolist()
            refuse(f"tokens[{r}, {e}]", int(found[r, e]), f"a token is in [0, {self.vocabulary})")
        found, values = found.astype(np.int32), _as_float32(values)
        if (np.diff(found) < 1).any():
            order = np.argsort(found, axis=1, kind="stable")
            found, values = np.take_along_axis(found, order, 1), np.take_along_axis(values, order, 1)
            twice = np.argwhere(np.diff(found) == 0)
            if len(twice):
                r, e = twice[0].tolist()
                refuse(f"tokens[{r}]", int(found[r, e]), "a row has each of its candidates once")
        self.tokens, self.logits = np.ascontiguousarray(found), np.ascontiguousarray(values, np.float32)

    @classmethod
    def largest(cls, logits: Any, k: int) -> Candidates:
        """The `k` largest entries of each row of (rows, vocabulary) logits, of equal ones those of the lowest tokens. Raises
        `InvalidInput` for NaN, which is not ordered."""
        values = _values(logits)
        _, vocabulary = two_dimensional("logits", values)
        k = integer("k", k, 1, vocabulary)
        values = values if values.dtype == np.float64 else as_float32(values)
        nan = np.argwhere(np.isnan(values))
        if len(nan):
            refuse("logits[{}, {}]".format(*nan[0].tolist()), "nan", "the largest entries of such a row are not known")
        tokens = np.sort(np.argsort(-values, axis=1, kind="stable")[:, :k], axis=1)
        return cls(tokens, np.take_along_axis(values, tokens, 1), vocabulary)

    @classmethod
    def concatenate(cls, parts: Sequence[Candidates]) -> Candidates:
        """The rows of all parts, one after another, such as the levels of a tree. They have as many candidates a row, of one
        vocabulary."""
        found = list(parts) if isinstance(parts, (list, tuple)) else []
        if not found:
            refuse("parts", parts if isinstance(parts, (list, tuple)) else type(parts).__name__, "a list of `Candidates` is wanted")
        for i, part in enumerate(found):
            if not isinstance(part, Candidates):
                refuse("parts", type(part).__name__, "`Candidates` are wanted", i)
            if part.tokens.shape[1] != found[0].tokens.shape[1] or part.vocabulary != found[0].vocabulary:
                refuse("parts", repr(part), f"the first one has rows of {found[0].tokens.shape[1]} of {found[0].vocabulary} tokens", i)
        return joined(found)

    def __len__(self) -> int:
        return len(self.tokens)

    def of_rows(self, numbers: Sequence[int] | np.ndarray) -> Candidates:
        """These rows, in this order; a row may occur several times."""
        at = integers("numbers", numbers, np.int64)
        for i in np.flatnonzero((at < 0) | (at >= len(self)))[:1].tolist():
            refuse("numbers", at[i], f"there are {len(self)} rows", i)
        return Candidates(self.tokens[at], self.logits[at], self.vocabulary)

    def whole(self) -> np.ndarray:
        """(rows, vocabulary) float32 logits, minus infinity where there is no candidate."""
        found = np.full((len(self), self.vocabulary), -np.inf, np.float32)
        np.put_along_axis(found, self.tokens.astype(np.int64), self.logits, 1)
        return found

    def __repr__(self) -> str:
        return f"Candidates({len(self)} rows of {self.tokens.shape[1]} of {self.vocabulary} tokens)"


def _values(logits):
    """Logits as an array of NumPy, bfloat16 as its bits in uint16."""
    if isinstance(logits, (list, tuple)):
        try:
            logits = np.asarray(logits, np.float64)
        except (TypeError, ValueError) as error:
            refuse("logits", type(logits).__name__, f"rows of logits are wanted ({error})")
    two_dimensional("logits", logits)
    readable("logits", logits)
    if str(getattr(logits, "dtype", "")).rpartition(".")[2] not in ("float64", ">f8"):
        logits = rows(logits)[0]
    values = np.asarray(as_numpy(logits))  # of a matrix its array
    if values.dtype not in (np.float16, np.float32, np.float64, np.uint16):
        refuse("logits.dtype", values.dtype, "rows are float32, float16 or bfloat16, or float64, which is rounded")
    return values


def _as_float32(values):
    return rounded(values) if values.dtype == np.float64 else as_float32(values)


def draft_rows(values: Any) -> tuple[Any, bool, np.ndarray | None, int]:
    """(logits, is_bfloat16, candidates or None, vocabulary of these) of a draft, as the compiled module takes them."""
    if isinstance(values, Candidates):
        return values.logits, False, values.tokens, values.vocabulary
    array, is_bfloat16 = rows(values)
    return array, is_bfloat16, None, 0


def width(values: Any) -> int:
    """The number of tokens that rows are of."""
    return values.vocabulary if isinstance(values, Candidates) else int(values.shape[1])


def joined(parts: Sequence[Candidates]) -> Candidates:
    """The rows of all parts, one after another. They have as many candidates, of one vocabulary."""
    first = parts[0]
    for part in parts[1:]:
        if part.tokens.shape[1] != first.tokens.shape[1] or part.vocabulary != first.vocabulary:
            refuse("draft", repr(part), f"a draft gives rows of {first.tokens.shape[1]} of {first.vocabulary} candidates in each call of a "
                   "step, as in the first")
    return Candidates(np.concatenate([p.tokens for p in parts]), np.concatenate([p.logits for p in parts]), first.vocabulary)
