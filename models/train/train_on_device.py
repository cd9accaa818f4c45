#!/usr/bin/env python3
"""Train a block drafter on a GPU: the target answers prompts there, its hidden states stay in the GPU's memory.

    answer_states TARGET.gguf PROMPTS.jsonl PROMPTS --only-prompts
    train_on_device.py TARGET.gguf PROMPTS OUT --like models/smollm-drafter --answer-seconds 80 --train-seconds 200
    features.py models/target CORPUS DIRECTORY --kind prompts
    train_on_device.py models/target DIRECTORY/sampled OUT --like models/block-drafter --documents DIRECTORY/documents.npz ..

PROMPTS names the files of answer_states, PROMPTS-prompts.tokens.npy and so on. With --documents half of every batch is texts that
are used as they are. `--like` has the shape of the drafter and, unless --cold, the weights that
training begins with. The draft vocabulary is chosen anew, as in train_drafter.py, whose loss, optimiser and learning rate these
are; but all six positions of an anchor are drafted, and the learning rate follows the time that is left.

Answers are drawn in bfloat16 with float32 sums, in waves of prompts of about one length, a token of each at a time. Hidden
states are computed again, in float32 (products in TF32), kept as float16: 3.5 kB a token for SmolLM2-135M.
Runs on a CPU too (--device cpu), in minutes to an hour where it has tiles (AMX): there the layers' products of the training are in
bfloat16, and states in float32.
"""
import argparse
import json
import os
import random
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from llama import Llama, angles, rms_norm, rotate
from measure_drafter import load
from train_drafter import END, DECAY, learning_rate, loss_gradient, target_rows


def read_prompts(name):
    """(ids of the system message, [(ids, temperature)])."""
    table, tokens = np.load(name + "-prompts.texts.npy"), np.load(name + "-prompts.tokens.npy").astype(np.int64)
    ends = table[:, 2].cumsum()
    system = np.load(name + "-system.tokens.npy").astype(np.int64) if os.path.exists(name + "-system.tokens.npy") else np.zeros(0, np.int64)
    return system, [(tokens[end - row[2]:end], row[1] / 1000) for row, end in zip(table, ends)]


class Lockstep:
    """The target's next tokens of many texts of one length, a token of each at a time, in bfloat16."""

    def __init__(self, model):
        self.m = model
        low = lambda name: model.weight(name).detach().bfloat16()
        self.layers = []
        for at in range(model.layers):
            w = lambda name, at=at: low(f"model.layers.{at}.{name}")
            self.layers.append((model.weight(f"model.layers.{at}.input_layernorm"), torch.cat([w(f"self_attn.{n}_proj") for n in "qkv"]),
                                w("self_attn.o_proj"), model.weight(f"model.layers.{at}.post_attention_layernorm"),
                                torch.cat([w("mlp.gate_proj"), w("mlp.up_proj")]), w("mlp.down_proj")))
        self.embedding = low("model.embed_tokens")

    def begin(self, batch, length):
        m = self.m
        self.k, self.v = ([torch.zeros(batch, m.kv_heads, length, m.head_dim, dtype=torch.bfloat16) for _ in range(m.layers)] for _ in "kv")
        self.cos, self.sin = angles(torch.arange(length), m.head_dim, m.theta)

    def keep(self, rows):
        for cache in (self.k, self.v):
            for at in range(len(cache)):
                cache[at] = cache[at][rows].contiguous()

    def step(self, tokens, t, with_logits):
        m, b = self.m, len(tokens)
        x = F.embedding(tokens, self.embedding).float()
        cos, sin = self.cos[t], self.sin[t]
        for at, (norm, qkv, out, norm2, gate_up, down) in enumerate(self.layers):
            y = F.linear(rms_norm(x, norm, m.epsilon).bfloat16(), qkv).view(b, -1, m.head_dim)
            q_k = rotate(y[:, : m.heads + m.kv_heads].float(), cos, sin).bfloat16()
            self.k[at][:, :, t] = q_k[:, m.heads:]
            self.v[at][:, :, t] = y[:, m.heads + m.kv_heads:]
            # The queries of a key-value head are its positions: all see all keys there are.
            mixed = F.scaled_dot_product_attention(q_k[:, : m.heads].view(b, m.kv_heads, -1, m.head_dim), self.k[at][:, :, : t + 1],
                                                   self.v[at][:, :, : t + 1])
            x = x + F.linear(mixed.reshape(b, -1), out)
            gate, up = F.linear(rms_norm(x, norm2, m.epsilon).bfloat16(), gate_up).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, down)
        if with_logits:
            return F.linear(rms_norm(x, m.weight("model.norm"), m.epsilon).bfloat16(), self.embedding).float()
        return None


