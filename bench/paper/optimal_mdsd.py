"""Towards Optimal Multi-draft Speculative Decoding (Hu et al. 2025)."""
import math

from paper.core import *

PAPER = "Optimal MDSD"
ROWS = (  # the draft, the row of the table, the name of the rate, of its bound
    ("with replacement", "RRS", "recursive_rejection/iid", "bound/iid"),
    ("with replacement", "K-SEQ", "k_seq/iid", "bound/iid"),
    ("with replacement", "ranked (ours)", "ranked/iid", "bound/iid"),
    ("with replacement", "alpha*", "bound/iid", "bound/iid"),
    ("without replacement", "RRS", "recursive_rejection/sequential", "bound/sequential"),
    ("without replacement", "alpha*", "bound/sequential", "bound/sequential"),
    ("without replacement", "the paper's formula", "bound/conditional_poisson", "bound/sequential"),
    ("greedy", "Verify", "greedy_optimal/top_then_one", "bound/top_then_one"),
    ("greedy", "alpha*", "bound/top_then_one", "bound/top_then_one"),
    ("stratified (ours)", "ranked (ours)", "ranked/stratified", "bound/stratified"),
    ("stratified (ours)", "alpha*", "bound/stratified", "bound/stratified"),
)


@item("optimal_mdsd.table_1", PAPER, "acceptance rates at one node and their bounds, by text and draft; 3 drafts, temperature 0.7")
def table_1(s):
    table = Table("Acceptance rates of one node and their bounds (Optimal MDSD, table 1): 3 drafts, temperature 0.7",
                  ["draft model", "draft", "method", *(f"{kind} {what}" for kind in KINDS for what in ("alpha", "less alpha*"))])
    table.notes.append("Rates and exact bounds of the same rows: those of texts that the target generates at that temperature. The "
                       "rates of Verify and ranked are measured, the part of 32 trials at each row that accepted a draft; the others are "
                       "exact. Of K-SEQ the measured rate and alpha^K-SEQ are one number here. \"The paper's formula\" (4.2.2) is the "
                       "bound of draws given that they are different, not of draws one after another (docs/errata.md).")
    for draft in DRAFTS:
        by_kind = {kind: s.rates((3,), 0.7, (kind,), draft=draft)[3] for kind in KINDS}
        for law, method, name, bound in ROWS:
            cells = []
            for kind in KINDS:
                values, bounds_of = by_kind[kind].get(name), by_kind[kind].get(bound)
                if not values:
                    cells += ["-", "-"]
                    continue
                less = [{**a, "value": a["value"] - b["value"]} for a, b in zip(values, bounds_of)]
                cells += [shown(estimate(values, mean)), "" if name == bound else shown(estimate(less, mean))]
            table.add(draft, law, method, *cells)
        for kind in KINDS:
            of = lambda name: estimate(by_kind[kind].get(name), mean)
            both = f"{draft}, {kind}: "
            table.compare(f"{both}with replacement, K-SEQ against RRS (LLaMA, Alpaca)", (71.9, 71.6), of("k_seq/iid"), of("recursive_rejection/iid"))
            table.compare(f"{both}with replacement, alpha* against K-SEQ", (73.0, 71.9), of("bound/iid"), of("k_seq/iid"), by_mathematics=True)
            table.compare(f"{both}RRS without against with replacement", (75.7, 71.6), of("recursive_rejection/sequential"),
                          of("recursive_rejection/iid"))
            table.compare(f"{both}without replacement, alpha* against RRS", (76.5, 75.7), of("bound/sequential"),
                          of("recursive_rejection/sequential"), by_mathematics=True)
            table.compare(f"{both}greedy against alpha* without replacement", (78.4, 76.5), of("greedy_optimal/top_then_one"),
                          of("bound/sequential"),
                          otherwise="certain tokens are better at low temperatures only: see where the two cross in figure 1")
            # K-SEQ accepts at least 1 - (1 - 1/n)^n > 1 - 1/e of its bound (A.2).
            table.compare(f"{both}K-SEQ above 1 - 1/e of alpha* (A.2)", (1, 0), of("k_seq/iid"),
                          estimate([{**b, "value": (1 - math.exp(-1)) * b["value"]} for b in by_kind[kind]["bound/iid"]], mean), by_mathematics=True)
    return table


