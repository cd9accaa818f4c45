#!/usr/bin/env python3
"""Turns a directory of results (bench/run) into the tables of docs/benchmarks.md.

report.py DIRECTORY            prints Markdown
report.py DIRECTORY --compare  prints the table of methods by the shipped models (bench/run --compare: bench/results/end_to_end)
report.py DIRECTORY --kokkos   prints the table of the host group next to Kokkos only
report.py DIRECTORY --truncation prints the table of truncated rows (bench/run --only sample
                               'logits_processing|softmax_normaliser' bench/results/truncation)
report.py DIRECTORY --device   prints the tables of a CUDA device (bench/device: bench/results/device)
report.py DIRECTORY --prepared prints the tables of prepared rows (bench/run --only batch /V: bench/results/prepared_rows)
"""
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from support.medians import medians  # noqa: E402

TEMPERATURES = ("0", "0.7", "1")
VOCABULARIES = (4096, 32000, 128256)


def comparison(directory, temperature):
    path = directory / f"temperature_{temperature}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def table(header, rows):
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def report_kokkos(path):
    """The host group next to Kokkos, for a batch of 8 requests."""
    rows = medians(path)
    space = next(iter(rows.values()))["kokkos_space"]
    cases = [(f"verify trees of {n} nodes from logits, V = {v:,}", f"verify_{{}}/V:{v}/nodes:{n}", "/team:0")
             for v in (32000, 128256) for n in (8, 64)]
    cases += [(f"draft 4 children, V = {v:,}", f"draft_{{}}/V:{v}", "/team:0") for v in (32000, 128256)]
    cases += [(f"packed masks of {n} nodes", f"mask_{{}}/nodes:{n}", "") for n in (8, 64)]
    lines = []
    for title, name, team in cases:
        host, kokkos = rows[name.format("on_host")]["real_time"], rows[name.format("with_kokkos") + team]["real_time"]
        lines.append([title, f"{host:.3g} us", f"{kokkos:.3g} us", f"{kokkos / host:.2f}"])
    table(["8 requests", "host group", f"Kokkos ({space})", "Kokkos / host"], lines)


def times_by_vocabulary(title, rows, name):
    return [title] + [f"{rows[name.format(v)]['real_time']:.3g} us" for v in VOCABULARIES]


def report_truncation(path):
    """Logits to a distribution: normaliser, threshold and chunk sums of one row."""
    rows = medians(path)
    table(["logits of one row to its distribution", *(f"V = {v:,}" for v in VOCABULARIES)],
          [times_by_vocabulary(title, rows, f"{name}/V:{{}}") for title, name in (
              ("all tokens: the softmax normaliser (the baseline)", "softmax_normaliser"),
              ("temperature 0", "logits_processing/greedy"),
              ("top-k 50", "logits_processing/top_k_50"),
              ("temperature 0.7, top-k 20 and top-p 0.8", "logits_processing/top_k_20_top_p_0_8"),
              ("top-p 0.9 at temperature 0.2: fewer than 64 tokens", "logits_processing/top_p_0_9_of_few_tokens"),
              ("top-p 0.9 at temperature 1: thousands of tokens", "logits_processing/top_p_0_9"),
              ("min-p 0.05", "logits_processing/min_p_0_05"))])


def report_prepared(path):
    """The pass over rows, and verification with and without it, for 8 requests of 16 nodes; CPU time."""
    rows = medians(path)
    sizes = (32000, 128256)
    at = lambda name, v: rows[f"{name}/V:{v}/requests:8/nodes:16"]  # noqa: E731
    def rate(row):
        return f"{row['cpu_time'] / 1000:.2f} ms, {row['bytes_per_second'] / 1e9:.1f} GB/s ({100 * row['of_machine']:.0f} %)"
    table(["one pass over 128 rows of the target", *(f"V = {v:,}" for v in sizes)],
          [[title] + [rate(at(name, v)) for v in sizes] for title, name in (
              ("softmax in plain loops (the baseline)", "softmax_in_plain_loops"),
              ("softmax, written out", "softmax_written"),
              ("`prepare_batch`, temperature 0.7", "prepare_target_rows/temperature"),
              ("the same with top-k 50 and top-p 0.9", "prepare_target_rows/top_k_50_top_p_0_9"),
              ("the same, and `runs`", "prepare_target_rows/top_k_50_top_p_0_9_with_runs"),
              ("`prepare_batch`, temperature 0", "prepare_target_rows/temperature_0"),
              ("`predict_batch`", "predict_target_rows"))])
    ways = ("rows_read_by_the_walk", "walk_alone", "rows_and_walk")
    samplings = (("temperature 0.7", "temperature"), ("top-k 50 and top-p 0.9", "top_k_50_top_p_0_9"), ("temperature 0", "temperature_0"))
    for v in sizes:
        table([f"verifying 8 trees of 16 nodes, V = {v:,}", "the walk reads the rows", "walk over prepared rows", "both models' rows and the walk"],
              [[f"`{verifier}`, {title}"] + [f"{at(f'{verifier}/{sampling}/{way}', v)['cpu_time'] / 1000:.3g} ms" for way in ways]
               for verifier in ("recursive_rejection", "nested_ranked_block") for title, sampling in samplings] +
              [["`verify_predictions`, temperature 0", "-", "-", f"{at('predict_and_verify_predictions', v)['cpu_time'] / 1000:.3g} ms"]])


