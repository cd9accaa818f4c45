"""Trees chosen at each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from . import _core
from ._arrays import integer, integers, real, reals
from ._errors import refuse
from .tree import Tree


class Controller:
    """Chooses the tree of each step, or none, with the most expected tokens per second, by the times of calls and by what was
    accepted before, and bounds the loss compared with drafting nothing.

    A choice depends on earlier steps only, so the law of the text does not change, whatever the method. What it learns stays
    from text to text. `multidraft.hf.generate` takes one as `tree`, or makes one with ``tree="auto"``. It is for one thread at a
    time, and does not notice another one.

    >>> choices = multidraft.Controller({1: 0.020, 17: 0.022}, {1: 0.002}, nodes=16)
    >>> tree = choices.choose(depth=6)
    >>> choices.learn(path, target=0.021, draft=0.008)  # the accepted nodes, as Verdict.path has them
    """

    def __init__(self, target: Mapping[int, float], draft: Mapping[int, float], *, step: float = 0.0, inner: float = 0.0,
                 nodes: int = 16, depth: int = 6, children: int = 4, learns_times: bool = True, memory: float = 100.0,
                 prior: float = 0.6, slack: float = 0.0125, credit: float = 1.0) -> None:
        """target, draft: the seconds of a call by its number of rows, at least roughly; linear between the numbers given.
        step, inner: the seconds of the rest of every step, and for every node with children.
        nodes (0 to 256, without the root), depth (0 to 32), children of a node (1 to 8): the largest trees.
        learns_times: with False the times stay as given, so that choices do not depend on a clock.
        memory: the steps after which a step has weight 1/e. prior: the rate at which one child is accepted before anything is
        counted. slack, credit: the fraction of the time that may be lost compared with drafting nothing, and an additional
        allowance in steps for each text. Raises `InvalidInput`.
        """
        self._limit = integer("nodes", nodes, 0, 256)
        self._depth = min(self._limit, integer("depth", depth, 0, 32))
        self._children = integer("children", children, 1, 8)
        if not isinstance(learns_times, (bool, np.bool_)):
            refuse("learns_times", learns_times, "True or False is wanted")
        self._tree = Tree([-1])
        self._chosen = False
        self._inner = _core.Controller(*_points("target", target), *_points("draft", draft), real("step", step),
                                       real("inner", inner), self._limit, depth, self._children, bool(learns_times),
                                       real("memory", memory), real("prior", prior), real("slack", slack),
                                       real("credit", credit))

    @property
    def nodes(self) -> int:
        """The nodes of the largest tree, without the root."""
        return self._limit

    @property
    def depth(self) -> int:
        """The levels of the deepest tree."""
        return self._depth

    @property
    def children(self) -> int:
        """The most children of a node."""
        return self._children

    def start(self) -> None:
        """A new text begins."""
        self._inner.start()

    def choose(self, depth: int, unread: int = 1) -> Tree:
        """The tree of the next step, with `depth` levels at most; the root alone drafts nothing. unread: the tokens of the text
        that the draft has not read, the root included."""
        parents = self._inner.choose(integer("depth", depth, 0, 2**31 - 1), integer("unread", unread, 1, 2**31 - 1))
        self._chosen = True
        if not np.array_equal(parents, self._tree.parents):
            self._tree = Tree(parents)
        return self._tree

    def learn(self, path: Sequence[int] | np.ndarray, *, nodes: int | None = None, target: float | None = None,
              draft: float | None = None, other: float | None = None) -> None:
        """Counts a step with the tree that was chosen last. path: its accepted nodes without the root. nodes: how many of its
        nodes were drafted, all by default, or its first levels. The seconds of the step: of the target's call, of the draft's
        calls, and other ones; None if they were not measured. Several texts with one tree: one call for each, with its share; so a
        step that is counted twice is not noticed. Raises `InvalidInput`, also before the first `choose`."""
        if not self._chosen:
            refuse("learn", "out of turn", "`choose` chooses the tree of a step before")
        size = len(self._tree) if nodes is None else integer("nodes", nodes, 0, 2**31 - 1)
        seconds = []
        for name, value in (("target", target), ("draft", draft), ("other", other)):
            seconds.append(-1.0 if value is None else real(name, value))
            if value is not None and not 0 <= seconds[-1] < np.inf:
                refuse(name, value, "seconds are finite and not negative; None if they were not measured")
        self._inner.learn(size, integers("path", path), *seconds)

    def seconds(self, rows: int) -> tuple[float, float]:
        """The current seconds of a call of the target and of the draft with that many rows."""
        return self._inner.times(integer("rows", rows, 1, 2**31 - 1))[:2]


def _points(name, times):
    if not isinstance(times, Mapping) or not times:
        refuse(name, times, "seconds by the number of rows are wanted, such as {1: 0.020, 16: 0.022}")
    rows = sorted(integer(name, rows, 1, 2**31 - 1) for rows in times)
    seconds = reals(name, [times[r] for r in rows])
    for r, value in zip(rows, seconds.tolist()):
        if not 0 <= value < np.inf:
            refuse(f"{name}[{r}]", value, "seconds are finite and not negative")
    return np.array(rows, np.int32), seconds
