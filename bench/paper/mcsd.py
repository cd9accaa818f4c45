"""Multi-Candidate Speculative Decoding (Yang et al. 2024)."""
from paper.core import *

PAPER = "MCSD"
SD = "speculative_sampling/iid"
WITH, WITHOUT, NAIVE = "recursive_rejection/iid", "recursive_rejection/sequential", "naive/iid"
# At temperature 0 drawing without replacement gives the draft's likeliest, and recursive rejection is naive verification.
GREEDY = {"draft_temperature": 0.0}
COUNTS = (1, 2, 4, 8, 16, 32)
CHAINS = tuple(chain(n) for n in (1, 2, 3, 4, 5, 7, 10))
# Configurations of K up to 32 with factors of 1, 2, 4, .. 32 (4.3): all that the paper found best, and some beside.
CONFIGURATIONS = ("2x1x1x1", "2x2x1x1", "4x1x1x1", "4x2x1x1", "4x2x2x1", "4x2x2x1x1", "4x4x2", "8x1x1", "8x2x1", "8x2x1x1",
                  "8x2x2", "16x1x1", "16x2", "32")


def run_of(s, method, tree, temperature, **more):
    """MCSD's own method is another name at temperature 0, where its draft is the limit of the law."""
    if temperature == 0 and method == WITHOUT:
        return s.runs("naive/deterministic", tree, temperature, **GREEDY, **more)
    return s.runs(method, tree, temperature, **(GREEDY if temperature == 0 else {}), **more)


@item("mcsd.table_1", PAPER, "acceptance rate of one candidate, by text, draft model and temperature")
def table_1(s):
    table = Table("Acceptance rate of one candidate (MCSD, table 1)", ["draft model", "temperature", *KINDS])
    found = {}
    for draft in DRAFTS:
        for temperature in (0.0, 1.0):
            cells = []
            for kind in KINDS:
                runs = run_of(s, SD, chain(4), temperature, kinds=(kind,), draft=draft)
                found[draft, temperature, kind] = interval(runs, acceptance)
                cells.append(shown(found[draft, temperature, kind]))
            table.add(draft, temperature, *cells)
    kind = "scripture"
    table.compare("LLaMA-13B, Alpaca, 68M: temperature 0 against 1", (0.76, 0.51), found["draft-tiny", 0.0, kind], found["draft-tiny", 1.0, kind])
    table.compare("LLaMA-13B, Alpaca, temperature 1: 160M against 68M", (0.57, 0.51), found["draft", 1.0, kind], found["draft-tiny", 1.0, kind])
    return table


def curves(s, name, title, draft):
    table = Table(title, ["text", "temperature", *(f"k = {n}" for n in COUNTS)])
    table.notes.append("Exact rates of recursive rejection without replacement at the rows of texts that the target generates "
                       "(from k = 3 on estimated over the refused prefixes, with an error below 0.001).")
    series = {}
    for kind in KINDS:
        for temperature in (0.0, 1.0):
            found = s.rates(COUNTS, temperature, (kind,), draft=draft)
            cells = [found[n].get(WITHOUT) for n in COUNTS]
            table.add(kind, temperature, *(shown(interval(c, mean)) if c else "-" for c in cells))
            series[f"{kind}, T = {temperature:g}"] = [(n, mean(c)) for n, c in zip(COUNTS, cells) if c]
    s.plot(title, "k", "acceptance rate", series, log_x=True)
    return table


@item("mcsd.figure_3", PAPER, "acceptance rate by k = 1 .. 32, the smaller draft model")
def figure_3(s):
    return curves(s, "mcsd.figure_3", "Acceptance rate by k, draft-tiny (MCSD, figure 3)", "draft-tiny")


@item("mcsd.figure_5", PAPER, "acceptance rate by k = 1 .. 32, the larger draft model")
def figure_5(s):
    return curves(s, "mcsd.figure_5", "Acceptance rate by k, draft (MCSD, figure 5)", "draft")


