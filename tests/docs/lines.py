#!/usr/bin/env python3
"""Documents have one sentence a line, so that a change of a sentence is a change of a line.

lines.py [--root ROOT]         fails where a line has two sentences or a sentence has two lines
lines.py [--root ROOT] --fix   breaks the lines
lines.py --self-test

Tables, code, headings, comments and definitions of links stay as they are, and so does what is rendered: only the white space
between two words of a paragraph changes.
"""
import argparse
import re
import sys
from pathlib import Path

FILES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md", "examples/README.md", "models/README.md", "bindings/python/README.md",
         "tests/*/README.md")
ABBREVIATIONS = ("e.g.", "i.e.", "al.", "vs.", "cf.", "Alg.", "Fig.", "Eq.", "eq.", "Sec.", "Thm.", "No.", "resp.", "etc.", "St.")
ITEM = re.compile(r"( *)([-*+]|\d+[.)]) +")
# What would begin another block if it began a line.
BLOCK = re.compile(r"[-*+>#|]( |$)|\d+[.)] |```|~~~|===|---|<|\[[^\]]*\]:|\|")
APART = re.compile(r"\s*(\||#{1,6} |<!--|</?\w|\[[^\]]+\]: |>|(---|===)\s*$|!\[[^\]]*\]\([^)]*\)\s*$)")


def sentences(text):
    """The sentences of a paragraph; code and links are not broken."""
    closed = [m.span() for m in re.finditer(r"(`+)[^`].*?\1|!?\[[^\]]*\]\([^)]*\)|<[^>]*>", text)]
    found, begin = [], 0
    for match in re.finditer(r"[.!?][)\"*_]*( )(?=[A-Z0-9`\[(*\"!_])", text):
        at = match.start(1)
        before = text[begin:at].split(" ")[-1]
        if any(a < at < b for a, b in closed) or before.lstrip("(*[") in ABBREVIATIONS or before.endswith("..") or BLOCK.match(text[at + 1:]):
            continue
        if text[begin:at].count("(") - text[begin:at].count(")") > 0 and text[at + 1:].count(")") > 0:
            continue  # inside brackets
        if re.fullmatch(r"\W*([A-Z]|\d+)\.", before) and not re.fullmatch(r"\W*\d+\.", before):
            continue  # initials
        found.append(text[begin:at])
        begin = at + 1
    return [*found, text[begin:]]


def broken(page):
    """The page with one sentence a line."""
    result, paragraph, indent, first = [], [], "", ""

    def end():
        if paragraph:
            lines = sentences(" ".join(paragraph))
            result.extend([first + lines[0], *(indent + line for line in lines[1:])])
            paragraph.clear()

    fence = None
    for line in page.splitlines():
        stripped = line.strip()
        marks = re.match(r"\s*(```+|~~~+|\$\$)", line)
        if fence:
            result.append(line)
            fence = None if stripped.startswith(fence) and stripped.strip(fence[0]) == "" else fence
            continue
        if marks:
            end()
            result.append(line)
            if not (marks.group(1) == "$$" and stripped.count("$$") == 2):
                fence = marks.group(1)
            continue
        if not stripped or APART.match(line):
            end()
            result.append(line)
            continue
        item = ITEM.match(line)
        if item:
            end()
            first, indent = item.group(0), " " * len(item.group(0))
            paragraph.append(line[item.end():].strip())
        elif paragraph:
            paragraph.append(stripped)
        elif line.startswith("    ") and not re.match(r" {4,}\S", line):
            result.append(line)
        else:
            first = indent = re.match(r" *", line).group(0)
            paragraph.append(stripped)
        if line.endswith("  ") or line.endswith("\\"):
            paragraph[-1] += "  " if line.endswith("  ") else ""
            end()
    end()
    return "\n".join(result) + "\n"


def self_test():
    page = """# A title. It stays
One sentence, that
has two lines. Another one, of [X. Y](a. B), et al. 2023, and `code. More` of it.. Not here. `this` is one. (In
brackets. Two.) End.
- An item. Two
  lines. 1. stays
- Next (e.g. This)
    1. A deeper one. Here.

| a. B | c |
```
x. Y
z
```
Hard break. X  
next.
"""
    wanted = """# A title. It stays
One sentence, that has two lines.
Another one, of [X. Y](a. B), et al. 2023, and `code. More` of it.. Not here.
`this` is one.
(In brackets. Two.)
End.
- An item.
  Two lines. 1. stays
- Next (e.g. This)
    1. A deeper one.
       Here.

| a. B | c |
```
x. Y
z
```
Hard break.
X  
next.
"""
    assert broken(page) == wanted, broken(page)
    assert broken(wanted) == wanted
    print("The lines break where they should.")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent.parent)
    parser.add_argument("--fix", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    wrong = 0
    for path in (path for pattern in FILES for path in sorted(options.root.glob(pattern))):
        text = path.read_text(encoding="utf-8")
        wanted = broken(text)
        if wanted == text:
            continue
        if options.fix:
            path.write_text(wanted, encoding="utf-8")
            continue
        wrong += 1
        number = next(n for n, (a, b) in enumerate(zip(text.splitlines(), wanted.splitlines()), 1) if a != b)
        print(f"{path.relative_to(options.root)}:{number}: not one sentence a line; run tests/docs/lines.py --fix")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
