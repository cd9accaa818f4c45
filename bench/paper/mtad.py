"""Multi-Token Assisted Decoding (Qin et al. 2025)."""
from paper.core import *

PAPER = "MTAD"
SPD, SPECTR, SPECINFER, MCSS = ("speculative_sampling/iid", "k_seq/sequences", "recursive_rejection/sequences",
                                "recursive_rejection/sequential")
BILD, TYPICAL, MTAD, MTJD = "lossy/bild", "lossy/typical_acceptance", "lossy/joint_likelihood", "lossy/joint_decoding"
WARP = MTAD_WARP
CUT = "Both models' rows are cut to the 10 likeliest tokens, then to 0.9 of their mass, at temperature 1 (the paper's appendix F). "
OF_PERPLEXITY = "Perplexity is under the target's uncut rows."
OF_NEXT_WORD = ("In place of the paper's downstream scores: `next word` is how often the first token emitted is the one with which the "
                "held-out text goes on, of the prompts that end with a token of it; ROUGE-L is against the rest of that text, of as many "
                "words.")
NOTE = f"{CUT}{OF_PERPLEXITY} {OF_NEXT_WORD}"
COLUMNS = ("perplexity", "tokens a step", "tokens/s", "speed-up", "next word", "ROUGE-L")


class Measured:
    """A method of a table: its texts, and its texts with clocks."""

    def __init__(self, s, method, tree, *kinds, **more):
        self.runs = with_scores(s.runs(method, tree, 1.0, *kinds, **more))
        self.clocked = s.timed(method, tree, 1.0, *kinds, **more) if self.runs else []

    def of(self, statistic):
        return estimate(self.clocked if statistic in (speed_up, token_rate) else self.runs, statistic)

    def cells(self):
        return (shown(self.of(perplexity), 2), shown(self.of(block_efficiency)), f"{self.of(token_rate).value:.0f}", shown(self.of(speed_up), 2),
                shown(self.of(next_right), 2), shown(self.of(rouge_l)))


def lowest_perplexity(s, method, tree, offers, kinds=KINDS):
    """The settings of the lowest perplexity on other prompts, as the paper chooses all hyper-parameters (appendix F)."""
    found = [(estimate(runs, perplexity, 2).value, k) for k, settings in enumerate(offers)
             if (runs := s.choosing(method, tree, 1.0, kinds, settings=settings, **WARP))]
    return offers[min(found)[1]]


def chosen_bild(s):
    return lowest_perplexity(s, BILD, chain(8), [{"fallback": f, "rollback": r} for f in (0.3, 0.5, 0.7) for r in (1.0, 2.0, 3.0)])


def chosen_mtad(s):
    """The draft length, beams and threshold of MTAD, as the paper chooses them."""
    offers = [(chain(length), {"beams": beams, "joint_threshold": threshold})
              for length in (3, 4) for beams in (4, 8) for threshold in (0.1, 0.3, 0.5, 0.7, 0.9)]
    found = [(estimate(runs, perplexity, 2).value, k) for k, (tree, settings) in enumerate(offers)
             if (runs := s.choosing(MTAD, tree, 1.0, settings=settings, **WARP))]
    return offers[min(found)[1]]


def methods(s):
    tree, settings = chosen_mtad(s)
    return (("SpD", SPD, chain(4), {}), ("BiLD", BILD, chain(8), {"settings": chosen_bild(s)}),
            ("Typical", TYPICAL, "4x2x1x1", {}), ("SpecTr", SPECTR, fork(4, 4), {}), ("SpecInfer", SPECINFER, fork(4, 4), {}),
            ("MCSS", MCSS, "4x2x1x1", {}), ("MTAD", MTAD, tree, {"settings": settings}), ("ours, lossless", OURS, "4x2x1x1", {}))