def fastest(s, method, trees, temperature, kind, draft):
    """The tree of the largest speed-up on prompts that the table does not use."""
    best = None
    for tree in trees:
        runs = run_of(s, method, tree, temperature, kinds=(kind,), draft=draft, first=3 + s.options.prompts)
        if runs and (best is None or speed_up(runs) > best[0]):
            best = (speed_up(runs), tree)
    return best[1]


def performance(s, title, draft, claims):
    table = Table(title, ["text", "temperature", "method", "k configuration", "speed-up", "block efficiency", "acceptance rate"])
    table.notes.append("The best gamma and the best configuration are those of the largest speed-up on other prompts of the same "
                       "kind. \"same gamma\" is as deep as the best configuration.")
    for kind in KINDS:
        for temperature in (0.0, 1.0):
            table.add(kind, temperature, "baseline", "-", "1.00x", "1", "-")
            ours = fastest(s, WITHOUT, CONFIGURATIONS, temperature, kind, draft)
            rows = [("SD (same gamma)", SD, chain(depth_of(ours))),
                    ("SD (best gamma)", SD, fastest(s, SD, CHAINS, temperature, kind, draft)), ("MCSD", WITHOUT, ours),
                    (f"`{OURS}`", OURS, ours)]
            found = {}
            for label, method, tree in rows:
                runs = (run_of if method != OURS else lambda *a, **k: s.runs(*a[1:], **k))(s, method, tree, temperature,
                                                                                       kinds=(kind,), draft=draft)
                if not runs:
                    continue
                found[label] = interval(runs, speed_up), interval(runs, block_efficiency)
                table.add(kind, temperature, label, tree, f"{speed_up(runs):.2f}x", shown(found[label][1]),
                          shown(interval(runs, acceptance)))
            if kind == "scripture" and "MCSD" in found:
                tau, speed = claims[temperature]
                table.compare(f"{kind}, temperature {temperature:g}: block efficiency, MCSD against SD of the same depth", tau,
                              found["MCSD"][1], found["SD (same gamma)"][1])
                table.compare(f"{kind}, temperature {temperature:g}: speed-up, MCSD against the best SD",
                              speed, found["MCSD"][0], found["SD (best gamma)"][0], 2, otherwise=ROWS_COST)
    return table


@item("mcsd.table_2", PAPER, "SD of the same and of the best depth against the best configuration, the smaller draft model")
def table_2(s):
    return performance(s, "Methods by text, draft-tiny (MCSD, table 2)", "draft-tiny",
                       {0.0: ((3.93, 3.19), (3.06, 2.89)), 1.0: ((2.71, 1.98), (2.17, 1.73))})


@item("mcsd.table_3", PAPER, "the same with the larger draft model")
def table_3(s):
    return performance(s, "Methods by text, draft (MCSD, table 3)", "draft",
                       {0.0: ((3.87, 3.20), (2.42, 2.16)), 1.0: ((2.79, 2.05), (1.85, 1.47))})


