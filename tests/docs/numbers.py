#!/usr/bin/env python3
"""Numbers of the README and docs/benchmarks.md against the data in bench/results.

numbers.py [--root ROOT]
numbers.py [--root ROOT] --fix   writes the lines of commits
numbers.py --self-test

  tables   every row of a table that bench/report.py prints, or that repeats the sweep of bench/paper_tables or the
           speed-ups of bench/padded, bench/controller or bench/goodput, or bench/chat's of all kinds, is what the data say
  commits  below every such table stands the commit at which it was measured, and its date: that of the result
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

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "bench"))
from support.medians import medians  # noqa: E402

MACHINE = "AMD_EPYC_2_cores"
DOCUMENTS = ("README.md", "docs/benchmarks.md", "docs/chat.md", "docs/drafters.md")
WITH_CLAIMS = (*DOCUMENTS, "models/README.md")  # tables of others are not read
# Tables whose rows come from elsewhere, by their first cell.
OTHER = {"situation": "no numbers", "": "no numbers", "drafter": "no numbers but of papers",
         "normaliser of one row with a mask or a bias, CPU time": "a run of its own, as the text below it says"}
TEMPERATURES = ("0", "0.7", "1")
# Tables of bench/padded, by their first cell.
PADDED = {"parameters of the target": "padded", "parameters of the target, llama.cpp": "padded_llama_cpp",
          "parameters of the target, AVX-512": "padded_avx512", "parameters of the target, matrix tiles": "padded_with_tiles"}

# Of bench/controller, by its first cell; and its tables of times.
CONTROLLER = "times of a target of"
TABLES_OF_TIMES = {"7M": "7m", "61M": "60m", "287M": "300m", "1,023M": "1b"}
# Of bench/chat, by its first cells.
CHAT = {("temperature", "drafts", "tokens/s"): "chat", ("temperature", "drafts, weights in bfloat16", "tokens/s"): "chat_bf16"}
ALL_KINDS = "all kinds"
# Of bench/parallel, by its first cell.
PARALLEL = {"requests in flight, 7M": "shipped", "requests in flight, 61M": "60m", "requests in flight, 287M": "300m",
            "requests in flight, SmolLM2": "smollm"}
# Of bench/block_products, by its first cell.
BLOCKS = "Q4_1, by"
# Of bench/roofline, by its first cell.
CALLS = {"a call of 287M parameters, matrix tiles, by": "roofline_with_tiles", "a call of 287M parameters, AVX-512, by": "roofline_avx512"}
# Of bench/drafter_methods, by their first cell; and what the ways are called there.
WAYS = {"temperature, shipped target": "shipped", "temperature, SmolLM2": "smollm"}
WAY = {"the likeliest tokens, naive matching (DDTree)": "naive matching", "a chain, p/q": "chain, p/q", "a chain, block verification": "chain, block",
       "draws without replacement, recursive rejection": "recursive rejection", "`nested_ranked_block/stratified`": "ours",
       "the same, by reach": "ours, by reach"}
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
        self.runs = {t: by_method(root / f"bench/results/end_to_end/temperature_{t}.jsonl") for t in TEMPERATURES}
        self.calls = {t: by_method(root / f"bench/results/tokens_a_call/temperature_{t}.jsonl") for t in TEMPERATURES}
        self.controller = [row for row in csv.DictReader((root / "bench/results/controller/summary.csv").open(encoding="utf-8"))
                           if row["length"] == "64" and row["drafts"] == "auto"]
        self.goodput = {(row["costs"], row["requests"], row["drafts"]): row
                        for row in csv.DictReader((root / "bench/results/goodput/summary.csv").open(encoding="utf-8"))}
        self.chats = {directory: {(row["temperature"], row["kind"], row["way"]): row
                                  for row in csv.DictReader((root / f"bench/results/{directory}/summary.csv").open(encoding="utf-8"))}
                      for directory in (*CHAT.values(), "chat_xeon")}
        self.chat = self.chats["chat"]
        self.padded = {engine: list(csv.DictReader((root / f"bench/results/{directory}/summary.csv").open(encoding="utf-8")))
                       for engine, directory in PADDED.items() if (root / f"bench/results/{directory}/summary.csv").exists()}
        self.times = {}
        for name in ("verify", "sample", "tree", "step"):
            self.times |= {case: row["real_time"] for case, row in medians(root / f"bench/results/{MACHINE}/{name}.csv").items()}
        done = subprocess.run([sys.executable, root / "bench/report.py", root / "bench/results" / MACHINE], capture_output=True, text=True, check=True)
        self.report = tables(done.stdout)
        self.report_of = dict.fromkeys(self.report, MACHINE)
        self.truncation = {case: row["real_time"] for case, row in medians(root / "bench/results/truncation/sample.csv").items()}
        self.prepared = medians(root / "bench/results/prepared_rows/batch.csv")
        for directory, option in (("end_to_end", "--compare"), ("prepared_rows", "--prepared"), ("truncation", "--truncation"), ("device", "--device")):
            done = subprocess.run([sys.executable, root / "bench/report.py", root / "bench/results" / directory, option], capture_output=True, text=True, check=True)
            self.report |= tables(done.stdout)
            self.report_of |= dict.fromkeys(tables(done.stdout), directory)

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


AVX2, AVX512 = "parameters of the target", "parameters of the target, AVX-512"


def slowest_text(data, machine, is_shipped, by_block):
    """The least speed-up of a text with --tree auto, at the shipped size or the sizes above it."""
    return min(float(r["slowest"]) for r in data.padded[machine]
               if r["tree"] == "auto" and (r["size"] == "shipped") == is_shipped and r["method"].startswith("block drafter") == by_block)


def speeds_of_auto(data, machine):
    """The least and the most of --tree auto, of the sizes above the shipped one."""
    found = [float(r["speed_up"]) for r in data.padded[machine] if r["tree"] == "auto" and r["size"] != "shipped"]
    return [f"{of(found):.2f}" for of in (min, max)]


def milliseconds_without_drafts(data, machine, size):
    """Of a token, at the three temperatures."""
    rates = {r["temperature"]: float(r["rate"]) for r in data.padded[machine] if r["size"] == size and r["method"] == "autoregressive"}
    return [f"{1e3 / rates[t]:.1f}" for t in TEMPERATURES]


def auto_to_other_ways(data, machine, size, by_block):
    """The least and the most, over temperatures, of the speed of --tree auto in that of the best other way of the same drafter."""
    found = []
    for t in TEMPERATURES:
        ways = [r for r in data.padded[machine] if r["size"] == size and r["temperature"] == t and r["method"] not in ("autoregressive", "auto")
                and r["method"].startswith("block drafter") == by_block]
        auto = [float(r["rate"]) for r in ways if r["tree"] == "auto"]
        found.append(auto[0] / max(float(r["rate"]) for r in ways if r["tree"] != "auto"))
    return [f"{of(found):.2f}" for of in (min, max)]


def of_chain_at_7m(data, machine):
    """What --tree auto with the block drafter loses at 7M, in percent, and the speed-up of a chain of four."""
    speeds = {(r["method"], r["tree"], r["temperature"]): float(r["speed_up"]) for r in data.padded[machine] if r["size"] == "shipped"}
    losses = [100 * (1 - speeds["block drafter, nested_ranked_block/stratified", "auto", t]) for t in TEMPERATURES]
    chains = [speeds["block drafter, block/iid", "1x1x1x1", t] for t in TEMPERATURES]
    return [f"{of(losses):.0f}" for of in (min, max)] + [f"{of(chains):.2f}" for of in (min, max)]


def step_at_287m(data, tree):
    """Seconds of a step of the default over those of one target call, at temperature 0.7."""
    row = next(r for r in data.padded["parameters of the target"]
               if (r["size"], r["method"], r["tree"], r["temperature"]) == ("300m", "nested_ranked_block/stratified", tree, "0.7"))
    return f"{float(row['tokens_a_call']) / float(row['speed_up']):.1f}"


def ends(data, field, names, scale):
    """The least and the most of a counter of prepared rows, 8 requests of 16 nodes."""
    found = [scale * data.prepared[f"{name}/V:{v}/requests:8/nodes:16"][field] for name in names for v in (32000, 128256)]
    return [f"{min(found):.0f}", f"{max(found):.0f}"]


def measured(data, drafter):
    """What models/train/measure_drafter.py found of a drafter along text of its target, by temperature."""
    lines = (data.root / "models" / drafter / "measured.jsonl").read_text(encoding="utf-8").splitlines()
    return {f"{row['temperature']:g}": row for row in map(json.loads, lines) if "tokens" in row}


def first_positions(data, drafter):
    """The least and the most acceptance at the first position, over temperatures."""
    found = [row["alpha"][0] for row in measured(data, drafter).values()]
    return [f"{of(found):.2f}".lstrip("0") for of in (min, max)]


def first_tokens(data):
    """Acceptance at the first position by temperature: of the draft, and of the block drafter."""
    return [f"{measured(data, drafter)[t]['alpha'][0]:.2f}".lstrip("0") for drafter in ("draft-distilled", "block-drafter")
            for t in TEMPERATURES]


def accepted_by_drafters(data, temperature):
    """Acceptance by position and the tokens of a chain: of the draft, the one that is distilled, the head of EAGLE-3."""
    found = []
    for drafter, positions in (("draft", 1), ("draft-distilled", 1), ("eagle-head", 4)):
        row = measured(data, drafter)[temperature]
        found += [f"{alpha:.3f}".lstrip("0") for alpha in row["alpha"][:positions]] + [f"{row['tokens']:.2f}"]
    return found


def on_device(data, file, calls, method, nodes):
    """Microseconds of 64 requests at V = 128,256; those of several calls together."""
    rows = map(json.loads, (data.root / f"bench/results/device/{file}.jsonl").read_text(encoding="utf-8").splitlines())
    calls = (calls,) if isinstance(calls, str) else calls
    return f"""{sum(row["us"] for row in rows if row["call"] in calls and (row["method"], row["requests"], row["nodes"], row["vocabulary"])
                   == (method, 64, nodes, 128256)):,.0f}"""


# (document, regular expression with one group a number, what the numbers are)
NUMBER = r"([\d.]+)"
CLAIMS = [
    ("docs/benchmarks.md", rf"287M parameters alone took {NUMBER}, {NUMBER} and {NUMBER} ms a token at temperatures 0, 0.7 and 1",
     lambda d: milliseconds_without_drafts(d, AVX512, "300m")),
    ("docs/benchmarks.md", rf"`--tree auto` has {NUMBER} to {NUMBER} of the best other way of the table, .* at 61M, {NUMBER} to {NUMBER} at 287M and {NUMBER} to {NUMBER} at 7M; with the block drafter {NUMBER} to {NUMBER} at 61M and {NUMBER} to {NUMBER} at 287M",
     lambda d: [x for size, by_block in (("60m", False), ("300m", False), ("shipped", False), ("60m", True), ("300m", True))
                for x in auto_to_other_ways(d, AVX512, size, by_block)]),
    ("docs/benchmarks.md", rf"With the draft model `--tree auto` has {NUMBER} to {NUMBER} of the best fixed way, chosen afterwards, at 61M, {NUMBER} to {NUMBER} at 287M and {NUMBER} to {NUMBER} at 7M\.",
     lambda d: [x for size in ("60m", "300m", "shipped") for x in auto_to_other_ways(d, "parameters of the target, matrix tiles", size, False)]),
    ("docs/benchmarks.md", rf"at 1,023M {NUMBER} to {NUMBER} of the one fixed way that was run", lambda d: auto_to_other_ways(d, AVX2, "1b", False)),
    ("docs/benchmarks.md", rf"and loses (\d+) to (\d+) %, where a fixed chain of four has {NUMBER} to {NUMBER}\.", lambda d: of_chain_at_7m(d, AVX512)),
    ("README.md", r"accepts (\.\d+), (\.\d+) and (\.\d+) of the draft's first tokens and (\.\d+), (\.\d+) and (\.\d+) of the block drafter's",
     first_tokens),
    *(("models/README.md", rf"\| {t} " + rf"\| (\.\d+) \| {NUMBER} " * 2 + r"\| (\.\d+) " * 4 + rf"\| {NUMBER} \|",
       lambda d, t=t: accepted_by_drafters(d, t)) for t in TEMPERATURES),
    ("README.md", rf"of 61M and 287M parameters, generate {NUMBER} to {NUMBER} times as fast with drafts as without; on two cores with AVX2 alone, up to 1,023M parameters, {NUMBER} to {NUMBER} times",
     lambda d: speeds_of_auto(d, AVX512) + speeds_of_auto(d, AVX2)),
    ("docs/chat.md", rf"a text of the question, the default makes it {NUMBER} times as fast at temperature 0", lambda d: [d.chat["0", "text", "default"]["speed_up"]]),
    ("README.md", rf"answers at {NUMBER} tokens/s without drafts, where llama.cpp has {NUMBER} from the same file\. By default answers have {NUMBER}, {NUMBER} and {NUMBER} times that speed at temperatures 0, 0.7 and 1, and the slowest one {NUMBER} of it; on two cores of an Intel Xeon, whose cache just holds these weights, {NUMBER}, {NUMBER} and {NUMBER}",
     lambda d: [d.chat["0.7", ALL_KINDS, way]["tokens_per_second"] for way in ("none", "llama.cpp, none")]
     + [d.chat[t, ALL_KINDS, "default"]["speed_up"] for t in TEMPERATURES] + [slowest_answer(d)] + of_xeon(d)),
    ("docs/chat.md", rf"by default answers had {NUMBER}, {NUMBER} and {NUMBER} of the speed without drafts", lambda d: of_xeon(d)),
    ("README.md", rf"Where a call costs more and a further row less, with weights in bfloat16, drafts make it {NUMBER}, {NUMBER} and {NUMBER} times as fast",
     lambda d: [d.chats["chat_bf16"][t, ALL_KINDS, "default"]["speed_up"] for t in TEMPERATURES]),
    ("README.md", rf"Of that drafter's first tokens (\.\d+) to (\.\d+) are accepted", lambda d: first_positions(d, "smollm-drafter")),
    ("docs/chat.md", rf"first position is accepted at (\.\d+) to (\.\d+) on such answers", lambda d: first_positions(d, "smollm-drafter")),
    ("README.md", rf"from logits by recursive rejection takes {NUMBER} us where a plain softmax of all their rows takes ([\d,]+); .* "
     rf"takes {NUMBER} us where FlashInfer's softmax and kernel take {NUMBER}\.",
     lambda d: [on_device(d, "times", "verify_batch", "recursive_rejection/sequential", 64), on_device(d, "times", "plain softmax", "baseline", 64),
                on_device(d, "engines", "ours: verify from logits", "speculative_sampling/iid", 5),
                on_device(d, "engines", ("FlashInfer: softmax of the target's rows", "FlashInfer: chain_speculative_sampling"), "speculative_sampling/iid", 5)]),
    ("docs/benchmarks.md", rf"for 64 requests of 64 nodes recursive rejection takes {NUMBER} us, the softmax of all rows ([\d,]+)\.",
     lambda d: [on_device(d, "times", "verify_batch", "recursive_rejection/sequential", 64), on_device(d, "times", "plain softmax", "baseline", 64)]),
    ("docs/benchmarks.md", rf"About two tokens per target call are at most {NUMBER} times the speed", lambda d: [f"{best_of_two_tokens(d):.2f}"]),
    ("docs/benchmarks.md", r"best of the five published methods on (\w+) of ten trees at temperature 0.3, on (\w+) at 0.6 and on (\w+) at 1",
     lambda d: [("seven", "eight", "nine", "ten")[wins(d, t) - 7] for t in ("0.3", "0.6", "1.0")]),
    ("docs/benchmarks.md", r"by (\d+ to \d+) % at 0.3, (\d+ to \d+) % at 0.6, (\d+ to \d+) % at 1",
     lambda d: [percent([share for _, share, low in d.gains(t) if low > 0]) for t in ("0.3", "0.6", "1.0")]),
    ("docs/benchmarks.md", rf"One rejection takes {NUMBER} us at V = 128,256, within {NUMBER} times a plain vectorised sum",
     lambda d: [f"{d.times['rejection_pass/V:128256']:.3g}", at_least(d.times["rejection_pass/V:128256"] / d.times["plain_sum/V:128256"])]),
    ("README.md", rf"the slowest text had {NUMBER} of the speed without drafts with the draft model, and {NUMBER} with the block drafter",
     lambda d: [f"{slowest_text(d, AVX512, False, by_block):.2f}" for by_block in (False, True)]),
    ("README.md", rf"At 7M, where a call takes a fifth of a millisecond, it had {NUMBER} and {NUMBER} of it",
     lambda d: [f"{slowest_text(d, AVX512, True, by_block):.2f}" for by_block in (False, True)]),
    ("docs/benchmarks.md", rf"that is {NUMBER} of the best fixed tree of each kind, {NUMBER} in the worst cell, and the slowest of all texts runs at {NUMBER} times",
     lambda d: [of_kinds(d, "to_best", lambda x: sum(x) / len(x)), of_kinds(d, "to_best", min), of_kinds(d, "slowest", min)]),
    ("docs/benchmarks.md", rf"One budget has {NUMBER} of the goodput of the best fixed tree on average over the table, {NUMBER} in the worst cell, and {NUMBER} of that without drafts at least; the slowest of all texts took its tokens at {NUMBER} times the rate.* expects at most {NUMBER} times the tokens",
     lambda d: [of_goodput(d, "to_best", lambda x: sum(x) / len(x)), of_goodput(d, "to_best", min), of_goodput(d, "to_none", min), of_goodput(d, "slowest", min), of_goodput(d, "expected", max)]),
    ("docs/benchmarks.md", rf"three calls of the draft, takes {NUMBER} times a call of one row",
     lambda d: [step_at_287m(d, "1x1x1")]),
    ("README.md", rf"give {NUMBER} \({NUMBER} in an EAGLE-2 tree\), recursive rejection {NUMBER}, and nested ranked block verification, the default of `generate`, {NUMBER}",
     lambda d: [f"{d.calls['1'][name]['block_efficiency']:.2f}" for name in ("naive/deterministic", "naive/best_first", "recursive_rejection/sequential", "nested_ranked_block/stratified")]),
    ("README.md", rf"naive matching has {NUMBER} tokens a call, a chain with block verification {NUMBER}, recursive rejection {NUMBER}, nested ranked block verification {NUMBER}; on a chat model, SmolLM2-135M-Instruct with a vocabulary of 49,152, they have {NUMBER}, {NUMBER}, {NUMBER} and {NUMBER}",
     lambda d: [f"{way_of_drafter(d, 1, 32, size + way):.2f}" for size in ("", "smollm: ") for way in ("naive matching", "chain, block", "recursive rejection", "ours")]),
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


def slowest_answer(data):
    """Of all answers with the default, against none."""
    return f"{min(float(data.chat[t, ALL_KINDS, 'default']['slowest']) for t in TEMPERATURES):.2f}"


def of_xeon(data):
    """The speeds of the default against none on the machine whose cache holds the weights."""
    return [data.chats["chat_xeon"][t, ALL_KINDS, "default"]["speed_up"] for t in TEMPERATURES]


def way_of_drafter(data, temperature, budget, way):
    """Tokens a target call by bench/drafter_methods, of the shipped target unless the way names another, "smollm: ".."""
    size, way = way.split(": ") if ": " in way else ("shipped", way)
    return row_of_way(data.root, size, temperature, budget, way)["tokens_a_call"]["value"]


def row_of_way(root, size, temperature, budget, way):
    rows = map(json.loads, (root / f"bench/results/drafter_methods/{size}.jsonl").read_text(encoding="utf-8").splitlines())
    return next(row for row in rows if (row.get("temperature"), row.get("budget"), row.get("way")) == (temperature, budget, way))


def row_of_ways(root, head, temperature, budget):
    """A row of the table of ways: tokens a call with their interval, and nodes."""
    cells = [temperature, budget]
    for column in head[2:]:
        row = row_of_way(root, WAYS[head[0]], float(temperature), int(budget), WAY[column])
        value, low, high = (row["tokens_a_call"][name] for name in ("value", "low", "high"))
        cells.append(f"{value:.2f} [{low:.2f}, {high:.2f}], {row['nodes_a_call']:.0f}")
    return cells


def at_least(ratio):
    """The bound with one decimal that a ratio lies within."""
    return f"{max(1.0, -(-ratio * 10 // 1) / 10):.1f}"


def speed_up_at_size(rows, parameters, way, temperature):
    """Of `--tree auto`, or of a method and a tree."""
    block = "block drafter, "
    of_block, way = (block, way.removeprefix(block)) if way.startswith(block) else ("", way)
    method, tree = ("nested_ranked_block/stratified", "auto") if way == "--tree auto" else way.partition(" ")[::2]
    method, tree = of_block + method, tree.removeprefix("--tree ")
    for row in rows:
        if (f"{int(row['target_parameters']) / 1e6:,.0f}M", row["method"], row["tree"], row["temperature"]) == (parameters, method, tree, temperature):
            return f"{float(row['speed_up']):.2f} [{float(row['speed_up_low']):.2f}, {float(row['speed_up_high']):.2f}]"
    return "nothing"


def row_of_parallel(root, head, count):
    """A row of many requests in real time; its columns are ratios to none of the way that they name, or what they say."""
    rows = csv.DictReader((root / "bench/results/parallel/summary.csv").open(encoding="utf-8"))
    of = {row["way"]: row for row in rows if (row["size"], row["in_flight"]) == (PARALLEL[head[0]], count)}
    if not of:
        return []
    times = lambda way: f"{1000 * float(of[way]['seconds_per_token_median']):.1f} ({1000 * float(of[way]['seconds_per_token_95']):.1f})"  # noqa: E731
    others = {"none, tokens/s": lambda: of["none"]["tokens_per_second"], "ms a token without drafts (95 %)": lambda: times("none"),
              "with one budget (95 %)": lambda: times("one budget"),
              "with one budget of blocks (95 %)": lambda: times("block drafter, one budget"),
              "slowest text with one budget": lambda: of["one budget"]["slowest_to_none"],
              "slowest text with one budget of blocks": lambda: of["block drafter, one budget"]["slowest_to_none"]}
    return [count, *(others[column]() if column in others else of[column]["ratio_to_none"] for column in head[1:])]


def row_of_blocks(root, head, row):
    """A row of the products of weights in blocks."""
    times = {(one["instructions"], one["inputs"], one["rows"]): float(one["ms"])
             for one in csv.DictReader((root / "bench/results/block_products/times.csv").open(encoding="utf-8")) if one["weights"] == "Q4_1"}
    return [*row[:2], *(f"{times.get((row[0], row[1], column.split()[0]), 0):.3g} ms" for column in head[2:])]


def row_of_calls(root, head, row):
    """A row of the calls by their rows; `reading` is that of the weights, once."""
    products = "oneDNN" if row[0] == "oneDNN" else "ours"
    field = "reading_ms" if row[0] == "reading" else "ms"
    times = {(one["products"], one["threads"], one["rows"]): float(one[field])
             for one in csv.DictReader((root / f"bench/results/{CALLS[head[0]]}/times.csv").open(encoding="utf-8")) if one["size"] == "300m"}
    return [*row[:2], *(f"{times.get((products, row[1], column.split()[0]), 0):.3g} ms" for column in head[2:])]


def row_of_chat(chat, temperature, way):
    """A row of docs/chat.md."""
    row = chat.get((temperature, ALL_KINDS, "llama.cpp, none" if "llama.cpp" in way else way))
    if row is None:
        return []
    of_none = "" if way == "none" else f" ({row['low']} to {row['high']})"
    return [temperature, way, row["tokens_per_second"], row["tokens_a_call"], row["speed_up"] + of_none, row["slowest"]]


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
        elif head[0] in PARALLEL:
            for row in rows:
                expected = row_of_parallel(data.root, head, row[0])
                if list(row) != expected:
                    wrong.append(f"{name}: {' | '.join(row)}: the data say {expected}")
        elif head[0] in WAYS:
            for row in rows:
                expected = row_of_ways(data.root, head, *row[:2])
                if list(row) != expected:
                    wrong.append(f"{name}: {' | '.join(row)}: the data say {expected}")
        elif head[0] == BLOCKS:
            for row in rows:
                expected = row_of_blocks(data.root, head, row)
                if list(row) != expected:
                    wrong.append(f"{name}: {' | '.join(row)}: the data say {expected}")
        elif head[0] in CALLS:
            for row in rows:
                expected = row_of_calls(data.root, head, row)
                if list(row) != expected:
                    wrong.append(f"{name}: {' | '.join(row)}: the data say {expected}")
        elif head[:3] in CHAT:
            for row in rows:
                expected = row_of_chat(data.chats[CHAT[head[:3]]], *row[:2])
                if list(row) != expected:
                    wrong.append(f"{name}: {' | '.join(row)}: the data say {expected}")
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


MEASURED = "Measured at commit `{}` ({})."


def commit_in(path):
    """Of made_with.txt, machine.txt, or the file beside a table of a paper."""
    text = path.read_text(encoding="utf-8")
    if path.suffix in (".json", ".jsonl"):
        made = json.loads(text.splitlines()[0] if path.suffix == ".jsonl" else text)
        return made.get("made_with", made)["commit"][:7]
    return re.search(r"^commit: (\w+)", text, re.MULTILINE).group(1)[:7]


def source_of(head, data):
    """The file that has the commit of a table of numbers; None for other tables."""
    results = data.root / "bench/results"
    if head in data.report:
        directory = results / data.report_of[head]
        return directory / ("machine.txt" if (directory / "machine.txt").exists() else "device.jsonl")
    if head[0] in ("tree", "temperature, tree"):
        return results / "paper_tables/sweep.json"
    if head[0] in data.padded:
        return results / PADDED[head[0]] / "made_with.txt"
    if head[0] in PARALLEL:
        return results / "parallel/made_with.txt"
    if head[0] in WAYS:
        return results / f"drafter_methods/{WAYS[head[0]]}.jsonl"
    if head[0] == BLOCKS:
        return results / "block_products/made_with.txt"
    if head[0] in CALLS:
        return results / CALLS[head[0]] / "made_with.txt"
    if head[:3] in CHAT:
        return results / CHAT[head[:3]] / "made_with.txt"
    return {CONTROLLER: results / "controller/made_with.txt", GOODPUT: results / "goodput/made_with.txt",
            "text of": results / "llama_cpp_law/made_with.txt",
            "target in PyTorch, temperature": results / "python/machine.txt"}.get(head[0])


def date_of(source, commit):
    """The commit's, or, where it is in no branch any more, that of its results."""
    def first_line(*command):
        return subprocess.run(["git", "-C", source.parent, *command], capture_output=True, text=True).stdout.strip()
    return first_line("show", "-s", "--format=%cs", commit) or f"{first_line('log', '-1', '--format=%cs', '--', source.name)}, not in the history"


