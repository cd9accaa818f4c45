#!/usr/bin/env python3
"""How often the target accepts what a drafter drafts, by exact rows along held-out text.

    measure_drafter.py block       TARGET FEATURES models/block-drafter [--reference models/block-drafter/reference.json]
    measure_drafter.py independent TARGET FEATURES models/draft
    measure_drafter.py eagle       TARGET FEATURES models/eagle-head
    measure_drafter.py block       TARGET.gguf ANSWERS models/smollm-drafter --answers

FEATURES holds the held-out sequences of features.py, ANSWERS the held-out answers of answer_states. Teacher-forced: the tokens
before a row are the text's. Per temperature (of target and draft alike), along text of the target at that temperature or along a
held-out document:

    alpha     of each position, the mean of sum min(p, q); at temperature 0, how often the largest are the same
    reached   of each position, the share of chains of p/q acceptance that keep it if they kept all before it
    tokens    a target call's mean tokens with such a chain of all positions, the target's own token included

Along text x of the target a chain keeps its first j tokens with probability E prod min(1, q(x_k) / p(x_k)), so `reached`
and `tokens` are exact expectations over the chain's draws, estimated only over texts. +- is one standard error over
sequences. Prints one JSON object a line.
"""
import argparse
import json
import os

import numpy as np
import torch

from drafters import BlockDrafter, FeatureHead, Independent
from llama import Llama
from train_drafter import Answers, counted, target_rows

SETS = [("target's text at 1", 3, 1.0), ("target's text at 0.7", 4, 0.7), ("target's text at 0", 5, 0.0),
        ("scripture", 0, 1.0), ("definitions", 1, 1.0), ("satire", 2, 1.0)]