@item("mtad.figure_1", PAPER, "perplexity and ROUGE-L of joint decoding by the number of tokens decided together, K = 1 to 5")
def figure_1(s):
    table = Table("Perplexity and ROUGE-L of joint decoding by K (MTAD, figure 1)", ["K", *COLUMNS])
    table.notes += [NOTE, "K = 1 is multinomial sampling, as in the paper; 8 beams for more."]
    found, points = {}, []
    for k in (1, 2, 3, 4, 5):
        found[k] = Measured(s, AUTOREGRESSIVE, "", **WARP) if k == 1 else Measured(s, MTJD, chain(k), settings={"beams": 8}, **WARP)
        table.add(k, *found[k].cells())
        points.append((k, found[k].of(perplexity)))
    for k in (2, 5):
        table.compare(f"perplexity of K = 1 above that of K = {k}", (1, 0), found[1].of(perplexity), found[k].of(perplexity), 2)
        table.compare(f"ROUGE-L of K = {k} above that of K = 1", (1, 0), found[k].of(rouge_l), found[1].of(rouge_l))
    s.plot("Joint decoding", "K", "perplexity", {"joint decoding": points})
    return table


@item("mtad.table_3", PAPER, "speed of multinomial sampling and of speculative decoding")
def table_3(s):
    table = Table("Multinomial sampling and speculative decoding (MTAD, table 3)", ["method", "speed-up", "target calls a token"])
    table.notes.append("The paper's joules: `generate --compare --json` reports joules a token where a counter can be read (RAPL, NVML).")
    found = {}
    for label, method, tree in (("MS", AUTOREGRESSIVE, ""), ("SPEC", SPD, chain(4))):
        one = Measured(s, method, tree, **WARP)
        found[label] = one.of(speed_up)
        table.add(label, shown(found[label], 2), f"{1 / one.of(block_efficiency).value:.3f}")
    table.compare("speed-up: SPEC against MS (OPT: tokens a second)", (35.6, 23.8), found["SPEC"], found["MS"], 2)
    return table


@item("mtad.table_4", PAPER, "single-token and joint sampling, by text")
def table_4(s):
    table = Table("Single tokens and joint sampling of 4 (MTAD, table 4)", ["text", "method", *COLUMNS])
    table.notes.append(NOTE)
    for kind in KINDS:
        found = {}
        for label, method, tree in (("single-token multinomial", AUTOREGRESSIVE, ""), ("multi-token joint, k = 4", MTJD, chain(4))):
            found[method] = Measured(s, method, tree, (kind,), settings={"beams": 8}, **WARP)
            table.add(kind, label, *found[method].cells())
        table.compare(f"{kind}: perplexity, single against joint (Spider)", (2.58, 1.16), found[AUTOREGRESSIVE].of(perplexity),
                      found[MTJD].of(perplexity), 2)
    return table


def by_text(s, title, note, columns, labels):
    """Methods by text; the texts stand for the paper's data sets. Also what was measured, by text and method."""
    table = Table(title, ["text", "", "method", *columns])
    table.notes.append(CUT + note)
    found = {}
    for kind in KINDS:
        found[kind] = {}
        for label, method, tree, more in methods(s):
            one = Measured(s, method, tree, (kind,), **more, **WARP) if label in labels else None
            if one and one.runs:
                found[kind][label] = one
                table.add(kind, label, f"`{method}`", *(cell for name, cell in zip(COLUMNS, one.cells()) if name in columns))
    return table, found


def compare_by_text(table, found, what, statistic, paper, left, right, digits=2):
    for kind, of_kind in found.items():
        both = [of_kind[label].of(statistic) if label in of_kind else None for label in (left, right)]
        table.compare(f"{kind}: {what}", paper, *both, digits)


# The paper has tokens a second and joules a token in both tables. Beside them, table 5 has scores of tasks, of Llama-3 and
# seven methods; table 7 has perplexity, of Llama-2 and OPT and five methods.


