"""Improving Multi-candidate Speculative Decoding (Lu et al. 2024)."""
from paper.core import *

PAPER = "Improving MCSD"
SD, MCSD, START = "speculative_sampling/iid", "recursive_rejection/sequential", "lossy/target_initialised"
DEPTH, WIDTH = 5, 16
LOSSY = ("The target-initialised tree is lossy: its text is not the target's, and its accepted lengths are not comparable with "
         "those of lossless methods (docs/errata.md). Without a decision model, unless a row names one.")
RULES = (("none", {}), ("T1, hidden states", {"stop_by": "hidden"}), ("T2, probabilities", {"stop_by": "probabilities"}))


def run_of(s, method, tree, temperature, **more):
    if temperature == 0 and method == MCSD:
        return s.runs("naive/deterministic", tree, temperature, draft_temperature=0.0, **more)
    return s.runs(method, tree, temperature, **({"draft_temperature": 0.0} if temperature == 0 else {}), **more)


@item("improving_mcsd.table_1", PAPER, "accepted fraction of the target-initialised tree, W = 16, D = 5, by text, draft model and temperature")
def table_1(s):
    table = Table("Accepted fraction of the target-initialised tree, W = 16, D = 5 (Improving MCSD, table 1)",
                  ["text", "draft model", "temperature", "accepted fraction", "perplexity"])
    table.notes.append(LOSSY)
    found = {}
    for kind in KINDS:
        for temperature in (0.0, 1.0):
            for draft in DRAFTS:
                runs = run_of(s, START, fork(WIDTH, DEPTH), temperature, kinds=(kind,), draft=draft)
                found[kind, draft, temperature] = interval(runs, accepted_fraction(DEPTH))
                table.add(kind, draft, temperature, shown(found[kind, draft, temperature]), shown(interval(runs, perplexity), 2))
    for temperature, paper in ((0.0, (0.92, 0.80)), (1.0, (0.93, 0.75))):
        table.compare(f"Alpaca, temperature {temperature:g}: the larger draft model against the smaller", paper,
                      found["definitions", "draft", temperature], found["definitions", "draft-tiny", temperature])
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
            found[label] = interval(runs, accepted_fraction(DEPTH))
            table.add(kind, label, tree, shown(found[label]), f"{total(runs, 'drafted') / max(1, total(runs, 'target_calls')):.1f}",
                      "no" if method == START else "yes")
        if kind == "definitions":
            table.compare("Alpaca: MCSD against SD", (0.64, 0.45), found["MCSD"], found["SD"])
            table.compare("Alpaca: the target-initialised tree against MCSD", (0.92, 0.64), found["target-initialised"], found["MCSD"])
    return table


@item("improving_mcsd.figure_4", PAPER, "speed-ups of SD, MCSD and the target-initialised tree, two draft models, temperature 0")
def figure_4(s):
    table = Table("Speed-ups at temperature 0 (Improving MCSD, figure 4)", ["draft model", "method", "configuration", "speed-up", "block efficiency"])
    table.notes.append(LOSSY)
    for draft in DRAFTS:
        found = {}
        for label, method, tree in (("SD", SD, chain(DEPTH)), ("MCSD", MCSD, "4x2x2x1x1"), ("target-initialised", START, fork(WIDTH, DEPTH))):
            runs = run_of(s, method, tree, 0.0, draft=draft)
            found[label] = interval(runs, speed_up)
            table.add(draft, label, tree, f"{speed_up(runs):.2f}x", shown(interval(runs, block_efficiency)))
        table.compare(f"{draft}: the target-initialised tree faster than MCSD", (1, 0), found["target-initialised"], found["MCSD"], 2)
    return table


@item("improving_mcsd.figure_5", PAPER, "width against accepted fraction and speed, D = 5, two draft models, temperature 0")
def figure_5(s):
    table = Table("Width (Improving MCSD, figure 5): target-initialised tree, D = 5, temperature 0",
                  ["draft model", "width", "accepted fraction", "speed-up"])
    table.notes.append(LOSSY)
    series = {}
    for draft in DRAFTS:
        found = {}
        for width in (1, 2, 4, 6, 8, 10, 12, 16, 21):
            runs = run_of(s, START, fork(width, DEPTH), 0.0, draft=draft)
            found[width] = interval(runs, accepted_fraction(DEPTH))
            table.add(draft, width, shown(found[width]), f"{speed_up(runs):.2f}x")
            series.setdefault(draft, []).append((width, found[width]))
        table.compare(f"{draft}: width 12 above width 1", (1, 0), found[12], found[1])
    s.plot("Target-initialised tree, depth 5, temperature 0", "width", "accepted fraction", series)
    return table


@item("improving_mcsd.figure_6", PAPER, "speed of the target-initialised tree with and without a decision model, by width")
def figure_6(s):
    table = Table("With and without a decision model (Improving MCSD, figure 6): target-initialised tree, D = 5, temperature 0",
                  ["draft model", "width", "decision model", "speed-up", "accepted fraction", "drafted a call"])
    table.notes += [LOSSY, "The shipped decision models are made for the model `draft`; `draft-tiny` runs without."]
    series = {}
    for draft in DRAFTS:
        for width in (1, 2, 4, 8, 16):
            for label, settings in RULES if draft == "draft" else RULES[:1]:
                runs = s.runs(START, fork(width, DEPTH), 0.0, draft=draft, draft_temperature=0.0, settings=settings)
                if runs:
                    table.add(draft, width, label, f"{speed_up(runs):.2f}x", shown(interval(runs, accepted_fraction(DEPTH))),
                              f"{total(runs, 'drafted') / max(1, total(runs, 'target_calls')):.1f}")
                    series.setdefault(f"{draft}, {label}", []).append((width, speed_up(runs)))
    s.plot("Target-initialised tree, depth 5, temperature 0", "width", "speed-up", series)
    return table


@item("improving_mcsd.figure_3", PAPER, "which of six paths wins, and the accepted length of each path")
def figure_3(s):
    table = Table("Which of six paths wins, and its accepted length (Improving MCSD, figure 3): depth 5, temperature 1",
                  ["tree", *(f"path {k}" for k in range(1, 7)), "what"])
    table.notes += [LOSSY, "A draft-initialised tree is verified path by path from its root down, so the lengths of the paths that were "
                    "not taken are not known; for it the table has the wins."]
    ours = s.runs(START, fork(6, DEPTH), 1.0)
    calls = max(1, total(ours, "target_calls"))
    by_start = lambda field: [sum(r[field][k] if k < len(r[field]) else 0 for r in ours) for k in range(6)]
    table.add("target-initialised", *(f"{w / calls:.3f}" for w in by_start("won_by_start")), "part of the steps that it wins")
    table.add("target-initialised", *(f"{n / calls:.3f}" for n in by_start("accepted_by_start")), "mean accepted length")
    plain = s.runs(MCSD, fork(6, DEPTH), 1.0)
    calls = max(1, total(plain, "target_calls"))
    wins = [sum(r["accepted_at_rank"][k] if k < len(r["accepted_at_rank"]) else 0 for r in plain) for k in range(6)]
    wins[0] -= sum(sum(r["accepted_at_depth"][1:]) for r in plain)  # ranks of all depths are counted together
    table.add("draft-initialised", *(f"{w / calls:.3f}" for w in wins), "part of the steps that it wins")
    return table


not_here("improving_mcsd.figure_1", PAPER, "a diagram of the method", "it has no numbers")
not_here("improving_mcsd.figure_2", PAPER, "a diagram of the two trees", "it has no numbers")
