#!/usr/bin/env python3
"""Checks docs/papers.md: 124 items in order, files that exist, items of bench/paper_tables that exist and are as it says, a test
for every claim that is proved, tested or checked; and docs/errata.md: a test for every erratum.

  tests/docs/papers.py --root DIRECTORY [--self-test] [--fix]      --fix writes the states of runs from the results
"""
import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

ITEMS = 124
STATES = ("proved", "checked", "tested", "run", "not run", "missing", "not here")
INEQUALITIES = (7, 49, 77, 78)  # of all rows: checked on random ones
ROOMS = ("include/multidraft", "tests", ".")
LINE = re.compile(r"^\| (\d+) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$")
OF_CHAT = re.compile(r"^\| `(chat\.\w+)` \| (.+?) \| (.+?) \|$")  # a table of the chat model: what it is, its state
CODE = re.compile(r"`([^`]+)`")


def shown_by(made):
    """The state of tables with results, [(entry, setting or "")]: how the comparisons of the paper ended here."""
    counts = {}
    for item, setting in made:
        for verdict, count in (item["comparisons_by_group"].get(setting, {}) if setting else item["comparisons"]).items():
            counts[verdict] = counts.get(verdict, 0) + count
    listed = ", ".join(f"{counts[v]} {v}" for v in ("same sign", "no difference found", "other sign", "holds by mathematics") if counts.get(v))
    return "run" + (f": {listed}" if listed else "")


def state_of_chat(row, items):
    """The state of a table of the chat model."""
    item = items[row[1]]
    return shown_by([(item, "")]) if item["state"].startswith("run") else "not run"


def state_of_runs(row, items):
    """(the state of a line's tables, whether all have results), or None where the line is not one of runs."""
    # `name` (setting): the comparisons of one setting.
    tables = re.findall(r"`(\w+\.(?:table|figure)_\d+)`(?: \(([\w, ]+)\))?", row[5])
    made = [(items[t], setting) for t, setting in tables if t in items and items[t]["jobs"]]
    if not made or not row[6].startswith(("run", "not run")):
        return None
    if all(item["state"].startswith("run") for item, _ in made):
        return shown_by(made), True
    return "not run", False


def fixed(text, listed):
    """The page with the states of runs as the results have them."""
    items = {entry["name"]: entry for entry in listed}
    lines = text.splitlines()
    for k, line in enumerate(lines):
        row = LINE.match(line)
        found = row and state_of_runs(row, items)
        if found and (found[1] or not row[6].startswith(found[0])):
            lines[k] = line[:row.start(6)] + found[0] + line[row.end(6):]
        chat = OF_CHAT.match(line)
        if chat and chat[1] in items:
            lines[k] = line[:chat.start(3)] + state_of_chat(chat, items) + line[chat.end(3):]
    return "\n".join(lines) + "\n"


def faults(text, listed, root):
    """What is wrong with the page, a line each; `listed` is what bench/paper_tables --list --json prints."""
    found = []
    items = {entry["name"]: entry for entry in listed}
    rows = [m for m in map(LINE.match, text.splitlines()) if m]
    if [int(m[1]) for m in rows] != list(range(1, ITEMS + 1)):
        found.append(f"the items are numbered 1 to {ITEMS}, a line each; there are {len(rows)}")
    mentioned = set()
    for m in rows:
        number, state = m[1], m[6]
        if not any(re.match(rf"{s}\b", state) for s in STATES):
            found.append(f"item {number}: its state begins with one of {', '.join(STATES)}")
        for code in CODE.findall(" ".join(m.groups()[1:5])):
            if re.fullmatch(r"[\w./-]+/|[\w./-]+\.(hpp|cpp|py|cuh|cu)", code) or code.startswith(("bench/", "tests/")):
                if not any((root / room / code).exists() for room in ROOMS):
                    found.append(f"item {number}: there is no {code}")
        is_claim = state.startswith(("proved", "checked", "tested"))
        if state.startswith("checked") != (int(number) in INEQUALITIES):
            found.append(f"item {number}: \"checked on random instances\" is the state of inequalities, {', '.join(map(str, INEQUALITIES))}")
        if is_claim and not any((root / "tests" / code).exists() or (root / code).exists() for code in CODE.findall(m[4])):
            found.append(f"item {number}: it is {state.split(',')[0]}, and names no test")
        expected = state_of_runs(m, items)
        if expected and not (state == expected[0] if expected[1] else state.startswith(expected[0])):
            found.append(f"item {number}: its state is {expected[0]}")
    for m in filter(None, map(OF_CHAT.match, text.splitlines())):
        if m[1] in items and m[3] != state_of_chat(m, items):
            found.append(f"{m[1]}: its state is {state_of_chat(m, items)}")
    for code in CODE.findall(text):
        if re.fullmatch(r"\w+\.(\w+_)?(table|figure)_\d+", code):
            mentioned.add(code)
            if code not in items:
                found.append(f"bench/paper_tables has no {code}")
    for name in items:
        numbered = re.fullmatch(r"rsd\.(figure_[6-9]|table_\d+)", name)  # named as a range
        if "." in name and name not in mentioned and not numbered:
            found.append(f"{name} of bench/paper_tables is not on the page")
    return found


