"""The examples run, and print what they are to print."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "python"


@pytest.mark.parametrize("example, lines", [
    ("measure_pair.py", ["nested_ranked_block/stratified", "target calls"]),
    ("prove_verifier.py", ["  lossless", "  not lossless", "a tree 2x1: off by 0"]),
])
def test_example(example, lines):
    done = subprocess.run([sys.executable, str(EXAMPLES / example)], env=os.environ, stdout=subprocess.PIPE, text=True,
                          timeout=600, check=True)
    for line in lines:
        assert line in done.stdout
