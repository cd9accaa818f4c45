"""Methods and draft laws."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from . import _core
from ._errors import InvalidInput, refuse


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

    def __str__(self):
        return self.name


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


@lru_cache(maxsize=None)
def _described(name):
    return Method(**_core.describe(name))


def method(name: Method | str) -> Method:
    """The method of a name. Raises `InvalidInput` with the most similar names for an unknown name."""
    if isinstance(name, Method):
        return name
    if not isinstance(name, str):
        refuse("method", name, "a name is wanted: multidraft.methods() lists them")
    try:
        return _described(name)
    except InvalidInput as error:
        refuse("method", name, error.reason.replace("method_names()", "multidraft.methods()"))


@lru_cache(maxsize=None)
def methods() -> dict[str, Method]:
    """All methods by name; the first is the default.

    >>> multidraft.methods()["recursive_rejection/sequential"].law
    'sequential'
    """
    return {name: method(name) for name in _core.method_names()}


@lru_cache(maxsize=None)
def laws() -> dict[str, Law]:
    """All laws by name."""
    names = dict.fromkeys(m.law for m in methods().values())
    return {law: Law(law, tuple(m.name for m in methods().values() if m.law == law)) for law in names}


def law(name: Law | str) -> Law:
    """The law of a name. Raises `InvalidInput` with all names for an unknown name."""
    if isinstance(name, Law):
        return name
    if not isinstance(name, str) or name not in laws():
        refuse("law", name, "the laws are " + ", ".join(laws()))
    return laws()[name]
