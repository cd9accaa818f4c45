"""Drawing children and verifying trees."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, overload

import numpy as np

from . import _core
from ._arrays import (are_off, each, four, integer, integers, is_elsewhere, like, root_positions, rows, sampling, shared_id,
                      thread_count, two_dimensional)
from ._errors import refuse
from .candidates import Candidates, draft_rows as rows_of_draft
from .methods import Law, Method, check_shape, law as law_of, laws, method as method_of
from .tree import Tree, as_tree

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_core.forget_pools)


_OFF = (1.0, 0, 1.0, 0.0)  # temperature, top_k, top_p, min_p that change nothing

SUPPORT_ENDED = -2  #: in the place of a token: a child was wanted, and no token was left to draw
PADDING = -3  #: in the place of a token: outside the tree's shape, which was fixed before the draws


@dataclass(frozen=True, eq=False)  # arrays have no one answer
class Children:
    """The children drawn for each row, and their law. Arrays of NumPy; tensors for logits of PyTorch."""

    tokens: Any  #: (rows, n) int32; `SUPPORT_ENDED` (-2) where no token was left to draw, `PADDING` (-3) beyond n
    counts: Any  #: (rows,) int32: number drawn
    certain: Any  #: (rows,) int32: number that are certain
    law: Law

    def __init__(self, tokens, counts, certain, law):
        # What the generated one does, in a third of the time.
        self.__dict__.update(tokens=tokens, counts=counts, certain=certain, law=law)


class Verdict(NamedTuple):
    """The verdict on one tree."""

    path: Any  #: (accepted,) int32: the accepted nodes, root excluded, in order; of NumPy, or a tensor for rows of PyTorch
    tokens: list[int]  #: the emitted tokens: those of these nodes and the one that follows
    accepted: int  #: the number of accepted nodes


class DraftedTree(NamedTuple):
    """A tree with tokens and the law of their draws."""

    tree: Tree
    tokens: np.ndarray  #: (N,) int32; the root's first; `SUPPORT_ENDED` for a child that could not be drawn
    certain: np.ndarray  #: (N,) int32: of each node, the number of its children that are certain
    law: Law
    seed: int | None = None  #: what the draws are addressed by, as `draft_tree` writes it: `verify` takes it from here
    position: int | None = None  #: the root's in its text
    request: int | None = None
    sampling: tuple | None = None  #: (temperature, top_k, top_p, min_p) of the rows that children were drawn from

    def texts(self, text: Sequence[int]) -> list[list[int]]:
        """The text at each node, which the target's row of this node is after: `text`, whose last token is the root's, and the
        tokens from there down to the node. A node that could not be drawn has the text of its parent, and a row that is not read."""
        found = [integers("text", text).tolist()]
        if not found[0] or found[0][-1] != self.tokens[0]:
            refuse("text", found[0][-1:], f"its last token is the root's, {self.tokens[0]}")
        for parent, token in zip(self.tree.parents[1:].tolist(), self.tokens[1:].tolist()):
            found.append([*found[parent], token] if token >= 0 else list(found[parent]))
        return found


@lru_cache(maxsize=None)
def _sampler_of_law(name):
    return method_of(law_of(name).methods[0])


def _sampler(method, law):
    if method is None and type(law) is str:
        return _sampler_of_law(law)
    if method is not None:
        chosen = method_of(method)
        if law is not None and law_of(law) != chosen.law and chosen.name not in law_of(law).methods:
            refuse("law", law, f"{chosen.name} draws by law '{chosen.law}'")
        return chosen
    if law is None:
        refuse("law", None, "say law=.. or method=..: the laws are " + ", ".join(laws()))
    return method_of(law_of(law).methods[0])


def _law_of_draws(chosen, law):
    """The law of what was asked for: lists for several nodes are drawn like others, and keep the law that says so."""
    return laws()[chosen.law] if law is None else law_of(law)


def draft(logits: Any, n: int | None = None, *, law: Law | str | None = None, method: Method | str | None = None,
          temperature: Any = 1.0, top_k: Any = 0, top_p: Any = 1.0, min_p: Any = 0.0, seeds: Any = 0,
          positions: Any = None, nodes: Any = None, tree: Tree | str | Sequence[int] | None = None, level: int | None = None, depths: Any = None,
          ids: Any = None, threads: int = 1) -> Children:
    """Draws children for each row of the draft's logits.

    logits: (rows, vocabulary), float32, float16 or bfloat16; a NumPy array, or any array on the CPU that DLPack exports; or
        `Candidates`, a few tokens of each row.
    n: the number of children of each row; not needed with `tree`.
    law, method: the sampler: that of the law ("sequential", "iid", "stratified" ..) or of the method. Lists that several nodes
        get are drawn by "shared_lists/iid" and the like, which their children keep.

    A node's number in its tree addresses its draws, so it is said which nodes the rows are, in one of two ways.
    tree, level: those nodes of this level of the tree that have children, in order; the root is level 0. With several
        requests, those of the first request come first.
    nodes: the node of each row, or one for all; 0 for roots. Each row is then a request of its own.
    depths: levels of these nodes below the root; with `nodes` below the root, for law "shared_randomness" only.

    positions: of the root in its text: no default, since each step of a text has its own.
    seeds, positions, ids, temperature, top_k, top_p, min_p: one, or one per request.

    Returns `Children`, whose law `verify` checks; tensors for a tensor of PyTorch. The draws do not depend on the batch or on `threads`. Raises
    `InvalidInput` for invalid arguments, and for rows with the same node, seed and position and no ids of their own, which
    would have the same draws. Releases the GIL.
    """
    chosen = _sampler(method, law)
    root_positions(positions)
    if nodes is not None and tree is None and depths is None and level is None and not isinstance(logits, Candidates):
        drawn = _core.draft_usual(chosen.name, logits, n, nodes, temperature, top_k, top_p, min_p, seeds, positions, ids, threads)
        if drawn is not None:
            if type(logits) is not np.ndarray:
                drawn = [like(logits, x) for x in drawn]
            return Children(*drawn, _law_of_draws(chosen, law))
    array, is_bfloat16, few, vocabulary = rows_of_draft(logits)
    count, _ = two_dimensional("logits", array)
    requests, nodes, depths, wanted, n = _level_of(chosen, count, n, nodes, depths, tree, level)
    of = int(requests[-1]) + 1 if count else 0
    seeds, positions = each("seeds", seeds, of, np.uint64), each("positions", positions, of, np.int32)
    if chosen.law != "deterministic":
        shared_id(ids, seeds[requests], positions[requests], nodes)
    tokens, counts, certain = _core.draft(
        chosen.name, array, is_bfloat16, requests, nodes, depths, n, sampling(temperature, top_k, top_p, min_p, of), seeds, positions,
        None if ids is None else each("ids", ids, of, np.uint32), None, wanted, thread_count(threads), few, vocabulary)
    return Children(like(logits, tokens), like(logits, counts), like(logits, certain), _law_of_draws(chosen, law))


def needs_depths(chosen, nodes, other=""):
    """Refuses nodes below the root without their depths, where these address the draws."""
    if chosen.drawn_by_text and np.any(nodes):
        refuse("depths", None, f"{chosen.name} draws by the position in the text: say depths=..{other}")


def _level_of(chosen, count, n, nodes, depths, tree, level):
    """(requests, nodes, depths, numbers of children where they differ, the largest) of the rows of `draft`."""
    if tree is None:
        if level is not None:
            refuse("level", level, "it is a level of tree=..")
        if nodes is None:
            refuse("nodes", None, "a node's number addresses its draws: say nodes=.. (0 for roots), or tree=.. and level=..")
        if n is None:
            refuse("n", None, "it is the number of children of each row")
        nodes = each("nodes", nodes, count, np.int32)
        if depths is None:
            needs_depths(chosen, nodes, ", or tree=.. and level=..")
            depths = 0
        return (np.arange(count, dtype=np.int32), nodes, each("depths", depths, count, np.int32), None,
                integer("n", n, 0, 2**24))
    for name, value in (("nodes", nodes), ("depths", depths)):
        if value is not None:
            refuse(name, value, "tree=.. and level=.. say it")
    tree = as_tree(tree)
    if level is None:
        refuse("level", None, "say which level of the tree these rows are: 0 is the root")
    level = integer("level", level, 0, max(tree.depth - 1, 0))
    children = np.bincount(tree.parents[1:], minlength=len(tree))
    found = np.flatnonzero((tree.depths == level) & (children > 0)).astype(np.int32)
    if count % max(len(found), 1) or (len(found) == 0 and count):
        refuse("logits.shape[0]", count, f"{len(found)} nodes of level {level} have children: there is a row for each of them, "
               "for every request")
    wanted = children[found].astype(np.int32)
    most = int(wanted.max(initial=0))
    if n is not None and (wanted != integer("n", n, 0, 2**24)).any():
        refuse("n", n, f"the nodes of level {level} have {', '.join(map(str, sorted(set(wanted.tolist()))))} children")
    of = count // max(len(found), 1)
    return (np.repeat(np.arange(of, dtype=np.int32), len(found)), np.tile(found, of), np.full(count, level, np.int32),
            None if (wanted == most).all() else np.tile(wanted, of), most)


_OneTree = Tree | DraftedTree | str | Sequence[int] | np.ndarray


@overload
def verify(method: Method | str, tree: _OneTree, tokens: Any = ..., target_logits: Any = ..., draft_logits: Any = ..., *,
           law: Law | str | None = ..., certain: Any = ..., temperature: Any = ..., top_k: Any = ..., top_p: Any = ..., min_p: Any = ...,
           draft_sampling: Sequence[Any] | None = ..., seeds: Any = ..., positions: Any = ..., ids: Any = ..., target_rows: Any = ...,
           draft_rows: Any = ..., threads: int = ..., validate: bool = ..., probabilities: bool = ...) -> Verdict: ...


@overload
def verify(method: Method | str, tree: Sequence[_OneTree], tokens: Any = ..., target_logits: Any = ..., draft_logits: Any = ..., *,
           law: Law | str | None = ..., certain: Any = ..., temperature: Any = ..., top_k: Any = ..., top_p: Any = ..., min_p: Any = ...,
           draft_sampling: Sequence[Any] | None = ..., seeds: Any = ..., positions: Any = ..., ids: Any = ..., target_rows: Any = ...,
           draft_rows: Any = ..., threads: int = ..., validate: bool = ..., probabilities: bool = ...) -> list[Verdict]: ...


def verify(method: Method | str, tree: _OneTree | Sequence[_OneTree], tokens: Any = None,
           target_logits: Any = None, draft_logits: Any = None, *, law: Law | str | None = None, certain: Any = None,
           temperature: Any = None, top_k: Any = None, top_p: Any = None, min_p: Any = None,
           draft_sampling: Sequence[Any] | None = None, seeds: Any = None, positions: Any = None, ids: Any = None,
           target_rows: Any = None, draft_rows: Any = None, threads: int = 1, validate: bool = False,
           probabilities: bool = False) -> Verdict | list[Verdict]:
    """Verifies one tree, or several.

    tree: a `Tree`, the text of a shape or parents; or a `DraftedTree`, which has tokens, certain and law; or a list of
        these.
    tokens: N integers, the root's first; for several trees one after another, or a list of arrays.
    target_logits: (N, vocabulary): row i is the target's after node i, for several trees one after another; float32,
        float16 or bfloat16, a NumPy array or any array on the CPU that DLPack exports.
    draft_logits: the rows that children were drawn from, of the same type or `Candidates`; rows of nodes without children
        are not read, and those of the last nodes may be missing. Optional for methods that do not read them.
    law: how the children were drawn (`Children.law`): a method of another law is refused.
    certain: of each node, the number of its children that are certain (`Children.certain`); for laws "stratified" and
        "top_then_one".
    draft_sampling: (temperature, top_k, top_p, min_p) of the draft, if they differ from the target's.
    positions: of the roots in their texts: no default, since each step of a text has its own. seeds: by default 0.
    temperature, top_k, top_p, min_p: of the target; by default 1, 0, 1, 0. Where a tree was drawn with others it is said which
        ones the target has, the same or not.
    seeds, positions, ids, temperature ..: one, or one per tree. Trees of `draft_tree` know their seeds, positions, ids and
        draft_sampling, which need not be given then; others are refused.
    target_rows, draft_rows: the row of each node, by default row i.
    validate: check all rows first and raise `InvalidInput` for a row that is not a distribution, for children that were not
        drawn from the draft's row (with these parameters), and for a tree that cannot be decided for another reason.
        Otherwise such a tree gets the token -1 where that is noticed, and other trees are not affected.
    probabilities: the rows are float32 probabilities, to which no sampling parameter applies: others than 1, 0, 1, 0 are refused.

    Returns a `Verdict`, or a list of them, with paths as tensors for target_logits of PyTorch. O(nodes), plus the cost of the method. Releases the GIL.
    """
    if probabilities:
        reason = "no sampling parameter applies to probabilities: give logits, or rows that it was applied to"
        are_off(None, (temperature, top_k, top_p, min_p), reason)
        are_off("draft_sampling", () if draft_sampling is None else four("draft_sampling", draft_sampling), reason)
    temperature, top_k, top_p, min_p = _target_sampling(() if probabilities else tree, temperature, top_k, top_p, min_p)
    seeds, positions, ids, draft_sampling = _addresses(tree, seeds, positions, ids, draft_sampling, (temperature, top_k, top_p, min_p))
    if target_rows is None and draft_rows is None and draft_sampling is None:
        verdict = _core.verify_usual(method, tree, tokens, target_logits, draft_logits, law, certain, temperature, top_k,
                                     top_p, min_p, seeds, positions, ids, threads, validate, probabilities)
        if verdict is not None:
            return verdict if type(target_logits) is np.ndarray else verdict._replace(path=like(target_logits, verdict.path))
    chosen = method_of(method)
    trees, single, tokens, certain, law = _trees_of(tree, tokens, certain, law)
    count = len(trees)
    for each_tree in trees if chosen.shapes != "any" else ():
        check_shape(chosen, each_tree)
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
    draft_array, draft_is_bfloat16, few, vocabulary = (None, False, None, 0) if draft_logits is None else rows_of_draft(draft_logits)
    if probabilities:
        if few is not None:
            refuse("draft_logits", repr(draft_logits), "candidates have logits, not probabilities")
        for name, array in (("target_logits", target), ("draft_logits", draft_array)):
            if array is not None and not str(getattr(array, "dtype", "")).endswith("float32"):
                refuse(name + ".dtype", getattr(array, "dtype", type(array).__name__), "rows of probabilities are float32")
    seeds, positions = each("seeds", seeds, count, np.uint64), each("positions", positions, count, np.int32)
    shared_id(ids, seeds, positions)
    params = sampling(temperature, top_k, top_p, min_p, count)
    of_draft = params if draft_sampling is None else sampling(*four("draft_sampling", draft_sampling), count)
    arguments = (
        chosen.name, str(law_of(law)), offsets, parents, tokens, certain, target, target_is_bfloat16, draft_array,
        draft_is_bfloat16, None if target_rows is None else integers("target_rows", target_rows, np.int64),
        None if draft_rows is None else integers("draft_rows", draft_rows, np.int64), params, of_draft,
        seeds, positions, None if ids is None else each("ids", ids, count, np.uint32), thread_count(threads))
    if validate:
        _core.verify(*arguments, True, bool(probabilities), few, vocabulary)
    path, accepted, following = _core.verify(*arguments, False, bool(probabilities), few, vocabulary)
    if validate and count and following.min() < 0:
        refuse("tree", int(np.argmin(following)), "it cannot be decided with these rows: its children are not those that the law "
               "draws from them")
    if single:
        return _verdict(path, tokens, int(accepted[0]), int(following[0]), target_logits)
    verdicts = []
    for b in range(count):
        here = slice(int(offsets[b]), int(offsets[b + 1]))
        verdicts.append(_verdict(path[here], tokens[here], int(accepted[b]), int(following[b]), target_logits))
    return verdicts


def decided(*arguments: Any, **options: Any) -> Any:
    """`verify` that raises for a tree that cannot be decided, with the reason."""
    verdicts = verify(*arguments, **options)
    if min(v.tokens[-1] for v in (verdicts if isinstance(verdicts, list) else [verdicts])) < 0:
        verify(*arguments, **options, validate=True)
    return verdicts


def _listed(tree):
    """(a list of trees, whether one was given alone)."""
    if isinstance(tree, (list, tuple)) and not tree:
        refuse("tree.size", 0, "there is a tree, or a list of one or more")
    single = not isinstance(tree, (list, tuple)) or isinstance(tree, DraftedTree) or isinstance(tree[0], (int, np.integer))
    return [tree] if single else list(tree), single


def _others(drawn, given):
    """The first of some trees that was drawn with other sampling parameters than those given, one or one a tree, or None."""
    for b, tree in enumerate(drawn):
        for own, value in zip(tree.sampling or (), given):
            try:
                found = np.asarray(0 if is_elsewhere(value) else value, np.float64).reshape(-1)
            except (TypeError, ValueError):
                continue  # it is refused where it is read
            with np.errstate(over="ignore"):
                if not is_elsewhere(value) and found.size in (1, len(drawn)) and np.float32(found[b % found.size]) != np.float32(own):
                    return b
    return None


def _target_sampling(tree, *given):
    """The target's (temperature, top_k, top_p, min_p). Those of the draft are no default: which law is wanted is not known then."""
    drawn = [t for t in ([tree] if isinstance(tree, DraftedTree) else tree if isinstance(tree, (list, tuple)) else ())
             if isinstance(t, DraftedTree) and t.sampling is not None]
    for value, name, off, k in zip(given, ("temperature", "top_k", "top_p", "min_p"), _OFF, range(4)):
        if value is None and any(t.sampling[k] != off for t in drawn):
            refuse(name, None, f"the tree was drawn with {next(t.sampling[k] for t in drawn if t.sampling[k] != off)}: say which one the "
                   f"target has, {name}=..")
    return tuple(off if value is None else value for value, off in zip(given, _OFF))


