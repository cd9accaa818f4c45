"""Draft trees, their masks and positions."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from . import _core
from ._arrays import integer, integers
from ._errors import InvalidInput, refuse


class Tree:
    """The shape of a draft tree: nodes in level order, node 0 the root, the last token of the text.

    ``parents[0]`` is -1, parents come before their children and never decrease. Immutable.

    >>> multidraft.Tree([-1, 0, 0, 1])
    Tree([-1, 0, 0, 1])
    >>> multidraft.Tree.branching([3, 1])
    Tree('3x1')
    """

    __slots__ = ("_parents", "_depths", "_offsets", "_first", "_name")

    def __init__(self, parents: Sequence[int] | np.ndarray) -> None:
        """`parents`: N integers. Raises `InvalidInput` unless they are a tree in level order. O(N)."""
        self._parents = np.array(integers("parents", parents))
        self._depths = _core.tree_depths(self._parents)
        self._parents.flags.writeable = self._depths.flags.writeable = False
        self._offsets = np.array((0, len(self._parents)), np.int64)
        self._first = None
        self._name = None

    @classmethod
    def parse(cls, text: str) -> Tree:
        """Parses "4x2x2x1", "fork:3x4", "chain:5", "[[0], [1], [0, 0]]" (choices) or "[-1 0 0 1]" (parents)."""
        if not isinstance(text, str):
            refuse("shape", text, "a text is wanted, such as '4x2x2x1'")
        tree = cls(_core.parse_shape(text))
        if not text.lstrip().startswith(("[", "(")):
            tree._name = text
        return tree

    @classmethod
    def branching(cls, factors: Sequence[int]) -> Tree:
        """A tree with ``factors[l]`` children per node of level l. An empty list: the root alone."""
        factors = integers("factors", factors)
        return cls.parse("x".join(map(str, factors.tolist())) if len(factors) else "0")

    @classmethod
    def chain(cls, length: int) -> Tree:
        """A tree with one candidate per level, for `length` levels."""
        return cls.parse(f"chain:{integer('length', length, 0, 2**20)}")

    @classmethod
    def fork(cls, width: int, length: int) -> Tree:
        """A tree of `width` chains of `length` tokens that branch at the root."""
        return cls.parse(f"fork:{integer('width', width, 1, 2**20)}x{integer('length', length, 0, 2**20)}")

    @classmethod
    def from_choices(cls, choices: Iterable[Sequence[int]]) -> Tree:
        """A sparse tree from paths of ranks in any order, the format of Medusa and EAGLE: ``[(0,), (1,), (0, 0)]``."""
        try:
            choices = [list(path) for path in choices]
        except Exception:
            refuse("choices", choices, "a list of paths of ranks is wanted")
        paths = [[integer(f"choices[{i}]", rank, -(2**31), 2**31 - 1) for rank in path] for i, path in enumerate(choices)]
        try:
            return cls.parse("[" + ", ".join(str(path) for path in paths) + "]" if paths else "0")
        except InvalidInput as e:
            refuse("choices", e.value, e.reason, e.index)

    @classmethod
    def from_any_order(cls, parents: Sequence[int] | np.ndarray) -> tuple[Tree, np.ndarray]:
        """A tree from parents in any order: (tree, order), where node i of the tree was ``order[i]`` in the input. O(N)."""
        order, sorted_parents = _core.level_order(integers("parents", parents))
        return cls(sorted_parents), order

    @property
    def parents(self) -> np.ndarray:
        """The parent of each node, -1 for the root: (N,) int32."""
        return self._parents

    @property
    def depths(self) -> np.ndarray:
        """The number of levels of each node below the root: (N,) int32."""
        return self._depths

    @property
    def depth(self) -> int:
        """The number of levels below the root."""
        return int(self._depths[-1])

    def __len__(self) -> int:
        return len(self._parents)

    def children(self, node: int) -> range:
        """The children of a node, as a range."""
        if self._first is None:
            self._first = np.searchsorted(self._parents, np.arange(len(self) + 1)).tolist()
            self._first[0] = min(1, len(self))
        node = integer("node", node, 0, len(self) - 1)
        return range(max(self._first[node], 1), max(self._first[node + 1], 1))

    def up_to(self, depth: int) -> Tree:
        """The tree without the nodes below a depth; the other nodes keep their numbers."""
        return self if depth >= self.depth else Tree(self._parents[self._depths <= depth])

    def mask(self, dtype: object = bool, context: int = 0) -> Any:
        """The attention mask: each node attends to itself, its ancestors, and `context` columns before the tree.

        `dtype` bool: (N, context + N), True where a node attends. "float32", "float16" or "bfloat16": the same shape, 0
        where it attends and -inf elsewhere, to be added to scores; bfloat16 needs ml_dtypes. A type of PyTorch, such as
        torch.bool or torch.bfloat16: a tensor. "packed": (N, ceil(N / 64))
        uint64, bit j % 64 of word j // 64 for node j, without context.
        """
        context = integer("context", context, 0, 2**31 - 1)
        name = mask_type(dtype)
        if type(dtype).__module__.partition(".")[0] == "torch":
            torch = sys.modules["torch"]
            if name == "bfloat16":
                return torch.from_numpy(_core.mask_bias(self._parents, context, 3).view(np.int16)).view(torch.bfloat16)
            return torch.from_numpy(self.mask(name, context))
        if name == "packed":
            if context:
                refuse("context", context, "a packed mask is of the tree's nodes alone")
            return _core.packed_mask(self._parents)
        if name == "bool":
            return _core.mask_bytes(self._parents, context).view(bool)
        if name == "float32":
            return _core.mask_bias(self._parents, context, 1)
        if name == "float16":
            return _core.mask_bias(self._parents, context, 2).view(np.float16)
        import ml_dtypes

        return _core.mask_bias(self._parents, context, 3).view(ml_dtypes.bfloat16)

    def positions(self, context: int = 0) -> np.ndarray:
        """The position of each node in the text, with `context` tokens before the root: (N,) int32."""
        return _core.positions(self._parents, integer("context", context, 0, 2**31 - 1))

    def __eq__(self, other):
        return np.array_equal(self._parents, other._parents) if isinstance(other, Tree) else NotImplemented

    def __hash__(self):
        return hash(self._parents.tobytes())

    def __reduce__(self):
        return (Tree, (self._parents.tolist(),))

    def __repr__(self):
        if self._name:
            return f"Tree({self._name!r})"
        return f"Tree({self._parents.tolist()})"


def mask_type(dtype: object) -> str:
    """"bool", "float32", "float16", "bfloat16" or "packed", for a type of any framework or its name."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", str(dtype))
    name = name.rsplit(".", 1)[-1].replace("bool_", "bool")
    if name not in ("bool", "float32", "float16", "bfloat16", "packed"):
        refuse("dtype", dtype, "a mask is bool, float32, float16, bfloat16 or 'packed'")
    return name


def as_tree(value: Tree | str | Sequence[int] | np.ndarray) -> Tree:
    """A `Tree` from a `Tree`, the text of a shape or parents."""
    if isinstance(value, Tree):
        return value
    if isinstance(value, str):
        return Tree.parse(value)
    if isinstance(value, (list, tuple)) and value and type(value[0]) is int and value[0] > 0:
        refuse("tree", value, "a list has parents, the root's -1 first: Tree.branching(..) takes the children per level")
    return Tree(value)
