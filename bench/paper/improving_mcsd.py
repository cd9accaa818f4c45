"""Improving Multi-candidate Speculative Decoding (Lu et al. 2024)."""
from paper.core import *

PAPER = "Improving MCSD"
SD, MCSD, START = "speculative_sampling/iid", "recursive_rejection/sequential", "lossy/target_initialised"
DEPTH, WIDTH = 5, 16
LOSSY = ("The target-initialised tree is lossy: its text is not the target's, and its accepted lengths are not comparable with "
         "those of lossless methods (docs/errata.md). Without a decision model, unless a row names one.")
RULES = (("none", {}), ("T1, hidden states", {"stop_by": "hidden"}), ("T2, probabilities", {"stop_by": "probabilities"}))


def run_of(s, method, tree, temperature, run=None, **more):
    run = run or s.runs
    if temperature == 0 and method == MCSD:
        return run("naive/deterministic", tree, temperature, draft_temperature=0.0, **more)
    return run(method, tree, temperature, **({"draft_temperature": 0.0} if temperature == 0 else {}), **more)


@item("improving_mcsd.table_1", PAPER, "accepted fraction of the target-initialised tree, W = 16, D = 5, by text, draft model and temperature")
def table_1(s):
    table = Table("Accepted fraction of the target-initialised tree, W = 16, D = 5 (Improving MCSD, table 1)",
                  ["text", "draft model", "temperature", "accepted fraction", "perplexity", "perplexity of plain sampling"])
    table.notes.append(LOSSY)
    for kind in KINDS:
        for temperature in (0.0, 1.0):
            found = {}
            plain = estimate(s.runs(AUTOREGRESSIVE, "", temperature, (kind,)), perplexity)
            for draft in DRAFTS:
                runs = run_of(s, START, fork(WIDTH, DEPTH), temperature, kinds=(kind,), draft=draft)
                found[draft] = estimate(runs, accepted_fraction(DEPTH))
                table.add(kind, draft, temperature, shown(found[draft]), shown(estimate(runs, perplexity), 2), shown(plain, 2))
            table.compare(f"{kind}, temperature {temperature:g}: the larger draft model against the smaller (Alpaca)",
                          (0.92, 0.80) if temperature == 0 else (0.93, 0.75), found["draft"], found["draft-tiny"])
    return table


@item("improving_mcsd.table_2", PAPER, "accepted fraction: SD of 5, MCSD 4x2x2x1x1, the target-initialised tree; temperature 0")
def table_2(s):
    table = Table("Accepted fraction at temperature 0 (Improving MCSD, table 2)",
                  ["text", "method", "configuration", "accepted fraction", "drafted a call", "lossless"])
    table.notes.append(LOSSY)
    for kind in KINDS:
        found = {}
        for label, method, tree in (("SD", SD, chain(DEPTH)), ("MCSD", MCSD, "4x2x2x1x1"), ("target-initialised", START, fork(WIDTH, DEPTH)),
                                    ("ours", OURS, "4x2x2x1x1")):
            runs = run_of(s, method, tree, 0.0, kinds=(kind,))
            found[label] = estimate(runs, accepted_fraction(DEPTH))
            table.add(kind, label, tree, shown(found[label]), f"{estimate(runs, drafted_a_call, 2).value:.1f}",
                      "no" if method == START else "yes")
        table.compare(f"{kind}: MCSD against SD (Alpaca)", (0.64, 0.45), found["MCSD"], found["SD"])
        table.compare(f"{kind}: the target-initialised tree against MCSD (Alpaca)", (0.92, 0.64), found["target-initialised"], found["MCSD"])
    return table


@item("improving_mcsd.figure_4", PAPER, "speed-ups of SD, MCSD and the target-initialised tree, two draft models, temperature 0")
def figure_4(s):
    table = Table("Speed-ups at temperature 0 (Improving MCSD, figure 4)", ["draft model", "method", "configuration", "speed-up", "block efficiency"])
    table.notes.append(LOSSY)
    for draft in DRAFTS:
        found = {}
        for label, method, tree in (("SD", SD, chain(DEPTH)), ("MCSD", MCSD, "4x2x2x1x1"), ("target-initialised", START, fork(WIDTH, DEPTH))):
            found[label] = estimate(run_of(s, method, tree, 0.0, s.timed, draft=draft), speed_up)
            table.add(draft, label, tree, shown(found[label], 2), shown(estimate(run_of(s, method, tree, 0.0, draft=draft), block_efficiency)))
        table.compare(f"{draft}: the target-initialised tree faster than MCSD", (1, 0), found["target-initialised"], found["MCSD"], 2,
                      otherwise=ROWS_COST)
    return table


