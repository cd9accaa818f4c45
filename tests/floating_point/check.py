#!/usr/bin/env python3
"""Holds docs/floating_point.md against compilers and their flags.

check.py same_bits --compiler CXX --include DIR --work DIR      the library's programs give one set of bits
check.py flags --compiler CXX --include DIR --work DIR          what is refused, what is found by check_arithmetic
check.py devices --include DIR --work DIR                       clang's device compilers contract no rounded product

CXX is the build's compiler; clang++ and g++ are tried beside it where they are installed.
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SKIPPED = 77
# The numbers of arithmetic_fault.
NOTHING, ROUNDING, SUBNORMALS, QUOTIENTS, PRODUCTS, FUSED, ORDER, NOT_A_NUMBER, SIGNED_ZEROS = range(9)


def run(command):
    return subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False)


def kind_of(compiler):
    return "clang" if "clang" in run([compiler, "--version"]).stdout else "gcc"


def compilers(first):
    """The build's compiler, and one of the other kind."""
    found = [first]
    names = ["g++"] if kind_of(first) == "clang" else [f"clang++-{v}" for v in range(21, 13, -1)] + ["clang++"]
    other = next((shutil.which(n) for n in names if shutil.which(n)), None)
    return found + ([other] if other else [])


def build(compiler, flags, source, options, name):
    program = options.work / name
    result = run([compiler, "-std=c++20", *flags, "-I", options.include, "-I", HERE.parent, HERE / source, "-o", program])
    return program, result


def same_bits(options):
    faults, expected = [], None
    for compiler in compilers(options.compiler):
        for flags in (["-O1", "-ffp-contract=fast"], ["-O1", "-ffp-contract=off"]):
            program, result = build(compiler, ["-march=native", *flags], "program.cpp", options,
                                    f"program_{len(faults)}")
            what = f"{Path(compiler).name} {' '.join(flags)}"
            if result.returncode != 0:
                faults.append(f"{what}: does not compile:\n{result.stdout}")
                continue
            lines = run([program]).stdout
            if lines.count("\n") < 10:
                faults.append(f"{what}: printed\n{lines}")
            if expected is None:
                expected = (what, lines)
            elif lines != expected[1]:
                faults.append(f"{what} has other bits than {expected[0]}:\n{lines}\n{expected[1]}")
    return faults


REFUSED = ["-ffast-math", "-Ofast", "-ffinite-math-only"]
REFUSED_OF_GCC = ["-funsafe-math-optimizations", "-freciprocal-math", "-fno-signed-zeros",
                  "-fassociative-math -fno-signed-zeros -fno-trapping-math"]
# Flags that clang tells of by no macro.
FOUND_OF_CLANG = [("-freciprocal-math", {QUOTIENTS}), ("-fassociative-math -fno-signed-zeros -fno-trapping-math", {ORDER}),
                  ("-fno-signed-zeros", {SIGNED_ZEROS}),
                  ("-funsafe-math-optimizations", {SUBNORMALS, QUOTIENTS, ORDER, SIGNED_ZEROS})]
GOOD = ["-O0", "-O2", "-O3 -ffp-contract=fast", "-O2 -ffp-contract=off", "-O2 -fno-math-errno -fno-trapping-math"]


