#!/usr/bin/env python3
"""Runs the program `generate` as its users do, and checks what it prints.

check.py PROGRAM MODELS_DIRECTORY [--all]

Without --all, texts are shorter where all methods run, and the searches for trees are left out.
"""
import functools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import tiny_gguf
from tiny_safetensors import write_model

PROGRAM, MODELS = sys.argv[1], Path(sys.argv[2])
ALL = "--all" in sys.argv[3:]
CACHE = tempfile.TemporaryDirectory()  # the user's own is left alone
os.environ["XDG_CACHE_HOME"] = CACHE.name
PROMPT = "And the LORD said unto Moses,"
KEYS = {"method", "lossless", "text", "token_ids", "tokens", "target_calls", "draft_calls", "block_efficiency",
        "acceptance_rate", "seconds", "tokens_per_second", "seed"}


def length(tokens):
    """Of a text by every method: fewer tokens, unless all tests run."""
    return str(tokens if ALL else min(tokens, 10))


def run(*arguments, text=None):
    return subprocess.run([PROGRAM, *arguments], input=text, capture_output=True, text=True, timeout=300)


def objects(*arguments, text=None):
    done = run("--json", *arguments, text=text)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def layer_shapes(at, inputs):
    return {at + "input_layernorm.weight": (256,), at + "post_attention_layernorm.weight": (256,),
            at + "self_attn.q_proj.weight": (64, inputs), at + "self_attn.k_proj.weight": (32, inputs),
            at + "self_attn.v_proj.weight": (32, inputs), at + "self_attn.o_proj.weight": (256, 64),
            at + "mlp.gate_proj.weight": (48, 256), at + "mlp.up_proj.weight": (48, 256),
            at + "mlp.down_proj.weight": (256, 48)}


SIZES = {"vocab_size": 4096, "hidden_size": 256, "intermediate_size": 48, "num_attention_heads": 2, "num_key_value_heads": 1,
         "head_dim": 32, "num_hidden_layers": 1, "max_position_embeddings": 1024}


def write_block_drafter(directory):
    """A small block drafter of the shipped target."""
    write_model(directory, SIZES | {"architectures": ["Qwen3DSparkModel"], "block_size": 4, "target_layer_ids": [1, 7],
                                    "markov_rank": 2},
                {"fc.weight": (256, 512), "hidden_norm.weight": (256,), "norm.weight": (256,), "mask_embedding": (256,),
                 "layers.0.self_attn.q_norm.weight": (32,), "layers.0.self_attn.k_norm.weight": (32,),
                 "markov_head.markov_w1.weight": (4096, 2), "markov_head.markov_w2.weight": (4096, 2)}
                | layer_shapes("layers.0.", 256))


def write_eagle_head(directory, tokens):
    """A small head of EAGLE-3 of the shipped target, which has only these tokens."""
    write_model(directory, SIZES | {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama",
                                    "draft_vocab_size": len(tokens)},
                {"fc.weight": (256, 768), "midlayer.hidden_norm.weight": (256,), "norm.weight": (256,),
                 "lm_head.weight": (len(tokens), 256)} | layer_shapes("midlayer.", 512),
                [("d2t", [token - k for k, token in enumerate(tokens)])])


