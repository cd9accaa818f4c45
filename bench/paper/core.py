"""What the tables of all papers are made with: jobs, tables, and the list of items. Statistics: estimates.py."""
import concurrent.futures
import csv
import dataclasses
import datetime
import hashlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

from paper.estimates import *
from support.chat_model import DRAFTER, MODEL_FILE, held_out_questions
from support.made_with import commit_of_sources, processor
from support.picture import pyplot, save

ROOT = Path(__file__).resolve().parent.parent.parent
SHOWN = "sweep"  # the item whose picture a document shows; the others are left in PICTURES
PICTURES = ROOT / "build" / "paper_tables"
KINDS = ("scripture", "definitions", "satire")
# The setting of all tables: prompts of each kind, tokens of a text, texts of a prompt. An interval of five texts covers
# 84 % of the time, one of three times 36 covers 94 to 95 %.
PROMPTS, TOKENS, SEEDS = 36, 128, 3
TIMED_PROMPTS = 12  # of each kind, where clocks run: the target continues each two more times
FIRST = 3  # the prompts before it are those that programs show
CHOOSING = 12  # prompts of each kind behind those of the tables, where trees and thresholds are chosen
TARGET_SIZE = 6.85  # millions of parameters
DRAFT_SIZES = {"draft": 0.59, "draft-tiny": 0.22}
DRAFTS = ("draft-tiny", "draft")
SMALLER_PAIR = {"target": "draft", "draft": "draft-tiny"}  # a third pair of sizes
AUTOREGRESSIVE = "autoregressive"
OURS = "nested_ranked_block/stratified"
ROWS_COST = ("the shipped target lies in the CPU's caches, so each further row of a call costs nearly a whole one "
             "(bench/results/padded has larger targets)")
MTAD_WARP = {"top_k": 10, "top_p": 0.9}  # MTAD, appendix F
DOLLY_WARP = {"top_p": 0.95}  # RSD 5


def origin():
    """The machine and the sources that a job runs on."""
    return {"processor": processor(), "commit": commit_of_sources()}


class Runner:
    """The program that runs jobs, started when the first job is not known yet.

    Jobs that are done are kept in a file, with the processor, the commit of the sources and the day, so that an interrupted
    run goes on. A file with jobs of another processor or of other sources is refused: no table mixes them."""

    def __init__(self, store, fresh, own=None):
        self.store = store
        self.own = own or origin()
        self.known = {}
        self.process = self.program = None
        self.lock = threading.Lock()
        self.on_new = lambda job: None  # called after a job that was not known
        if store.exists() and not fresh:
            for line in store.read_text().splitlines():
                try:
                    entry = json.loads(line)
                except json.JSONDecodeError:
                    continue  # cut off by an interruption
                self.check(entry.get("made_with", {}))
                self.known[entry["key"]] = entry
        elif store.exists():
            store.unlink()

    def check(self, made_with):
        for what, own in self.own.items():
            if made_with.get(what) != own:
                sys.exit(f"paper_tables: {self.store} has jobs of another {what} ({made_with.get(what, 'not recorded')}; here: {own}); "
                         "--fresh forgets them")

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
        return [build / "bench" / "multidraft_paper_runs"]

    def launch(self):
        """The program, built once."""
        if self.program is None:
            self.program = self.start()
        return subprocess.Popen(self.program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, process, job):
        """Runs a job in a process of the program, and keeps its result."""
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            sys.exit("paper_tables: the program that runs the methods has ended")
        entry = {"key": self.key(job), "job": job, "made_with": {**self.own, "date": datetime.date.today().isoformat()},
                 "result": json.loads(line)}
        with self.lock:
            if "error" not in entry["result"]:
                self.store.parent.mkdir(parents=True, exist_ok=True)
                with self.store.open("a") as out:
                    out.write(json.dumps(entry) + "\n")
            self.known[entry["key"]] = entry
            self.on_new(job)

    def ahead(self, jobs, processes):
        """Runs those jobs of counts that are not known, several at once; those with clocks are left for later."""
        todo = [job for job in jobs if not job.get("timed") and self.key(job) not in self.known]
        if not todo:
            return
        own = threading.local()
        started = []

        def prepare():
            own.process = self.launch()
            started.append(own.process)

        self.launch().communicate("")  # builds it, and shows that it starts
        with concurrent.futures.ThreadPoolExecutor(min(processes, len(todo)), initializer=prepare) as pool:
            for done in [pool.submit(lambda job: self.run(own.process, job), job) for job in todo]:
                done.result()
        for process in started:
            process.communicate("")

    def __call__(self, job):
        """The result of a job and what it was made with."""
        key = self.key(job)
        if key not in self.known:
            if self.process is None:
                self.process = self.launch()
            self.run(self.process, job)
        return self.known[key]["result"], self.known[key]["made_with"]


