"""Recursive Speculative Decoding (Jeon et al. 2024)."""
from paper.core import *

PAPER = "RSD"
SD, SPECTR, RSD_C, RSD_S = ("speculative_sampling/iid", "k_seq/sequences", "recursive_rejection/sequential",
                            "recursive_rejection/stochastic_beam")
# Appendix C.3.1: by draft length, the forks of SpecTr and RSD-S, and the trees of RSD-C.
LENGTHS = {2: (((2, 2), (3, 2)), ("2x2", "2x1", "3x1")), 3: (((3, 3), (4, 3)), ("2x2x2", "3x1x1", "4x1x1")),
           4: (((5, 4), (7, 4)), ("2x2x2x2", "5x1x1x1", "7x1x1x1")),
           5: (((6, 5), (12, 5)), ("2x2x2x2x2", "6x1x1x1x1", "12x1x1x1x1"))}
# Appendix C.3.2: by target budget.
BUDGETS = {6: (((2, 3), (3, 2)), ("2x1x1", "2x2", "3x1")), 10: (((2, 5), (5, 2)), ("2x1x1x1x1", "2x2x1", "5x1")),
           14: (((2, 7), (7, 2)), ("2x1x1x1x1x1x1", "2x2x2", "7x1")),
           21: (((3, 7), (7, 3)), ("3x1x1x1x1x1x1", "3x2x2", "7x1x1")),
           30: (((5, 6), (6, 5)), ("2x2x2x2", "5x1x1x1x1x1", "6x1x1x1x1"))}
SETTINGS = (("XSum, WMT: temperature 0.3", 0.3, {}), ("Dolly: temperature 1, top-p 0.95", 1.0, DOLLY_WARP))
BESIDE = ("traversal/sequential", OURS)  # not of the paper: on the trees of RSD-C


@item("rsd.figure_1", PAPER, "two candidates of two tokens: acceptance of multi-round, K-SEQ, OTM and recursive rejection")
def figure_1(s):
    table = Table("Bernoulli draft and target, two candidates (RSD, figure 1): exact acceptance rates",
                  ["draft", "target", "multi-round", "K-SEQ", "OTM", "recursive rejection without replacement"])
    grid = [k / 10 for k in range(1, 10)]
    series = {}
    for target in (0.1, 0.3, 0.5, 0.7, 0.9):
        found = s.ask({"bernoulli": grid, "targets": [target]})["rates"]
        for i, draft in enumerate(grid):
            values = [found[name][i] for name in ("multi_round", "k_seq", "otm", "recursive_rejection")]
            table.add(draft, target, *(f"{v:.4f}" for v in values))
            if target == 0.9:
                for label, v in zip(("multi-round", "K-SEQ", "OTM", "recursive rejection"), values):
                    series.setdefault(label, []).append((draft, v))
    table.notes.append("The paper's figure shows these closed forms; there is nothing to compare that could be otherwise. With two tokens "
                       "recursive rejection without replacement accepts always.")
    s.plot("Target Ber(0.9), two candidates", "the draft's chance", "acceptance rate", series)
    return table


