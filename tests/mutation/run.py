#!/usr/bin/env python3
"""Changes one thing in a header, builds the tests that should notice, and says which changes they did not notice.

run.py [--compiler CXX] [--jobs N] [--pick N] [--list] [--methods] [HEADER..]

HEADER is relative to include/multidraft/ (default: the verifiers and samplers of tests/mutation/README.md). A change is
an operator, a constant, a purpose or two swapped arguments. `--pick N` tries N of all changes, spread evenly: what CI
does. Changes that survive and are listed in survivors.txt, with the reason, are no failure.
"""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
INCLUDE = ROOT / "include"
HEADERS = ["verify/recursive_rejection.hpp", "verify/naive.hpp", "verify/residual.hpp", "verify/node_by_node.hpp",
           "draft/sequential.hpp", "draft/iid.hpp"]
# The quick ones first; the first that fails settles it. Proofs are optimised, or they would take longer to run than to compile.
TESTS = {"verify": ["verify/edges_test.cpp", "verify/rounding_test.cpp", "verify/recorded_methods_test.cpp", "proof/lossless_test.cpp"],
         "draft": ["draft/samplers_test.cpp", "verify/recorded_methods_test.cpp", "proof/lossless_test.cpp"]}
REFUSED = ["verify/refused_methods_test.cpp", "verify/rounding_methods_test.cpp"]
RANKED = ["verify/recorded_methods_test.cpp", *REFUSED]
RANKED = ["verify/recorded_methods_test.cpp", *REFUSED]
FURTHER = ["verify/recorded_methods_test.cpp", "verify/recorded_draws_test.cpp", *REFUSED]
TESTS_OF = {
    "verify/ranked.hpp": [*RANKED, "proof/ranked_test.cpp"],
    "verify/detail/rank_table.hpp": [*RANKED, "proof/ranked_test.cpp", "proof/ranked_block_test.cpp"],
    "verify/detail/left_curtain_coupling.hpp": [*RANKED, "proof/ranked_test.cpp"],
    "verify/detail/ranked_pick.hpp": [*RANKED, "proof/ranked_block_test.cpp"],
    "verify/ranked_block.hpp": [*RANKED, "proof/ranked_block_test.cpp"],
    "verify/nested_ranked_block.hpp": [*RANKED, "proof/nested_ranked_block_test.cpp"],
    "verify/detail/nested_walk.hpp": [*RANKED, "proof/nested_ranked_block_test.cpp"],
    "verify/block.hpp": [*FURTHER, "proof/block_test.cpp"],
    "verify/detail/block_weights.hpp": [*FURTHER, "proof/block_test.cpp"],
    "verify/traversal.hpp": [*FURTHER, "proof/traversal_test.cpp"],
    "verify/multi_path_block.hpp": [*FURTHER, "proof/multi_path_block_test.cpp"],
    "verify/multi_round.hpp": [*FURTHER, "proof/multi_round_test.cpp"],
    "verify/shared_randomness.hpp": [*FURTHER, "proof/shared_randomness_test.cpp"],
    "verify/k_seq.hpp": [*FURTHER, "proof/one_node_test.cpp"],
    "verify/greedy_optimal.hpp": [*FURTHER, "proof/one_node_test.cpp"],
    "verify/residual.hpp": ["verify/emit_test.cpp", *FURTHER],
    "rows/truncation.hpp": ["rows/select_test.cpp", "rows/softmax_test.cpp"],
    "rows/softmax.hpp": ["rows/softmax_test.cpp", "verify/emit_test.cpp"],
    "draft/stratified.hpp": ["verify/recorded_methods_test.cpp", "draft/stratified_test.cpp",
                             "proof/one_node_test.cpp"],
    "draft/gumbel_top_k.hpp": ["draft/samplers_test.cpp", "verify/recorded_methods_test.cpp", "proof/gumbel_top_k_test.cpp"],
    "draft/stochastic_beam.hpp": ["verify/recorded_methods_test.cpp", "verify/recorded_draws_test.cpp", "decode/beams_test.cpp"],
    "draft/conditional_poisson.hpp": ["verify/recorded_methods_test.cpp", "verify/recorded_draws_test.cpp", "proof/conditional_poisson_test.cpp",
                                      "research/optimal_transport_test.cpp"],
}


def listed():
    """The samplers and verifiers of the library's lists of methods."""
    text = (INCLUDE / "multidraft/methods/list.hpp").read_text(encoding="utf-8")
    return re.findall(r'#include "multidraft/((?:draft|verify)/\w+\.hpp)"', text)


