#!/usr/bin/env python3
"""Checks that headers include only what their module may include, and that each names its licence.

arrows.py INCLUDE_DIR    checks INCLUDE_DIR/multidraft; prints every fault; exit status 1 when there is one
arrows.py --self-test    checks that a faulty tree of headers is refused, fault by fault
"""

import re
import sys
import tempfile
from pathlib import Path

BELOW_ANALYSIS = ("base", "group", "random", "rows", "tree", "law", "draft", "verify")
BELOW_BACKENDS = BELOW_ANALYSIS + ("batch",)
# What an engine includes; what decides for it. Papers need more: lossy methods and research.
DECIDES = ("analysis", "decode", "control")

# A module may include itself and the modules named here.
MAY_INCLUDE = {
    "base": (),
    "group": ("base",),
    "random": ("base", "group"),
    "rows": ("base", "group"),
    "tree": ("base", "group"),
    "law": ("base", "group", "tree"),
    "draft": ("base", "group", "random", "rows", "tree", "law"),
    "verify": ("base", "group", "random", "rows", "tree", "law"),
    "batch": BELOW_ANALYSIS,
    "methods": BELOW_BACKENDS,
    "analysis": ("base", "group", "rows", "tree"),
    "decode": BELOW_BACKENDS + ("analysis",),
    "control": BELOW_BACKENDS + ("analysis", "decode"),
    # Backends: lanes and launches.
    "cuda": BELOW_BACKENDS,
    "kokkos": BELOW_BACKENDS,
    # Rows in shards, whatever ranks tell each other by; mpi/ is one such way.
    "shards": BELOW_BACKENDS,
    "mpi": BELOW_BACKENDS + ("shards",),
    # For users who prove methods of their own and check their models; nothing of the library needs it.
    "testing": BELOW_BACKENDS + ("analysis", "decode"),
    # What papers need.
    "lossy": BELOW_BACKENDS + ("decode",),
    "research": BELOW_BACKENDS + ("analysis", "decode"),
    # Headers directly in multidraft/ gather others; version.hpp stands alone and is open to all.
    "": BELOW_BACKENDS + ("methods",) + DECIDES,
}

# Single headers that a module may include of a module that is closed to it otherwise.
ALSO = {"analysis": ("multidraft/random/philox.hpp",)}

OPEN_TO_ALL = ("multidraft/version.hpp",)
# The header that refuses compilers before C++20 may come first in headers that gather others: their users see its
# message alone.
FIRST = "multidraft/base/abi.hpp"

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
PRAGMA_ONCE = re.compile(r"^\s*#\s*pragma\s+once\b", re.MULTILINE)
OPENING_COMMENT = re.compile(r"^//+ *\S+ +\S+ +\S+")


def module_gathered_by(header):
    """The module of which multidraft/module.hpp (or .cuh) includes every header, or None."""
    parts = header.split("/")
    stem = parts[-1].rsplit(".", 1)[0]
    return stem if len(parts) == 2 and stem in MAY_INCLUDE else None


def module_of(header):
    """The module of multidraft/module/.../x.hpp; '' for multidraft/x.hpp."""
    parts = header.split("/")
    return parts[1] if len(parts) > 2 else ""


def includes_of(text):
    """(line number, quote or bracket, name) of every #include."""
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1), match.group(2)


