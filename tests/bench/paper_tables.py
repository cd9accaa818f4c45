#!/usr/bin/env python3
"""Tests bench/paper_tables without models: statistics, judgements, records of the machine, and a table of made-up runs.

  tests/bench/paper_tables.py ROOT
"""
import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(ROOT / "bench"))
sys.dont_write_bytecode = True
import importlib  # noqa: E402

from paper import core, estimates  # noqa: E402
from paper.estimates import Estimate, difference, estimate, holm, judge, value_of  # noqa: E402

for module in ("mcsd", "improving_mcsd", "optimal_mdsd", "mtad", "rsd", "sweep", "chat"):
    importlib.import_module(f"paper.{module}")

HERE = {"processor": "a processor", "commit": "abc"}


def texts(values, kind="satire"):
    return [value_of(kind, k, v) for k, v in enumerate(values)]


def run(tokens=100, calls=40, seed=0, **more):
    """A run as the program writes it."""
    dice = random.Random(seed)
    accepted = max(0, tokens - calls + dice.randrange(-5, 6))
    return {"tokens": tokens, "target_calls": calls + 1,
            "whole": {"tokens": accepted + calls, "target_calls": calls, "draft_calls": calls, "drafted": 4 * calls, "accepted": accepted},
            "tried_at_depth": [calls], "accepted_at_depth": [min(calls, accepted)], "won_by_start": [calls], "accepted_by_start": [accepted],
            "accepted_at_rank": [accepted], "nll": tokens * 1.5, "next_known": 1, "next_right": seed % 2, "text": "one two three four five",
            "reference": "one two three four six", **more}


class Statistics(unittest.TestCase):
    def test_texts_of_one_prompt_are_one_text(self):
        once = estimate(texts(range(20)), estimates.mean)
        thrice = estimate(texts(range(20)) * 3, estimates.mean)
        self.assertEqual(tuple(once), tuple(thrice))

    def test_kinds_are_strata(self):
        """The difference between kinds is no uncertainty."""
        found = estimate(texts([1.0] * 10, "a") + texts([5.0] * 10, "b"), estimates.mean)
        self.assertEqual(tuple(found), (3.0, 3.0, 3.0))

    def test_intervals_cover(self):
        """Of ratios of sums, at the setting of the tables: 36 prompts of three kinds, three texts of each."""
        dice = random.Random(7)
        held = 0
        for _ in range(100):
            sample = []
            for kind in "abc":
                for prompt in range(36):
                    level = dice.gauss(0, 0.3)
                    for _ in range(3):
                        calls = dice.randrange(30, 60)
                        sample.append({"kind": kind, "prompt": prompt, "runs": 1, "whole_target_calls": calls,
                                       "whole_tokens": calls * (2.5 + level + dice.gauss(0, 0.3))})
            _, low, high = Estimate(sample, estimates.block_efficiency, 200)
            held += low < 2.5 < high
        self.assertTrue(90 <= held <= 99, held)

    def test_a_difference_is_of_the_same_texts(self):
        noise = [random.Random(k).gauss(0, 10) for k in range(40)]
        left, right = (estimate(texts([x + d for x in noise]), estimates.mean) for d in (0.1, 0))
        found = difference(left, right)
        self.assertAlmostEqual(found.value, 0.1)
        self.assertLess(found.high - found.low, 1e-9)
        self.assertEqual(found.p, 0.0)
        self.assertEqual(difference(left, left).p, 1.0)
        with self.assertRaises(ValueError):
            difference(left, estimate(texts(noise[1:]), estimates.mean))

    def test_one_text_shows_nothing(self):
        self.assertEqual(difference(estimate(texts([1.0]), estimates.mean), estimate(texts([2.0]), estimates.mean)).p, 1.0)

    def test_a_chance_is_that_of_the_normal_law(self):
        dice = random.Random(3)
        of = lambda: Estimate(texts([dice.gauss(0, 1) for _ in range(40)]), estimates.mean, 400)
        small = sum(difference(of(), of()).p < 0.05 for _ in range(200))
        self.assertTrue(3 <= small <= 20, small)

    def test_rates_count_whole_steps(self):
        """A text whose last step is cut: 9 calls for 50 tokens, of which 8 are whole and accept all."""
        cut = run()
        cut |= {"tokens": 50, "target_calls": 9, "whole": {"tokens": 48, "target_calls": 8, "draft_calls": 40, "drafted": 40, "accepted": 40}}
        sums = [core.flat("satire", 3, cut)]
        self.assertEqual(estimate(sums, estimates.accepted_fraction(5)).value, 1.0)
        self.assertEqual(estimate(sums, estimates.block_efficiency).value, 6.0)
        self.assertAlmostEqual(estimate(sums, estimates.mbsu(5, 0.1)).value, 6 / 1.5)

    def test_holm(self):
        self.assertEqual(holm([0.01, 0.04, 0.03, 0.005]), [True, False, False, True])
        self.assertEqual(holm([0.05]), [True])
        self.assertEqual(holm([]), [])
        self.assertEqual(holm([0.04] * 2), [False] * 2)

    def test_zero_bases(self):
        self.assertIsNone(estimates.relative(0.0667, 0))
        self.assertEqual(estimates.relative(3.0, 2.0), 1.5)

    def test_scores(self):
        """The numbers are those of the packages rouge-score 0.1.2 and sacrebleu 2.6.0."""
        own = "The cat sat on the mat, and the dog lay beside it."
        other = "A cat sat on the mat while the dog was beside it!"
        (one,) = estimates.with_scores([core.flat("satire", 3, run(text=own, reference=other))])
        self.assertAlmostEqual(one["rouge_2"], 0.5454545, 6)
        self.assertAlmostEqual(one["rouge_l"], 0.75, 6)
        self.assertAlmostEqual(estimates.bleu(one), 40.637983, 4)
        (none,) = estimates.with_scores([core.flat("satire", 3, run(text="", reference=other))])
        self.assertEqual((none["rouge_2"], none["rouge_l"], estimates.bleu(none)), (0, 0, 0))
        (long,) = estimates.with_scores([core.flat("satire", 3, run(text="a b", reference="a b c d e f"))])
        self.assertEqual(long["rouge_l"], 1.0)  # the text ends where the limit of tokens is



