"""Acceptance rates and bounds of pairs of rows, the resulting speed-ups, and the best trees for given rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _core
from ._arrays import four, integer, integers, real, reals, sampling, thread_count
from ._errors import refuse
from ._models import checked_model, checked_rows, float32_rows
from .batch import SUPPORT_ENDED, DraftedTree, decided
from .candidates import Candidates
from .methods import Law, Method, check_shape, laws, method as method_of
from .tree import Tree, as_tree


class Rate(float):
    """An acceptance rate; `error` is its standard error, 0 if it is exact."""

    error = 0.0


class Accepted(float):
    """The mean number of accepted tokens of a tree, estimated."""

    error = 0.0  #: its standard error
    by_depth: tuple[float, ...] = ()  #: how often that many tokens or more are accepted: 1, 2 ..


class OptimalTree(NamedTuple):
    """A tree, and the expected number of its accepted nodes."""

    tree: Tree
    accepted: float


def alpha_star(p: Any, q: Any, n: int, law: Law | str) -> float:
    """The largest acceptance rate of any lossless verifier for n children drawn from q by a law; p, q: probabilities (V,)."""
    return _core.alpha_star(str(law), reals("p", p), reals("q", q), integer("n", n, 1, 2**24))


def acceptance(p: Any, q: Any, n: int, method: Method | str, *, samples: int = 16384, seed: int = 1) -> Rate:
    """The probability that a method accepts one of n children at a node, a `Rate`. p, q: probabilities (V,). Methods of
    whole trees, naive/conditional_poisson and shared_randomness have no formula and are refused: see `accepted_tokens`. Rates
    that take too long to compute are estimated from `samples`."""
    rate, error = _core.acceptance(method_of(method).name, reals("p", p), reals("q", q),
                                   integer("n", n, 1, 2**24), integer("samples", samples, 32, 2**40),
                                   integer("seed", seed, 0, 2**64 - 1))
    result = Rate(rate)
    result.error = error
    return result


def accepted_tokens(tree: Tree | str | Sequence[int], target: Any, draft: Any, method: Method | str, *, text: Sequence[int] = (0,),
                    samples: int = 4096, seed: int = 1, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0,
                    min_p: float = 0.0, draft_sampling: Sequence[Any] | None = None, threads: int = 1) -> Accepted:
    """The expected number of accepted tokens of one step, an `Accepted`, for every method, those of whole trees among them:
    estimated by drawing and verifying `samples` trees below the last token of `text`.

    target, draft: probabilities (V,), the same after every node; or functions from a list of token lists to (len, V) logits,
        called once for each text that occurs, of the draft also to `Candidates`. The sampling parameters apply to both, to
        probabilities as to their logarithms; draft_sampling: (temperature, top_k, top_p, min_p) of the draft, by default the
        target's.
    """
    chosen, tree = method_of(method), as_tree(tree)
    check_shape(chosen, tree)
    text = tuple(integers("text", text).tolist())
    if not text:
        refuse("text.size", 0, "a tree hangs on the last token of a text")
    samples = integer("samples", samples, 2, 2**32 - 1)
    if tree.depth == 0:
        return Accepted(0.0)
    seed, threads = integer("seed", seed, 0, 2**64 - 1), thread_count(threads)
    params = (temperature, top_k, top_p, min_p)
    of_draft = params if draft_sampling is None else four("draft_sampling", draft_sampling)
    table = sampling(*of_draft, 1)
    children = np.bincount(tree.parents[1:], minlength=len(tree))
    first = [tree.children(v).start for v in range(len(tree))]
    total = squares = 0
    reached = np.zeros(tree.depth + 1, np.int64)
    p, q = _Rows("target", target), _Rows("draft", draft)
    for begin in range(0, samples, 256):
        ids = np.arange(begin, min(begin + 256, samples), dtype=np.uint32)
        tokens = np.full((len(ids), len(tree)), SUPPORT_ENDED, np.int32)
        tokens[:, 0] = text[-1]
        certain = np.zeros_like(tokens)
        paths = [{0: text} for _ in ids]
        places = np.zeros((2, *tokens.shape), np.int64)
        seeds, position = np.full(len(ids), seed, np.uint64), np.full(len(ids), len(text) - 1, np.int32)
        for depth in range(tree.depth + 1):
            level = np.flatnonzero(tree.depths == depth)
            here = [(b, v) for v in level.tolist() for b in range(len(ids)) if v in paths[b]]
            for model, out in ((p, places[0]), (q, places[1])):
                if model is p or depth < tree.depth:
                    found = model.find([paths[b][v] for b, v in here])
                    for (b, v), row in zip(here, found):
                        out[b, v] = row
            for n in sorted(set(children[level].tolist()) - {0}):
                of = [(b, v) for b, v in here if children[v] == n]
                if not of:
                    continue
                requests, nodes = (np.array(x, np.int32) for x in zip(*of))
                drawn, _, sure = _core.draft(chosen.name, q.matrix(), False, requests, nodes, np.full(len(of), depth, np.int32), n, table,
                                             seeds, position, ids, places[1][requests, nodes], None, threads)
                certain[requests, nodes] = sure
                for (b, v), row in zip(of, drawn.tolist()):
                    for k, token in enumerate(row):
                        tokens[b, first[v] + k] = token
                        if token >= 0:
                            paths[b][first[v] + k] = (*paths[b][v], token)
        if p.matrix().shape[1] != q.matrix().shape[1]:
            refuse("draft.vocabulary", q.matrix().shape[1], f"the target's rows have {p.matrix().shape[1]} tokens")
        trees = [DraftedTree(tree, tokens[b], certain[b], laws()[chosen.law]) for b in range(len(ids))]
        reads = chosen.reads_draft
        verdicts = decided(chosen, trees, None, p.matrix(), q.matrix() if reads else None, temperature=temperature, top_k=top_k,
                           top_p=top_p, min_p=min_p, draft_sampling=of_draft, seeds=seeds, positions=position, ids=ids,
                           target_rows=places[0].ravel(), draft_rows=places[1].ravel() if reads else None, threads=threads)
        for verdict in verdicts:
            total += verdict.accepted
            squares += verdict.accepted**2
            reached[: verdict.accepted + 1] += 1
    result = Accepted(total / samples)
    result.error = math.sqrt(max(0.0, squares / samples - float(result) ** 2) / (samples - 1))
    result.by_depth = tuple((reached[1:] / samples).tolist())
    return result


class _Rows:
    """Rows of a model, one for each text, or one for all."""

    def __init__(self, name, model):
        self.name, self.model, self.rows, self.places = name, model, [], {}
        self.joined = None
        if not callable(model):
            if model is None:
                checked_model(name, model)
            row = reals(name, model)
            for k in np.flatnonzero(~(row >= 0))[:1].tolist():
                refuse(name, row[k], "a probability is 0 or larger", k)
            if not abs(row.sum() - 1) < 1e-6:
                refuse(name, row.sum(), "probabilities sum to 1; logits are returned by a function of token lists")
            with np.errstate(divide="ignore"):
                self.joined = np.log(row).astype(np.float32)[None]

    def find(self, texts):
        if not callable(self.model):
            return [0] * len(texts)
        new = [t for t in dict.fromkeys(texts) if t not in self.places]
        if new:
            answer = checked_rows(self.model([list(t) for t in new]), self.name, len(new), None)
            # A copy: a model may return one array again and again.
            logits = answer.whole() if isinstance(answer, Candidates) else np.array(float32_rows(answer))
            if self.rows and logits.shape[1] != self.rows[0].shape[1]:
                refuse(f"{self.name}(..).shape[1]", logits.shape[1], f"its rows so far have {self.rows[0].shape[1]} tokens")
            self.places.update(zip(new, range(len(self.places), len(self.places) + len(new))))
            self.rows.append(logits)
            self.joined = None
        return [self.places[t] for t in texts]

    def matrix(self):
        if self.joined is None:
            self.joined = np.concatenate(self.rows)
            self.rows = [self.joined]
        return self.joined


def block_efficiency(rates: Any) -> float:
    """Tokens per target call, from the acceptance rate of each level, given that the levels above were accepted."""
    return _core.block_efficiency(reals("rates", rates))


def improvement_factor(alpha: float, depth: int, cost: float) -> float:
    """The speed-up by a chain of `depth` tokens at rate alpha, if a draft call takes as long as `cost` target calls."""
    return _core.improvement_factor(real("alpha", alpha), integer("depth", depth, 0, 2**24), real("cost", cost))


def mbsu(efficiency: float, depth: int, size_ratio: float) -> float:
    """The memory-bound speed-up: efficiency / (depth size_ratio + 1), size_ratio = draft's size / target's size."""
    return _core.memory_bound_speed_up(real("efficiency", efficiency), integer("depth", depth, 0, 2**24),
                                       real("size_ratio", size_ratio))


def best_tree(rates: Any, nodes: int, depth: int | None = None) -> OptimalTree:
    """The tree of at most `nodes` nodes below the root with the most expected accepted nodes, an `OptimalTree`.

    rates: (levels, ranks), the probability that the child of a rank is the accepted one, given that its parent was
        reached; or (ranks,), the same for every level. depth: levels of the tree at most; with one row it must be said.
    """
    table = reals("rates", rates, (1, 2))
    if table.ndim == 1:
        if depth is None:
            refuse("depth", None, "with one row of rates, say how deep the tree may be")
        table = np.tile(table, (integer("depth", depth, 0, 4096), 1))
    elif depth is not None:
        table = table[: integer("depth", depth, 0, 4096)]
    parents, accepted = _core.optimal_tree(np.ascontiguousarray(table), integer("nodes", nodes, 0, 4096))
    return OptimalTree(Tree(parents), accepted)
