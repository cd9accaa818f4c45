"""The README's code runs unchanged, with definitions of the names that it does not define."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

import multidraft


def test_readme(models):
    text = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    blocks = [block for block in blocks if "hf" not in block and "multidraft.torch" not in block and "cuda." not in block]
    assert len(blocks) == 3
    target, draft = models(20)
    first = re.sub(r"^def (target|draft).*\n", "", blocks[0], flags=re.MULTILINE)
    names = {"target": target, "draft": draft, "prompt": [1, 2]}
    exec(first, names)
    assert len(names["text"].tokens) == 100

    def target_logits(text, tokens):
        return target([text] * len(tokens))

    def draft_logits(text, tokens):
        return draft([[*text, max(t, 0)] for t in tokens[-1]])

    names = {"multidraft": multidraft, "numpy": np, "seed": 5, "text": [1, 2], "draft_logits": draft_logits, "target_logits": target_logits}
    for _ in range(3):
        exec(blocks[1], names)
    assert len(names["text"]) >= 5
    exec(blocks[2], {})


def test_tutorial():
    text = (Path(__file__).parents[3] / "docs" / "tutorials.md").read_text(encoding="utf-8")
    [block] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert "tokens=3" in block  # with one token nothing is drafted, and nothing is checked
    names = {}
    exec(block, names)
    assert len(names["answer"].tokens) == 200
    assert names["distance"] < 0.06


def test_readme_with_torch():
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from test_hf import tiny
    from test_torch import linked

    text = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    [hf] = [block for block in blocks if "hf" in block]
    names = {"target_model": tiny(seed=1), "draft_model": tiny(seed=2), "input_ids": torch.tensor([[5, 6, 7]])}
    exec(hf, names)
    assert names["result"].sequences.shape[1] > 3
    [ops] = [block for block in blocks if "multidraft.torch" in block]
    tensors = ["predicts", "accept_index", "accept_token_num", "candidates", "retrieve_index", "retrieve_next_token",
               "retrieve_next_sibling", "target_probs", "draft_probs"]
    names = {**dict(zip(tensors, linked())), "seed": 3, "positions": torch.tensor([4, 5])}
    exec(ops, names)
    assert names["accept_token_num"].tolist() == [3, 2]


def test_help():
    for name in multidraft.__all__:
        assert getattr(multidraft, name).__doc__, name
    modules = [multidraft, multidraft.analysis, multidraft.cuda, multidraft.proof]
    if importlib.util.find_spec("torch"):
        modules.append(multidraft.torch)
        if importlib.util.find_spec("transformers"):
            modules.append(multidraft.hf)
    for module in modules:
        assert module.__doc__
        for name, thing in vars(module).items():
            if callable(thing) and not name.startswith("_") and thing.__module__ == module.__name__:
                assert thing.__doc__, name
