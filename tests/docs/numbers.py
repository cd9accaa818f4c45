#!/usr/bin/env python3
"""Numbers of the README and docs/benchmarks.md against the data in bench/results.

numbers.py [--root ROOT]
numbers.py --self-test

  tables   every row of a table that bench/report.py prints, or that repeats the sweep of bench/paper_tables or the
           speed-ups of bench/padded, bench/controller or bench/goodput, is what the data say
  prose    the sentences of CLAIMS below: what stands in a document, and how it is computed. A sentence that is no longer
           there fails too, so that this list stays true.
"""
import argparse
import csv
import json
import re
import subprocess
import sys
from pathlib import Path

MACHINE = "AMD_EPYC_2_cores"
DOCUMENTS = ("README.md", "docs/benchmarks.md")
# Tables whose rows come from elsewhere, by their first cell.
OTHER = {"situation": "no numbers", "": "no numbers",
         "normaliser of one row with a mask or a bias, CPU time": "a run of its own, as the text below it says"}
TEMPERATURES = ("0", "0.7", "1")
# Tables of bench/padded, by their first cell.
PADDED = {"parameters of the target": "padded", "parameters of the target, llama.cpp": "padded_llama_cpp",
          "parameters of the target, matrix tiles": "padded_with_tiles"}

# Of bench/controller, by its first cell; and its tables of times.
CONTROLLER = "times of a target of"
TABLES_OF_TIMES = {"7M": "7m", "61M": "60m", "287M": "300m", "1,023M": "1b"}
# Of bench/goodput, by its first cell.
GOODPUT = "times of a target of, requests in flight"


def by_method(path):
    """The rows of a file of JSON lines, by their method."""
    return {row["method"]: row for row in map(json.loads, path.read_text(encoding="utf-8").splitlines())}


class Data:
    def __init__(self, root):
        self.root = root
        self.sweep = list(csv.DictReader((root / "bench/results/paper_tables/sweep.csv").open(encoding="utf-8")))
        self.trees = list(csv.DictReader((root / "bench/results/tree_limit/tree_limit.csv").open(encoding="utf-8")))
        self.runs = {t: by_method(root / f"bench/results/{MACHINE}/compare_temperature_{t}.jsonl") for t in TEMPERATURES}
        self.calls = {t: by_method(root / f"bench/results/tokens_a_call/temperature_{t}.jsonl") for t in TEMPERATURES}
        self.controller = [row for row in csv.DictReader((root / "bench/results/controller/summary.csv").open(encoding="utf-8"))
                           if row["length"] == "64" and row["drafts"] == "auto"]
        self.goodput = {(row["costs"], row["requests"], row["drafts"]): row
                        for row in csv.DictReader((root / "bench/results/goodput/summary.csv").open(encoding="utf-8"))}
        self.padded = {engine: list(csv.DictReader((root / f"bench/results/{directory}/summary.csv").open(encoding="utf-8")))
                       for engine, directory in PADDED.items() if (root / f"bench/results/{directory}/summary.csv").exists()}
        self.times = {}
        for name in ("verify", "sample", "tree", "step"):
            for row in json.loads((root / f"bench/results/{MACHINE}/{name}.json").read_text(encoding="utf-8"))["benchmarks"]:
                if row.get("aggregate_name") == "median":
                    self.times[row["run_name"].replace("/real_time", "")] = row["real_time"]
        done = subprocess.run([sys.executable, root / "bench/report.py", root / "bench/results" / MACHINE], capture_output=True, text=True, check=True)
        self.report = tables(done.stdout)
        self.truncation = {row["run_name"]: row["real_time"] for row in json.loads((root / "bench/results/truncation/sample.json").read_text(encoding="utf-8"))["benchmarks"]
                           if row.get("aggregate_name") == "median"}
        self.prepared = {row["run_name"]: row for row in json.loads((root / "bench/results/prepared_rows/batch.json").read_text(encoding="utf-8"))["benchmarks"]
                         if row.get("aggregate_name") == "median"}
        for directory, option in (("prepared_rows", "--prepared"), ("truncation", "--truncation")):
            done = subprocess.run([sys.executable, root / "bench/report.py", root / "bench/results" / directory, option], capture_output=True, text=True, check=True)
            self.report |= tables(done.stdout)

    def step(self, temperature, tree):
        """The row of the sweep."""
        return next(row for row in self.sweep if row["temperature"] == temperature and row["tree"] == tree)

    def gains(self, temperature):
        """[(gain of the default over the best published, share of it, low end of the interval)] of all trees."""
        result = []
        for row in (row for row in self.sweep if row["temperature"] == temperature):
            gain, low = re.match(r"([+-][\d.]+) \[([+-][\d.]+),", row["`nested_ranked_block/stratified` less the best published"]).groups()
            result.append((float(gain), float(gain) / mean(row[row["best published"]]), float(low)))
        return result


