#!/usr/bin/env python3
"""Are the loops over rows in loops.cpp vectorised, also without AVX-512?

check.py --compiler CXX --include DIRECTORY

Counts the fused multiply-adds of each function in the assembly: a loop that is not vectorised has as many scalar ones as its
arithmetic needs, and takes ten times as long. Some scalar ones remain, for the ends of rows.
"""
import argparse
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGETS = ("x86-64-v3", "x86-64-v4")
LEVELS = ("-O2", "-O3")


def functions(assembly):
    """{name: its lines}, of all functions and the parts that compilers split from them."""
    found, name = {}, None
    for line in assembly.splitlines():
        label = re.match(r"([A-Za-z_]\w*)(\.\w+)*:", line)
        if label:
            name = label.group(1)
        if name:
            found.setdefault(name, []).append(line)
    return found


def with_callees(found, name):
    """The lines of a function and of all that it calls: passes over a row are functions of their own."""
    reached, left = [], [name]
    while left:
        name = left.pop()
        if name in reached or name not in found:
            continue
        reached.append(name)
        for line in found[name]:
            call = re.match(r"\s+(?:call|jmp)\s+([A-Za-z_]\w*)", line)
            if call:
                left.append(call.group(1))
    return [line for name in reached for line in found[name]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--include", required=True)
    options = parser.parse_args()
    names = re.findall(r"float (\w+)\((?:float|row)", (HERE / "loops.cpp").read_text())
    wrong = 0
    for target in TARGETS:
        for level in LEVELS:
            done = subprocess.run([options.compiler, "-std=c++20", level, f"-march={target}", "-DNDEBUG", "-I", options.include, "-S",
                                   "-o", "-", HERE / "loops.cpp"], capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(done.stderr)
            found = functions(done.stdout)
            if len(names) < 6 or not set(names) <= set(found):
                sys.exit(f"the assembly has {', '.join(found)} of {', '.join(names)}")
            for name in names:
                lines = with_callees(found, name)
                wide = sum(bool(re.search(r"\bv(fn?madd|fn?msub)\d+ps\b.*%[yz]mm", line)) for line in lines)
                scalar = sum(bool(re.search(r"\bv(fn?madd|fn?msub)\d+ss\b", line)) for line in lines)
                print(f"{target} {level} {name}: {wide} of 32 bytes or more, {scalar} scalar")
                if wide == 0:
                    wrong += 1
                    print(f"  {name} is not vectorised")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
