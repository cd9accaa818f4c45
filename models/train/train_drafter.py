#!/usr/bin/env python3
"""Train a drafter of a target on the sequences of features.py, or on the answers of answer_states.

    train_drafter.py block       TARGET FEATURES OUT --steps 3000
    train_drafter.py independent TARGET FEATURES OUT --steps 1200 --from models/draft
    train_drafter.py eagle       TARGET FEATURES OUT --steps 1500
    train_drafter.py block       TARGET.gguf ANSWERS OUT --answers --draft-vocabulary 12288 --units 576 --rank 48 --depths 3 \
        --taps 3 15 29 --steps 2000

Half of every batch is text of the target, half corpus; with --answers all are answers, and drafted positions are in them.
With --depths N the loss of an anchor is at its first position and at N - 1 of the others, drawn, which count for all.
The loss at a drafted position is
    0.1 KL(p | q) + 0.9 |q - p|_1          block and eagle (--loss l1), KL alone at the very start, fading (--early)
    w KL(p | q) + (1 - w) |q - p|_1 / 2    independent (--loss lk), w = exp(-3 alpha), alpha = sum of min(p, q)
    CE of the next token                   --loss ce, for comparison
at temperature 1 or 0.7, drawn for each anchor (of the target and the draft alike), weighted by exp(-k/4) over depths k.
With a draft vocabulary p is the target's law given that its token is in it, and so is the alpha that is shown; measure_drafter.py
has p over all tokens. The vocabulary is chosen by the target's mass on some 16,000 answer tokens, plus half their counts.
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
from llama import Llama, rms_norm
from warm_start import warm_start

END = 2
DECAY = 4.0  # depths over which the weight of the loss falls to 1/e


class Sequences:
    """Random sequences, each kind as often as the others."""

    def __init__(self, directory, seed):
        self.directory, self.draw, self.files = directory, random.Random(seed), {}

    def refresh(self):
        for kind in ("sampled", "corpus"):
            # Prompts of the same kind have tokens alone.
            names = sorted(glob.glob(os.path.join(self.directory, f"{kind}-*.states.npy")))
            self.files[kind] = [name[: -len(".states.npy")] for name in names]

    def batch(self, size):
        tokens, states = [], []
        for at in range(size):
            name = self.draw.choice(self.files[("sampled", "corpus")[at % 2]])
            ids = np.load(name + ".tokens.npy", mmap_mode="r")
            row = self.draw.randrange(len(ids))
            tokens.append(torch.from_numpy(ids[row].astype(np.int64)))
            states.append(torch.from_numpy(np.load(name + ".states.npy", mmap_mode="r")[row].astype(np.float32)))
        return torch.stack(tokens), torch.stack(states)

    def anchors(self, tokens, count, steps, generator):
        """[S, count], and which drafted positions count, [S, count, steps]."""
        anchors = choose_anchors(tokens, count, steps, generator)
        return anchors, counted(tokens, anchors, steps)


class Answers:
    """Random answers with their prompts, all as often: the chunks of answer_states."""

    def __init__(self, directory, seed, target, kind="sampled"):
        self.directory, self.draw, self.kind, self.files = directory, random.Random(seed), kind, {}
        self.norm, self.epsilon = target.weight("model.norm").detach(), target.epsilon

    def refresh(self):
        """Opens the chunks that are new."""
        for name in sorted(glob.glob(os.path.join(self.directory, f"{self.kind}-*.texts.npy"))):
            name = name[: -len(".texts.npy")]
            if name in self.files or not os.path.exists(name + ".tokens.npy"):
                continue
            system = name.rsplit("-", 1)[0] + "-system"
            self.system = np.load(system + ".tokens.npy"), np.load(system + ".states.npy")
            self.files[name] = np.load(name + ".texts.npy"), np.load(name + ".tokens.npy"), np.load(name + ".states.npy", mmap_mode="r")
        self.texts = [(name, at) for name in sorted(self.files) for at in range(len(self.files[name][0]))]

    def read(self, texts):
        """Padded [S, T] ids and [S, T, taps + 1, width]; [S, 2] where the answers begin and end."""
        found = []
        for name, at in texts:
            table, tokens, states = self.files[name]
            end = int(table[: at + 1, 2].sum())
            begin = end - int(table[at, 2])
            found.append((np.concatenate([self.system[0], tokens[begin:end]]).astype(np.int64),
                          np.concatenate([self.system[1], states[begin:end]]).astype(np.float32),
                          len(self.system[0]) + int(table[at, 3])))
        longest = max(len(ids) for ids, _, _ in found)
        ids, states = torch.full((len(found), longest), END), torch.zeros((len(found), longest) + found[0][1].shape[1:])
        for row, (one, of_one, _) in enumerate(found):
            ids[row, : len(one)] = torch.from_numpy(one)
            states[row, : len(one)] = torch.from_numpy(of_one)
        states = torch.cat([states, rms_norm(states[:, :, -1:], self.norm, self.epsilon)], 2)
        self.spans = torch.tensor([[begin, len(one)] for one, _, begin in found])
        return ids, states

    def batch(self, size):
        return self.read([self.draw.choice(self.texts) for _ in range(size)])

    def counted(self, anchors, steps):
        """[S, A, steps]: whether the drafted token is in the answer of the last batch."""
        return anchors[..., None] + 1 + torch.arange(steps) < self.spans[:, 1, None, None]

    def anchors(self, tokens, count, steps, generator):
        position = torch.arange(tokens.shape[1])
        begin, end = self.spans[:, :1], self.spans[:, 1:]
        inside = (position >= begin - 1) & (position < end - 1)
        scores = torch.rand(tokens.shape, generator=generator).masked_fill(~inside, -1)
        anchors = scores.topk(count, 1).indices
        used = self.counted(anchors, steps) & inside.gather(1, anchors)[..., None]
        return anchors, used


@torch.no_grad()
def choose_vocabulary(target, data, size, rows=16000):
    """The tokens with the most of the target's mass in the answers, with those that end one."""
    mass = torch.zeros(len(target.embedding))
    every = 1 + sum(len(tokens) for _, tokens, _ in data.files.values()) // rows
    for at in range(0, len(data.texts), 8):
        ids, states = data.read(data.texts[at:at + 8])
        rows = []
        for row, (begin, end) in enumerate(data.spans.tolist()):
            mass += 0.5 / every * torch.bincount(ids[row, begin:end], minlength=len(mass))
            rows.append(states[row, begin - 1 + (at + row) % every:end - 1:every, -1])
        mass += target.logits(torch.cat(rows)).softmax(-1).sum(0)
    mass[[0, END]] = float("inf")
    return mass.topk(size).indices.sort().values


