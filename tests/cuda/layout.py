#!/usr/bin/env python3
"""What launches hand to kernels is laid out on the device as on the host.

    layout.py --nvcc NVCC --root ROOT [--option ..]
    layout.py --nvcc NVCC --root ROOT --self-test      a class that nvcc 13.0 lays out in two ways

Compiles layout.cu to PTX, where each offset is a constant that the kernel stores, and to a program that prints the host's. No
device is needed. Also: in no class of include/ an empty member that may share its place is the last one, since nvcc then places what
follows elsewhere on the device.
"""
import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

BAD = """#include <cstdio>
struct empty {};
struct last { double v; [[no_unique_address]] empty e; };
struct both { last a; int b; };
__global__ void on_device(unsigned long long* out, both* p) { *out = reinterpret_cast<char*>(&p->b) - reinterpret_cast<char*>(p); }
int main() {
    both x;
    std::printf("both.b %llu\\n", static_cast<unsigned long long>(reinterpret_cast<char*>(&x.b) - reinterpret_cast<char*>(&x)));
}
"""


def stored(ptx):
    """The constants that the kernel stores, by their place."""
    constants, found = {}, {}
    value = lambda word: int(word) if re.fullmatch(r"\d+", word) else constants.get(word)
    for line in ptx.splitlines():
        if match := re.match(r"\s*mov\.[bus]64\s+(%\w+), (\d+);", line):
            constants[match[1]] = int(match[2])
        elif match := re.match(r"\s*st\.global(?:\.v\d)?\.[bus]64\s+\[%\w+(?:\+(\d+))?\], \{?([^}]*?)\}?;", line):
            for k, word in enumerate(match[2].split(",")):
                found[int(match[1] or 0) // 8 + k] = value(word.strip())
    return found


def differences(nvcc, source, options):
    with tempfile.TemporaryDirectory() as directory:
        build = lambda *more: subprocess.run([nvcc, "-std=c++20", "-O1", "--expt-relaxed-constexpr", *options, *more, source], check=True)
        build("-ptx", "-o", f"{directory}/layout.ptx")
        build("-o", f"{directory}/layout")
        device = stored(Path(f"{directory}/layout.ptx").read_text(encoding="utf-8"))
        host = subprocess.run([f"{directory}/layout"], check=True, capture_output=True, text=True).stdout.split("\n")
    rows = [line.rsplit(" ", 1) for line in host if line]
    return rows, [f"{name}: {of_host} on the host, {device.get(k)} on the device" for k, (name, of_host) in enumerate(rows)
                  if device.get(k) != int(of_host)]


def last_empty(root):
    """Members marked [[no_unique_address]] with none after them in their class."""
    for path in sorted((root / "include").rglob("*.*pp")) + sorted((root / "include").rglob("*.cuh")):
        lines = path.read_text(encoding="utf-8").splitlines()
        for at, line in enumerate(lines):
            rest = (later.strip() for later in lines[at + 1:] if later.strip() and not later.strip().startswith("//"))
            if "[[no_unique_address]]" in line and next(rest, "") == "};":
                yield f"{path.relative_to(root)}:{at + 1}: {line.strip()}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nvcc", required=True)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--option", action="append", default=[])
    parser.add_argument("--self-test", action="store_true")
    a = parser.parse_args()
    if a.self_test:
        with tempfile.NamedTemporaryFile("w", suffix=".cu", delete=False) as file:
            file.write(BAD)
        rows, bad = differences(a.nvcc, file.name, a.option)
        Path(file.name).unlink()
        if len(rows) != 1:
            sys.exit("the offset was not read")
        print(bad[0] if bad else "this nvcc lays the class out in one way")
        return
    rows, bad = differences(a.nvcc, a.root / "tests/cuda/layout.cu", a.option + ["-I", a.root / "include"])
    bad += list(last_empty(a.root))
    for line in bad:
        print(line)
    print(f"{len(rows)} fields, {len(bad)} faults")
    sys.exit(1 if bad or len(rows) < 40 else 0)


if __name__ == "__main__":
    main()
