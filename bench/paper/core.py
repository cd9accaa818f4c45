"""What the tables of all papers are made with: jobs, statistics, tables, and the list of items."""
import csv
import dataclasses
import hashlib
import json
import math
import os
import random
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SHOWN = "sweep"  # the item whose picture a document shows; the others are left in PICTURES
PICTURES = ROOT / "build" / "paper_tables"
KINDS = ("scripture", "definitions", "satire")
TARGET_SIZE = 6.85  # millions of parameters
DRAFT_SIZES = {"draft": 0.59, "draft-tiny": 0.22}
DRAFTS = ("draft-tiny", "draft")
AUTOREGRESSIVE = "autoregressive"
OURS = "nested_ranked_block/stratified"
ROWS_COST = ("the shipped target lies in the CPU's caches, so each further row of a call costs nearly a whole one "
             "(bench/results/padded has larger targets)")
MTAD_WARP = {"top_k": 10, "top_p": 0.9}  # MTAD, appendix F
DOLLY_WARP = {"top_p": 0.95}  # RSD 5


class Runner:
    """The program that runs jobs, started when the first job is not known yet."""

    def __init__(self, store, fresh):
        self.store = store
        self.known = {}
        self.process = None
        self.on_new = lambda job: None  # called after a job that was not known
        if store.exists() and not fresh:
            for line in store.read_text().splitlines():
                try:
                    entry = json.loads(line)
                except json.JSONDecodeError:
                    continue  # cut off by an interruption
                self.known[entry["key"]] = entry["result"]
        elif store.exists():
            store.unlink()

    @staticmethod
    def key(job):
        return hashlib.sha256(json.dumps(job, sort_keys=True).encode()).hexdigest()

    def start(self):
        build = ROOT / "build" / "bench"
        build.mkdir(parents=True, exist_ok=True)
        log = build.parent / "paper_tables.log"
        with log.open("w") as out:
            for command in (["cmake", "-S", ROOT, "-B", build, "-DCMAKE_BUILD_TYPE=Release",
                             "-DMULTIDRAFT_BUILD_EXAMPLES=ON", "-DMULTIDRAFT_BUILD_BENCH=ON",
                             "-DMULTIDRAFT_CUDA=OFF", "-DMULTIDRAFT_KOKKOS=OFF", "-DMULTIDRAFT_MPI=OFF"],
                            ["cmake", "--build", build, "--target", "multidraft_paper_runs", "--parallel", str(os.cpu_count())]):
                if subprocess.run(command, stdout=out, stderr=out).returncode != 0:
                    sys.exit(f"paper_tables: the build failed; the output is in {log}")
        self.process = subprocess.Popen([build / "bench" / "multidraft_paper_runs"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def __call__(self, job):
        key = self.key(job)
        if key not in self.known:
            if self.process is None:
                self.start()
            self.process.stdin.write(json.dumps(job) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
            if not line:
                sys.exit("paper_tables: the program that runs the methods has ended")
            result = json.loads(line)
            if "error" in result:
                return result
            self.store.parent.mkdir(parents=True, exist_ok=True)
            with self.store.open("a") as out:
                out.write(json.dumps({"key": key, "job": job, "result": result}) + "\n")
            self.known[key] = result
            self.on_new(job)
        return self.known[key]


# --- Statistics ------------------------------------------------------------------------------------------------------


class Estimate(tuple):
    """(value, low, high), and what it was estimated from."""

    def __new__(cls, triple, values, statistic):
        made = super().__new__(cls, triple)
        made.values, made.statistic = values, statistic
        return made


def interval(values, statistic, rounds=400):
    """A statistic of a list of runs with its 95 % bootstrap interval."""
    dice = random.Random(12345)
    n = len(values)
    found = sorted(statistic([values[dice.randrange(n)] for _ in range(n)]) for _ in range(rounds))
    return Estimate((statistic(values), found[int(0.025 * rounds)], found[min(rounds - 1, int(0.975 * rounds))]), values, statistic)


def difference(left, right):
    """left - right, of the same prompts in the same order, with its interval."""
    return interval(list(zip(left.values, right.values)),
                    lambda pairs: left.statistic([a for a, _ in pairs]) - right.statistic([b for _, b in pairs]), 2000)


def mean(values):
    return sum(values) / len(values)


def total(runs, field):
    return sum(r[field] for r in runs)


def block_efficiency(runs):
    return total(runs, "tokens") / max(1, total(runs, "target_calls"))


def acceptance(runs):
    tried = sum(sum(r["tried_at_depth"]) for r in runs)
    return sum(sum(r["accepted_at_depth"]) for r in runs) / max(1, tried)


def accepted_fraction(depth):
    return lambda runs: total(runs, "accepted") / max(1, total(runs, "target_calls")) / depth


def rate(runs):
    return total(runs, "tokens") / max(1e-9, total(runs, "seconds"))


def speed_up(runs):
    """Tokens a second, over those of the target alone, which continued the same prompts just before and after each run."""
    return rate(runs) / max(1e-9, total(runs, "plain_tokens") / max(1e-9, total(runs, "plain_seconds")))


def perplexity(runs):
    return math.exp(total(runs, "nll") / max(1, total(runs, "tokens")))


def next_right(runs):
    return total(runs, "next_right") / len(runs)


def mbsu(depth, draft="draft"):
    return lambda runs: block_efficiency(runs) / (depth * DRAFT_SIZES[draft] / TARGET_SIZE + 1)


def shown(triple, digits=3):
    value, low, high = triple
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


# --- Trees -----------------------------------------------------------------------------------------------------------


def depth_of(tree):
    if tree == "eagle":
        return 5
    return len(tree.split("x")) if tree else 0


def chain(depth):
    return "x".join(["1"] * depth)


def fork(width, depth):
    return "x".join([str(width)] + ["1"] * (depth - 1))


def nodes(tree):
    if tree == "eagle":
        return 25
    count, level = 0, 1
    for k in map(int, tree.split("x")):
        level *= k
        count += level
    return count


# --- Items and tables ------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Item:
    """A table or a figure of a paper: what makes it, or why it is not made here."""

    name: str
    paper: str
    title: str
    make: object = None  # of a Session, gives a Table
    reason: str = ""


ITEMS = {}


def item(name, paper, title):
    """Registers the function that makes a table or a figure."""

    def register(make):
        ITEMS[name] = Item(name, paper, title, make)
        return make

    return register


def not_here(name, paper, title, reason):
    """Registers one that cannot be made from the shipped models, or has no numbers, and says why."""
    ITEMS[name] = Item(name, paper, title, None, reason)


class Table:
    """Rows of cells, notes, and what the paper compares beside what is found here."""

    def __init__(self, title, columns):
        self.title, self.columns, self.rows = title, columns, []
        self.notes = []  # lines of the Markdown file, before the table
        self.claims = []

    def add(self, *cells):
        self.rows.append([str(c) for c in cells])

    def compare(self, what, paper, left, right, digits=3, otherwise=""):
        """A comparison that the paper makes, `paper` its own two numbers: here `left` and `right`, estimates. `otherwise` says
        why the sign may be another here."""
        if not left or not right:
            self.claims.append((what, f"{paper[0]} / {paper[1]}", "-", "not run: the method does not take such a tree"))
            return
        here = f"{left[0]:.{digits}f} / {right[0]:.{digits}f}"
        if len(left.values) == len(right.values):
            _, low, high = difference(left, right)
        else:
            low, high = left[1] - right[2], left[2] - right[1]
        if low <= 0 <= high:
            verdict = "no difference found"
        elif (left[0] - right[0]) * (paper[0] - paper[1]) > 0:
            verdict = "same sign"
        else:
            verdict = "other sign" + (f": {otherwise}" if otherwise else "")
        self.claims.append((what, f"{paper[0]} / {paper[1]}", here, verdict))

    def verdicts(self):
        """How many comparisons ended how."""
        counts = {}
        for claim in self.claims:
            verdict = claim[3].split(":")[0]
            counts[verdict] = counts.get(verdict, 0) + 1
        return counts

    def write(self, out, name):
        """Writes NAME.csv; returns the table and its comparisons as Markdown."""
        with (out / f"{name}.csv").open("w", newline="") as f:
            writer = csv.writer(f)
            writer.writerow(self.columns)
            writer.writerows([cell.strip("*") for cell in row] for row in self.rows)
        lines = [f"## {self.title}", "", *self.notes, *([""] if self.notes else []),
                 "| " + " | ".join(self.columns) + " |", "|" + "---|" * len(self.columns)]
        lines += ["| " + " | ".join(row) + " |" for row in self.rows]
        if self.claims:
            lines += ["", "| the paper compares | the paper's numbers | here | |", "|---|---|---|---|"]
            lines += ["| " + " | ".join(claim) + " |" for claim in self.claims]
        return "\n".join(lines) + "\n"


class Session:
    """Runs jobs for items; in a dry run counts them."""

    def __init__(self, run, options, out):
        self.run, self.options, self.out = run, options, out
        self.pending = None  # when listing, jobs are only counted
        self.name = ""
        self.done = 0
        self.total = 0
        self.errors = {}

    def runs(self, method, tree, temperature, kinds=KINDS, first=3, **more):
        """The runs of a method over the prompts of some kinds of text; [] when the method cannot be run so."""
        found = []
        for kind in kinds:
            job = {"method": method, "tree": tree, "temperature": temperature, "kind": kind, "first": first,
                   "prompts": self.options.prompts, "tokens": self.options.tokens, **more}
            result = self.ask(job)
            if "error" in result:
                self.errors[f"{method} {tree}"] = result["error"].splitlines()[0]
                return []
            found += result["runs"]
        return found

    def rates(self, counts, temperature, kinds=KINDS, **more):
        """{n: {name: a mean a text}} of exact rates and bounds, all of the same rows."""
        found = {n: {} for n in counts}
        for kind in kinds:
            result = self.ask({"rates": list(counts), "temperature": temperature, "kind": kind,
                               "prompts": self.options.prompts, "generated": self.options.tokens, **more})
            for n in counts:
                for name, values in result.get("rates", {}).get(str(n), {}).items():
                    found[n].setdefault(name, []).extend(values)
        return found

    def steps(self, methods, tree, temperature):
        """By method, the mean accepted tokens of a step over the positions of one text, a number a prompt; the texts are the
        same for all methods, trees and seeds. {} where a method cannot be run so."""
        found = {method: [] for method in methods}
        for kind in KINDS:
            for prompt in range(self.options.prompts):
                result = self.ask({"steps": self.options.seeds, "methods": list(methods), "tree": tree,
                                   "temperature": temperature, "kind": kind, "first": 3 + prompt,
                                   "tokens": self.options.tokens})
                if "error" in result:
                    self.errors[f"steps {tree}"] = result["error"].splitlines()[0]
                    return {}
                for method, accepted in zip(methods, result["accepted"]):
                    found[method].append(mean(accepted) / self.options.seeds)
        return found

    def ask(self, job):
        if self.pending is not None:
            self.pending.add(Runner.key(job))
            if "rates" in job:
                names = ("bound/iid", "bound/sequential", "bound/conditional_poisson", "bound/top_then_one",
                         "greedy_optimal/top_then_one", "recursive_rejection/iid", "recursive_rejection/sequential",
                         "naive/iid", "naive/sequential", "naive/deterministic", "k_seq/iid", "ranked/iid",
                         "ranked/stratified")
                return {"rates": {str(n): {name: [0.5] for name in names} for n in job["rates"]}}
            if "bernoulli" in job:
                cells = len(job["bernoulli"]) * len(job["targets"])
                return {"rates": {n: [0.5] * cells for n in ("multi_round", "k_seq", "otm", "recursive_rejection")}}
            return {"accepted": [[0]] * len(job.get("methods", ())),
                    "runs": [dict(tokens=1, target_calls=1, accepted=0, drafted=0, draft_calls=0, tried_at_depth=[1],
                                  accepted_at_depth=[0], seconds=1.0, plain_tokens=1, plain_seconds=1.0, nll=1.0,
                                  next_right=0, won_by_start=[0], accepted_by_start=[0], accepted_at_rank=[0])]}
        return self.run(job)

    def count(self, job):
        """Shows that one more job was run; those of an earlier run are not counted."""
        self.done += 1
        if sys.stderr.isatty() or self.done % 50 == 0:
            print(f"{self.done}/{self.total} {self.name} {job.get('method', '')} {job.get('tree', '')}", file=sys.stderr,
                  end="\r\033[K" if sys.stderr.isatty() else "\n", flush=True)

    def plot(self, title, x_label, y_label, series, log_x=False, suffix=""):
        if self.pending is not None:
            return
        try:
            import matplotlib
            matplotlib.use("svg")
            matplotlib.rcParams["svg.hashsalt"] = "multidraft"
            import matplotlib.pyplot as plt
        except ImportError:
            return
        figure, axes = plt.subplots(figsize=(6.5, 4.2))
        for label, points in series.items():
            points = [p for p in points if p is not None and p[1] is not None]
            if points:
                x, y = zip(*[(a, b[0] if isinstance(b, tuple) else b) for a, b in points])
                own = label.startswith(("ranked", "nested"))
                bound = label.startswith("bound")
                axes.plot(x, y, marker="" if bound else "o", markersize=3.5, linewidth=2.2 if own else 1.2,
                          linestyle="--" if bound else "-", label=label)
        axes.set(title=title, xlabel=x_label, ylabel=y_label)
        if log_x:
            axes.set_xscale("log", base=2)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
        figure.tight_layout()
        out = self.out if self.name == SHOWN else PICTURES
        out.mkdir(parents=True, exist_ok=True)
        figure.savefig(out / f"{self.name}{suffix}.svg", metadata={"Date": None})
        plt.close(figure)

    def plan(self, name):
        """The jobs of an item and the rows of its table, without running any."""
        self.pending, self.name = set(), name
        table = ITEMS[name].make(self)
        jobs, self.pending = self.pending, None
        return jobs, len(table.rows)
