#!/usr/bin/env python3
"""Talks with a model through `generate --chat` and checks what it answers.

chat.py PROGRAM [GGUF]    with a small model of random weights, or with SmolLM2-135M-Instruct
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import tiny_gguf
from tiny_safetensors import write_model

PROGRAM = sys.argv[1]
REAL = sys.argv[2] if len(sys.argv) > 2 else None
CACHE = tempfile.TemporaryDirectory()  # of costs: the user's own is left alone
os.environ["XDG_CACHE_HOME"] = CACHE.name


def run(*arguments, text=""):
    done = subprocess.run([PROGRAM, *map(str, arguments)], input=text.encode(), capture_output=True, timeout=600)
    done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
    return done


def objects(*arguments, text=""):
    done = run("--json", *arguments, text=text)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def write_block_drafter(directory, tokens):
    """A small block drafter of the small model that has only these tokens."""
    hidden, rank = 64, 2
    shapes = {"fc.weight": (hidden, 2 * hidden), "hidden_norm.weight": (hidden,), "norm.weight": (hidden,),
              "mask_embedding": (hidden,), "markov_head.markov_w1.weight": (len(tokens), rank),
              "markov_head.markov_w2.weight": (len(tokens), rank)}
    shapes |= {"layers.0." + name: shape for name, shape in {
        "input_layernorm.weight": (hidden,), "post_attention_layernorm.weight": (hidden,),
        "self_attn.q_proj.weight": (64, hidden), "self_attn.k_proj.weight": (32, hidden),
        "self_attn.v_proj.weight": (32, hidden), "self_attn.o_proj.weight": (hidden, 64),
        "self_attn.q_norm.weight": (32,), "self_attn.k_norm.weight": (32,), "mlp.gate_proj.weight": (48, hidden),
        "mlp.up_proj.weight": (48, hidden), "mlp.down_proj.weight": (hidden, 48)}.items()}
    write_model(directory, {"architectures": ["Qwen3DSparkModel"], "vocab_size": 264, "hidden_size": hidden,
                            "intermediate_size": 48, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32,
                            "num_hidden_layers": 1, "num_target_layers": 2, "max_position_embeddings": 512,
                            "block_size": 4, "target_layer_ids": [0, 1], "markov_rank": rank,
                            "draft_vocab_size": len(tokens), "embedding_and_head_of": "target"},
                shapes, [("d2t", [token - k for k, token in enumerate(tokens)])])


def write_eagle_head(directory):
    """A small head of EAGLE-3 of the small model, with all of its tokens."""
    hidden = 64
    shapes = {"fc.weight": (hidden, 2 * hidden), "midlayer.hidden_norm.weight": (hidden,), "norm.weight": (hidden,)}
    shapes |= {"midlayer." + name: shape for name, shape in {
        "input_layernorm.weight": (hidden,), "post_attention_layernorm.weight": (hidden,),
        "self_attn.q_proj.weight": (64, 2 * hidden), "self_attn.k_proj.weight": (32, 2 * hidden),
        "self_attn.v_proj.weight": (32, 2 * hidden), "self_attn.o_proj.weight": (hidden, 64),
        "mlp.gate_proj.weight": (48, hidden), "mlp.up_proj.weight": (48, hidden), "mlp.down_proj.weight": (hidden, 48)}.items()}
    write_model(directory, {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "vocab_size": 264,
                            "hidden_size": hidden, "intermediate_size": 48, "num_attention_heads": 2, "num_key_value_heads": 1,
                            "head_dim": 32, "num_hidden_layers": 1, "num_target_layers": 2, "max_position_embeddings": 512,
                            "target_layer_ids": [0, 1], "draft_vocab_size": 264}, shapes)


class Small(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = Path(cls.folder.name) / "model.gguf"
        tiny_gguf.write(cls.model)
        cls.drafter = Path(cls.folder.name) / "block-drafter"
        write_block_drafter(cls.drafter, range(0, 264, 2))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_drafts_from_the_text_change_nothing(self):
        common = ("--target", self.model, "--tokens", "40", "--precision", "f32")
        for more in (("--temperature", "0"), ("--temperature", "1", "--seed", "3")):
            for chat in (("--chat", "hello hello"), ("--prompt", "hello hello")):
                (drafted,) = objects(*common, *more, *chat)
                (plain,) = objects(*common, *more, *chat, "--method", "autoregressive")
                (fixed,) = objects(*common, *more, *chat, "--method", "naive/lookup", "--tree", "1x1x1x1")
                self.assertEqual((drafted["method"], drafted["lossless"]), ("naive/lookup", True))
                self.assertEqual((plain["method"], plain["target_calls"]), ("autoregressive", plain["tokens"]))
                # Of how many tokens it drafts the times decide, which are kept, and what was accepted so far.
                self.assertTrue(Path(drafted["costs"]).exists())
                self.assertNotIn("costs", fixed)
                if more[1] == "0":
                    self.assertEqual(drafted["token_ids"], plain["token_ids"])
                    self.assertEqual(fixed["token_ids"], plain["token_ids"])
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

    def test_a_block_drafter_drafts(self):
        """With every other token of the target; the trees are chosen at each step, or have a shape."""
        common = ("--target", self.model, "--tokens", "20", "--chat")
        turns = "hello\nwhat 12?\nhello again\n"
        for numbers in ("f32", "stored", "stored8", "bf16"):
            greedy = ("--temperature", "0", "--precision", numbers)
            plain = objects(*common, *greedy, "--method", "autoregressive", text=turns)
            for drafter in (("--drafter", self.drafter), ("--drafter", "block", "--tree", "auto"),
                            ("--drafter", self.drafter, "--tree", "3x2x1"), ("--drafter", self.drafter, "--tree", "best"),
                            ("--drafter", self.drafter, "--candidates", "0"), ("--drafter", self.drafter, "--candidates", "7"),
                            ("--drafter", self.drafter, "--method", "recursive_rejection/sequential")):
                drafted = objects(*common, *greedy, *drafter, text=turns)
                self.assertEqual([one["token_ids"] for one in drafted], [one["token_ids"] for one in plain], drafter)
                for one in drafted:
                    self.assertEqual(one["drafter"], str(self.drafter))
                    self.assertEqual("costs" in one, drafter[2:] in ((), ("--tree", "auto")) or "--candidates" in drafter)
                    self.assertTrue(one["lossless"])
        shaped = objects(*common, "--drafter", self.drafter, "--tree", "4x4", text=turns)
        self.assertTrue(all(one["draft_calls"] > 0 for one in shaped))
        # Equal seeds give equal answers, by costs that are kept for the pair; and where only calls cost anything, drafts.
        costs = Path(self.folder.name) / "costs.json"
        costs.write_text(json.dumps({
            "target_seconds_by_rows": [[1, 1.0], [17, 1.01]], "draft_seconds_by_rows": [[1, 1e-3]],
            "library_seconds": {"nested_ranked_block/stratified": {"step": 0.0, "node": 0.0}}}))
        for kept in ((), ("--costs", costs)):
            first, again = (objects(*common, "--drafter", self.drafter, "--seed", "3", *kept, text=turns) for _ in range(2))
            self.assertEqual([one["token_ids"] for one in first], [one["token_ids"] for one in again])
            self.assertEqual([one["draft_calls"] for one in first], [one["draft_calls"] for one in again])
        self.assertEqual(first[0]["costs"], str(costs))
        self.assertGreater(sum(one["drafted"] for one in first), 20)
        self.assertEqual(first[0]["method"], "nested_ranked_block/stratified")
        shown = run(*common, "--drafter", self.drafter, "--seed", "3", "--costs", costs, text=turns)
        self.assertEqual(shown.stdout, "".join(one["text"] + "\n" for one in first))
        self.assertEqual(shown.stderr.count("block efficiency"), 3)
        # With a prompt, too, by every method.
        prompt = ("--target", self.model, "--tokens", "20", "--temperature", "0", "--prompt", "hello")
        (plain,) = objects(*prompt, "--method", "autoregressive")
        for tree in ((), ("--tree", "2x2")):
            (drafted,) = objects(*prompt, "--drafter", self.drafter, *tree)
            self.assertEqual(drafted["token_ids"], plain["token_ids"])
        for row in objects(*prompt, "--drafter", self.drafter, "--compare", "--tree", "best"):
            self.assertEqual((row["same_text"], row["lossless"]), (row["runs"], True), row["method"])
        # What the text repeats is drafted beside the drafter's trees.
        repeating = (*prompt[:2], "--tokens", "400", *prompt[4:], "--ignore-eos", "--drafter", self.drafter, "--costs", costs)
        (both,), (alone,) = objects(*repeating), objects(*repeating, "--lookup-paths", "0")
        self.assertEqual(both["token_ids"], alone["token_ids"])
        self.assertLess(both["target_calls"], alone["target_calls"])
        self.assertNotEqual(both["drafted"], alone["drafted"], "other trees have a part")

    def test_a_head_of_eagle_drafts(self):
        head = Path(self.folder.name) / "a-head"
        write_eagle_head(head)
        common = ("--target", self.model, "--tokens", "20", "--temperature", "0", "--precision", "f32", "--chat")
        turns = "hello\nwhat 12?\nhello again\n"
        plain = objects(*common, "--method", "autoregressive", text=turns)
        for tree in ((), ("--tree", "16x4")):
            drafted = objects(*common, "--drafter", head, *tree, text=turns)
            self.assertEqual([one["token_ids"] for one in drafted], [one["token_ids"] for one in plain])
            for one in drafted:
                self.assertEqual(one["drafter"], str(head))
                self.assertGreater(one["draft_calls"], 0)

    def test_the_shipped_drafter_is_the_default(self):
        """Only for its target; what that is called decides, for a drafter that does not fit is refused."""
        (one,) = objects("--target", self.model, "--tokens", "4", "--chat", "hello")
        self.assertEqual(one["method"], "naive/lookup")
        shipped = Path(__file__).parents[2] / "models" / "smollm-drafter"
        named = Path(self.folder.name) / "SmolLM2-135M-Instruct.Q4_1.gguf"
        tiny_gguf.write(named)
        chat = ("--target", named, "--tokens", "4", "--chat", "hello")
        if shipped.exists():
            done = run(*chat)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"{shipped}/config.json: vocab_size = 49152: the target has 264 tokens", done.stderr)
        else:
            self.assertEqual(objects(*chat)[0]["method"], "naive/lookup")
        for more in (("--drafter", "independent"), ("--draft", "lookup"), ("--method", "naive/lookup")):
            self.assertEqual(objects(*chat, *more)[0]["method"], "naive/lookup")
        self.assertEqual(objects(*chat, "--method", "autoregressive")[0]["method"], "autoregressive")
        (own,) = objects(*chat, "--drafter", self.drafter)
        self.assertEqual(own["drafter"], str(self.drafter))

    def test_refusals(self):
        def refused(*arguments, text=""):
            done = run(*arguments, text=text)
            self.assertEqual(done.returncode, 1, done.stdout)
            return done.stderr

        target = ("--target", self.model)
        self.assertIn("needs a draft model", refused(*target, "--method", "block/iid"))
        self.assertIn("--compare: needs a draft model, named by --draft\n", refused(*target, "--compare"))
        self.assertIn("--search: needs a draft model, named by --draft, not --draft lookup", refused(*target, "--draft", "lookup", "--search"))
        self.assertIn("an empty question", refused(*target, "--chat", "", text="not a question\n"))
        self.assertIn("--tree '': a shape is wanted", refused(*target, "--tree", ""))
        self.assertIn("--prompt-file: needs a draft model, named by --draft, or a drafter, by --drafter", refused(*target, "--prompt-file", "-"))
        self.assertIn("--stop-below: not read by naive/lookup", refused(*target, "--chat", "hello", "--stop-below", "0.3"))
        for more in (("--compare",), ("--search",), ("--dump-decisions",)):
            self.assertIn(f"generate: {more[0]}: not with --chat", refused(*target, "--chat", "hello", *more))
        self.assertIn("--chat: not with", refused(*target, "--chat", "hello", "--show-tree"))
        self.assertIn("unless a block drafter drafts",
                      refused(*target, "--draft", self.model, "--chat", "hello", "--tree", "auto"))
        block = (*target, "--drafter", self.drafter, "--chat", "hello")
        self.assertIn("--chat: not with", refused(*block, "--show-tree"))
        self.assertIn("not with a block drafter", refused(*block, "--method", "naive/lookup"))
        self.assertIn("the drafter has 132 tokens", refused(*block, "--candidates", "133"))
        self.assertIn("block/iid reads whole rows", refused(*block, "--candidates", "3", "--method", "block/iid"))
        self.assertIn("of the rows of a block drafter", refused(*target, "--candidates", "3", "--chat", "hello"))
        self.assertIn("only beside a block drafter", refused(*target, "--lookup-paths", "0", "--chat", "hello"))
        self.assertIn("has no config.json", refused(*target, "--drafter", "eagle", "--chat", "hello"))
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
        # Two answers are nearly equal here: with inputs of 8 bits, as with llama.cpp's, it begins with "L'".
        common = ("--target", REAL, "--temperature", "0", "--tokens", "16", "--precision", "stored", "--chat",
                  "What is the capital of France?")
        for method in (("--method", "naive/lookup"), ("--method", "autoregressive"), ()):
            (one,) = objects(*common, *method)
            self.assertEqual(one["text"], "The capital of France is Paris.")
            self.assertEqual((one["token_ids"][-1], one["stopped_by"]), (2, "stop_token"))

    def test_blocks_that_stay_give_the_text_of_floats(self):
        common = ("--target", REAL, "--temperature", "0", "--tokens", "24", "--prompt", "The capital of France is")
        texts = [objects(*common, "--precision", numbers)[0]["token_ids"] for numbers in ("stored", "f32")]
        self.assertEqual(texts[0], texts[1])

    def test_keeps_the_conversation(self):
        turns = "Name three colours.\nWhat did I ask?\n"
        common = ("--target", REAL, "--temperature", "0", "--tokens", "24", "--chat")
        plain = objects(*common, "--method", "autoregressive", text=turns)
        for how in ((), ("--drafter", "independent")):
            drafted = objects(*common, *how, text=turns)
            self.assertEqual([one["token_ids"] for one in drafted], [one["token_ids"] for one in plain])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "SmolLM2" if REAL else "Small"])