@torch.inference_mode()
def answer(lockstep, system, prompts, longest, ends, generator):
    """Ids of each prompt and its answer with its end, as flat ids on the CPU, and their lengths."""
    first = len(system)
    lengths = torch.tensor([first + len(ids) for ids, _ in prompts])
    length = int(lengths.max()) + longest
    tokens = torch.zeros(len(prompts), length, dtype=torch.long)
    padded = np.zeros((len(prompts), int(lengths.max())), np.int64)
    for row, (ids, _) in enumerate(prompts):
        padded[row, :first], padded[row, first:first + len(ids)] = system, ids
    tokens[:, : padded.shape[1]] = torch.from_numpy(padded).to(tokens.device)
    hot = torch.tensor([t for _, t in prompts]).float().clamp_min(1e-3)
    stop = torch.full((len(prompts),), length)  # where the text ends
    rows, shortest = torch.arange(len(prompts)), int(lengths.min())
    lockstep.begin(len(prompts), length)
    for t in range(length - 1):
        logits = lockstep.step(tokens[rows, t], t, t + 1 >= shortest)
        if logits is not None:
            noise = torch.empty_like(logits).exponential_(generator=generator).log_()
            drawn = (logits / hot[rows, None] - noise).argmax(-1)
            own = t + 1 >= lengths[rows]
            tokens[rows, t + 1] = torch.where(own, drawn, tokens[rows, t + 1])
            ended = own & ((drawn == ends[0]) | (drawn == ends[1]) | (t + 2 - lengths[rows] >= longest))
            stop[rows] = torch.where(ended & (stop[rows] == length), t + 2, stop[rows])
        if t % 16 == 15 and t >= shortest:
            open_rows = stop[rows] == length
            left = int(open_rows.sum())
            if left == 0:
                break
            if left < 0.85 * len(rows):
                kept = open_rows.nonzero()[:, 0]
                rows = rows[kept]
                lockstep.keep(kept)
    inside = torch.arange(length) < stop[:, None]
    inside[:, :first] = False
    return tokens[inside].cpu().numpy(), (stop - first).cpu().numpy()