def with_commits(text, data):
    """The document with the line of its commit below each table of numbers. Without git's history a date stays as it is."""
    lines, result, head = text.splitlines(), [], None
    for number, line in enumerate(lines):
        if line.startswith("|") and not (number and lines[number - 1].startswith("|")):
            head = tuple(cell.strip() for cell in line.strip().strip("|").split("|"))
        old = re.fullmatch(r"Measured at commit `(\w+)` \(([^)]+)\)\.", line)
        if not old:
            result.append(line)
        elif result and result[-1] == "":
            result.pop()  # the blank line before it
        ends = line.startswith("|") and not (number + 1 < len(lines) and lines[number + 1].startswith("|"))
        source = source_of(head, data) if ends else None
        if source:
            commit = commit_in(source)
            stated = re.fullmatch(r"Measured at commit `(\w+)` \(([^)]+)\)\.", lines[number + 2]) if number + 2 < len(lines) else None
            kept = stated.group(2) if stated and stated.group(1) == commit else None
            result += ["", MEASURED.format(commit, kept or date_of(source, commit))]
    return "\n".join(result) + "\n"


def wrong_commits(name, text, data):
    wanted = with_commits(text, data)
    if wanted == text:
        return []
    missing = [line for line in wanted.splitlines() if line.startswith("Measured at") and wanted.count(line) != text.count(line)]
    return [f"{name}: the commits below its tables are not those of the results; run tests/docs/numbers.py --fix: {', '.join(dict.fromkeys(missing))}"]


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
    documents = {name: (root / name).read_text(encoding="utf-8") for name in WITH_CLAIMS}
    changed = re.sub(r"(\| 1\.0, 3x1 \| \d)\.", r"\1.9", documents["docs/benchmarks.md"])
    assert changed != documents["docs/benchmarks.md"] and wrong_rows("docs/benchmarks.md", changed, data)
    other = documents["docs/benchmarks.md"].replace("12.5 us |", "12.6 us |", 1)
    assert wrong_rows("docs/benchmarks.md", other, data)
    assert wrong_rows("x", "| new | numbers |\n|---|---|\n| a | 1.5 |\n", data)
    page = documents["docs/benchmarks.md"]
    commit = commit_in(source_of(next(iter(data.report)), data))
    assert not wrong_commits("x", page, data) and page.count(f"Measured at commit `{commit}`") > 3
    assert wrong_commits("x", page.replace(f"Measured at commit `{commit}`", "Measured at commit `abcdef0`", 1), data)
    assert wrong_commits("x", re.sub(r"\nMeasured at commit.*\n", "", page, count=1), data)
    for name, text, other in (("docs/benchmarks.md", "One rejection takes", "A rejection takes"),
                              ("docs/benchmarks.md", "One rejection takes 12.5", "One rejection takes 11.5"),
                              ("docs/chat.md", "the default makes it 1", "the default makes it 0"),
                              ("README.md", "parameters, generate ", "parameters, generate 0")):
        replaced = {**documents, name: documents[name].replace(text, other)}
        assert replaced != documents and wrong_claims(replaced, data, CLAIMS)
    print("The checks find what they are for.")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent.parent)
    parser.add_argument("--fix", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test(options.root)
    data = Data(options.root)
    documents = {name: (options.root / name).read_text(encoding="utf-8") for name in WITH_CLAIMS}
    wrong = wrong_claims(documents, data, CLAIMS)
    for name in DOCUMENTS:
        text = documents[name]
        if options.fix:
            (options.root / name).write_text(with_commits(text, data), encoding="utf-8")
        wrong += wrong_rows(name, text, data) + ([] if options.fix else wrong_commits(name, text, data))
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
