#!/usr/bin/env python3
"""Train a drafter of a target on the sequences of features.py.

    train_drafter.py block       TARGET FEATURES OUT --steps 3000
    train_drafter.py independent TARGET FEATURES OUT --steps 1200 --from models/draft
    train_drafter.py eagle       TARGET FEATURES OUT --steps 1500

Half of every batch is text of the target, half corpus. The loss at a drafted position is
    0.1 KL(p | q) + 0.9 |q - p|_1          block and eagle (--loss l1), KL alone at the very start (a tenth of the steps, fading)
    w KL(p | q) + (1 - w) |q - p|_1 / 2    independent (--loss lk), w = exp(-3 alpha), alpha = sum of min(p, q)
    CE of the next token                   --loss ce, for comparison
at temperature 1 or 0.7, drawn for each anchor (of the target and the draft alike), weighted by exp(-k/4) over depths k.
AdamW, learning rate constant after a warm-up of 3 %, falling linearly to zero over the last 40 %.

Writes OUT/config.json and OUT/model.safetensors at the end, OUT/checkpoint.pt every three minutes; the same command goes on from there. A larger --steps may be given before the learning rate falls. What the drafters are: drafters.py.
"""
import argparse
import glob
import math
import os
import random
import time

import numpy as np
import torch
import torch.nn.functional as F

from drafters import BlockDrafter, FeatureHead, Independent
from llama import Llama
from warm_start import warm_start

END = 2
DECAY = 4.0  # depths over which the weight of the loss falls to 1/e


class Sequences:
    """Random sequences, each kind as often as the others."""

    def __init__(self, directory, seed):
        self.directory, self.draw, self.files = directory, random.Random(seed), {}

    def refresh(self):
        for kind in ("sampled", "corpus"):
            names = sorted(glob.glob(os.path.join(self.directory, f"{kind}-*.tokens.npy")))
            self.files[kind] = [name[: -len(".tokens.npy")] for name in names]

    def batch(self, size):
        tokens, states = [], []
        for at in range(size):
            name = self.draw.choice(self.files[("sampled", "corpus")[at % 2]])
            ids = np.load(name + ".tokens.npy", mmap_mode="r")
            row = self.draw.randrange(len(ids))
            tokens.append(torch.from_numpy(ids[row].astype(np.int64)))
            states.append(torch.from_numpy(np.load(name + ".states.npy", mmap_mode="r")[row].astype(np.float32)))
        return torch.stack(tokens), torch.stack(states)


def choose_anchors(tokens, count, steps, generator):
    """Random positions with `steps` tokens after them, none of them an end."""
    scores = torch.rand(tokens.shape, generator=generator)
    scores[tokens == END] = -1
    scores[:, 0] = -1
    scores[:, -steps:] = -1
    return scores.topk(count, 1).indices


def counted(tokens, anchors, steps):
    """[S, A, steps]: False after an end, where no text is drafted."""
    at = anchors[:, :, None] + torch.arange(steps)
    ended = tokens.gather(1, at.flatten(1)).unflatten(1, at.shape[1:]) == END
    return ~(ended.cumsum(-1) > 0)


def target_rows(embedding, states, anchors, steps):
    at = (anchors[:, :, None] + torch.arange(steps)).flatten(1)
    hidden = states[:, :, -1].gather(1, at[..., None].expand(-1, -1, states.shape[-1]))
    return F.linear(hidden, embedding).unflatten(1, anchors.shape[1:] + (steps,))


@torch.no_grad()
def loss_gradient(logits, target, labels, temperature, kind, early):
    """Per row: (alpha, loss) and the gradient of the loss by the logits. Written out: half the passes over [rows, V]."""
    q = (logits / temperature).softmax(-1)
    p = (target / temperature).softmax(-1)
    difference = q - p
    alpha = 1 - 0.5 * difference.abs().sum(-1)
    if kind == "ce":
        loss = -q.gather(-1, labels[..., None])[..., 0].clamp_min(1e-30).log()
        return alpha, loss, q.scatter_add(-1, labels[..., None], -torch.ones_like(labels[..., None], dtype=q.dtype)) / temperature
    if kind == "lk":
        kl = torch.exp(-3 * alpha)
        l1 = (1 - kl) / 2
    else:
        kl = torch.full_like(alpha, 0.1 + 0.9 * early)
        l1 = torch.full_like(alpha, 0.9 * (1 - early))
    sign = difference.sign()
    inner = (q * sign).sum(-1, keepdim=True)
    gradient = difference.mul_(kl[..., None]).addcmul_(q.mul_(l1[..., None]), sign - inner)
    return alpha, l1 * 2 * (1 - alpha), gradient.div_(temperature)


def learning_rate(peak, step, steps):
    warm, fall = max(20, int(0.03 * steps)), 0.6 * steps
    return peak * min(1, (step + 1) / warm, max(0.01, (steps - step) / (steps - fall)))


def build(a, target):
    if a.drafter == "independent":
        return Independent(a.start)
    if a.drafter == "eagle":
        return FeatureHead(target, steps=a.depth or 4)
    return BlockDrafter(target, a.layers, a.depth or 6, a.rank, () if a.no_features else (1, 4, 6))


