"""Generation with two models given as Python functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from . import _core
from ._arrays import as_float32, as_numpy as _as_numpy, four, integer, integers, sampling, thread_count
from ._models import checked_features, checked_model, checked_rows, float32_rows
from ._errors import refuse
from ._intervals import interval
from .batch import SUPPORT_ENDED, DraftedTree, decided
from .candidates import Candidates, draft_rows, width
from .methods import Method, check_shape, laws, method as method_of
from .tree import Tree, as_tree

Model = Callable[[list], Any]  #: from a list of token lists to an array (len, vocabulary) of logits


class BlockDraft(Protocol):
    """A draft that gives the rows of all depths in one call (Medusa, DFlash, DSpark).

    `rows` may give `Candidates`, a few tokens of each row. Three methods are optional. ``observe(features, positions)``: gets the target's features (len, width) of the tokens at these
    positions of the text: of the prompt, then after each step of the tokens that were kept, and of no others. The target then
    returns (logits, features), a row of both for each token list. ``parent_term(depth, tokens)``: (len, vocabulary), added to
    the row of this depth where nodes have these tokens. ``candidates_after(depth, tokens)``: `Candidates`, the rows of this
    depth where nodes have these tokens, in place of both: a draft chooses them with its term.

    A text of one token has no features before the first call of `rows`. Each text begins with `observe` at position 0, if it has
    two tokens or more: what is kept of an earlier text goes then.
    """

    def rows(self, text: list[int], depth: int) -> Any:
        """(depth, vocabulary) logits: row d is of the token d + 1 places after the last one of the text. Not read of a draft with
        `candidates_after`."""
        ...


@dataclass
class Generation:
    """The result of `speculate`."""

    tokens: list[int]  #: the new tokens
    target_calls: int = 0
    draft_calls: int = 0
    drafted: int = 0  #: the number of drafted tokens
    accepted: int = 0  #: the number of these that were accepted
    steps: list[int] = field(default_factory=list)  #: the number of tokens emitted by each target call
    #: the tokens, accepted ones and one more, of each step whose tree the limit of tokens did not cut
    whole_steps: list[int] = field(default_factory=list)

    @property
    def block_efficiency(self) -> float:
        """Tokens per target call of whole steps; 0 where there is none."""
        return sum(self.whole_steps) / len(self.whole_steps) if self.whole_steps else 0.0

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """A confidence interval of the block efficiency, of texts like this one; (0, inf) for fewer than two whole steps."""
        return interval([self.whole_steps], level)


def _call(model, name, contexts, vocabulary):
    return checked_rows(model(contexts), name, len(contexts), vocabulary)


def _target(target, contexts, vocabulary, observes):
    """(logits, features), None without a draft that observes them."""
    if not observes:
        return _call(target, "target", contexts, vocabulary), None
    answer = target(contexts)
    if not isinstance(answer, tuple) or len(answer) != 2:
        refuse("target(..)", type(answer).__name__, "the draft observes features: the target returns (logits, features)")
    logits = checked_rows(answer[0], "target", len(contexts), vocabulary)
    return logits, checked_features(answer[1], len(contexts))


def _level(draft, text, paths, level, depth, last, block, vocabulary):
    """The logits of a level, and the rows of a block draft, which is called for the first."""
    contexts = [list(paths[v]) for v in level]  # a model may write to its own
    if not hasattr(draft, "rows"):
        return _call(draft, "draft", contexts, vocabulary), None
    first = block is None
    if first:
        block = draft.rows(list(text), last)
    if hasattr(draft, "candidates_after"):
        few = draft.candidates_after(depth, [path[-1] for path in contexts])
        if not isinstance(few, Candidates):
            refuse("draft.candidates_after(..)", type(few).__name__, "`Candidates` are wanted, a row for each token")
        return checked_rows(few, "draft.candidates_after", len(contexts), vocabulary), True
    if first:
        block = checked_rows(block, "draft.rows", last, None)
        block = block if isinstance(block, Candidates) else float32_rows(block)
    if isinstance(block, Candidates):
        if hasattr(draft, "parent_term"):
            refuse("draft.rows(..)", repr(block), "with a term of the parent's token it is `candidates_after` that gives candidates")
        return block.of_rows([depth] * len(level)), block
    here = np.repeat(block[depth: depth + 1], len(level), 0)
    if hasattr(draft, "parent_term"):
        term = checked_rows(draft.parent_term(depth, [path[-1] for path in contexts]), "draft.parent_term", len(contexts), here.shape[1])
        here = here + float32_rows(term)
    return here, block


def draft_tree(method: Method | str, tree: Tree | str | Sequence[int] | np.ndarray, text: Sequence[int] | np.ndarray | Any,
               draft: Model | BlockDraft, *, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0,
               seed: int = 0, request: int = 0, threads: int = 1) -> tuple[DraftedTree, np.ndarray | Candidates | None]:
    """Draws a tree below the last token of `text`, calling `draft` once per level.

    draft: a function from a list of token lists to an array (len, vocabulary) of logits or to `Candidates`; or a `BlockDraft`,
    which is called once.
    Returns (`DraftedTree`, logits), where row i of the logits is that of node i; rows of nodes that the model did not read
    are zero. They are `Candidates` where the draft gives them. bfloat16 comes as its bits in uint16:
    `verify` takes ``logits.view(ml_dtypes.bfloat16)``. If the tree is the root alone the model is not called, and the logits
    are None. Raises `InvalidInput` for a row with NaN, or without a finite logit.
    """
    checked_model("draft", draft, "rows")
    text = integers("text", text).tolist()
    if not text:
        refuse("text.size", 0, "a tree hangs on the last token of a text")
    drafted, logits, _, _ = _grow(method_of(method), as_tree(tree), text, draft, (temperature, top_k, top_p, min_p), seed,
                                  request, threads)
    return drafted, logits


def _no_rows(nodes, like):
    """Rows of all nodes, of which those of a level are read."""
    if not isinstance(like, Candidates):
        return np.zeros((nodes, int(like.shape[1])), like.dtype)
    k = like.tokens.shape[1]
    return Candidates(np.tile(np.arange(k, dtype=np.int32), (nodes, 1)), np.zeros((nodes, k), np.float32), like.vocabulary)


def _with_rows(logits, level, here):
    """The rows of all nodes with those of a level."""
    if isinstance(logits, Candidates) != isinstance(here, Candidates):
        refuse("draft(..)", repr(here) if isinstance(here, Candidates) else "whole rows",
               "a draft gives whole rows for all levels, or candidates for all")
    if isinstance(here, Candidates):
        if here.tokens.shape[1] != logits.tokens.shape[1]:
            refuse("draft(..)", repr(here), f"the rows of the levels before have {logits.tokens.shape[1]} candidates")
        logits.tokens[level], logits.logits[level] = here.tokens, here.logits
        return logits
    if logits.dtype != here.dtype:  # of another type than the levels before
        logits, here = as_float32(logits), as_float32(here)
    logits[level] = here
    return logits


def _grow(chosen, tree, text, draft, params, seed, request, threads):
    """`draft_tree` with two more results: the texts up to the nodes that were drawn, and the number of calls."""
    check_shape(chosen, tree)
    nodes = len(tree)
    tokens = np.full(nodes, SUPPORT_ENDED, np.int32)  # those below a child that could not be drawn stay so
    tokens[0] = text[-1]
    certain = np.zeros(nodes, np.int32)
    paths = {0: text}
    logits = block = None
    given, params = tuple(params), sampling(*params, 1)
    threads = thread_count(threads)
    seeds = np.array([integer("seed", seed, 0, 2**64 - 1)], np.uint64)
    ids = np.array([integer("request", request, 0, 2**32 - 1)], np.uint32)
    position = np.array([len(text) - 1], np.int32)
    calls = 0
    for depth in range(tree.depth):
        level = [v for v in np.flatnonzero(tree.depths == depth).tolist() if v in paths and len(tree.children(v))]
        if not level:
            break
        calls += block is None
        here, block = _level(draft, text, paths, level, depth, tree.depth, block, None if logits is None else width(logits))
        array, is_bfloat16, few, vocabulary = draft_rows(here)
        values = _as_numpy(array)
        level_rows = here if few is not None else values
        logits = _with_rows(_no_rows(nodes, level_rows) if logits is None else logits, level, level_rows)
        at = np.array(level, np.int32)
        most = max(len(tree.children(v)) for v in level)
        # One call for each number of children that occurs in the level.
        for wanted in range(1, most + 1):
            chosen_rows = [k for k, v in enumerate(level) if len(tree.children(v)) == wanted]
            if not chosen_rows:
                continue
            drawn, _, sure = _core.draft(
                chosen.name, array, is_bfloat16, np.zeros(len(chosen_rows), np.int32), at[chosen_rows],
                np.full(len(chosen_rows), depth, np.int32), wanted, params, seeds, position, ids,
                np.array(chosen_rows, np.int64), None, threads, few, vocabulary)
            for k, row in enumerate(chosen_rows):
                if drawn[k][0] < 0:
                    refuse_no_distribution(values[row], f"node {level[row]}", None if few is None else few[row])
                children = tree.children(level[row])
                tokens[children.start:children.stop] = drawn[k]
                certain[level[row]] = sure[k]
                for child in children:
                    if tokens[child] >= 0:
                        paths[child] = [*paths[level[row]], int(tokens[child])]
    drafted = DraftedTree(tree, tokens, certain, laws()[chosen.law], seed, len(text) - 1, request, given)
    return drafted, logits, paths, calls


def refuse_no_distribution(row: np.ndarray, node: str, tokens: np.ndarray | None = None) -> None:
    """Names what is wrong with a draft's row from which no child could be drawn, if something is."""
    row = as_float32(row)
    for x, what in ((np.isnan(row), "nan"), (np.isposinf(row), "inf")):
        if x.any():
            token = int(np.argmax(x)) if tokens is None else int(tokens[np.argmax(x)])
            refuse("draft(..)", what, f"the row after {node} has this logit of token {token}: it is not a distribution")
    if not np.isfinite(row).any():
        refuse("draft(..)", "-inf", f"the row after {node} has no token with another logit: it is not a distribution")


