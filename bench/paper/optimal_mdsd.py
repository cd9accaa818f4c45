"""Towards Optimal Multi-draft Speculative Decoding (Hu et al. 2025)."""
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
    ("stratified (ours)", "ranked (ours)", "ranked/stratified", "ranked/stratified"),
)


@item("optimal_mdsd.table_1", PAPER, "acceptance rates at one node and their bounds, by text and draft; 3 drafts, temperature 0.7")
def table_1(s):
    table = Table("Acceptance rates of one node and their bounds (Optimal MDSD, table 1): 3 drafts, temperature 0.7",
                  ["draft model", "draft", "method", *(f"{kind} {what}" for kind in KINDS for what in ("alpha", "less alpha*"))])
    table.notes.append("Exact rates and exact bounds of the same rows: those of texts that the target generates at that "
                       "temperature. Intervals are over texts; the difference to the bound is of the same texts. Of K-SEQ the "
                       "measured rate and alpha^K-SEQ are one number here, the exact one. \"The paper's formula\" (4.2.2) is the "
                       "bound of draws given that they are different, not of draws one after another (docs/errata.md).")
    found = {}
    for draft in DRAFTS:
        by_kind = {kind: s.rates((3,), 0.7, (kind,), draft=draft)[3] for kind in KINDS}
        for law, method, name, bound in ROWS:
            cells = []
            for kind in KINDS:
                values, bounds = by_kind[kind].get(name), by_kind[kind].get(bound)
                if not values:
                    cells += ["-", "-"]
                    continue
                found[draft, kind, name] = interval(values, mean)
                cells += [shown(found[draft, kind, name]),
                          "" if name == bound else shown(interval([a - b for a, b in zip(values, bounds)], mean))]
            table.add(draft, law, method, *cells)
    pick = lambda name: found.get(("draft", "definitions", name))
    table.compare("with replacement: K-SEQ against RRS (LLaMA, Alpaca)", (71.9, 71.6), pick("k_seq/iid"), pick("recursive_rejection/iid"))
    table.compare("with replacement: alpha* against K-SEQ", (73.0, 71.9), pick("bound/iid"), pick("k_seq/iid"))
    table.compare("RRS without against with replacement", (75.7, 71.6), pick("recursive_rejection/sequential"), pick("recursive_rejection/iid"))
    table.compare("without replacement: alpha* against RRS", (76.5, 75.7), pick("bound/sequential"), pick("recursive_rejection/sequential"))
    table.compare("greedy against alpha* without replacement", (78.4, 76.5), pick("greedy_optimal/top_then_one"), pick("bound/sequential"),
                  otherwise="certain tokens are better at low temperatures only: here the two cross between 0.1 and 0.2 (figure 1)")
    return table


CURVES = ("bound/iid", "recursive_rejection/iid", "k_seq/iid", "bound/sequential", "recursive_rejection/sequential",
          "greedy_optimal/top_then_one", "naive/iid", "naive/deterministic", "ranked/stratified")


def curves(s, table, label, points, x_label, title):
    series = {}
    for x, n, temperature in points:
        values = s.rates((n,), temperature)[n]
        table.add(x, *(shown(interval(values[name], mean)) if values.get(name) else "-" for name in CURVES))
        for name in CURVES:
            if values.get(name):
                series.setdefault(name, []).append((x, mean(values[name])))
    s.plot(title, x_label, "acceptance rate", series)
    return table


@item("optimal_mdsd.figure_1", PAPER, "acceptance rate of one node by temperature, 3 drafts")
def figure_1(s):
    table = Table("Acceptance rate by temperature, 3 drafts (Optimal MDSD, figure 1)", ["temperature", *(f"`{c}`" for c in CURVES)])
    return curves(s, table, "temperature", [(t, 3, t) for t in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2)],
                  "temperature", "Acceptance of one node, 3 drafts")


@item("optimal_mdsd.figure_2", PAPER, "acceptance rate of one node by the number of drafts, temperature 0.7")
def figure_2(s):
    table = Table("Acceptance rate by the number of drafts, temperature 0.7 (Optimal MDSD, figure 2)",
                  ["drafts", *(f"`{c}`" for c in CURVES)])
    return curves(s, table, "drafts", [(n, n, 0.7) for n in range(1, 9)], "drafts", "Acceptance of one node, temperature 0.7")


TREES = (("2 drafts, 4 steps", "2x2x2x2"), ("4 drafts, 3 steps", "4x4x4"), ("EAGLE's default sparse tree", "eagle"))
METHODS = (("RRS w/ replacement", "recursive_rejection/iid"), ("RRS w/o replacement", "recursive_rejection/sequential"),
           ("SpecHub", "spec_hub/top_paired"), ("Greedy", "greedy_optimal/top_then_one"), ("ours", OURS))


def in_trees(s, table, column):
    """Rows of methods, columns of trees; `column` gives the cells of one from its runs and those of the first method."""
    for temperature in (0.1, 0.6, 1.0):
        first = {}
        for label, method in METHODS:
            cells = []
            for _, tree in TREES:
                runs = [] if method.startswith("spec_hub") and tree != "2x2x2x2" else s.runs(method, tree, temperature)
                if not runs:
                    cells += ["-", "-"]
                    continue
                cells += column(runs, first.setdefault(tree, runs))
            table.add(temperature, label, f"`{method}`", *cells)
    return table


@item("optimal_mdsd.table_2", PAPER, "acceptance and speed in trees of 2x4, 4x3 and EAGLE's sparse tree, temperatures 0.1, 0.6, 1")
def table_2(s):
    table = Table("Acceptance and speed in trees (Optimal MDSD, table 2)",
                  ["temperature", "", "method", *(f"{name}: {what}" for name, _ in TREES for what in ("alpha", "speed"))])
    table.notes.append("alpha: how often a node with children had one accepted. Speed: the speed-up over that of the first row of "
                       "the temperature.")
    return in_trees(s, table, lambda runs, base: [shown(interval(runs, acceptance)), f"{speed_up(runs) / speed_up(base):.2f}x"])


@item("optimal_mdsd.table_3", PAPER, "tokens a step in the same trees")
def table_3(s):
    table = Table("Tokens a step in trees (Optimal MDSD, table 3)",
                  ["temperature", "", "method", *(f"{name}: {what}" for name, _ in TREES for what in ("tau", "ratio"))])
    return in_trees(s, table, lambda runs, base: [shown(interval(runs, block_efficiency)),
                                                  f"{block_efficiency(runs) / block_efficiency(base):.2f}x"])


not_here("optimal_mdsd.figure_3", PAPER, "a diagram of directions of research", "it has no numbers")
