"""Drawing children and verifying trees."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from . import _core
from ._arrays import each, four, integer, integers, rows, sampling, thread_count, two_dimensional
from ._errors import refuse
from .methods import Law, Method, law as law_of, laws, method as method_of
from .tree import Tree, as_tree

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_core.forget_pools)


@dataclass(frozen=True)
class Children:
    """The children drawn for each row, and their law."""

    tokens: np.ndarray  #: (rows, n) int32; -1 if the row's support was exhausted
    counts: np.ndarray  #: (rows,) int32: number drawn
    certain: np.ndarray  #: (rows,) int32: number that are certain
    law: Law

    def __init__(self, tokens, counts, certain, law):
        # What the generated one does, in a third of the time.
        self.__dict__.update(tokens=tokens, counts=counts, certain=certain, law=law)


class Verdict(NamedTuple):
    """The verdict on one tree."""

    path: np.ndarray  #: (accepted,) int32: the accepted nodes, root excluded, in order
    tokens: list  #: the emitted tokens: those of these nodes and the one that follows
    accepted: int  #: the number of accepted nodes


class DraftedTree(NamedTuple):
    """A tree with tokens and the law of their draws."""

    tree: Tree
    tokens: np.ndarray  #: (N,) int32; the root's first; -1 for a child that could not be drawn
    certain: np.ndarray  #: (N,) int32: of each node, the number of its children that are certain
    law: Law


@lru_cache(maxsize=None)
def _sampler_of_law(name):
    return method_of(law_of(name).methods[0])


def _sampler(method, law):
    if method is None and type(law) is str:
        return _sampler_of_law(law)
    if method is not None:
        chosen = method_of(method)
        if law is not None and law_of(law) != chosen.law:
            refuse("law", law, f"{chosen.name} draws by law '{chosen.law}'")
        return chosen
    if law is None:
        refuse("law", None, "say law=.. or method=..: the laws are " + ", ".join(laws()))
    return method_of(law_of(law).methods[0])


def draft(logits: Any, n: int, *, law: Law | str | None = None, method: Method | str | None = None, temperature: Any = 1.0,
          top_k: Any = 0, top_p: Any = 1.0, min_p: Any = 0.0, seeds: Any = 0, positions: Any = 0, nodes: Any = None,
          depths: Any = None, ids: Any = None, threads: int = 1) -> Children:
    """Draws n children for each row of the draft's logits.

    logits: (rows, vocabulary), float32, float16 or bfloat16; a NumPy array, or any array on the CPU that DLPack exports.
    law, method: the sampler: that of the law ("sequential", "iid", "stratified" ..) or of the method.
    seeds, positions, ids, temperature, top_k, top_p, min_p: one, or one per row.
    nodes: the node of each row in its tree; by default 0, 1, 2 .. Rows with the same seed, position and id need different
        nodes: equal ones give equal draws.
    depths: levels of these nodes below the root; read for law "shared_randomness".

    Returns `Children`, whose law `verify` checks. The draws do not depend on the batch or on `threads`. Raises
    `InvalidInput` for invalid arguments. Releases the GIL.
    """
    chosen = _sampler(method, law)
    if nodes is None and depths is None:
        drawn = _core.draft_usual(chosen.name, logits, n, temperature, top_k, top_p, min_p, seeds, positions, ids, threads)
        if drawn is not None:
            return Children(*drawn, laws()[chosen.law])
    array, is_bfloat16 = rows(logits)
    count, _ = two_dimensional("logits", array)
    n = integer("n", n, 0, 2**24)
    requests = np.arange(count, dtype=np.int32)
    nodes = requests if nodes is None else each("nodes", nodes, count, np.int32)
    depths = np.zeros(count, np.int32) if depths is None else each("depths", depths, count, np.int32)
    tokens, counts, certain = _core.draft(
        chosen.name, array, is_bfloat16, requests, nodes, depths, n, sampling(temperature, top_k, top_p, min_p, count),
        each("seeds", seeds, count, np.uint64), each("positions", positions, count, np.int32),
        None if ids is None else each("ids", ids, count, np.uint32), None, thread_count(threads))
    return Children(tokens, counts, certain, laws()[chosen.law])


def verify(method: Method | str, tree: Tree | DraftedTree | str | Sequence[Any], tokens: Any = None,
           target_logits: Any = None, draft_logits: Any = None, *, law: Law | str | None = None, certain: Any = None,
           temperature: Any = 1.0, top_k: Any = 0, top_p: Any = 1.0, min_p: Any = 0.0,
           draft_sampling: Sequence[Any] | None = None, seeds: Any = 0, positions: Any = 0, ids: Any = None,
           target_rows: Any = None, draft_rows: Any = None, threads: int = 1, validate: bool = False,
           probabilities: bool = False) -> Verdict | list[Verdict]:
    """Verifies one tree, or several.

    tree: a `Tree`, the text of a shape or parents; or a `DraftedTree`, which has tokens, certain and law; or a list of
        these.
    tokens: N integers, the root's first; for several trees one after another, or a list of arrays.
    target_logits: (N, vocabulary): row i is the target's after node i, for several trees one after another; float32,
        float16 or bfloat16, a NumPy array or any array on the CPU that DLPack exports.
    draft_logits: the rows that children were drawn from, of the same type; rows of nodes without children are not read.
        Optional for methods that do not read them.
    law: how the children were drawn (`Children.law`): a method of another law is refused.
    certain: of each node, the number of its children that are certain (`Children.certain`); for laws "stratified" and
        "top_then_one".
    draft_sampling: (temperature, top_k, top_p, min_p) of the draft, if they differ from the target's.
    seeds, positions, ids, temperature ..: one, or one per tree.
    target_rows, draft_rows: the row of each node, by default row i.
    validate: check all rows first and raise `InvalidInput` for a row that is not a distribution. Otherwise such a tree
        gets the token -1, and other trees are not affected.
    probabilities: the rows are float32 probabilities, to which no sampling parameter applies.

    Returns a `Verdict`, or a list of them. O(nodes), plus the cost of the method. Releases the GIL.
    """
    if target_rows is None and draft_rows is None and draft_sampling is None:
        verdict = _core.verify_usual(method, tree, tokens, target_logits, draft_logits, law, certain, temperature, top_k,
                                     top_p, min_p, seeds, positions, ids, threads, validate, probabilities)
        if verdict is not None:
            return verdict
    chosen = method_of(method)
    trees, single, tokens, certain, law = _trees_of(tree, tokens, certain, law)
    count = len(trees)
    if tokens is None or target_logits is None:
        refuse("target_logits" if tokens is not None else "tokens", None, "this is read")
    if count == 1:
        parents, offsets = trees[0].parents, trees[0]._offsets
    else:
        parents = np.concatenate([t.parents for t in trees])
        offsets = np.zeros(count + 1, np.int64)
        np.cumsum([len(t) for t in trees], out=offsets[1:])
    tokens = _joined("tokens", tokens, len(parents))
    if chosen.counts_certain:
        if certain is None:
            refuse("certain", None, f"trees of law '{chosen.law}' say how many children of each node are certain")
        certain = _joined("certain", certain, len(parents))
    else:
        certain = None
    target, target_is_bfloat16 = rows(target_logits)
    draft_array, draft_is_bfloat16 = (None, False) if draft_logits is None else rows(draft_logits)
    if probabilities:
        for name, array in (("target_logits", target), ("draft_logits", draft_array)):
            if array is not None and not str(getattr(array, "dtype", "")).endswith("float32"):
                refuse(name + ".dtype", getattr(array, "dtype", type(array).__name__), "rows of probabilities are float32")
    params = sampling(temperature, top_k, top_p, min_p, count)
    of_draft = params if draft_sampling is None else sampling(*four("draft_sampling", draft_sampling), count)
    arguments = (
        chosen.name, str(law_of(law)), offsets, parents, tokens, certain, target, target_is_bfloat16, draft_array,
        draft_is_bfloat16, None if target_rows is None else integers("target_rows", target_rows, np.int64),
        None if draft_rows is None else integers("draft_rows", draft_rows, np.int64), params, of_draft,
        each("seeds", seeds, count, np.uint64), each("positions", positions, count, np.int32),
        None if ids is None else each("ids", ids, count, np.uint32), thread_count(threads))
    if validate:
        _core.verify(*arguments, True, bool(probabilities))
    path, accepted, following = _core.verify(*arguments, False, bool(probabilities))
    if single:
        return _verdict(path, tokens, int(accepted[0]), int(following[0]))
    verdicts = []
    for b in range(count):
        here = slice(int(offsets[b]), int(offsets[b + 1]))
        verdicts.append(_verdict(path[here], tokens[here], int(accepted[b]), int(following[b])))
    return verdicts


def _listed(tree):
    """(a list of trees, whether one was given alone)."""
    single = not isinstance(tree, (list, tuple)) or isinstance(tree, DraftedTree) or not tree or \
        isinstance(tree[0], (int, np.integer))
    return [tree] if single else list(tree), single


def _trees_of(tree, tokens, certain, law):
    """(trees, whether it is one, tokens, certain, law): one tree or several, drafted or with their tokens beside them."""
    drafted, single = _listed(tree)
    if all(isinstance(t, DraftedTree) for t in drafted):
        if tokens is not None:
            refuse("tokens", "given", "these trees have their tokens")
        found = {t.law for t in drafted}
        if len(found) > 1:
            refuse("tree", sorted(map(str, found)), "the trees of a batch are of one law")
        law = found.pop() if law is None else law
        tokens = drafted[0].tokens if single else [t.tokens for t in drafted]
        certain = drafted[0].certain if single else [t.certain for t in drafted]
        drafted = [t.tree for t in drafted]
    trees = [as_tree(t) for t in drafted]
    if law is None:
        refuse("law", None, "say how the children were drawn (Children.law of draft does): the laws are " + ", ".join(laws()))
    return trees, single, tokens, certain, law


def _verdict(path, tokens, accepted, following):
    path = path[:accepted]
    return Verdict(path, [*tokens.take(path).tolist(), following] if accepted else [following], accepted)


def _joined(name, values, count):
    if isinstance(values, (list, tuple)) and values and not isinstance(values[0], (int, np.integer)):
        values = np.concatenate([integers(f"{name}[{i}]", v) for i, v in enumerate(values)])
    array = integers(name, values)
    if len(array) != count:
        refuse(name + ".size", len(array), f"the trees have {count} nodes, their roots among them")
    return array


def distributions(logits: Any, *, temperature: Any = 1.0, top_k: Any = 0, top_p: Any = 1.0,
                  min_p: Any = 0.0) -> np.ndarray:
    """The distributions of rows of logits: (rows, vocabulary) float32. Sampling parameters: one, or one per row."""
    array, is_bfloat16 = rows(logits)
    count, _ = two_dimensional("logits", array)
    return _core.distributions(array, is_bfloat16, sampling(temperature, top_k, top_p, min_p, count))


def compact(cache: Any, context: int, kept: Any, *, axis: int = 0, entries: int | None = None) -> int:
    """Compacts a cache in place along an axis: its first `context` entries stay, and entries ``context + kept[k]`` follow
    them; `kept` increases (0 for the root, then the accepted path). Returns the new number of entries.

    cache: a writable array on the CPU. entries: the number in use, by default all.
    """
    shape = getattr(cache, "shape", None)
    if not isinstance(shape, (tuple, list)):
        refuse("cache", type(cache).__name__, "an array that may be written to is wanted")
    axis = integer("axis", axis, 0, len(shape) - 1)
    size = int(shape[axis]) if entries is None else entries
    return _core.compact(cache, axis, integer("entries", size, 0, 2**62),
                         integer("context", context, 0, 2**62), integers("kept", kept))
