#!/usr/bin/env python3
"""Checks the namespace that the library is in: files compiled for different instruction sets share no code of it.

check.py headers --include DIR                                every header is in it, and knows its name
check.py names --compiler CXX --include DIR                   what it is called under which flags
check.py units --compiler CXX --include DIR --work DIR        one program of three such files, linked in several orders
check.py devices --include DIR --work DIR                     host and device compilers agree on the names of kernels

Exit status 77 (skipped) where the machine or a compiler is missing.
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SKIPPED = 77
ABI = "multidraft/base/abi.hpp"


def run(*command):
    return subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False)


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def must(*command):
    result = run(*command)
    if result.returncode != 0:
        sys.exit(f"{' '.join(str(c) for c in command)}\n{result.stdout}")
    return result.stdout


# --- The headers -------------------------------------------------------------------------------------------------------


def headers(options):
    text = {p.relative_to(options.include).as_posix(): p.read_text(encoding="utf-8")
            for p in sorted(options.include.rglob("*")) if p.suffix in (".hpp", ".cuh")}
    included = {name: re.findall(r'^#include "(multidraft/[^"]+)"', t, re.MULTILINE) for name, t in text.items()}

    def reaches(name, seen):
        if name == ABI:
            return True
        if name in seen:
            return False
        seen.add(name)
        return any(reaches(other, seen) for other in included.get(name, ()))

    faults = [] if ABI in text else [f"{ABI}: is missing"]
    for name, t in text.items():
        if name == ABI:
            continue
        for number, line in enumerate(t.splitlines(), 1):
            if re.search(r"(?<!using )\bnamespace multidraft\b", line):
                faults.append(f"{name}:{number}: write `namespace MULTIDRAFT_NAMESPACE`")
        if "MULTIDRAFT_NAMESPACE" in t and not reaches(name, set()):
            faults.append(f"{name}: opens a namespace of that very name, because it does not include {ABI}")
    return faults


# --- The names ---------------------------------------------------------------------------------------------------------

NAMES = [("-march=x86-64", "x86_64"), ("-march=x86-64-v2", "x86_64_v2"), ("-march=x86-64-v3", "x86_64_v3"),
         ("-march=x86-64-v4", "x86_64_v4"), ("-march=haswell", "x86_64_v3"), ("-march=skylake-avx512", "x86_64_v4"),
         ("-march=cascadelake", "x86_64_v4_vnni"), ("-march=icelake-server", "x86_64_v4_icelake"),
         ("-march=sapphirerapids", "x86_64_v4_icelake_bf16_fp16_avxvnni"),
         ("-march=x86-64 -mavx2 -mfma", "x86_64_v2_avx_avx2_fma"),
         ("-march=x86-64-v4 -mno-fma -mno-avx512f", "x86_64_v2_avx_avx2_f16c_bmi_bmi2_lzcnt_movbe")]


def name_of(*command):
    # The last line of one word: a compiler may warn of the flags, before and after it.
    return re.findall(r"^\w+$", must(*command, "-std=c++20", "-E", "-P", HERE / "name.cpp"), re.MULTILINE)[-1]


def version(include):
    text = (include / "multidraft/version.hpp").read_text(encoding="utf-8")
    return "_".join(["v" + re.search(r"MULTIDRAFT_VERSION_MAJOR (\d+)", text)[1],
                     *re.findall(r"MULTIDRAFT_VERSION_(?:MINOR|PATCH) (\d+)", text)])


def names(options):
    compiler = [options.compiler, "-I", options.include]
    faults = []
    if name_of(*compiler, "-DMULTIDRAFT_ABI=engine") != "engine":
        faults.append("MULTIDRAFT_ABI does not replace the name")
    if not re.fullmatch(version(options.include) + r"_\w*[a-z0-9]", name_of(*compiler)):
        faults.append(f"the name without flags is {name_of(*compiler)}")
    if "x86_64" not in run(options.compiler, "-dumpmachine").stdout:
        return faults
    for flags, expected in NAMES:
        found = name_of(*compiler, *flags.split())
        if found != f"{version(options.include)}_{expected}":
            faults.append(f"{flags}: {found}, not .._{expected}")
    return faults


# --- One program of several units --------------------------------------------------------------------------------------

FLAGS = {"unit_base": ["-march=x86-64"], "unit_v3": ["-march=x86-64-v3"], "unit_native": ["-march=native"]}
WIDE = re.compile(r"%[yz]mm|\tv[a-z]")  # AVX and later


def in_namespace(name):
    """What mangled names of the inline namespace `name` contain."""
    return f"{len(name)}{name}"


def symbols(thing):
    """The functions that several files of a program may define."""
    return set(re.findall(r"^[0-9a-f]+ [WV] (\S+)", must("nm", thing), re.MULTILINE))


def functions(program):
    """The machine code of each function, as text."""
    text = must("objdump", "-d", "--no-show-raw-insn", program)
    return dict(re.findall(r"^[0-9a-f]+ <([^>]+)>:\n(.*?)(?=\n\n|\Z)", text, re.MULTILINE | re.DOTALL))


def wide_in(program, name):
    """The functions of the namespace, and those among them that a plain x86-64 cannot run."""
    own = {f: code for f, code in functions(program).items() if in_namespace(name) in f}
    return set(own), {f for f, code in own.items() if WIDE.search(code)}


def units(options):
    if "x86_64" not in run(options.compiler, "-dumpmachine").stdout:
        skip("not an x86-64 machine")
    if not shutil.which("nm") or not shutil.which("objdump"):
        skip("no nm and objdump (binutils)")
    macros = run(options.compiler, "-march=native", "-dM", "-E", "-x", "c++", "/dev/null").stdout
    if not all(f"__{m}__ " in macros for m in ("AVX2", "FMA", "BMI2", "LZCNT", "F16C", "MOVBE")):
        skip("this CPU has no AVX2 and FMA")
    # Neither inlined nor cloned, so that there is something to share.
    compiler = [options.compiler, "-std=c++20", "-O1", "-fno-inline", "-I", options.include, "-I", HERE.parent]
    thing = lambda unit, how: options.work / f"{unit}_{how}.o"
    name, faults = {}, []
    main_unit = options.work / "main.o"
    must(*compiler, "-march=x86-64", "-c", HERE / "main.cpp", "-o", main_unit)
    for how, more in (("own", []), ("shared", ["-DMULTIDRAFT_ABI=shared"])):
        for unit, flags in FLAGS.items():
            if how == "own":
                name[unit] = name_of(options.compiler, "-I", options.include, *flags)
            elif unit == "unit_v3":
                continue
            must(*compiler, *flags, *more, f"-DUNIT={unit}", "-c", HERE / "unit.cpp", "-o", thing(unit, how))
    print(", ".join(f"{unit}: {n}" for unit, n in name.items()))

    # No function of the library is in two of the files; each has the fixed-order sum.
    for unit, n in name.items():
        found = symbols(thing(unit, "own"))
        if not any("host_chunk" in s and in_namespace(n) in s for s in found):
            faults.append(f"{unit}: no host_chunk in {n}, but {sorted(s for s in found if 'multidraft' in s)}")
        for other, of_other in name.items():
            both = {s for s in found & symbols(thing(other, "own")) if "multidraft" in s}
            if of_other != n and both:
                faults.append(f"{unit} and {other} share {sorted(both)}")

    # In whatever order they are linked, the plain file runs plain code, and sums are the same.
    lines = None
    for order in (list(FLAGS), list(FLAGS)[::-1]):
        program = options.work / f"program_{order[0]}"
        must(options.compiler, *[thing(unit, "own") for unit in order], main_unit, "-o", program)
        own, wide = wide_in(program, name["unit_base"])
        if not own or wide:
            faults.append(f"{' '.join(order)}: {len(own)} functions for any x86-64, of which not: {sorted(wide)}")
        if not wide_in(program, name["unit_native"])[1]:
            faults.append(f"{' '.join(order)}: the unit for this machine has no wide instruction, so nothing is tested")
        printed = must(program).split("\n")[:3]
        if lines is None:
            lines = printed
            print("\n".join(lines))
        if printed != lines:
            faults.append(f"{' '.join(order)}: {printed}, not {lines}")
    base, v3, native = (line.split() for line in lines)
    if [base[0], v3[0], native[0]] != list(name.values()) or [base[1], v3[1], native[1]] != ["0", "1", "1"]:
        faults.append(f"names and FMA: {lines}")
    if not base[2] == v3[2] == native[2] or v3[2:] != native[2:]:
        faults.append(f"sums differ: {lines}")
    if base[3] == v3[3]:
        faults.append("the row does not tell an FMA from a product and a sum, so nothing is tested")

    # That the test can fail: under one name, the code for this machine gets into the plain file's functions.
    must(options.compiler, *[thing(unit, "shared") for unit in ("unit_native", "unit_base")], thing("unit_v3", "own"),
         main_unit, "-o", options.work / "program_shared")
    if not wide_in(options.work / "program_shared", "shared")[1]:
        faults.append("two files under one name share nothing: the test could not have failed")

    # A type of the library that two such files pass each other is two types, which the linker finds.
    interface = [*compiler, HERE / "interface.cpp"]
    must(*interface, "-march=x86-64", "-DCALLED", "-c", "-o", options.work / "called.o")
    result = run(*interface, "-march=x86-64-v3", options.work / "called.o", "-o", options.work / "interface")
    if result.returncode == 0 or not re.search(r"undefined.*first_of\(multidraft::\w+_x86_64_v3::span", result.stdout):
        faults.append(f"a call between files of different flags is linked, or refused without saying why:\n{result.stdout}")
    must(*interface, "-march=x86-64", options.work / "called.o", "-o", options.work / "interface")
    return faults


# --- Host and device ---------------------------------------------------------------------------------------------------


def devices(options):
    faults, tried = [], 0
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if nvcc and shutil.which("nm"):
        for flags in ([], ["-Xcompiler", "-march=native"]):
            command = [nvcc, "-std=c++20", "-arch=sm_90", *flags, "-I", options.include, HERE / "kernel.cu", "-o"]
            must(*command, options.work / "kernel.ptx", "-ptx")
            must(*command, options.work / "kernel.o", "-c")
            entries = re.findall(r"\.entry (\w+)", (options.work / "kernel.ptx").read_text(encoding="utf-8"))
            # The host registers the kernel by a string, and launches it by the address of a function of that name.
            host = (options.work / "kernel.o").read_bytes()
            stubs = must("nm", options.work / "kernel.o")
            tried += 1
            for entry in entries:
                if version(options.include) not in entry:
                    faults.append(f"nvcc {flags}: {entry} holds no type of the library")
                if entry.encode() + b"\0" not in host or not re.search(rf" [TWVt] {entry}$", stubs, re.MULTILINE):
                    faults.append(f"nvcc {flags}: the host does not know {entry}")
            if not entries:
                faults.append(f"nvcc {flags}: no kernel")
    clang = next((shutil.which(n) for n in [f"clang++-{v}" for v in range(21, 13, -1)] + ["clang++"] if shutil.which(n)),
                 None)
    targets = run(clang, "--print-targets").stdout if clang else ""
    for target, language in (("nvptx64", ["-x", "cuda", "-Wno-unknown-cuda-version", "-nocudainc", "-nocudalib", "--cuda-gpu-arch=sm_80"]),
                             ("amdgcn", ["-x", "hip", "-nogpuinc", "-nogpulib", "--offload-arch=gfx90a"])):
        if target not in targets:
            continue
        for flags in ([], ["-march=native"]):
            both = [name_of(clang, *language, f"--cuda-{side}-only", *flags, "-I", options.include)
                    for side in ("host", "device")]
            tried += 1
            if both[0] != both[1]:
                faults.append(f"{target} {flags}: {both[0]} on the host, {both[1]} on the device")
    if not tried and not faults:
        skip("no nvcc, and no clang that compiles for a device")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["headers", "names", "units", "devices"])
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--include", required=True, type=Path)
    parser.add_argument("--work", default=Path("abi"), type=Path)
    options = parser.parse_args()
    if options.what in ("units", "devices"):
        shutil.rmtree(options.work, ignore_errors=True)
        options.work.mkdir(parents=True)
    faults = {"headers": headers, "names": names, "units": units, "devices": devices}[options.what](options)
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
