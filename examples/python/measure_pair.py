"""Measures a pair of models given as two functions from token lists to logits.

Here the models are tables of the last token; replace them by functions that return an array (len, vocabulary) of logits.
"""

import numpy as np

import multidraft

V = 200
rng = np.random.default_rng(1)
table = 3 * rng.normal(size=(V, V)).astype(np.float32)
other = table + rng.normal(size=(V, V)).astype(np.float32)


def target(texts):
    return np.stack([table[text[-1]] for text in texts])


def draft(texts):
    return np.stack([other[text[-1]] for text in texts])


for method, tree in [("speculative_sampling/iid", "chain:3"), ("recursive_rejection/sequential", "3x1x1"),
                     ("traversal/sequential", "3x1x1"), ("nested_ranked_block/stratified", "3x1x1")]:
    text = multidraft.speculate(method, tree, target, draft, [0], tokens=200, temperature=0.8, seed=1)
    print(f"{method:32} {tree:8} {text.target_calls:4} target calls, {text.block_efficiency:.2f} tokens each")
