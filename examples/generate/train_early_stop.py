#!/usr/bin/env python3
"""Trains the decision models of early stopping (Improving MCSD 3.3) on what `generate --dump-decisions` writes.

    generate --dump-decisions --temperature 1 > decisions.jsonl
    train_early_stop.py decisions.jsonl models/draft-distilled/early_stop

T2: two layers on the draft's ten largest probabilities and its entropy, trained on whether the token was accepted.
T1: three layers on the draft's hidden state, trained on min(1, p/q) of the token. Needs NumPy. Writes
OUT/model.safetensors; prints for both the loss, how often a decision at 0.4 is right, and what the best constant gets.
"""
import json
import struct
import sys
from pathlib import Path

import numpy as np

T2_WIDTHS = [32, 1]
T1_WIDTHS = [64, 32, 1]


def read(path):
    probabilities, hidden, ratios, accepted = [], [], [], []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            probabilities.append(row["top"] + [row["entropy"]])
            hidden.append(row["hidden"])
            ratios.append(row["ratio"])
            accepted.append(row["accepted"])
    return (np.array(x, dtype=np.float32) for x in (probabilities, hidden, ratios, accepted))


def forward(layers, x):
    """The activations of every layer, the last one's before the logistic function."""
    activations = [x]
    for i, (weight, bias) in enumerate(layers):
        x = x @ weight.T + bias
        if i + 1 < len(layers):
            x = np.maximum(x, 0)
        activations.append(x)
    return activations


def chance(layers, x):
    return 1 / (1 + np.exp(-forward(layers, x)[-1][:, 0]))


def train(x, y, widths, random, epochs=60, rate=2e-3, batch=256, decay=1e-4):
    """Adam on the cross-entropy with y in [0, 1]. Inputs are standardised; the scaling is folded into the first layer."""
    mean, scale = x.mean(0), x.std(0) + 1e-4
    x = (x - mean) / scale
    layers, size = [], x.shape[1]
    for width in widths:
        layers.append([random.normal(0, np.sqrt(2 / size), (width, size)).astype(np.float32),
                       np.zeros(width, np.float32)])
        size = width
    moments = [[np.zeros_like(a) for a in layer for _ in range(2)] for layer in layers]
    step = 0
    for epoch in range(epochs):
        now = rate * 0.5 * (1 + np.cos(np.pi * epoch / epochs))
        order = random.permutation(len(x))
        for begin in range(0, len(x), batch):
            rows = order[begin:begin + batch]
            activations = forward(layers, x[rows])
            gradient = (1 / (1 + np.exp(-activations[-1])) - y[rows, None]) / len(rows)
            step += 1
            for i in reversed(range(len(layers))):
                weight, bias = layers[i]
                gradients = gradient.T @ activations[i] + decay * weight, gradient.sum(0)
                if i > 0:
                    gradient = (gradient @ weight) * (activations[i] > 0)
                for k, g in enumerate(gradients):
                    m, v = moments[i][2 * k], moments[i][2 * k + 1]
                    m += 0.1 * (g - m)
                    v += 0.001 * (g * g - v)
                    layers[i][k] -= now * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
    weight, bias = layers[0]
    layers[0] = [weight / scale, bias - (weight / scale) @ mean]
    return layers


def report(name, layers, x, y, accepted):
    p = np.clip(chance(layers, x), 1e-6, 1 - 1e-6)
    loss = -(y * np.log(p) + (1 - y) * np.log(1 - p)).mean()
    base = y.mean()
    base_loss = -(base * np.log(base) + (1 - base) * np.log(1 - base))
    right = ((p >= 0.4) == (accepted > 0.5)).mean()
    kept = accepted[p >= 0.4].mean() if (p >= 0.4).any() else float("nan")
    dropped = accepted[p < 0.4].mean() if (p < 0.4).any() else float("nan")
    print(f"{name}: loss {loss:.4f} (constant {base_loss:.4f}), right at 0.4: {right:.3f} "
          f"(constant {max(accepted.mean(), 1 - accepted.mean()):.3f}); accepted where it goes on {kept:.3f}, "
          f"where it stops {dropped:.3f}, stops in {(p < 0.4).mean():.3f}")


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, array in tensors.items():
        raw = np.ascontiguousarray(array, dtype="<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    probabilities, hidden, ratios, accepted = read(sys.argv[1])
    random = np.random.default_rng(1)
    order = random.permutation(len(accepted))
    test, rest = order[:len(order) // 10], order[len(order) // 10:]
    print(f"{len(rest)} tokens to train on, {len(test)} to test, {accepted.mean():.3f} accepted")
    tensors = {}
    for name, x, y, widths in (("t1", hidden, ratios, T1_WIDTHS), ("t2", probabilities, accepted, T2_WIDTHS)):
        layers = train(x[rest], y[rest], widths, random, epochs=20 if name == "t1" else 60,
                       decay=1e-3 if name == "t1" else 1e-4)
        report(name, layers, x[test], y[test], accepted[test])
        for i, (weight, bias) in enumerate(layers):
            tensors[f"{name}.{i}.weight"], tensors[f"{name}.{i}.bias"] = weight, bias
    out = Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    write_safetensors(out / "model.safetensors", tensors)


if __name__ == "__main__":
    main()