@item("mtad.table_5", PAPER, "seven methods: speed and the score of a task, here the next word and ROUGE-L, by text")
def table_5(s):
    table, found = by_text(s, "Speed and scores by text (MTAD, table 5)", OF_NEXT_WORD, ("tokens/s", "speed-up", "next word", "ROUGE-L"),
                           ("BiLD", "Typical", "SpD", "SpecTr", "SpecInfer", "MCSS", "MTAD", "ours, lossless"))
    compare_by_text(table, found, "speed-up, MTAD against MCSS (HumanEval: tokens a second)", speed_up, (24.8, 23.7), "MTAD", "MCSS")
    compare_by_text(table, found, "speed-up, MTAD against BiLD (HumanEval: tokens a second)", speed_up, (24.8, 17.4), "MTAD", "BiLD")
    compare_by_text(table, found, "next word, MTAD against SpD (HumanEval: pass@1)", next_right, (38.4, 32.9), "MTAD", "SpD")
    for other in ("Typical", "SpD", "SpecTr", "SpecInfer"):
        compare_by_text(table, found, f"speed-up, MTAD above {other} (the fastest of all)", speed_up, (1, 0), "MTAD", other)
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
            found[label] = estimate(runs, block_efficiency)
            table.add(label, f"`{method}`", shown(found[label]))
    table.compare("MTAD against SpecTr (Llama-2)", (3.17, 2.73), found.get("MTAD"), found.get("SpecTr"))
    table.compare("SpecTr against SpD", (2.73, 2.02), found.get("SpecTr"), found.get("SpD"))
    return table


def by_threshold(s, title, thresholds):
    table = Table(title, ["threshold", *COLUMNS])
    table.notes.append(NOTE)
    found = {}
    for threshold in thresholds:
        found[threshold] = Measured(s, MTAD, chain(4), settings={"joint_threshold": threshold, "beams": 8}, **WARP)
        table.add(threshold, *found[threshold].cells())
    table.compare("tokens an iteration, threshold 0.1 against 0.9 (Llama-3)", (4.72, 3.64), found[0.1].of(block_efficiency),
                  found[0.9].of(block_efficiency))
    return table, found


@item("mtad.table_10", PAPER, "tokens an iteration by threshold")
def table_10(s):
    return by_threshold(s, "Threshold of the joint likelihood (MTAD, table 10)", (0.1, 0.3, 0.5, 0.7, 0.9))[0]


@item("mtad.figure_3", PAPER, "perplexity and speed by threshold, 0 to 1")
def figure_3(s):
    table, found = by_threshold(s, "Threshold from 0 to 1 (MTAD, figure 3)", (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0))
    table.comparisons.clear()  # those of table 10
    table.compare("speed-up, threshold 0 above 1", (1, 0), found[0.0].of(speed_up), found[1.0].of(speed_up), 2)
    table.compare("perplexity, threshold 0 above 0.5", (1, 0), found[0.0].of(perplexity), found[0.5].of(perplexity), 2)
    table.compare("perplexity, threshold 1 as multinomial sampling", (1, 1), found[1.0].of(perplexity),
                  Measured(s, AUTOREGRESSIVE, "", **WARP).of(perplexity), 2)
    s.plot("Joint likelihood", "threshold", "perplexity", {"perplexity": [(t, one.of(perplexity)) for t, one in found.items()]})
    s.plot("Joint likelihood", "threshold", "speed-up", {"joint likelihood": [(t, one.of(speed_up)) for t, one in found.items()]}, suffix="_speed")
    return table


@item("mtad.table_11", PAPER, "the number of beams, 2, 4, 6, 8")
def table_11(s):
    table = Table("Beams (MTAD, table 11)", ["beams", *COLUMNS])
    table.notes.append(NOTE)
    found = {}
    for beams in (2, 4, 6, 8):
        found[beams] = Measured(s, MTAD, chain(4), settings={"beams": beams}, **WARP)
        table.add(beams, *found[beams].cells())
    table.compare("perplexity of 2 beams against 8 (Llama-2)", (2.44, 2.10), found[2].of(perplexity), found[8].of(perplexity), 2)
    table.compare("speed-up of 8 beams against 2 (Llama-2: tokens a second)", (61.3, 55.9), found[8].of(speed_up), found[2].of(speed_up), 2,
                  otherwise="a beam is a row of the draft model, which costs as much as the first one here")
    return table


