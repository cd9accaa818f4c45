"""Generates text with a Hugging Face model and draft trees: the target's own distribution, in fewer calls of it.

    hugging_face.py [--target DIR] [--draft DIR] [--method M] [--tree T] [--temperature X] [--tokens N] [PROMPT]

Takes any two causal language models with the same tokenizer, by default the repository's. Needs torch, transformers
and, for a prompt in text, sentencepiece.
"""

import argparse
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import multidraft

MODELS = Path(__file__).resolve().parents[2] / "models"
parser = argparse.ArgumentParser()
parser.add_argument("prompt", nargs="?")
parser.add_argument("--target", default=str(MODELS / "target"))
parser.add_argument("--draft", default=str(MODELS / "draft-distilled"))
parser.add_argument("--method", default="nested_ranked_block/stratified")
parser.add_argument("--tree", default="3x1x1x1")
parser.add_argument("--temperature", type=float, default=0.7)
parser.add_argument("--tokens", type=int, default=60)
args = parser.parse_args()

target, draft = (AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32).eval() for name in (args.target, args.draft))
tokenizer = None
if args.prompt is not None:
    tokenizer = AutoTokenizer.from_pretrained(args.target)
    inputs = dict(tokenizer(args.prompt, return_tensors="pt"))
    inputs.pop("token_type_ids", None)
else:
    inputs = {"input_ids": torch.tensor([[1, 376, 264, 474, 568, 425, 1400, 4024]])}  # And the LORD said unto Moses,

result = multidraft.hf.generate(target, draft, **inputs, method=args.method, tree=args.tree, temperature=args.temperature,
                                max_new_tokens=args.tokens, seed=1, return_dict=True)
tokens = result.sequences[0].tolist()
print(tokens if tokenizer is None else tokenizer.decode(tokens))
print(f"{result.new_tokens[0]} tokens in {result.target_calls} calls of the target: {result.block_efficiency:.2f} each")
rates = [f"{a / t:.2f}" for a, t in zip(result.accepted_by_depth, result.tried_by_depth) if t]
print("accepted by depth:", *rates)

# Greedy text equals that of model.generate, token for token.
greedy = multidraft.hf.generate(target, draft, **inputs, tree=args.tree, temperature=0, max_new_tokens=args.tokens)
plain = target.generate(**inputs, do_sample=False, max_new_tokens=args.tokens)
print("greedy text equal to target.generate:", torch.equal(greedy, plain))
