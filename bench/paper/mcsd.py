"""Multi-Candidate Speculative Decoding (Yang et al. 2024)."""
from paper.core import *

PAPER = "MCSD"
SD = "speculative_sampling/iid"
WITH, WITHOUT, NAIVE = "recursive_rejection/iid", "recursive_rejection/sequential", "naive/iid"
# At temperature 0 drawing without replacement gives the draft's likeliest, and recursive rejection is naive verification.
GREEDY = {"draft_temperature": 0.0}
COUNTS = (1, 2, 4, 8, 16, 32)
CHAINS = tuple(chain(n) for n in (1, 2, 3, 4, 5, 7, 10))
# Configurations of K up to 32 with factors of 1, 2, 4, .. 32 (4.3): all that the paper's tables 2 and 3 found best, and some
# beside.
CONFIGURATIONS = ("2x1x1x1", "2x2x1x1", "4x1x1x1", "4x2x1x1", "4x2x2x1", "4x2x2x1x1", "4x4x2", "8x1x1", "8x2x1", "8x2x1x1",
                  "8x2x2", "16x1x1", "16x2", "32")


def run_of(s, method, tree, temperature, run=None, **more):
    """MCSD's own method is another name at temperature 0, where its draft is the limit of the law."""
    run = run or s.runs
    if temperature == 0 and method == WITHOUT:
        return run("naive/deterministic", tree, temperature, **GREEDY, **more)
    return run(method, tree, temperature, **(GREEDY if temperature == 0 and method != OURS else {}), **more)


@item("mcsd.table_1", PAPER, "acceptance rate of one candidate, by text, draft model and temperature")
def table_1(s):
    table = Table("Acceptance rate of one candidate (MCSD, table 1)", ["draft model", "temperature", *KINDS])
    found = {}
    for draft in DRAFTS:
        for temperature in (0.0, 1.0):
            cells = []
            for kind in KINDS:
                runs = run_of(s, SD, chain(4), temperature, kinds=(kind,), draft=draft)
                found[draft, temperature, kind] = estimate(runs, acceptance)
                cells.append(shown(found[draft, temperature, kind]))
            table.add(draft, temperature, *cells)
    for kind in KINDS:
        table.compare(f"{kind}: temperature 0 against 1 (LLaMA-13B, Alpaca, 68M)", (0.76, 0.51), found["draft-tiny", 0.0, kind],
                      found["draft-tiny", 1.0, kind])
        table.compare(f"{kind}, temperature 1: the larger draft model against the smaller (LLaMA-13B, Alpaca)", (0.57, 0.51),
                      found["draft", 1.0, kind], found["draft-tiny", 1.0, kind])
    return table


def curves(s, title, draft):
    table = Table(title, ["text", "temperature", *(f"k = {n}" for n in COUNTS)])
    table.notes.append("Rates of recursive rejection without replacement at the rows of texts that the target generates, exact for "
                       "k of 1 and 2, from k = 3 on estimated over the refused prefixes, with an error below 0.001.")
    series = {}
    for kind in KINDS:
        for temperature in (0.0, 1.0):
            found = s.rates(COUNTS, temperature, (kind,), draft=draft)
            ends = [estimate(found[n].get(WITHOUT), mean) for n in COUNTS]
            table.add(kind, temperature, *(shown(e) if e else "-" for e in ends))
            series[f"{kind}, T = {temperature:g}"] = list(zip(COUNTS, ends))
            at = dict(zip(COUNTS, ends))
            # More candidates accept more, by mathematics; that the gain falls is the paper's conclusion.
            gain = lambda low, high: estimate([{**a, "value": a["value"] - b["value"]} for a, b in zip(found[high][WITHOUT], found[low][WITHOUT])],
                                              mean)
            table.compare(f"{kind}, temperature {temperature:g}: k from 1 to 2 adds more than from 16 to 32 (the rate converges)", (1, 0),
                          gain(1, 2), gain(16, 32))
            table.compare(f"{kind}, temperature {temperature:g}: k = 32 above k = 1", (1, 0), at[32], at[1], by_mathematics=True)
    s.plot(title, "k", "acceptance rate", series, log_x=True)
    return table


@item("mcsd.figure_3", PAPER, "acceptance rate by k = 1 .. 32, the smaller draft model")
def figure_3(s):
    return curves(s, "Acceptance rate by k, draft-tiny (MCSD, figure 3)", "draft-tiny")


@item("mcsd.figure_5", PAPER, "acceptance rate by k = 1 .. 32, the larger draft model")
def figure_5(s):
    return curves(s, "Acceptance rate by k, draft (MCSD, figure 5)", "draft")


