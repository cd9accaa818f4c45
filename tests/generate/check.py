#!/usr/bin/env python3
"""Runs the program `generate` as its users do, and checks what it prints.

check.py PROGRAM MODELS_DIRECTORY
"""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM, MODELS = sys.argv[1], Path(sys.argv[2])
PROMPT = "And the LORD said unto Moses,"
KEYS = {"method", "lossless", "text", "token_ids", "tokens", "target_calls", "draft_calls", "block_efficiency",
        "acceptance_rate", "seconds", "tokens_per_second", "seed"}


def run(*arguments, text=None):
    return subprocess.run([PROGRAM, *arguments], input=text, capture_output=True, text=True, timeout=300)


def objects(*arguments, text=None):
    done = run("--json", *arguments, text=text)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


class Generate(unittest.TestCase):
    def methods(self):
        return json.loads(run("--list-methods", "--json").stdout)

    def test_lists_its_methods(self):
        listed = self.methods()
        self.assertGreaterEqual(len(listed), 8)
        for method in listed:
            self.assertEqual(set(method), {"name", "lossless", "law", "summary"})
        for method in listed:
            self.assertIn(method["name"], run("--list-methods").stdout)

    def test_without_arguments_it_continues_a_shipped_prompt(self):
        done = run()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(len(done.stdout.split()), 50)
        self.assertIn("tokens/s", done.stderr)

    def test_json_of_a_run(self):
        (one,) = objects("--prompt", PROMPT, "--tokens", "24", "--seed", "5")
        self.assertLessEqual(KEYS, set(one))
        self.assertEqual(one["tokens"], len(one["token_ids"]))
        self.assertEqual(one["seed"], 5)
        self.assertEqual(one["method"], "recursive_rejection/sequential")
        self.assertNotIn(PROMPT, one["text"])
        self.assertAlmostEqual(one["block_efficiency"], one["tokens"] / one["target_calls"])

    def test_temperature_0_gives_one_text_with_every_lossless_method(self):
        for tree in ("1x1", "4x2x1"):
            texts = {}
            for method in self.methods():
                if method["lossless"]:
                    shape = ["--tree", "1x1x1" if method["name"].startswith("speculative_sampling") else tree]
                    (one,) = objects("--prompt", PROMPT, "--tokens", "80", "--temperature", "0", "--method", method["name"], *shape)
                    texts[method["name"]] = one["token_ids"]
            for name, tokens in texts.items():
                self.assertEqual(tokens, texts["autoregressive"], name)

    def test_seeds(self):
        first = objects("--prompt", PROMPT, "--tokens", "32", "--seed", "3", "--repeat", "3")
        again = objects("--prompt", PROMPT, "--tokens", "32", "--seed", "4", "--repeat", "2")
        self.assertEqual([one["seed"] for one in first], [3, 4, 5])
        self.assertEqual([one["token_ids"] for one in first[1:]], [one["token_ids"] for one in again])
        self.assertNotEqual(first[0]["token_ids"], first[1]["token_ids"])

    def test_streams_what_it_prints_otherwise(self):
        plain = run("--prompt", PROMPT, "--tokens", "40")
        streamed = run("--prompt", PROMPT, "--tokens", "40", "--stream")
        self.assertEqual(plain.stdout, streamed.stdout)
        self.assertTrue(plain.stdout.startswith(PROMPT))

    def test_reads_the_prompt_from_standard_input(self):
        (one,) = objects("--prompt", "-", "--tokens", "20", text=PROMPT)
        (other,) = objects("--prompt", PROMPT, "--tokens", "20")
        self.assertEqual(one["token_ids"], other["token_ids"])

    def test_compares(self):
        rows = objects("--compare", "--prompts", "1", "--tokens", "24", "--temperature", "0")
        self.assertEqual(rows[0]["method"], "autoregressive")
        for row in rows:
            self.assertEqual(row["same_text"], row["runs"], row["method"])
        table = run("--compare", "--prompt", PROMPT, "--tokens", "16").stdout
        for word in ("tokens/s", "speed-up", "block eff.", "recursive_rejection/sequential"):
            self.assertIn(word, table)

    def refused(self, *arguments):
        done = run(*arguments)
        self.assertNotEqual(done.returncode, 0, arguments)
        self.assertEqual(done.stdout, "", arguments)
        return done.stderr

    def test_bad_input_is_named(self):
        self.assertIn("no such method", self.refused("--method", "magic"))
        self.assertIn("temperature = -1", self.refused("--temperature", "-1"))
        self.assertIn("top_p = 2", self.refused("--top-p", "2"))
        self.assertIn("min_p", self.refused("--min-p", "nan"))
        self.assertIn("top_k = -3", self.refused("--top-k", "-3"))
        self.assertIn("chains only", self.refused("--method", "speculative_sampling/iid", "--tree", "2x1"))
        self.refused("--tree", "4x0")
        self.refused("--tree", "abc")
        self.assertIn("max_tokens = -5", self.refused("--tokens", "-5"))
        self.assertIn("prompt", self.refused("--prompt", "word " * 3000))
        self.refused("--repeat", "0")
        self.refused("--target", "/nowhere")

    def test_bad_models_are_named(self):
        with tempfile.TemporaryDirectory() as directory:
            copy = Path(directory)
            for name in ("config.json", "model.safetensors"):
                (copy / name).write_bytes((MODELS / "draft" / name).read_bytes())
            weights = (copy / "model.safetensors").read_bytes()
            (copy / "model.safetensors").write_bytes(weights[:-100])
            self.assertIn("model.safetensors", self.refused("--draft", directory))
            config = json.loads((copy / "config.json").read_text())
            config["vocab_size"] = 4000
            (copy / "config.json").write_text(json.dumps(config))
            (copy / "model.safetensors").write_bytes(weights)
            self.refused("--draft", directory)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
