"""A user's program: mypy --strict finds nothing in it (test_stubs.py), and it runs."""
import numpy as np
from numpy.typing import NDArray

import multidraft
from multidraft import analysis, proof


def model(texts: list[list[int]]) -> NDArray[np.float32]:
    return np.zeros((len(texts), 4), np.float32)


tree = multidraft.Tree.branching([3, 1])
text = multidraft.speculate("nested_ranked_block/stratified", tree, model, model, [1, 2], tokens=60)
efficiency: float = text.block_efficiency
low, high = text.interval()
tokens: list[int] = text.tokens


class Block:
    def rows(self, text: list[int], depth: int) -> NDArray[np.float32]:
        return np.zeros((depth, 4), np.float32)


block: multidraft.BlockDraft = Block()
drafted: int = multidraft.speculate("traversal/sequential", tree, model, block, [1], tokens=10).draft_calls
rows = np.zeros((1, 4), np.float32)
children = multidraft.draft(rows, tree=tree, level=0, law="sequential", seeds=1, positions=3)
drawn: NDArray[np.int32] = children.tokens
few = multidraft.Candidates.concatenate([multidraft.Candidates.largest(rows, 2), multidraft.Candidates([[0, 1]], [[0.5, 1.0]], 4)])
tree_of_few, logits = multidraft.draft_tree("naive/iid", [-1, 0], np.array([1, 2]), lambda texts: few.of_rows([0] * len(texts)))
assert isinstance(logits, multidraft.Candidates)
ends = {3: "end"}
emitted: list[int] = multidraft.speculate("naive/iid", [-1, 0], model, model, np.array([1, 2]), tokens=4, draft_sampling=[1.0, 0, 1.0, 0.0], stop=ends.keys()).tokens
step = multidraft.Step()
number: int = step.add("naive/iid", np.array([1, 2]), [-1, 0], draft_sampling=[1.0, 0, 1.0, 0.0])
verdict = multidraft.verify("recursive_rejection/sequential", "3", [1, 2, 3, 0], np.zeros((4, 4), np.float32), np.zeros((1, 4), np.float32), law=children.law, positions=0)
path: NDArray[np.int32] = verdict.path
accepted: int = verdict.accepted
rate: float = analysis.acceptance([0.5, 0.5], [0.1, 0.9], 2, "naive/iid")
error: float = analysis.accepted_tokens("2x1", [0.5, 0.5], [0.1, 0.9], "naive/iid").error
best = analysis.best_tree([[0.5, 0.2]], 2).tree
names: list[str] = list(multidraft.methods())
choices = multidraft.Controller({1: 0.01}, {1: 0.001})
size: int = len(choices.choose(depth=3))
try:
    multidraft.Tree([1])
except multidraft.InvalidInput as refused:
    argument: str = refused.argument
assert np.asarray(tree.mask()).shape == (7, 7) and size > 0 and low <= efficiency <= high and proof.__doc__