def fault_of_include(header, headers, delimiter, name):
    """What is wrong with `header` including `name`, or None."""
    if not name.startswith("multidraft/"):
        first = name.split("/")[0]
        if first in ("tests", "examples", "bench", "support"):
            return f"includes {name}: the library knows no tests, examples or benchmarks"
        if delimiter == '"':
            return f'includes "{name}": the library\'s own headers are written "multidraft/..."'
        return None
    if delimiter == "<":
        return f'includes <{name}>: write "{name}"'
    if name not in headers:
        return f"includes {name}, which does not exist"
    if header.endswith(".hpp") and name.endswith(".cuh"):
        return f"includes {name}: a .hpp is for any compiler, a .cuh for nvcc only"
    module, other = module_of(header), module_of(name)
    gathered = module_gathered_by(header)
    if gathered:
        return None if other == gathered or name == FIRST else f"includes {name}: it gathers {gathered}, and nothing else"
    if name in OPEN_TO_ALL or name in ALSO.get(module, ()):
        return None
    if header in OPEN_TO_ALL or (other != module and other not in MAY_INCLUDE.get(module, ())):
        return f"includes {name}: {module or header} may not include {other or 'headers that gather others'}"
    return None


def cycle_of(graph):
    """Headers that include one another in a ring, or None."""
    state = {}
    path = []

    def visit(node):
        state[node] = "open"
        path.append(node)
        for following in graph.get(node, ()):
            if state.get(following) == "open":
                return path[path.index(following) :] + [following]
            if following not in state:
                found = visit(following)
                if found:
                    return found
        state[node] = "done"
        path.pop()
        return None

    for node in sorted(graph):
        if node not in state:
            found = visit(node)
            if found:
                return found
    return None


def faults_of(include_dir):
    """Every fault of the headers below include_dir/multidraft, as text."""
    root = Path(include_dir)
    files = {p.relative_to(root).as_posix(): p for p in sorted(root.rglob("*")) if p.is_file()}
    headers = {name for name in files if name.endswith((".hpp", ".cuh"))}
    faults = []
    if not headers:
        faults.append(f"{root}: no headers found")
    graph = {}
    for name, path in files.items():
        if name not in headers:
            faults.append(f"{name}: not a header (.hpp or .cuh)")
            continue
        if module_of(name) not in MAY_INCLUDE:
            faults.append(f"{name}: {module_of(name)} is no module of the library")
        text = path.read_text(encoding="utf-8")
        if not OPENING_COMMENT.match(text):
            faults.append(f"{name}:1: does not begin with a comment that says what it is")
        if "\n// SPDX-License-Identifier: Apache-2.0\n" not in text:
            faults.append(f"{name}: no line names the licence, as the others do")
        if len(PRAGMA_ONCE.findall(text)) != 1:
            faults.append(f"{name}: needs #pragma once, once")
        graph[name] = []
        for number, delimiter, included in includes_of(text):
            fault = fault_of_include(name, headers, delimiter, included)
            if fault:
                faults.append(f"{name}:{number}: {fault}")
            if included in headers:
                graph[name].append(included)
    for name, included in graph.items():
        module = module_gathered_by(name)
        if module:
            for other in sorted(headers):
                inner = module_of(other) == module and "/detail/" not in other
                if inner and other not in included:
                    faults.append(f"{name}: does not include {other}")
    ring = cycle_of(graph)
    if ring:
        faults.append("headers include one another: " + " -> ".join(ring))
    return faults