def _addresses(tree, seeds, positions, ids, draft_sampling, target_sampling):
    """(seeds, positions, ids, draft_sampling): those of trees that know theirs, from which others are refused."""
    drawn = [tree] if isinstance(tree, DraftedTree) else tree if isinstance(tree, (list, tuple)) else ()
    drawn = drawn if all(isinstance(t, DraftedTree) for t in drawn) else ()
    without = [b for b, t in enumerate(drawn) if t.position is None]
    if without and len(without) < len(drawn):
        refuse("tree", "a DraftedTree without an address", "others of this list know the seed and position of their draws, and what they "
               "were drawn with: verify the two kinds in calls of their own", without[0])
    if drawn and not without:
        single = drawn is not tree
        found = []
        for name, given, of_tree, dtype in (("seeds", seeds, "seed", np.uint64), ("positions", positions, "position", np.int32),
                                            ("ids", ids, "request", np.uint32)):
            own = [getattr(t, of_tree) for t in drawn]
            if is_elsewhere(given):
                found.append(given)
                continue
            if given is not None and not (single and isinstance(given, int) and given == own[0]):
                for b, (x, y) in enumerate(zip(each(name, given, len(own), dtype).tolist(), own)):
                    if x != y:
                        refuse(name, x, f"this tree was drawn with {y}", b)
            found.append(own[0] if single else own)
        _refuse_equal_addresses(drawn, ids)
        seeds, positions, ids = found
        if draft_sampling is not None:
            other = _others(drawn, four("draft_sampling", draft_sampling))
            if other is not None:
                refuse("draft_sampling", draft_sampling, f"this tree was drawn with {drawn[other].sampling}", -1 if single else other)
        elif _others(drawn, target_sampling) is not None:
            of_trees = [t.sampling or tuple(v[b] if np.ndim(v) else v for v in target_sampling) for b, t in enumerate(drawn)]
            draft_sampling = of_trees[0] if single else tuple(map(list, zip(*of_trees)))
    root_positions(positions)
    return 0 if seeds is None else seeds, positions, ids, draft_sampling


