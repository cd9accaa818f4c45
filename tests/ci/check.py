#!/usr/bin/env python3
"""Checks the workflow of hosted CI: its form, and that its jobs run each step of .ci/run once, and nothing else.

check.py --root ROOT [--self-test]

With actionlint, where that is installed. Exit status 77 (skipped) without PyYAML.
"""
import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

SKIPPED = 77
WORKFLOW = ".github/workflows/ci.yml"
EVENTS = {"push", "pull_request", "workflow_dispatch"}
# {key: (type, whether it has to be there)}
OF_WORKFLOW = {"name": (str, True), "on": (dict, True), "permissions": (dict, True), "concurrency": (dict, False), "jobs": (dict, True)}
OF_JOB = {"name": (str, True), "runs-on": (str, True), "container": (str, False), "timeout-minutes": (int, True), "steps": (list, True)}
OF_STEP = {"name": (str, False), "uses": (str, False), "run": (str, False), "if": (str, False), "with": (dict, False)}


def faults_of_keys(where, mapping, known):
    if not isinstance(mapping, dict):
        return [f"{where}: is no mapping"]
    faults = [f"{where}: unknown key {key}" for key in mapping if key not in known]
    for key, (kind, needed) in known.items():
        if key not in mapping:
            faults += [f"{where}: has no {key}"] if needed else []
        elif not isinstance(mapping[key], kind):
            faults.append(f"{where}: {key} is {mapping[key]!r}, not of type {kind.__name__}")
    return faults


def faults_of(workflow, steps):
    """Of a workflow as it was read, and the names of the steps of .ci/run."""
    if isinstance(workflow, dict):
        workflow = {"on" if key is True else key: value for key, value in workflow.items()}  # YAML 1.1 reads `on` so
    faults = faults_of_keys("workflow", workflow, OF_WORKFLOW)
    if faults:
        return faults
    faults += [f"on: unknown event {event}" for event in workflow["on"] if event not in EVENTS]
    found = {}
    for name, job in workflow["jobs"].items():
        wrong = faults_of_keys(name, job, OF_JOB)
        faults += wrong
        if wrong:
            continue
        first, ran = None, False
        for number, step in enumerate(job["steps"]):
            where = f"{name}, step {number + 1}"
            wrong = faults_of_keys(where, step, OF_STEP)
            faults += wrong
            if wrong:
                continue
            first = first or step.get("uses", "")
            if ("uses" in step) == ("run" in step):
                faults.append(f"{where}: needs either uses or run")
            elif "uses" in step and not re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"]):
                faults.append(f"{where}: {step['uses']} is no action with a version")
            elif "run" in step:
                call = re.fullmatch(r"\.ci/run((?: [a-z]+)+)", step["run"].strip())
                if not call:
                    faults.append(f"{where}: `{step['run'].strip()}` is no call of .ci/run with steps")
                for one in call[1].split() if call else ():
                    ran = True
                    if one not in steps:
                        faults.append(f"{where}: .ci/run has no step {one}")
                    elif one in found:
                        faults.append(f"{where}: the step {one} is in the job {found[one]}, too")
                    found[one] = name
        if not (first or "").startswith("actions/checkout@"):
            faults.append(f"{name}: does not begin with actions/checkout")
        if not ran:
            faults.append(f"{name}: calls no step of .ci/run")
    faults += [f".ci/run: no job has the step {one}" for one in steps if one not in found]
    # Benchmarks are programs of the build of the tests.
    if found.get("benchmarks") != found.get("tests"):
        faults.append("benchmarks are not in the job of tests, which builds them")
    return faults


def check(root, yaml):
    script = root / ".ci/run"
    steps = subprocess.run([script, "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    with (root / WORKFLOW).open(encoding="utf-8") as file:
        faults = faults_of(yaml.safe_load(file), steps)
    defined = set(re.findall(r"^run_(\w+)\(\)", script.read_text(encoding="utf-8"), re.MULTILINE)) - {"tools", "skipped", "summary"}
    if len(steps) < 5 or defined != set(steps) - {"packages"}:  # packages are a part of tests
        faults.append(f".ci/run: defines {sorted(defined)}, and lists {steps}")
    refused = subprocess.run([script, steps[0], "nonsense"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if refused.returncode != 2 or "no step nonsense" not in refused.stdout:
        faults.append(f".ci/run nonsense: status {refused.returncode}, {refused.stdout}")
    actionlint = shutil.which("actionlint") or shutil.which("actionlint", path=root / "build/tools/bin")
    if actionlint:
        done = subprocess.run([actionlint, root / WORKFLOW], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        faults += [done.stdout] if done.returncode else []
    print(*faults, f"{len(steps)} steps, {len(faults)} faults" + ("" if actionlint else ", no actionlint"), sep="\n")
    return 1 if faults else 0


def self_test(root, yaml):
    text = (root / WORKFLOW).read_text(encoding="utf-8")
    steps = subprocess.run([root / ".ci/run", "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    cases = [("", "", None),
             ("run: .ci/run llama", "run: .ci/run lama", "has no step lama"),
             ("run: .ci/run llama", "run: .ci/run llama arm", "the step arm is in the job"),
             (" threads fuzzing", " threads", "no job has the step fuzzing"),
             ("run: .ci/run arm", "run: tools/arm", "is no call of .ci/run"),
             ("run: .ci/run arm", "run: .ci/run", "is no call of .ci/run"),
             ("run: .ci/run windows", "run: .ci/run window", "has no step window"),
             ("tests benchmarks", "tests", "no job has the step benchmarks"),
             ("runs-on: ubuntu-24.04", "runs_on: ubuntu-24.04", "unknown key runs_on"),
             ("timeout-minutes: 60", "timeout-minutes: an hour", "timeout-minutes is 'an hour'"),
             ("      - uses: actions/checkout@v4\n", "", "does not begin with actions/checkout"),
             ("actions/checkout@v4", "actions/checkout", "no action with a version"),
             ("pull_request:", "pull_requests:", "unknown event pull_requests"),
             ("permissions:\n  contents: read\n", "", "has no permissions")]
    wrong = 0
    for old, new, wanted in cases:
        assert old in text, old
        found = faults_of(yaml.safe_load(text.replace(old, new, 1) if old else text), steps)
        if (found and wanted is None) or (wanted is not None and not any(wanted in one for one in found)):
            wrong += 1
            print(f"{old!r} to {new!r}: expected {wanted!r}, got {found}")
    print(f"{len(cases)} planted, {wrong} wrong")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", required=True, type=Path)
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    try:
        import yaml
    except ImportError:
        print("skipped: there is no PyYAML (python3-yaml)")
        return SKIPPED
    return self_test(options.root, yaml) if options.self_test else check(options.root, yaml)


if __name__ == "__main__":
    sys.exit(main())