GOOD = {
    "version.hpp": [],
    "multidraft.hpp": ["base.hpp", "decode/loop.hpp", "version.hpp"],
    "base.hpp": ["base/a.hpp", "base/abi.hpp", "base/b.hpp"],
    "base/abi.hpp": [],
    "base/a.hpp": ["version.hpp"],
    "base/b.hpp": ["base/a.hpp"],
    "group/g.hpp": ["base/a.hpp"],
    "random/r.hpp": ["base/a.hpp", "group/g.hpp"],
    "rows/d.hpp": ["base/a.hpp"],
    "tree/t.hpp": ["base/a.hpp"],
    "law/l.hpp": ["base/a.hpp", "tree/t.hpp"],
    "draft/sampler.hpp": ["law/l.hpp", "random/r.hpp", "rows/d.hpp", "tree/t.hpp"],
    "verify/v.hpp": ["law/l.hpp", "random/r.hpp", "rows/d.hpp", "tree/t.hpp"],
    "analysis/alpha.hpp": ["base/a.hpp", "rows/d.hpp", "tree/t.hpp"],
    "batch.hpp": ["base/abi.hpp", "batch/call.hpp"],
    "decode/loop.hpp": ["draft/sampler.hpp", "verify/v.hpp", "analysis/alpha.hpp"],
    "control/c.hpp": ["decode/loop.hpp", "analysis/alpha.hpp"],
    "lossy/l.hpp": ["decode/loop.hpp", "verify/v.hpp"],
    "research/r.hpp": ["analysis/alpha.hpp", "decode/loop.hpp"],
    "methods/list.hpp": ["batch/call.hpp", "verify/v.hpp"],
    "testing/proof.hpp": ["draft/sampler.hpp", "verify/v.hpp", "analysis/alpha.hpp"],
    "batch/call.hpp": ["verify/v.hpp", "draft/sampler.hpp"],
    "cuda/launch.hpp": ["verify/v.hpp", "batch/call.hpp"],
    "cuda/group.cuh": ["cuda/launch.hpp", "draft/sampler.hpp"],
    "kokkos/k.hpp": ["verify/v.hpp"],
    "shards/s.hpp": ["batch/call.hpp"],
    "mpi/m.hpp": ["verify/v.hpp", "shards/s.hpp"],
}

# (header, what it includes besides, what the fault says)
FORBIDDEN = [
    ("base/a.hpp", "random/r.hpp", "base may not include random"),
    ("random/r.hpp", "tree/t.hpp", "random may not include tree"),
    ("rows/d.hpp", "random/r.hpp", "rows may not include random"),
    ("tree/t.hpp", "rows/d.hpp", "tree may not include rows"),
    ("draft/sampler.hpp", "verify/v.hpp", "draft may not include verify"),
    ("verify/v.hpp", "draft/sampler.hpp", "verify may not include draft"),
    ("verify/v.hpp", "analysis/alpha.hpp", "verify may not include analysis"),
    ("analysis/alpha.hpp", "verify/v.hpp", "analysis may not include verify"),
    ("analysis/alpha.hpp", "draft/sampler.hpp", "analysis may not include draft"),
    ("analysis/alpha.hpp", "law/l.hpp", "analysis may not include law"),
    ("law/l.hpp", "random/r.hpp", "law may not include random"),
    ("tree/t.hpp", "law/l.hpp", "tree may not include law"),
    ("verify/v.hpp", "batch/call.hpp", "verify may not include batch"),
    ("base/a.hpp", "group/g.hpp", "base may not include group"),
    ("verify/v.hpp", "lossy/l.hpp", "verify may not include lossy"),
    ("decode/loop.hpp", "control/c.hpp", "decode may not include control"),
    ("decode/loop.hpp", "lossy/l.hpp", "decode may not include lossy"),
    ("control/c.hpp", "research/r.hpp", "control may not include research"),
    ("multidraft.hpp", "lossy/l.hpp", "may not include lossy"),
    ("methods/list.hpp", "testing/proof.hpp", "methods may not include testing"),
    ("batch/call.hpp", "analysis/alpha.hpp", "batch may not include analysis"),
    ("batch/call.hpp", "cuda/launch.hpp", "batch may not include cuda"),
    ("decode/loop.hpp", "cuda/launch.hpp", "decode may not include cuda"),
    ("decode/loop.hpp", "testing/proof.hpp", "decode may not include testing"),
    ("verify/v.hpp", "testing/proof.hpp", "verify may not include testing"),
    ("testing/proof.hpp", "cuda/launch.hpp", "testing may not include cuda"),
    ("cuda/launch.hpp", "decode/loop.hpp", "cuda may not include decode"),
    ("cuda/launch.hpp", "analysis/alpha.hpp", "cuda may not include analysis"),
    ("kokkos/k.hpp", "cuda/launch.hpp", "kokkos may not include cuda"),
    ("mpi/m.hpp", "decode/loop.hpp", "mpi may not include decode"),
    ("shards/s.hpp", "mpi/m.hpp", "shards may not include mpi"),
    ("batch/call.hpp", "shards/s.hpp", "batch may not include shards"),
    ("cuda/launch.hpp", "cuda/group.cuh", "a .cuh for nvcc only"),
    ("base/a.hpp", "multidraft.hpp", "base may not include headers that gather others"),
    ("multidraft.hpp", "testing/proof.hpp", "may not include testing"),
    ("version.hpp", "base/a.hpp", "may not include base"),
    ("base.hpp", "random/r.hpp", "it gathers base, and nothing else"),
    ("base/a.hpp", "base/missing.hpp", "which does not exist"),
    ("base/a.hpp", "base/b.hpp", "include one another: multidraft/base/a.hpp -> multidraft/base/b.hpp"),
]

