"""A step of many requests, with the arrays that an engine's batch needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _core
from ._arrays import as_float32, as_numpy, four, integer, integers, real, rows, thread_count, two_dimensional
from ._errors import refuse
from .candidates import Candidates, draft_rows, joined, width
from .methods import Method, check_shape, method as find_method
from .tree import Tree, as_tree


@dataclass(frozen=True)
class StepInputs:
    """What a model reads in one call, the inputs of each request one after another.

    Input k is `tokens[k]` of request `requests[k]`, at `positions[k]` of its text. The model writes keys and values to entry
    `entries[k]` of the request's cache. It attends to all entries before those of the step, and to those of `mask`.
    """

    tokens: np.ndarray  #: (inputs,) int32
    positions: np.ndarray  #: (inputs,) int32
    requests: np.ndarray  #: (inputs,) int32
    entries: np.ndarray  #: (inputs,) int32
    offsets: np.ndarray  #: (requests + 1,) int64: where the inputs of each request begin
    scored: np.ndarray  #: int64: the inputs whose logits are read, increasing
    #: (inputs, columns) bool: attends input k to the j-th entry that the step writes to its request's cache; padded with False to a
    #: multiple of 64 columns
    mask: np.ndarray
    _first_row: int

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True)
class StepResult:
    """The outcome of a request."""

    tokens: np.ndarray  #: by which the text grows; none if a row was no distribution, or the request only reads
    path: np.ndarray  #: the accepted nodes, the root excluded
    in_target: int  #: how many tokens of the grown text the target's cache holds after the compaction
    in_draft: int  #: the same for the draft's, which lacks an accepted leaf
    target_context: int  #: the target's cache keeps its first `target_context` entries ..
    kept_in_target: np.ndarray  #: .. and then entries `target_context + kept_in_target`: arguments of `compact`
    draft_context: int
    kept_in_draft: np.ndarray


def _inputs(found):
    tokens, positions, requests, entries, offsets, first_row, scored, words = found
    bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little") if words.size else np.zeros(words.shape, np.uint8)
    return StepInputs(tokens, positions, requests, entries, offsets, scored, bits.astype(bool), first_row)


def _sampling(temperature, top_k, top_p, min_p):
    return (real("temperature", temperature), integer("top_k", top_k, -(2**31), 2**31 - 1), real("top_p", top_p), real("min_p", min_p))


class Step:
    """One step of a batch of requests: trees grown together, one call of the target, one verification.

    >>> step = multidraft.Step()
    >>> step.start()
    >>> for r in requests: step.add("traversal/sequential", r.text, "2x1", seed=r.seed, in_target=r.in_target, in_draft=r.in_draft)
    >>> while inputs := step.next_level():
    ...     step.draw(draft(inputs))              # logits of the inputs, or of inputs.scored
    >>> step.verify(target(step.target_inputs()))
    >>> for b, r in enumerate(requests): r.text.extend(step.result(b).tokens)

    A model reads what its cache lacks of a text before the root, the root, then nodes: the target all of them, the draft those
    that are to have children. A text depends neither on the other requests nor on `threads`, bit for bit. Calls out of turn
    raise `InvalidInput`, and so does one thread while another draws or verifies.
    """

    def __init__(self, threads: int = 1) -> None:
        """threads: of drawing and verifying."""
        self._inner = _core.Step()
        self._threads = thread_count(threads)
        self.start()

    def start(self) -> None:
        """Begins a step without requests."""
        self._inner.start()
        self._asked: StepInputs | None = None
        self._levels: list[np.ndarray | Candidates] = []
        self._row_of = np.zeros(0, np.int64)

    def add(self, method: Method | str, text: Sequence[int] | np.ndarray | Any,
            tree: Tree | str | Sequence[int] | np.ndarray | None = None, *, seed: int = 0, id: int = 0,
            temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0,
            draft_sampling: Sequence[Any] | None = None, in_target: int = 0, in_draft: int = 0) -> int:
        """Adds a request and returns its number, from 0.

        text: the tokens so far, prompt included; the last one is the root. tree: how many children each node is to have; None: one
        token without a draft. id: distinguishes requests with equal seeds. draft_sampling: (temperature, top_k, top_p, min_p) of the
        draft where they differ. in_target, in_draft: how many of the first tokens the models' caches hold, fewer than all.
        Requests of one method that follow one another are drawn and verified in one call. Raises `InvalidInput`, also for the
        seed and the id of another request of the step: both would have the same draws wherever their texts have one length.
        """
        chosen = find_method(method)
        parents = np.zeros(0, np.int32)
        if tree is not None:
            shape = as_tree(tree)
            check_shape(chosen, shape)
            parents = np.ascontiguousarray(shape.parents, np.int32)
        own = _sampling(temperature, top_k, top_p, min_p)
        of_draft = own if draft_sampling is None else _sampling(*four("draft_sampling", draft_sampling))
        return self._inner.add(chosen.name, integers("text", text), parents, integer("seed", seed, 0, 2**64 - 1),
                               integer("id", id, 0, 2**32 - 1), own, of_draft,
                               integer("in_target", in_target, -(2**31), 2**31 - 1), integer("in_draft", in_draft, -(2**31), 2**31 - 1))

    def add_reading(self, text: Sequence[int] | np.ndarray, *, in_target: int = 0, in_draft: int = 0) -> int:
        """Adds a request whose text both models only read, to its end: a piece of a prompt. After all that are decoded.

        With `in_draft=len(text)` the draft reads nothing, as of a text that is beyond its context.
        """
        return self._inner.add_reading(integers("text", text), integer("in_target", in_target, -(2**31), 2**31 - 1),
                                       integer("in_draft", in_draft, -(2**31), 2**31 - 1))

    def next_level(self) -> StepInputs | None:
        """What the draft reads next, or None when the trees are grown: first what its caches lack of the texts, and the roots;
        then the nodes of the next level that are to have children."""
        found = _inputs(self._inner.next_level())
        self._asked = found
        return found if len(found) else None

    def draw(self, logits: Any) -> None:
        """Draws the children of these nodes. logits: (inputs, vocabulary) of the draft, or of `scored` alone; or `Candidates`."""
        if self._asked is None:
            refuse("draw", "out of turn", "`next_level` returns what the draft reads")
        array, _, few, vocabulary = draft_rows(logits)
        row_of = self._rows("logits", array, self._asked)
        level: np.ndarray | Candidates
        if few is None:
            level = array = np.array(as_numpy(array), order="C")  # kept until the verification
            tokens = two_dimensional("logits", array)[1]
            if self._levels and tokens != width(self._levels[0]):
                refuse("logits.shape[1]", tokens, f"the first level has rows of {width(self._levels[0])} tokens")
            if self._levels and getattr(self._levels[-1], "dtype", array.dtype) != array.dtype:
                level = array = as_float32(array)  # a step is verified with rows that hold those of all levels
        else:
            level = logits.of_rows(np.arange(len(logits)))
        if self._levels and isinstance(self._levels[0], Candidates) != (few is not None):
            refuse("logits", "rows" if few is None else "candidates", "all levels of a step have whole rows, or all have candidates")
        if few is not None and self._levels:
            joined([self._levels[0], level])  # as many candidates as before
        self._inner.draw(array, array.dtype == np.uint16, row_of, self._threads, few, vocabulary)
        before = sum(len(level) for level in self._levels)
        kept = np.zeros(len(row_of), np.int64)
        kept[:len(self._row_of)] = self._row_of
        kept[self._asked._first_row:] = row_of[self._asked._first_row:] + before
        self._row_of = kept
        self._levels.append(level)

    def target_inputs(self) -> StepInputs:
        """What the target reads: what its caches lack of the texts, the roots, and the nodes that were drawn."""
        self._asked = _inputs(self._inner.target_inputs())
        return self._asked

    def verify(self, logits: Any) -> None:
        """Verifies all trees. logits: (inputs, vocabulary) of the target, or of `scored` alone."""
        if self._asked is None:
            refuse("verify", "out of turn", "the target reads `target_inputs` first")
        array, is_bfloat16 = rows(logits)
        levels, few, vocabulary = self._levels, None, 0
        if levels and isinstance(levels[0], Candidates):
            draft, _, few, vocabulary = draft_rows(joined(levels))
        else:
            if len({level.dtype for level in levels}) > 1:
                levels = [as_float32(level) for level in levels]
            draft = np.concatenate(levels) if levels else None
        self._inner.verify(array, is_bfloat16, self._rows("logits", array, self._asked), draft,
                           draft is not None and draft.dtype == np.uint16, self._row_of, self._threads, few, vocabulary)

    def result(self, number: int) -> StepResult:
        """The outcome of a request, after `verify`."""
        return StepResult(*self._inner.result(integer("number", number, -(2**31), 2**31 - 1)))

    @staticmethod
    def _rows(name, array, inputs):
        """For each row of the step so far, its place in the array: that of the input, or of the scored one."""
        count, _ = two_dimensional(name, array)
        if count not in (len(inputs), len(inputs.scored)):
            refuse(f"{name}.shape[0]", count, f"there is a row for each of the {len(inputs)} inputs, or of the {len(inputs.scored)} scored ones")
        row_of = np.zeros(inputs._first_row + len(inputs), np.int64)
        row_of[inputs._first_row + inputs.scored] = inputs.scored if count == len(inputs) else np.arange(count)
        return row_of