def comparison(p, left=2.0, right=1.0, paper=(1, 0), mathematics=False):
    return {"what": "", "paper": list(paper), "here": [left, right], "difference": left - right, "p": p, "by_mathematics": mathematics,
            "group": "", "otherwise": ""}


class Judgements(unittest.TestCase):
    def test_a_sign_is_shown_for_all_comparisons_together(self):
        alone = [comparison(0.04)]
        self.assertEqual(judge(alone), ["same sign"])
        self.assertEqual(judge([*alone, comparison(0.5)]), ["no difference found"] * 2)
        self.assertEqual(judge([comparison(1e-6, 1.0, 2.0), comparison(1e-6)]), ["other sign", "same sign"])

    def test_what_cannot_be_otherwise_is_not_counted(self):
        found = judge([comparison(0.04), *[comparison(0.9, mathematics=True)] * 9])
        self.assertEqual(found, ["same sign"] + ["holds by mathematics"] * 9)
        self.assertNotIn("same sign", judge([comparison(0.0, mathematics=True)]))

    def test_a_method_that_was_not_run_has_no_verdict(self):
        table = core.Table("", [])
        table.compare("x", (1, 0), None, estimate(texts([1.0, 2.0]), estimates.mean))
        self.assertEqual(judge(table.comparisons), ["not run"])


