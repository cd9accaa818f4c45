"""Trees chosen at each step."""

import numpy as np
import pytest

import multidraft

TIMES = ({1: 0.010, 8: 0.011, 17: 0.012}, {1: 0.0005})


def first_children(tree):
    path, node = [], 0
    while len(tree.children(node)):
        node = tree.children(node).start
        path.append(node)
    return path


def test_choices_follow_what_is_accepted():
    choices = multidraft.Controller(*TIMES, learns_times=False)
    assert (choices.nodes, choices.depth, choices.children) == (16, 6, 4)
    choices.start()
    deep = 0
    for _ in range(200):
        tree = choices.choose(depth=6)
        assert len(tree) <= 17 and tree.depth <= 6
        choices.learn(first_children(tree), target=0.011, draft=0.003, other=0.0001)
        deep += tree.depth >= 4
    assert deep > 100
    none = 0
    for step in range(800):
        none += len(choices.choose(depth=6)) == 1 and step >= 600
        choices.learn([])
    assert none > 100
    assert len(choices.choose(depth=0)) == 1 and choices.choose(1).depth <= 1


def test_times_are_learnt():
    choices = multidraft.Controller({1: 0.010}, {1: 0.001}, nodes=4)
    assert choices.seconds(3) == (0.010, 0.001)
    for _ in range(100):
        tree = choices.choose(depth=4)
        choices.learn(first_children(tree), target=0.02, draft=0.001 * tree.depth, other=0.0)
    assert choices.seconds(1)[0] > 0.015


def test_refusals():
    choices = multidraft.Controller(*TIMES)
    tree = choices.choose(depth=2)
    for call, part in ((lambda: multidraft.Controller({}, {1: 1}), "target = {}"),
                       (lambda: multidraft.Controller({0: 1.0}, {1: 1}), "target = 0"),
                       (lambda: multidraft.Controller({1: np.nan}, {1: 1}), r"target\[1\] = nan"),
                       (lambda: multidraft.Controller({1: 1.0}, {2: -1}), r"draft\[2\] = -1"),
                       (lambda: multidraft.Controller({1: 1.0}, [1]), "draft = "),
                       (lambda: multidraft.Controller(*TIMES, nodes=257), "nodes = 257"),
                       (lambda: multidraft.Controller(*TIMES, children=0), "children = 0"),
                       (lambda: multidraft.Controller(*TIMES, depth=33), "depth = 33"),
                       (lambda: multidraft.Controller(*TIMES, memory=np.nan), "memory = nan"),
                       (lambda: multidraft.Controller(*TIMES, prior=1.0), "prior = 1"),
                       (lambda: multidraft.Controller(*TIMES, learns_times=2), "learns_times = 2"),
                       (lambda: multidraft.Controller(*TIMES, step=-1.0), "times.step = -1"),
                       (lambda: choices.choose(-1), "depth = -1"),
                       (lambda: choices.choose(2, unread=0), "unread = 0"),
                       (lambda: choices.learn([len(tree)]), r"path\[0\]"),
                       (lambda: choices.learn([], nodes=99), "nodes = 99"),
                       (lambda: choices.learn([], target="1"), "target = 1")):
        with pytest.raises(multidraft.InvalidInput, match=part):
            call()


def test_a_step_is_counted_after_its_tree_was_chosen():
    choices = multidraft.Controller(*TIMES)
    with pytest.raises(multidraft.InvalidInput, match="learn = out of turn"):
        choices.learn([])
    choices.choose(depth=2)
    choices.learn([])
    choices.learn([])  # of another text with this tree