def errata_faults(text, root):
    """What is wrong with docs/errata.md: errata without a test, tests that do not exist."""
    found = []
    tests = set()
    for file in (root / "tests").rglob("*_test.cpp"):
        tests |= {f"{suite}.{name}" for suite, name in re.findall(r"^TEST(?:_F|_P)?\((\w+), (\w+)\)", file.read_text(encoding="utf-8"), re.MULTILINE)}
    # An erratum begins with bold words, at the beginning of its bullet or of a line of it.
    for part in re.split(r"^(?:- |  )(?=\*\*)", text, flags=re.MULTILINE)[1:]:
        title = re.match(r"\*\*(.+?)\*\*", part, re.DOTALL).group(1)
        named = re.findall(r"`(\w+\.\w+)`", part)
        if not named and "without a consequence" not in title:
            found.append(f"errata.md: {title}: no test is named")
        found += [f"errata.md: {title}: there is no test {name}" for name in named
                  if name not in tests and not name.endswith((".hpp", ".md"))]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--fix", action="store_true", help="write the states of runs")
    options = parser.parse_args()
    root = options.root
    done = subprocess.run([sys.executable, root / "bench" / "paper_tables", "--list", "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    listed = json.loads(done.stdout)
    text = (root / "docs" / "papers.md").read_text(encoding="utf-8")
    if options.fix:
        text = fixed(text, listed)
        (root / "docs" / "papers.md").write_text(text, encoding="utf-8")
    errata = (root / "docs" / "errata.md").read_text(encoding="utf-8")
    if options.self_test:
        for wrong, message in ((text.replace("| 7 |", "| 8 |"), "numbered"), (text.replace("`tree/mask.hpp`", "`tree/masc.hpp`", 1), "there is no"),
                               (text.replace("`mcsd.table_1`", "`mcsd.table_9`"), "has no"),
                               (re.sub(r"(`rsd\.figure_1` \| )run", r"\1proven", text), "state begins with"),
                               (re.sub(r"(\| 78 .*\| )checked on random instances", r"\1proved", text), "inequalities"),
                               (text.replace("`proof/lossless_test.cpp`; the rate is", "the rate is"), "names no test"),
                               (text.replace("`mtad.table_6`", ""), "not on the page")):
            found = faults(wrong, listed, root)
            if wrong == text or not any(message in f for f in found):
                sys.exit(f"papers.py: a page with a fault ({message}) passes: {found}")
        for entry in listed:
            if entry["name"] == "mcsd.table_1":
                entry["state"] = "run at 1234567" if entry["state"] == "not run" else "not run"
        if not any("item 17" in f for f in faults(text, listed, root)):
            sys.exit("papers.py: a wrong state passes")
        by_setting = [({"state": "run at 1", "comparisons": {"same sign": 5, "other sign": 1},
                        "comparisons_by_group": {"Dolly": {"other sign": 1}, "XSum": {"same sign": 5}}}, setting) for setting in ("Dolly", "")]
        if [shown_by([one]) for one in by_setting] != ["run: 1 other sign", "run: 5 same sign, 1 other sign"]:
            sys.exit("papers.py: the comparisons of one setting are not counted alone")
        for wrong in (errata.replace("`JointDecoding.IsNotBetterInTheLongRun`", "none"), errata.replace("`Errata.", "`Erratum.", 1)):
            if wrong == errata or not errata_faults(wrong, root):
                sys.exit("papers.py: an erratum without its test passes")
        print("papers.py: finds its faults")
        return
    found = faults(text, listed, root) + errata_faults(errata, root)
    for fault in found:
        print(fault)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
