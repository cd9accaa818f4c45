"""Our methods against those of the papers on every tree of a sweep."""
from paper.core import *

SWEEP = {6: ("3x1", "2x1x1"), 10: ("2x2x1", "5x1"), 14: ("2x2x2", "2x2x1x1"), 21: ("3x2x2", "7x2"),
         30: ("2x2x2x2", "6x1x1x1x1")}

PUBLISHED = ("recursive_rejection/iid", "recursive_rejection/sequential", "traversal/iid", "traversal/sequential",
             "multi_path_block/iid")
RANKED = ("ranked_block/stratified", "nested_ranked_block/iid", OURS)

@item("sweep", "ours", "every tree of a sweep: ours against the best lossless methods of the papers, step by step on the same texts")
def sweep(s):
    """Every tree of a sweep: ours against the best lossless methods of the papers, step by step on the same texts."""
    table = Table("Accepted tokens of a step at a position of the target's own text, on every tree of a sweep",
                  ["temperature", "budget", "tree", *(f"`{m}`" for m in PUBLISHED + RANKED), "best published",
                   "best of ours", "difference", f"`{OURS}` less the best published"])
    table.notes += [
        "Every method drafts and verifies one tree at each position of texts that the target generated, the same for all: "
        f"{s.options.prompts} prompts of each of {len(KINDS)} kinds, {s.options.tokens} tokens each, "
        f"{s.options.seeds} seeds at each position. Methods of one law verify the same trees.",
        "A difference is of the same texts, its interval over the same resamples of prompts: one that leaves out 0 is in "
        "bold; of 40 without a difference two would be, by chance. The best are those with the largest mean here, of ours of "
        f"{len(RANKED)} methods, published of {len(PUBLISHED)}, which favours each side a little; the last column "
        "chooses among the published only.",
        "Positions are weighted equally. A generation begins fewer steps where much is accepted, so it usually has somewhat "
        "fewer accepted tokens a call. At temperature 0 the trees are drawn at 0.1.", ""]
    series = {}
    for temperature in (0.0, 0.3, 0.6, 1.0):
        counts = {name: [0, 0, 0] for name in ("the best of ours", f"`{OURS}`")}
        for budget, trees in SWEEP.items():
            for tree in trees:
                methods = [m for m in PUBLISHED + RANKED
                           if not m.startswith("multi_path") or set(tree.split("x")[1:]) == {"1"}]
                found = s.steps(methods, tree, temperature)
                if not found:
                    continue
                means = {m: mean_of([v["value"] for v in values]) for m, values in found.items()}
                published, ranked = (max((m for m in names if m in means), key=means.get)
                                     for names in (PUBLISHED, RANKED))
                differences = []
                for name, own in zip(counts, (ranked, OURS)):
                    less = [{**a, "value": a["value"] - b["value"]} for a, b in zip(found[own], found[published])]
                    value, low, high = estimate(less, mean, 4000)
                    bold = "**" if low > 0 or high < 0 else ""
                    counts[name][0 if low > 0 else 2 if high < 0 else 1] += 1
                    differences.append(f"{bold}{value:+.3f} [{low:+.3f}, {high:+.3f}]{bold}")
                table.add(temperature, budget, tree,
                          *(shown(estimate(found[m], mean)) if m in found else "-" for m in PUBLISHED + RANKED),
                          f"`{published}`", f"`{ranked}`", *differences)
                if temperature == 1.0:
                    for method, value in means.items():
                        points = series.setdefault(method, {})
                        points[budget] = max(points.get(budget, 0), value)
        table.notes.append(f"- Temperature {temperature}: " + "; ".join(
            f"{name} above the best published on {above} of {above + same + below} trees, below on {below}, no difference "
            f"found on {same}" for name, (above, same, below) in counts.items()) + ".")
    s.plot("Accepted tokens of a step, temperature 1, the better of two trees", "nodes of the tree",
              "accepted tokens", {m: sorted(points.items()) for m, points in series.items()})
    return table
