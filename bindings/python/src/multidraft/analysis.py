"""Acceptance rates and bounds of pairs of rows, the resulting speed-ups, and the best trees for given rates."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from . import _core
from ._arrays import integer, real, reals
from ._errors import refuse
from .methods import Law, Method, method as method_of
from .tree import Tree


class Rate(float):
    """An acceptance rate; `error` is its standard error, 0 if it is exact."""

    error = 0.0


class OptimalTree(NamedTuple):
    """A tree, and the expected number of its accepted nodes."""

    tree: Tree
    accepted: float


def alpha_star(p: Any, q: Any, n: int, law: Law | str) -> float:
    """The largest acceptance rate of any lossless verifier for n children drawn from q by a law; p, q: probabilities (V,)."""
    return _core.alpha_star(str(law), reals("p", p), reals("q", q), integer("n", n, 1, 2**24))


def acceptance(p: Any, q: Any, n: int, method: Method | str, *, samples: int = 16384, seed: int = 1) -> Rate:
    """The probability that a method accepts one of n children at a node, a `Rate`. p, q: probabilities (V,). Methods of
    whole trees have no formula and are refused. Rates that take too long to compute are estimated from `samples`."""
    rate, error = _core.acceptance(method_of(method).name, reals("p", p), reals("q", q),
                                   integer("n", n, 1, 2**24), integer("samples", samples, 32, 2**40),
                                   integer("seed", seed, 0, 2**64 - 1))
    result = Rate(rate)
    result.error = error
    return result


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
        reached; or (ranks,) with `depth`, the same for every level.
    """
    table = reals("rates", rates, (1, 2))
    if table.ndim == 1:
        if depth is None:
            refuse("depth", None, "with one row of rates, say how deep the tree may be")
        table = np.tile(table, (integer("depth", depth, 0, 4096), 1))
    parents, accepted = _core.optimal_tree(np.ascontiguousarray(table), integer("nodes", nodes, 0, 4096))
    return OptimalTree(Tree(parents), accepted)
