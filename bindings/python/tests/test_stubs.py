"""The type stub of the compiled module matches its functions and their arguments."""

import ast
import os
import site
import subprocess
import sys
from pathlib import Path

import pytest

import multidraft


def functions(text):
    return {node.name: [argument.arg for argument in node.args.args] for node in ast.parse(text).body
            if isinstance(node, ast.FunctionDef)}


def test_the_stub_is_that_of_the_module(tmp_path):
    pytest.importorskip("nanobind")
    subprocess.run([sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "multidraft._core", "-o", str(tmp_path / "core.pyi")],
                   check=True)
    stub = Path(multidraft.__file__).parent / "_core.pyi"
    assert functions(stub.read_text()) == functions((tmp_path / "core.pyi").read_text())


def test_what_users_call_has_types():
    for name in multidraft.__all__:
        thing = getattr(multidraft, name)
        if callable(thing) and not isinstance(thing, type):
            assert "return" in thing.__annotations__, name
    assert (Path(multidraft.__file__).parent / "py.typed").exists()


def test_types_of_a_users_program(tmp_path):
    pytest.importorskip("mypy")
    program = Path(__file__).parent / "typed_program.py"
    subprocess.run([sys.executable, str(program)], check=True)
    # An installed package is found by its marker py.typed, and mypy refuses its folder in MYPYPATH. One that PYTHONPATH
    # names lies where mypy looks for a project's own modules, whose findings are not the user's.
    root = str(Path(multidraft.__file__).parent.parent)
    installed = root in site.getsitepackages()
    found = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", str(tmp_path), str(program)],
                           env=dict(os.environ) if installed else {**os.environ, "MYPYPATH": root},
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert found.returncode == 0, found.stdout
