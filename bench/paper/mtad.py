"""Multi-Token Assisted Decoding (Qin et al. 2025)."""
from paper.core import *

PAPER = "MTAD"
SPD, SPECTR, SPECINFER, MCSS = ("speculative_sampling/iid", "k_seq/sequences", "recursive_rejection/sequences",
                                "recursive_rejection/sequential")
BILD, TYPICAL, MTAD, MTJD = "lossy/bild", "lossy/typical_acceptance", "lossy/joint_likelihood", "lossy/joint_decoding"
WARP = MTAD_WARP
CUT = "Both models' rows are cut to the 10 likeliest tokens, then to 0.9 of their mass, at temperature 1 (the paper's appendix F). "
OF_PERPLEXITY = "Perplexity is under the target's uncut rows."
OF_NEXT_WORD = ("Of the paper's downstream scores none can be had from the shipped models; `next word` is how often the first token "
                "emitted is the one with which the held-out text goes on.")
NOTE = f"{CUT}{OF_PERPLEXITY} {OF_NEXT_WORD}"
COLUMNS = ("perplexity", "tokens a step", "tokens/s", "speed-up", "next word")


def cells(runs):
    return (shown(interval(runs, perplexity), 2), shown(interval(runs, block_efficiency)), f"{rate(runs):.0f}",
            f"{speed_up(runs):.2f}x", f"{next_right(runs):.2f}")


def chosen_bild(s, kinds=KINDS):
    """Thresholds of BiLD of the lowest perplexity on other prompts (appendix F)."""
    best = None
    for fallback in (0.3, 0.5, 0.7):
        for rollback in (1.0, 2.0, 3.0):
            settings = {"fallback": fallback, "rollback": rollback}
            runs = s.runs(BILD, chain(8), 1.0, kinds, first=3 + s.options.prompts, settings=settings, **WARP)
            if runs and (best is None or perplexity(runs) < best[0]):
                best = (perplexity(runs), settings)
    return best[1]


def methods(s):
    return (("SpD", SPD, chain(4), {}), ("BiLD", BILD, chain(8), {"settings": chosen_bild(s)}),
            ("Typical", TYPICAL, "4x2x1x1", {}), ("SpecTr", SPECTR, fork(4, 4), {}), ("SpecInfer", SPECINFER, fork(4, 4), {}),
            ("MCSS", MCSS, "4x2x1x1", {}), ("MTAD", MTAD, chain(4), {"settings": {"beams": 8, "joint_threshold": 0.1}}),
            ("ours, lossless", OURS, "4x2x1x1", {}))


@item("mtad.figure_1", PAPER, "perplexity of joint decoding by the number of tokens decided together, K = 1 to 5")
def figure_1(s):
    table = Table("Perplexity of joint decoding by K (MTAD, figure 1)", ["K", *COLUMNS])
    table.notes.append(NOTE)
    found, points = {}, []
    for k in (1, 2, 3, 4, 5):
        runs = s.runs(MTJD, chain(k), 1.0, settings={"beams": 8}, **WARP)
        found[k] = interval(runs, perplexity)
        table.add(k, *cells(runs))
        points.append((k, found[k]))
    table.compare("perplexity of K = 1 above that of K = 5 (Theorem 3.2)", (1, 0), found[1], found[5], 2)
    s.plot("Joint decoding", "K", "perplexity", {"joint decoding": points})
    return table


@item("mtad.table_3", PAPER, "speed of multinomial sampling and of speculative decoding")
def table_3(s):
    table = Table("Multinomial sampling and speculative decoding (MTAD, table 3)", ["method", "speed-up", "target calls a token"])
    table.notes.append("The paper's joules: `generate --compare --json` reports joules a token where a counter can be read (RAPL, NVML).")
    found = {}
    for label, method, tree in (("MS", AUTOREGRESSIVE, ""), ("SPEC", SPD, chain(4))):
        runs = s.runs(method, tree, 1.0, **WARP)
        found[label] = interval(runs, speed_up)
        table.add(label, shown(found[label], 2), f"{1 / block_efficiency(runs):.3f}")
    table.compare("speed-up: SPEC against MS (OPT: tokens a second)", (35.6, 23.8), found["SPEC"], found["MS"], 2)
    return table


