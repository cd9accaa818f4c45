#!/usr/bin/env python3
"""Sequences of 256 tokens with the target's hidden states: what the drafters are trained on.

    features.py TARGET DATA_DIR OUT_DIR --kind sampled --chunks 80 --seed 1
    features.py TARGET DATA_DIR OUT_DIR --kind corpus --chunks 80 --seed 1
    features.py TARGET DATA_DIR OUT_DIR --kind held-out --seed 1
    features.py TARGET DATA_DIR OUT_DIR --kind prompts --prompts 60000

DATA_DIR holds train.txt (prepare.py); held_out.json and tokenizer.model are those beside TARGET's directory.
Every sequence begins at the beginning of a document; the next document follows the end of a short one.

sampled   begins with 8 to 48 tokens of a training document (a third of each kind of text), continued by the target at
          temperature 1 (three of six), 0.7 (two) or 0.3 (one)
corpus    training documents as they are
held-out  the same two kinds from documents that nobody was trained on, whole; the samples at temperatures 1, 0.7 and 0
prompts   for train_on_device.py, without states: the beginnings of `sampled` in OUT_DIR/sampled-prompts.*, and the training
          documents, cut to 256 tokens, in OUT_DIR/documents.npz

Writes chunks of 96 sequences, KIND-SEED-NUMBER.tokens.npy (uint16, [96, 256]) and .states.npy (float16, [96, 256, 4, width]:
outputs of the layers of --taps, and what the head multiplies). Chunks that are there are kept, so a run can go on.
On one core of 2.8 GHz: sampled 1,700 tokens/s, corpus 3,000.
"""
import argparse
import json
import os
import time

import numpy as np
import sentencepiece
import torch

from llama import Cached, Llama, sample

BATCH, LENGTH = 96, 256


def kinds_of(documents):
    """train.txt has its kinds in this order; a definition document is eight lines, the others are one."""
    is_definition = [("\n" in d) for d in documents]
    first, last = is_definition.index(True), len(documents) - is_definition[::-1].index(True)
    return [documents[:first], documents[first:last], documents[last:]]


def windows(documents, encode, draw):
    """Sequences of LENGTH tokens, each from the beginning of a document, in random order of documents for ever."""
    while True:
        order = draw.permutation(len(documents))
        row = []
        for at in order:
            row += [1] + encode(documents[at]) + [2]
            if len(row) >= LENGTH:
                yield row[:LENGTH]
                row = []


def full(model, rows, taps):
    tokens = torch.tensor(rows)
    parts = [torch.stack(model.states(part, taps), 2) for part in tokens.split(8)]
    return tokens, torch.cat(parts)


def continued(model, prompts, temperatures, taps, generator):
    """The prompts, continued to LENGTH by the model, one step for all rows at a time."""
    cache = Cached(model, len(prompts), LENGTH)
    tokens = torch.zeros(len(prompts), LENGTH, dtype=torch.long)
    given = torch.zeros(len(prompts), LENGTH, dtype=torch.bool)
    for row, prompt in enumerate(prompts):
        tokens[row, : len(prompt)] = torch.tensor(prompt)
        given[row, : len(prompt)] = True
    states = []
    for at in range(LENGTH):
        states.append(torch.stack(cache.step(tokens[:, at], taps), 1).half())
        if at + 1 < LENGTH:
            drawn = sample(model.logits(states[-1][:, -1].float()), temperatures, generator)
            tokens[:, at + 1] = torch.where(given[:, at + 1], tokens[:, at + 1], drawn)
    return tokens, torch.stack(states, 1)


def write_prompts(a, pieces, kinds):
    """The beginnings of texts and the documents, for train_on_device.py."""
    draw = np.random.default_rng([a.seed, 3])
    encoded = [[pieces.encode(document)[:LENGTH] for document in kind] for kind in kinds]
    rows, tokens = [], []
    for i in range(a.prompts):
        kind = encoded[i % len(kinds)]
        prompt = [1] + kind[draw.integers(len(kind))][: draw.integers(8, 49)]
        rows.append([i, (1000, 1000, 1000, 700, 700, 300)[i // 3 % 6], len(prompt), len(prompt)])
        tokens += prompt
    np.save(os.path.join(a.out, "sampled-prompts.texts.npy"), np.array(rows, np.int32))
    np.save(os.path.join(a.out, "sampled-prompts.tokens.npy"), np.array(tokens, np.uint16))
    documents = [([1] + ids + [2])[:LENGTH] for kind in encoded for ids in kind if len(ids) > 4]
    np.savez_compressed(os.path.join(a.out, "documents.npz"), tokens=np.concatenate(documents).astype(np.uint16),
             lengths=np.array([len(ids) for ids in documents]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target")
    parser.add_argument("data")
    parser.add_argument("out")
    parser.add_argument("--kind", choices=("sampled", "corpus", "held-out", "prompts"), required=True)
    parser.add_argument("--prompts", type=int, default=60000)
    parser.add_argument("--chunks", type=int, default=80)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--taps", type=int, nargs="+", default=[1, 4, 6])
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    os.makedirs(a.out, exist_ok=True)
    models = os.path.join(a.target, os.pardir)
    pieces = sentencepiece.SentencePieceProcessor(model_file=os.path.join(models, "tokenizer.model"))
    model = Llama(a.target)
    if a.kind == "held-out":
        with open(os.path.join(models, "held_out.json"), encoding="utf-8") as file:
            kinds = list(json.load(file).values())
        a.chunks = 6
    else:
        with open(os.path.join(a.data, "train.txt"), encoding="utf-8") as file:
            kinds = kinds_of([d for d in file.read().split("\n\n") if d.strip()])
    if a.kind == "prompts":
        return write_prompts(a, pieces, kinds)
    everything = [d for kind in kinds for d in kind]

    done, start = 0, time.time()
    for chunk in range(a.chunks):
        name = os.path.join(a.out, f"{a.kind}-{a.seed}-{chunk:03}")
        if os.path.exists(name + ".tokens.npy"):
            continue
        draw = np.random.default_rng([a.seed, chunk, ("sampled", "corpus", "held-out").index(a.kind)])
        generator = torch.Generator().manual_seed(int(draw.integers(1 << 62)))
        with torch.inference_mode():
            if a.kind == "corpus" or (a.kind == "held-out" and chunk < 3):
                stream = windows(kinds[chunk] if a.kind == "held-out" else everything, pieces.encode, draw)
                tokens, states = full(model, [next(stream) for _ in range(BATCH)], a.taps)
            else:
                temperature = [1, 1, 1, .7, .7, .3] if a.kind == "sampled" else [(1, .7, 0)[chunk - 3]]
                prompts = []
                for row in range(BATCH):
                    kind = kinds[row % len(kinds)]
                    document = pieces.encode(kind[draw.integers(len(kind))])
                    prompts.append([1] + document[: draw.integers(8, 49)])
                temperatures = torch.tensor([temperature[row // 3 % len(temperature)] for row in range(BATCH)]).float()
                tokens, states = continued(model, prompts, temperatures, a.taps, generator)
        np.save(name + ".states.npy", states.half().numpy())
        np.save(name + ".tokens.npy", tokens.to(torch.int32).numpy().astype(np.uint16))
        done += BATCH * LENGTH
        print(f"{os.path.basename(name)}, {done / (time.time() - start):.0f} tokens/s", flush=True)


if __name__ == "__main__":
    main()