@item("mcsd.table_4", PAPER, "verification algorithms on one tree, temperature 1")
def table_4(s):
    table = Table("Verification algorithms on the tree 8x2x1x1, temperature 1 (MCSD, table 4)",
                  ["algorithm", "method", "tree", "speed-up", "block efficiency", "acceptance rate"])
    table.notes.append("Without tree attention every path of the tree is a row of its own and what paths share is computed for each; "
                       "the copies of the cache that a batch of texts takes besides are not made here.")
    tree = "8x2x1x1"
    found = {}
    for label, method in (("MCSS w/o replacement", WITHOUT), ("MCSS w/ replacement", WITH), ("MCNS", NAIVE),
                          ("", "naive/sequential"), ("", "k_seq/iid"), ("", "greedy_optimal/top_then_one"),
                          ("", "ranked/stratified"), ("", "traversal/iid"), ("", "traversal/sequential"),
                          ("", "ranked_block/stratified"), ("ours", OURS)):
        runs = s.runs(method, tree, 1.0)
        if not runs:
            continue
        found[method] = interval(runs, block_efficiency)
        table.add(label, f"`{method}`", tree, f"{speed_up(runs):.2f}x", shown(found[method]), shown(interval(runs, acceptance)))
    runs = s.runs(WITHOUT, tree, 1.0, separate_paths=True)
    table.add("MCSS w/o replacement, no tree attention", f"`{WITHOUT}`", tree, f"{speed_up(runs):.2f}x",
              shown(interval(runs, block_efficiency)), shown(interval(runs, acceptance)))
    table.compare("speed-up with against without tree attention (LLaMA-33B)", (2.17, 1.84),
                  interval(s.runs(WITHOUT, tree, 1.0), speed_up), interval(runs, speed_up), 2)
    table.compare("block efficiency: without against with replacement (LLaMA-33B)", (2.71, 2.55), found.get(WITHOUT), found.get(WITH))
    table.compare("block efficiency: with replacement against MCNS", (2.55, 1.65), found.get(WITH), found.get(NAIVE))
    return table


@item("mcsd.figure_4", PAPER, "configurations of two levels, K = 16 and 32, increasing and decreasing")
def figure_4(s):
    table = Table("Configurations k1 x k2 (MCSD, figure 4)", ["K", "temperature", "tree", "nodes", "speed-up", "block efficiency"])
    found = {}
    for temperature in (0.0, 1.0):
        for product in (16, 32):
            points = []
            for k in (1, 2, 4, 8, 16, 32):
                if k > product:
                    continue
                tree = f"{k}x{product // k}"
                runs = run_of(s, WITHOUT, tree, temperature, draft="draft-tiny")
                found[temperature, tree] = interval(runs, block_efficiency)
                table.add(product, temperature, tree, nodes(tree), f"{speed_up(runs):.2f}x", shown(found[temperature, tree]))
                points.append((k, found[temperature, tree]))
            s.plot(f"K = {product}, temperature {temperature:g}", "k1", "block efficiency", {f"k1 x {product}/k1": points}, log_x=True,
                   suffix=f"_{product}_{temperature:g}")
    for temperature in (0.0, 1.0):
        table.compare(f"temperature {temperature:g}: 8x2 above 2x8 (monotonic configurations do better)", (1, 0), found[temperature, "8x2"], found[temperature, "2x8"])
    return table


@item("mcsd.table_7", PAPER, "acceptance rate at 1 to 4 candidates, by draft model and text")
def table_7(s):
    table = Table("alpha@1 to alpha@4 (MCSD, table 7)", ["draft model", "temperature", "text", *(f"alpha@{k}" for k in (1, 2, 3, 4))])
    table.notes.append("The shipped draft models were trained as they are: the paper's rows of fine-tuned ones have no counterpart.")
    for draft in DRAFTS:
        for temperature in (0.0, 1.0):
            for kind in KINDS:
                found = s.rates((1, 2, 3, 4), temperature, (kind,), draft=draft)
                ends = [interval(found[k][WITHOUT], mean) if found[k].get(WITHOUT) else None for k in (1, 2, 3, 4)]
                table.add(draft, temperature, kind, *(shown(e) if e else "-" for e in ends))
                if kind == "definitions":
                    table.compare(f"{draft}, temperature {temperature:g}, {kind}: alpha@4 against alpha@1", (1, 0), ends[3], ends[0])
    return table


not_here("mcsd.figure_1", PAPER, "a diagram of the method", "it has no numbers")
not_here("mcsd.figure_2", PAPER, "a diagram of tree attention", "it has no numbers")
for number, other in ((5, 2), (6, 3)):
    not_here(f"mcsd.table_{number}", PAPER, f"table {other} for target models of another size",
             f"one target model is shipped; mcsd.table_{other} is made for it")
