#!/usr/bin/env python3
"""Tests bench/device: its stages, what it plans, and random batches over the stand-in, with a planted difference.

  tests/bench/device.py ROOT [PROGRAM]     PROGRAM: bench/cuda_parity.cu over the stand-in
"""
import importlib.machinery
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(sys.argv.pop(1)).resolve()
PROGRAM = Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else None
sys.path.insert(0, str(ROOT / "bench"))
sys.dont_write_bytecode = True
from support.stages import Failed, Skipped, Stages, run  # noqa: E402

loader = importlib.machinery.SourceFileLoader("device", str(ROOT / "bench" / "device"))
device = importlib.util.module_from_spec(importlib.util.spec_from_loader("device", loader))
loader.exec_module(device)


class Bookkeeping(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.out = Path(self.folder.name)
        self.now = 0.0

    def tearDown(self):
        self.folder.cleanup()

    def stages(self, seconds):
        return Stages(self.out, seconds, clock=lambda: self.now, show=lambda *_, **__: None)

    def lines(self):
        return [json.loads(line) for line in (self.out / "stages.jsonl").read_text().splitlines()]

    def test_a_stage_that_fails_does_not_stop_the_others(self):
        stages = self.stages(100)

        def fail(kind):
            def work(_):
                raise kind("because")
            return work
        stages("first", 10, 1, fail(Failed))
        stages("second", 10, 1, fail(Skipped))
        stages("third", 10, 1, fail(KeyError))
        stages("fourth", 10, 1, lambda _: "seen")
        self.assertEqual([(line["stage"], line["status"], line["reason"]) for line in self.lines()],
                         [("first", "failed", "because"), ("second", "skipped", "because"), ("third", "failed", "KeyError: 'because'"),
                          ("fourth", "ok", "seen")])

    def test_stages_for_which_no_time_is_left_are_skipped(self):
        stages = self.stages(100)
        deadlines = []

        def work(deadline):
            deadlines.append(deadline)
            self.now += 45
        for _ in range(3):
            stages("stage", 60, 20, work)
        self.assertEqual(deadlines, [60, 100])
        self.assertEqual([line["status"] for line in self.lines()], ["ok", "ok", "skipped"])
        self.assertEqual(self.lines()[0]["seconds"], 45)

    def test_a_command_is_killed_at_its_limit(self):
        begin = time.monotonic()
        with self.assertRaisesRegex(Failed, "ran over its limit"):
            run(["sh", "-c", "sleep 30 & sleep 30"], self.out / "log", time.monotonic() + 0.3)
        self.assertLess(time.monotonic() - begin, 20)

    def test_a_command_that_fails_says_what_it_said_last(self):
        with self.assertRaisesRegex(Failed, "status 3: the reason"):
            run(["sh", "-c", "echo the reason; exit 3"], self.out / "log", time.monotonic() + 10)
        with self.assertRaisesRegex(Failed, "No such file"):
            run(["/nowhere/at/all"], self.out / "log", time.monotonic() + 10)


class Plan(unittest.TestCase):
    def test_only_what_the_stages_need_is_built(self):
        names = lambda *stages: [p.name for p in device.programs_of(stages, False)]  # noqa: E731
        self.assertEqual(names("device", "python"), [])
        self.assertEqual(names("times"), [f"times_{method}" for method in device.TIMED] + ["cuda_baseline", "cuda_bench"])
        self.assertEqual(len(names("tests")), len(device.TESTS))
        self.assertEqual(names("sanitizers"), ["parity_recursive_rejection_sequential_bfloat16", "trees_test"])
        self.assertEqual(len(set(names(*device.STAGES))), len(names(*device.STAGES)))

    def test_all_tests_on_a_device_are_planned(self):
        there = {path.name.removesuffix("_test.cu") for path in (ROOT / "tests" / "cuda").glob("*_test.cu")}
        self.assertEqual(there, set(device.TESTS))

    def test_sources_and_methods_are_there(self):
        listed = (ROOT / "include" / "multidraft" / "methods" / "list.hpp").read_text()
        for program in device.programs_of(list(device.STAGES), False):
            self.assertTrue((ROOT / program.source).exists(), program.source)
        for method in [*(method for method, _ in device.METHODS), *device.TIMED]:
            self.assertIn(f"struct {method} ", listed)

    def test_a_rehearsal_writes_how_each_stage_ended(self):
        with tempfile.TemporaryDirectory() as folder:
            stages = ["device", "tests", "sanitizers", "times", "transformer", "python"]
            done = subprocess.run([sys.executable, ROOT / "bench" / "device", "--standin", "--out", folder, "--only", *stages],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            lines = [json.loads(line) for line in (Path(folder) / "stages.jsonl").read_text().splitlines()]
            self.assertEqual([line["stage"] for line in lines], stages)
            self.assertEqual([line["status"] for line in lines], ["ok"] + ["skipped"] * 5)
            self.assertIn("no times", json.loads((Path(folder) / "device.jsonl").read_text())["device"])


@unittest.skipIf(PROGRAM is None, "no program")
class Batches(unittest.TestCase):
    def found(self, *arguments):
        done = subprocess.run([PROGRAM, "--vocabulary", "400", *arguments], capture_output=True, text=True)
        return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr

    def test_batches_are_those_of_the_host(self):
        status, found = self.found("--batches", "4", "--seed", "5")
        self.assertEqual((status, found["batches"], found["difference"]), (0, 4, ""))
        self.assertGreater(found["requests"], 0)

    def test_a_planted_difference_is_found_and_its_seed_repeats_it(self):
        status, found = self.found("--batches", "4", "--seed", "5", "--plant", "2")
        self.assertEqual((status, found["batches"]), (1, 3))
        self.assertTrue(found["difference"].startswith("seed 7: next["), found["difference"])
        status, again = self.found("--batches", "1", "--seed", "7", "--plant", "0")
        self.assertEqual((status, again["difference"]), (1, found["difference"]))

    def test_bad_options_are_refused(self):
        status, said = self.found("--batch", "4")
        self.assertEqual(status, 2)
        self.assertIn("unknown option --batch", said)


if __name__ == "__main__":
    unittest.main()
