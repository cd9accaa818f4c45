from pathlib import Path

import numpy as np
import pytest

MODELS = Path(__file__).resolve().parents[3] / "models"


class TableModel:
    """Logits that depend on the last token and the length of the text, for any number of texts."""

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


@pytest.fixture(scope="session")
def shipped():
    """The repository's target and draft as models of transformers in float32."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.set_num_threads(1)
    return tuple(transformers.LlamaForCausalLM.from_pretrained(MODELS / name, dtype=torch.float32).eval()
                 for name in ("target", "draft"))
