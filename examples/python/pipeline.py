"""A pipeline of Hugging Face transformers with draft trees: one argument more, and nothing else of the caller's code changes.

    pipeline.py [--target DIR] [--draft DIR] [--tokenizer DIR] [PROMPT ..]

By default the repository's pair. Needs torch, transformers and, for its tokenizer, sentencepiece and protobuf.
"""

import argparse
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, pipeline

from multidraft import hf

MODELS = Path(__file__).resolve().parents[2] / "models"
parser = argparse.ArgumentParser()
parser.add_argument("prompts", nargs="*", default=["And the LORD said unto Moses,", "In the beginning"])
parser.add_argument("--target", default=str(MODELS / "target"))
parser.add_argument("--draft", default=str(MODELS / "draft-distilled"))
parser.add_argument("--tokenizer", default=str(MODELS))
args = parser.parse_args()

target, draft = (AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32) for name in (args.target, args.draft))
tokenizer = AutoTokenizer.from_pretrained(args.tokenizer, padding_side="left")
if tokenizer.pad_token is None:
    tokenizer.pad_token = tokenizer.eos_token
generate = pipeline("text-generation", model=target, tokenizer=tokenizer)

# The text at temperature 0 is that of the same pipeline without drafts.
plain = generate(args.prompts, max_new_tokens=40, do_sample=False, batch_size=2)
drafted = generate(args.prompts, max_new_tokens=40, do_sample=False, batch_size=2, custom_generate=hf.custom_generate(draft))
print("greedy texts equal to those without drafts:", drafted == plain)

# Above it the text has the target's distribution.
torch.manual_seed(1)
for (one,) in generate(args.prompts, max_new_tokens=40, do_sample=True, temperature=0.7, batch_size=2,
                       custom_generate=hf.custom_generate(draft, tree="3x1x1x1")):
    print(one["generated_text"])