@item("mtad.table_4", PAPER, "single-token and joint sampling, by text")
def table_4(s):
    table = Table("Single tokens and joint sampling of 4 (MTAD, table 4)", ["text", "method", *COLUMNS])
    table.notes.append(NOTE)
    for kind in KINDS:
        found = {}
        for label, method, tree in (("single-token multinomial", AUTOREGRESSIVE, ""), ("multi-token joint, k = 4", MTJD, chain(4))):
            runs = s.runs(method, tree, 1.0, (kind,), settings={"beams": 8}, **WARP)
            found[method] = interval(runs, perplexity)
            table.add(kind, label, *cells(runs))
        table.compare(f"{kind}: perplexity, single against joint (Spider)", (2.58, 1.16), found[AUTOREGRESSIVE], found[MTJD], 2)
    return table


def by_text(s, title, note, columns, labels):
    """Methods by text; the texts stand for the paper's data sets. Also the runs, by text and method."""
    table = Table(title, ["text", "", "method", *columns])
    table.notes.append(CUT + note)
    found = {}
    for kind in KINDS:
        found[kind] = {}
        for label, method, tree, more in methods(s):
            runs = s.runs(method, tree, 1.0, (kind,), **more, **WARP) if label in labels else None
            if runs:
                found[kind][label] = runs
                table.add(kind, label, f"`{method}`", *(cell for name, cell in zip(COLUMNS, cells(runs)) if name in columns))
    return table, found


def compare_by_text(table, found, what, statistic, paper, left, right, digits=2):
    for kind, runs in found.items():
        both = [interval(runs[label], statistic) if label in runs else None for label in (left, right)]
        table.compare(f"{kind}: {what}", paper, *both, digits)


# The paper has tokens a second and joules a token in both tables. Beside them, table 5 has scores of tasks, of Llama-3 and
# seven methods; table 7 has perplexity, of Llama-2 and OPT and five methods.


@item("mtad.table_5", PAPER, "seven methods: speed and the score of a task, here the next word, by text")
def table_5(s):
    table, found = by_text(s, "Speed and the next word by text (MTAD, table 5)", OF_NEXT_WORD, ("tokens/s", "speed-up", "next word"),
                           ("BiLD", "Typical", "SpD", "SpecTr", "SpecInfer", "MCSS", "MTAD", "ours, lossless"))
    compare_by_text(table, found, "speed-up, MTAD against MCSS (HumanEval: tokens a second)", speed_up, (24.8, 23.7), "MTAD", "MCSS")
    compare_by_text(table, found, "speed-up, MTAD against BiLD (HumanEval: tokens a second)", speed_up, (24.8, 17.4), "MTAD", "BiLD")
    compare_by_text(table, found, "next word, MTAD against SpD (HumanEval: pass@1)", next_right, (38.4, 32.9), "MTAD", "SpD")
    return table


@item("mtad.table_7", PAPER, "five methods: speed and perplexity, by text")
def table_7(s):
    table, found = by_text(s, "Speed and perplexity by text (MTAD, table 7)", OF_PERPLEXITY, ("perplexity", "tokens/s", "speed-up"),
                           ("SpD", "BiLD", "SpecTr", "SpecInfer", "MTAD", "ours, lossless"))
    compare_by_text(table, found, "perplexity, SpD against MTAD (ChatGPT-Prompt)", perplexity, (3.64, 2.06), "SpD", "MTAD")
    compare_by_text(table, found, "speed-up, MTAD against SpD (ChatGPT-Prompt: tokens a second)", speed_up, (63.0, 36.8), "MTAD", "SpD")
    return table


@item("mtad.table_8", PAPER, "tokens an iteration of the methods")
def table_8(s):
    table = Table("Tokens an iteration (MTAD, table 8)", ["", "method", "tokens an iteration"])
    table.notes.append(NOTE)
    found = {}
    for label, method, tree, more in methods(s):
        runs = s.runs(method, tree, 1.0, **more, **WARP)
        if runs:
            found[label] = interval(runs, block_efficiency)
            table.add(label, f"`{method}`", shown(found[label]))
    table.compare("MTAD against SpecTr (Llama-2)", (3.17, 2.73), found.get("MTAD"), found.get("SpecTr"))
    table.compare("SpecTr against SpD", (2.73, 2.02), found.get("SpecTr"), found.get("SpD"))
    return table


def by_threshold(s, title, thresholds):
    table = Table(title, ["threshold", *COLUMNS])
    table.notes.append(NOTE)
    found, ppl, speed = {}, [], []
    for threshold in thresholds:
        runs = s.runs(MTAD, chain(4), 1.0, settings={"joint_threshold": threshold, "beams": 8}, **WARP)
        found[threshold] = interval(runs, block_efficiency)
        table.add(threshold, *cells(runs))
        ppl.append((threshold, interval(runs, perplexity)))
        speed.append((threshold, speed_up(runs)))
    table.compare("tokens an iteration, threshold 0.1 against 0.9 (Llama-3)", (4.72, 3.64), found[0.1], found[0.9])
    return table, ppl, speed