def json_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("{")]


def report_device(directory):
    """Calls over bfloat16 logits by requests and nodes; and kernels of engines beside ours, over float logits."""
    times = {(row["call"], row["method"], row["requests"], row["nodes"], row["vocabulary"]): row["us"]
             for row in json_lines(directory / "times.jsonl") if "us" in row}
    shapes = [(1, 16), (1, 64), (8, 64), (64, 64), (256, 64)]
    show = lambda us: "-" if us is None else f"{us:.0f} us" if us < 10000 else f"{us / 1000:.1f} ms"  # noqa: E731
    lossless = {"recursive_rejection": "sequential", "traversal": "sequential", "ranked_block": "stratified", "nested_ranked_block": "stratified"}
    for v in (128256, 32000):
        calls = [("softmax of all rows, written out: one block a row, plain loops (the baseline)", "plain softmax", "baseline"),
                 ("all rows sorted by CUB", "segmented sort of CUB", "baseline"),
                 ("`prepare_batch`", "prepare_batch", "recursive_rejection/sequential"),
                 ("`draft_batch`, `sequential`", "draft_batch", "recursive_rejection/sequential"),
                 ("`draft_batch`, `stratified`", "draft_batch", "nested_ranked_block/stratified")]
        calls += [(f"`verify_batch`, `{name}`, {title}", call, f"{name}/{law}") for name, law in lossless.items()
                  for title, call in (("prepared rows", "verify_batch, prepared rows"), ("from logits", "verify_batch"))]
        table([f"on a device, V = {v:,}, requests of nodes", *(f"{r} of {n}" for r, n in shapes)],
              [[title] + [show(times.get((call, method, r, n, v))) for r, n in shapes] for title, call, method in calls])
    engines = {(row["call"], row["method"], row["requests"], row["nodes"], row["vocabulary"]): row["us"]
               for row in json_lines(directory / "engines.jsonl") if "us" in row}
    cases = [(r, v) for v in (128256, 32000) for r in (1, 8, 64)]
    softmax = "FlashInfer: softmax of the target's rows"
    for title, method, nodes, theirs in (("chains of 4 drafts", "speculative_sampling/iid", 5, "FlashInfer: chain_speculative_sampling"),
                                         ("trees of 64 nodes, matching", "naive/deterministic", 64,
                                          "SGLang: tree_speculative_sampling_target_only")):
        at = lambda call, r, v: engines[call, method, r, nodes, v]  # noqa: E731, B023
        table([f"verifying {title}, requests and V", *(f"{r}, {v:,}" for r, v in cases)],
              [["FlashInfer's softmax of the target's rows"] + [show(at(softmax, r, v)) for r, v in cases],
               [theirs.replace(": ", "'s `").replace("s's", "s'") + "`"] + [show(at(theirs, r, v)) for r, v in cases],
               ["`verify_batch`, from logits"] + [show(at("ours: verify from logits", r, v)) for r, v in cases]])


def report_methods(directory):
    """Each method on the same prompts."""
    runs = {t: comparison(directory, t) for t in TEMPERATURES}
    names = [row["method"] for row in runs["1"]]
    table(["method", "tree"] + [f"speed-up, block efficiency at temperature {t}" for t in TEMPERATURES],
          [[f"`{name}`", runs["1"][i]["tree"] or "-"] +
           [f"{runs[t][i]['speed_up']:.2f}x, {runs[t][i]['block_efficiency']:.2f}" for t in TEMPERATURES]
           for i, name in enumerate(names)])


