#!/usr/bin/env python3
"""Heads in the manner of EAGLE-3 once more, in NumPy, a token at a time; compared with their reference outputs.

    check_eagle_head.py TARGET HEAD
    check_eagle_head.py --write tests/data/eagle_head

Follows the description of the feature head in drafters.py and shares no code with it or with an implementation; HEAD has
reference.json. --write makes a tiny target with random weights and three heads of it in published layouts, with what
they compute:

    published   as EAGLE's own checkpoints are: fewer tokens than the target (d2t, t2d), layers by default, an output head
    trained     as train_drafter.py writes them: embedding and output head are the target's
    wider       of another width than the target, so with an embedding of its own; the residual is normalised

Needs NumPy.
"""
import json
import os
import struct
import sys

import numpy as np

from check_block_drafter import Target, attend, heads, mlp, read, rms_norm, rotate

# After every text a small tree: parents (-1: the text) and tokens.
PARENTS, TOKENS = [-1, -1, 0, 2], [7, 3, 7, 1]
TEXTS = [[5], [1, 9, 4, 30, 4, 4, 17, 2, 8]]


class EagleHead:
    def __init__(self, directory, target):
        self.c, self.w = read(directory)
        layers = target.c["num_hidden_layers"]
        inner = self.c.get("eagle_config", {}).get("eagle_aux_hidden_state_layer_ids")
        self.taps = inner or self.c.get("target_layer_ids") or [1, layers // 2 - 1, layers - 4]
        self.embedding = self.w.get("embed_tokens.weight", target.w["model.embed_tokens.weight"])
        self.head = self.w.get("lm_head.weight", target.w["model.embed_tokens.weight"])
        self.theta = self.c.get("rope_parameters", self.c).get("rope_theta", 10000.0)
        self.zero = np.zeros(self.c["hidden_size"])

    def norm(self, x, name):
        return rms_norm(x, self.w[name + ".weight"], self.c["rms_norm_eps"])

    def state_of(self, states):
        """What is read of the target at a position."""
        return self.w["fc.weight"] @ np.concatenate([states[layer] for layer in self.taps])

    def after(self, context, position, state, token):
        """(key, value) and the state where `token` follows `state`, which is at that position; `context` are such pairs."""
        c, w = self.c, self.w
        h, g = c["num_attention_heads"], c["num_key_value_heads"]
        at = "midlayer."
        normed = self.norm(state, at + "hidden_norm")
        y = np.concatenate([self.norm(self.embedding[token], at + "input_layernorm"), normed])
        q, k, v = (heads(w[f"{at}self_attn.{n}_proj.weight"] @ y, m) for n, m in (("q", h), ("k", g), ("v", g)))
        own = [rotate(row, position, self.theta) for row in k], v
        seen = context + [own]
        mixed = [attend(rotate(q[i], position, self.theta), [e[0][i * g // h] for e in seen], [e[1][i * g // h] for e in seen])
                 for i in range(h)]
        z = (normed if c.get("norm_before_residual") else state) + w[at + "self_attn.o_proj.weight"] @ np.concatenate(mixed)
        return own, z + mlp(w, at, self.norm(z, at + "post_attention_layernorm"))

    def row(self, state):
        """Logits over the target's tokens, None where the head does not have the token."""
        logits = self.head @ self.norm(state, "norm")
        if "d2t" not in self.w:
            return list(logits)
        row = [None] * self.c["vocab_size"]
        for k, offset in enumerate(self.w["d2t"]):
            row[k + int(offset)] = logits[k]
        return row

    def rows(self, ids, states):
        """The row after a text, then those at the nodes of the tree."""
        if len(ids) == 1:
            _, state = self.after([], -1, self.zero, ids[0])
            context = []
        else:
            context = []
            for s in range(len(ids) - 1):
                entry, state = self.after(context, s, self.state_of(states[s]), ids[s + 1])
                context.append(entry)
        found, paths = [self.row(state)], {-1: (context, len(ids) - 2, state)}
        for node, (parent, token) in enumerate(zip(PARENTS, TOKENS)):
            above, position, state = paths[parent]
            entry, state = self.after(above, position + 1, state, token)
            paths[node] = above + [entry], position + 1, state
            found.append(self.row(state))
        return found


def reference_of(directory, target):
    head = EagleHead(directory, target)
    texts = [{"token_ids": ids, "rows": head.rows(ids, target.states(ids))} for ids in TEXTS]
    return {"parents": PARENTS, "tokens": TOKENS, "texts": texts}


def write(directory, config, shapes, seed, more=()):
    """A model of random BF16 numbers, and tensors of integers."""
    draw = np.random.default_rng(seed)
    header, data = {}, b""

    def add(name, dtype, shape, numbers):
        nonlocal data
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(data), len(data) + len(numbers)]}
        data += numbers

    for name, array in more:
        add(name, "I64" if array.dtype == np.int64 else "BOOL", array.shape, array.tobytes())
    for name, shape in shapes.items():
        is_norm = "norm" in name
        values = (1.0 if is_norm else 0.0) + draw.normal(size=shape) * (0.2 if is_norm else 0.5 if "embed" in name else 0.3)
        add(name, "BF16", shape, (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes())
    os.makedirs(directory, exist_ok=True)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(directory, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    with open(os.path.join(directory, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file, indent=1)
        file.write("\n")


def layer_shapes(at, c, inputs):
    hidden, units = c["hidden_size"], c["intermediate_size"]
    q, kv = (c[key] * c["head_dim"] for key in ("num_attention_heads", "num_key_value_heads"))
    return {at + "input_layernorm.weight": (hidden,), at + "post_attention_layernorm.weight": (hidden,),
            at + "self_attn.q_proj.weight": (q, inputs), at + "self_attn.k_proj.weight": (kv, inputs),
            at + "self_attn.v_proj.weight": (kv, inputs), at + "self_attn.o_proj.weight": (hidden, q),
            at + "mlp.gate_proj.weight": (units, hidden), at + "mlp.up_proj.weight": (units, hidden),
            at + "mlp.down_proj.weight": (hidden, units)}


def head_shapes(c, features):
    hidden = c["hidden_size"]
    return layer_shapes("midlayer.", c, 2 * hidden) | {"midlayer.hidden_norm.weight": (hidden,), "norm.weight": (hidden,),
                                                       "fc.weight": (hidden, features)}


def write_all(directory):
    common = {"model_type": "llama", "vocab_size": 32, "hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2,
              "num_key_value_heads": 1, "head_dim": 8, "hidden_act": "silu", "max_position_embeddings": 96,
              "rms_norm_eps": 1e-5, "bos_token_id": 1, "eos_token_id": None}
    target = common | {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 7, "intermediate_size": 6,
                       "rope_theta": 1000.0, "tie_word_embeddings": True}
    shapes = {"model.embed_tokens.weight": (32, 16), "model.norm.weight": (16,)}
    for layer in range(7):
        shapes |= layer_shapes(f"model.layers.{layer}.", target, 16)
    write(os.path.join(directory, "target"), target, shapes, 1)

    has = np.zeros(32, dtype=np.bool_)
    has[[0, 1, 2, 3, 5, 7, 8, 9, 10, 14, 15, 16, 17, 20, 22, 25, 28, 29, 30, 31]] = True
    tokens = np.flatnonzero(has)
    offsets = (tokens - np.arange(len(tokens))).astype(np.int64)
    published = common | {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 1, "draft_vocab_size": len(tokens),
                          "rope_scaling": None, "tie_word_embeddings": False, "pretraining_tp": 1}
    write(os.path.join(directory, "published"), published, head_shapes(published, 48) | {"lm_head.weight": (len(tokens), 16)}, 2,
          (("d2t", offsets), ("t2d", has)))

    trained = common | {"architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1, "draft_vocab_size": 32,
                        "rope_theta": 1000.0, "num_target_layers": 7, "tie_word_embeddings": True,
                        "embedding_and_head_of": "target", "trained_steps": 4,
                        "eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 3, 5], "use_aux_hidden_state": True}}
    write(os.path.join(directory, "trained"), trained, head_shapes(trained, 48), 3)

    wider = common | {"architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1, "hidden_size": 20,
                      "intermediate_size": 12, "head_dim": 6, "target_hidden_size": 16, "target_layer_ids": [6, 1],
                      "norm_before_residual": True, "rope_parameters": {"rope_theta": 500.0, "rope_type": "default"}}
    write(os.path.join(directory, "wider"), wider,
          head_shapes(wider, 32) | {"embed_tokens.weight": (32, 20), "lm_head.weight": (32, 20)}, 4)

    for name in ("published", "trained", "wider"):
        head = os.path.join(directory, name)
        found = reference_of(head, Target(os.path.join(directory, "target")))
        for text in found["texts"]:
            text["rows"] = [[x if x is None else round(float(x), 6) for x in row] for row in text["rows"]]
        with open(os.path.join(head, "reference.json"), "w", encoding="utf-8") as file:
            json.dump(found, file, separators=(",", ":"))
            file.write("\n")


def main(target_directory, directory):
    if target_directory == "--write":
        write_all(directory)
        return
    with open(os.path.join(directory, "reference.json"), encoding="utf-8") as file:
        reference = json.load(file)
    worst = 0.0
    for ours, theirs in zip(reference_of(directory, Target(target_directory))["texts"], reference["texts"], strict=True):
        for k, (row, expected) in enumerate(zip(ours["rows"], theirs["rows"], strict=True)):
            what = f"text of {len(theirs['token_ids'])}, row {k}"
            if [x is None for x in row] != [x is None for x in expected]:
                sys.exit(f"{what}: other tokens")
            difference = max(abs(x - y) for x, y in zip(row, expected) if x is not None)
            worst = max(worst, difference)
            if difference > 1e-3:
                sys.exit(f"{what}: differs by {difference}")
    print(f"all within {worst:.1e}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