@item("improving_mcsd.figure_5", PAPER, "width against accepted fraction and speed, D = 5, two draft models, temperature 0")
def figure_5(s):
    table = Table("Width (Improving MCSD, figure 5): target-initialised tree, D = 5, temperature 0",
                  ["draft model", "width", "accepted fraction", "speed-up"])
    table.notes += [LOSSY, "The paper: both rise with the width, the fraction up to 12, the speed up to 10, and the speed falls at 21."]
    series = {}
    for draft in DRAFTS:
        found, speed = {}, {}
        for width in (1, 2, 4, 6, 8, 10, 12, 16, 21):
            found[width] = estimate(run_of(s, START, fork(width, DEPTH), 0.0, draft=draft), accepted_fraction(DEPTH))
            speed[width] = estimate(run_of(s, START, fork(width, DEPTH), 0.0, s.timed, draft=draft), speed_up)
            table.add(draft, width, shown(found[width]), shown(speed[width], 2))
            series.setdefault(draft, []).append((width, found[width]))
        table.compare(f"{draft}: accepted fraction, width 12 above width 1", (1, 0), found[12], found[1])
        table.compare(f"{draft}: accepted fraction, width 21 as width 12", (1, 1), found[21], found[12])
        table.compare(f"{draft}: speed, width 10 above width 1", (1, 0), speed[10], speed[1], 2, otherwise=ROWS_COST)
        table.compare(f"{draft}: speed, width 10 above width 21", (1, 0), speed[10], speed[21], 2)
    s.plot("Target-initialised tree, depth 5, temperature 0", "width", "accepted fraction", series)
    return table


@item("improving_mcsd.figure_6", PAPER, "speed of the target-initialised tree with and without a decision model, by width")
def figure_6(s):
    table = Table("With and without a decision model (Improving MCSD, figure 6): target-initialised tree, D = 5, temperature 0",
                  ["draft model", "width", "decision model", "speed-up", "accepted fraction", "drafted a call"])
    table.notes += [LOSSY, "The shipped decision models are made for the model `draft`; `draft-tiny` runs without. The paper: without one is "
                    "faster, but at small widths."]
    series = {}
    for draft in DRAFTS:
        for width in (1, 2, 4, 8, 16):
            speed = {}
            for label, settings in RULES if draft == "draft" else RULES[:1]:
                how = dict(draft=draft, draft_temperature=0.0, settings=settings)
                runs = s.runs(START, fork(width, DEPTH), 0.0, **how)
                if not runs:
                    continue
                speed[label] = estimate(s.timed(START, fork(width, DEPTH), 0.0, **how), speed_up)
                table.add(draft, width, label, shown(speed[label], 2), shown(estimate(runs, accepted_fraction(DEPTH))),
                          f"{estimate(runs, drafted_a_call, 2).value:.1f}")
                series.setdefault(f"{draft}, {label}", []).append((width, speed[label]))
            for label, _ in RULES[1:]:
                if label in speed and width >= 8:
                    table.compare(f"{draft}, width {width}: faster without a decision model than with {label}", (1, 0), speed["none"], speed[label], 2)
    s.plot("Target-initialised tree, depth 5, temperature 0", "width", "speed-up", series)
    return table


@item("improving_mcsd.figure_3", PAPER, "which of six paths wins, and the accepted length of each path")
def figure_3(s):
    table = Table("Which of six paths wins, and its accepted length (Improving MCSD, figure 3): depth 5, temperature 1",
                  ["tree", *(f"path {k}" for k in range(1, 7)), "what"])
    table.notes += [LOSSY, "A draft-initialised tree is verified path by path from its root down, so the lengths of paths that were not "
                    "taken are not known; for it the table has the wins."]
    paths = range(6)
    ours = [{**r, **{f"{what}_{k}": (r["run"][field] + [0] * 6)[k] for what, field in (("won", "won_by_start"), ("length", "accepted_by_start"))
                     for k in paths}} for r in s.runs(START, fork(6, DEPTH), 1.0)]
    # Ranks of all depths are counted together: those below the first token have rank 0.
    below = lambda r: sum(r["run"]["accepted_at_depth"][1:])
    plain = [{**r, **{f"won_{k}": (r["run"]["accepted_at_rank"] + [0] * 6)[k] - (below(r) if k == 0 else 0) for k in paths}}
             for r in s.runs(MCSD, fork(6, DEPTH), 1.0)]
    a_step = lambda field: lambda sums: sums[field] / max(1, sums["whole_target_calls"])
    for label, runs, what, text in (("target-initialised", ours, "won", "part of the steps that it wins"),
                                    ("target-initialised", ours, "length", "mean accepted length"),
                                    ("draft-initialised", plain, "won", "part of the steps that it wins")):
        table.add(label, *(shown(estimate(runs, a_step(f"{what}_{k}"))) for k in paths), text)
    mean_length = estimate(ours, lambda sums: sum(sums[f"length_{k}"] for k in paths) / 6 / max(1, sums["whole_target_calls"]))
    other = lambda sums: sum(sums[f"won_{k}"] for k in paths if k > 0) / max(1, sums["whole_target_calls"])
    table.compare("paths other than the first win more often in the target-initialised tree", (1, 0), estimate(ours, other), estimate(plain, other))
    table.compare("the mean length of its paths above the accepted tokens of a step of the draft-initialised one, spread over its six paths", (1, 0),
                  mean_length, estimate(plain, lambda sums: sums["whole_accepted"] / 6 / max(1, sums["whole_target_calls"])))
    return table


not_here("improving_mcsd.figure_1", PAPER, "a diagram of the method", "it has no numbers")
not_here("improving_mcsd.figure_2", PAPER, "a diagram of the two trees", "it has no numbers")