def mean(cell):
    return float(cell.split()[0])


def tables(text):
    """{first cell of the head: rows}, rows as tuples of cells."""
    result, head = {}, None
    for line in text.splitlines():
        if not line.startswith("|"):
            head = None
            continue
        cells = tuple(cell.strip() for cell in line.strip().strip("|").split("|"))
        if head is None:
            head = cells
            result.setdefault(head, [])
        elif not all(re.fullmatch(r":?-+:?", cell) for cell in cells):
            result[head].append(cells)
    return result


def wins(data, temperature):
    """On how many trees the default's interval against the best published lies above 0."""
    return sum(low > 0 for _, _, low in data.gains(temperature))


def percent(values):
    """"2 to 5": of the gains whose intervals lie above 0."""
    return f"{100 * min(values):.0f} to {100 * max(values):.0f}"


def speed(data, t, name):
    return data.runs[t][name]["speed_up"]


def best_of_two_tokens(data):
    """The best speed-up of lossless methods of about two tokens a call."""
    return max(row["speed_up"] for run in data.runs.values() for row in run.values()
               if row["lossless"] and row["block_efficiency"] < 2.2)


def limits_reached(data, of):
    shares = [float(row["mean_accepted"]) / float(row["limit_of_law"]) for row in data.trees if row["verifier"] == "nested_ranked_block" and row["law"] == "stratified"]
    return of(shares)


def of_kinds(data, column, of):
    """Of `auto` in texts of 64 tokens, over the cells of single kinds."""
    return f"{of([float(row[column]) for row in data.controller if row['kind'] != 'all']):.3f}"


def auto_to_best(data, parameters, temperature):
    """Against the fixed tree that is the best for all texts."""
    for row in data.controller:
        if (row["costs"], row["temperature"], row["kind"]) == (TABLES_OF_TIMES.get(parameters), temperature, "all"):
            return "{:.3f} [{:.3f}, {:.3f}]".format(*(float(row[f"to_best_for_all{end}"]) for end in ("", "_low", "_high")))
    return "nothing"


def goodput(data, cell, column):
    """A ratio of bench/goodput: of a tree to no drafts, of one budget to no drafts or to the best fixed tree."""
    parameters, requests = cell.split(", ")
    of = lambda drafts: data.goodput[TABLES_OF_TIMES[parameters], requests, drafts]  # noqa: E731
    if column == "best fixed tree":
        return of("shared")["best"]
    if column.startswith("one budget"):
        name = "to_best" if column.endswith("best") else "to_none"
        return "{:.2f} [{:.2f}, {:.2f}]".format(*(float(of("shared")[f"{name}{end}"]) for end in ("", "_low", "_high")))
    return f"{float(of(column)['to_none']):.2f}"


def of_goodput(data, column, of):
    """Of one budget, over all tables of times and numbers of requests."""
    return f"{of([float(row[column]) for (_, _, drafts), row in data.goodput.items() if drafts == 'shared']):.2f}"


def slowest_text(root):
    """The least speed-up of a text with --tree auto, of the sizes above the shipped one."""
    runs = list(csv.DictReader((root / "bench/results/padded/runs.csv").open(encoding="utf-8")))
    text = lambda r: tuple(r[k] for k in ("size", "temperature", "kind", "prompt", "seed"))  # noqa: E731
    rate = lambda r: float(r["tokens"]) / float(r["seconds"])  # noqa: E731
    plain = {text(r): rate(r) for r in runs if r["method"] == "autoregressive"}
    return min(rate(r) / plain[text(r)] for r in runs if r["tree"] == "auto" and r["size"] != "shipped")