CHANGES = [
    (r"(?<=[\w)\]]) < (?=[\w(])", [" <= ", " > "]), (r" <= ", [" < "]), (r"(?<=[\w)\]]) > (?=[\w(])", [" >= ", " < "]),
    (r" >= ", [" > "]), (r" == ", [" != "]), (r" != ", [" == "]),
    (r" \+ ", [" - "]), (r"(?<=[\w)\]]) - (?=[\w(])", [" + "]), (r"(?<=[\w)\]]) \* (?=[\w(])", [" / "]),
    (r" / ", [" * "]), (r" \+= ", [" -= ", " = "]), (r" -= ", [" += "]), (r" && ", [" || "]), (r" \|\| ", [" && "]),
    (r"\(!\(", ["(("]), (r"\(-c,", ["(c,"]), (r"(?<=[(,{ ])0(?=[),};])", ["1"]), (r"(?<=[(,{ ])1(?=[),};])", ["0", "2"]),
    (r"\b0\.125\b", ["0.5", "0"]), (r"\+\+", ["--"]), (r"\bnone\b(?!,? *\w*\()", ["0"]),
    (r"purpose::(acceptance|residual|naive|draft)\b", ["purpose::shape", "purpose::acceptance", "purpose::residual"]),
    (r"\bp(?=[,(}])", ["q"]), (r"\bq(?=[,(}.])", ["p"]), (r"\bpx\b", ["qx"]), (r"\bqx\b", ["px"]),
    (r"\bcandidates\.first\(k \+ 1\)", ["candidates.first(k)", "candidates"]),
    (r"\bout\.first\(k \+ 1\)", ["out.first(k)"]), (r"\bout\.first\(k\)", ["{}"]), (r"\btaken\b(?=,)", ["{}"]),
]
NO_CODE = re.compile(r"^\s*(#|//|static_assert|template|\[\[nodiscard\]\] MULTIDRAFT_HD|MULTIDRAFT_HD|requires|using |\")")


def changes_of(name):
    """[(line number, old line, new line)]"""
    result, in_assert = [], False
    for number, line in enumerate((INCLUDE / "multidraft" / name).read_text(encoding="utf-8").splitlines()):
        code = line.split(" //")[0]
        in_assert = in_assert or code.lstrip().startswith("static_assert")
        skip = in_assert or NO_CODE.match(code) or "refuse(" in code or "operator()" in code
        if in_assert and code.rstrip().endswith(";"):
            in_assert = False
        if skip:
            continue
        for pattern, replacements in CHANGES:
            for match in re.finditer(pattern, code):
                for new in replacements:
                    changed = code[:match.start()] + new + code[match.end():]
                    if changed != code and (number, line, changed) not in result:
                        result.append((number, line, changed))
    return result


def judge(name, change, compiler):
    """"killed by ..", "does not compile" or "survived"."""
    number, _, new = change
    with tempfile.TemporaryDirectory() as directory:
        lines = (INCLUDE / "multidraft" / name).read_text(encoding="utf-8").splitlines()
        lines[number] = new
        header = Path(directory, "multidraft", name)
        header.parent.mkdir(parents=True)
        header.write_text("\n".join(lines) + "\n", encoding="utf-8")
        program = Path(directory, "test")
        for test in TESTS_OF[name] if name in TESTS_OF else TESTS[name.split("/")[0]]:
            command = [compiler, "-std=c++20", "-O1" if "proof" in test else "-O0", "-march=native", "-w", "-I", directory, "-I", INCLUDE, "-I", ROOT / "tests",
                       f'-DMULTIDRAFT_DATA_DIR="{ROOT}/tests/data"', ROOT / "tests" / test, "-o", program,
                       "-lgtest", "-lgtest_main", "-lpthread"]
            if subprocess.run(command, capture_output=True).returncode != 0:
                return "does not compile"
            try:
                # A change may also hang or eat memory.
                ran = subprocess.run(["bash", "-c", f"ulimit -v 4000000; exec {program} --gtest_fail_fast --gtest_brief=1"],
                                     capture_output=True, timeout=90)
            except subprocess.TimeoutExpired:
                return f"killed by {test} (time)"
            if ran.returncode != 0:
                return f"killed by {test}"
    return "survived"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", default=os.environ.get("CXX", "g++"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--pick", type=int, default=0)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--methods", action="store_true", help="the headers of all methods of multidraft/methods/list.hpp")
    parser.add_argument("--verbose", action="store_true", help="every answer as it comes")
    parser.add_argument("headers", nargs="*")
    options = parser.parse_args()

    work = [(name, change) for name in (listed() if options.methods else options.headers or HEADERS) for change in changes_of(name)]
    if options.pick:
        work = [work[(2 * k + 1) * len(work) // (2 * options.pick)] for k in range(min(options.pick, len(work)))]
    if options.list:
        for name, (number, old, new) in work:
            print(f"{name}:{number + 1}: {old.strip()}  ->  {new.strip()}")
        return 0
    explained = set()
    for line in Path(__file__).with_name("survivors.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            explained.add(line)
    counts, unexplained = {}, 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        answers = pool.map(lambda item: judge(*item, options.compiler), work)
        for (name, (number, old, new)), answer in zip(work, answers):
            key = f"{name}: {old.strip()}  ->  {new.strip()}"
            if answer == "survived" and key in explained:
                answer = "survived, explained"
            counts[answer] = counts.get(answer, 0) + 1
            if options.verbose:
                print(f"{name}:{number + 1}: {answer}", flush=True)
            if answer == "survived":
                unexplained += 1
                print(f"SURVIVED {name}:{number + 1}\n{key}", flush=True)
    for answer, count in sorted(counts.items()):
        print(f"{count:5d} {answer}")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
