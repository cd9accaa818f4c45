"""A drafter that reads the target's hidden states and gives the rows of all depths in one call.

The target is a table of the last token, and its hidden state is that row of the table, rotated. The drafter undoes the rotation
of the last state that it has observed; what follows further down it knows from the token before.
"""

import numpy as np

import multidraft

V = 60
rng = np.random.default_rng(1)
table = 3 * rng.normal(size=(V, V)).astype(np.float32)
rotation = np.linalg.qr(rng.normal(size=(V, V)))[0].astype(np.float32)


def target(texts):
    """(logits, features), a row of both for each token list."""
    rows = np.stack([table[text[-1]] for text in texts])
    return rows, rows @ rotation


class Drafter:
    def __init__(self):
        self.state = np.zeros(V, np.float32)  # of a text of one token nothing is observed before the first rows
        self.observed = 0

    def observe(self, features, positions):
        """The features of tokens that were kept: of the prompt, then of each step's accepted path."""
        self.state = features[-1]
        self.observed += len(positions)

    def rows(self, text, depth):
        """Row d is of the token d + 1 places after the last of the text, which has no feature yet."""
        before = np.exp(self.state @ rotation.T)  # what the target expected at the last token
        expected = before / before.sum()
        out = []
        for _ in range(depth):
            out.append(np.log(expected @ np.exp(table)))
            expected = np.exp(out[-1]) / np.exp(out[-1]).sum()
        return np.stack(out)

    def parent_term(self, depth, tokens):
        """What follows the token drafted before, of low rank in a real drafter."""
        return np.stack([0.7 * table[token] for token in tokens])


class FewTokens(Drafter):
    """The same with the twenty likeliest tokens of each row, chosen with the term."""

    def rows(self, text, depth):
        self.block = super().rows(text, depth)

    def candidates_after(self, depth, tokens):
        return multidraft.Candidates.largest(self.block[depth] + self.parent_term(depth, tokens), 20)


for method, tree, kind in [("naive/deterministic", "3x1x1x1", Drafter), ("recursive_rejection/sequential", "3x1x1x1", Drafter),
                           ("nested_ranked_block/stratified", "3x1x1x1", Drafter), ("nested_ranked_block/stratified", "3x1x1x1", FewTokens)]:
    drafter = kind()
    text = multidraft.speculate(method, tree, target, drafter, [0, 1, 2], tokens=200, temperature=0.8, seed=1)
    assert drafter.observed == 3 + len(text.tokens) - 1 and text.draft_calls <= text.target_calls
    print(f"{method:32} {tree:8} {kind.__name__:10} {text.target_calls:4} target calls, {text.block_efficiency:.2f} tokens each")