def step_at_287m(data, tree):
    """Seconds of a step of the default over those of one target call, at temperature 0.7."""
    row = next(r for r in data.padded["parameters of the target"]
               if (r["size"], r["method"], r["tree"], r["temperature"]) == ("300m", "nested_ranked_block/stratified", tree, "0.7"))
    return f"{float(row['tokens_a_call']) / float(row['speed_up']):.1f}"


def ends(data, field, names, scale):
    """The least and the most of a counter of prepared rows, 8 requests of 16 nodes."""
    found = [scale * data.prepared[f"{name}/V:{v}/requests:8/nodes:16"][field] for name in names for v in (32000, 128256)]
    return [f"{min(found):.0f}", f"{max(found):.0f}"]


# (document, regular expression with one group a number, what the numbers are)
NUMBER = r"([\d.]+)"
CLAIMS = [
    ("README.md", rf"two tokens per target call are at most {NUMBER} times the speed", lambda d: [f"{best_of_two_tokens(d):.2f}"]),
    ("docs/benchmarks.md", rf"About two tokens per target call are at most {NUMBER} times the speed", lambda d: [f"{best_of_two_tokens(d):.2f}"]),
    ("README.md", r"more than the best of five published methods on (\w+) of (\w+) trees\s+at each of the temperatures 0.3, 0.6 and 1",
     lambda d: [{9: "nine"}[n] for n in {wins(d, t) for t in ("0.3", "0.6", "1.0")}] + ["ten"] * (len(d.gains("0.3")) == 10)),
    ("docs/benchmarks.md", r"by (\d+ to \d+) % at 0.3, (\d+ to \d+) % at 0.6, (\d+ to \d+) % at 1",
     lambda d: [percent([share for _, share, low in d.gains(t) if low > 0]) for t in ("0.3", "0.6", "1.0")]),
    ("README.md", rf"One rejection takes {NUMBER} us at V = 128,256, within {NUMBER} times a plain vectorised sum",
     lambda d: [f"{d.times['rejection_pass/V:128256']:.3g}", at_least(d.times["rejection_pass/V:128256"] / d.times["plain_sum/V:128256"])]),
    ("README.md", rf"the slowest text with `--tree auto` was {NUMBER} times as fast as without drafts", lambda d: [f"{slowest_text(d.root):.2f}"]),
    ("docs/benchmarks.md", rf"that is {NUMBER} of the best fixed tree of each kind, {NUMBER} in the worst cell, and the slowest of all texts runs at {NUMBER} times",
     lambda d: [of_kinds(d, "to_best", lambda x: sum(x) / len(x)), of_kinds(d, "to_best", min), of_kinds(d, "slowest", min)]),
    ("docs/benchmarks.md", rf"One budget has {NUMBER} of the goodput of the best fixed tree on average over the table, {NUMBER} in the worst cell, and {NUMBER} of that without drafts at least; the slowest of all texts took its tokens at {NUMBER} times the rate.* it expects {NUMBER} times the tokens",
     lambda d: [of_goodput(d, "to_best", lambda x: sum(x) / len(x)), of_goodput(d, "to_best", min), of_goodput(d, "to_none", min), of_goodput(d, "slowest", min), of_goodput(d, "expected", max)]),
    ("docs/benchmarks.md", rf"three calls of the draft, takes {NUMBER} times a call of one row, and one of 4x2x2x1, 45 rows, {NUMBER} times",
     lambda d: [step_at_287m(d, "1x1x1"), step_at_287m(d, "4x2x2x1")]),
    ("README.md", rf"give {NUMBER} \({NUMBER} in an EAGLE-2 tree\), recursive rejection {NUMBER}, and nested ranked block verification, the default of `generate`, {NUMBER}",
     lambda d: [f"{d.calls['1'][name]['block_efficiency']:.2f}" for name in ("naive/deterministic", "naive/best_first", "recursive_rejection/sequential", "nested_ranked_block/stratified")]),
    ("docs/benchmarks.md", rf"look-up alone is {NUMBER} times at temperature 0", lambda d: [f"{speed(d, '0', 'naive/lookup'):.2f}"]),
    ("docs/benchmarks.md", rf"takes {NUMBER} ms with `nested_ranked_block` and {NUMBER} us with `ranked_block`, against {NUMBER} us with recursive rejection",
     lambda d: [f"{d.times['nested_ranked_block_of_a_tree/V:4096'] / 1000:.2f}", f"{d.times['ranked_block_of_a_tree/V:4096']:.0f}",
                f"{d.times['recursive_rejection_of_a_tree/V:4096']:.1f}"]),
    ("docs/benchmarks.md", rf"four draws without replacement from 128,256 logits cost {NUMBER} times the softmax normaliser, {NUMBER} times a softmax that is written out",
     lambda d: [f"{d.times['draw<draft::sequential>/V:128256/children:4'] / d.times['softmax_normaliser/V:128256']:.1f}",
                f"{d.times['draw<draft::sequential>/V:128256/children:4'] / d.times['softmax_written/V:128256']:.1f}"]),
    ("docs/benchmarks.md", rf"With top-k 20 and top-p 0.8, what engines often default to, it takes {NUMBER} normalisers",
     lambda d: [f"{d.truncation['logits_processing/top_k_20_top_p_0_8/V:128256'] / d.truncation['softmax_normaliser/V:128256']:.1f}"]),
    ("docs/benchmarks.md", rf"`predict_batch` reads all rows at {NUMBER} to {NUMBER} % of the rate of a plain read",
     lambda d: ends(d, "of_machine", ["predict_target_rows"], 100)),
    ("docs/benchmarks.md", rf"one thread of that machine reads as many bytes, {NUMBER} to {NUMBER} GB/s",
     lambda d: ends(d, "machine_read", ["predict_target_rows"], 1e-9)),
    ("docs/benchmarks.md", rf"`nested_ranked_block` reaches {NUMBER} % of its law's on average and {NUMBER} % at least",
     lambda d: [f"{100 * limits_reached(d, lambda s: sum(s) / len(s)):.1f}", f"{100 * limits_reached(d, min):.0f}"]),
]