def flags(options):
    faults = []
    for compiler in compilers(options.compiler):
        kind, name = kind_of(compiler), Path(compiler).name
        for text in REFUSED + (REFUSED_OF_GCC if kind == "gcc" else []):
            _, result = build(compiler, ["-O2", *text.split()], "arithmetic.cpp", options, "refused")
            if result.returncode == 0:
                faults.append(f"{name} {text}: is not refused")
            elif "multidraft: not with" not in result.stdout or "docs/floating_point.md" not in result.stdout:
                faults.append(f"{name} {text}: is refused without saying why:\n{result.stdout}")
        _, result = build(compiler, ["-O2", "-fno-exceptions"], "arithmetic.cpp", options, "refused")
        if "multidraft: not with -fno-exceptions" not in result.stdout:
            faults.append(f"{name} -fno-exceptions: is not refused, or without saying why:\n{result.stdout}")
        found = [(text, {NOTHING}) for text in GOOD] + (FOUND_OF_CLANG if kind == "clang" else [])
        for text, expected in found:
            program, result = build(compiler, ["-O2", "-march=native", *text.split()], "arithmetic.cpp", options, "found")
            if result.returncode != 0:
                faults.append(f"{name} {text}: does not compile:\n{result.stdout}")
            elif int(run([program]).stdout) not in expected:
                faults.append(f"{name} {text}: check_arithmetic found {run([program]).stdout}, not {expected}")
    # A library that was linked with -ffast-math makes the thread flush subnormals: gcc before 13.
    compiler = next((c for c in compilers(options.compiler) if kind_of(c) == "gcc"), None)
    if compiler and int(run([compiler, "-dumpversion"]).stdout.split(".")[0]) < 13:
        thing = options.work / "arithmetic.o"
        program = options.work / "linked"
        run([compiler, "-std=c++20", "-O2", "-I", options.include, "-c", HERE / "arithmetic.cpp", "-o", thing])
        run([compiler, "-ffast-math", thing, "-o", program])
        if int(run([program]).stdout) != SUBNORMALS:
            faults.append("subnormals that a thread flushes are not found")
    return faults


def devices(options):
    clang = next((shutil.which(n) for n in [f"clang++-{v}" for v in range(21, 13, -1)] + ["clang++"] if shutil.which(n)),
                 None)
    targets = run([clang, "--print-targets"]).stdout if clang else ""
    faults, tried = [], 0
    for target, language, fused, added in (
            ("amdgcn", ["-x", "hip", "-D__HIPCC__", "-nogpuinc", "-nogpulib", "--offload-arch=gfx90a"],
             r"v_(fma|fmac|mac|pk_fma)_f", r"v_(pk_)?add_f"),
            ("nvptx64", ["-x", "cuda", "-D__CUDACC__", "-nocudainc", "-nocudalib", "--cuda-gpu-arch=sm_80"],
             r"fma\.rn", r"add(\.rn)?\.f")):
        if target not in targets:
            continue
        for contract in ([], ["-ffp-contract=fast"]):
            result = run([clang, "-std=c++20", "-O3", *language, "--cuda-device-only", *contract, "-I", options.include,
                          "-S", "-o", "-", HERE / "device.cpp"])
            what = f"{target} {' '.join(contract)}"
            if result.returncode != 0:
                faults.append(f"{what}: does not compile:\n{result.stdout}")
                continue
            tried += 1
            # The text of each kernel, which ends where the next one begins.
            bodies = dict(re.findall(r"(?:^|entry )(\w+_(?:float|double))(?:\(|:)(.*?)(?=\Z|entry \w+_|^\w+_\w+:)",
                                     result.stdout, re.MULTILINE | re.DOTALL))
            for kernel in ("rounded_float", "rounded_double"):
                if not re.search(added, bodies.get(kernel, "")):
                    faults.append(f"{what}: {kernel} has no sum of its own:\n{bodies.get(kernel, result.stdout)}")
            # That the test can fail: a plain product is contracted.
            if not re.search(fused, bodies.get("plain_float", "")) or re.search(added, bodies.get("plain_float", "")):
                faults.append(f"{what}: plain_float is not contracted:\n{bodies.get('plain_float', result.stdout)}")
    if not tried and not faults:
        print("skipped: no clang that compiles for a device")
        sys.exit(SKIPPED)
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["same_bits", "flags", "devices"])
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--include", required=True)
    parser.add_argument("--work", required=True, type=Path)
    options = parser.parse_args()
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)
    faults = {"same_bits": same_bits, "flags": flags, "devices": devices}[options.what](options)
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