class Texts:
    """Texts with the target's hidden states in the device's memory; the system message is in front of each."""

    def __init__(self, target, drafter, system, tokens, lengths, begins, halves, device):
        self.target, self.taps, self.system = target, drafter.taps, len(system)
        self.lengths, self.begins, self.halves = lengths, begins, halves
        self.offsets = self.system + np.concatenate([[0], lengths.cumsum()[:-1]])
        self.tokens = torch.from_numpy(np.concatenate([system, tokens]).astype(np.int64)).to(device)
        # What the head multiplies is the norm of the last layer's output; kept where no tap has that.
        self.ends_in_tap = self.taps[-1] == target.layers - 1
        self.states = torch.zeros(len(self.tokens), len(self.taps) + (not self.ends_in_tap), target.config["hidden_size"], dtype=torch.float16)
        self.norm = target.weight("model.norm").detach()

    def places(self, texts):
        """[S, T] places of the texts' tokens, and [S, 2] where their answers begin and end."""
        ends = self.system + self.lengths[texts]
        at = np.arange(ends.max())
        places = np.where(at < self.system, at, self.offsets[texts][:, None] - self.system + at)
        places = np.where(at < ends[:, None], places, -1)
        return places, np.stack([self.system + self.begins[texts], ends], 1)

    @torch.inference_mode()
    def compute_states(self, rows=65536):
        order = self.lengths.argsort()
        at = 0
        while at < len(order):
            size = max(1, rows // int(self.system + self.lengths[order[min(at + rows // 64, len(order) - 1)]]))
            places, _ = self.places(order[at:at + size])
            at += size
            places = torch.from_numpy(places).to(self.tokens.device)
            inside = places >= 0
            states = self.target.states(self.tokens[places.clamp_min(0)], self.taps)
            for k in range(self.states.shape[1]):
                self.states[places[inside], k] = states[k][inside].half()

    def batch(self, draw, size):
        if self.halves:
            half = size // 2
            texts = np.array([draw.randrange(self.halves) for _ in range(half)] +
                             [draw.randrange(self.halves, len(self.lengths)) for _ in range(size - half)])
        else:
            texts = np.array([draw.randrange(len(self.lengths)) for _ in range(size)])
        places, spans = self.places(texts)
        places = torch.from_numpy(places).to(self.tokens.device, non_blocking=True)
        self.spans = torch.from_numpy(spans).to(self.tokens.device, non_blocking=True)
        ids = torch.where(places >= 0, self.tokens[places.clamp_min(0)], END)
        states = self.states[places.clamp_min(0)].float()
        # No states are known at the last token of a text.
        known = (torch.arange(places.shape[1]) < self.spans[:, 1:] - 1)[..., None, None]
        states = torch.where(known, states, 0)
        if self.ends_in_tap:
            states = torch.cat([states, rms_norm(states[:, :, -1:], self.norm, self.target.epsilon)], 2)
        return ids, states

    def anchors(self, tokens, count, steps, generator):
        position = torch.arange(tokens.shape[1])
        inside = (position >= self.spans[:, :1] - 1) & (position < self.spans[:, 1:] - 1)
        scores = torch.rand(tokens.shape, generator=generator).masked_fill(~inside, -1)
        anchors = scores.topk(count, 1).indices
        used = anchors[..., None] + 1 + torch.arange(steps) < self.spans[:, 1, None, None]
        return anchors, used & inside.gather(1, anchors)[..., None]

    @torch.inference_mode()
    def choose_vocabulary(self, size, ends, draw):
        """As train_drafter.choose_vocabulary: the target's mass, and half of what was drawn."""
        mass, rows = torch.zeros(len(self.target.embedding)), 0
        while rows < 60000 and rows < 4 * len(self.tokens):
            ids, states = self.batch(draw, 32)
            position = torch.arange(ids.shape[1])
            inside = (position >= self.spans[:, :1] - 1) & (position < self.spans[:, 1:] - 1)
            mass += self.target.logits(states[:, :, -1][inside]).softmax(-1).sum(0)
            rows += int(inside.sum())
        counts = torch.bincount(self.tokens, minlength=len(mass)).float()
        mass += 0.5 * rows / len(self.tokens) * counts
        mass[list(ends)] = float("inf")
        return mass.topk(size).indices.sort().values


def move_vocabulary(drafter, chosen):
    """The term of the parent is kept for the tokens that stay; new ones have none yet."""
    kept = drafter.number_of[chosen]
    drafter.choose(chosen)
    new = kept < 0
    with torch.no_grad():
        for p in (drafter.markov_head.markov_w1.weight, drafter.markov_head.markov_w2.weight):
            p.copy_(p[kept.clamp_min(0)] * ~new[:, None])
        drafter.markov_head.markov_w1.weight[new] = 0.25 * torch.randn(int(new.sum()), drafter.rank)
    print(f"{int(new.sum())} tokens of the draft vocabulary are new", flush=True)


@torch.no_grad()
def scale_features(drafter, texts, draw):
    """In training each number of the hidden states is divided by its standard deviation; the drafter stays the same."""
    _, states = texts.batch(draw, 64)
    known = torch.arange(states.shape[1]) < texts.spans[:, 1:] - 1
    scale = 1 / states[known][:, :-1].flatten(1).std(0).clamp_min(1e-4)
    drafter.fc.weight.mul_(drafter.feature_scale / scale)
    drafter.feature_scale.copy_(scale)


def train(a, drafter, texts, draw, generator):
    decayed = [p for n, p in drafter.named_parameters() if p.dim() == 2 and "markov_w1" not in n]
    plain = [p for n, p in drafter.named_parameters() if not (p.dim() == 2 and "markov_w1" not in n)]
    optimiser = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}],
                                  lr=a.lr, betas=(0.9, 0.95), fused=a.device != "cpu")
    weight = torch.exp(-torch.arange(drafter.steps) / DECAY)
    gradient_of = loss_gradient
    if drafter.low_precision:
        torch.set_float32_matmul_precision("medium")
        gradient_of = torch.compile(loss_gradient)  # on a CPU its passes over memory are half of a step
    begun, step, sums = time.time(), 0, torch.zeros(2, drafter.steps)
    total = 100000
    while True:
        spent = time.time() - begun
        if (step == a.steps) if a.steps else spent > a.train_seconds:
            break
        now = int(total * (step / a.steps if a.steps else spent / a.train_seconds))
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(a.lr, now, total)
        tokens, states = texts.batch(draw, a.batch)
        anchors, used = texts.anchors(tokens, a.anchors, drafter.steps, generator)
        logits = drafter.rows(tokens, states, anchors)
        at = anchors[:, :, None] + torch.arange(drafter.steps)
        hot = torch.where(torch.rand(anchors.shape, generator=generator) < 0.5, 1.0, 0.7)[..., None, None]
        rows = target_rows(drafter.head, states, at)
        early = 0.0 if not a.cold else max(0.0, 1 - now / (0.2 * total))
        labels = tokens.gather(1, (at + 1).clamp_max(tokens.shape[1] - 1).flatten(1)).unflatten(1, used.shape[1:])
        alpha, _, gradient = gradient_of(logits.detach(), rows, labels, hot, "l1", early)
        w = used * weight
        w = w / w.sum()
        optimiser.zero_grad(set_to_none=True)
        logits.backward(gradient.mul_(w[..., None]))
        torch.nn.utils.clip_grad_norm_(drafter.parameters(), 1.0)
        optimiser.step()
        sums += torch.stack([(alpha * used).sum((0, 1)), used.sum((0, 1))])
        step += 1
        if step % a.show == 0:
            shown = " ".join(f"{x:.3f}" for x in (sums[0] / sums[1].clamp_min(1)).tolist())
            sums.zero_()
            print(f"step {step}, alpha {shown}, {1000 * (time.time() - begun) / step:.1f} ms a step, {time.time() - begun:.0f} s", flush=True)
            if a.device == "cpu":
                drafter.save(a.out)
    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target")
    parser.add_argument("prompts")
    parser.add_argument("out")
    parser.add_argument("--like", required=True, help="a drafter's directory")
    parser.add_argument("--documents", help="texts that are used as they are")
    parser.add_argument("--longest", type=int, default=320, help="tokens of an answer, at most")
    parser.add_argument("--length", type=int, default=0, help="tokens of a prompt and its answer, at most, in place of --longest")
    parser.add_argument("--wave", type=int, default=4096, help="texts that are answered at a time")
    parser.add_argument("--answer-seconds", type=float, default=80)
    parser.add_argument("--train-seconds", type=float, default=200)
    parser.add_argument("--steps", type=int, default=0, help="train for so many, not for a time")
    parser.add_argument("--batch", type=int, default=64, help="texts")
    parser.add_argument("--anchors", type=int, default=32, help="of a text")
    parser.add_argument("--lr", type=float, default=1.5e-3)
    parser.add_argument("--cold", action="store_true", help="begin at random")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=200)
    parser.add_argument("--device", default="cuda")
    a = parser.parse_args()
    begun = time.time()
    torch.manual_seed(a.seed)
    torch.set_float32_matmul_precision("high" if a.device != "cpu" else "highest")
    target = Llama(a.target).requires_grad_(False)
    drafter = load("block", a.like, target, 0)
    if not a.cold:
        drafter.load(a.like)
    torch.set_default_device(a.device)
    target, drafter = target.to(a.device), drafter.to(a.device)
    drafter.choose(drafter.draft_tokens)
    drafter.low_precision = a.device == "cpu"
    generator, draw = torch.Generator(a.device).manual_seed(a.seed), random.Random(a.seed)
    ends = (target.config["eos_token_id"], 0)
    system, prompts = read_prompts(a.prompts)
    print(f"{time.time() - begun:.0f} s to read the target and {len(prompts)} prompts", flush=True)

    draw.shuffle(prompts)
    prompts.sort(key=lambda one: len(one[0]))  # those of one length stay shuffled
    waves = [prompts[at:at + a.wave] for at in range(0, len(prompts), a.wave)]
    draw.shuffle(waves)
    lockstep, tokens, lengths, begins, start = Lockstep(target), [], [], [], time.time()
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        for number, wave in enumerate(waves):
            spent = time.time() - start
            if number and spent * (number + 1) / number > a.answer_seconds:
                break
            longest = a.length - max(len(ids) for ids, _ in wave) if a.length else a.longest
            flat, ends_of = answer(lockstep, system, wave, longest, ends, generator)
            tokens.append(flat)
            lengths.append(ends_of)
            begins.append(np.array([len(ids) for ids, _ in wave]))
            if number in (0, 1, 3, 7) or number % 8 == 7:
                print(f"wave {number}, {sum(map(len, tokens))} tokens, {time.time() - start:.0f} s", flush=True)
    del lockstep
    if a.device != "cpu":
        torch.cuda.empty_cache()
    sampled = sum(map(len, lengths))
    print(f"{sampled} answers, {sum(map(len, tokens))} tokens with the prompts, {time.time() - start:.0f} s", flush=True)
    if a.documents:
        documents = np.load(a.documents)
        tokens.append(documents["tokens"].astype(np.int64))
        lengths.append(documents["lengths"])
        begins.append(np.ones(len(documents["lengths"]), np.int64))
    texts = Texts(target, drafter, system, np.concatenate(tokens), np.concatenate(lengths), np.concatenate(begins),
                  sampled if a.documents else 0, a.device)
    start = time.time()
    texts.compute_states()
    chosen = None
    if drafter.limited:
        chosen = texts.choose_vocabulary(len(drafter.draft_tokens), ends, draw)
        move_vocabulary(drafter, chosen)
    scale_features(drafter, texts, draw)
    print(f"states of {len(texts.tokens)} tokens, {time.time() - start:.0f} s", flush=True)
    start = time.time()
    step = train(a, drafter, texts, draw, generator)
    print(f"{step} steps, {step * a.batch * a.anchors} anchors, {time.time() - start:.0f} s; {time.time() - begun:.0f} s in all", flush=True)
    torch.set_default_device("cpu")
    drafter.to("cpu").save(a.out)
    with open(os.path.join(a.out, "training.json"), "w", encoding="utf-8") as file:
        json.dump({"answers": int(sampled), "tokens": int(len(texts.tokens)), "steps": step, "anchors": step * a.batch * a.anchors,
                   "seconds": round(time.time() - begun)}, file)


if __name__ == "__main__":
    main()