def at_least(ratio):
    """The bound with one decimal that a ratio lies within."""
    return f"{max(1.0, -(-ratio * 10 // 1) / 10):.1f}"


def speed_up_at_size(rows, parameters, way, temperature):
    """Of `--tree auto`, or of a method and a tree."""
    method, tree = ("nested_ranked_block/stratified", "auto") if way == "--tree auto" else way.partition(" ")[::2]
    for row in rows:
        if (f"{int(row['target_parameters']) / 1e6:,.0f}M", row["method"], row["tree"], row["temperature"]) == (parameters, method, tree, temperature):
            return f"{float(row['speed_up']):.2f} [{float(row['speed_up_low']):.2f}, {float(row['speed_up_high']):.2f}]"
    return "nothing"


def variation_of(root, program, temperature):
    """Total variation of a program's text from the law, by bench/llama_cpp_law."""
    for row in csv.DictReader((root / "bench/results/llama_cpp_law/law.csv").open(encoding="utf-8")):
        if (row["program"], f"{float(row['temperature']):g}") == (program, temperature):
            return f"{float(row['total_variation']):.2f}"
    return "nothing"


def generation_of(root, parameters, temperature, way):
    """Tokens a second and a call of a way of bench/python to generate."""
    names = {"7M": "shipped", "287M": "padded_300m"}
    file = root / f"bench/results/python/generate_{names[parameters]}.csv"
    for row in csv.DictReader(file.open(encoding="utf-8")):
        if (row["way"], f"{float(row['temperature']):g}") == (way.replace("`", ""), temperature):
            return f"{float(row['tokens_a_second']):.3g}, {float(row['tokens_a_target_call']):.2f}"
    return "nothing"


