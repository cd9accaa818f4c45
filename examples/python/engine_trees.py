"""A serving engine's trees: children and siblings by links, as EAGLE's trees lie in such engines, verified in one call.

`multidraft.torch.verify_linked_trees` has the tensors of SGLang's tree verification, so that it can stand in its place; the
method is any of the library's that fits how the candidates were drawn. Needs torch.
"""

import torch

import multidraft
import multidraft.torch

# Two requests, six nodes each: a node's first child, and the next child of its parent; -1 for none.
candidates = torch.tensor([[7, 3, 9, 4, 1, 5], [2, 8, 6, 0, 3, 1]])
next_token = torch.tensor([[1, 3, -1, 5, -1, -1], [1, 2, 3, -1, 5, -1]])
next_sibling = torch.tensor([[-1, 2, 4, -1, -1, -1], [-1, 4, -1, -1, -1, -1]])
index = torch.arange(12).reshape(2, 6)  # which entry of `predicts` is each node's

torch.manual_seed(1)
target_probs = torch.softmax(torch.randn(2, 6, 10) * 2, -1)
for b in range(2):  # a target that likes the first path
    node = 0
    while (child := int(next_token[b, node])) >= 0:
        target_probs[b, node] = 0.2 * target_probs[b, node]
        target_probs[b, node, candidates[b, child]] += 0.8
        node = child

for step in range(3):
    predicts = torch.full((12,), -1, dtype=torch.int32)
    accept_index = torch.full((2, 4), -1, dtype=torch.int32)
    accept_token_num = torch.zeros(2, dtype=torch.int32)
    multidraft.torch.verify_linked_trees(predicts, accept_index, accept_token_num, candidates, index, next_token, next_sibling,
                                         target_probs, method="naive/deterministic", law="deterministic", seeds=1, positions=step)
    for b in range(2):
        path = accept_index[b][accept_index[b] >= 0]
        print(f"step {step}, request {b}: {int(accept_token_num[b])} accepted, emitted {predicts[path].tolist()}")

# Candidates that were drawn, not picked, want a method of their law: what does not fit is refused, with what does.
try:
    multidraft.torch.verify_linked_trees(predicts, accept_index, accept_token_num, candidates, index, next_token, next_sibling,
                                         target_probs, method="naive/deterministic", law="sequential")
except ValueError as error:
    print(error)
