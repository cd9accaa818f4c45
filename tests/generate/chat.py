#!/usr/bin/env python3
"""Talks with a model through `generate --chat` and checks what it answers.

chat.py PROGRAM [GGUF]    with a small model of random weights, or with SmolLM2-135M-Instruct
"""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import tiny_gguf

PROGRAM = sys.argv[1]
REAL = sys.argv[2] if len(sys.argv) > 2 else None


def run(*arguments, text=""):
    done = subprocess.run([PROGRAM, *map(str, arguments)], input=text.encode(), capture_output=True, timeout=600)
    done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
    return done


def objects(*arguments, text=""):
    done = run("--json", *arguments, text=text)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


class Small(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = Path(cls.folder.name) / "model.gguf"
        tiny_gguf.write(cls.model)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_drafts_from_the_text_change_nothing(self):
        common = ("--target", self.model, "--tokens", "40", "--precision", "f32")
        for more in (("--temperature", "0"), ("--temperature", "1", "--seed", "3")):
            for chat in (("--chat", "hello hello"), ("--prompt", "hello hello")):
                (drafted,) = objects(*common, *more, *chat)
                (plain,) = objects(*common, *more, *chat, "--method", "autoregressive")
                self.assertEqual((drafted["method"], drafted["lossless"]), ("naive/lookup", True))
                self.assertEqual((plain["method"], plain["target_calls"]), ("autoregressive", plain["tokens"]))
                if more[1] == "0":
                    self.assertEqual(drafted["token_ids"], plain["token_ids"])
                self.assertEqual(drafted["tokens"], len(drafted["token_ids"]))
                self.assertEqual(objects(*common, *more, *chat)[0]["token_ids"], drafted["token_ids"])

    def test_turns_of_standard_input(self):
        common = ("--target", self.model, "--temperature", "0", "--tokens", "20", "--chat")
        turns = "hello\n\n  \nwhat 12?\nhello\n"
        drafted = objects(*common, text=turns)
        plain = objects(*common, "--method", "autoregressive", text=turns)
        self.assertEqual([one["question"] for one in drafted], ["hello", "what 12?", "hello"])
        self.assertEqual([one["token_ids"] for one in drafted], [one["token_ids"] for one in plain])
        # A question alone has no conversation before it.
        (first,) = objects(*common, "hello")
        self.assertEqual(first["token_ids"], drafted[0]["token_ids"])
        (other,) = objects(*common, "hello", "--system", "x")
        self.assertNotEqual(other["token_ids"], first["token_ids"])
        shown = run(*common, text=turns)
        self.assertEqual(shown.stdout, "".join(one["text"] + "\n" for one in drafted))
        self.assertEqual(shown.stderr.count("block efficiency"), 3)
        self.assertEqual(shown.stderr.count("tokens/s"), 3)
        nothing = run(*common)
        self.assertEqual((nothing.returncode, nothing.stdout), (0, ""))

    def test_refusals(self):
        def refused(*arguments, text=""):
            done = run(*arguments, text=text)
            self.assertEqual(done.returncode, 1, done.stdout)
            return done.stderr

        target = ("--target", self.model)
        self.assertIn("needs a draft model", refused(*target, "--method", "block/iid"))
        self.assertIn("--draft lookup: not with", refused(*target, "--compare"))
        self.assertIn("--chat: not with", refused(*target, "--chat", "hello", "--show-tree"))
        self.assertIn("has no chat template", refused("--chat", "hello"))
        self.assertIn("begin another one", refused(*target, "--tokens", "8", "--chat", text="hello\n" + 500 * "x" + "\n"))
        wrong = Path(self.folder.name) / "wrong.gguf"
        tiny_gguf.write(wrong, template="[INST]")
        self.assertIn("only ChatML", refused("--target", wrong, "--chat", "hello"))
        tiny_gguf.write(wrong, template=None)
        self.assertIn("has no chat template", refused("--target", wrong, "--chat", "hello"))
        wrong.write_bytes(self.model.read_bytes()[:20000])
        self.assertIn(f"{wrong}: tensor ", refused("--target", wrong, "--chat", "hello"))
        wrong.write_bytes(b"text")
        self.assertIn("is no GGUF file", refused("--target", wrong, "--draft", "lookup", "--chat", "hello"))


class SmolLM2(unittest.TestCase):
    def test_answers(self):
        common = ("--target", REAL, "--temperature", "0", "--tokens", "16", "--chat", "What is the capital of France?")
        for method in ("naive/lookup", "autoregressive"):
            (one,) = objects(*common, "--method", method)
            self.assertEqual(one["text"], "The capital of France is Paris.")
            self.assertEqual((one["token_ids"][-1], one["stopped_by"]), (2, "stop_token"))

    def test_blocks_that_stay_give_the_text_of_floats(self):
        common = ("--target", REAL, "--temperature", "0", "--tokens", "24", "--prompt", "The capital of France is")
        texts = [objects(*common, "--precision", numbers)[0]["token_ids"] for numbers in ("stored", "f32")]
        self.assertEqual(texts[0], texts[1])

    def test_keeps_the_conversation(self):
        turns = "Name three colours.\nWhat did I ask?\n"
        common = ("--target", REAL, "--temperature", "0", "--tokens", "24", "--chat")
        drafted = objects(*common, text=turns)
        plain = objects(*common, "--method", "autoregressive", text=turns)
        self.assertEqual([one["token_ids"] for one in drafted], [one["token_ids"] for one in plain])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "SmolLM2" if REAL else "Small"])