class Generate(unittest.TestCase):
    @functools.cache
    def methods(self):
        return json.loads(run("--list-methods", "--json").stdout)

    def test_lists_its_methods(self):
        listed = self.methods()
        self.assertGreaterEqual(len(listed), 8)
        for method in listed:
            self.assertEqual(set(method), {"name", "lossless", "law", "summary"})
        names = run("--list-methods").stdout
        for method in listed:
            self.assertIn(method["name"], names)

    def test_without_arguments_it_continues_a_shipped_prompt(self):
        # The trees follow the clock, so the text does too. It may end before 128 tokens.
        done = run()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.strip())
        told = re.search(r": (\d+) tokens, [\d.]+ tokens/s", done.stderr)
        self.assertTrue(told, done.stderr)
        if int(told[1]) == 128:
            self.assertGreater(len(done.stdout.split()), 50)

    def test_json_of_a_run(self):
        (one,) = objects("--prompt", PROMPT, "--tokens", "24", "--seed", "5")
        self.assertLessEqual(KEYS, set(one))
        self.assertEqual(one["tokens"], len(one["token_ids"]))
        self.assertEqual(one["seed"], 5)
        self.assertEqual(one["method"], "nested_ranked_block/stratified")
        self.assertNotIn(PROMPT, one["text"])
        whole = one["whole_steps"]
        self.assertAlmostEqual(one["block_efficiency"], whole["tokens"] / whole["target_calls"])
        self.assertLessEqual(whole["target_calls"], one["target_calls"])
        (short,) = objects("--prompt", PROMPT, "--tokens", "2", "--tree", "2x1x1x1")
        self.assertEqual(short["whole_steps"]["target_calls"], 0)
        for rate in ("block_efficiency", "acceptance_rate", "accepted_fraction"):
            self.assertIsNone(short[rate], "no step is whole")

    def test_prompts_of_a_file_are_continued_together(self):
        lines = [PROMPT, "A philosopher is", "In the beginning", "the act of", "And he said"]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "prompts.txt"
            file.write_text("\n".join(lines[:2] + [""] + lines[2:]) + "\n", encoding="utf-8")
            texts = []
            for parallel in ("1", "2", "8"):
                *found, whole = objects("--prompt-file", str(file), "--parallel", parallel, "--tokens", "16", "--tree", "2x1",
                                        "--seed", "4")
                self.assertEqual([one["prompt"] for one in found], lines)
                self.assertEqual(whole["tokens"], sum(one["tokens"] for one in found))
                self.assertEqual(whole["errors"], 0)
                texts.append([one["token_ids"] for one in found])
            # Whoever the neighbours are, and as the loop of one text.
            self.assertEqual(texts[0], texts[1])
            self.assertEqual(texts[0], texts[2])
            (alone,) = objects("--prompt", PROMPT, "--tokens", "16", "--tree", "2x1", "--seed", "4")
            self.assertEqual(alone["token_ids"], texts[0][0])
            first, again = (objects("--prompt-file", str(file), "--tokens", "16", "--seed", "4")[:-1] for _ in range(2))
            self.assertEqual([one["token_ids"] for one in first], [one["token_ids"] for one in again])
            shared = run("--prompt-file", str(file), "--tokens", "8")
            self.assertEqual(shared.returncode, 0, shared.stderr)
            self.assertIn("5 prompts, 4 at a time", shared.stderr)
            if (MODELS / "block-drafter").exists():
                block = ["--drafter", "block", "--tokens", "16"]
                together, one_by_one = (objects("--prompt-file", str(file), *block, "--parallel", parallel, "--tree", "2x1", "--seed", "4")
                                        for parallel in ("3", "1"))
                self.assertEqual([one["token_ids"] for one in together[:-1]], [one["token_ids"] for one in one_by_one[:-1]])
                (alone,) = objects("--prompt", PROMPT, *block, "--tree", "2x1", "--seed", "4")
                self.assertEqual(alone["token_ids"], together[0]["token_ids"])
                few = [*block, "--candidates", "16", "--tree", "2x1x1", "--seed", "4"]
                *shorter, whole = objects("--prompt-file", str(file), *few, "--parallel", "3")
                self.assertGreater(whole["accepted"], 0)
                (alone,) = objects("--prompt", PROMPT, *few)
                self.assertEqual(alone["token_ids"], shorter[0]["token_ids"])
                self.assertEqual(objects("--prompt-file", str(file), *block)[-1]["errors"], 0)
                for more in (["--seed", "4"], ["--method", "nested_ranked_block/stratified"]):
                    self.assertGreater(objects("--prompt-file", str(file), *block, *more)[-1]["drafted"], 0)
                refused = run("--prompt-file", str(file), *block, "--tree", "best")
                self.assertEqual(refused.returncode, 1)
                self.assertIn("for one text, not with --prompt-file", refused.stderr)
            plain = run("--prompt-file", "-", "--tokens", "8", "--method", "autoregressive", text="\n".join(lines))
            self.assertEqual(len(plain.stdout.splitlines()) >= len(lines), True)
            for more, reason in ((["--stream"], "--prompt-file: not with"), (["--method", "block/iid"], "not by block/iid")):
                refused = run("--prompt-file", str(file), *more)
                self.assertEqual(refused.returncode, 1)
                self.assertIn(reason, refused.stderr)
            # One that is too long ends alone.
            long = run("--prompt-file", "-", "--tokens", "16", "--tree", "2x1", "--seed", "4", "--json",
                       text="\n".join((PROMPT, PROMPT * 400, lines[2])))
            self.assertEqual(long.returncode, 1)
            first, second, third, whole = map(json.loads, long.stdout.splitlines())
            self.assertEqual([first["token_ids"], third["token_ids"]], [texts[0][0], texts[0][2]])
            self.assertEqual((second["stopped_by"], whole["errors"]), ("error", 1))
            self.assertRegex(second["error"], r"^\d+ tokens: the prompt is longer than the model's context$")
            missing = run("--prompt-file", str(file) + ".none")
            self.assertEqual((missing.returncode, missing.stdout), (1, ""))
            self.assertIn("cannot be read", missing.stderr)

    def test_temperature_0_gives_one_text_with_every_lossless_method(self):
        for tree in ("1x1", "4x2x1"):
            rows = objects("--compare", "--prompt", PROMPT, "--tokens", length(32), "--temperature", "0", "--tree", tree)
            for row in rows:
                if row["lossless"]:
                    self.assertEqual(row["same_text"], row["runs"], row["method"])
        common = ("--prompt", PROMPT, "--tokens", "80", "--temperature", "0")
        (greedy,) = objects(*common, "--method", "autoregressive")
        (default,) = objects(*common)
        self.assertEqual(default["token_ids"], greedy["token_ids"])

    def test_every_method_runs_at_temperature_1(self):
        for row in objects("--compare", "--prompt", PROMPT, "--tokens", length(24), "--tree", "3x2x1", "--ignore-eos"):
            with self.subTest(row["method"]):
                self.assertEqual(row["tokens"], int(length(24)))
                self.assertEqual(row["lossless"], not row["method"].startswith("lossy/"))
                self.assertLessEqual(row["block_efficiency"], 4)

    def test_trees_as_other_projects_write_them(self):
        choices = "[[0], [1], [2], [0, 0], [0, 1], [1, 0], [0, 0, 0]]"
        for tree in (choices, "fork:3x2", "chain:3", "[-1 0 0 1]"):
            (one,) = objects("--prompt", PROMPT, "--tokens", "24", "--tree", tree)
            self.assertEqual(one["tokens"], 24, tree)
        self.assertIn("choices", self.refused("--tree", "[[0], [2]]"))

    def test_the_text_does_not_depend_on_threads(self):
        for tree in ("1x1", "2x2x1"):
            texts = [objects("--prompt", PROMPT, "--tokens", "24", "--seed", "1", "--tree", tree, "--threads", threads)[0]["token_ids"]
                     for threads in "0123"]
            self.assertEqual([text for text in texts if text != texts[0]], [])

    def test_precisions(self):
        common = ("--prompt", PROMPT, "--tokens", "24", "--temperature", "0", "--precision")
        texts = {precision: objects(*common, precision)[0]["token_ids"]
                 for precision in ("auto", "bf16", "f32", "stored", "stored8", "q8_0", "int8")}
        self.assertIn(texts["auto"], (texts["bf16"], texts["f32"]))
        self.assertEqual({len(text) for text in texts.values()}, {24})
        (greedy,) = objects(*common, "int8", "--method", "autoregressive")
        self.assertEqual(greedy["token_ids"], texts["int8"])
        self.assertIn("--precision", self.refused("--precision", "int4"))

    def test_numbers_of_the_cache(self):
        common = ("--prompt", PROMPT, "--tokens", "24", "--temperature", "0", "--precision", "f32")
        texts = {cache: objects(*common, "--kv-cache", cache)[0]["token_ids"] for cache in ("auto", "f32", "f16")}
        self.assertEqual(texts["auto"], texts["f32"])
        self.assertEqual(texts["f16"][:4], texts["f32"][:4])
        self.assertIn("--kv-cache", self.refused("--kv-cache", "f8"))

    def test_writes_what_decision_models_are_trained_on(self):
        rows = [json.loads(line) for line in run("--dump-decisions", "--prompt", PROMPT, "--tokens", "12").stdout.splitlines()]
        self.assertEqual(len(rows), 12)
        for row in rows:
            self.assertEqual(set(row), {"top", "entropy", "hidden", "ratio", "accepted"})
            self.assertEqual(len(row["top"]), 10)
            self.assertEqual(row["top"], sorted(row["top"], reverse=True))
            self.assertTrue(0 <= row["ratio"] <= 1 and row["accepted"] in (0, 1))

    def test_seeds(self):
        first = objects("--prompt", PROMPT, "--tokens", "32", "--seed", "3", "--repeat", "3")
        again = objects("--prompt", PROMPT, "--tokens", "32", "--seed", "4", "--repeat", "2")
        self.assertEqual([one["seed"] for one in first], [3, 4, 5])
        self.assertEqual([one["token_ids"] for one in first[1:]], [one["token_ids"] for one in again])
        self.assertNotEqual(first[0]["token_ids"], first[1]["token_ids"])

    def test_streams_what_it_prints_otherwise(self):
        plain = run("--prompt", PROMPT, "--tokens", "40", "--seed", "1")
        streamed = run("--prompt", PROMPT, "--tokens", "40", "--seed", "1", "--stream")
        self.assertEqual(plain.stdout, streamed.stdout)
        self.assertTrue(plain.stdout.startswith(PROMPT))

    def test_reads_the_prompt_from_standard_input(self):
        (one,) = objects("--prompt", "-", "--tokens", "20", "--seed", "1", text=PROMPT)
        (other,) = objects("--prompt", PROMPT, "--tokens", "20", "--seed", "1")
        self.assertEqual(one["token_ids"], other["token_ids"])

    def test_compares(self):
        rows = objects("--compare", "--prompts", "1", "--tokens", length(24), "--temperature", "0")
        self.assertEqual(rows[0]["method"], "autoregressive")
        for row in rows:
            if row["lossless"]:
                self.assertEqual(row["same_text"], row["runs"], row["method"])
        table = run("--compare", "--prompt", PROMPT, "--tokens", length(16)).stdout
        for word in ("tokens/s", "speed-up", "block eff.", "recursive_rejection/sequential"):
            self.assertIn(word, table)

    def test_measures(self):
        (one,) = objects("--prompt", PROMPT, "--tokens", "24", "--tree", "3x1", "--perplexity")
        self.assertGreater(one["perplexity"], 1)
        self.assertIn("acceptance_rate_by_rank", one)
        self.assertTrue(0 <= one["accepted_fraction"] <= 1)
        self.assertTrue("joules_per_token" in one or one["energy"].startswith("unavailable"))
        rows = objects("--compare", *(("--prompts", "1") if ALL else ("--prompt", PROMPT)), "--tokens", length(16), "--perplexity")
        for row in rows:
            for name in ("block_efficiency", "acceptance_rate", "memory_bound_speed_up", "perplexity"):
                found = row["estimates"][name]
                self.assertLessEqual(found["low"], found["high"] + 1e-9, (row["method"], name))

    def test_searches(self):
        (found,) = objects("--method", "recursive_rejection/sequential", "--search", "--budget", "4", "--prompts", "1",
                           "--tokens", "32")
        self.assertEqual([entry["budget"] for entry in found["best"]], [1, 2, 3, 4])
        accepted = [entry["most_accepting"]["block_efficiency"] for entry in found["best"]]
        self.assertEqual(accepted, sorted(accepted))
        self.assertEqual([entry["paths"] for entry in found["best_by_paths"]], [1, 2, 4])
        self.assertTrue(found["predicts"])
        self.assertLessEqual(len(found["measured"]), 3)
        for tree in found["measured"]:
            self.assertLessEqual(tree["low"], tree["block_efficiency"] + 1e-9)
            self.assertGreater(tree["predicted_block_efficiency"], 1)

    @unittest.skipUnless(ALL, "part of tools/test --all")
    def test_searches_by_running_trees_where_rates_do_not_carry_over(self):
        for method in ("nested_ranked_block/stratified", "lossy/target_initialised", "block/iid"):
            (found,) = objects("--method", method, "--search", "--budget", "3", "--prompts", "1", "--tokens", "16")
            self.assertFalse(found["predicts"], method)
            self.assertNotIn("best", found)
            self.assertNotIn("acceptance_by_rank", found)
            trees = [tree["tree"] for tree in found["measured"]]
            self.assertTrue(trees, method)
            self.assertEqual(len(trees), len(set(trees)))
            speeds = [tree["tokens_per_second"] for tree in found["measured"]]
            self.assertEqual(speeds, sorted(speeds, reverse=True))
            for tree in found["measured"]:
                self.assertNotIn("predicted_block_efficiency", tree)
                self.assertGreater(tree["block_efficiency"], 0.9)
            if method == "block/iid":
                self.assertTrue(all(set(tree.split("x")) == {"1"} for tree in trees), trees)

    @unittest.skipUnless(ALL, "part of tools/test --all")
    def test_predicts_what_it_then_measures(self):
        """The predicted block efficiency lies near what the tree does on the same prompts."""
        (found,) = objects("--method", "recursive_rejection/iid", "--search", "--budget", "4", "--prompts", "2",
                           "--tokens", "64", "--temperature", "1")
        for tree in found["measured"]:
            self.assertAlmostEqual(tree["predicted_block_efficiency"], tree["block_efficiency"], delta=0.45)

    def test_target_initialised_trees_end_by_a_decision_model(self):
        common = ("--prompt", PROMPT, "--tokens", "24", "--method", "lossy/target_initialised", "--tree", "fork:2x4", "--seed", "3")
        (plain,) = objects(*common)
        for rule in ("probabilities", "hidden"):
            (never,) = objects(*common, "--stop-by", rule, "--stop-below", "0")
            self.assertEqual(never["text"], plain["text"])
            (always,) = objects(*common, "--stop-by", rule, "--stop-below", "1")
            (one_level,) = objects(*common[:-4], "--tree", "fork:2x1", "--seed", "3")
            self.assertEqual(always["text"], one_level["text"])

    def test_chooses_trees(self):
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "costs.json"
            common = ("--prompt", PROMPT, "--tokens", "60", "--ignore-eos", "--costs", str(file))
            # Written by the first, read by the second: the same text.
            first, second = (objects(*common, "--method", "auto", "--seed", "3")[0] for _ in range(2))
            self.assertEqual(first["token_ids"], second["token_ids"])
            self.assertEqual(first["trees"], second["trees"])
            self.assertEqual(sum(one["steps"] for one in first["trees"]), first["target_calls"])
            self.assertIn("target_seconds_by_rows", json.loads(file.read_text()))
            # Where rows are free trees are grown, and where each costs a call none is.
            for seconds, grows in ((1e-9, True), (1.0, False)):
                times = {"target_seconds_by_rows": [[1, 1.0], [17, 1.0 + 16 * seconds]],
                         "draft_seconds_by_rows": [[1, 1e-3 if grows else 0.5]],
                         "library_seconds": {"ranked_block/stratified": {"step": 0.0, "node": 0.0}}}
                file.write_text(json.dumps(times))
                (one,) = objects(*common, "--method", "ranked_block/stratified", "--tree", "auto")
                self.assertEqual(one["target_calls"] < 50, grows)
                self.assertIn("none" if not grows else "x", run(*common, "--method", "ranked_block/stratified", "--tree",
                                                                "auto").stderr)
            (greedy,) = objects("--prompt", PROMPT, "--tokens", "60", "--temperature", "0", "--method",
                                "autoregressive")
            for method in ("auto", "block/iid", "spec_hub/top_paired", "recursive_rejection/sequential", "naive/lookup"):
                (chosen,) = objects("--prompt", PROMPT, "--tokens", "60", "--temperature", "0", "--method", method,
                                    "--tree", "auto")
                self.assertEqual(chosen["token_ids"], greedy["token_ids"], method)
            self.assertIn("holds no times of auto", self.refused(*common, "--method", "auto"))
            file.write_text("{")
            self.assertIn(str(file), self.refused(*common, "--method", "auto"))
        self.assertIn("not chosen by their shape", self.refused("--method", "naive/best_first", "--tree", "auto"))
        self.assertIn("part at the root", self.refused("--method", "multi_path_block/iid", "--tree", "auto"))
        self.assertIn("name no --tree", self.refused("--method", "auto", "--tree", "1x1"))
        self.assertIn("for --tree auto", self.refused("--costs", "/tmp/none.json", "--tree", "1x1"))
        self.assertIn("for --tree auto", self.refused("--costs", "/tmp/none.json", "--method", "block/iid"))
        self.assertIn("not for --compare", self.refused("--compare", "--tree", "auto"))

    def test_trees_are_chosen_by_default(self):
        common = ("--prompt", PROMPT, "--tokens", "8")
        with tempfile.TemporaryDirectory() as work:
            file = str(Path(work) / "costs.json")
            for chosen, arguments in ((True, ()), (True, ("--seed", "3", "--costs", file)), (True, ("--seed", "3")),
                                      (False, ("--method", "block/iid")), (False, ("--tree", "1x1")), (False, ("--show-tree",))):
                (one,) = objects(*common, *arguments)
                self.assertEqual("trees" in one, chosen, arguments)
                self.assertEqual(one["method"], "block/iid" if "--method" in arguments else "nested_ranked_block/stratified")

    def test_costs_are_kept_for_this_machine(self):
        common = ("--prompt", PROMPT, "--tokens", "40", "--ignore-eos", "--seed", "3")
        with tempfile.TemporaryDirectory() as cache:
            def text(*more):
                done = subprocess.run([PROGRAM, "--json", *common, *more], capture_output=True, text=True, env={**os.environ, "XDG_CACHE_HOME": cache})
                self.assertEqual(done.returncode, 0, done.stderr)
                return json.loads(done.stdout)

            first = text()
            file = Path(first["costs"])
            written = file.read_text()
            self.assertEqual(file.parent, Path(cache) / "multidraft" / "costs")
            # What is kept decides, and not a clock.
            again = text()
            self.assertEqual((first["token_ids"], first["trees"]), (again["token_ids"], again["trees"]))
            self.assertEqual(file.read_text(), written)
            times = json.loads(written)
            times["target_seconds_by_rows"] = [[1, 1.0], [17, 17.0]]
            file.write_text(json.dumps(times))
            self.assertEqual([one["tree"] for one in text()["trees"]], ["0"], "rows that cost a call each")
            # Another number of threads, or of nodes, or other steps of sampling have other costs; a file that is cut short is made again.
            others = [text(*more)["costs"] for more in (("--threads", "1"), ("--budget", "4"), ("--temperature", "0"), ("--top-p", "0.9"))]
            self.assertEqual(len({str(file), *others}), 5)
            self.assertEqual(text("--temperature", "0.7")["costs"], str(file))
            file.write_text(written[:40])
            self.assertEqual(text()["costs"], str(file))
            self.assertIn("target_seconds_by_rows", json.loads(file.read_text()))
            # Without a place to keep them a named seed has the method's own tree, the same text each time.
            Path(cache, "file").write_text("")
            cache += "/file"
            first, again = text(), text()
            self.assertNotIn("trees", first)
            self.assertEqual(first["token_ids"], again["token_ids"])

    def test_costs_name_what_they_are_of(self):
        with tempfile.TemporaryDirectory() as work:
            file = Path(work) / "costs.json"
            common = ("--prompt", PROMPT, "--tokens", "8", "--seed", "3")
            (first,) = objects(*common, "--costs", str(file))
            written = json.loads(file.read_text())
            self.assertEqual(written["measured_with"]["sampling"], "temperature above 0")
            for more, other in ((("--draft", str(MODELS / "draft-tiny")), ("draft is draft-distilled of ", ", not draft-tiny of ")),
                                (("--target", str(MODELS / "draft")), ("target is target of ", ", not draft of ")),
                                (("--temperature", "0"), ("sampling is temperature above 0, not temperature 0",)),
                                (("--top-p", "0.9"), ("not temperature above 0, top-p",)),
                                (("--draft-temperature", "0"), ("draft_sampling is temperature above 0, not temperature 0",)),
                                (("--precision", "f32"), ("precision is auto, not f32",)), (("--threads", "1"), ("threads is 0, not 1",))):
                refusal = self.refused(*common, *more, "--costs", str(file))
                self.assertIn(f"generate: --costs {file}: was measured with others (", refusal)
                self.assertEqual(len(refusal.strip().splitlines()), 1)
                for part in other:
                    self.assertIn(part, refusal)
            # The same models by another path; a file of the cache; one that names nothing, which is read as it is.
            (again,) = objects(*common, "--temperature", "0.7", "--draft", f"{MODELS}/./draft-distilled/", "--costs", str(file))
            self.assertEqual(again["costs"], str(file))
            (kept,) = objects(*common)
            objects(*common, "--costs", kept["costs"])
            del written["measured_with"]
            file.write_text(json.dumps(written))
            (same,) = objects(*common, "--costs", str(file))
            self.assertEqual(same["token_ids"], first["token_ids"])
            objects(*common, "--top-p", "0.9", "--costs", str(file))

    def test_a_relative_cache_is_ignored(self):
        with tempfile.TemporaryDirectory() as work:
            for cache in ("relative", ""):
                done = subprocess.run([Path(PROGRAM).resolve(), "--json", "--prompt", PROMPT, "--tokens", "4", "--seed", "3"], capture_output=True, text=True,
                                      cwd=work, env={**os.environ, "HOME": work, "XDG_CACHE_HOME": cache})
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(Path(json.loads(done.stdout)["costs"]).parent, Path(work) / ".cache" / "multidraft" / "costs")
            self.assertFalse((Path(work) / "relative").exists())

    def test_draws_trees(self):
        with tempfile.TemporaryDirectory() as work:
            svg, dot = str(Path(work) / "tree.svg"), str(Path(work) / "tree.dot")
            plain = ("--prompt", PROMPT, "--tokens", "8", "--tree", "2x1", "--method", "recursive_rejection/sequential")
            arguments = (*plain, "--show-tree", "--show-tree-svg", svg, "--show-tree-dot", dot)
            done = run(*arguments)
            first = Path(svg).read_text()
            self.assertIn("`-> ", done.stderr)
            self.assertIn("p 0.", done.stderr)
            self.assertTrue(first.startswith("<svg") and Path(dot).read_text().startswith("digraph"))
            self.assertEqual(done.stdout, run(*plain).stdout)
            run(*arguments)
            self.assertEqual(Path(svg).read_text(), first)
        self.assertIn("shows no trees", run("--method", "autoregressive", "--show-tree-svg", "/dev/null").stderr)

    def refused(self, *arguments):
        done = run(*arguments)
        self.assertNotEqual(done.returncode, 0, arguments)
        self.assertEqual(done.stdout, "", arguments)
        return done.stderr

    def test_accepted_fraction_of_target_initialised_trees(self):
        common = ("--draft", str(MODELS / "target"), "--prompt", PROMPT, "--method", "lossy/target_initialised",
                  "--temperature", "0", "--draft-temperature", "0", "--ignore-eos", "--seed", "3")
        for depth in (1, 5):
            # 5 more: the last step is cut.
            (one,) = objects(*common, "--tree", f"fork:1x{depth}", "--tokens", str(20 * (depth + 1) + 5))
            self.assertEqual(one["accepted_fraction"], 1.0, depth)
            self.assertEqual(one["block_efficiency"], depth + 1, depth)
        self.assertIn("part at the root", self.refused("--method", "lossy/target_initialised", "--tree", "3x2x2"))

    def test_a_block_drafter_drafts(self):
        with tempfile.TemporaryDirectory() as work:
            folder = Path(work)
            write_block_drafter(folder / "block-drafter")
            block = ("--drafter", str(folder / "block-drafter"))
            common = ("--prompt", PROMPT, "--tokens", "24", "--ignore-eos")
            (greedy,) = objects(*common, "--temperature", "0", "--method", "autoregressive")
            for tree in (("--tree", "best"), ("--tree", "reach"), ("--tree", "2x2x1"), ("--tree", "best", "--budget", "40", "--least", "0")):
                (one,) = objects(*common, "--temperature", "0", *block, *tree)
                self.assertEqual(one["token_ids"], greedy["token_ids"], tree)
                self.assertEqual(one["drafter"], block[1])
                self.assertTrue(1 <= one["draft_calls"] <= one["target_calls"], "one call a step")
                self.assertTrue(0 <= one["accepted_fraction"] <= 1)
            listed = [one["name"] for one in json.loads(run("--list-methods", "--json", *block).stdout)]
            self.assertIn("traversal/sequential", listed)
            self.assertNotIn("naive/lookup", listed)
            few = ("--prompt", PROMPT, "--tokens", length(24), "--ignore-eos")
            rows = objects("--compare", *few, "--temperature", "0", *block)
            self.assertEqual([row["method"] for row in rows], listed)
            for row in rows:
                self.assertEqual(row["same_text"], row["runs"], row["method"])
                self.assertTrue(row["lossless"], row["method"])
            self.assertEqual({row["tree"] for row in rows if row["method"].startswith(("ranked", "block/"))}, {"best"})
            rows = objects("--compare", *few, *block)
            self.assertEqual({row["tree"] for row in rows if row["method"].startswith(("ranked", "block/"))}, {"reach"})
            for tree in ("best", "2x1") if ALL else ("2x1",):
                for row in objects("--compare", *few, *block, "--tree", tree):
                    self.assertEqual(row["tokens"], int(length(24)), row["method"])
            # Beside the target, whose tokenizer is there too; in any number of threads; by equal seeds.
            (folder / "target").symlink_to((MODELS / "target").resolve())
            (folder / "tokenizer.model").symlink_to((MODELS / "tokenizer.model").resolve())
            texts = [objects(*common, "--seed", "4", "--threads", threads, "--target", str(folder / "target"), "--drafter",
                             "block", "--tree", "reach")[0]["token_ids"] for threads in ("1", "2", "1")]
            self.assertEqual(texts[0], texts[1])
            self.assertEqual(texts[0], texts[2])
            if (MODELS / "block-drafter").exists():
                (shipped,) = objects(*common, "--temperature", "0", "--drafter", "block", "--tree", "best")
                self.assertEqual(shipped["token_ids"], greedy["token_ids"])
                self.assertGreater(shipped["block_efficiency"], 1.5)
            self.assertIn("`-> ", run(*common, *block, "--show-tree").stderr)
            self.assertEqual(run(*common, *block, "--stream", "--seed", "4").stdout, run(*common, *block, "--seed", "4").stdout)

            for more in (("--draft", str(MODELS / "draft")), ("--search",), ("--dump-decisions",)):
                self.assertIn("--drafter " + block[1] + ": not with", self.refused(*block, *more), more)
            self.assertIn("not with a block drafter", self.refused(*block, "--method", "naive/lookup"))
            self.assertIn("not with a block drafter", self.refused(*block, "--method", "auto"))
            self.assertIn("takes shapes only", self.refused(*block, "--method", "multi_path_block/iid", "--tree", "best"))
            self.assertIn("takes shapes only", self.refused(*block, "--method", "shared_randomness", "--tree", "reach"))
            self.assertIn("drafts nothing", self.refused(*block, "--tree", "0"))
            self.assertIn("name one with --drafter", self.refused("--tree", "best"))
            self.assertIn("/nowhere: has no config.json", self.refused("--drafter", "/nowhere"))
            self.assertIn("architectures", self.refused("--drafter", str(MODELS / "draft")))
            (folder / "block-drafter" / "model.safetensors").write_bytes(b"")
            self.assertIn("model.safetensors", self.refused(*block))

    def test_a_head_of_eagle_drafts(self):
        with tempfile.TemporaryDirectory() as work:
            folder = Path(work)
            common = ("--prompt", PROMPT, "--tokens", "40", "--ignore-eos")
            (greedy,) = objects(*common, "--temperature", "0", "--method", "autoregressive")
            tokens = sorted(set(greedy["token_ids"]))
            write_eagle_head(folder / "eagle-head", tokens)
            head = ("--drafter", str(folder / "eagle-head"))
            for tree in ((), ("--tree", "auto"), ("--tree", "2x2x1"), ("--tree", f"{len(tokens) // 2}x4")):
                (one,) = objects(*common, "--temperature", "0", *head, *tree)
                self.assertEqual(one["token_ids"], greedy["token_ids"], tree)
                self.assertEqual(one["method"], "nested_ranked_block/stratified")
                self.assertEqual(one["drafter"], head[1])
                if tree and "auto" not in tree:  # which drafts where it pays
                    self.assertGreater(one["draft_calls"], one["target_calls"] if "2x2x1" in tree else 0)
                else:
                    self.assertEqual(sum(chosen["steps"] for chosen in one["trees"]), one["target_calls"])
            self.assertGreater(one["block_efficiency"], 1.2)
            listed = [one["name"] for one in json.loads(run("--list-methods", "--json", *head).stdout)]
            self.assertEqual(len(listed), 7)
            self.assertIn("naive/deterministic", listed)
            rows = objects("--compare", *common, "--temperature", "0", *head, "--tree", "4x2")
            self.assertEqual([row["method"] for row in rows], listed)
            for row in rows:
                self.assertEqual(row["same_text"], row["runs"], row["method"])
                self.assertTrue(row["lossless"], row["method"])
            # Beside the target, whose tokenizer is there too; in any number of threads; by equal seeds.
            (folder / "target").symlink_to((MODELS / "target").resolve())
            (folder / "tokenizer.model").symlink_to((MODELS / "tokenizer.model").resolve())
            texts = [objects(*common, "--seed", "4", "--threads", threads, "--target", str(folder / "target"), "--drafter",
                             "eagle", "--tree", "4x2")[0]["token_ids"] for threads in ("1", "2", "1")]
            self.assertEqual(texts[0], texts[1])
            self.assertEqual(texts[0], texts[2])
            if (MODELS / "eagle-head").exists():
                (shipped,) = objects(*common, "--temperature", "0", "--drafter", "eagle", "--tree", "2x1x1")
                self.assertEqual(shipped["token_ids"], greedy["token_ids"])
                self.assertGreater(shipped["block_efficiency"], 1.5)
            self.assertIn("`-> ", run(*common, *head, "--show-tree", "--tree", "2x1").stderr)
            # Many texts together are those of each alone, by fixed trees, and by a budget in any order of steps.
            prompts = "\n".join((PROMPT, "A philosopher is", "In the beginning", "the act of"))
            for at_a_time in ("1", "3"):
                *found, whole = objects("--prompt-file", "-", *head, "--tokens", "40", "--ignore-eos", "--seed", "4", "--tree", "4x2",
                                        "--parallel", at_a_time, text=prompts)
                self.assertEqual((len(found), whole["errors"]), (4, 0))
                self.assertGreater(whole["drafted"], 0)
                self.assertEqual(found[0]["token_ids"], texts[0])
            *found, whole = objects("--prompt-file", "-", *head, "--tokens", "40", "--ignore-eos", "--temperature", "0", "--tree", "auto",
                                    text=prompts)
            self.assertEqual(found[0]["token_ids"], greedy["token_ids"])

            for more in (("--draft", str(MODELS / "draft")), ("--search",), ("--dump-decisions",)):
                self.assertIn("--drafter " + head[1] + ": not with", self.refused(*head, *more), more)
            self.assertIn("not with a head of EAGLE-3", self.refused(*head, "--method", "naive/lookup"))
            self.assertIn("not with a head of EAGLE-3", self.refused(*head, "--method", "auto"))
            again = [objects(*common, "--seed", "4", *head)[0]["token_ids"] for _ in range(2)]  # by kept times
            self.assertEqual(again[0], again[1])
            self.assertIn("chosen from the rows of a block drafter, not of a head of EAGLE-3", self.refused(*head, "--tree", "best"))
            self.assertIn("none/eagle-head: has no config.json",
                          self.refused("--drafter", "eagle", "--target", str(folder / "none" / "target")))
            (folder / "eagle-head" / "model.safetensors").write_bytes(b"")
            self.assertIn("model.safetensors", self.refused(*head))

    def test_the_trees_of_a_block_drafter_are_chosen_at_each_step(self):
        with tempfile.TemporaryDirectory() as work:
            folder = Path(work)
            write_block_drafter(folder / "block-drafter")
            block = ("--drafter", str(folder / "block-drafter"), "--tree", "auto")
            common = ("--prompt", PROMPT, "--tokens", "40", "--ignore-eos")
            (greedy,) = objects(*common, "--temperature", "0", "--method", "autoregressive")
            # Kept for this machine; equal seeds give equal texts by them.
            runs = [objects(*common, *block, "--seed", "4")[0] for _ in range(2)]
            self.assertEqual(runs[0]["token_ids"], runs[1]["token_ids"])
            self.assertEqual(runs[0]["draft_calls"], runs[1]["draft_calls"])
            times = json.loads(Path(runs[0]["costs"]).read_text())
            self.assertEqual([rows for rows, _ in times["draft_seconds_by_rows"]], [1, 4], "of one level and of all")
            self.assertEqual(times["target_seconds_by_rows"][0][0], 1)
            self.assertGreater(len(times["target_seconds_by_rows"]), 2)
            self.assertEqual(list(times["library_seconds"]), ["nested_ranked_block/stratified"])
            # The default, but not where trees are drawn or a method is named.
            (chosen,) = objects(*common, *block[:2], "--seed", "4")
            self.assertEqual(chosen["token_ids"], runs[0]["token_ids"])
            self.assertEqual(chosen["costs"], runs[0]["costs"])
            for more in (("--show-tree",), ("--method", "ranked_block/stratified")):
                self.assertNotIn("costs", objects(*common, *block[:2], *more)[0], more)
            # By a file: where nothing but a step costs anything there are trees, and where a draft is dear none.
            file = folder / "costs.json"
            for method in ("nested_ranked_block/stratified", "traversal/sequential", "block/iid"):
                for seconds, drafts in ((0, True), (1e3, False)):
                    file.write_text(json.dumps({"target_seconds_by_rows": [[1, 1], [33, 1]], "draft_seconds_by_rows": [[1, seconds]],
                                                "library_seconds": {method: {"step": 0, "node": 0}}}))
                    for temperature in ("0", "1"):
                        (one,) = objects(*common, "--temperature", temperature, *block, "--costs", str(file), "--method", method)
                        self.assertEqual(one["draft_calls"] > 0, drafts, (method, temperature))
                        self.assertEqual(one["costs"], str(file))
                        if temperature == "0":
                            self.assertEqual(one["token_ids"], greedy["token_ids"], method)
            self.assertIn("holds no times of ranked_block", self.refused(*block, "--costs", str(file), "--method", "ranked_block/stratified"))
            self.assertIn("takes shapes only", self.refused(*block, "--method", "shared_randomness"))
            self.assertIn("for --tree auto", self.refused(*block[:2], "--tree", "best", "--costs", str(file)))
            self.assertIn("not for --compare", self.refused(*block, "--compare"))

    def test_typical_acceptance_has_its_thresholds(self):
        common = ("--prompt", PROMPT, "--tokens", "40", "--method", "lossy/typical_acceptance", "--tree", "3x1x1",
                  "--draft", str(MODELS / "draft"))
        strict, loose = (objects(*common, "--typical-epsilon", e, "--typical-delta", d)[0]["block_efficiency"]
                         for e, d in (("0.9", "0.9"), ("0.001", "0.001")))
        self.assertGreater(loose, strict)
        self.assertIn("--typical-epsilon: 2: not a number in (0, 1]", self.refused(*common, "--typical-epsilon", "2", "--json"))
        self.assertIn("--typical-delta: 0: not a number in (0, 1]", self.refused(*common, "--typical-delta", "0", "--json"))

    def test_output_that_does_not_arrive_is_an_error(self):
        short = ("--prompt", PROMPT, "--tokens", "8")
        for arguments in (short, (*short, "--stream"), (*short, "--json"), ("--list-methods",), ("--list-methods", "--json"),
                          ("--compare", *short, "--tree", "1"), ("--dump-decisions", *short)):
            with open("/dev/full", "w") as full:
                done = subprocess.run([PROGRAM, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=300)
            self.assertEqual(done.returncode, 1, arguments)
            self.assertIn("cannot be written to standard output", done.stderr, arguments)
            closed = subprocess.run(["/bin/sh", "-c", 'exec "$0" "$@" >&-', PROGRAM, *arguments], stderr=subprocess.PIPE,
                                    text=True, timeout=300)
            self.assertEqual(closed.returncode, 1, arguments)
            self.assertIn("cannot be written to standard output", closed.stderr, arguments)

    def test_input_that_cannot_be_read_is_an_error(self):
        for redirection in ("<&-", "</"):
            done = subprocess.run(["/bin/sh", "-c", f'exec "$0" --prompt - --tokens 4 {redirection}', PROGRAM],
                                  capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 1, redirection)
            self.assertEqual(done.stdout, "", redirection)
            self.assertIn("standard input cannot be read", done.stderr, redirection)
        self.assertEqual(run("--prompt", "-", "--tokens", "4", text="").returncode, 0)  # an empty text is one

    def test_a_huge_prompt_is_refused_at_once(self):
        for text in ("word " * 20_000_000, "\u4e2d\u6587" * 5_000_000, "abcdefghijklmnop" * 2_000_000):
            start = time.monotonic()
            done = subprocess.run([PROGRAM, "--prompt", "-"], input=text, capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 1)
            self.assertIn("more tokens than the model's context has", done.stderr)
            self.assertLess(time.monotonic() - start, 10, text[:4])

    def test_seeds_are_whole_numbers_of_64_bits(self):
        for seed in ("-1", "18446744073709551616", "99999999999999999999999", "1.5", "0x10", "", "7x"):
            self.assertIn("--seed", self.refused("--seed", seed), seed)
        self.assertIn("2^64 - 1", self.refused("--seed", "18446744073709551615", "--repeat", "2"))
        (one,) = objects("--prompt", PROMPT, "--tokens", "4", "--seed", "18446744073709551615")
        self.assertEqual(one["seed"], 18446744073709551615)

    def test_bad_input_is_named(self):
        self.assertIn("no such method", self.refused("--method", "magic"))
        self.assertIn("generate: --temperature -1: ", self.refused("--temperature", "-1"))
        self.assertIn("generate: --draft-temperature -2: ", self.refused("--draft-temperature", "-2"))
        self.assertIn("generate: --top-p 2: ", self.refused("--top-p", "2"))
        self.assertIn("generate: --min-p nan: ", self.refused("--min-p", "nan"))
        self.assertIn("generate: --top-k -3: ", self.refused("--top-k", "-3"))
        self.assertIn("chains only", self.refused("--method", "speculative_sampling/iid", "--tree", "2x1"))
        self.assertIn("part at the root", self.refused("--method", "multi_path_block/iid", "--tree", "2x2"))
        for tree in ("4x0", "abc", "fork:0x3", "[-1,5]", "9999999999"):
            self.assertIn(f"generate: --tree {tree}: ", self.refused("--tree", tree))
        for tree in ("4097", "64x64", "1000x1000", "chain:5000"):
            self.assertIn("drafted nodes, and a tree has at most 4096", self.refused("--tree", tree))
        for mode in ((), ("--search",), ("--compare",), ("--dump-decisions",)):
            self.assertIn("generate: --tokens -5: ", self.refused(*mode, "--tokens", "-5"))
            self.assertRegex(self.refused(*mode, "--prompt", "word " * 3000), r"^generate: --prompt of \d+ tokens: ")
        self.refused("--repeat", "0")
        self.refused("--target", "/nowhere")
        self.assertIn("--fallback", self.refused("--method", "lossy/bild", "--fallback", "2"))
        self.assertIn("--rollback", self.refused("--method", "lossy/bild", "--rollback", "-1"))
        self.assertIn("--joint-threshold", self.refused("--method", "lossy/joint_likelihood", "--joint-threshold", "3"))
        self.assertIn("--beams", self.refused("--method", "lossy/joint_decoding", "--beams", "0"))
        for method in ("lossy/joint_decoding", "lossy/joint_likelihood"):
            beams = ("--method", method, "--tokens", "4", "--temperature", "0", "--tree", "1x1", "--beams")
            self.assertEqual(objects("--prompt", PROMPT, *beams, "900")[0]["tokens"], 4)
            self.assertIn("--beams 4096: at most 1024", self.refused("--method", method, "--tree", "chain:16", "--beams", "4096"))
        self.assertIn("generate: --method auto: ", self.refused("--compare", "--method", "auto"))
        self.assertIn("--least", self.refused("--method", "recursive_rejection/best_first", "--least", "7"))
        for option in ("--lookup-paths", "--lookup-longest"):
            for number in ("0", "-1", "100000", "nan", "x"):
                self.assertIn(option, self.refused("--method", "naive/lookup", option, number), number)
        for option in ("--typical-epsilon", "--typical-delta"):
            for number in ("0", "-1", "1.5", "nan", "x"):
                self.assertIn(option, self.refused("--method", "lossy/typical_acceptance", option, number), number)
        stop = ("--method", "recursive_rejection/early_stop")
        for number in ("2", "-0.1", "nan", "inf", ""):
            self.assertIn("--stop-below", self.refused(*stop, "--stop-below", number), number)
        self.assertIn("/nowhere", self.refused(*stop, "--decision-models", "/nowhere"))
        self.assertIn("/nowhere", self.refused("--method", "naive/independent", "--second-draft", "/nowhere"))

    def test_options_that_a_run_does_not_read_are_refused(self):
        trees = (("--show-tree",), ("--show-tree-svg", "/nowhere/tree.svg"), ("--show-tree-dot", "/nowhere/tree.dot"))
        of_methods = (("--least", "0.2"), ("--stop-below", "0.3"), ("--stop-by", "hidden"), ("--decision-models", "/nowhere"),
                      ("--second-draft", "/nowhere"), ("--lookup-paths", "3"), ("--lookup-longest", "3"), ("--fallback", "0.3"),
                      ("--rollback", "2"), ("--joint-threshold", "0.3"), ("--beams", "3"), ("--typical-epsilon", "0.3"),
                      ("--typical-delta", "0.2"))
        whole = (("--repeat", "2"), ("--stream",), ("--perplexity",), *trees)
        for mode, unread in ((("--compare",), (("--method", "block/iid"), ("--budget", "8"), ("--stream",), *trees)),
                             (("--search",), (("--tree", "2x1"), *whole)),
                             (("--dump-decisions",), (("--method", "block/iid"), ("--tree", "2x1"), ("--prompts", "3"), ("--budget", "8"),
                                                      *whole[1:], *of_methods)),
                             (("--prompt-file", "-"), of_methods), (("--prompt-file", "-", "--tree", "2x1"), (("--budget", "8"),))):
            for option in unread:
                refusal = self.refused(*mode, *option)
                self.assertRegex(refusal, f"^generate: {option[0]}: not with {mode[-2] + ' ' + mode[-1] if '2x1' in mode else mode[0]}")
                self.assertEqual(len(refusal.strip().splitlines()), 1)
        for option in of_methods:
            self.assertIn(f"generate: {option[0]}: not read by block/iid (--method)", self.refused("--method", "block/iid", *option))
        for modes in (("--compare", "--search"), ("--compare", "--dump-decisions"), ("--prompt-file", "-", "--search")):
            self.assertIn(f"generate: {modes[-1]}: not with {modes[0]}", self.refused(*modes))
        for given, reason in ((("--prompts", "3"), "--prompts: for --compare and --search"),
                              (("--compare", "--prompts", "3", "--prompt", "a"), "--prompts: not with --prompt"),
                              (("--stream", "--json"), "--stream: not with --json"),
                              (("--perplexity",), "--perplexity: needs --json or --compare"),
                              (("--show-tree-step", "2"), "--show-tree-step: needs --show-tree-svg or --show-tree-dot"),
                              (("--budget", "8", "--tree", "2x1"), "--budget: not with --tree 2x1"),
                              (("--least", "0.2", "--tree", "1x1", "--method", "block/iid"), "--least: not read by block/iid"),
                              (("--budget", "8", "--method", "block/iid"), "--budget: not read by block/iid"),
                              (("--method", "autoregressive", "--draft-temperature", "1"), "--draft-temperature: not read by autoregressive")):
            self.assertIn("generate: " + reason, self.refused(*given))
        # What is at its default is no fault.
        default = json.loads(run("--compare", "--prompt", PROMPT, "--tokens", "1", "--json", "--method", "nested_ranked_block/stratified",
                                 "--prompts", "2", "--budget", "32", "--tree", "1").stdout.splitlines()[0])
        self.assertEqual(default["method"], "autoregressive")
        self.assertEqual(run("--dump-decisions", "--prompt", PROMPT, "--tokens", "1", "--least", "0.1", "--beams", "4").returncode, 0)
        with tempfile.TemporaryDirectory() as work:
            write_block_drafter(Path(work) / "block-drafter")
            block = ("--drafter", work + "/block-drafter")
            for given, reason in ((("--compare", "--beams", "3"), "--beams: not with --compare and --drafter"),
                                  (("--compare", "--tree", "2x1", "--least", "0.2"), "--least: not with --tree 2x1"),
                                  (("--tree", "reach", "--budget", "8"), "--budget: not with --tree reach"),
                                  (("--lookup-paths", "3", "--method", "block/iid"), "--lookup-paths: not read by block/iid")):
                self.assertIn("generate: " + reason, self.refused(*block, *given))
            short = (*block, "--prompt", PROMPT, "--tokens", "2")
            for given in (("--tree", "best", "--budget", "8", "--least", "0.2"), ("--tree", "reach", "--least", "0.2"),
                          ("--lookup-paths", "0"), ("--budget", "8")):
                objects(*short, *given)

    def test_bad_models_are_named(self):
        with tempfile.TemporaryDirectory() as directory:
            tiny = str(Path(directory) / "tiny.gguf")
            tiny_gguf.write(Path(tiny))
            for mode in ((), ("--compare",), ("--search",), ("--dump-decisions",), ("--prompt-file", "/dev/null")):
                self.assertIn(f"generate: --draft {tiny}: has 264 tokens, and the target has 4096", self.refused(*mode, "--draft", tiny))
            self.assertIn(f"generate: --second-draft {tiny}: has 264 tokens, and the draft has 4096",
                          self.refused("--method", "naive/independent", "--second-draft", tiny))
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
