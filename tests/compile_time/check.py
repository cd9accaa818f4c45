#!/usr/bin/env python3
"""Is compiling a use of the library as quick as limits.json promises?

check.py --compiler CXX --include DIRECTORY... --root REPOSITORY [--runs N] [--self-test]

The measure is the user time of the compiler at -O2, the least of some runs, divided by that of json.cpp in the same call, so
that the machine and its load matter little. --self-test: a file that includes the umbrella header and compiles what
any_method.cpp does is too slow for README's limit, and a limit without a program is an error.
"""
import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def seconds(options, source):
    """User seconds of one run of the compiler."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    with tempfile.TemporaryDirectory() as work:
        done = subprocess.run([options.compiler, "-std=c++20", "-O2", "-DNDEBUG", *(f"-I{i}" for i in options.include), "-c", source,
                               "-o", Path(work) / "out.o"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def measure(options, sources):
    """{name: the least of some runs by that of json.cpp}. The programs take turns, so that they see the same load."""
    found = {}
    for _ in range(options.runs):
        for name, source in {**sources, "json": HERE / "json.cpp"}.items():
            found[name] = min(found.get(name, float("inf")), seconds(options, source))
    for name, time in found.items():
        print(f"{name}: {time:.2f} s, {time / found['json']:.2f} times json.cpp")
    return {name: time / found["json"] for name, time in found.items()}


def too_slow(measured, limits):
    """One line for each limit that is exceeded. Throws KeyError for a limit without a program."""
    return [f"{name} takes {measured[name]:.2f} times json.cpp, and may take {limits[name]['limit']}: {limits[name]['is']}"
            for name in limits if measured[name] > limits[name]["limit"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--include", action="append", required=True)
    parser.add_argument("--root", required=True, type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    limits = {name: limit for name, limit in json.loads((HERE / "limits.json").read_text()).items() if isinstance(limit, dict)}
    readme = re.search(r"```cpp\n(.*?)```", (options.root / "README.md").read_text(), re.DOTALL)[1]
    umbrella = '#include "multidraft/multidraft.hpp"\n'
    with tempfile.TemporaryDirectory() as work:
        def source(name, text):
            path = Path(work) / f"{name}.cpp"
            path.write_text(text)
            return path

        any_method = (HERE / "any_method.cpp").read_text()
        if options.self_test:
            options.runs = 1
            measured = measure(options, {"readme": source("readme", umbrella + any_method)})
            assert len(too_slow(measured, {"readme": limits["readme"]})) == 1, "a slow program was not found"
            assert not too_slow({"readme": 0.1}, {"readme": limits["readme"]})
            try:
                too_slow(measured, {"another": limits["readme"]})
            except KeyError:
                return 0
            sys.exit("a limit without a program was not found")
        measured = measure(options, {"readme": source("readme", readme), "umbrella": source("umbrella", umbrella + readme),
                                     "any_method": source("any_method", any_method)})
    found = too_slow(measured, limits)
    for name, limit in limits.items():
        if not found and measured[name] < limit["aim"] < limit["limit"]:
            print(f"{name} reaches its aim, {limit['aim']}: make that its limit")
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