CURVES = ("bound/iid", "recursive_rejection/iid", "k_seq/iid", "bound/sequential", "recursive_rejection/sequential",
          "greedy_optimal/top_then_one", "naive/iid", "naive/deterministic", "ranked/stratified")


def curves(s, table, points, x_label, title):
    """The rates at each point, and a function of a name and a point that gives the texts' values."""
    series, found = {}, {}
    for x, n, temperature in points:
        found[x] = s.rates((n,), temperature)[n]
        table.add(x, *(shown(estimate(found[x][name], mean)) if found[x].get(name) else "-" for name in CURVES))
        for name in CURVES:
            if found[x].get(name):
                series.setdefault(name, []).append((x, estimate(found[x][name], mean)))
    s.plot(title, x_label, "acceptance rate", series)
    return lambda name, x: found[x][name]


def gap(high, low):
    """The difference of two rates of the same texts, as values of the texts."""
    return estimate([{**a, "value": a["value"] - b["value"]} for a, b in zip(high, low)], mean)


def compare_at_temperatures(table, of):
    """The three observations of 6.2."""
    for name, bound in (("recursive_rejection/iid", "bound/iid"), ("k_seq/iid", "bound/iid"), ("recursive_rejection/sequential", "bound/sequential")):
        table.compare(f"alpha* less {name}: larger at temperature 1 than at 0.3", (1, 0), gap(of(bound, 1.0), of(name, 1.0)),
                      gap(of(bound, 0.3), of(name, 0.3)), 4)
    table.compare("without less with replacement, alpha*: smaller at temperature 1 than at 0.3", (0, 1),
                  gap(of("bound/sequential", 1.0), of("bound/iid", 1.0)), gap(of("bound/sequential", 0.3), of("bound/iid", 0.3)), 4)
    for t, paper in ((0.1, (1, 0)), (1.0, (0, 1))):
        table.compare(f"greedy against alpha* without replacement at temperature {t}", paper, estimate(of("greedy_optimal/top_then_one", t), mean),
                      estimate(of("bound/sequential", t), mean))


def compare_by_count(table, of):
    """The three observations of 6.3."""
    table.compare("more drafts accept more, alpha* with replacement: 8 against 2", (1, 0), estimate(of("bound/iid", 8), mean),
                  estimate(of("bound/iid", 2), mean), by_mathematics=True)
    table.compare("K-SEQ: 8 against 2", (1, 0), estimate(of("k_seq/iid", 8), mean), estimate(of("k_seq/iid", 2), mean))
    table.compare("from 2 to 8 drafts alpha* gains more without replacement than with", (1, 0),
                  gap(of("bound/sequential", 8), of("bound/sequential", 2)), gap(of("bound/iid", 8), of("bound/iid", 2)))
    for name, bound in (("recursive_rejection/iid", "bound/iid"), ("k_seq/iid", "bound/iid"), ("recursive_rejection/sequential", "bound/sequential")):
        table.compare(f"alpha* less {name}: larger with 8 drafts than with 2", (1, 0), gap(of(bound, 8), of(name, 8)), gap(of(bound, 2), of(name, 2)), 4)


@item("optimal_mdsd.figure_1", PAPER, "acceptance rate of one node by temperature, 3 drafts")
def figure_1(s):
    table = Table("Acceptance rate by temperature, 3 drafts (Optimal MDSD, figure 1)", ["temperature", *(f"`{c}`" for c in CURVES)])
    of = curves(s, table, [(t, 3, t) for t in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2)], "temperature",
                "Acceptance of one node, 3 drafts")
    compare_at_temperatures(table, of)
    return table


@item("optimal_mdsd.figure_2", PAPER, "acceptance rate of one node by the number of drafts, temperature 0.7")
def figure_2(s):
    table = Table("Acceptance rate by the number of drafts, temperature 0.7 (Optimal MDSD, figure 2)",
                  ["drafts", *(f"`{c}`" for c in CURVES)])
    of = curves(s, table, [(n, n, 0.7) for n in range(1, 9)], "drafts", "Acceptance of one node, temperature 0.7")
    compare_by_count(table, of)
    return table


