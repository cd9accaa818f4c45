import pickle

import numpy as np
import pytest

import multidraft
from multidraft import Tree


def ancestors(parents, node):
    found = set()
    while node >= 0:
        found.add(node)
        node = parents[node]
    return found


@pytest.mark.parametrize("tree", [Tree.branching([3, 2]), Tree.chain(5), Tree.fork(2, 3), Tree([-1]), Tree.branching([70, 1]),
                                  Tree.from_choices([(0,), (1,), (0, 0), (1, 0), (0, 1)])])
def test_masks_are_ancestors(tree):
    wanted = np.array([[j in ancestors(tree.parents, i) for j in range(len(tree))] for i in range(len(tree))])
    assert np.array_equal(tree.mask(), wanted)
    with_context = tree.mask(context=3)
    assert with_context.shape == (len(tree), len(tree) + 3) and with_context[:, :3].all()
    assert np.array_equal(with_context[:, 3:], wanted)
    for dtype in (np.float32, "float16"):
        bias = tree.mask(dtype)
        assert bias.dtype == np.dtype(dtype)
        assert np.array_equal(bias, np.where(wanted, 0, -np.inf))
    packed = tree.mask("packed")
    bits = np.unpackbits(packed.view(np.uint8), axis=1, bitorder="little")[:, : len(tree)].astype(bool)
    assert np.array_equal(bits, wanted)
    assert tree.positions(10).tolist() == [10 + len(ancestors(tree.parents, i)) - 1 for i in range(len(tree))]
    for v in range(len(tree)):
        assert list(tree.children(v)) == [c for c in range(len(tree)) if tree.parents[c] == v]


def test_shapes():
    assert Tree.branching([2, 1]) == Tree([-1, 0, 0, 1, 2]) == Tree.parse("2x1") == Tree.parse("[-1 0 0 1 2]")
    assert Tree.branching([]) == Tree.parse("0") == Tree([-1])
    assert Tree.chain(2) == Tree([-1, 0, 1]) == Tree.fork(1, 2)
    with pytest.raises(ValueError, match="no zero"):
        Tree.parse("2x1\0x3")
    assert repr(Tree.parse("2x1")) == "Tree('2x1')" and repr(Tree([-1, 0])) == "Tree([-1, 0])"
    assert Tree.parse("3x2x1").up_to(1) == Tree.parse("3")
    assert pickle.loads(pickle.dumps(Tree.parse("3x2"))) == Tree.parse("3x2")
    assert len({Tree.parse("2x1"), Tree([-1, 0, 0, 1, 2])}) == 1
    tree, order = Tree.from_any_order([3, 3, 0, -1, 1])
    assert tree == Tree([-1, 0, 0, 1, 2]) and order.tolist() == [3, 0, 1, 2, 4]
    with pytest.raises(ValueError):
        tree.parents[0] = 5


@pytest.mark.parametrize("call, argument, part", [
    (lambda: Tree([-1, 0, 2]), "parents", "before its child"),
    (lambda: Tree([]), "parents.size", "root"),
    (lambda: Tree([0]), "parents", "root"),
    (lambda: Tree([[-1]]), "parents.ndim", "one dimension"),
    (lambda: Tree([-1.0, 0.5]), "parents.dtype", "integers"),
    (lambda: Tree([-1, 2**40]), "parents", "an integer is in"),
    (lambda: Tree("no tree"), "parents.dtype", "integers"),
    (lambda: Tree.parse("4xy"), "shape", "whole numbers"),
    (lambda: Tree.parse(4), "shape", "text"),
    (lambda: Tree.branching([3, 0]), "shape", "at least one child"),
    (lambda: Tree.from_choices([(1,)]), "choices", "without gaps"),
    (lambda: Tree.chain(-1), "length", "lies in"),
    (lambda: Tree([-1]).mask("int7"), "dtype", "packed"),
    (lambda: Tree([-1]).mask(context=-1), "context", "lies in"),
    (lambda: Tree([-1]).children(1), "node", "lies in"),
    (lambda: Tree.from_any_order([-1, 2, 1]), "parents", "not connected"),
])
def test_refusals(call, argument, part):
    with pytest.raises(multidraft.InvalidInput) as refused:
        call()
    assert refused.value.argument == argument
    assert part in str(refused.value)


def test_compaction():
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float16, np.int8):
        for axis in (0, 1, 2):
            cache = (rng.normal(size=(4, 9, 11, 3)) * 50).astype(dtype)
            before = cache.copy()
            kept = [0, 2, 3]
            context = 1
            size = cache.shape[axis]
            left = multidraft.compact(cache, context, kept, axis=axis) if size >= 5 else None
            if left is None:
                with pytest.raises(ValueError):
                    multidraft.compact(cache, context, kept, axis=axis)
                continue
            assert left == 4
            wanted = np.take(before, [0, 1, 3, 4], axis=axis)
            assert np.array_equal(np.take(cache, range(4), axis=axis), wanted)
    with pytest.raises(ValueError, match="increase"):
        multidraft.compact(np.zeros((5, 2)), 1, [2, 1])
    assert multidraft.compact(np.zeros((5, 0)), 1, [0, 2]) == 3
    for context, kept in ((6, []), (-1, []), (1, [2, 1]), (1, [4])):
        with pytest.raises(ValueError):
            multidraft.compact(np.zeros((5, 0)), context, kept)
    assert multidraft.compact(np.zeros(8, np.float32)[None], 0, [0]) == 1  # any stride of a dimension of one
    frozen = np.zeros((5, 2))
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="may be written"):
        multidraft.compact(frozen, 1, [0])
    assert multidraft.compact(np.zeros((5, 0)), 1, [0]) == 2
