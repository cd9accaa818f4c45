#!/usr/bin/env python3
"""Compiles verifiers for AMD GPUs by clang's HIP front end: no device, none of its libraries. Nothing is run.

  tests/hip/check.py --root DIRECTORY --work DIRECTORY

Of each kernel the shared memory must fit a work group's 64 KB. Exit status 77 (skipped) without a clang for these devices.
"""
import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

METHODS = ("recursive_rejection_sequential", "naive_deterministic", "traversal_sequential", "block_iid", "nested_ranked_block_stratified")
ARCHITECTURES = ("gfx90a", "gfx1030")  # wavefronts of 64 lanes, of 32, for which clang 14 lacks a ballot
SHARED = 64 * 1024


def output_of(command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    options = parser.parse_args()
    names = [f"clang++-{version}" for version in range(22, 13, -1)] + ["clang++"]
    clang = next(filter(shutil.which, names), None)
    if not clang or "amdgcn" not in output_of([clang, "--print-targets"]).stdout:
        print("skipped: no clang that compiles for AMD GPUs")
        sys.exit(77)
    version = int(re.search(r"clang version (\d+)", output_of([clang, "--version"]).stdout)[1])
    options.work.mkdir(parents=True, exist_ok=True)
    faults = []
    for method in METHODS:
        for architecture in ARCHITECTURES if method == METHODS[0] and version > 15 else ARCHITECTURES[:1]:
            assembly = options.work / f"{method}.{architecture}.s"
            done = output_of([clang, "-std=c++20", "-O1", "-x", "hip", "-D__HIPCC__", "-nogpuinc", "-nogpulib", "--cuda-device-only",
                              f"--offload-arch={architecture}", f"-DMULTIDRAFT_HIP_METHOD={method}", "-I", options.root / "include",
                              "-S", "-o", assembly, options.root / "tests" / "hip" / "verify.hip"])
            what = f"{clang}, {method}, {architecture}"
            if done.returncode != 0:
                faults.append(f"{what}: does not compile:\n{done.stdout}")
                continue
            sizes = [int(size) for size in re.findall(r"^; LDSByteSize: (\d+)", assembly.read_text(encoding="utf-8"), re.MULTILINE)]
            if not sizes or max(sizes) > SHARED:
                faults.append(f"{what}: shared memory of {max(sizes, default=0)} bytes, of {SHARED}")
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
