#!/usr/bin/env python3
"""Checks that the sources are formatted as .clang-format says. check.py ROOT [--fix]

clang-format changes its mind between major versions, so one is fixed. Exit status 77 (skipped) where it is not installed.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

MAJOR = 14
SKIPPED = 77
DIRECTORIES = ("include", "tests", "examples", "bench", "bindings")
SUFFIXES = (".h", ".hpp", ".c", ".cpp", ".cuh", ".cu")


def clang_format():
    for name in (f"clang-format-{MAJOR}", "clang-format"):
        path = shutil.which(name)
        if path:
            version = subprocess.run([path, "--version"], stdout=subprocess.PIPE, text=True, check=False).stdout
            if re.search(rf"version {MAJOR}\.", version):
                return path
    return None


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--fix"]):
        sys.exit(__doc__)
    program = clang_format()
    if not program:
        print(f"clang-format {MAJOR} is not installed")
        sys.exit(SKIPPED)
    root = Path(sys.argv[1])
    files = [str(p) for d in DIRECTORIES for p in sorted((root / d).rglob("*")) if p.suffix in SUFFIXES]
    mode = ["-i"] if sys.argv[2:] else ["--dry-run", "-Werror"]
    result = subprocess.run([program, "--style=file", *mode, *files], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, check=False)
    faulty = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error: .*-Wclang-format-violations", result.stdout, re.MULTILINE)))
    for name in faulty:
        print(f"{name}: not formatted")
    if faulty:
        print(f"To repair: {sys.argv[0]} {sys.argv[1]} --fix")
    elif result.returncode:
        print(result.stdout)
    sys.exit(1 if result.returncode else 0)


if __name__ == "__main__":
    main()
