import importlib.util
import os
import subprocess
import sys

import pytest

from multidraft import _core, _levels

V3 = "fpu sse sse2 ssse3 sse4_2 popcnt avx avx2 bmi1 bmi2 f16c fma movbe".split()
V4 = [*V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"]
PROGRAM = """
import numpy, multidraft
rows = numpy.random.default_rng(1).normal(size=(50, 50)).astype("f4")
model = lambda texts: numpy.stack([rows[text[-1]] for text in texts])
print(multidraft._core.__name__, *multidraft.speculate("nested_ranked_block/stratified", "3x1", model, model, [7], tokens=40, seed=3).tokens)
"""


def test_levels_by_flags():
    assert _levels.level_of(V4) == "v4" and _levels.level_of(V3) == "v3"
    assert _levels.level_of([f for f in V4 if f != "fma"]) == "v2"  # AVX-512 without it is no level
    assert _levels.level_of([f for f in V4 if f != "avx512vl"]) == "v3"
    assert _levels.level_of([]) == "v2"


def test_one_module_is_imported_as_it_is():
    if importlib.util.find_spec("multidraft._core_v4"):
        pytest.skip("the package has modules of several levels")
    assert _levels.load() is _core


def test_modules_of_all_levels_draw_alike():
    def said(level):
        done = subprocess.run([sys.executable, "-c", PROGRAM], env={**os.environ, "MULTIDRAFT_LEVEL": level}, capture_output=True, text=True)
        return done.stdout.split() if done.returncode == 0 else []

    here = _levels.level_of(_levels.flags_here())
    if not importlib.util.find_spec("multidraft._core_v4"):
        pytest.skip("the package has one module")
    found = {level: said(level) for level in ("v3", "v4") if level <= here}
    assert all(words[0].endswith("_core" if level == "v3" else f"_core_{level}") for level, words in found.items())
    assert len({tuple(words[1:]) for words in found.values()}) == 1
