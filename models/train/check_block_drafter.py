#!/usr/bin/env python3
"""The block drafter once more, in NumPy, a token and a slot at a time; compared with its reference outputs.

    check_block_drafter.py models/target models/block-drafter

Follows the description in drafters.py and shares no code with it. Needs NumPy.
"""
import json
import os
import struct
import sys

import numpy as np


def read(directory):
    with open(os.path.join(directory, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    with open(os.path.join(directory, "model.safetensors"), "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        if entry["dtype"] == "BF16":
            bits = np.frombuffer(data[begin:end], dtype=np.uint16).astype(np.uint32) << 16
            numbers = bits.view(np.float32)
        else:
            numbers = np.frombuffer(data[begin:end], dtype={"F32": np.float32, "I64": np.int64, "I32": np.int32, "BOOL": np.bool_}[entry["dtype"]])
        tensors[name] = numbers.reshape(entry["shape"])
    return config, tensors


def rms_norm(x, weight, epsilon):
    return x / np.sqrt(np.mean(x * x) + epsilon) * weight


def rotate(x, position, theta):
    """Halves of a head paired: numbers i and i + 32 turn by position / theta^(i / 32)."""
    half = len(x) // 2
    angle = position / theta ** (np.arange(half, dtype=np.float32) / half)
    a, b = x[:half], x[half:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)])


def silu(x):
    return x / (1 + np.exp(-x))


def heads(x, count):
    return x.reshape(count, -1)


def attend(q, keys, values):
    """One head's query over lists of keys and values."""
    scores = np.array([q @ k for k in keys]) / np.sqrt(len(q))
    weights = np.exp(scores - scores.max())
    return (weights / weights.sum()) @ np.array(values)


def mlp(w, at, y):
    return w[at + "mlp.down_proj.weight"] @ (silu(w[at + "mlp.gate_proj.weight"] @ y) * (w[at + "mlp.up_proj.weight"] @ y))


class Target:
    def __init__(self, directory):
        self.c, self.w = read(directory)

    def states(self, ids):
        """Per position the outputs of all layers."""
        c, w = self.c, self.w
        h, g = c["num_attention_heads"], c["num_key_value_heads"]
        cache = [([[] for _ in range(g)], [[] for _ in range(g)]) for _ in range(c["num_hidden_layers"])]
        out = []
        for position, token in enumerate(ids):
            x, outputs = w["model.embed_tokens.weight"][token], []
            for layer, (keys, values) in enumerate(cache):
                at = f"model.layers.{layer}."
                y = rms_norm(x, w[at + "input_layernorm.weight"], c["rms_norm_eps"])
                q, k, v = (heads(w[f"{at}self_attn.{n}_proj.weight"] @ y, m) for n, m in (("q", h), ("k", g), ("v", g)))
                for i in range(g):
                    keys[i].append(rotate(k[i], position, c["rope_theta"]))
                    values[i].append(v[i])
                mixed = [attend(rotate(q[i], position, c["rope_theta"]), keys[i * g // h], values[i * g // h]) for i in range(h)]
                x = x + w[at + "self_attn.o_proj.weight"] @ np.concatenate(mixed)
                x = x + mlp(w, at, rms_norm(x, w[at + "post_attention_layernorm.weight"], c["rms_norm_eps"]))
                outputs.append(x)
            out.append(outputs)
        return out


class BlockDrafter:
    def __init__(self, directory, target):
        self.c, self.w = read(directory)
        self.embedding = target.w["model.embed_tokens.weight"]
        # Its tokens among the target's.
        self.tokens = np.arange(len(self.embedding))
        if "d2t" in self.w:
            self.tokens = np.arange(len(self.w["d2t"])) + self.w["d2t"]
        groups = range(self.c["num_key_value_heads"])
        self.context = [([[] for _ in groups], [[] for _ in groups]) for _ in range(self.c["num_hidden_layers"])]
        self.length = 0

    def norm(self, x, name):
        return rms_norm(x, self.w[name + ".weight"], self.c["rms_norm_eps"])

    def key_value(self, at, x, position):
        g, w = self.c["num_key_value_heads"], self.w
        k, v = heads(w[at + "k_proj.weight"] @ x, g), heads(w[at + "v_proj.weight"] @ x, g)
        return [rotate(self.norm(row, at + "k_norm"), position, self.c["rope_theta"]) for row in k], v

    def observe(self, states):
        """The states of the next accepted token."""
        taps = np.concatenate([states[layer] for layer in self.c["target_layer_ids"]])
        feature = self.norm(self.w["fc.weight"] @ taps, "hidden_norm")
        for layer, (keys, values) in enumerate(self.context):
            k, v = self.key_value(f"layers.{layer}.self_attn.", feature, self.length)
            for i in range(len(k)):
                keys[i].append(k[i])
                values[i].append(v[i])
        self.length += 1
        return feature

    def block(self, anchor):
        """What the head multiplies, for each slot. The anchor's position is the number of observed tokens."""
        c, w = self.c, self.w
        h, g, slots = c["num_attention_heads"], c["num_key_value_heads"], c["block_size"]
        x = [self.embedding[anchor]] + [w["mask_embedding"]] * (slots - 1)
        for layer, (keys, values) in enumerate(self.context):
            at = f"layers.{layer}."
            y = [self.norm(row, at + "input_layernorm") for row in x]
            own = [self.key_value(at + "self_attn.", row, self.length + k) for k, row in enumerate(y)]
            after = []
            for k, row in enumerate(y):
                mixed = []
                for i, q in enumerate(heads(w[at + "self_attn.q_proj.weight"] @ row, h)):
                    q = rotate(self.norm(q, at + "self_attn.q_norm"), self.length + k, c["rope_theta"])
                    j = i * g // h
                    mixed.append(attend(q, keys[j] + [o[0][j] for o in own], values[j] + [o[1][j] for o in own]))
                z = x[k] + w[at + "self_attn.o_proj.weight"] @ np.concatenate(mixed)
                after.append(z + mlp(w, at, self.norm(z, at + "post_attention_layernorm")))
            x = after
        return [self.norm(row, "norm") for row in x]

    def base_row(self, hidden):
        """Over the target's tokens; minus infinity at one that it does not have."""
        row = np.full(len(self.embedding), -np.inf)
        row[self.tokens] = self.embedding[self.tokens] @ hidden
        return row

    def term(self, parent):
        """The same, 0 there; and nothing after a parent that it does not have."""
        row = np.zeros(len(self.embedding))
        (number,) = np.nonzero(self.tokens == parent)
        if len(number):
            row[self.tokens] = self.w["markov_head.markov_w2.weight"] @ self.w["markov_head.markov_w1.weight"][number[0]]
        return row


def log_sum_exp(row):
    return np.log(np.exp(row - row.max()).sum()) + row.max()


def main(target_directory, directory):
    target = Target(target_directory)
    with open(os.path.join(directory, "reference.json"), encoding="utf-8") as file:
        reference = json.load(file)
    worst = 0.0

    def compare(what, ours, theirs):
        nonlocal worst
        difference = float(np.abs(np.asarray(ours) - np.asarray(theirs)).max())
        worst = max(worst, difference)
        if difference > 1e-3:
            sys.exit(f"{what}: differs by {difference}")

    def compare_row(what, row, theirs):
        compare(what, row[theirs["top_ids"]], theirs["top_logits"])
        compare(what + ", log-sum-exp", log_sum_exp(row), theirs["logsumexp"])

    drafter = None
    for case in reference["prompts"]:
        drafter = BlockDrafter(directory, target)
        ids, name = case["token_ids"], case["prompt"]
        features = [drafter.observe(states) for states in target.states(ids[:-1])]
        compare(f"{name}: first feature", features[0][:8], case["first_feature"])
        compare(f"{name}: last feature", features[-1][:8], case["last_feature"])
        hidden = drafter.block(ids[-1])
        for k, row in enumerate(hidden):
            compare(f"{name}: slot {k}", row[:8], case["hidden_rows"][k])
            base = drafter.base_row(row)
            if k == 0 and "base_row_0" in case:
                compare(f"{name}: base row 0", base, case["base_row_0"])
            compare_row(f"{name}: base row {k}", base, case["base_rows"][k])
            along = case["rows_along_it"][k]
            compare_row(f"{name}: row {k}", base + drafter.term(along["parent"]), along)
    for token, theirs in reference.get("markov_terms", {}).items():
        term = drafter.term(int(token))
        compare(f"term of {token}", term[:8], theirs["first"])
        compare_row(f"term of {token}", term, theirs)
    print(f"all within {worst:.1e}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