@torch.no_grad()
def choose_again(drafter, optimiser, tokens):
    """Another draft vocabulary of the same size: the term of the parent is kept for the tokens that stay, zero for new ones."""
    kept = drafter.number_of[tokens]
    drafter.choose(tokens)
    for p in (drafter.markov_head.markov_w1.weight, drafter.markov_head.markov_w2.weight):
        moments = [v for v in optimiser.state[p].values() if v.shape == p.shape]
        for rows in [p] + moments:
            rows.copy_(rows[kept.clamp_min(0)] * (kept >= 0)[:, None])
    new = kept < 0
    drafter.markov_head.markov_w1.weight[new] = 0.25 * torch.randn(int(new.sum()), drafter.rank)
    print(f"{int(new.sum())} tokens of the draft vocabulary are new", flush=True)


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


def target_rows(embedding, states, at):
    """The target's rows at positions [S, A, n]."""
    places = at.clamp_max(states.shape[1] - 1).flatten(1)[..., None].expand(-1, -1, states.shape[-1])
    return F.linear(states[:, :, -1].gather(1, places), embedding).unflatten(1, at.shape[1:])


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
    draft_tokens = torch.arange(a.draft_vocabulary) if a.draft_vocabulary else None
    return BlockDrafter(target, a.layers, a.depth or 6, a.rank, () if a.no_features else a.taps, a.units, draft_tokens)


