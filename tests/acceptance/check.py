#!/usr/bin/env python3
"""Runs the program `acceptance` as its users do, and checks what it prints.

check.py PROGRAM DATA_DIRECTORY
"""
import csv
import json
import math
import random
import struct
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

PROGRAM, DATA = sys.argv[1], Path(sys.argv[2])


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300)


def result(*arguments):
    done = run(*arguments, "--json")
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


def npy(rows, code="f", shape=None, header=None, fortran=False):
    """The bytes of an array file; code is that of the struct module: e, f or d."""
    flat = [x for row in rows for x in row]
    shape = shape or (len(rows), len(rows[0]))
    descr = {"e": "<f2", "f": "<f4", "d": "<f8", "q": "<i8"}[code]
    text = header or f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + struct.pack(f"<{len(flat)}{code}", *flat)


def softmax(row, temperature=1.0):
    weights = [math.exp((x - max(row)) / temperature) for x in row]
    return [w / sum(weights) for w in weights]


def processed(row, temperature, top_k=0, top_p=1.0):
    p = softmax(row, temperature)
    order = sorted(range(len(p)), key=lambda i: (-p[i], i))
    if top_k:
        order = order[:top_k]
    total, mass, kept = sum(p[i] for i in order), 0.0, []
    for i in order:
        if mass >= top_p * total:
            break
        mass += p[i]
        kept.append(i)
    return [p[i] / mass if i in kept else 0.0 for i in range(len(p))]


def logits(rows, columns, seed):
    numbers = random.Random(seed)
    p = [[numbers.gauss(0, 2) for _ in range(columns)] for _ in range(rows)]
    q = [[x + numbers.gauss(0, 1) for x in row] for row in p]
    return p, q


