#!/usr/bin/env python3
"""Checks that what MSVC sees of the headers has no extension of g++ and clang: each stands behind a test of the compiler.

msvc.py --compiler CXX INCLUDE_DIR    the host's headers, as CXX (g++) preprocesses them with MSVC's macros and no others
msvc.py --compiler CXX --self-test    checks that each extension is found

Words only: whether MSVC compiles the headers is not known.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

MACROS = ("_MSC_VER=1938", "_MSVC_LANG=202002L", "_M_X64=100", "_M_AMD64=100", "_WIN32=1", "_WIN64=1", "_CPPRTTI=1", "_CPPUNWIND=1")
# MSVC has the two builtins that its own headers need.
EXTENSIONS = re.compile(r"\b(__builtin_(?!(?:bit_cast|is_constant_evaluated)\b)\w+|__attribute__|__extension__|__restrict__|__typeof__|"
                        r"typeof|__asm__|asm|__int128|__uint128_t|_Float16|__fp16|__bf16|__float128|_Complex|__alignof__)\b|"
                        r"#pragma (?:GCC|clang)\b.*")
OTHER_BACKENDS = re.compile(r"multidraft/(?:(?:cuda|kokkos|mpi)/|(?:kokkos|mpi)\.hpp$)")
FOREIGN = re.compile(r"^\s*#\s*include\s*<([^>]+)>", re.MULTILINE)
MARKER = re.compile(r'# (\d+) "([^"]*)"')


def faults_of(compiler, include):
    headers = [path.relative_to(include).as_posix() for path in sorted(include.glob("multidraft/**/*.hpp"))]
    faults = []
    with tempfile.TemporaryDirectory() as work:
        # The standard library's headers are empty: only what the library itself says is looked at.
        foreign = {name for path in headers for name in FOREIGN.findall((include / path).read_text(encoding="utf-8"))}
        for name in foreign:
            (Path(work) / name).parent.mkdir(parents=True, exist_ok=True)
            (Path(work) / name).touch()
        text = "".join(f'#include "{path}"\n' for path in headers if not OTHER_BACKENDS.match(path))
        command = [compiler, "-E", "-undef", "-nostdinc", "-std=c++20", *(f"-D{macro}" for macro in MACROS), "-I", str(include),
                   "-isystem", work, "-x", "c++", "-"]
        done = subprocess.run(command, input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        return [done.stderr]
    file, number = "", 0
    for line in done.stdout.splitlines():
        marker = MARKER.match(line)
        if marker:
            file, number = Path(marker[2]).as_posix(), int(marker[1])
            continue
        for found in EXTENSIONS.finditer(re.sub(r'"(?:[^"\\]|\\.)*"', '""', line)):
            faults.append(f"{file}:{number}: MSVC has no {found[0]}")
        number += 1
    return faults


def self_test(compiler):
    cases = [("inline int f() { return 0; }", None), ("__attribute__((cold)) void f();", "__attribute__"),
             ("inline void f(void* a, void* b) { __builtin_memcpy(a, b, 4); }", "__builtin_memcpy"),
             ("inline float f(int x) { return __builtin_bit_cast(float, x); }", None), ("__int128 x;", "__int128"),
             ("#if defined(__GNUC__)\n__int128 x;\n#endif", None), ("#pragma GCC diagnostic push", "#pragma GCC"),
             ("inline void f() { asm(\"\"); }", "asm"), ("char const* f() { return \"asm\"; }  // asm", None),
             ("#include <cstdint>\nusing a = _Float16;", "_Float16"), ("#if defined(_MSC_VER)\n#error nothing\n#endif", "nothing")]
    wrong = 0
    for text, wanted in cases:
        with tempfile.TemporaryDirectory() as work:
            (Path(work) / "multidraft").mkdir()
            (Path(work) / "multidraft/one.hpp").write_text(text + "\n", encoding="utf-8")
            found = faults_of(compiler, Path(work))
        if bool(found) != (wanted is not None) or (wanted and wanted not in found[0]):
            wrong += 1
            print(f"{text!r}: expected {wanted!r}, got {found}")
    print(f"{len(cases)} planted, {wrong} wrong")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("include", nargs="?", type=Path)
    options = parser.parse_args()
    if options.self_test:
        sys.exit(1 if self_test(options.compiler) else 0)
    if not options.include:
        parser.error("name the folder of the headers, or --self-test")
    faults = faults_of(options.compiler, options.include)
    print(*faults, f"{len(faults)} faults", sep="\n")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
