#!/usr/bin/env python3
"""Checks what the programs of tools/ say of a user's faults, and where they look for what is kept.

check.py ROOT
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(sys.argv[1]).resolve()
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"


def run(*command, **how):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, **how)


def write_program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


class Faults(unittest.TestCase):
    def refused(self, reason, *command):
        done = run(sys.executable, *command)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(reason, done.stderr)

    def test_amalgamate(self):
        tool = ROOT / "tools" / "amalgamate"
        with tempfile.TemporaryDirectory() as work:
            folder = Path(work)
            self.refused(f"tools/amalgamate: {folder}/none/one.hpp: No such file", tool, "-o", folder / "none" / "one.hpp")
            self.refused(f"tools/amalgamate: {folder}: Is a directory", tool, "-o", folder)
            # A copy with nothing beside it, and one with a header that includes another that is not there.
            (folder / "tools").mkdir()
            copy = Path(shutil.copy(tool, folder / "tools"))
            self.refused("version.hpp: No such file", copy, "-o", folder / "one.hpp")
            headers = folder / "include" / "multidraft"
            headers.mkdir(parents=True)
            (headers / "version.hpp").write_text('#pragma once\n#include "multidraft/gone.hpp"\n')
            self.refused("multidraft/gone.hpp is included, and is no header of the core", copy, "-o", folder / "one.hpp")
            (headers / "version.hpp").write_bytes(b"\xff")
            self.refused("is no UTF-8 text", copy, "-o", folder / "one.hpp")
            self.assertFalse((folder / "one.hpp").exists())

    def test_site(self):
        tool = ROOT / "tools" / "site"
        with tempfile.TemporaryDirectory() as work:
            file = Path(work) / "file"
            file.write_text("")
            self.refused(f"tools/site: {ROOT}/docs/gone.md: No such file", tool, "--page", ROOT / "docs" / "gone.md")
            self.refused(f"tools/site: {file}: is no file of the repository", tool, "--page", file)
            self.refused(f"tools/site: {file}/site: Not a directory", tool, "--out", file / "site", "--doxygen", "true")
            self.refused(f"tools/site: {file}: File exists", tool, "--out", file, "--doxygen", "true")


class Cache(unittest.TestCase):
    """A relative XDG_CACHE_HOME is ignored, as its specification says."""

    def test_setup_and_demo(self):
        with tempfile.TemporaryDirectory() as work:
            folder = Path(work).resolve()
            (folder / "tools").mkdir()
            for name in ("setup", "demo"):
                shutil.copy(ROOT / "tools" / name, folder / "tools")
            # All that they need is there, and nothing can be fetched.
            for name, text in (("apt-get", "exit 1"), ("dpkg-query", "printf installed"), ("python3", "exit 1"),
                               ("cmake", "echo cmake version 3.25.1")):
                write_program(folder / "bin" / name, text)
            write_program(folder / "build" / "demo" / "examples" / "generate", 'printf "%s\\n" "$@"')
            for cache, kept in (("relative", folder / "home" / ".cache"), ("", folder / "home" / ".cache"), (str(folder / "own"), folder / "own")):
                model = kept / "multidraft" / "smollm" / MODEL
                model.parent.mkdir(parents=True, exist_ok=True)
                model.write_text("")
                environment = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}", "HOME": str(folder / "home"), "XDG_CACHE_HOME": cache}
                done = run(folder / "tools" / "setup", "--smollm", cwd=folder, env=environment)
                self.assertEqual((done.returncode, done.stderr), (0, ""), cache)
                done = run(folder / "tools" / "demo", "--chat", cwd=folder, env=environment)
                self.assertEqual((done.returncode, done.stdout.splitlines()), (0, ["--target", str(model), "--chat"]), done.stderr)
                self.assertFalse((folder / "relative").exists())

    def test_benchmarks(self):
        for cache, kept in (("relative", "/home/.cache"), ("", "/home/.cache"), ("/own", "/own")):
            done = run(sys.executable, "-B", "-c", "import chat_model; print(chat_model.MODEL_FILE)", cwd=ROOT / "bench" / "support",
                       env={**os.environ, "HOME": "/home", "XDG_CACHE_HOME": cache})
            self.assertEqual(done.stdout, f"{kept}/multidraft/smollm/{MODEL}\n", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