def main():
    if len(sys.argv) == 3 and sys.argv[2] == "--device":
        report_device(Path(sys.argv[1]))
        return
    if len(sys.argv) == 3 and sys.argv[2] == "--truncation":
        report_truncation(Path(sys.argv[1]) / "sample.csv")
        return
    if len(sys.argv) == 3 and sys.argv[2] == "--prepared":
        report_prepared(Path(sys.argv[1]) / "batch.csv")
        return
    if len(sys.argv) == 3 and sys.argv[2] == "--kokkos":
        report_kokkos(Path(sys.argv[1]) / "kokkos.csv")
        return
    if len(sys.argv) == 3 and sys.argv[2] == "--compare":
        report_methods(Path(sys.argv[1]))
        return
    directory = Path(sys.argv[1])
    verify, sample, step = (medians(directory / f"{n}.csv") for n in ("verify", "sample", "step"))
    row = times_by_vocabulary
    table(["one thread", *(f"V = {v:,}" for v in VOCABULARIES)], [
        row("sum of max(p - q, 0), 64 free accumulators (the baseline)", verify, "plain_sum/V:{}"),
        row("one rejection: the residual's mass and chunk sums", verify, "rejection_pass/V:{}"),
        row("one acceptance", verify, "acceptance/V:{}"),
        row("softmax, written out", sample, "softmax_written/V:{}"),
        row("softmax, normaliser only", sample, "softmax_normaliser/V:{}"),
        row("logits to 4 tokens, `iid`", sample, "draw<draft::iid>/V:{}/children:4"),
        row("logits to 4 tokens, `sequential`", sample, "draw<draft::sequential>/V:{}/children:4"),
        row("logits to 4 tokens, `gumbel_top_k`", sample, "draw<draft::gumbel_top_k>/V:{}/children:4"),
        row("verification of a 4x2x2x1 tree from logits", verify, "tree_from_logits/V:{}"),
    ])
    table(["library's share of a step", *(f"V = {v:,}" for v in VOCABULARIES)],
          [[f"`sequential`, {shape}: sampling + mask + verification"] +
           [f"{step[f'sequential/{shape}/V:{v}']['us_a_step']:.3g} us" for v in VOCABULARIES] for shape in ("chain_4", "4x2x2x1")])

    table(["ranked verification at one node, 4 `iid` draws, from probabilities", *(f"V = {v:,}" for v in VOCABULARIES)], [
        row("one sort by p/q (the baseline of the exact form)", verify, "ratio_sort/V:{}"),
        row("`ranked`, exact", verify, "node<multidraft::testing::reference::ranked<law::iid>, draft::iid>/V:{}/children:4"),
        row("one rejection (the baseline of the histogram form)", verify, "rejection_pass/V:{}"),
        row("its histogram", verify, "ratio_histogram<float>/V:{}"),
        row("`ranked`", verify, "node<verify::ranked<law::iid>, draft::iid>/V:{}/children:4"),
        row("its histogram, temperature 0.6 and top-p 0.9", verify, "ratio_histogram<float, true>/V:{}"),
        row("`ranked`, temperature 0.6 and top-p 0.9", verify,
            "node<verify::ranked<law::iid>, draft::iid, true>/V:{}/children:4")])

    if (directory / "tree.csv").exists():
        tree = medians(directory / "tree.csv")
        table(["one verdict of a whole tree, from probabilities", *(f"V = {v:,}" for v in VOCABULARIES)], [
            row(title, tree, name + "/V:{}") for title, name in (
                ("chain of 4: `speculative_sampling`", "speculative_sampling_of_a_chain"),
                ("chain of 4: `block`", "block_of_a_chain"),
                ("4x2x2x1: `recursive_rejection`", "recursive_rejection_of_a_tree"),
                ("4x2x2x1: `traversal`", "traversal_of_a_tree"),
                ("4x2x2x1: traversal, written out", "traversal_written_out"),
                ("4 chains of 4: `traversal`", "traversal_of_a_fork"),
                ("4 chains of 4: `multi_path_block`", "multi_path_block_of_a_fork"),
                ("4x2x2x1: one rejection at every inner node (the baseline of the next three)",
                 "rejection_at_every_inner_node"),
                ("4x2x2x1: `ranked_block`", "ranked_block_of_a_tree"),
                ("4x2x2x1: `nested_ranked_block`", "nested_ranked_block_of_a_tree"),
                ("4x2x2x1: `nested_ranked_block`, temperature 0.6 and top-p 0.9",
                 "nested_ranked_block_of_a_cut_tree"),
                ("4x2x2x1: `shared_randomness`", "shared_randomness_of_a_tree"))])
    if (directory / "kokkos.csv").exists():
        report_kokkos(directory / "kokkos.csv")

    forward = medians(directory / "transformer.csv")
    rows_ = [r for r in (1, 2, 4, 7, 8, 16, 32, 64) if f"forward/automatic/model:0/rows:{r}/threads:1" in forward]
    table(["forward call, bf16, one thread", *(f"{r} rows" for r in rows_)],
          [[model] + [f"{forward[f'forward/automatic/model:{i}/rows:{r}/threads:1']['real_time']:.0f} us" for r in rows_]
           for i, model in enumerate(("target", "draft", "draft-tiny"))])


if __name__ == "__main__":
    main()
