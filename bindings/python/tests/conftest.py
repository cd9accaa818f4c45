import numpy as np
import pytest


class TableModel:
    """Logits that depend on the last token and the length of the text; any number of texts at a time."""

    def __init__(self, vocabulary, seed, temperature=1.0, dtype=np.float32):
        self.table = (np.random.default_rng(seed).normal(size=(3, vocabulary, vocabulary)) * temperature).astype(dtype)
        self.calls = 0

    def __call__(self, texts):
        self.calls += 1
        return np.stack([self.table[len(text) % 3, text[-1]] for text in texts])

    def law(self, text):
        row = np.exp(self([list(text)])[0].astype(np.float64))
        return row / row.sum()


@pytest.fixture
def models():
    """A target and a draft of a vocabulary."""
    return lambda vocabulary, seed=0, **kw: (TableModel(vocabulary, seed, **kw), TableModel(vocabulary, seed + 1, **kw))