TREES = (("2 drafts, 4 steps", "2x2x2x2"), ("4 drafts, 3 steps", "4x4x4"), ("EAGLE's default sparse tree", "eagle"))
METHODS = (("RRS w/ replacement", "recursive_rejection/iid"), ("RRS w/o replacement", "recursive_rejection/sequential"),
           ("SpecHub", "spec_hub/top_paired"), ("Greedy", "greedy_optimal/top_then_one"), ("ours", OURS))
# Greedy against recursive rejection without replacement, alpha of table 2 and tau of table 3.
ALPHA = {0.1: {"2x2x2x2": (84.7, 79.4), "4x4x4": (88.8, 80.4), "eagle": (79.1, 76.8)},
         0.6: {"2x2x2x2": (82.8, 82.4), "4x4x4": (90.0, 88.6), "eagle": (78.3, 77.6)},
         1.0: {"2x2x2x2": (79.2, 76.4), "4x4x4": (87.8, 85.3), "eagle": (72.9, 74.1)}}
TAU = {0.1: {"2x2x2x2": (3.62, 3.27), "4x4x4": (3.39, 2.96), "eagle": (3.70, 3.42)},
       0.6: {"2x2x2x2": (3.52, 3.52), "4x4x4": (3.45, 3.39), "eagle": (3.66, 3.71)},
       1.0: {"2x2x2x2": (3.33, 3.22), "4x4x4": (3.34, 3.25), "eagle": (3.33, 3.43)}}


def in_trees(s, table, statistic, ratio, paper):
    """Rows of methods, columns of trees: a statistic of the runs, and `ratio` of them and those of the first method."""
    for temperature in (0.1, 0.6, 1.0):
        first, found = {}, {}
        for label, method in METHODS:
            cells = []
            for _, tree in TREES:
                runs = [] if method.startswith("spec_hub") and tree != "2x2x2x2" else s.runs(method, tree, temperature)
                if not runs:
                    cells += ["-", "-"]
                    continue
                found[label, tree] = estimate(runs, statistic)
                cells += [shown(found[label, tree]), ratio(method, tree, temperature, found[label, tree], first)]
            table.add(temperature, label, f"`{method}`", *cells)
        for name, tree in TREES:
            table.compare(f"temperature {temperature:g}, {name}: greedy against RRS without replacement", paper[temperature][tree],
                          found.get(("Greedy", tree)), found.get(("RRS w/o replacement", tree)))
            if tree == "2x2x2x2":
                table.compare(f"temperature {temperature:g}, {name}: greedy as SpecHub (5.3)", (1, 1), found.get(("Greedy", tree)),
                              found.get(("SpecHub", tree)))
    return table


@item("optimal_mdsd.table_2", PAPER, "acceptance and speed in trees of 2x4, 4x3 and EAGLE's sparse tree, temperatures 0.1, 0.6, 1")
def table_2(s):
    table = Table("Acceptance and speed in trees (Optimal MDSD, table 2)",
                  ["temperature", "", "method", *(f"{name}: {what}" for name, _ in TREES for what in ("alpha", "speed"))])
    table.notes.append("alpha: how often a node with children had one accepted. Speed: the speed-up over that of the first row of "
                       "the temperature.")

    def speed(method, tree, temperature, _, first):
        own = estimate(s.timed(method, tree, temperature), speed_up)
        base = first.setdefault(tree, own)
        return f"{own.value / base.value:.2f}x"

    return in_trees(s, table, acceptance, speed, ALPHA)


@item("optimal_mdsd.table_3", PAPER, "tokens a step in the same trees")
def table_3(s):
    table = Table("Tokens a step in trees (Optimal MDSD, table 3)",
                  ["temperature", "", "method", *(f"{name}: {what}" for name, _ in TREES for what in ("tau", "ratio"))])
    return in_trees(s, table, block_efficiency, lambda method, tree, temperature, own, first:
                    f"{own.value / first.setdefault(tree, own).value:.2f}x", TAU)


not_here("optimal_mdsd.figure_3", PAPER, "a diagram of directions of research", "it has no numbers")