class Machines(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name)

    def store(self, **made_with):
        path = self.out / "jobs.jsonl"
        job = {"method": "x"}
        path.write_text(json.dumps({"key": core.Runner.key(job), "job": job, "result": {"runs": []},
                                    "made_with": {**HERE, "date": "2026-11-25", **made_with}}) + "\n{cut off")
        return path, job

    def test_an_interrupted_run_goes_on(self):
        path, job = self.store()
        runner = core.Runner(path, False, HERE)
        self.assertEqual(runner(job), ({"runs": []}, {**HERE, "date": "2026-11-25"}))
        self.assertIsNone(runner.process)
        self.assertEqual(core.Runner(path, True, HERE).known, {})

    def test_counts_run_side_by_side_and_clocks_alone(self):
        program = self.out / "program.py"
        program.write_text("import json, sys\nfor line in sys.stdin:\n    job = json.loads(line)\n"
                           "    print(json.dumps({'runs': [job['method']]}), flush=True)\n")
        jobs = [{"method": k} for k in range(20)] + [{"method": 20, "timed": True}]
        runner = core.Runner(self.out / "new.jsonl", False, HERE)
        runner.start = lambda: [sys.executable, program]
        runner.ahead(jobs, 3)
        self.assertEqual({entry["job"]["method"] for entry in runner.known.values()}, set(range(20)))
        self.assertEqual(runner(jobs[20])[0], {"runs": [20]})
        again = core.Runner(self.out / "new.jsonl", False, HERE)
        again.start = lambda: self.fail("all is known")
        again.ahead(jobs, 3)
        self.assertEqual([again(job)[0]["runs"] for job in jobs], [[job["method"]] for job in jobs])
        runner.process.communicate("")

    def test_jobs_of_another_machine_or_commit_are_refused(self):
        for what in HERE:
            path, _ = self.store(**{what: "another"})
            with self.assertRaisesRegex(SystemExit, f"another {what}"):
                core.Runner(path, False, HERE)

    def test_a_table_of_two_machines_is_an_error(self):
        one = {**HERE, "date": "2026-11-25"}
        self.assertEqual(core.joined([one, {**one, "date": "2026-11-26"}])["date"], "2026-11-25 to 2026-11-26")
        for what in HERE:
            with self.assertRaisesRegex(SystemExit, what):
                core.joined([one, {**one, what: "another"}])

    def test_a_page_of_two_machines_is_an_error(self):
        table = core.Table("A table", ["x"])
        table.add("1")
        how = {**HERE, "date": "2026-11-25", "prompts": 36, "timed_prompts": 12, "tokens": 128, "seeds": 3}
        table.write(self.out, "mcsd.table_1", how)
        gather = [sys.executable, ROOT / "bench" / "paper_tables", "--gather", "--out", self.out]
        subprocess.run(gather, check=True)
        self.assertIn("Made at `abc`, 2026-11-25, a processor: 36 prompts of each of 3 kinds of text (12 for speeds)", (self.out / "README.md").read_text())
        table.write(self.out, "mcsd.table_2", {**how, "processor": "another"})
        done = subprocess.run(gather, capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("several machines", done.stderr)


class Tables(unittest.TestCase):
    def session(self, answer, of_chat=False):
        options = argparse.Namespace(prompts=4, timed_prompts=2, tokens=16, seeds=3)
        self.asked = []

        def ask(job):
            self.asked.append(job)
            return answer(job), {**HERE, "date": "2026-11-25"}

        found = (core.ChatSession if of_chat else core.Session)(ask, options, None)
        found.plot = lambda *a, **k: None
        return found

    def made_up(self, job):
        if "rates" in job:
            return {"rates": {str(n): {name: [0.4 + 0.01 * (k + n) for k in range(4)] for name in core.RATES} for n in job["rates"]}}
        if "bernoulli" in job:
            return {"rates": {n: [0.5] * len(job["bernoulli"]) for n in ("multi_round", "k_seq", "otm", "recursive_rejection")}}
        if "steps" in job:
            return {"accepted": [[3, 6]] * len(job["methods"])}
        clocks = {"seconds": 1.0, "plain_tokens": 200, "plain_seconds": 3.0} if job.get("timed") else {}
        calls = 60 if "autoregressive" in job["method"] else 40
        return {"runs": [run(100, calls, seed=k + job["request"], **clocks) for k in range(job["prompts"])]}

    def test_every_table_is_made_and_says_what_with(self):
        for name, item in core.ITEMS.items():
            if item.make is None or name == "sweep":
                continue
            with self.subTest(name):
                session = self.session(self.made_up, item.of_chat)
                with estimates.planning():
                    table, made_with = session.make(name)
                self.assertTrue(table.rows)
                setting = {"questions": 40, "tokens": 16} if item.of_chat else {"prompts": 4, "timed_prompts": 2, "tokens": 16, "seeds": 3}
                self.assertEqual(made_with, {**HERE, "date": "2026-11-25", **setting})
                # All that the paper has numbers or a conclusion of is compared.
                self.assertTrue(table.comparisons or name == "rsd.figure_1", "nothing is compared")
                for row in table.rows:
                    self.assertEqual(len(row), len(table.columns))

    def test_the_setting_is_that_of_the_tables(self):
        self.assertEqual((core.PROMPTS, core.TOKENS, core.SEEDS, len(core.KINDS)), (36, 128, 3, 3))
        session = self.session(self.made_up)
        runs = session.runs("m", "1x1", 1.0)
        self.assertEqual(len(runs), 3 * 4 * 3)
        self.assertEqual(sorted({job["request"] for job in self.asked}), [0, 1, 2])

    def test_a_chat_is_asked_each_held_out_question_once(self):
        session = self.session(self.made_up, of_chat=True)
        session.rates((1, 2), 0.7)
        asked = [question for job in self.asked for question in job["questions"]]
        self.assertEqual((len(self.asked), len(set(asked)), len(asked)), (10, 40, 40))

    def test_trees_and_thresholds_are_chosen_on_other_prompts(self):
        session = self.session(self.made_up)
        with estimates.planning():
            session.make("mtad.table_8")
        self.assertEqual({(job["first"], job["prompts"]) for job in self.asked}, {(core.FIRST, 4), (core.FIRST + 4, core.CHOOSING)})

    def test_counts_have_no_clock(self):
        session = self.session(self.made_up)
        with estimates.planning():
            session.make("optimal_mdsd.table_3")
        self.assertFalse([job for job in self.asked if job.get("timed")])

    def test_a_base_of_zero_is_no_divisor(self):
        """mtad.figure_4: the score of multinomial sampling is 0 where it never has the next word."""
        def answer(job):
            found = self.made_up(job)
            for one in found.get("runs", ()):
                if job["method"] == "autoregressive":
                    one |= {"next_right": 0, "text": "nothing alike"}
                else:
                    one["next_right"] = 1
            return found

        with estimates.planning():
            table, _ = self.session(answer).make("mtad.figure_4")
        for row in table.rows:
            self.assertEqual(row[3:], ["-", "-"])
            self.assertLess(float(row[2]), 100)

    def test_joint_decoding_of_one_token_is_multinomial_sampling(self):
        session = self.session(self.made_up)
        with estimates.planning():
            session.make("mtad.figure_1")
        self.assertEqual({job["tree"] for job in self.asked if job["method"] == "lossy/joint_decoding"}, {"1x1", "1x1x1", "1x1x1x1", "1x1x1x1x1"})
        self.assertTrue([job for job in self.asked if job["method"] == "autoregressive"])


if __name__ == "__main__":
    unittest.main(verbosity=1)
