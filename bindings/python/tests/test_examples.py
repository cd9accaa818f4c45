"""The examples run and print the expected output."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "python"


@pytest.mark.parametrize("example, lines", [
    ("measure_pair.py", ["nested_ranked_block/stratified", "target calls"]),
    ("block_drafter.py", ["naive/deterministic", "nested_ranked_block/stratified"]),
    ("prove_verifier.py", ["  lossless", "  not lossless", "a tree 2x1: off by 0"]),
    ("engine_trees.py", ["step 2, request 1: ", "naive/sequential"]),
    ("hugging_face.py", ["60 tokens in ", "greedy text equal to target.generate: True"]),
    ("pipeline.py", ["greedy texts equal to those without drafts: True"]),
])
def test_example(example, lines):
    for needed in {"engine_trees.py": ["torch"], "hugging_face.py": ["torch", "transformers"],
                   "pipeline.py": ["torch", "transformers", "sentencepiece", "google.protobuf"]}.get(example, []):
        pytest.importorskip(needed)
    done = subprocess.run([sys.executable, str(EXAMPLES / example)], env=os.environ, stdout=subprocess.PIPE, text=True,
                          timeout=600, check=True)
    for line in lines:
        assert line in done.stdout