@item("mtad.table_12", PAPER, "top-k and top-p")
def table_12(s):
    table = Table("Top-k and top-p (MTAD, table 12)", ["k", "p", "method", *COLUMNS])
    table.notes.append(NOTE.replace(CUT, "Both models' rows are cut to the k likeliest tokens, then to p of their mass, at temperature 1. "))
    for k in (20, 10):
        for p in (0.9, 0.8):
            found = {}
            for label, method, tree in (("Multinomial", AUTOREGRESSIVE, ""), ("SpD", SPD, chain(4)), ("MTAD", MTAD, chain(4))):
                found[label] = Measured(s, method, tree, settings={"beams": 8}, top_k=k, top_p=p)
                table.add(k, p, label, *found[label].cells())
            if (k, p) == (10, 0.9):
                table.compare("k 10, p 0.9: perplexity, SpD against MTAD", (3.22, 1.95), found["SpD"].of(perplexity), found["MTAD"].of(perplexity), 2)
    return table


@item("mtad.table_13", PAPER, "speed and perplexity for models of another size: the target draft with draft-tiny")
def table_13(s):
    table = Table("Methods for the target draft with draft-tiny (MTAD, table 13)", ["", "method", *COLUMNS])
    table.notes += [NOTE, "The settings of BiLD and MTAD are those chosen for the larger pair."]
    found = {}
    for label, method, tree, more in methods(s):
        one = Measured(s, method, tree, **more, **WARP, **SMALLER_PAIR)
        if one.runs:
            found[label] = one
            table.add(label, f"`{method}`", *one.cells())
    of = lambda label, statistic: found[label].of(statistic) if label in found else None
    table.compare("perplexity, SpD above MTAD (the lowest of all)", (1, 0), of("SpD", perplexity), of("MTAD", perplexity), 2)
    table.compare("speed-up, MTAD above SpD (the fastest of all)", (1, 0), of("MTAD", speed_up), of("SpD", speed_up), 2)
    return table


@item("mtad.figure_4", PAPER, "perplexity against the score of a task: here the next word and ROUGE-L")
def figure_4(s):
    table = Table("Perplexity and scores, relative to multinomial sampling (MTAD, figure 4)",
                  ["", "method", "perplexity", "next word", "ROUGE-L"])
    table.notes += [NOTE, "`-`: multinomial sampling has a score of 0, and nothing is relative to it."]
    base = Measured(s, AUTOREGRESSIVE, "", **WARP)
    points, found = [], {}
    for label, method, tree, more in methods(s):
        one = Measured(s, method, tree, **more, **WARP)
        if one.runs:
            found[label] = one
            ratios = [relative(one.of(what).value, base.of(what).value) for what in (perplexity, next_right, rouge_l)]
            table.add(label, f"`{method}`", *("-" if r is None else f"{r:.3f}" for r in ratios))
            points.append((ratios[0], ratios[2]))
    s.plot("Relative to multinomial sampling", "perplexity", "ROUGE-L", {"methods": sorted(p for p in points if None not in p)})
    for label in ("MTAD", "Typical"):
        if label in found:
            table.compare(f"{label}: a lower perplexity than multinomial sampling", (0, 1), found[label].of(perplexity), base.of(perplexity), 2)
            table.compare(f"{label}: a higher ROUGE-L than multinomial sampling", (1, 0), found[label].of(rouge_l), base.of(rouge_l))
    return table


not_here("mtad.table_1", PAPER, "perplexity against the accuracy of GPT-3.5", "a model that is not public")
not_here("mtad.figure_2", PAPER, "an example of verification", "it has no numbers")
not_here("mtad.table_2", PAPER, "speed and energy by batch size", "bench/parallel has the times of calls of 1 to 32 requests, with the paper's beside them; energy needs a counter, research/energy.hpp has a model of it")
not_here("mtad.table_6", PAPER, "sizes of the data sets", "the data sets are not shipped")
not_here("mtad.table_9", PAPER, "downstream scores", "the data sets are not shipped; mtad.table_5 has the next word and ROUGE-L instead")
not_here("mtad.table_14", PAPER, "fine-tuned models on CNN/DM", "models and data that are not shipped")
not_here("mtad.table_15", PAPER, "fine-tuned models on Spider", "models and data that are not shipped")
not_here("mtad.figure_5", PAPER, "energy against speed", "needs an energy counter; generate --compare --json reports both where there is one")
