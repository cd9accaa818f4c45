#!/usr/bin/env python3
"""Compiles every C++ block of a Markdown file, so that what the documentation shows is what the library has.

check.py --compiler CXX --include DIR FILE..
"""
import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--include", required=True)
    parser.add_argument("files", nargs="+")
    arguments = parser.parse_args()
    faults = 0
    for name in arguments.files:
        text = Path(name).read_text(encoding="utf-8")
        blocks = list(re.finditer(r"^```cpp\n(.*?)^```", text, re.M | re.S))
        if not blocks:
            print(f"{name}: no C++ block")
            faults += 1
        for block in blocks:
            line = text[: block.start()].count("\n") + 2
            with tempfile.NamedTemporaryFile("w", suffix=".cpp") as source:
                source.write(f'#line {line} "{name}"\n' + block.group(1))
                source.flush()
                command = [arguments.compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-I", arguments.include, source.name]
                done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                print(f"{name}:{line}: does not compile\n{done.stderr}")
                faults += 1
            else:
                print(f"{name}:{line}: compiles")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