def speculate(method: Method | str, tree: Tree | str | Sequence[int] | np.ndarray, target: Model, draft: Model | BlockDraft,
              text: Sequence[int] | np.ndarray | Any, tokens: int = 128, *,
              temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0,
              draft_sampling: Sequence[Any] | None = None, seed: int = 0, request: int = 0, stop: int | Collection[int] = (),
              threads: int = 1, callback: Callable[[list], Any] | None = None) -> Generation:
    """Continues `text` by `tokens` tokens. With a lossless method the text has the target's law for any draft.

    method: a name of `methods()`. tree: a `Tree`, or the text of its shape, such as "4x2x2x1".
    target, draft: functions from a list of token lists to an array (len, vocabulary) of logits, one row after each list. A draft
        may give `Candidates`, and it may be a `BlockDraft`, an object with `rows` and, where it reads the target's features,
        `observe`.
    draft_sampling: (temperature, top_k, top_p, min_p) of the draft, by default the target's.
    stop: the tokens, or the one, that end the text and are emitted. callback: called with the tokens of each step.
    request: distinguishes texts with equal seeds. Equal arguments give equal texts if the logits are equal. Returns a
    `Generation`. Raises `InvalidInput`, also for a row of either model that has NaN or no finite logit.
    """
    chosen = method_of(method)
    tree = as_tree(tree)
    check_shape(chosen, tree)
    checked_model("target", target)
    checked_model("draft", draft, "rows")
    text = integers("text", text).tolist()
    if not text:
        refuse("text.size", 0, "there is a token to go on from")
    wanted = integer("tokens", tokens, 0, 2**31 - 1)
    stop = set(integers("stop", [stop] if isinstance(stop, (int, np.integer)) else
                        list(stop) if isinstance(stop, Collection) and not hasattr(stop, "shape") else stop).tolist())
    of_draft = (temperature, top_k, top_p, min_p) if draft_sampling is None else four("draft_sampling", draft_sampling)
    result = Generation([])
    observes = hasattr(draft, "observe")
    if observes and len(text) > 1 and wanted > 0:
        _, features = _target(target, [text[: k + 1] for k in range(len(text) - 1)], None, True)
        draft.observe(features, np.arange(len(text) - 1))
    while len(result.tokens) < wanted and not (result.tokens and result.tokens[-1] in stop):
        left = wanted - len(result.tokens)
        shape = tree.up_to(left - 1)
        drafted, logits, paths, calls = _grow(chosen, shape, text, draft, of_draft, seed, request, threads)
        result.draft_calls += calls
        present = sorted(paths)
        scored, features = _target(target, [list(paths[v]) for v in present], None if logits is None else width(logits), observes)
        result.target_calls += 1
        target_rows = np.zeros(len(shape), np.int64)
        target_rows[present] = np.arange(len(present))
        if logits is None:  # the root alone
            draft_logits = scored
            rows_of_draft = target_rows
        else:
            draft_logits, scored = (logits, scored) if isinstance(logits, Candidates) else _same_type(logits, scored)
            rows_of_draft = None
        verdict = decided(chosen, drafted, None, scored, draft_logits if chosen.reads_draft else None,
                          temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, draft_sampling=of_draft,
                          seeds=seed, positions=len(text) - 1, ids=request, target_rows=target_rows,
                          draft_rows=rows_of_draft if chosen.reads_draft else None, threads=threads)
        emitted = verdict.tokens[: wanted - len(result.tokens)]
        for k, token in enumerate(emitted):
            if token in stop:
                emitted = emitted[: k + 1]
                break
        result.drafted += len(present) - 1
        result.accepted += verdict.accepted
        result.steps.append(len(emitted))
        if left > tree.depth:
            result.whole_steps.append(verdict.accepted + 1)
        result.tokens += emitted
        if observes:
            kept = target_rows[[0, *np.asarray(verdict.path).tolist()]][: len(emitted)]
            draft.observe(features[kept], len(text) - 1 + np.arange(len(emitted)))
        text = text + emitted
        if callback is not None:
            callback(emitted)
    return result


def _same_type(draft_logits, target_logits):
    """Both arrays in one type: float32 if their types differ."""
    name = str(getattr(target_logits, "dtype", "")).rsplit(".", 1)[-1]
    of_draft = "bfloat16" if draft_logits.dtype == np.uint16 else draft_logits.dtype.name
    if name == of_draft and name != "bfloat16":
        return draft_logits, target_logits
    return as_float32(draft_logits), float32_rows(target_logits)
