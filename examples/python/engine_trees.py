"""Verifies trees in a serving engine's format in one call: links to children and siblings, as for EAGLE's trees.

`multidraft.torch.verify_linked_trees` takes the tensors of SGLang's tree verification and can replace it, with any method
of the library whose law is that of the candidates. Needs torch.
"""

import torch

import multidraft
import multidraft.torch

# Two requests of six nodes: each node's first child, and the next child of its parent; -1 for none.
candidates = torch.tensor([[7, 3, 9, 4, 1, 5], [2, 8, 6, 0, 3, 1]])
next_token = torch.tensor([[1, 3, -1, 5, -1, -1], [1, 2, 3, -1, 5, -1]])
next_sibling = torch.tensor([[-1, 2, 4, -1, -1, -1], [-1, 4, -1, -1, -1, -1]])
index = torch.arange(12).reshape(2, 6)  # the entry of `predicts` of each node

torch.manual_seed(1)
target_probs = torch.softmax(torch.randn(2, 6, 10) * 2, -1)
for b in range(2):  # a target that prefers the first path
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

# Drawn candidates need a method of their law. Another method is refused, and the error names those that fit.
try:
    multidraft.torch.verify_linked_trees(predicts, accept_index, accept_token_num, candidates, index, next_token, next_sibling,
                                         target_probs, method="naive/deterministic", law="sequential", positions=0)
except ValueError as error:
    print(error)
