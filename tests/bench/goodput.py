#!/usr/bin/env python3
"""bench/goodput on a few short texts: its steps are those of the generation loop, its sums are right, its files are written.

goodput.py GOODPUT_RUNS CONTROLLER_RUNS
"""
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
GOODPUT, CONTROLLER = (Path(p).resolve() for p in sys.argv[1:3])
TEXTS = [["satire", 5, 0.7, 20], ["scripture", 7, 0.7, 20], ["definitions", 9, 0.7, 20], ["satire", 8, 0.7, 20]]


def times(target, draft, step=0.0, node=0.0):
    return {"target_seconds_by_rows": target, "draft_seconds_by_rows": draft,
            "library_seconds": {"nested_ranked_block/stratified": {"step": step, "node": node}}}


def results(program, jobs):
    done = subprocess.run([program], input="".join(json.dumps(job) + "\n" for job in jobs), capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return [json.loads(line)["runs"] for line in done.stdout.splitlines()]


def near(a, b):
    return abs(a - b) <= 1e-9 * max(abs(a), abs(b))


with tempfile.TemporaryDirectory() as directory:
    work = Path(directory)
    tables = {"even": times([[1, 1.0], [64, 64.0]], [[1, 0.1], [64, 1.0]], 0.01, 0.02), "free": times([[1, 1.0], [512, 1.1]], [[1, 0.01], [512, 0.02]])}
    for name, table in tables.items():
        (work / f"{name}.json").write_text(json.dumps(table), encoding="utf-8")
    even, free = str(work / "even.json"), str(work / "free.json")
    base = {"texts": TEXTS, "words": 16, "seed": 1}
    none, fixed, shared, dear, one = results(GOODPUT, [
        base | {"tree": "0", "costs": [even, free], "requests": [1, 2]}, base | {"tree": "2x1x1", "costs": [even, free], "requests": [1, 2]},
        base | {"tree": "shared", "costs": [free], "requests": [1, 2]}, base | {"tree": "shared", "costs": [even], "requests": [2]},
        base | {"tree": "controller", "costs": [free], "requests": [1]}])
    # One request at a time: what the loop of the library does, in the other program.
    loop = results(CONTROLLER, [{"texts": [t[:2] for t in TEXTS], "words": 16, "tokens": 20, "temperature": 0.7, "seed": 1, "tree": "2x1x1",
                                 "costs": [even, free]}])[0]
    assert fixed[0]["tokens"] == sum(r["tokens"] for r in loop) == 80 and fixed[0]["steps"] == sum(r["steps"] for r in loop), (fixed[0], loop)
    for k, where in ((0, 0), (1, 2)):
        assert near(fixed[where]["seconds"], sum(r["seconds"][k] for r in loop)), (fixed, loop)
    # Without drafts: one row a token. Two texts of 20 tokens in flight, two times.
    assert [r["tokens"] for r in none] == [80, 80, 80, 80] and [r["steps"] for r in none] == [80, 40, 80, 40], none
    assert near(none[0]["seconds"], 80 * 1.01) and near(none[1]["seconds"], 40 * 2.02) and all(near(r["slowest"], 1) for r in none), none
    rate = lambda r: r["tokens"] / r["seconds"]  # noqa: E731
    assert rate(shared[0]) > 2 * rate(none[2]) and rate(shared[1]) > 2 * rate(none[3]) and rate(one[0]) > 2 * rate(none[2]), (shared, one)
    assert rate(dear[0]) > 0.9 * rate(none[1]), (dear, none)  # a row costs a call: hardly anything is drafted
    assert dear[0]["rows"] < 1.2 * dear[0]["steps"] * 2 < fixed[1]["rows"], (dear, fixed)

    command = [sys.executable, ROOT / "bench" / "goodput", GOODPUT, "--texts", "4", "--seeds", "2", "--requests", "1", "2", "--costs", free, "--work",
               work / "work", "--out", work / "out"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader((work / "out" / "summary.csv").open(encoding="utf-8")))
    assert {(r["requests"], r["drafts"]) for r in rows} >= {("1", "controller"), ("2", "shared"), ("2", "4x2x2x1"), ("1", "none")}, rows
    assert all(r["to_none"] == "1.0000" for r in rows if r["drafts"] == "none"), rows
    assert (work / "out" / "README.md").exists() and (work / "out" / "made_with.txt").exists()
    again = subprocess.run([*command, "--seconds", "0"], capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stderr  # everything is known
print("as it should be")
