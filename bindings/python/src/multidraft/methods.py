"""Methods and draft laws."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from . import _core
from ._errors import InvalidInput, refuse
from .tree import Tree


@dataclass(frozen=True)
class Method:
    """A method, which is a sampler and the verifier of its law, and its properties."""

    name: str
    summary: str
    law: str  #: how the children of a node are drawn
    shapes: str  #: the trees that it accepts: "any", "pairs" (up to two children per node), "forks" or "chains"
    lossless: bool  #: whether the emitted tokens have the target's distribution
    reads_draft: bool  #: whether verifying reads the draft's logits
    counts_certain: bool  #: whether trees need the number of certain children of each node
    drawn_by_text: bool  #: whether draws depend on the position in the text, so that `draft` reads `depths`
    decides_by_node: bool  #: whether it decides node by node, so that a tree's shape may depend on earlier draws
    lists_may_be_shared: bool  #: whether it verifies trees of law "shared_lists/<law>", whose nodes share their candidates
    children_may_be_left_out: bool  #: whether a child that was drawn may be left out of the tree (token -1)

    def __str__(self):
        return self.name

    def takes(self, tree: Tree) -> bool:
        """Whether it accepts trees of this shape (`shapes`)."""
        children = np.bincount(tree.parents[1:], minlength=1)
        if self.shapes in ("pairs", "chains"):
            return int(children.max()) <= (2 if self.shapes == "pairs" else 1)
        return self.shapes == "any" or (int(children[1:].max(initial=0)) <= 1 and
                                        int(children[0]) * tree.depth == len(tree) - 1)


@dataclass(frozen=True)
class Law:
    """How the children of a node were drawn. `draft` returns the law, and `verify` refuses a method of another law."""

    name: str
    methods: tuple[str, ...]  #: the methods that verify children drawn by this law

    def __str__(self):
        return self.name

    def __eq__(self, other):
        return str(self) == str(other) if isinstance(other, (Law, str)) else NotImplemented

    def __hash__(self):
        return hash(self.name)


_GROWN = "since its trees grow with their draws, and a call here draws the children of given nodes"
_SEVERAL = "since a call here draws from one draft model"
_LOSSY = "since it changes the text's distribution"
_UNDRAFTED = "since nothing is drawn for it: naive/deterministic verifies candidates of any origin, such as those of a look-up"

#: The library's other methods, and why they are not here.
CPP_ONLY = {
    **dict.fromkeys(("recursive_rejection/stochastic_beam", "recursive_rejection/sequences", "k_seq/sequences",
                     "recursive_rejection/best_first", "recursive_rejection/early_stop", "recursive_rejection/early_stop_hidden",
                     "naive/best_first"), _GROWN),
    **dict.fromkeys(("multi_round/independent", "naive/independent"), _SEVERAL),
    **dict.fromkeys(("lossy/typical_acceptance", "lossy/joint_likelihood", "lossy/target_initialised", "lossy/bild",
                     "lossy/joint_decoding"), _LOSSY),
    **dict.fromkeys(("autoregressive", "naive/lookup", "naive/deterministic+lookup"), _UNDRAFTED),
}


@lru_cache(maxsize=None)
def _described(name):
    return Method(**_core.describe(name))


def method(name: Method | str) -> Method:
    """The method of a name. Raises `InvalidInput` with the most similar names for an unknown name."""
    if isinstance(name, Method):
        return name
    if not isinstance(name, str):
        refuse("method", name, "a name is wanted: multidraft.methods() lists them")
    if name in CPP_ONLY:
        refuse("method", name, f"it is in the C++ library only, {CPP_ONLY[name]}")
    try:
        return _described(name)
    except InvalidInput as error:
        refuse("method", name, error.reason.replace("method_names()", "multidraft.methods()"))


_SHAPES = {"pairs": "trees with up to two children a node, such as '2x1'", "forks": "paths that branch at the root, such as "
           "'fork:3x4'", "chains": "one child a node, such as 'chain:3'"}


def check_shape(chosen: Method, tree: Tree) -> None:
    """Refuses a tree whose shape the method does not accept."""
    if not chosen.takes(tree):
        refuse("tree", tree, f"{chosen.name} takes {_SHAPES[chosen.shapes]}")


@lru_cache(maxsize=None)
def methods() -> dict[str, Method]:
    """All methods by name; the first is the default.

    >>> multidraft.methods()["recursive_rejection/sequential"].law
    'sequential'
    """
    return {name: method(name) for name in _core.method_names()}


@lru_cache(maxsize=None)
def laws() -> dict[str, Law]:
    """All laws by name. Those of `draft` are the laws of methods; a tree in which several nodes have one list of candidates,
    drawn once (one for each level, say), is of law "shared_lists/<law>", which not all methods of the law verify."""
    names = dict.fromkeys(m.law for m in methods().values())
    found = {law: Law(law, tuple(m.name for m in methods().values() if m.law == law)) for law in names}
    for name in names:
        sharing = tuple(m for m in found[name].methods if methods()[m].lists_may_be_shared)
        if sharing:
            found[_SHARED + name] = Law(_SHARED + name, sharing)
    return found


_SHARED = "shared_lists/"


def law(name: Law | str) -> Law:
    """The law of a name. Raises `InvalidInput` with all names for an unknown name."""
    if isinstance(name, Law):
        return name
    if not isinstance(name, str) or name not in laws():
        refuse("law", name, "the laws are " + ", ".join(laws()))
    return laws()[name]
