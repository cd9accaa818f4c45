#!/usr/bin/env python3
"""Writes a header with a deliberate bug into a folder, which a test then includes from first.

patched.py BUG.txt INCLUDE_DIR OUT_DIR

BUG.txt says in its first lines what is wrong; then come `header: verify/x.hpp`, relative to INCLUDE_DIR/multidraft, and
under `old:` and `new:` the lines to replace and those to put there. The old lines must occur exactly once. The library
itself has no switch for a test: a bug is a change of its text.
"""

import re
import sys
from pathlib import Path

FORM = re.compile(r"Bug: .*?\nheader: (?P<header>\S+)\nold:\n(?P<old>.*?)\nnew:\n(?P<new>.*?)\n*\Z", re.DOTALL)


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    bug, include, out = map(Path, sys.argv[1:])
    found = FORM.match(bug.read_text(encoding="utf-8"))
    if not found:
        sys.exit(f"{bug}: is not of the form that {Path(__file__).name} describes")
    name = Path("multidraft", found["header"])
    text = (include / name).read_text(encoding="utf-8")
    if text.count(found["old"] + "\n") != 1:
        sys.exit(f"{bug}: {name} has the old lines {text.count(found['old'] + chr(10))} times, not once")
    header = out / name
    header.parent.mkdir(parents=True, exist_ok=True)
    header.write_text(text.replace(found["old"] + "\n", found["new"] + "\n"), encoding="utf-8")


if __name__ == "__main__":
    main()