@torch.no_grad()
def begin(a, target, drafter, data):
    if a.draft_vocabulary:
        drafter.choose(choose_vocabulary(target, data, a.draft_vocabulary))
    if a.answers:
        tokens, states = data.batch(64)
        spans, read = data.spans, torch.zeros(tokens.shape, dtype=torch.bool)
        for row, (_, end) in enumerate(spans.tolist()):
            read[row, : end - 1] = True
        drafter.feature_scale.copy_(1 / states[read][:, :-1].flatten(1).std(0).clamp_min(1e-4))
        if a.cold:
            return
        following = [np.stack([ids[:-1], ids[1:]], 1) for _, ids, _ in data.files.values()]
        warm_start(drafter, target, tokens[:32], states[:32], read[:32], torch.from_numpy(np.concatenate(following).astype(np.int64)))
        return
    if a.cold:
        return
    tokens, states = data.batch(32)
    pairs = np.concatenate([np.load(n + ".tokens.npy") for kind in data.files.values() for n in kind]).astype(np.int64)
    tokens = torch.cat([tokens, torch.from_numpy(pairs)])
    pairs = torch.stack([tokens[:, :-1].flatten(), tokens[:, 1:].flatten()], 1)
    warm_start(drafter, target, tokens[: len(states)], states, torch.ones(states.shape[:2], dtype=torch.bool), pairs)


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
    parser.add_argument("--early", type=float, default=0.1, help="share of the steps until which more than l1's part is KL")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--depth", type=int, default=0, help="tokens drafted from an anchor; 6 for block, 4 for eagle")
    parser.add_argument("--rank", type=int, default=64, help="of the Markov head; 0: none")
    parser.add_argument("--answers", action="store_true", help="FEATURES are chunks of answer_states")
    parser.add_argument("--draft-vocabulary", type=int, default=0, help="tokens; 0: all")
    parser.add_argument("--choose-again", action="store_true", help="the draft vocabulary, by the answers that are there now")
    parser.add_argument("--units", type=int, default=0, help="of the MLP; 0: the target's")
    parser.add_argument("--taps", type=int, nargs="+", default=[1, 4, 6], help="layers whose outputs are read, of a block drafter")
    parser.add_argument("--depths", type=int, default=0, help="positions of an anchor that the loss is at; 0: all")
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
    if a.loss == "ce" and a.draft_vocabulary:
        parser.error("--loss ce has all tokens")
    generator = torch.Generator().manual_seed(a.seed)
    data = Answers(a.features, a.seed, target) if a.answers else Sequences(a.features, a.seed)
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
        if a.drafter == "block":
            drafter.choose(drafter.draft_tokens)
            if a.choose_again:
                choose_again(drafter, optimiser, choose_vocabulary(target, data, a.draft_vocabulary))
        optimiser.load_state_dict(kept["optimiser"])
        step, spent = kept["step"], kept["seconds"]
        generator.set_state(kept["generator"])
        data.draw.setstate(kept["draw"])
    elif a.drafter == "block":
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

    embedding = drafter.head if a.drafter == "block" else target.embedding.detach()
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
            anchors, used = data.anchors(tokens, count, drafter.steps, generator)
        depths, times = torch.arange(used.shape[2]).expand(used.shape), 1.0
        if a.depths:
            others = torch.rand(used.shape[:2] + (drafter.steps - 1,), generator=generator).topk(a.depths - 1).indices + 1
            depths = F.pad(others, (1, 0))
            used = used.gather(2, depths)
            times = torch.where(depths == 0, 1.0, (drafter.steps - 1) / (a.depths - 1))
            logits = drafter.rows(tokens, states, anchors, depths)
        else:
            logits = drafter.rows(tokens, states, anchors)
        at = anchors[:, :, None] + depths
        labels = tokens.gather(1, (at + 1).clamp_max(tokens.shape[1] - 1).flatten(1)).unflatten(1, used.shape[1:])
        hot = torch.where(torch.rand(anchors.shape, generator=generator) < 0.5, 1.0, 0.7)[..., None, None]
        rows = target_rows(embedding, states, at)
        early = max(0.0, 1 - step / (a.early * a.steps))
        alpha, value, gradient = loss_gradient(logits.detach(), rows, labels, hot, loss, early)
        w = used * weight[depths] * times
        w = w / w.sum()
        optimiser.zero_grad(set_to_none=True)
        logits.backward(gradient.mul_(w[..., None]))
        torch.nn.utils.clip_grad_norm_(drafter.parameters(), 1.0)
        optimiser.step()
        step += 1
        of_depth = F.one_hot(depths, drafter.steps) * used[..., None]
        now = (alpha[..., None] * of_depth).sum((0, 1, 2)) / of_depth.sum((0, 1, 2)).clamp_min(1)
        mean = now if mean is None else torch.where(of_depth.sum((0, 1, 2)) > 0, 0.95 * mean + 0.05 * now, mean)
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