def begin(a, target, drafter, data):
    tokens, states = data.batch(32)
    pairs = np.concatenate([np.load(n + ".tokens.npy") for kind in data.files.values() for n in kind]).astype(np.int64)
    warm_start(drafter, target, torch.cat([tokens, torch.from_numpy(pairs)]), states)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("drafter", choices=("block", "independent", "eagle"))
    parser.add_argument("target")
    parser.add_argument("features")
    parser.add_argument("out")
    parser.add_argument("--from", dest="start", default="models/draft", help="of the independent model")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--batch", type=int, default=8, help="sequences")
    parser.add_argument("--anchors", type=int, default=32, help="of a sequence; every position for independent")
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--loss", choices=("l1", "lk", "ce"), default=None)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--depth", type=int, default=0, help="tokens drafted from an anchor; 6 for block, 4 for eagle")
    parser.add_argument("--rank", type=int, default=64, help="of the Markov head; 0: none")
    parser.add_argument("--no-features", action="store_true", help="the embedding in place of the hidden states")
    parser.add_argument("--write", action="store_true", help="only write the model of the last checkpoint")
    parser.add_argument("--cold", action="store_true", help="begin at random, not by warm_start.py")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    loss = a.loss or ("lk" if a.drafter == "independent" else "l1")
    target = Llama(a.target)
    drafter = build(a, target)
    embedding = target.embedding.detach()
    generator = torch.Generator().manual_seed(a.seed)
    data = Sequences(a.features, a.seed)
    data.refresh()
    decayed = [p for n, p in drafter.named_parameters() if p.dim() == 2 and "markov_w1" not in n]
    plain = [p for n, p in drafter.named_parameters() if not (p.dim() == 2 and "markov_w1" not in n)]
    optimiser = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}],
                                  lr=a.lr, betas=(0.9, 0.95))
    print(f"{sum(p.numel() for p in drafter.parameters()) / 1e6:.2f}M parameters", flush=True)

    os.makedirs(a.out, exist_ok=True)
    checkpoint, step, spent = os.path.join(a.out, "checkpoint.pt"), 0, 0.0
    if os.path.exists(checkpoint):
        kept = torch.load(checkpoint, weights_only=False)
        drafter.load_state_dict(kept["drafter"], strict=False)
        optimiser.load_state_dict(kept["optimiser"])
        step, spent = kept["step"], kept["seconds"]
        generator.set_state(kept["generator"])
        data.draw.setstate(kept["draw"])
    elif a.drafter == "block" and not a.cold:
        begin(a, target, drafter, data)
    start = last = shown_at = time.time()
    if a.write:
        a.steps = step
    begun = shown_step = step
    weight = torch.exp(-torch.arange(drafter.steps) / DECAY)
    mean = None

    def keep():
        torch.save({"drafter": drafter.state_dict(), "optimiser": optimiser.state_dict(), "step": step,
                    "seconds": spent + time.time() - start, "generator": generator.get_state(),
                    "draw": data.draw.getstate()}, checkpoint + ".part")
        os.replace(checkpoint + ".part", checkpoint)

    while step < a.steps:
        if step % 50 == 0:
            data.refresh()
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(a.lr, step, a.steps)
        tokens, states = data.batch(a.batch)
        count = tokens.shape[1] - 1 if a.drafter == "independent" else a.anchors
        if a.drafter == "independent":
            anchors = torch.arange(count).expand(len(tokens), -1)
            used = (tokens[:, :count] != END)[..., None]
        else:
            anchors = choose_anchors(tokens, count, drafter.steps, generator)
            used = counted(tokens, anchors, drafter.steps)
        logits = drafter.rows(tokens, states, anchors)
        at = (anchors[:, :, None] + 1 + torch.arange(drafter.steps)).flatten(1)
        labels = tokens.gather(1, at).unflatten(1, used.shape[1:])
        hot = torch.where(torch.rand(anchors.shape, generator=generator) < 0.5, 1.0, 0.7)[..., None, None]
        rows = target_rows(embedding, states, anchors, drafter.steps)
        early = max(0.0, 1 - step / (0.1 * a.steps))
        alpha, value, gradient = loss_gradient(logits.detach(), rows, labels, hot, loss, early)
        w = used * weight
        w = w / w.sum()
        optimiser.zero_grad(set_to_none=True)
        logits.backward(gradient.mul_(w[..., None]))
        torch.nn.utils.clip_grad_norm_(drafter.parameters(), 1.0)
        optimiser.step()
        step += 1
        now = torch.where(used.flatten(0, 1).any(0), (alpha * used).sum((0, 1)) / used.sum((0, 1)).clamp_min(1), 0.0)
        mean = now if mean is None else 0.95 * mean + 0.05 * now
        if step % 25 == 0 or step - begun in (1, 5):
            shown = " ".join(f"{x:.3f}" for x in mean.tolist())
            rate, shown_at, shown_step = (time.time() - shown_at) / (step - shown_step), time.time(), step
            print(f"step {step} of {a.steps}, alpha {shown}, {rate:.2f} s a step, "
                  f"{(spent + time.time() - start) / 60:.1f} minutes, {time.process_time() / 60:.1f} of a core", flush=True)
        if time.time() - last > 180:
            keep()
            last = time.time()
    if not a.write:
        keep()
    drafter.save(a.out)
    print(f"{(spent + time.time() - start) / 60:.1f} minutes", flush=True)


if __name__ == "__main__":
    main()