def _refuse_equal_addresses(drawn, ids):
    """Refuses trees of one address, unless a list of ids says that equal draws are meant."""
    if not (ids is None or isinstance(ids, (int, np.integer))):
        return
    seen = {}
    for b, tree in enumerate(drawn):
        first = seen.setdefault((tree.seed, tree.position, tree.request), b)
        if first != b:
            refuse("tree", f"drawn with seed {tree.seed}, position {tree.position} and request {tree.request}",
                   f"so was tree[{first}], and both would get the same draws: draw with a request for each (ids=[..] where that is "
                   "meant)", b)


def _trees_of(tree, tokens, certain, law):
    """(trees, whether it is one, tokens, certain, law): one tree or several, drafted or with their tokens beside them."""
    drafted, single = _listed(tree)
    if all(isinstance(t, DraftedTree) for t in drafted):
        if tokens is not None:
            refuse("tokens", "given", "these trees have their tokens")
        found = {t.law for t in drafted}
        if len(found) > 1:
            refuse("tree", sorted(map(str, found)), "the trees of a batch are of one law")
        own = found.pop()
        if law is not None and law_of(law) != own and str(law) != f"shared_lists/{own}":
            refuse("law", law, f"these trees were drawn by law '{own}'")
        law = own if law is None else law
        if certain is not None:
            refuse("certain", "given", "these trees know which of their children are certain")
        tokens = drafted[0].tokens if single else [t.tokens for t in drafted]
        certain = drafted[0].certain if single else [t.certain for t in drafted]
        drafted = [t.tree for t in drafted]
    for b, one in enumerate(drafted):
        if isinstance(one, DraftedTree):
            refuse("tree", "a DraftedTree", "it has its tokens, and others of this list have none", b)
    trees = [as_tree(t) for t in drafted]
    if law is None:
        refuse("law", None, "say how the children were drawn (Children.law of draft does): the laws are " + ", ".join(laws()))
    return trees, single, tokens, certain, law


def _verdict(path, tokens, accepted, following, target):
    path = path[:accepted]
    return Verdict(like(target, path), [*tokens.take(path).tolist(), following] if accepted else [following], accepted)


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
    if isinstance(cache, np.ma.MaskedArray):
        refuse("cache", "a masked array", "its mask would stay where it is")
    if getattr(cache, "requires_grad", False) is True:
        refuse("cache", "a tensor with a gradient", "it is written to in place, which gradients would not know of: detach() it")
    axis = integer("axis", axis, 0, len(shape) - 1)
    size = int(shape[axis]) if entries is None else entries
    return _core.compact(cache, axis, integer("entries", size, 0, 2**62),
                         integer("context", context, 0, 2**62), integers("kept", kept))
