"""The program `sharded` emits the same tokens for any number of ranks and on one host.

check.py SHARDED MPIEXEC NUMPROC_FLAG
"""

import json
import subprocess
import sys

CASES = [
    ["--method", "nested_ranked_block/stratified", "--temperature", "0.8"],
    ["--method", "ranked_block/iid", "--top-p", "0.9"],
    ["--method", "recursive_rejection/sequential", "--top-k", "40", "--draft-in-shards"],
    ["--method", "naive/deterministic", "--temperature", "0"],
    ["--method", "traversal/sequential", "--min-p", "0.01"],
]
COMMON = ["--vocabulary", "50257", "--requests", "3", "--tree", "3x2x1", "--seed", "5", "--json"]


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def main():
    program, mpiexec, flag = sys.argv[1:]
    for case in CASES:
        host = run([program, *COMMON, *case, "--host"])
        for ranks in (1, 3, 8):
            here = run([mpiexec, flag, str(ranks), program, *COMMON, *case])
            for key in ("tokens", "accepted"):
                if here[key] != host[key]:
                    sys.exit(f"{case} on {ranks} ranks: {key} {here[key]}, not {host[key]}")
            if ranks > 1 and not 0 < here["bytes_per_rank"] < here["gathered_bytes"]:
                sys.exit(f"{case} on {ranks} ranks: {here['bytes_per_rank']} bytes of {here['gathered_bytes']}")
    bad = subprocess.run([program, "--host", "--method", "none"], capture_output=True, text=True, check=False)
    if bad.returncode != 1 or "no method has this name" not in bad.stderr:
        sys.exit(f"an unknown method: {bad.returncode} {bad.stderr}")
    bad = subprocess.run([program, "--host", "--method", "block/iid", "--tree", "2x1"], capture_output=True, text=True, check=False)
    if bad.returncode != 1 or "block/iid takes chains only" not in bad.stderr:
        sys.exit(f"a tree that a method does not take: {bad.returncode} {bad.stderr}")
    # Refused at once, with the reason.
    for options, said in (
        (["--seed", "-1"], "--seed"),
        (["--seed", "18446744073709551616"], "more than 2^64 - 1"),
        (["--tree", "chain:1000000"], "1000000 drafted nodes, and a tree has at most 4096"),
        (["--tree", "1000x1000"], "1001000 drafted nodes"),
        (["--tree", "64x8", "--vocabulary", "16777216"], "entries of rows, and a model has at most"),
        (["--requests", "65536"], "entries of rows, and a model has at most"),
    ):
        bad = subprocess.run([program, "--host", *options], capture_output=True, text=True, timeout=20, check=False)
        if bad.returncode == 0 or said not in bad.stderr:
            sys.exit(f"{options}: {bad.returncode} {bad.stderr}")
    # A deep tree takes as long as its rows, no longer.
    deep = ["--host", "--tree", "chain:4096", "--vocabulary", "100", "--method", "block/iid", "--requests", "2"]
    done = subprocess.run([program, *deep], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        sys.exit(f"{deep}: {done.returncode} {done.stderr}")


if __name__ == "__main__":
    main()
