#!/usr/bin/env python3
"""Checks what libmultidraft exports. symbols.py HEADER SHARED_LIBRARY

Every function that the header declares is exported with a version, and nothing else is.
"""

import re
import subprocess
import sys
from pathlib import Path


def declared(header):
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    return set(re.findall(r"^MD_API [^;(]*?\b(md_\w+)\(", text, re.MULTILINE))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    wanted = declared(Path(sys.argv[1]).read_text(encoding="utf-8"))
    listed = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", sys.argv[2]],
                            stdout=subprocess.PIPE, text=True, check=True).stdout
    exported, faults = set(), []
    for line in listed.splitlines():
        kind, name = line.split()[-2:]
        if kind == "A":  # the name of the version itself
            continue
        plain, _, version = name.partition("@@")
        exported.add(plain)
        if not version.startswith("MULTIDRAFT_"):
            faults.append(f"{name}: no version")
    faults += [f"{name}: declared and not exported" for name in sorted(wanted - exported)]
    faults += [f"{name}: exported and not declared" for name in sorted(exported - wanted)]
    if len(wanted) < 20:
        faults.append(f"{sys.argv[1]}: only {len(wanted)} declarations were found")
    print("\n".join(faults) if faults else f"{len(wanted)} functions are exported, and nothing else")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
