#!/usr/bin/env python3
"""Checks that a file does not compile, and that the compiler says why.

check.py --compiler CXX --include DIR [--include DIR] [--option OPTION] FILE

FILE begins with `// expect: <regex>` (or several such lines): it must not compile, and the compiler's output must match
every expression (Python's `re`, searched; spaces and line ends of the output count as one space). `// expect: ok` asks
for the opposite: a control that the same code, written rightly, compiles. `// errors: 1` among these lines asks for so
many errors, no more and no fewer: for what one message is to say. `// lines: 14` allows so many lines of output, without
those that say which file included which. `// option: -std=c++17` is passed to the compiler, after this program's own.

Files of CUDA (.cu) want nvcc for a compiler, and the message of its front end. An OPTION is the compiler's:
`--option=-fopenmp`.

check.py --compiler CXX --include DIR --self-test checks this program itself.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

EXPECT = re.compile(r"^//\s*expect:\s*(.+?)\s*$")
ERRORS = re.compile(r"^//\s*errors:\s*(\d+)\s*$")
LINES = re.compile(r"^//\s*lines:\s*(\d+)\s*$")
OPTION = re.compile(r"^//\s*option:\s*(\S+)\s*$")
INCLUDED = re.compile(r"^(In file included from|\s+from) .*[:,]$")


def expectations_of(text):
    """The expressions of the leading `// expect:` lines, the numbers of errors and of lines or None, the options."""
    expressions = []
    errors = None
    lines = None
    options = []
    for line in text.splitlines():
        if match := EXPECT.match(line):
            expressions.append(match.group(1))
        elif match := ERRORS.match(line):
            errors = int(match.group(1))
        elif match := LINES.match(line):
            lines = int(match.group(1))
        elif match := OPTION.match(line):
            options.append(match.group(1))
        else:
            break
    return expressions, errors, lines, options


def command_of(path, compiler, includes, options, work):
    """How a file is compiled, as far as messages come."""
    if str(path).endswith(".cu"):
        command = [compiler, "-std=c++20", "-arch=sm_90", "-ptx", "-Xcicc", "-O0", "-o", str(Path(work) / "out.ptx")]
    else:
        command = [compiler, "-std=c++20", "-fsyntax-only", "-fdiagnostics-color=never"]
    for include in includes:
        command += ["-I", include]
    return [*command, *options, str(path)]


def fault_of(path, compiler, includes, options=()):
    """What is wrong with the test, or None when it passes."""
    expressions, errors, lines, own_options = expectations_of(Path(path).read_text(encoding="utf-8"))
    if not expressions:
        return "the first line is not `// expect: <regex>` or `// expect: ok`"
    # Messages in English, with plain quotes.
    environment = {**os.environ, "LC_ALL": "C"}
    with tempfile.TemporaryDirectory() as work:
        result = subprocess.run(command_of(path, compiler, includes, [*options, *own_options], work), env=environment,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                check=False)
    # A quoted line of the source must not count as a message: the expectation itself stands in the source.
    output = re.sub(r"\s+", " ", "\n".join(l for l in result.stdout.splitlines() if "expect:" not in l))
    if expressions == ["ok"]:
        return None if result.returncode == 0 else f"does not compile:\n{result.stdout}"
    if result.returncode == 0:
        return "compiles, and should not"
    if result.returncode < 0 or re.search(r"internal compiler error", output, re.IGNORECASE):
        return f"the compiler crashed:\n{result.stdout}"
    for expression in expressions:
        if not re.search(expression, output):
            return f"does not compile, but no message matches `{expression}`:\n{result.stdout}"
    found = len(re.findall(r"\b(?:error|Error):", output))
    if errors is not None and found != errors:
        return f"{found} errors, and {errors} are wanted:\n{result.stdout}"
    printed = sum(not INCLUDED.match(line) for line in result.stdout.splitlines())
    if lines is not None and printed > lines:
        return f"{printed} lines of messages, and {lines} are the most:\n{result.stdout}"
    return None


SELF_TEST = [
    # (text, what the fault says; None for a test that passes)
    ("// expect: ok\nint main() {}\n", None),
    ('// expect: never fits\ntemplate <class T> void f() { static_assert(sizeof(T) == 0, "this never fits"); }\n'
     "int main() { f<int>(); }\n", None),
    ("// expect: first\n// expect: second\n"
     'static_assert(false, "the first");\nstatic_assert(false, "the second");\nint main() {}\n', None),
    ("// expect: never fits\nint main() {}\n", "compiles, and should not"),
    ('// expect: never fits\nstatic_assert(false, "another reason");\nint main() {}\n', "no message matches"),
    ("// expect: first\n// expect: second\n"
     'static_assert(false, "the first");\nint main() {}\n', "no message matches `second`"),
    ("// expect: ok\nint main() { return nothing; }\n", "does not compile"),
    ("// expect: nothing\n// errors: 1\nint main() { return nothing; }\n", None),
    ("// expect: nothing\n// errors: 1\nint main() { return nothing + nothing_else; }\n", "2 errors, and 1 are wanted"),
    ("// expect: nothing\n// lines: 14\nint main() { return nothing; }\n", None),
    ("// expect: nothing\n// lines: 2\nint main() { return nothing; }\n", "lines of messages, and 2 are the most"),
    ("// expect: ok\n// option: -std=c++17\nstatic_assert(__cplusplus == 201703L);\nint main() {}\n", None),
    ("// errors: 1\nint main() { return nothing; }\n", "the first line"),
    ("int main() { return nothing; }\n", "the first line"),
    ("\n// expect: ok\nint main() {}\n", "the first line"),
]


def self_test(compiler, includes):
    failures = []
    with tempfile.TemporaryDirectory() as directory:
        for number, (text, expected) in enumerate(SELF_TEST):
            path = Path(directory) / f"case_{number}.cpp"
            path.write_text(text, encoding="utf-8")
            fault = fault_of(path, compiler, includes)
            if (fault is None) != (expected is None) or (expected and expected not in fault):
                failures.append(f"case {number}: expected {expected}, got {fault}\n{text}")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--include", action="append", required=True)
    parser.add_argument("--option", action="append", default=[])
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("file", nargs="?")
    options = parser.parse_args()
    if options.self_test:
        faults = self_test(options.compiler, options.include)
    elif options.file:
        fault = fault_of(options.file, options.compiler, options.include, options.option)
        faults = [f"{options.file}: {fault}"] if fault else []
    else:
        parser.error("name a file, or --self-test")
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
