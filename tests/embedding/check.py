#!/usr/bin/env python3
"""Runs an example and compares what it prints with the comment at the end of its source, which begins with `// Output`.

check.py SOURCE PROGRAM

`...` in the comment stands for any text. An example of a device may say instead that there is none here.
"""
import re
import subprocess
import sys
from pathlib import Path

source, program = sys.argv[1:]
text = Path(source).read_text(encoding="utf-8")
found = re.search(r"^// Output.*\n((?://.*\n)+)\Z", text, re.M)
if not found:
    sys.exit(f"{source}: does not end with its output")
expected = [line[3:] for line in found.group(1).splitlines()]
done = subprocess.run([program], capture_output=True, text=True, timeout=120)
printed = done.stdout.splitlines()
if done.returncode == 0 and source.endswith(".cu") and printed == ["no device here; nothing was run"]:
    print(done.stdout)
    sys.exit(0)
fits = len(printed) == len(expected) and all(
    re.fullmatch(".*".join(re.escape(part) for part in line.split("...")), got) for line, got in zip(expected, printed))
if done.returncode != 0 or not fits:
    sys.exit(f"{program}: returned {done.returncode}, printed\n{done.stdout}{done.stderr}\nexpected\n" + "\n".join(expected))
print(done.stdout)
