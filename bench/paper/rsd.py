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
    s.plot("Target Ber(0.9), two candidates", "the draft's chance", "acceptance rate", series)
    return table


def experiment(s, title, by_size, size_name, chain_of):
    table = Table(title, ["setting", size_name, "method", "best tree", "nodes", "block efficiency", "MBSU", "token rate",
                          "perplexity"])
    table.notes.append("The best tree of each method by block efficiency, of those that the paper tries. The token rate is over that "
                       "of autoregressive decoding. Perplexity stands for the accuracy of a task: all of these methods keep the "
                       "target's law.")
    for setting, temperature, warp in SETTINGS:
        series = {}
        for size, (forks, trees) in by_size.items():
            best = {}
            offers = [(SD, chain_of(size))]
            offers += [(method, fork(k, l)) for method in (SPECTR, RSD_S) for k, l in forks]
            offers += [(method, tree) for method in (RSD_C, *BESIDE) for tree in trees]
            for method, tree in offers:
                runs = s.runs(method, tree, temperature, **warp)
                if runs and (method not in best or block_efficiency(runs) > block_efficiency(best[method][1])):
                    best[method] = (tree, runs)
            for method, (tree, runs) in best.items():
                efficiency = interval(runs, block_efficiency)
                table.add(setting, size, f"`{method}`", tree, nodes(tree), shown(efficiency),
                          f"{mbsu(depth_of(tree))(runs):.2f}", f"{speed_up(runs):.2f}x", shown(interval(runs, perplexity), 2))
                series.setdefault(method, []).append((size, efficiency))
            pick = lambda method: interval(best[method][1], block_efficiency) if method in best else None
            for method, label in ((SPECTR, "SpecTr"), (RSD_C, "RSD-C"), (SD, "SD")):
                table.compare(f"{setting}, {size_name} {size}: RSD-S above {label}", (1, 0), pick(RSD_S), pick(method),
                              otherwise="of all comparisons of this experiment two or three are wrong by chance")
        s.plot(setting, size_name, "block efficiency", series, suffix="" if temperature == 0.3 else "_dolly")
    table.notes.append("\"1 / 0\" where the paper only shows a picture: the first is the higher one.")
    return table


@item("rsd.figure_4", PAPER, "experiment 1: draft lengths 2 to 5, trees of appendix C.3.1")
def figure_4(s):
    return experiment(s, "Fixed draft length (RSD, figure 4)", LENGTHS, "length", chain)


@item("rsd.figure_5", PAPER, "experiment 2: target budgets 6 to 30, trees of appendix C.3.2, plain speculative decoding at that length")
def figure_5(s):
    return experiment(s, "Fixed target budget (RSD, figure 5)", BUDGETS, "budget", chain)


not_here("rsd.figure_2", PAPER, "a diagram of the method", "it has no numbers")
not_here("rsd.figure_3", PAPER, "a diagram of trees", "it has no numbers")
for number in (6, 7, 8, 9):
    not_here(f"rsd.figure_{number}", PAPER, "figures 4 and 5 for other pairs of models",
             "other models (Llama 2 7B and 13B, OPT); figures 4 and 5 are made for the shipped pair")
for number in range(1, 43):
    not_here(f"rsd.table_{number}", PAPER, "the numbers behind figures 4 to 9, a model and a data set each",
             "models and data sets that are not shipped; the rows of rsd.figure_4 and rsd.figure_5 have the same columns")