def wrong_rows(name, text, data):
    """Rows of a document that are not what the data say."""
    wrong = []
    for head, rows in tables(text).items():
        if head in data.report:
            wrong += [f"{name}: {' | '.join(row)}: bench/report.py prints no such row" for row in rows if row not in data.report[head]]
        elif head[0] in ("tree", "temperature, tree"):
            for row in rows:
                temperature, tree = row[0].split(", ") if ", " in row[0] else ("1.0", row[0])
                source = data.step(temperature, tree)
                for column, cell in zip(head[1:], row[1:]):
                    if "less the best" in column:
                        expected = source["`nested_ranked_block/stratified` less the best published"]
                    else:
                        expected = source[column].split()[0]
                    if cell != expected:
                        wrong.append(f"{name}: {tree}, temperature {temperature}, {column}: {cell}, the data say {expected}")
        elif head[0] in data.padded:
            for row in rows:
                for column, cell in zip(head[2:], row[2:]):
                    expected = speed_up_at_size(data.padded[head[0]], row[0], row[1].replace("`", ""), column.split()[-1])
                    if cell != expected:
                        wrong.append(f"{name}: {row[0]}, {row[1]}, {column}: {cell}, the data say {expected}")
        elif head[0] == CONTROLLER:
            for row in rows:
                for column, cell in zip(head[1:], row[1:]):
                    expected = auto_to_best(data, row[0], column.split()[-1])
                    if cell != expected:
                        wrong.append(f"{name}: {row[0]}, {column}: {cell}, the data say {expected}")
        elif head[0] == GOODPUT:
            for row in rows:
                for column, cell in zip(head[1:], row[1:]):
                    expected = goodput(data, row[0], column)
                    if cell != expected:
                        wrong.append(f"{name}: {row[0]}, {column}: {cell}, the data say {expected}")
        elif head[0] == "target in PyTorch, temperature":
            for row in rows:
                for column, cell in zip(head[1:], row[1:]):
                    expected = generation_of(data.root, *row[0].split(", "), column)
                    if cell != expected:
                        wrong.append(f"{name}: {row[0]}, {column}: {cell}, the data say {expected}")
        elif head[0] == "text of":
            for row in rows:
                for column, cell in zip(head[1:], row[1:]):
                    expected = variation_of(data.root, row[0], column.split()[-1])
                    if cell != expected:
                        wrong.append(f"{name}: {row[0]}, {column}: {cell}, the data say {expected}")
        elif head[0] not in OTHER and any(re.search(r"\d\.\d", cell) for row in rows for cell in row):
            wrong.append(f"{name}: a table of numbers that nothing checks: {' | '.join(head)}")
    return wrong


def wrong_claims(documents, data, claims):
    wrong = []
    for name, pattern, values in claims:
        found = re.search(pattern, re.sub(r"\s+", " ", documents[name]))
        if found is None:
            wrong.append(f"{name}: no sentence \"{pattern}\"")
        elif list(found.groups()) != values(data):
            wrong.append(f"{name}: \"{found.group(0)}\": the data say {values(data)}")
    return wrong


def self_test(root):
    data = Data(root)
    documents = {name: (root / name).read_text(encoding="utf-8") for name in DOCUMENTS}
    changed = documents["README.md"].replace("| 3x1 | 1.148", "| 3x1 | 1.149")
    assert changed != documents["README.md"] and wrong_rows("README.md", changed, data)
    other = documents["docs/benchmarks.md"].replace("12.5 us |", "12.6 us |", 1)
    assert wrong_rows("docs/benchmarks.md", other, data)
    assert wrong_rows("x", "| new | numbers |\n|---|---|\n| a | 1.5 |\n", data)
    less = {**documents, "README.md": documents["README.md"].replace("One rejection takes", "A rejection takes")}
    assert wrong_claims(less, data, CLAIMS)
    false = {**documents, "README.md": documents["README.md"].replace("One rejection takes 12.5", "One rejection takes 11.5")}
    assert wrong_claims(false, data, CLAIMS)
    print("The checks find what they are for.")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent.parent)
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test(options.root)
    data = Data(options.root)
    documents = {name: (options.root / name).read_text(encoding="utf-8") for name in DOCUMENTS}
    wrong = wrong_claims(documents, data, CLAIMS)
    for name, text in documents.items():
        wrong += wrong_rows(name, text, data)
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
