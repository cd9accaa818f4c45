"""Rates of single nodes on a chat model and its block drafter, at a vocabulary of 49,152 tokens."""
from paper.core import *
from paper.mcsd import COUNTS, WITHOUT
from paper.optimal_mdsd import CURVES, ROWS, compare_at_temperatures, compare_by_count, curves, gap

PAPER = "on SmolLM2-135M-Instruct"
TEMPERATURES = (0.0, 0.7, 1.0)


@item("chat.mcsd_figure_5", PAPER, "MCSD, figure 5: acceptance rate by k = 1 .. 32, and of the ranked verifier")
def mcsd_figure_5(s):
    table = Table("Acceptance rate by k (MCSD, figure 5)", ["method", "temperature", *(f"k = {n}" for n in COUNTS)])
    table.notes.append("Rates of k candidates at one node. Those of `ranked/stratified`, ours, are the part of 32 trials at each row that accepted one.")
    series = {}
    for temperature in TEMPERATURES:
        found = s.rates(COUNTS, temperature)
        for name in (WITHOUT, "naive/deterministic", "ranked/stratified"):
            ends = [estimate(found[n][name], mean) for n in COUNTS]
            table.add(f"`{name}`", temperature, *map(shown, ends))
            series[f"{name}, T = {temperature:g}"] = list(zip(COUNTS, ends))
        table.compare(f"temperature {temperature:g}: k from 1 to 2 adds more than from 16 to 32 (the rate converges)", (1, 0),
                      gap(found[2][WITHOUT], found[1][WITHOUT]), gap(found[32][WITHOUT], found[16][WITHOUT]))
    s.plot(table.title, "k", "acceptance rate", series, log_x=True)
    return table


@item("chat.optimal_mdsd_table_1", PAPER, "Optimal MDSD, table 1: acceptance rates at one node and their bounds, 3 drafts")
def optimal_mdsd_table_1(s):
    table = Table("Acceptance rates of one node and their bounds, 3 drafts (Optimal MDSD, table 1)",
                  ["draft", "method", *(f"temperature {t:g}{what}" for t in TEMPERATURES[1:] for what in ("", ", less alpha*"))])
    table.notes.append("Rates and exact bounds of the same rows. Those of Verify and ranked are measured, the part of 32 trials at each row that "
                       "accepted a draft; the others are exact, RRS without replacement within 0.001.")
    at = {t: s.rates((3,), t)[3] for t in TEMPERATURES[1:]}
    for law, method, name, bound in ROWS:
        cells = []
        for of in at.values():
            cells += [shown(estimate(of[name], mean)), "" if name == bound else shown(gap(of[name], of[bound]))]
        table.add(law, method, *cells)
    for t, of in at.items():
        rate = lambda name, of=of: estimate(of[name], mean)
        table.compare(f"temperature {t:g}: with replacement, K-SEQ against RRS (LLaMA, Alpaca)", (71.9, 71.6), rate("k_seq/iid"),
                      rate("recursive_rejection/iid"))
        table.compare(f"temperature {t:g}: RRS without against with replacement", (75.7, 71.6), rate("recursive_rejection/sequential"),
                      rate("recursive_rejection/iid"))
        table.compare(f"temperature {t:g}: greedy against alpha* without replacement", (78.4, 76.5), rate("greedy_optimal/top_then_one"),
                      rate("bound/sequential"))
    return table


@item("chat.optimal_mdsd_figure_1", PAPER, "Optimal MDSD, figure 1: acceptance rate of one node by temperature, 3 drafts")
def optimal_mdsd_figure_1(s):
    table = Table("Acceptance rate by temperature, 3 drafts (Optimal MDSD, figure 1)", ["temperature", *(f"`{c}`" for c in CURVES)])
    of = curves(s, table, [(t, 3, t) for t in (0.0, 0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.2)], "temperature", table.title)
    compare_at_temperatures(table, of)
    return table


@item("chat.optimal_mdsd_figure_2", PAPER, "Optimal MDSD, figure 2: acceptance rate of one node by the number of drafts, temperature 0.7")
def optimal_mdsd_figure_2(s):
    table = Table("Acceptance rate by the number of drafts, temperature 0.7 (Optimal MDSD, figure 2)", ["drafts", *(f"`{c}`" for c in CURVES)])
    of = curves(s, table, [(n, n, 0.7) for n in range(1, 9)], "drafts", table.title)
    compare_by_count(table, of)
    return table