def load(kind, directory, target, depth, checkpoint=None):
    with open(os.path.join(directory, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    if kind == "independent":
        drafter = Independent(directory)
        drafter.steps = depth or 6
        return drafter
    if kind == "eagle":
        drafter = FeatureHead(target, depth or config["trained_steps"],
                              config["eagle_config"]["eagle_aux_hidden_state_layer_ids"])
    else:
        taps = [t for t in config["target_layer_ids"] if t >= 0]
        some = torch.arange(config["draft_vocab_size"]) if "draft_vocab_size" in config else None
        drafter = BlockDrafter(target, config["num_hidden_layers"], config["block_size"], config["markov_rank"], taps,
                               config["intermediate_size"], some)
    if checkpoint:
        drafter.load_state_dict(torch.load(checkpoint, weights_only=False)["drafter"])
        drafter.choose(drafter.draft_tokens)
        return drafter
    drafter.load(directory)
    return drafter


def of_sequences(drafter, tokens, states, anchors_of):
    """Ids, states, anchors and which positions count, of a few sequences at a time."""
    for at in range(0, len(tokens), 4):
        ids = torch.from_numpy(tokens[at:at + 4].astype(np.int64))
        hidden = torch.from_numpy(states[at:at + 4].astype(np.float32))
        anchors = anchors_of.expand(len(ids), -1)
        yield ids, hidden, anchors, counted(ids, anchors, drafter.steps)


def of_answers(drafter, data, temperature, stride):
    """The same of the answers at a temperature. The first chain begins before an answer's first token."""
    texts = [(name, at) for name, at in data.texts if data.files[name][0][at, 1] == round(1000 * temperature)]
    for first in range(0, len(texts), 4):
        ids, hidden = data.read(texts[first:first + 4])
        anchors = data.spans[:, :1] - 1 + torch.arange(0, ids.shape[1], stride)
        used = data.counted(anchors, drafter.steps)
        enough = int(used[..., 0].sum(1).max())
        yield ids, hidden, anchors[:, :enough].clamp_max(ids.shape[1] - 1), used[:, :enough]


@torch.inference_mode()
def measure(drafter, embedding, sequences, temperature):
    """Sums over each sequence's anchors: count, alpha and prefix products per position."""
    sums = []
    # Numbers of the draft vocabulary, where it is not all tokens.
    limited = getattr(drafter, "limited", False)
    for ids, hidden, anchors, used in sequences:
        used = used.float()
        logits = drafter.rows(ids, hidden, anchors)
        following = anchors[:, :, None] + torch.arange(drafter.steps)
        rows = target_rows(embedding, hidden, following)
        labels = ids.gather(1, (following + 1).clamp_max(ids.shape[1] - 1).flatten(1)).unflatten(1, used.shape[1:])
        best = logits.argmax(-1)
        if limited:
            best = drafter.draft_tokens[best]
        if temperature == 0:
            alpha = (best == rows.argmax(-1)).float()
            kept = (best == labels).float()
        else:
            q, p = (logits / temperature).softmax(-1), (rows / temperature).softmax(-1)
            numbers = labels
            of_label = p.gather(-1, labels[..., None])[..., 0]
            if limited:
                p, numbers = p[..., drafter.draft_tokens], drafter.number_of[labels]
            alpha = torch.minimum(p, q).sum(-1)
            kept = q.gather(-1, numbers.clamp_min(0)[..., None])[..., 0] * (numbers >= 0) / of_label
            kept = kept.clamp_max(1)
        # After an end nothing is drafted: a chain that keeps it has its tokens.
        products = (kept * used).cumprod(-1)
        sums.append(torch.stack([used.sum(1), (alpha * used).sum(1), products.sum(1),
                                 used[:, :, :1].sum(1).expand(-1, drafter.steps)], 1))
    return torch.cat(sums)


def with_error(function, sums):
    """A function of the summed [4, steps], and its standard error by leaving out one sequence at a time."""
    total, n = sums.sum(0), len(sums)
    value = function(total)
    left = torch.stack([function(total - row) for row in sums])
    return value, ((left - left.mean(0)) ** 2).sum(0).mul((n - 1) / n).sqrt()


def reference(drafter, target, cases):
    """What an implementation of the block drafter is compared with."""
    out = []
    largest = lambda row, n=8: {"top_ids": drafter.draft_tokens[row.topk(n).indices].tolist(), "top_logits": rounded(row.topk(n).values),
                                "logsumexp": round(row.logsumexp(-1).item(), 5)}
    rounded = lambda row: [round(x, 5) for x in row.tolist()]
    with torch.no_grad():
        for case in cases:
            ids = torch.tensor([case["token_ids"]])
            states = torch.stack(target.states(ids, drafter.taps), 2)
            anchors = torch.tensor([[ids.shape[1] - 1]])
            features = drafter.hidden_norm(drafter.fc(states[:, :-1, : len(drafter.taps)].flatten(2)))[0]
            hidden = drafter.base(ids, states, anchors)[0, 0]
            base = hidden @ drafter.head.T
            parent, chain, rows = int(ids[0, -1]), [], []
            for row in base:
                row = row + drafter.markov_head(drafter.number_of[torch.tensor(parent)])
                rows.append({"parent": parent} | largest(row))
                parent = int(drafter.draft_tokens[row.argmax()])
                chain.append(parent)
            out.append({"prompt": case["prompt"], "token_ids": case["token_ids"], "context_positions": len(features),
                        "first_feature": rounded(features[0, :8]), "last_feature": rounded(features[-1, :8]),
                        "hidden_rows": [rounded(row[:8]) for row in hidden],
                        "base_rows": [largest(row) for row in base], "greedy_chain": chain, "rows_along_it": rows})
            if not drafter.limited:
                out[-1]["base_row_0"] = rounded(base[0])
        if drafter.limited:
            return {"note": "float32 arithmetic on the BF16 weights and on those of the target's blocks; the anchor is the last "
                    "of token_ids; hidden_rows: the first numbers of what the head multiplies; rows over the draft vocabulary, "
                    "ids of the target's", "prompts": out}
        terms = {}
        for token in (1, 260, 300, 1000, 4000):
            term = drafter.markov_head(torch.tensor(token))
            terms[str(token)] = largest(term) | {"first": rounded(term[:8])}
    return {"note": "float32 arithmetic on the BF16 weights; the anchor is the last of token_ids; hidden_rows: the first "
            "numbers of what the head multiplies; base_row_0: all logits of slot 0 without the term of the parent; "
            "markov_terms: W2 W1[token], largest and first logits", "prompts": out, "markov_terms": terms}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("drafter", choices=("block", "independent", "eagle"))
    parser.add_argument("target")
    parser.add_argument("features")
    parser.add_argument("directory")
    parser.add_argument("--checkpoint", help="weights in training, in place of the directory's")
    parser.add_argument("--reference")
    parser.add_argument("--depth", type=int, default=0)
    parser.add_argument("--answers", action="store_true", help="FEATURES are chunks of answer_states")
    parser.add_argument("--stride", type=int, default=4, help="every how many positions a chain begins")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sets", type=int, default=len(SETS))
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    target = Llama(a.target)
    drafter = load(a.drafter, a.directory, target, a.depth, a.checkpoint)
    if a.reference:
        if a.answers:
            data = Answers(a.features, 1, target, "held-out")
            data.refresh()
            ids, _ = data.read(data.texts[:1])
            cases = [{"prompt": "the beginning of an answer", "token_ids": ids[0, : int(data.spans[0, 0]) + 20].tolist()}]
        else:
            with open(os.path.join(a.target, os.pardir, "reference_logits.json"), encoding="utf-8") as file:
                cases = json.load(file)["models"]["target"]
        with open(a.reference, "w", encoding="utf-8") as file:
            json.dump(reference(drafter, target, cases), file)
        return
    if a.answers:
        data = Answers(a.features, 1, target, "held-out")
        data.refresh()
        a.sets = min(a.sets, 3)
    for name, chunk, temperature in SETS[: a.sets]:
        if a.answers:
            sequences = of_answers(drafter, data, temperature, a.stride)
        else:
            path = os.path.join(a.features, f"held-out-1-{chunk:03}")
            tokens, states = np.load(path + ".tokens.npy"), np.load(path + ".states.npy", mmap_mode="r")
            # Prompts have up to 49 tokens, and greedy text that is longer than this repeats itself.
            sequences = of_sequences(drafter, tokens, states, torch.arange(49, 177, a.stride))
        with torch.inference_mode():
            sums = measure(drafter, target.embedding, sequences, temperature)
            alpha, error = with_error(lambda s: s[1] / s[0], sums)
            result = {"text": name, "temperature": temperature, "alpha": alpha, "+-": error}
            if chunk >= 3:
                chain = lambda s: torch.cat([torch.ones(1), s[2] / s[3]])
                result["reached"], _ = with_error(lambda s: chain(s)[1:] / chain(s)[:-1].clamp_min(1e-9), sums)
                tokens_a_call, tokens_error = with_error(lambda s: chain(s).sum(), sums)
                result |= {"tokens": tokens_a_call, "tokens +-": tokens_error}
        shown = {k: [round(x, 4) for x in v.tolist()] if torch.is_tensor(v) and v.dim() else
                 round(v.item(), 4) if torch.is_tensor(v) else v for k, v in result.items()}
        print(json.dumps(shown), flush=True)


if __name__ == "__main__":
    main()
