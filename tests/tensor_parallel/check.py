#!/usr/bin/env python3
"""The program `tensor_parallel` prints the same text for any number of ranks, and the greedy text of `generate`.

check.py PROGRAM GENERATE MODELS_DIRECTORY MPIEXEC NUMPROC_FLAG
"""
import json
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM, GENERATE, MODELS, MPIEXEC, FLAG = sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4], sys.argv[5]
PROMPT = "And the LORD said unto Moses,"
# These do not depend on the number of ranks.
SAME = ("text", "token_ids", "target_calls", "draft_calls", "acceptance_rate_by_depth", "stopped_by")
WIDE = 50257  # tokens of the widened models


def run(command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, check=False)


def result(command):
    done = run(command)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def on_ranks(ranks, *arguments, prompt=PROMPT):
    return [MPIEXEC, FLAG, ranks, PROGRAM, "--prompt", prompt, *arguments]


def shared(ranks, *arguments, prompt=PROMPT):
    return result([*on_ranks(ranks, *arguments, prompt=prompt), "--json"])


def greedy_text(tokens, prompt=PROMPT):
    return result([GENERATE, "--prompt", prompt, "--json", "--precision", "f32", "--method", "autoregressive",
                   "--temperature", "0", "--tokens", tokens])["token_ids"]


def widen(source, to):
    """A copy of a model with rows of zeros for tokens that the tokenizer does not have."""
    raw = (source / "model.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    header, data = json.loads(raw[8:8 + size]), raw[8 + size:]
    header.pop("__metadata__", None)
    parts, at = [], 0
    for name, tensor in header.items():
        begin, end = tensor["data_offsets"]
        part = data[begin:end]
        if name == "model.embed_tokens.weight":
            rows, columns = tensor["shape"]
            part += bytes(len(part) // rows * (WIDE - rows))
            tensor["shape"] = [WIDE, columns]
        tensor["data_offsets"] = [at, at + len(part)]
        at += len(part)
        parts.append(part)
    head = json.dumps(header).encode()
    config = json.loads((source / "config.json").read_text())
    config["vocab_size"] = WIDE
    to.mkdir()
    (to / "config.json").write_text(json.dumps(config))
    (to / "model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + b"".join(parts))


class TensorParallel(unittest.TestCase):
    def assert_same(self, here, there):
        for key in SAME:
            self.assertEqual(here[key], there[key], key)

    def test_one_text_for_any_number_of_ranks(self):
        for arguments in (
            ("--temperature", "0.8", "--seed", "3", "--tree", "3x2x1"),
            ("--method", "recursive_rejection/sequential", "--top-p", "0.9", "--seed", "5", "--tree", "[-1 0 0 0 1 1 2 4]"),
            ("--method", "block/iid", "--seed", "7", "--tree", "1x1x1"),
        ):
            with self.subTest(arguments):
                one = shared(1, *arguments, "--tokens", "40")
                self.assertGreater(one["block_efficiency"], 1)
                self.assertEqual(one["layer_calls"], 0)
                for ranks in (2, 4):
                    here = shared(ranks, *arguments, "--tokens", "40")
                    self.assert_same(here, one)
                    # After attention and after the feed-forward of eight layers; the prompt is one block.
                    self.assertEqual(here["layer_calls"], 16 * (here["target_calls"] + 1))
                    self.assertLess(here["weight_bytes_per_rank"] * ranks, 1.2 * one["weight_bytes_per_rank"])

    def test_greedy_text_of_generate(self):
        text = greedy_text(60)
        for ranks, tree in ((1, "0"), (2, "0"), (2, "3x2x1x1"), (4, "4x1")):
            here = shared(ranks, "--temperature", "0", "--tokens", "60", "--tree", tree)
            self.assertEqual(here["token_ids"], text, (ranks, tree))

    def test_long_prompts_are_read_in_blocks(self):
        prompt = " ".join([PROMPT] * 20)
        here = shared(2, "--temperature", "0", "--tokens", "8", prompt=prompt)
        self.assertEqual(here["token_ids"], greedy_text(8, prompt))

    def test_a_vocabulary_of_many_chunks_is_not_gathered(self):
        with tempfile.TemporaryDirectory() as directory:
            work = Path(directory)
            shutil.copy(MODELS / "tokenizer.model", work)
            for name in ("target", "draft"):
                widen(MODELS / name, work / name)
            wide = ("--target", work / "target", "--draft", work / "draft", "--tokens", "20", "--tree", "2x1")
            greedy = shared(2, *wide, "--temperature", "0", "--method", "naive/deterministic")
            whole = shared(1, "--tokens", "20", "--tree", "2x1", "--temperature", "0", "--method", "naive/deterministic")
            self.assertEqual(greedy["token_ids"], whole["token_ids"])
            drawn = ("--temperature", "0.8", "--top-k", "40", "--method", "recursive_rejection/sequential")
            one = shared(1, *wide, *drawn)
            two = shared(2, *wide, *drawn)
            self.assert_same(two, one)
            for here in (greedy, two):
                self.assertLess(4 * here["verification_bytes_per_rank"], here["gathered_bytes_per_rank"])

    def test_errors_are_printed_once_and_end_all_ranks(self):
        for ranks, arguments, said in (
            (3, (), "ranks = 3: must be a power of two that divides the model's 4 heads"),
            (2, ("--method", "none"), "no method has this name"),
            (2, ("--target", "nowhere"), "nowhere"),
            (2, ("--tree", "2xx"), "shape"),
            (2, ("--method", "block/iid", "--tree", "2x1"), "block/iid takes chains only"),
            (2, ("--temperature", "-1"), "--temperature -1: "),
            (2, (), "--prompt of "),
        ):
            with self.subTest(said):
                prompt = "word " * 2000 if said == "--prompt of " else PROMPT
                done = run(on_ranks(ranks, *arguments, prompt=prompt))
                self.assertNotEqual(done.returncode, 0)
                self.assertEqual(done.stderr.count("tensor_parallel: "), 1, done.stderr)
                self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
