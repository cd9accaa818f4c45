#!/usr/bin/env python3
"""Is compiling a use of the library as cheap as limits.json promises?

check.py --compiler CXX --include DIRECTORY... --root REPOSITORY [--self-test]

The measure is what g++ allocates at -O2 for its own data (the last line of -ftime-report), divided by that of json.cpp: the
same in every run, on every machine and under any load, where the time of one compiler varies by a tenth between runs. Times
are printed and not judged. --self-test: a file that includes the umbrella header and compiles what any_method.cpp does is
too dear for README's limit, and a limit without a program is an error.
"""
import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def cost(options, source):
    """(megabytes that the compiler allocates, its user seconds)."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    with tempfile.TemporaryDirectory() as work:
        done = subprocess.run([options.compiler, "-std=c++20", "-O2", "-DNDEBUG", "-ftime-report", *(f"-I{i}" for i in options.include),
                               "-c", source, "-o", Path(work) / "out.o"], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    if done.returncode != 0:
        sys.exit(done.stderr)
    total = re.search(r"^ TOTAL .* (\d+)([kMG])\s*$", done.stderr, re.MULTILINE)
    if not total:
        sys.exit(f"{options.compiler} -ftime-report ends without a total of memory:\n{done.stderr[-2000:]}")
    megabytes = float(total[1]) * {"k": 1 / 1024, "M": 1, "G": 1024}[total[2]]
    return megabytes, resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def measure(options, sources):
    """{name: its megabytes by those of json.cpp}."""
    found = {name: cost(options, source) for name, source in {**sources, "json": HERE / "json.cpp"}.items()}
    of_json = found["json"]
    for name, (megabytes, seconds) in found.items():
        print(f"{name}: {megabytes:.0f} MB, {megabytes / of_json[0]:.2f} times json.cpp; "
              f"{seconds:.2f} s, {seconds / of_json[1]:.2f} times json.cpp")
    return {name: megabytes / of_json[0] for name, (megabytes, _) in found.items()}


def too_dear(measured, limits):
    """One line for each limit that is exceeded. Throws KeyError for a limit without a program."""
    return [f"{name} takes {measured[name]:.2f} times the memory of json.cpp, and may take {limits[name]['limit']}: {limits[name]['is']}"
            for name in limits if measured[name] > limits[name]["limit"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--include", action="append", required=True)
    parser.add_argument("--root", required=True, type=Path)
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
            measured = measure(options, {"readme": source("readme", umbrella + any_method)})
            assert len(too_dear(measured, {"readme": limits["readme"]})) == 1, "a dear program was not found"
            assert not too_dear({"readme": 0.1}, {"readme": limits["readme"]})
            try:
                too_dear(measured, {"another": limits["readme"]})
            except KeyError:
                return 0
            sys.exit("a limit without a program was not found")
        measured = measure(options, {"readme": source("readme", readme), "umbrella": source("umbrella", umbrella + readme),
                                     "any_method": source("any_method", any_method),
                                     "compiled_library": HERE / "compiled_library.cpp"})
    found = too_dear(measured, limits)
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