def joined(made_with):
    """What a table was made with, from that of its jobs; an error where they are of several machines or sources."""
    found = {}
    for what in ("processor", "commit"):
        values = sorted({one[what] for one in made_with})
        if len(values) > 1:
            sys.exit(f"paper_tables: a table of two {what}s: {' and '.join(values)}")
        found[what] = values[0] if values else origin()[what]
    dates = sorted({one["date"] for one in made_with}) or [datetime.date.today().isoformat()]
    return {**found, "date": dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"}


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

    @property
    def of_chat(self):
        """Whether it is made on the chat model, by a ChatSession, and not on the shipped models."""
        return self.name.startswith("chat.")


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


RATES = ("bound/iid", "bound/sequential", "bound/conditional_poisson", "bound/top_then_one", "bound/stratified",
         "greedy_optimal/top_then_one", "recursive_rejection/iid", "recursive_rejection/sequential", "naive/iid",
         "naive/sequential", "naive/deterministic", "k_seq/iid", "ranked/iid", "ranked/stratified")
# What a run has, for a dry run.
EXAMPLE = dict(tokens=1, target_calls=1, whole=dict(tokens=1, target_calls=1, draft_calls=0, drafted=0, accepted=0),
               tried_at_depth=[1], accepted_at_depth=[0], won_by_start=[0], accepted_by_start=[0], accepted_at_rank=[0], nll=1.0,
               next_known=1, next_right=0, text="a", reference="a", seconds=1.0, plain_tokens=1, plain_seconds=1.0)


class Table:
    """Rows of cells, notes, and what the paper compares or concludes beside what is found here."""

    def __init__(self, title, columns):
        self.title, self.columns, self.rows = title, columns, []
        self.notes = []  # lines of the Markdown file, before the table
        self.comparisons = []

    def add(self, *cells):
        self.rows.append([str(c) for c in cells])

    def compare(self, what, paper, left, right, digits=3, otherwise="", group="", by_mathematics=False):
        """A comparison that the paper makes, `paper` its own two numbers (1 and 0 where it has a picture or a sentence only, the
        first the higher one): here `left` and `right`, estimates of the same texts. `otherwise` says why the sign may be another
        here. `group` is the setting, where a table has several. `by_mathematics`: it cannot be otherwise, and does not count."""
        one = {"what": what, "paper": list(paper), "here": None, "p": None, "group": group, "otherwise": otherwise,
               "by_mathematics": by_mathematics}
        if left and right:
            found = difference(left, right)
            one |= {"here": [round(left.value, digits), round(right.value, digits)], "difference": round(found.value, digits + 1),
                    "low": round(found.low, digits + 1), "high": round(found.high, digits + 1), "p": found.p}
        self.comparisons.append(one)

    def as_json(self):
        return {"title": self.title, "columns": self.columns, "rows": self.rows, "notes": self.notes,
                "comparisons": self.comparisons}

    def write(self, out, name, made_with):
        """Writes NAME.csv and NAME.json, which README.md is made from."""
        with (out / f"{name}.csv").open("w", newline="") as f:
            writer = csv.writer(f)
            writer.writerow(self.columns)
            writer.writerows([cell.strip("*") for cell in row] for row in self.rows)
        (out / f"{name}.json").write_text(json.dumps({"made_with": made_with, **self.as_json()}, indent=1) + "\n")


def counts_of(verdicts):
    """How many comparisons ended how."""
    counts = {}
    for verdict in verdicts:
        counts[verdict] = counts.get(verdict, 0) + 1
    return counts


class Session:
    """Runs jobs for items; in a dry run counts them."""

    def __init__(self, run, options, out):
        self.run, self.options, self.out = run, options, out
        self.pending = None  # when listing, jobs are only counted
        self.name = ""
        self.done = 0
        self.total = 0
        self.errors = {}
        self.used = []  # what the jobs of the item were made with

    def runs(self, method, tree, temperature, kinds=KINDS, first=FIRST, prompts=None, seeds=None, **more):
        """The texts of a method after the prompts of some kinds of text, `seeds` of each; [] when the method cannot be run so.
        No clock: for speeds see `timed`."""
        found = []
        prompts = self.options.prompts if prompts is None else prompts
        for kind in kinds:
            for seed in range(self.options.seeds if seeds is None else seeds):
                result = self.ask({"method": method, "tree": tree, "temperature": temperature, "kind": kind, "first": first,
                                   "prompts": prompts, "tokens": self.options.tokens, "request": seed, **more})
                if "error" in result:
                    self.errors[f"{method} {tree}"] = result["error"].splitlines()[0]
                    return []
                found += [flat(kind, first + k, run) for k, run in enumerate(result["runs"])]
        return found

    def timed(self, method, tree, temperature, kinds=KINDS, **more):
        """The same with clocks, a text of each prompt: the target alone continues it just before and after."""
        return self.runs(method, tree, temperature, kinds, prompts=min(self.options.prompts, self.options.timed_prompts), seeds=1,
                         timed=True, **more)

    def choosing(self, method, tree, temperature, kinds=KINDS, **more):
        """Texts of other prompts, for the choice of a tree or a threshold."""
        return self.runs(method, tree, temperature, kinds, FIRST + self.options.prompts, CHOOSING, 1, **more)

    def rates(self, counts, temperature, kinds=KINDS, **more):
        """{n: {name: a mean a text}} of rates and bounds, all of the same rows."""
        found = {n: {} for n in counts}
        for kind in kinds:
            result = self.ask({"rates": list(counts), "temperature": temperature, "kind": kind, "first": FIRST,
                               "prompts": self.options.prompts, "generated": self.options.tokens, **more})
            for n in counts:
                for name, values in result.get("rates", {}).get(str(n), {}).items():
                    found[n].setdefault(name, []).extend(value_of(kind, FIRST + k, v) for k, v in enumerate(values))
        return found

    def steps(self, methods, tree, temperature):
        """By method, the mean accepted tokens of a step over the positions of one text, a number a prompt; the texts are the
        same for all methods, trees and seeds. {} where a method cannot be run so."""
        found = {method: [] for method in methods}
        for kind in KINDS:
            for prompt in range(self.options.prompts):
                result = self.ask({"steps": self.options.seeds, "methods": list(methods), "tree": tree,
                                   "temperature": temperature, "kind": kind, "first": FIRST + prompt,
                                   "tokens": self.options.tokens})
                if "error" in result:
                    self.errors[f"steps {tree}"] = result["error"].splitlines()[0]
                    return {}
                for method, accepted in zip(methods, result["accepted"]):
                    found[method].append(value_of(kind, prompt, sum(accepted) / len(accepted) / self.options.seeds))
        return found

    def ask(self, job):
        if self.pending is None:
            result, made_with = self.run(job)
            self.used.append(made_with)
            return result
        self.pending[Runner.key(job)] = job
        if "rates" in job:
            return {"rates": {str(n): {name: [0.5] * len(job.get("questions", "1")) for name in RATES} for n in job["rates"]}}
        if "bernoulli" in job:
            cells = len(job["bernoulli"]) * len(job["targets"])
            return {"rates": {n: [0.5] * cells for n in ("multi_round", "k_seq", "otm", "recursive_rejection")}}
        return {"accepted": [[0]] * len(job.get("methods", ())), "runs": [EXAMPLE]}

    def make(self, name):
        """The table of an item, and what it was made with."""
        self.name, self.used = name, []
        table = ITEMS[name].make(self)
        return table, {**joined(self.used), **self.setting()}

    def setting(self):
        """What of the options its tables depend on."""
        return {name: getattr(self.options, name) for name in ("prompts", "timed_prompts", "tokens", "seeds")}

    def count(self, job):
        """Shows that one more job was run; those of an earlier run are not counted."""
        self.done += 1
        if sys.stderr.isatty() or self.done % 50 == 0:
            print(f"{self.done}/{self.total} {self.name} {job.get('method', '')} {job.get('tree', '')}", file=sys.stderr,
                  end="\r\033[K" if sys.stderr.isatty() else "\n", flush=True)

    def plot(self, title, x_label, y_label, series, log_x=False, suffix=""):
        if self.pending is not None:
            return
        plt = pyplot()
        if plt is None:
            return
        figure, axes = plt.subplots(figsize=(6.5, 4.2))
        for label, points in series.items():
            points = [p for p in points if p is not None and p[1] is not None]
            if points:
                x, y = zip(*[(a, b.value if isinstance(b, Estimate) else b) for a, b in points])
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
        save(figure, out / f"{self.name}{suffix}.svg")

    def plan(self, name):
        """The jobs of an item by key, and the rows of its table, without running any. Of what is chosen by results, the first."""
        self.pending, self.name = {}, name
        with planning():
            table = ITEMS[name].make(self)
        jobs, self.pending = self.pending, None
        return jobs, len(table.rows)


class ChatSession(Session):
    """The same of a chat model and its block drafter: rates alone, along answers to questions that no drafter was trained on."""

    def rates(self, counts, temperature):
        found = {n: {} for n in counts}
        for kind, questions in held_out_questions(self.options.prompts).items():
            result = self.ask({"rates": list(counts), "temperature": temperature, "questions": questions, "generated": self.options.tokens,
                               "target": str(MODEL_FILE), "draft": str(DRAFTER)})
            if "error" in result:
                sys.exit(f"paper_tables: {result['error']}")
            for n in counts:
                for name, values in result["rates"][str(n)].items():
                    found[n].setdefault(name, []).extend(value_of(kind, k, v) for k, v in enumerate(values))
        return found

    def setting(self):
        return {"questions": sum(map(len, held_out_questions(self.options.prompts).values())), "tokens": self.options.tokens}