class Acceptance(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.path = Path(self.directory.name)

    def save(self, name, content):
        file = self.path / name
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    def arrays(self, p, q, code="d", **more):
        return ["--target", self.save("p.npy", npy(p, code, **more)), "--draft", self.save("q.npy", npy(q, code, **more))]

    # --- values

    def test_golden_cases(self):
        golden = json.loads((DATA / "golden.json").read_text())["cases"]
        cases = result("--cases", DATA / "golden.json")["cases"]
        self.assertEqual(len(cases), len(golden))
        for got, want in zip(cases, golden):
            self.assertEqual(got["n"], want["n"])
            self.assertEqual(set(got["alpha_star"]), {"iid", "sequential", "conditional_poisson", "stratified"})
            self.assertEqual(set(got["alpha"]), {"recursive_iid", "recursive_sequential", "kseq", "ranked_iid",
                                                 "ranked_stratified", "naive_iid"})
            for law in ("iid", "sequential", "conditional_poisson"):
                self.assertAlmostEqual(got["alpha_star"][law], want["alpha_star"][law], delta=1e-9)
            self.assertEqual(set(got["alpha_star"]["stratified"]), set(want["alpha_star"]["stratified"]))
            for j, rate in want["alpha_star"]["stratified"].items():
                self.assertAlmostEqual(got["alpha_star"]["stratified"][j], rate, delta=1e-9)
            for name in got["alpha"]:
                if name in want["alpha"]:
                    self.assertAlmostEqual(got["alpha"][name], want["alpha"][name], delta=1e-9, msg=name)
            self.assertAlmostEqual(got["kseq_rho"], want["kseq_rho"], delta=1e-9)
            # Ranked verification is optimal: for the number of certain tokens that the default rule picks, too.
            self.assertAlmostEqual(got["alpha"]["ranked_iid"], want["alpha_star"]["iid"], delta=1e-9)
            q, k, rest = sorted(want["q"], reverse=True), want["n"], 1.0
            while k > 1 and k * q[want["n"] - k] / rest >= 0.7:
                rest -= q[want["n"] - k]
                k -= 1
            self.assertAlmostEqual(got["alpha"]["ranked_stratified"], want["alpha_star"]["stratified"][str(k)], delta=1e-9)
            walks = len(q) ** (want["n"] - 1) <= 1e6
            self.assertEqual("stderr" in got, not walks)
            if not walks:
                error = got["stderr"]["recursive_sequential"]
                self.assertTrue(0 < error < 1e-3, error)

    def test_golden_trees(self):
        golden = json.loads((DATA / "golden_trees.json").read_text())["cases"]
        cases = result("--tree-cases", DATA / "golden_trees.json")["cases"]
        self.assertEqual(len(cases), len(golden))
        for got, want in zip(cases, golden):
            self.assertEqual(set(got["mean_accepted"]), set(want["mean_accepted"]))
            self.assertEqual(set(got["total_variation"]), set(want["mean_accepted"]))
            self.assertEqual(set(got["limit"]), set(want["limit"]))
            for method, mean in want["mean_accepted"].items():
                self.assertAlmostEqual(got["mean_accepted"][method], mean, delta=1e-9, msg=method)
                self.assertLess(got["total_variation"][method], 1e-10, method)
            for law, limit in want["limit"].items():
                if got["limit"][law] is not None:  # built without a solver
                    self.assertAlmostEqual(got["limit"][law], limit, delta=1e-7)

    def test_means_over_the_rows_of_arrays(self):
        p, q = logits(30, 12, 1)
        p, q = [softmax(row) for row in p], [softmax(row) for row in q]
        cases = self.save("cases.json", json.dumps({"cases": [{"p": a, "q": b, "n": 3} for a, b in zip(p, q)]}))
        single = result("--cases", cases)["cases"]
        found = result(*self.arrays(p, q), "--drafts", 3)
        self.assertEqual((found["rows"], found["vocabulary"], found["drafts"]), (30, 12, 3))
        laws = found["laws"]
        mean = lambda part, name: sum(case[part][name] for case in single) / len(single)
        for law in ("iid", "sequential", "conditional_poisson"):
            self.assertAlmostEqual(laws[law]["bound"]["mean"], mean("alpha_star", law), delta=1e-12)
        for law, verifier, name in (("iid", "recursive_rejection", "recursive_iid"), ("iid", "k_seq", "kseq"),
                                    ("iid", "ranked", "ranked_iid"), ("iid", "naive", "naive_iid"),
                                    ("sequential", "recursive_rejection", "recursive_sequential"),
                                    ("stratified", "ranked", "ranked_stratified")):
            values = [case["alpha"][name] for case in single]
            got = laws[law]["verifiers"][verifier]
            self.assertAlmostEqual(got["mean"], sum(values) / 30, delta=1e-12)
            self.assertTrue(0 <= got["low"] < got["mean"] < got["high"] <= 1)
            self.assertLessEqual(got["mean"], laws[law]["bound"]["mean"] + 1e-9)
        top = sum(sum(a[i] for i in sorted(range(12), key=lambda i: -b[i])[:3]) for a, b in zip(p, q)) / 30
        self.assertAlmostEqual(laws["deterministic"]["verifiers"]["naive"]["mean"], top, delta=1e-12)
        # The number of threads changes nothing.
        self.assertEqual(run(*self.arrays(p, q), "--drafts", 3, "--json", "--threads", 1).stdout,
                         run(*self.arrays(p, q), "--drafts", 3, "--json", "--threads", 4).stdout)

    def test_types_and_shapes(self):
        p, q = logits(8, 10, 2)
        p, q = [softmax(row) for row in p], [softmax(row) for row in q]
        wide = result(*self.arrays(p, q), "--drafts", 2)["laws"]["iid"]["bound"]["mean"]
        for code, delta in (("f", 1e-6), ("e", 3e-3)):
            narrow = result(*self.arrays(p, q, code), "--drafts", 2)["laws"]["iid"]["bound"]["mean"]
            self.assertAlmostEqual(narrow, wide, delta=delta)
        one = result(*self.arrays(p[:1], q[:1], shape="(10,)"), "--drafts", 2)
        self.assertEqual(one["rows"], 1)
        self.assertIsNone(one["laws"]["iid"]["bound"]["low"])
        two = result(*self.arrays(p[:1], q[:1]), "--drafts", 2)
        self.assertEqual(one["laws"], two["laws"])

    def test_logits_are_warped(self):
        p, q = logits(10, 30, 3)
        for temperature, top_k, top_p in ((1, 0, 1.0), (0.7, 0, 1.0), (0.7, 8, 1.0), (1.3, 0, 0.9), (0.9, 12, 0.8)):
            found = result(*self.arrays(p, q), "--drafts", 3, "--logits", "--temperature", temperature, "--top-k", top_k,
                           "--top-p", top_p)["laws"]
            a = [processed(row, temperature, top_k, top_p) for row in p]
            b = [processed(row, temperature, top_k, top_p) for row in q]
            naive = sum(x * (1 - (1 - y) ** 3) for r, s in zip(a, b) for x, y in zip(r, s)) / 10
            self.assertAlmostEqual(found["iid"]["verifiers"]["naive"]["mean"], naive, delta=1e-9)
        infinite = [[-math.inf if k % 3 == 0 else x for k, x in enumerate(row)] for row in q]
        result(*self.arrays(p, infinite, "f"), "--drafts", 3, "--logits")
        # Greedy: accepted when the most likely tokens are the same.
        same = sum(a.index(max(a)) == b.index(max(b)) for a, b in zip(p, q)) / 10
        greedy = result(*self.arrays(p, q), "--drafts", 1, "--logits", "--temperature", 0)["laws"]
        for law in greedy.values():
            for rate in [law["bound"], *law["verifiers"].values()]:
                self.assertAlmostEqual(rate["mean"], same, delta=1e-9)
        # A draft of another temperature.
        hot = result(*self.arrays(p, q), "--drafts", 2, "--logits", "--draft-temperature", 2)["laws"]
        naive = sum(x * (1 - (1 - y) ** 2) for r, s in zip(p, q) for x, y in zip(softmax(r), softmax(s, 2))) / 10
        self.assertAlmostEqual(hot["iid"]["verifiers"]["naive"]["mean"], naive, delta=1e-9)

    # --- what is printed and written

    def test_table_csv_and_plot(self):
        p, q = logits(20, 15, 4)
        arrays = self.arrays(p, q)
        table, drawing = self.path / "table.csv", self.path / "plot.svg"
        done = run(*arrays, "--drafts", 4, "--logits", "--csv", table, "--plot", drawing)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")  # no progress where nobody looks
        for word in ("20 rows of 15 tokens", "iid", "sequential", "stratified", "bound", "recursive_rejection", "ranked"):
            self.assertIn(word, done.stdout)
        with table.open() as file:
            lines = list(csv.DictReader(file))
        self.assertEqual({line["drafts"] for line in lines}, {"1", "2", "3", "4"})
        found = result(*arrays, "--drafts", 4, "--logits", "--plot", drawing)
        for line in lines:
            law = {one["drafts"]: one for one in found["by_drafts"]}[int(line["drafts"])]["laws"][line["law"]]
            want = law["bound"] if line["quantity"] == "bound" else law["verifiers"][line["quantity"]]
            self.assertEqual([float(line[k]) for k in ("mean", "low", "high")], [want[k] for k in ("mean", "low", "high")])
            self.assertEqual(line["rows"], "20")
        self.assertEqual(found["by_drafts"][-1]["laws"], found["laws"])
        image = xml.etree.ElementTree.parse(drawing)
        self.assertTrue(image.getroot().tag.endswith("svg"))
        names = " ".join(node.text or "" for node in image.iter() if node.tag.endswith("title"))
        self.assertIn("iid: ranked", names)
        self.assertNotIn("nan", drawing.read_text())
        run(*arrays, "--drafts", 4, "--logits", "--csv", table)
        self.assertEqual({line.split(",")[0] for line in table.read_text().splitlines()[1:]}, {"4"})
        # One row and one number of drafts is a plot as well.
        self.assertEqual(run(*self.arrays(p[:1], q[:1]), "--drafts", 1, "--logits", "--plot", drawing).returncode, 0)
        xml.etree.ElementTree.parse(drawing)

    def test_cases_for_a_person(self):
        for kind, file in (("--cases", "golden.json"), ("--tree-cases", "golden_trees.json")):
            done = run(kind, DATA / file)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("case", done.stdout)

    def test_help_says_how_to_dump_the_arrays(self):
        done = run("--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("numpy.save", done.stdout)

    # --- what cannot be used

    def refused(self, arguments, *parts):
        for more in ((), ("--json",)):
            done = run(*arguments, *more)
            self.assertEqual(done.returncode, 1, arguments)
            self.assertEqual(done.stdout, "", arguments)
            for part in parts:
                self.assertIn(str(part), done.stderr)

    def test_bad_arrays_are_named(self):
        p, q = [[0.5, 0.3, 0.2]] * 4, [[0.2, 0.3, 0.5]] * 4
        good = npy(p)
        bad = {
            "no header": (b"abc", "not an array file"),
            "another magic": (b"\x93NUMPX" + good[6:], "not an array file"),
            "bad header": (npy(p, header="{'descr': '<f4', 'shape': (4, 3)"), "header"),
            "half a header": (good[:60], "truncated"),
            "truncated": (good[:-1], "truncated"),
            "too long": (good + b"\0\0\0\0", "too long"),
            "Fortran order": (npy(p, fortran=True), "fortran_order"),
            "integers": (npy([[1, 0, 0]] * 4, "q"), "'<i8'"),
            "one dimension too many": (npy(p, shape="(2, 2, 3)"), "shape = (2, 2, 3)"),
            "empty": (npy([[]], shape="(0, 3)"), "shape = (0, 3)"),
            "other rows": (npy(p[:3]), "(3, 3)"),
            "another dimension": (npy(p[:1], shape="(3,)"), "(3,)"),
            "another vocabulary": (npy([[0.5, 0.5]] * 4), "(4, 2)"),
        }
        for which, other in (("p.npy", "q.npy"), ("q.npy", "p.npy")):
            for name, (content, part) in bad.items():
                with self.subTest(name, file=which):
                    self.save(other, npy(p if other == "p.npy" else q))
                    file = self.save(which, content)
                    self.refused(["--target", self.path / "p.npy", "--draft", self.path / "q.npy", "--drafts", 2], file, part)
        self.refused(["--target", self.path / "none.npy", "--draft", self.path / "q.npy", "--drafts", 2], "none.npy")
        self.refused(["--target", self.path, "--draft", self.path / "q.npy", "--drafts", 2], self.path)

    def test_bad_entries_are_named(self):
        for which in ("p.npy", "q.npy"):
            for value, printed in ((math.nan, "nan"), (-0.25, "-0.25"), (math.inf, "inf")):
                rows = [[0.5, 0.3, 0.2] for _ in range(5)]
                rows[3][1] = value
                self.save("p.npy", npy([[0.5, 0.3, 0.2]] * 5))
                self.save("q.npy", npy([[0.2, 0.3, 0.5]] * 5))
                file = self.save(which, npy(rows))
                arguments = ["--target", self.path / "p.npy", "--draft", self.path / "q.npy", "--drafts", 2]
                for threads in (1, 4):
                    self.refused([*arguments, "--threads", threads], file, "row 3", "column 1", printed)
                if value != -0.25:
                    self.refused([*arguments, "--logits"], file, "row 3", "column 1", printed)
            for row, printed in (([0.5, 0.3, 0.3], "1.1"), ([0, 0, 0], "0"), ([5, 3, 2], "10"), ([0.5, 0.3, 0.19], "0.99")):
                rows = [[0.5, 0.3, 0.2], row]
                self.save("p.npy", npy(rows if which == "p.npy" else rows[:1] * 2))
                self.save("q.npy", npy(rows if which == "q.npy" else rows[:1] * 2))
                self.refused(["--target", self.path / "p.npy", "--draft", self.path / "q.npy", "--drafts", 2],
                             self.path / which, "row 1", "sum = " + printed)
        nothing = [[-math.inf] * 3]
        self.refused([*self.arrays(nothing, [[1, 2, 3]]), "--drafts", 1, "--logits"], "p.npy", "row 0")

    def test_the_first_bad_row_is_named(self):
        rows = [[0.5, 0.5] for _ in range(200)]
        for k in (17, 18, 40, 199):
            rows[k][0] = math.nan
        for _ in range(5):
            self.refused([*self.arrays(rows, [[0.5, 0.5]] * 200), "--drafts", 1, "--threads", 8], "row 17")

    def test_bad_numbers_of_drafts(self):
        arrays = self.arrays([[0.5, 0.3, 0.2, 0.0]] * 3, [[0.5, 0.5, 0, 0], [0.2, 0.3, 0.4, 0.1], [1, 0, 0, 0]])
        self.refused([*arrays, "--drafts", 0], "drafts = 0")
        self.refused([*arrays, "--drafts", -2], "drafts = -2")
        self.refused([*arrays, "--drafts", 5], "drafts = 5", "beyond the support")
        self.refused([*arrays, "--drafts", 2], "q.npy", "row 2", "drafts = 2", "beyond its support")
        self.refused([*arrays, "--drafts", 3], "q.npy", "row 0", "drafts = 3")
        self.refused([*arrays, "--drafts", "many"], "--drafts")
        self.refused([*arrays, "--drafts", "1.5"], "--drafts")
        logit = self.arrays([[1, 2, 3]], [[1, -math.inf, 2]])
        self.refused([*logit, "--logits", "--drafts", 3], "q.npy", "row 0", "drafts = 3")
        self.refused([*logit, "--logits", "--drafts", 2, "--top-k", 1], "drafts = 2", "--top-k")
        # A nucleus that is smaller than the number of drafts is no error: fewer tokens are drafted in that row.
        self.assertEqual(run(*logit, "--logits", "--drafts", 2, "--top-p", 0.1).returncode, 0)

    def test_bad_options(self):
        arrays = [*self.arrays([[0.5, 0.5]], [[0.5, 0.5]]), "--drafts", 1]
        self.refused([])
        self.refused(arrays[:-2], "--drafts")
        self.refused(arrays[:2])
        self.refused([*arrays, "--cases", DATA / "golden.json"])
        self.refused(["--cases", DATA / "golden.json", "--tree-cases", DATA / "golden_trees.json"])
        self.refused([*arrays, "--temperature", 0.7], "--logits")
        self.refused([*arrays, "--logits", "--temperature", -1], "temperature = -1")
        self.refused([*arrays, "--logits", "--temperature", "nan"], "temperature")
        self.refused([*arrays, "--logits", "--top-p", 0], "top_p")
        self.refused([*arrays, "--logits", "--top-k", -1], "top_k")
        self.refused([*arrays, "--csv", self.path / "no" / "table.csv"], "table.csv")
        self.refused([*arrays, "--plot", self.path / "no" / "plot.svg"], "plot.svg")
        self.refused(["--cases", DATA / "golden.json", "--csv", self.path / "x.csv"], "--csv")
        self.refused([*arrays, "--nonsense"])
        # What was not begun leaves no file behind.
        self.refused([*self.arrays([[math.nan, 1]], [[1, 0]]), "--drafts", 1, "--csv", self.path / "table.csv"], "nan")
        self.assertFalse((self.path / "table.csv").exists())

    def test_seeds_are_whole_numbers_of_64_bits(self):
        arrays = [*self.arrays([[0.5, 0.5]], [[0.5, 0.5]]), "--drafts", 1]
        for seed in ("-1", "18446744073709551616", "99999999999999999999999", "1.5", "7x"):
            self.refused([*arrays, "--seed", seed], "--seed")
        self.assertEqual(run(*arrays, "--seed", "18446744073709551615").returncode, 0)

    def test_output_that_does_not_arrive_is_an_error(self):
        arrays = [*self.arrays([[0.5, 0.5]], [[0.5, 0.5]]), "--drafts", 1]
        for arguments in (arrays, [*arrays, "--json"], ["--cases", DATA / "golden.json"],
                          ["--tree-cases", DATA / "golden_trees.json", "--json"], ["--help"]):
            words = list(map(str, arguments))
            with open("/dev/full", "w") as full:
                done = subprocess.run([PROGRAM, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=300)
            closed = subprocess.run(["/bin/sh", "-c", 'exec "$0" "$@" >&-', PROGRAM, *words], stderr=subprocess.PIPE,
                                    text=True, timeout=300)
            for one in (done, closed):
                self.assertEqual(one.returncode, 1, words)
                self.assertIn("cannot be written to standard output", one.stderr, words)

    def test_bad_cases_are_named(self):
        good = {"p": [0.5, 0.5], "q": [0.3, 0.7], "n": 1}
        bad = [
            ({"p": [0.5, -0.5], "q": [0.5, 0.5], "n": 1}, ("case 1", "p[1] = -0.5")),
            ({"p": [0.5, 0.5], "q": [0.5, 0.4], "n": 1}, ("case 1", "sum(q) = 0.9")),
            ({"p": [0.5, 0.5], "q": [0.5, 0.3, 0.2], "n": 1}, ("case 1", "q.size = 3")),
            ({"p": [0.5, "x"], "q": [0.5, 0.5], "n": 1}, ("case 1", "p[1]", "x")),
            ({"p": [0.5, None], "q": [0.5, 0.5], "n": 1}, ("case 1", "p[1]", "null")),
            ({"p": [], "q": [], "n": 1}, ("case 1", "p.size = 0")),
            ({"p": 1, "q": [1], "n": 1}, ("case 1", "p = 1")),
            ({"q": [1], "n": 1}, ("case 1", "p is missing")),
            ({"p": [1.0], "q": [1.0]}, ("case 1", "n is missing")),
            (dict(good, n=0), ("case 1", "n = 0")),
            (dict(good, n=-1), ("case 1", "n = -1")),
            (dict(good, n=3), ("case 1", "n = 3", "support")),
            (dict(good, q=[1, 0], n=2), ("case 1", "n = 2", "support")),
            (dict(good, n=1.5), ("case 1", "n = 1.5")),
            (dict(good, n=10**30), ("case 1", "n = 1")),
            ([1], ("case 1",)),
        ]
        for case, parts in bad:
            with self.subTest(case=case):
                file = self.save("cases.json", json.dumps({"cases": [good, case]}))
                self.refused(["--cases", file], file, *parts)
        for text in ("", "{", "[]", "{}", '{"cases": 1}', '{"cases": [{"p": [NaN], "q": [1], "n": 1}]}', "\x00\xff"):
            with self.subTest(text=text):
                for kind in ("--cases", "--tree-cases"):
                    file = self.save("cases.json", text.encode("latin-1"))
                    self.refused([kind, file], file)
        self.refused(["--cases", self.path / "none.json"], "none.json")
        self.refused(["--cases", self.path], self.path)
        self.assertEqual(result("--cases", self.save("cases.json", '{"cases": []}')), {"cases": []})

    def test_bad_trees_are_named(self):
        good = json.loads((DATA / "golden_trees.json").read_text())["cases"][0]
        rows = good["p"]
        bad = [
            (dict(good, V=0), ("V = 0",)),
            (dict(good, V="3"), ('V = "3"',)),
            (dict(good, V=4), ("V = 4", 'p[""]')),
            (dict(good, V=1000), ("V = 1000",)),
            (dict(good, children=[]), ("children = []",)),
            (dict(good, children=[2, 0]), ("children[1] = 0",)),
            (dict(good, children=[4, 1]), ("children[0] = 4", "support")),
            (dict(good, children=2), ("children = 2",)),
            (dict(good, children=[3, 3, 3]), ("children = [3,3,3]", "too many trees")),
            (dict(good, children=[2, 1, 1]), ("is missing",)),
            (dict(good, p={k: v for k, v in rows.items() if k != "1,2"}), ('p["1,2"] is missing',)),
            (dict(good, p=dict(rows, **{"0": [0.5, 0.5]})), ('p["0"]', "V = 3")),
            (dict(good, p=dict(rows, **{"0": [0.5, 0.6, -0.1]})), ('p["0"][2] = -0.1',)),
            (dict(good, q=dict(good["q"], **{"2": [0.5, 0.5, 0.5]})), ('sum(q["2"]) = 1.5',)),
            (dict(good, q=[]), ("q = []",)),
        ]
        for case, parts in bad:
            with self.subTest(parts=parts):
                file = self.save("trees.json", json.dumps({"cases": [good, case]}))
                self.refused(["--tree-cases", file], file, "case 1", *parts)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
