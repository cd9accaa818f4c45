#!/usr/bin/env python3
"""Runs the program `acceptance` as its users do, and checks what it prints.

check.py PROGRAM DATA_DIRECTORY [OWN_PROGRAM]

OWN_PROGRAM is the same program with a verifier of its own (own_verifier.cpp).
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
OWN = sys.argv[3] if len(sys.argv) > 3 else None


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300)


def integers(numbers, code="q"):
    """The bytes of a list of whole numbers; code is that of the struct module."""
    descr = {"q": "<i8", "i": "<i4", "B": "|u1"}[code]
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({len(numbers)},), }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return (b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() +
            struct.pack(f"<{len(numbers)}{code}", *numbers))


def lines_of_latex(text):
    """The rows of every table of a text: cells, and the number of columns that the table says it has."""
    tables = []
    for part in text.split("\\begin{tabular}{")[1:]:
        columns, rest = part.split("}", 1)
        body = rest.split("\\end{tabular}")[0]
        rows = [[cell.strip() for cell in line.removesuffix("\\\\").split("&")]
                for line in body.splitlines() if line.endswith("\\\\")]
        tables.append((len(columns), rows))
    return tables


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

    def test_several_numbers_of_drafts(self):
        p, q = logits(12, 9, 5)
        arrays = [*self.arrays(p, q), "--logits"]
        for given in ("2,3,5", "5,2,3,2"):
            found = result(*arrays, "--drafts", given)
            self.assertEqual(found["drafts"], 5)
            self.assertEqual([one["drafts"] for one in found["by_drafts"]], [2, 3, 5])
            for one in found["by_drafts"]:
                self.assertEqual(one["laws"], result(*arrays, "--drafts", one["drafts"])["laws"])
            self.assertEqual(found["laws"], found["by_drafts"][-1]["laws"])
        done = run(*arrays, "--drafts", "2,3,5", "--csv", self.path / "t.csv", "--plot", self.path / "t.svg")
        for n in (2, 3, 5):
            self.assertIn(f"{n} drafts at a node", done.stdout)
        self.assertEqual({line.split(",")[0] for line in (self.path / "t.csv").read_text().splitlines()[1:]}, {"2", "3", "5"})
        self.assertEqual(done.stdout.count("spec_hub"), 1)
        for bad, part in (("2,many", "--drafts"), ("2,0", "drafts = 0"), ("2,10", "drafts = 10")):
            self.refused([*arrays, "--drafts", bad], part)

    def test_values_of_every_row(self):
        p, q = logits(7, 8, 6)
        arrays = [*self.arrays(p, q), "--logits", "--drafts", "2,3", "--by-rank"]
        groups = [4, 4, -1, 9, 9, 9, 4]
        arrays += ["--groups", self.save("g.npy", integers(groups))]
        found = result(*arrays, "--per-row", self.path / "rows.csv")
        self.assertEqual(found, result(*arrays, "--per-row", self.path / "rows.jsonl"))
        with (self.path / "rows.csv").open() as file:
            lines = list(csv.DictReader(file))
        objects = [json.loads(line) for line in (self.path / "rows.jsonl").read_text().splitlines()]
        self.assertEqual(len(lines), len(objects))
        sums = {}
        for line, one in zip(lines, objects):
            self.assertEqual((int(line["row"]), int(line["group"]), int(line["drafts"]), line["law"], line["quantity"]),
                             (one["row"], one["group"], one["drafts"], one["law"], one["quantity"]))
            self.assertEqual(line["rank"], str(one.get("rank", "")))
            self.assertEqual(float(line["value"]), one["value"])
            self.assertEqual(int(line["group"]), groups[int(line["row"])])
            key = (one["drafts"], one["law"], one["quantity"], one.get("rank"))
            sums[key] = sums.get(key, 0) + one["value"]
        for of_number in found["by_drafts"]:
            for law, rates in of_number["laws"].items():
                for name, rate in [("bound", rates["bound"]), *rates["verifiers"].items()]:
                    self.assertAlmostEqual(sums[of_number["drafts"], law, name, None] / 7, rate["mean"], delta=1e-12)
                    for k, of_rank in enumerate(rate.get("by_rank", [])):
                        self.assertAlmostEqual(sums[of_number["drafts"], law, name, k + 1] / 7, of_rank["mean"], delta=1e-12)
        self.refused([*arrays, "--per-row", self.path / "no" / "rows.csv"], "rows.csv")

    def test_rates_by_rank(self):
        p, q = logits(9, 10, 7)
        arrays = [*self.arrays(p, q), "--logits", "--drafts"]
        plain = result(*arrays, 3)["laws"]
        laws = result(*arrays, 3, "--by-rank")["laws"]
        fewer = result(*arrays, 2)["laws"]
        for law, rates in laws.items():
            self.assertNotIn("by_rank", rates["bound"])
            for name, rate in rates["verifiers"].items():
                ranks = rate.pop("by_rank")
                self.assertEqual(rate, plain[law]["verifiers"][name])
                self.assertEqual(len(ranks), 3)
                self.assertAlmostEqual(sum(one["mean"] for one in ranks), rate["mean"], delta=1e-9, msg=name)
                if name in ("recursive_rejection", "naive"):  # tried in turn: the first two as if there were no third
                    self.assertAlmostEqual(ranks[0]["mean"] + ranks[1]["mean"],
                                           fewer[law]["verifiers"][name]["mean"], delta=1e-9)
        done = run(*arrays, 3, "--by-rank", "--csv", self.path / "t.csv")
        self.assertIn("accepted by rank", done.stdout)
        with (self.path / "t.csv").open() as file:
            lines = list(csv.DictReader(file))
        self.assertEqual({line["rank"] for line in lines}, {"", "1", "2", "3"})

    def test_differences_from_a_baseline_are_paired(self):
        p, q = logits(40, 12, 8)
        arrays = [*self.arrays(p, q), "--logits", "--drafts", 2]
        found = result(*arrays, "--baseline", "recursive_rejection/iid")
        self.assertEqual(found["baseline"], "recursive_rejection/iid")
        base = found["laws"]["iid"]["verifiers"]["recursive_rejection"]
        self.assertNotIn("difference", base)
        for law, rates in found["laws"].items():
            for name, rate in [("bound", rates["bound"]), *rates["verifiers"].items()]:
                if rate is base:
                    continue
                difference = rate["difference"]
                self.assertAlmostEqual(difference["mean"], rate["mean"] - base["mean"], delta=1e-12)
                self.assertLessEqual(difference["low"], difference["mean"])
                self.assertGreaterEqual(difference["high"], difference["mean"])
        # The rows differ far more than the verifiers do: the bound exceeds the baseline in every one of them.
        bound = found["laws"]["iid"]["bound"]
        self.assertGreater(bound["difference"]["low"], 0)
        self.assertLess(bound["difference"]["high"] - bound["difference"]["low"], (bound["high"] - bound["low"]) / 2)
        done = run(*arrays, "--baseline", "bound/iid", "--csv", self.path / "t.csv")
        self.assertIn("difference from bound/iid", done.stdout)
        with (self.path / "t.csv").open() as file:
            lines = {(line["law"], line["quantity"]): line for line in csv.DictReader(file)}
        self.assertEqual(lines["iid", "bound"]["difference"], "")
        self.assertAlmostEqual(float(lines["iid", "recursive_rejection"]["difference"]), -bound["difference"]["mean"],
                               delta=1e-12)
        self.refused([*arrays, "--baseline", "nonsense"], "--baseline nonsense", "recursive_rejection/iid", "bound/iid")
        self.refused([*arrays[:-1], "2,3", "--baseline", "spec_hub/top_paired"], "--baseline", "3 drafts")
        self.refused(["--cases", DATA / "golden.json", "--baseline", "bound/iid"], "--baseline")

    def test_rows_of_a_group_may_be_correlated(self):
        p, q = logits(10, 8, 9)
        arrays = [*self.arrays(p, q), "--logits", "--drafts", 2]
        alone = result(*arrays)
        self.assertEqual(alone["intervals"], {"method": "bootstrap (BCa)", "over": "rows", "units": 10})
        self.assertIn("taken as independent", run(*arrays).stdout)
        of_one = result(*arrays, "--groups", self.save("g.npy", integers(range(10), "i")))
        self.assertEqual(of_one["laws"], alone["laws"])
        self.assertEqual(of_one["intervals"]["over"], "groups")
        # Each row six times: without groups the intervals are far too short.
        often = [*self.arrays(p * 6, q * 6), "--logits", "--drafts", 2, "--baseline", "recursive_rejection/iid"]
        clustered = result(*often, "--groups", self.save("g.npy", integers([5 * (k % 10) for k in range(60)], "B")))
        naive = result(*often)
        width = lambda rate: rate["high"] - rate["low"]
        for law in ("iid", "stratified"):
            wide, narrow, right = (one["laws"][law]["bound"] for one in (clustered, naive, alone))
            self.assertAlmostEqual(wide["low"], right["low"], delta=1e-9)
            self.assertAlmostEqual(wide["high"], right["high"], delta=1e-9)
            self.assertLess(2 * width(narrow), width(wide))
            self.assertLess(2 * width(narrow["difference"]), width(wide["difference"]))
        done = run(*often, "--groups", self.path / "g.npy")
        self.assertIn("10 groups of rows", done.stdout)
        self.arrays(p, q)  # the ten rows again
        one = result(*arrays, "--groups", self.save("g.npy", integers([3] * 10)))
        self.assertIsNone(one["laws"]["iid"]["bound"]["low"])
        self.assertEqual(one["intervals"]["method"], "none")
        # More groups than are resampled: the normal interval, of the groups' spread.
        p, q = logits(1001, 4, 10)
        many = [*self.arrays(p * 2, q * 2), "--logits", "--drafts", 1]
        normal = result(*many, "--groups", self.save("g.npy", integers(list(range(1001)) * 2)))
        self.assertEqual(normal["intervals"]["method"], "normal")
        once = result(*self.arrays(p, q), "--logits", "--drafts", 1)
        for end in ("low", "high"):
            self.assertAlmostEqual(normal["laws"]["iid"]["bound"][end], once["laws"]["iid"]["bound"][end], delta=1e-9)
        for content, part in ((integers([1] * 9), "9 groups for 10 rows"), (npy([[1.0]], shape="(1,)"), "'<f4'"),
                              (b"abc", "not an array file")):
            self.save("p.npy", npy(p[:10], "d")), self.save("q.npy", npy(q[:10], "d"))
            self.refused([*arrays, "--groups", self.save("g.npy", content)], "g.npy", part)

    def test_tables_for_latex(self):
        p, q = logits(6, 9, 11)
        arrays = [*self.arrays(p, q), "--logits", "--drafts", "2,3", "--by-rank", "--baseline", "bound/iid"]
        done = run(*arrays, "--latex")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = result(*arrays)
        self.assertEqual(done.stdout.count("\\begin{table}"), done.stdout.count("\\end{table}"))
        tables = lines_of_latex(done.stdout)
        self.assertEqual([columns for columns, _ in tables], [4, 4, 4, 5])  # rates, differences, two numbers by rank
        for columns, rows in tables:
            self.assertEqual({len(row) for row in rows}, {columns})
        rates = {(row[1]): row for row in tables[0][1][1:7]}
        iid = {one["drafts"]: one["laws"]["iid"] for one in found["by_drafts"]}
        for column, n in ((2, 2), (3, 3)):
            rate = iid[n]["verifiers"]["recursive_rejection"]
            self.assertEqual(rates["recursive rejection"][column],
                             f"{rate['mean']:.4f} [{rate['low']:.4f}, {rate['high']:.4f}]")
        self.assertEqual([row[3] for row in tables[0][1] if row[1] == "spec hub"], ["--"])
        self.assertEqual(tables[1][1][1][2], "--")  # the baseline
        for word in ("booktabs", "\\toprule", "p.npy", "95\\,\\%", "6 rows of 9 tokens"):
            self.assertIn(word, done.stdout)
        # Names of files are text, not commands.
        odd = self.save("a_b%c.npy", npy(p, "d"))
        text = run("--target", odd, "--draft", odd, "--drafts", 1, "--logits", "--latex").stdout
        self.assertIn("a\\_b\\%c.npy", text)
        self.assertNotIn("_", text.replace("\\_", ""))
        for kind, file, columns in (("--cases", "golden.json", 11), ("--tree-cases", "golden_trees.json", 5)):
            done = run(kind, DATA / file, "--latex")
            self.assertEqual(done.returncode, 0, done.stderr)
            (said, rows), = lines_of_latex(done.stdout)
            self.assertEqual(said, columns)
            self.assertEqual({len(row) for row in rows}, {columns})
        done = run(*arrays, "--latex", "--json")
        self.assertEqual(done.returncode, 1)

    # --- whole trees from arrays

    def draw_trees(self, case, count, seed):
        """Trees of a golden case drawn without replacement, with the rows of their nodes, as arrays."""
        numbers = random.Random(seed)
        parents, tokens, p, q = [], [], [], []
        for _ in range(count):
            nodes = [(-1, 0, "")]
            level = [0]
            for children in case["children"]:
                below = []
                for node in level:
                    prefix = nodes[node][2]
                    row = list(case["q"][prefix])
                    for _ in range(min(children, sum(x > 0 for x in row))):
                        token = numbers.choices(range(len(row)), row)[0]
                        row[token] = 0
                        below.append(len(nodes))
                        nodes.append((node, token, prefix + ("," if prefix else "") + str(token)))
                level = below
            for parent, token, prefix in nodes:
                parents.append(parent)
                tokens.append(token)
                p.append(case["p"][prefix])
                q.append(case["q"].get(prefix, [math.nan] * case["V"]))  # those of leaves are not read
        return [*self.arrays(p, q), "--parents", self.save("parents.npy", integers(parents)), "--tokens",
                self.save("tokens.npy", integers(tokens, "i"))]

    def test_whole_trees_from_arrays(self):
        case = next(one for one in json.loads((DATA / "golden_trees.json").read_text())["cases"] if one["children"] == [2, 1])
        arrays = self.draw_trees(case, 400, 3)
        found = result(*arrays, "--law", "sequential", "--baseline", "recursive_rejection/sequential", "--trials", 20)
        self.assertEqual((found["trees"], found["vocabulary"]), (400, case["V"]))
        self.assertEqual(set(found["mean_accepted"]), {f"{name}/sequential" for name in ("recursive_rejection", "naive", "traversal")})
        for name in ("recursive_rejection", "traversal"):
            rate = found["mean_accepted"][name + "/sequential"]
            self.assertLess(abs(rate["mean"] - case["mean_accepted"][name + "/sequential"]), 1.5 * (rate["high"] - rate["low"]))
        self.assertIn("difference", found["mean_accepted"]["traversal/sequential"])
        # Threads change nothing; another seed does.
        more = ["--law", "sequential", "--trials", 4, "--json"]
        once = run(*arrays, *more, "--threads", 1).stdout
        self.assertEqual(once, run(*arrays, *more, "--threads", 3).stdout)
        self.assertNotEqual(once, run(*arrays, *more, "--seed", 2).stdout)
        few = self.draw_trees(case, 6, 4)
        text = run(*few, "--law", "sequential", "--groups", self.save("g.npy", integers([0, 0, 1, 1, 2, 2])), "--csv",
                   self.path / "t.csv", "--per-row", self.path / "rows.jsonl")
        self.assertEqual(text.returncode, 0, text.stderr)
        for word in ("6 trees of", "3 groups of trees", "traversal", "accepted"):
            self.assertIn(word, text.stdout)
        objects = [json.loads(line) for line in (self.path / "rows.jsonl").read_text().splitlines()]
        self.assertEqual(len(objects), 18)
        self.assertEqual(objects[-1]["group"], 2)
        self.assertIn("stderr", objects[0])
        (columns, rows), = lines_of_latex(run(*few, "--law", "sequential", "--latex").stdout)
        self.assertEqual({len(row) for row in rows}, {columns})
        # A chain is a tree that more methods take.
        chain = dict(case, children=[1, 1])
        names = set(result(*self.draw_trees(chain, 4, 5), "--law", "iid", "--trials", 2)["mean_accepted"])
        self.assertLessEqual({"block/iid", "speculative_sampling/iid", "multi_path_block/iid", "k_seq/iid",
                              "nested_ranked_block/iid"}, names)

    def test_bad_tree_arrays_are_named(self):
        rows = [[0.5, 0.3, 0.2]] * 4
        arrays = self.arrays(rows, rows)
        def trees(parents, tokens, law="sequential", more=()):
            return [*arrays, "--parents", self.save("parents.npy", integers(parents)), "--tokens",
                    self.save("tokens.npy", integers(tokens)), "--law", law, *more]
        good = [-1, 0, 0, 1]
        self.assertEqual(run(*trees(good, [0, 1, 2, 0])).returncode, 0)
        self.refused(trees([0, 0, 0, 1], [0, 1, 2, 0]), "parents.npy", "entry 0 = 0")
        self.refused(trees([-1, 1, 0, 1], [0, 1, 2, 0]), "parents.npy", "entry 1 = 1")
        self.refused(trees([-1, 0, 1, 0], [0, 1, 2, 0]), "parents.npy", "entry 3 = 0", "level order")
        self.refused(trees([-1, 0, -2, 0], [0, 1, 2, 0]), "parents.npy", "entry 2 = -2")
        self.refused(trees(good[:3], [0, 1, 2, 0]), "parents.npy", "3 entries for 4 rows")
        self.refused(trees(good, [0, 1, 3, 0]), "tokens.npy", "entry 2 = 3")
        self.refused(trees(good, [0, 1, -1, 0]), "tokens.npy", "entry 2 = -1")
        self.refused(trees(good, [0, 1, 1, 0]), "tree 0", "tokens[2] = 1")  # twice, of different tokens
        self.refused(trees(good, [0, 1, 2, 0], "fast"), "--law fast", "sequential")
        self.refused(trees(good, [0, 1, 2, 0], "sequential", ["--baseline", "ranked/iid"]), "--baseline")
        self.refused(trees(good, [0, 1, 2, 0], more=["--by-rank"]), "--by-rank")
        self.refused(trees(good, [0, 1, 2, 0], more=["--plot", self.path / "t.svg"]), "--plot")
        self.refused(trees(good, [0, 1, 2, 0], more=["--drafts", 2]), "--drafts")
        self.refused(trees(good, [0, 1, 2, 0], "stratified", ["--certain", self.save("c.npy", integers([3, 0, 0, 0]))]), "certain")
        self.refused(trees(good, [0, 1, 2, 0], "stratified"), "--law stratified", "--certain")
        self.refused([*arrays, "--parents", self.path / "parents.npy"], "--tokens")
        self.refused([*arrays, "--drafts", 1, "--law", "iid"], "--law")
        certain = trees(good, [0, 0, 1, 0], "stratified", ["--certain", self.save("c.npy", integers([1, 0, 0, 0]))])
        self.assertEqual(run(*certain).returncode, 0, run(*certain).stderr)

    # --- a verifier of one's own

    @unittest.skipIf(OWN is None, "there is no program with a verifier of its own")
    def test_a_verifier_of_ones_own_is_in_the_tables(self):
        p, q = logits(12, 20, 13)
        arrays = [*self.arrays(p, q), "--logits", "--drafts", 2, "--json", "--baseline", "recursive_rejection/iid",
                  "--trials", 2000]
        done = subprocess.run([OWN, *map(str, arrays)], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        verifiers = json.loads(done.stdout)["laws"]["iid"]["verifiers"]
        plain = result(*arrays[:-5], "--baseline", "recursive_rejection/iid")["laws"]["iid"]["verifiers"]
        for name, rate in plain.items():
            self.assertEqual(verifiers[name], rate)
        self.assertEqual(set(verifiers) - set(plain), {"first_only"})
        mine = verifiers["first_only"]
        # It looks at the first candidate alone.
        alone = result(*arrays[:6], 1)["laws"]["iid"]["verifiers"]["recursive_rejection"]["mean"]
        self.assertAlmostEqual(mine["mean"], alone, delta=5 * math.sqrt(0.25 / 24000))
        self.assertLess(mine["difference"]["high"], 0)

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
