#!/usr/bin/env python3
"""Medians of Google Benchmark's output, as a table: all that documents read of it.

  bench/support/medians.py FILE.json FILE.csv    writes the medians of one as the other

A line for each case: its name, times and counters. Mean, deviation and the single repetitions are left out.
A directory of results in which cases were renamed since has names.csv, "measured,now": the files keep the names that were
measured, and `medians` gives those of now.
"""
import csv
import json
import sys
from pathlib import Path

LEFT_OUT = ("name", "family_index", "per_family_instance_index", "run_type", "repetitions", "threads", "iterations", "aggregate_name",
            "aggregate_unit", "run_name")


def write_medians(source, target):
    data = json.loads(source.read_text(encoding="utf-8"))
    rows = [{"name": row["run_name"]} | {k: v for k, v in row.items() if k not in LEFT_OUT}
            for row in data["benchmarks"] if row.get("aggregate_name") == "median"]
    if "kokkos_space" in data["context"]:
        rows = [row | {"kokkos_space": data["context"]["kokkos_space"]} for row in rows]
    fields = list(dict.fromkeys(key for row in rows for key in row))
    with target.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fields, lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)


def medians(path):
    """{name of now, without the suffixes of clocks: {column: number, or text}}."""
    names = path.parent / "names.csv"
    renamed = {}
    if names.exists():
        with names.open(encoding="utf-8", newline="") as file:
            renamed = {row["measured"]: row["now"] for row in csv.DictReader(file)}
    found = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            case, slash, sizes = row["name"].partition("/V:")
            name = renamed.get(case, case) + slash + sizes
            found[name.replace("/real_time", "").replace("/manual_time", "")] = {k: number(v) for k, v in row.items() if v != ""}
    return found


def number(text):
    try:
        return float(text)
    except ValueError:
        return text


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    write_medians(Path(sys.argv[1]), Path(sys.argv[2]))