@item("mtad.table_10", PAPER, "tokens an iteration by threshold")
def table_10(s):
    return by_threshold(s, "Threshold of the joint likelihood (MTAD, table 10)", (0.1, 0.3, 0.5, 0.7, 0.9))[0]


@item("mtad.figure_3", PAPER, "perplexity and speed by threshold, 0 to 1")
def figure_3(s):
    table, ppl, speed = by_threshold(s, "Threshold from 0 to 1 (MTAD, figure 3)", (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0))
    s.plot("Joint likelihood", "threshold", "perplexity", {"perplexity": ppl})
    s.plot("Joint likelihood", "threshold", "speed-up", {"joint likelihood": speed}, suffix="_speed")
    return table


@item("mtad.table_11", PAPER, "the number of beams, 2, 4, 6, 8")
def table_11(s):
    table = Table("Beams (MTAD, table 11)", ["beams", *COLUMNS])
    table.notes.append(NOTE)
    found = {}
    for beams in (2, 4, 6, 8):
        runs = s.runs(MTAD, chain(4), 1.0, settings={"beams": beams}, **WARP)
        found[beams] = interval(runs, perplexity)
        table.add(beams, *cells(runs))
    table.compare("perplexity of 2 beams against 8 (Llama-2)", (2.44, 2.10), found[2], found[8], 2)
    return table


@item("mtad.table_12", PAPER, "top-k and top-p")
def table_12(s):
    table = Table("Top-k and top-p (MTAD, table 12)", ["k", "p", "method", *COLUMNS])
    table.notes.append(NOTE.replace(CUT, "Both models' rows are cut to the k likeliest tokens, then to p of their mass, at temperature 1. "))
    for k in (20, 10):
        for p in (0.9, 0.8):
            warp = {"top_k": k, "top_p": p}
            found = {}
            for label, method, tree in (("Multinomial", AUTOREGRESSIVE, ""), ("SpD", SPD, chain(4)), ("MTAD", MTAD, chain(4))):
                runs = s.runs(method, tree, 1.0, settings={"beams": 8}, **warp)
                found[label] = interval(runs, perplexity)
                table.add(k, p, label, *cells(runs))
            if (k, p) == (10, 0.9):
                table.compare("k 10, p 0.9: perplexity, SpD against MTAD", (3.22, 1.95), found["SpD"], found["MTAD"], 2)
    return table


@item("mtad.figure_4", PAPER, "perplexity against the score of a task: here the next word")
def figure_4(s):
    table = Table("Perplexity and the next word, relative to multinomial sampling (MTAD, figure 4)", ["", "method", "perplexity", "next word"])
    table.notes.append(NOTE)
    base = s.runs(AUTOREGRESSIVE, "", 1.0, **WARP)
    points = []
    for label, method, tree, more in methods(s):
        runs = s.runs(method, tree, 1.0, **more, **WARP)
        if runs:
            x, y = perplexity(runs) / perplexity(base), next_right(runs) / max(1e-9, next_right(base))
            table.add(label, f"`{method}`", f"{x:.3f}", f"{y:.3f}")
            points.append((x, y))
    s.plot("Relative to multinomial sampling", "perplexity", "next word", {"methods": sorted(points)})
    return table


not_here("mtad.table_1", PAPER, "perplexity against the accuracy of GPT-3.5", "a model that is not public")
not_here("mtad.figure_2", PAPER, "an example of verification", "it has no numbers")
not_here("mtad.table_2", PAPER, "speed and energy by batch size", "the example engine runs one request a call, and this machine has no energy counter")
not_here("mtad.table_6", PAPER, "sizes of the data sets", "the data sets are not shipped")
not_here("mtad.table_9", PAPER, "downstream scores", "tasks for models of billions of parameters; mtad.table_5 has the next word instead")
not_here("mtad.table_13", PAPER, "speed and perplexity for larger models", "one pair of models is shipped; mtad.table_7 is made for it")
not_here("mtad.table_14", PAPER, "fine-tuned models on CNN/DM", "models and data that are not shipped")
not_here("mtad.table_15", PAPER, "fine-tuned models on Spider", "models and data that are not shipped")
not_here("mtad.figure_5", PAPER, "energy against speed", "needs an energy counter; generate --compare --json reports both where there is one")
