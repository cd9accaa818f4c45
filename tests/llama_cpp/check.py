#!/usr/bin/env python3
"""Runs the program `llama-multidraft` as its users do, and checks what it prints.

check.py PROGRAM DIRECTORY_OF_GGUF_FILES
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM, MODELS = sys.argv[1], Path(sys.argv[2])
PROMPT = "And the LORD said unto Moses,"
PAIR = ("-m", str(MODELS / "target-f32.gguf"), "-md", str(MODELS / "draft-f32.gguf"), "-t", "1")
KEYS = {"method", "lossless", "text", "token_ids", "tokens", "target_calls", "draft_calls", "drafted", "whole_steps",
        "block_efficiency", "acceptance_rate", "acceptance_rate_by_depth", "acceptance_rate_by_rank", "seconds",
        "tokens_per_second", "seed", "stopped_by", "seconds_by_stage", "accepted_fraction", "tree"}
KEYS_OF_ONE_OF_MANY = {"prompt", "text", "token_ids", "tokens", "target_calls", "block_efficiency", "seconds_to_first_token",
                       "seconds", "seed", "request", "stopped_by"}
KEYS_OF_ALL = {"prompts", "parallel", "tokens", "seconds", "tokens_per_second", "seconds_per_token_median",
               "seconds_per_token_95", "steps", "drafted", "accepted", "seconds_by_stage", "errors"}


# Times that are kept are not the user's.
CACHE = tempfile.TemporaryDirectory()
os.environ["XDG_CACHE_HOME"] = CACHE.name


def run(*arguments, text=None):
    return subprocess.run([PROGRAM, *arguments], input=text, capture_output=True, text=True, timeout=300)


def objects(*arguments, text=None):
    done = run("--json", *arguments, text=text)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


class LlamaMultidraft(unittest.TestCase):
    def refused(self, *arguments, text=None):
        done = run(*arguments, text=text)
        self.assertNotEqual(done.returncode, 0, arguments)
        self.assertEqual(done.stdout, "", arguments)
        return done.stderr

    def test_json_of_a_run(self):
        (one,) = objects(*PAIR, "-p", PROMPT, "-n", "24", "-s", "5", "-c", "256", "--tree", "2x2x1")
        self.assertEqual(set(one), KEYS)
        self.assertEqual(one["tokens"], len(one["token_ids"]))
        self.assertEqual((one["seed"], one["tree"], one["lossless"]), (5, "2x2x1", True))
        self.assertEqual(one["method"], "nested_ranked_block/stratified")
        self.assertAlmostEqual(one["block_efficiency"], one["whole_steps"]["tokens"] / one["whole_steps"]["target_calls"])

    def test_prints_prompt_and_text_and_says_how_fast(self):
        plain = run(*PAIR, "-p", PROMPT, "-n", "20", "-s", "1")
        self.assertEqual(plain.returncode, 0, plain.stderr)
        self.assertTrue(plain.stdout.startswith(PROMPT))
        self.assertIn("block efficiency", plain.stderr)
        streamed = run(*PAIR, "-p", PROMPT, "-n", "20", "-s", "1", "--stream")
        self.assertEqual(streamed.stdout, plain.stdout)

    def test_prompts_from_files_and_standard_input(self):
        (one,) = objects(*PAIR, "-p", PROMPT, "-n", "8", "-s", "2")
        (piped,) = objects(*PAIR, "-p", "-", "-n", "8", "-s", "2", text=PROMPT)
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(PROMPT)
            file.flush()
            (read,) = objects(*PAIR, "-f", file.name, "-n", "8", "-s", "2")
        self.assertEqual(one["token_ids"], piped["token_ids"])
        self.assertEqual(one["token_ids"], read["token_ids"])

    def test_compares_every_method(self):
        rows = objects(*PAIR, "-p", PROMPT, "-n", "16", "--temp", "0", "--compare", "--tree", "2x1", "--ignore-eos",
                       "-fa", "off")  # which has half precision in places
        listed = json.loads(run("--list-methods", "--json").stdout)
        self.assertEqual([row["method"] for row in rows], [method["name"] for method in listed])
        for row in rows:
            self.assertTrue(row["same_text"], row["method"])
        table = run(*PAIR, "-p", PROMPT, "-n", "8", "--compare", "--tree", "1").stdout
        self.assertEqual(len(table.splitlines()), len(rows) + 1)

    def test_trees_are_chosen_at_each_step(self):
        common = (*PAIR, "-p", PROMPT, "-n", "24", "-c", "256", "-s", "3")
        for method in ("recursive_rejection/sequential", "block/iid", "spec_hub/top_paired", "auto"):
            (one,) = objects(*common, "--method", method, "--tree", "auto", "--budget", "6")
            self.assertEqual((one["method"], one["tree"]), (method, "auto"))
            self.assertEqual(sum(choice["steps"] for choice in one["trees"]), one["target_calls"])
        self.assertIn("[trees: ", run(*common, "--method", "auto").stderr)

    def test_the_defaults_are_those_of_generate(self):
        (one,) = objects(*PAIR, "-p", PROMPT, "-n", "4")
        self.assertEqual((one["method"], one["tree"]), ("nested_ranked_block/stratified", "auto"))
        (again,) = objects(*PAIR, "-p", PROMPT, "-n", "4", "--temp", "1", "--budget", "16", "-s", "0")
        self.assertEqual(one["costs"], again["costs"])
        self.assertEqual(os.path.commonpath([one["costs"], CACHE.name]), CACHE.name)
        (named,) = objects(*PAIR, "-p", PROMPT, "-n", "4", "--method", "block/iid")
        self.assertEqual((named["tree"], "costs" in named), ("1x1", False))
        (short,) = objects(*PAIR, "-p", PROMPT, "--ignore-eos", "--method", "autoregressive")
        self.assertEqual(short["tokens"], 128)

    def test_costs_of_a_file_fix_the_text(self):
        with tempfile.TemporaryDirectory() as directory:
            costs = ("--costs", directory + "/costs.json")
            texts = [objects(*PAIR, "-p", PROMPT, "-n", "24", "-c", "256", "--method", "auto", *costs)[0] for _ in range(2)]
            # The first run wrote the file; its numbers are read back without loss.
            self.assertEqual(texts[0]["token_ids"], texts[1]["token_ids"])
            self.assertEqual(texts[0]["trees"], texts[1]["trees"])
            self.assertIn("sampling is temperature above 0, not temperature 0", self.refused(*PAIR, "-p", PROMPT, "--temp", "0", *costs))
            self.assertIn("draft is draft-f32.gguf of ", self.refused(*PAIR[:2], "-md", PAIR[1], "-p", PROMPT, *costs))
            self.assertIn("holds no times of block/iid", self.refused(*PAIR, "-p", PROMPT, "--method", "block/iid", "--tree",
                                                                      "auto", *costs))

    def test_draws_without_a_draft_model(self):
        for method in ("autoregressive", "naive/lookup"):
            (one,) = objects(*PAIR[:2], "-p", PROMPT, "-n", "8", "--method", method)
            self.assertEqual(one["tokens"], 8)

    def test_seeds_and_repetitions(self):
        first = objects(*PAIR, "-p", PROMPT, "-n", "12", "-s", "3", "--repeat", "2")
        (second,) = objects(*PAIR, "-p", PROMPT, "-n", "12", "-s", "4")
        self.assertEqual(first[1]["token_ids"], second["token_ids"])
        self.assertNotEqual(first[0]["token_ids"], first[1]["token_ids"])

    def test_prompts_of_a_file_are_continued_together(self):
        lines = [PROMPT, "A philosopher is", "In the beginning", "the act of", "And he said"]
        common = (*PAIR, "-n", "16", "--temp", "0", "-c", "64", "-fa", "off", "--tree", "2x1")
        alone = [objects(*common, "-p", line)[0]["token_ids"] for line in lines]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "prompts"
            file.write_text("\n".join(lines[:2] + [""] + lines[2:]) + "\n", encoding="utf-8")
            for parallel in ("1", "2", "8"):
                *found, whole = objects(*common, "--prompt-file", str(file), "--parallel", parallel)
                self.assertEqual([one["token_ids"] for one in found], alone)
                self.assertEqual([(one["prompt"], one["request"]) for one in found], list(zip(lines, range(5))))
                self.assertEqual([set(one) for one in found], [KEYS_OF_ONE_OF_MANY] * 5)
                self.assertEqual((set(whole), whole["prompts"], whole["parallel"]), (KEYS_OF_ALL, 5, int(parallel)))
                self.assertEqual((whole["tokens"], whole["errors"]), (sum(len(tokens) for tokens in alone), 0))
            plain = run(*common, "--prompt-file", str(file))
            self.assertEqual(plain.returncode, 0, plain.stderr)
            self.assertIn("5 prompts, 4 at a time", plain.stderr)
            places = [plain.stdout.index(line) for line in lines]
            self.assertEqual(places, sorted(places))
            # Without a draft model, and by trees that share a budget.
            *found, whole = objects(*PAIR[:2], *common[6:-2], "--prompt-file", str(file), "--method", "autoregressive")
            self.assertEqual(([one["token_ids"] for one in found], whole["drafted"]), (alone, 0))
            *found, whole = objects(*common[:-2], "--prompt-file", str(file), "--tree", "auto", "--budget", "4")
            self.assertEqual([one["token_ids"] for one in found], alone)
            # Other draws for each prompt, the same for each seed.
            file.write_text("\n".join([PROMPT] * 3), encoding="utf-8")
            twice = [objects(*PAIR, "-n", "12", "-s", "3", "--tree", "2x1", "--prompt-file", str(file))[:-1] for _ in range(2)]
            self.assertEqual([one["token_ids"] for one in twice[0]], [one["token_ids"] for one in twice[1]])
            self.assertEqual(len({tuple(one["token_ids"]) for one in twice[0]}), 3)

    def test_a_prompt_that_is_too_long_ends_alone(self):
        common = (*PAIR, "-n", "8", "--temp", "0", "-c", "40", "-fa", "off", "--tree", "2x1", "--json")
        (alone,) = objects(*common, "-p", PROMPT)
        for json_flag in (True, False):
            done = run(*common[:len(common) if json_flag else -1], "--prompt-file", "-", "--parallel", "2",
                       text="\n".join([PROMPT, PROMPT * 20, PROMPT]))
            self.assertEqual(done.returncode, 1)
            if json_flag:
                first, long, last, whole = map(json.loads, done.stdout.splitlines())
                self.assertEqual((first["token_ids"], last["token_ids"]), (alone["token_ids"], alone["token_ids"]))
                self.assertEqual((long["stopped_by"], long["token_ids"], whole["errors"]), ("error", [], 1))
                self.assertEqual(set(long), KEYS_OF_ONE_OF_MANY | {"error"})
                self.assertIn("longer than the model's context", long["error"])
            else:
                self.assertIn("llama-multidraft: prompt 2: ", done.stderr)

    def test_chat_templates(self):
        (one,) = objects(*PAIR, "-p", "Hello", "-n", "4", "-s", "2", "--chat-template", "chatml", "-sys", "Be brief.")
        (same,) = objects(*PAIR, "-n", "4", "-s", "2", "-p", "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello"
                          "<|im_end|>\n<|im_start|>assistant\n")
        self.assertEqual(one["token_ids"], same["token_ids"])
        self.assertIn("no chat template", self.refused(*PAIR, "-p", "Hello", "--chat"))

    def test_what_cannot_be_is_refused(self):
        for arguments, words in (
                (("-p", PROMPT), "--model"),
                ((*PAIR[:2], "-p", PROMPT), "--model-draft"),
                (PAIR, "--prompt or --file"),
                ((*PAIR, "-p", PROMPT, "--method", "nothing"), "no such method"),
                ((*PAIR, "-p", PROMPT, "--temp", "-1"), "--temp -1: "),
                ((*PAIR, "-p", PROMPT, "--top-p", "2"), "--top-p 2: "),
                ((*PAIR, "-p", PROMPT, "--tree", "2xx"), "shape"),
                ((*PAIR, "-p", PROMPT, "--tree", "2x2", "--method", "speculative_sampling/iid"), "chains only"),
                ((*PAIR, "-p", PROMPT, "--seed", "-1"), "whole number"),
                ((*PAIR, "-p", PROMPT, "-n", "-1"), "--predict -1: "),
                ((*PAIR, "-p", PROMPT * 100, "-c", "64"), "context"),
                ((*PAIR, "-f", "/nowhere"), "/nowhere"),
                ((*PAIR, "-p", PROMPT, "--method", "auto", "--tree", "1x1"), "name no --tree"),
                ((*PAIR, "-p", PROMPT, "--tree", "auto", "--method", "naive/best_first"), "not chosen by their shape"),
                ((*PAIR, "-p", PROMPT, "--tree", "auto", "--method", "multi_path_block/iid"), "part at the root"),
                ((*PAIR, "-p", PROMPT, "--tree", "auto", "--compare"), "not for --compare"),
                ((*PAIR, "-p", PROMPT, "--tree", "1x1", "--costs", "/tmp/none.json"), "for --tree auto"),
                ((*PAIR, "-p", PROMPT, "--tree", "1x1", "--budget", "3"), "for --tree auto"),
                ((*PAIR, "--prompt-file", "/nowhere"), "--prompt-file /nowhere: cannot be read"),
                ((*PAIR, "--prompt-file", "-", "--stream"), "--prompt-file: not with"),
                ((*PAIR, "--prompt-file", "-", "--method", "block/iid"), "not by block/iid"),
                ((*PAIR, "--prompt-file", "-", "-n", "-1"), "--predict -1: "),
                ((*PAIR, "--prompt-file", "-", "--tree", "9x8", "--parallel", "8"), "one for each leaf"),
                ((*PAIR, "-p", PROMPT, "--parallel", "2"), "--prompt-file"),
                (("-m", "/nowhere.gguf", *PAIR[2:], "-p", PROMPT), "/nowhere.gguf"),
                (("-m", str(MODELS / "recurrent.gguf"), *PAIR[2:], "-p", PROMPT), "recurrent"),
                ((*PAIR[:2], "-md", str(MODELS / "other_vocabulary.gguf"), "-p", PROMPT), "token 300 "),
                ((*PAIR, "-p", PROMPT, "--cache-type", "i8"), "--cache-type"),
        ):
            with self.subTest(words):
                self.assertIn(words, self.refused(*arguments, text="A man\nHe\nAnd\nBut\n"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