def fastest(s, method, trees, temperature, kind, models):
    """The tree of the largest speed-up on prompts that the table does not use."""
    best = None
    for tree in trees:
        found = estimate(run_of(s, method, tree, temperature, s.choosing, kinds=(kind,), timed=True, **models), speed_up, 2)
        if found and (best is None or found.value > best[0]):
            best = (found.value, tree)
    return best[1]


def performance(s, title, models, claims):
    table = Table(title, ["text", "temperature", "method", "k configuration", "speed-up", "block efficiency", "acceptance rate"])
    table.notes.append("The best gamma and the best configuration are those of the largest speed-up on other prompts of the same "
                       "kind. \"same gamma\" is as deep as the best configuration.")
    for kind in KINDS:
        for temperature in (0.0, 1.0):
            table.add(kind, temperature, "baseline", "-", "1.00x", "1", "-")
            ours = fastest(s, WITHOUT, CONFIGURATIONS, temperature, kind, models)
            rows = [("SD (same gamma)", SD, chain(depth_of(ours))),
                    ("SD (best gamma)", SD, fastest(s, SD, CHAINS, temperature, kind, models)), ("MCSD", WITHOUT, ours),
                    (f"`{OURS}`", OURS, ours)]
            found = {}
            for label, method, tree in rows:
                runs = run_of(s, method, tree, temperature, kinds=(kind,), **models)
                if not runs:
                    continue
                speed = estimate(run_of(s, method, tree, temperature, s.timed, kinds=(kind,), **models), speed_up)
                found[label] = speed, estimate(runs, block_efficiency)
                table.add(kind, temperature, label, tree, shown(speed, 2), shown(found[label][1]), shown(estimate(runs, acceptance)))
            tau, speed = claims[temperature]
            nothing = (None, None)
            table.compare(f"{kind}, temperature {temperature:g}: block efficiency, MCSD against SD of the same depth", tau,
                          found.get("MCSD", nothing)[1], found["SD (same gamma)"][1])
            table.compare(f"{kind}, temperature {temperature:g}: speed-up, MCSD against the best SD", speed,
                          found.get("MCSD", nothing)[0], found["SD (best gamma)"][0], 2, otherwise=ROWS_COST)
    return table


@item("mcsd.table_2", PAPER, "SD of the same and of the best depth against the best configuration, the smaller draft model")
def table_2(s):
    return performance(s, "Methods by text, draft-tiny (MCSD, table 2)", {"draft": "draft-tiny"},
                       {0.0: ((3.93, 3.19), (3.06, 2.89)), 1.0: ((2.71, 1.98), (2.17, 1.73))})


@item("mcsd.table_3", PAPER, "the same with the larger draft model")
def table_3(s):
    return performance(s, "Methods by text, draft (MCSD, table 3)", {"draft": "draft"},
                       {0.0: ((3.87, 3.20), (2.42, 2.16)), 1.0: ((2.79, 2.05), (1.85, 1.47))})


@item("mcsd.table_5", PAPER, "the same for a target of another size: the model draft, with draft-tiny before it")
def table_5(s):
    return performance(s, "Methods by text, the target draft with draft-tiny (MCSD, table 5)", SMALLER_PAIR,
                       {0.0: ((3.89, 3.35), (2.75, 2.57)), 1.0: ((2.45, 1.93), (1.91, 1.56))})


@item("mcsd.table_4", PAPER, "verification algorithms on one tree, temperature 1")
def table_4(s):
    table = Table("Verification algorithms on the tree 8x2x1x1, temperature 1 (MCSD, table 4)",
                  ["algorithm", "method", "tree", "speed-up", "block efficiency", "acceptance rate"])
    table.notes.append("Without tree attention every path of the tree is a row of its own and what paths share is computed for each; "
                       "the copies of the cache that a batch of texts takes besides are not made here.")
    tree = "8x2x1x1"
    efficiency, speed = {}, {}
    for label, method, more in (("MCSS w/o replacement", WITHOUT, {}), ("MCSS w/ replacement", WITH, {}), ("MCNS", NAIVE, {}),
                                ("", "naive/sequential", {}), ("", "k_seq/iid", {}), ("", "greedy_optimal/top_then_one", {}),
                                ("", "ranked/stratified", {}), ("", "traversal/iid", {}), ("", "traversal/sequential", {}),
                                ("", "ranked_block/stratified", {}), ("ours", OURS, {}),
                                ("MCSS w/o replacement, no tree attention", WITHOUT, {"separate_paths": True})):
        runs = s.runs(method, tree, 1.0, **more)
        if not runs:
            continue
        name = label or method
        efficiency[name] = estimate(runs, block_efficiency)
        speed[name] = estimate(s.timed(method, tree, 1.0, **more), speed_up)
        table.add(label, f"`{method}`", tree, shown(speed[name], 2), shown(efficiency[name]), shown(estimate(runs, acceptance)))
    without, replaced, mcns = "MCSS w/o replacement", "MCSS w/ replacement", "MCNS"
    table.compare("speed-up with against without tree attention (LLaMA-33B)", (2.17, 1.84), speed.get(without),
                  speed.get("MCSS w/o replacement, no tree attention"), 2)
    table.compare("block efficiency: without against with replacement (LLaMA-33B)", (2.71, 2.55), efficiency.get(without), efficiency.get(replaced))
    table.compare("block efficiency: with replacement against MCNS", (2.55, 1.65), efficiency.get(replaced), efficiency.get(mcns))
    table.compare("speed-up: without against with replacement (LLaMA-33B)", (2.17, 2.04), speed.get(without), speed.get(replaced), 2)
    return table