def experiment(s, title, by_size, size_name, chain_of, models=None):
    models = models or {}
    ratio = DRAFT_SIZES[models.get("draft", "draft")] / (DRAFT_SIZES[models["target"]] if "target" in models else TARGET_SIZE)
    table = Table(title, ["setting", size_name, "method", "best tree", "nodes", "block efficiency", "MBSU", "token rate",
                          "perplexity", "ROUGE-2", "BLEU"])
    table.notes.append("The best tree of each method, of those that the paper tries, is the one of the largest block efficiency after other "
                       "prompts. The token rate is over that of autoregressive decoding. Perplexity, ROUGE-2 and BLEU against the text "
                       "that was held out stand for the accuracy of a task: all of these methods keep the target's law.")
    table.notes.append("\"1 / 0\" where the paper only shows a picture: the first is the higher one.")
    for setting, temperature, warp in SETTINGS:
        group = setting.split(":")[0]
        rates = s.rates((2, 3, 5, 7), temperature, **warp, **models)
        series = {}
        for size, (forks, trees) in by_size.items():
            offers = {SD: (chain_of(size),), **{method: tuple(fork(k, length) for k, length in forks) for method in (SPECTR, RSD_S)},
                      **{method: trees for method in (RSD_C, *BESIDE)}}
            efficiency, bound, speed = {}, {}, {}
            plain = {}
            for method, of_method in offers.items():
                tree = best_tree(s, method, of_method, temperature, {**warp, **models})
                runs = s.runs(method, tree, temperature, **warp, **models) if tree else []
                if not runs:
                    continue
                runs = with_scores(runs)
                efficiency[method] = estimate(runs, block_efficiency)
                bound[method] = estimate(runs, mbsu(depth_of(tree), ratio))
                speed[method] = estimate(s.timed(method, tree, temperature, **warp, **models), speed_up)
                plain[method] = estimate(runs, perplexity)
                table.add(setting, size, f"`{method}`", tree, nodes(tree), shown(efficiency[method]), shown(bound[method], 2),
                          shown(speed[method], 2), shown(plain[method], 2), shown(estimate(runs, rouge_2)), shown(estimate(runs, bleu), 2))
                series.setdefault(method, []).append((size, efficiency[method]))
            for method, label in ((SPECTR, "SpecTr"), (RSD_C, "RSD-C"), (SD, "SD")):
                for what, found, digits in (("block efficiency", efficiency, 3), ("MBSU", bound, 2), ("token rate", speed, 2)):
                    table.compare(f"{setting}, {size_name} {size}: {what}, RSD-S above {label}", (1, 0), found.get(RSD_S), found.get(method),
                                  digits, group=group, otherwise=ROWS_COST if what == "token rate" else "")
            table.compare(f"{setting}, {size_name} {size}: perplexity, RSD-S as SD", (1, 1), plain.get(RSD_S), plain.get(SD), 2, group=group)
        for n, values in rates.items():
            left, right = (estimate(values.get(name), mean) for name in ("recursive_rejection/sequential", "k_seq/iid"))
            table.compare(f"{setting}: rate of one node with {n} drafts, recursive rejection without replacement against K-SEQ", (1, 0), left,
                          right, group=group)
        s.plot(setting, size_name, "block efficiency", series, suffix="" if temperature == 0.3 else "_dolly")
    table.notes.append("Where SpecTr is above RSD-S, see the rates of one node in the comparisons: K-SEQ's can be the higher ones at "
                       "temperature 1.")
    return table


def best_tree(s, method, trees, temperature, more):
    """That of the largest block efficiency after other prompts; None where the method takes none of them."""
    if len(trees) == 1:
        return trees[0]
    found = {tree: estimate(s.choosing(method, tree, temperature, **more), block_efficiency, 2) for tree in trees}
    known = [tree for tree in trees if found[tree]]
    return max(known, key=lambda tree: found[tree].value, default=None)


@item("rsd.figure_4", PAPER, "experiment 1: draft lengths 2 to 5, trees of appendix C.3.1")
def figure_4(s):
    return experiment(s, "Fixed draft length (RSD, figure 4)", LENGTHS, "length", chain)


@item("rsd.figure_5", PAPER, "experiment 2: target budgets 6 to 30, trees of appendix C.3.2, plain speculative decoding at that length")
def figure_5(s):
    return experiment(s, "Fixed target budget (RSD, figure 5)", BUDGETS, "budget", chain)


not_here("rsd.figure_2", PAPER, "a diagram of the method", "it has no numbers")
not_here("rsd.figure_3", PAPER, "a diagram of trees", "it has no numbers")
@item("rsd.figure_6", PAPER, "figure 4 for a pair of other sizes: the target draft with draft-tiny")
def figure_6(s):
    return experiment(s, "Fixed draft length, the target draft with draft-tiny (RSD, figure 6)", LENGTHS, "length", chain, SMALLER_PAIR)


@item("rsd.figure_8", PAPER, "figure 5 for a pair of other sizes: the target draft with draft-tiny")
def figure_8(s):
    return experiment(s, "Fixed target budget, the target draft with draft-tiny (RSD, figure 8)", BUDGETS, "budget", chain, SMALLER_PAIR)


for number in (7, 9):
    not_here(f"rsd.figure_{number}", PAPER, "figures 4 and 5 for other pairs of models",
             "other models (OPT); figures 4, 5, 6 and 8 are made for the two pairs that are shipped")
for number in range(1, 43):
    not_here(f"rsd.table_{number}", PAPER, "the numbers behind figures 4 to 9, a model and a data set each",
             "models and data sets that are not shipped; the rows of rsd.figure_4 and rsd.figure_5 have the same columns")