# (header, its whole text, what the fault says)
WHOLE = [
    ("base/a.hpp", "// What this header is.\n", "needs #pragma once"),
    ("base/a.hpp", "// What this header is.\n// #pragma once\n", "needs #pragma once"),
    ("base/c.hpp", "// What this header is.\n#pragma once\n", "multidraft/base.hpp: does not include multidraft/base/c.hpp"),
    ("base/a.hpp", "// What this header is, reflowed. SPDX-License-Identifier: Apache-2.0\n#pragma once\n", "names the licence"),
    ("base/a.hpp", "#pragma once\n", "does not begin with a comment"),
    ("base/a.hpp", "//\n#pragma once\n", "does not begin with a comment"),
    ("base/a.hpp", '// What this header is.\n#pragma once\n#include "a.hpp"\n', 'are written "multidraft/..."'),
    ("base/a.hpp", "// What this header is.\n#pragma once\n#include <multidraft/version.hpp>\n", 'write "multidraft/'),
    ("base/a.hpp", '// What this header is.\n#pragma once\n#  include "tests/x.hpp"\n', "knows no tests"),
    ("base/a.hpp", '// What this header is.\n#pragma once\n#include "examples/x.hpp"\n', "knows no tests"),
    ("attic/a.hpp", "// What this header is.\n#pragma once\n", "attic is no module"),
    ("base/a.txt", "notes\n", "not a header"),
]


def write_tree(root, tree, replaced=None):
    for name, included in tree.items():
        path = Path(root) / "multidraft" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = ["// What this header is.", "// SPDX-License-Identifier: Apache-2.0", "#pragma once", "#include <vector>"]
        path.write_text("\n".join(lines + [f'#include "multidraft/{i}"' for i in included]) + "\n", encoding="utf-8")
    if replaced:
        path = Path(root) / "multidraft" / replaced[0]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(replaced[1], encoding="utf-8")


def self_test():
    failures = []
    with tempfile.TemporaryDirectory() as root:
        write_tree(root, GOOD)
        if faults_of(root):
            failures.append(f"a good tree is refused: {faults_of(root)}")
    with tempfile.TemporaryDirectory() as root:
        if not faults_of(root):
            failures.append("an empty tree is accepted")
    for header, included, expected in FORBIDDEN:
        with tempfile.TemporaryDirectory() as root:
            write_tree(root, {**GOOD, header: GOOD[header] + [included]})
            if not any(expected in fault for fault in faults_of(root)):
                failures.append(f"{header} -> {included}: expected '{expected}', got {faults_of(root)}")
    for header, text, expected in WHOLE:
        with tempfile.TemporaryDirectory() as root:
            write_tree(root, GOOD, (header, text))
            if not any(expected in fault for fault in faults_of(root)):
                failures.append(f"{header}: expected '{expected}', got {faults_of(root)}")
    return failures


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found = self_test() if sys.argv[1] == "--self-test" else faults_of(sys.argv[1])
    for line in found:
        print(line)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