@item("mcsd.figure_4", PAPER, "configurations of two levels, K = 16 and 32, increasing and decreasing")
def figure_4(s):
    table = Table("Configurations k1 x k2 (MCSD, figure 4)", ["K", "temperature", "tree", "nodes", "speed-up", "block efficiency"])
    efficiency, speed = {}, {}
    for temperature in (0.0, 1.0):
        for product in (16, 32):
            points = []
            for k in (1, 2, 4, 8, 16, 32):
                if k > product:
                    continue
                tree = f"{k}x{product // k}"
                efficiency[temperature, tree] = estimate(run_of(s, WITHOUT, tree, temperature, draft="draft-tiny"), block_efficiency)
                speed[temperature, tree] = estimate(run_of(s, WITHOUT, tree, temperature, s.timed, draft="draft-tiny"), speed_up)
                table.add(product, temperature, tree, nodes(tree), shown(speed[temperature, tree], 2), shown(efficiency[temperature, tree]))
                points.append((k, efficiency[temperature, tree]))
            s.plot(f"K = {product}, temperature {temperature:g}", "k1", "block efficiency", {f"k1 x {product}/k1": points}, log_x=True,
                   suffix=f"_{product}_{temperature:g}")
    table.notes.append("The paper's three insights (4.4): decreasing configurations do better; the same budget gives much the same "
                       "performance; K = 32 is slower than 16 although it accepts more.")
    for t in (0.0, 1.0):
        table.compare(f"temperature {t:g}: 8x2 above 2x8", (1, 0), efficiency[t, "8x2"], efficiency[t, "2x8"])
        table.compare(f"temperature {t:g}: 8x4 above 4x8", (1, 0), efficiency[t, "8x4"], efficiency[t, "4x8"])
        table.compare(f"temperature {t:g}: 8x2 as 4x4", (1, 1), efficiency[t, "8x2"], efficiency[t, "4x4"])
        table.compare(f"temperature {t:g}: 16x2 accepts more than 8x2", (1, 0), efficiency[t, "16x2"], efficiency[t, "8x2"])
        table.compare(f"temperature {t:g}: 8x2 faster than 16x2", (1, 0), speed[t, "8x2"], speed[t, "16x2"], 2)
    return table


@item("mcsd.table_7", PAPER, "acceptance rate at 1 to 4 candidates, by draft model and text")
def table_7(s):
    table = Table("alpha@1 to alpha@4 (MCSD, table 7)", ["draft model", "temperature", "text", *(f"alpha@{k}" for k in (1, 2, 3, 4))])
    table.notes.append("The shipped draft models were trained as they are: the paper's rows of fine-tuned ones, its conclusion, have no "
                       "counterpart.")
    found = {}
    for draft in DRAFTS:
        for temperature in (0.0, 1.0):
            for kind in KINDS:
                rates = s.rates((1, 2, 3, 4), temperature, (kind,), draft=draft)
                ends = [estimate(rates[k].get(WITHOUT), mean) for k in (1, 2, 3, 4)]
                found[draft, temperature, kind] = ends
                table.add(draft, temperature, kind, *(shown(e) if e else "-" for e in ends))
                table.compare(f"{draft}, temperature {temperature:g}, {kind}: alpha@4 against alpha@1", (1, 0), ends[3], ends[0],
                              by_mathematics=True)
    for temperature in (0.0, 1.0):
        for kind in KINDS:
            table.compare(f"temperature {temperature:g}, {kind}: alpha@1 of the larger draft model above that of the smaller", (1, 0),
                          found["draft", temperature, kind][0], found["draft-tiny", temperature, kind][0])
    return table


not_here("mcsd.figure_1", PAPER, "a diagram of the method", "it has no numbers")
not_here("mcsd.figure_2", PAPER, "a diagram of tree attention", "it has no numbers")
not_here("mcsd.table_6", PAPER, "table 3 for target models of another size",
         "there is no third draft model; mcsd.table_5 has the pair of another size that there is")
