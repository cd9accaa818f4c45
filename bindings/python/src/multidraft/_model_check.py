"""Whether the rows of a tree are those of the same tokens read as texts: the work of `hf.check_model`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from .tree import as_tree


@dataclass(frozen=True)
class ModelReport:
    """What `hf.check_model` found.

    fault: what the model does and must not, in words; empty: nothing was found.
    distance: the largest total variation between two rows that should be one.
    same_bits: whether all such rows have the same bits; if not, equal seeds may give other texts beside other requests.
    """

    fault: str = ""
    distance: float = 0.0
    same_bits: bool = True


class _Fault(Exception):
    pass


class _Known:
    """A tree below a text, and the model's rows after each of its nodes when their paths are read as texts."""

    def __init__(self, tree, text, row_after):
        paths, self.rows = [text], [row_after(text)]
        for v in range(1, len(tree)):
            above = int(tree.parents[v])
            k = v - tree.children(above).start
            best = torch.topk(self.rows[above], min(k + 1, len(self.rows[above]))).indices
            paths.append([*paths[above], int(best[-1])])
            self.rows.append(row_after(paths[v]))
        self.tokens = np.array([path[-1] for path in paths], np.int64)
        self.positions = len(text) - 1 + tree.depths.astype(np.int64)
        last, self.kept = len(tree) - 1, []
        while last >= 0:
            self.kept.insert(0, last)
            last = int(tree.parents[last])
        self.text = [*paths[-1], int(self.rows[-1].argmax())]
        self.next_row = row_after(self.text)


class ModelCheck:
    """`cached()` makes an empty cache for two texts, as `hf.generate` uses it."""

    def __init__(self, model, cached, tolerance):
        self.model, self.cached, self.tolerance = model, cached, tolerance
        self.distance, self.same_bits = 0.0, True

    def __call__(self, text):
        try:
            self._check([text, text[1:]])
            fault = ""
        except _Fault as found:
            fault = str(found)
        return ModelReport(fault, self.distance, self.same_bits)

    def _row_after(self, text):
        """The row after a text that the model reads by itself, without a cache or a mask."""
        ids = torch.tensor([text], device=self.model.device)
        return self._distribution(self.model(input_ids=ids, use_cache=False).logits[0, -1], f"after {len(text)} tokens")

    def _distribution(self, row, whose):
        row = row.detach().cpu()
        if not (row < float("inf")).all() or not torch.isfinite(row).any():
            raise _Fault(f"the row {whose} is no distribution: a logit is NaN or infinite, or all are minus infinity")
        return row

    @staticmethod
    def _distance(row, same):
        return float((torch.softmax(row.double(), 0) - torch.softmax(same.double(), 0)).abs().sum() / 2)

    def _same(self, row, same, whose):
        row = self._distribution(row, whose)
        self.same_bits = self.same_bits and torch.equal(row, same)
        distance = self._distance(row, same)
        self.distance = max(self.distance, distance)
        if distance > self.tolerance:
            raise _Fault(f"the row {whose} differs from that of the same tokens read as a text by {distance:.6f} in total variation")

    def _check(self, texts):
        tree = as_tree("3x2x1")
        known = [_Known(tree, text, self._row_after) for text in texts]
        most = max(self._distance(row, known[0].rows[0]) for row in known[0].rows)
        if most <= 4 * self.tolerance:
            raise _Fault(f"rows after different tokens differ by {most:.6f} at most, so that a wrong one is not seen: take another "
                         "text, or a smaller tolerance")
        tokens, positions = (np.stack([getattr(k, name) for k in known]) for name in ("tokens", "positions"))
        sees = np.zeros((len(tree), len(tree)), bool)
        for v in range(len(tree)):
            sees[v] = sees[tree.parents[v]] if v else False
            sees[v, v] = True
        levels = [np.flatnonzero(tree.depths == d) for d in range(tree.depth + 1)]

        def read(cache, nodes, how):
            last = int(nodes[-1]) + 1
            logits = cache.forward(texts, tokens[:, nodes], positions[:, nodes],
                                   np.broadcast_to(sees[nodes][:, :last], (len(texts), len(nodes), last)))
            for b, tree_of in enumerate(known):
                for k, v in enumerate(nodes.tolist()):
                    self._same(logits[b, k], tree_of.rows[v], f"of node {v} of a tree{how}, text {b} of {len(texts)}")

        cache = self.cached()
        read(cache, np.arange(len(tree)), "")
        cache.keep([k.kept for k in known])
        following = [k.text for k in known]
        logits = cache.forward(following, np.array([[t[-1]] for t in following]), np.array([[len(t) - 1] for t in following]),
                               np.ones((len(texts), 1, 1), bool))
        for b, tree_of in enumerate(known):
            self._same(logits[b, 0], tree_of.next_row, f"of the token after a kept path, text {b} of {len(texts)}")
        cache = self.cached()
        for level in levels:
            read(cache, level, " read level by level")
        cache = self.cached()
        cache.read([text[:-1] for text in texts])
        read(cache, np.arange(len(tree)), " below a long prompt")
