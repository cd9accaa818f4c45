#!/usr/bin/env python3
"""Write a model of the same function at the cost of a larger one.

    pad.py SOURCE DESTINATION --preset 300m
    pad.py SOURCE DESTINATION --hidden 1024 --intermediate 2816 --heads 16 --kv-heads 8 --layers 24

SOURCE is a directory with config.json and one model.safetensors in the Hugging Face Llama layout, DESTINATION is made.
Sizes that are not given are the preset's, or else the source's.

The model becomes wider and deeper, with zeros where its function must not change: the embedding's added columns, so
that the added part of the residual is always zero, and the output projections of added heads, units and layers. The
mean square of a residual of d numbers and d' - d zeros is d/d' of what it was; the weights of RMSNorm are scaled by
sqrt(d/d') and its epsilon by d/d'. All that meets only zeros, or whose results do, is filled with noise. So the logits
are those of the source up to rounding, and the text is the source's, but a token costs what it costs in a model of
that size: memory read, multiplications, caches. How well a draft agrees with a target stays that of the sources.

SOURCE may be a block drafter (train_drafter.py): DESTINATION then drafts for its target padded to the same sizes. Layers are
the target's here, those of the drafter stay. Added layers of a target are its last, so that the states that the drafter reads
are those of the same layers, and zeros in the added numbers.

Needs Python 3.8 and nothing else. A size of 2 GB takes some 10 s.
"""
import argparse
import array
import json
import math
import os
import random
import shutil
import struct
import sys

PRESETS = {  # hidden, intermediate, heads, kv_heads, layers
    "60m": (512, 1408, 8, 4, 20),
    "300m": (1024, 2816, 16, 8, 24),
    "1b": (4096, 8192, 32, 16, 8),
    "draft-8m": (384, 1024, 12, 4, 4),
    "draft-15m": (384, 1536, 12, 4, 6),
}
SIZES = ("hidden", "intermediate", "heads", "kv_heads", "layers")
KEYS = {"hidden": "hidden_size", "intermediate": "intermediate_size", "heads": "num_attention_heads",
        "kv_heads": "num_key_value_heads", "layers": "num_hidden_layers"}
KEYS_OF_BLOCK = dict(KEYS, layers="num_target_layers")
WIDTH = {"BF16": 2, "F16": 2, "F32": 4}


def refuse(reason):
    sys.exit(f"pad.py: {reason}")


class Source:
    """A model's configuration and its tensors as bytes."""

    def __init__(self, directory):
        for name in ("config.json", "model.safetensors"):
            if not os.path.exists(os.path.join(directory, name)):
                refuse(f"{directory}: has no {name}")
        with open(os.path.join(directory, "config.json"), encoding="utf-8") as file:
            self.config = json.load(file)
        self.is_block = self.config.get("architectures") == ["Qwen3DSparkModel"]
        self.keys = KEYS_OF_BLOCK if self.is_block else KEYS
        self.size = {name: self.config[key] for name, key in self.keys.items() if key in self.config}
        self.size.setdefault("kv_heads", self.size["heads"])
        self.head_dim = self.config.get("head_dim") or self.size["hidden"] // self.size["heads"]
        with open(os.path.join(directory, "model.safetensors"), "rb") as file:
            self.header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
            self.data = file.read()
        self.header.pop("__metadata__", None)
        self.dtype = self.header["fc.weight" if self.is_block else "model.embed_tokens.weight"]["dtype"]
        for name, tensor in self.header.items():
            matrix = len(tensor["shape"]) == 2
            if tensor["dtype"] not in WIDTH or (matrix and tensor["dtype"] != self.dtype):
                refuse(f"{directory}: tensor {name} is {tensor['dtype']}; matrices must be of one of {', '.join(WIDTH)}")
        self.width = WIDTH[self.dtype]

    def rows(self, name):
        """The rows of a matrix, each as bytes."""
        begin, end = self.header[name]["data_offsets"]
        step = self.header[name]["shape"][1] * self.width
        return [self.data[i:i + step] for i in range(begin, end, step)]

    def floats(self, name):
        begin, end = self.header[name]["data_offsets"]
        dtype = self.header[name]["dtype"]
        return [number(self.data[i:i + WIDTH[dtype]], dtype) for i in range(begin, end, WIDTH[dtype])]


def number(raw, dtype):
    if dtype == "F16":
        return struct.unpack("<e", raw)[0]
    return struct.unpack("<f", raw if dtype == "F32" else b"\0\0" + raw)[0]


def raw(value, dtype):
    """The value in that type, or None where it would be rounded."""
    if dtype == "BF16":
        bits = struct.pack("<f", value)
        return bits[2:] if bits[:2] == b"\0\0" else None
    bits = struct.pack("<e" if dtype == "F16" else "<f", value)
    return bits if dtype == "F32" or number(bits, dtype) == value else None


class Noise:
    """Numbers of a normal law, by the byte. A long stretch of them is made once and read round and round."""

    def __init__(self, dtype, seed):
        draw = random.Random(seed)
        count = 65537  # a prime: rows of a matrix begin at different places
        values = array.array("f", (draw.gauss(0, 0.02) for _ in range(count)))
        if sys.byteorder == "big":
            values.byteswap()
        raw_floats = values.tobytes()
        if dtype == "F32":
            self.block = raw_floats
        elif dtype == "BF16":
            self.block = b"".join(raw_floats[i + 2:i + 4] for i in range(0, len(raw_floats), 4))
        else:
            self.block = b"".join(struct.pack("<e", v) for v in values)
        self.at = 0

    def __call__(self, size):
        taken = []
        while size > 0:
            piece = self.block[self.at:self.at + size]
            self.at = (self.at + len(piece)) % len(self.block)
            size -= len(piece)
            taken.append(piece)
        return b"".join(taken)


def places_of_heads(old, new):
    """For each new query head the source's, or None; for each new key-value head the source's, or None.

    A query head must find its key-value head in its group. Where the new groups are smaller, a key-value head is copied.
    """
    per_kv = old["heads"] // old["kv_heads"]
    group = new["heads"] // new["kv_heads"]
    queries, keys = [], []
    for kv in range(old["kv_heads"]):
        for first in range(0, per_kv, group):
            members = list(range(first, min(first + group, per_kv)))
            queries += [kv * per_kv + m for m in members] + [None] * (group - len(members))
            keys.append(kv)
    if len(keys) > new["kv_heads"]:
        refuse(f"{new['heads']} heads in groups of {group} have no room for {old['heads']} in groups of {per_kv}")
    return queries + [None] * (new["heads"] - len(queries)), keys + [None] * (new["kv_heads"] - len(keys))


class Padded:
    """The tensors of the larger model: their shapes, and their bytes row by row."""

    def __init__(self, source, size, seed):
        self.source, self.size = source, size
        self.noise = Noise(source.dtype, seed)
        self.queries, self.keys = places_of_heads(source.size, size)
        self.ratio = source.size["hidden"] / size["hidden"]
        self.tensors = {}  # name: dtype, shape, function that yields the bytes
        self.add_tensors()

    def add_tensors(self):
        source, size = self.source, self.size
        hidden, vocabulary = size["hidden"], source.config["vocab_size"]
        self.matrix("model.embed_tokens.weight", (vocabulary, hidden), lambda name: self.wider(name, zero=True))
        if "lm_head.weight" in source.header:
            self.matrix("lm_head.weight", (vocabulary, hidden), self.wider)
        self.norm("model.norm.weight", "model.norm.weight")
        for layer in range(size["layers"]):
            self.layer(f"model.layers.{layer}.", layer >= source.size["layers"])

    def layer(self, at, added):
        size, dim = self.size, self.source.head_dim
        hidden, units = size["hidden"], size["intermediate"]
        everything = self.all_noise if added else None
        query_rows = lambda name: self.heads_of(name, self.queries)
        key_rows = lambda name: self.heads_of(name, self.keys)
        self.matrix(at + "self_attn.q_proj.weight", (size["heads"] * dim, hidden), everything or query_rows)
        self.matrix(at + "self_attn.k_proj.weight", (size["kv_heads"] * dim, hidden), everything or key_rows)
        self.matrix(at + "self_attn.v_proj.weight", (size["kv_heads"] * dim, hidden), everything or key_rows)
        self.matrix(at + "self_attn.o_proj.weight", (hidden, size["heads"] * dim),
                    self.all_zero if added else self.out_of_heads)
        self.matrix(at + "mlp.gate_proj.weight", (units, hidden), everything or self.wider)
        self.matrix(at + "mlp.up_proj.weight", (units, hidden), everything or self.wider)
        self.matrix(at + "mlp.down_proj.weight", (hidden, units), self.all_zero if added else self.down)
        for norm in ("input_layernorm.weight", "post_attention_layernorm.weight"):
            self.norm(at + norm, None if added else at + norm)

    def config(self):
        config = dict(self.source.config, head_dim=self.source.head_dim)
        config.update({key: self.size[name] for name, key in self.source.keys.items() if name in self.size})
        config["rms_norm_eps"] = self.source.config.get("rms_norm_eps", 1e-6) * self.ratio
        return config

    def matrix(self, name, shape, rows):
        self.tensors[name] = (self.source.dtype, list(shape), lambda: rows(name))

    def norm(self, name, source_name):
        """Scaled weights, in float where the source's type would round them. Added ones are the scale itself."""
        scale = math.sqrt(self.ratio)
        values = [scale * v for v in self.source.floats(source_name)] if source_name else []
        values += [scale] * (self.size["hidden"] - len(values))
        numbers = [raw(v, self.source.dtype) for v in values]
        dtype = self.source.dtype
        if None in numbers:
            dtype, numbers = "F32", [raw(v, "F32") for v in values]
        self.tensors[name] = (dtype, [len(values)], lambda: iter([b"".join(numbers)]))

    def row_bytes(self, name):
        return self.tensors[name][1][1] * self.source.width

    def all_noise(self, name):
        for _ in range(self.tensors[name][1][0]):
            yield self.noise(self.row_bytes(name))

    def all_zero(self, name):
        row = bytes(self.row_bytes(name))
        for _ in range(self.tensors[name][1][0]):
            yield row

    def wider(self, name, zero=False):
        """The source's rows with more columns, then more rows. The columns meet only zeros."""
        step = self.row_bytes(name)
        rows = self.source.rows(name)
        for row in rows:
            yield row + (bytes(step - len(row)) if zero else self.noise(step - len(row)))
        for _ in range(self.tensors[name][1][0] - len(rows)):
            yield self.noise(step)

    def heads_of(self, name, places):
        dim = self.source.head_dim
        step = self.row_bytes(name)
        rows = self.source.rows(name)
        for place in places:
            for d in range(dim):
                row = rows[place * dim + d] if place is not None else b""
                yield row + self.noise(step - len(row))

    def out_of_heads(self, name):
        """Columns of the source's heads at their new places, zeros for the others and in all added rows."""
        step = self.source.head_dim * self.source.width
        for row in self.source.rows(name):
            yield b"".join(bytes(step) if place is None else row[place * step:(place + 1) * step]
                           for place in self.queries)
        yield from self.zero_rows(name)

    def down(self, name):
        step = self.row_bytes(name)
        for row in self.source.rows(name):
            yield row + bytes(step - len(row))
        yield from self.zero_rows(name)

    def zero_rows(self, name):
        row = bytes(self.row_bytes(name))
        for _ in range(self.size["hidden"] - self.source.size["hidden"]):
            yield row

    def write(self, path):
        header, offset = {"__metadata__": {"format": "pt"}}, 0
        for name, (dtype, shape, _) in self.tensors.items():
            size = math.prod(shape) * WIDTH[dtype]
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + size]}
            offset += size
        text = json.dumps(header).encode()
        text += b" " * (-(8 + len(text)) % 64)  # tensors begin at cache lines, as far as their sizes let them
        done = 0
        part = path + ".part"  # what is cut short has not the name of a model
        with open(part, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for _, _, rows in self.tensors.values():
                for row in rows():
                    file.write(row)
                    done += len(row)
                if sys.stderr.isatty():
                    print(f"\r{path}: {done / 1e6:.0f} of {offset / 1e6:.0f} MB", end="", file=sys.stderr, flush=True)
        if sys.stderr.isatty():
            print(file=sys.stderr)
        if done != offset:
            refuse(f"wrote {done} bytes of {offset}")
        os.replace(part, path)

    def parameters(self):
        return sum(math.prod(shape) for _, shape, _ in self.tensors.values())


class PaddedBlock(Padded):
    """The tensors of a block drafter. Its vector of a mask is a residual, and the norms of heads stay as they are."""

    def add_tensors(self):
        source, hidden = self.source, self.size["hidden"]
        layers_read = source.header["fc.weight"]["shape"][1] // source.size["hidden"]
        self.matrix("fc.weight", (hidden, layers_read * hidden), self.projection)
        self.norm("hidden_norm.weight", "hidden_norm.weight")
        for layer in range(source.config["num_hidden_layers"]):
            at = f"layers.{layer}."
            self.layer(at, False)
            self.as_it_is(at + "self_attn.q_norm.weight")
            self.as_it_is(at + "self_attn.k_norm.weight")
        self.norm("norm.weight", "norm.weight")
        self.as_it_is("mask_embedding", hidden)
        for name in ("markov_head.markov_w1.weight", "markov_head.markov_w2.weight"):
            if name in source.header:
                self.as_it_is(name)

    def config(self):
        config = super().config()
        config["qk_norm_eps"] = self.source.config.get("qk_norm_eps", self.source.config.get("rms_norm_eps", 1e-6))
        return config

    def as_it_is(self, name, length=None):
        """The source's tensor, a vector with zeros after it up to a length."""
        tensor = self.source.header[name]
        begin, end = tensor["data_offsets"]
        zeros = bytes((length - tensor["shape"][0]) * WIDTH[tensor["dtype"]]) if length else b""
        self.tensors[name] = (tensor["dtype"], [length] if length else tensor["shape"],
                              lambda: iter([self.source.data[begin:end] + zeros]))

    def projection(self, name):
        """Columns of the states of each layer at their new places; zeros in all added rows."""
        old, new = (size["hidden"] * self.source.width for size in (self.source.size, self.size))
        for row in self.source.rows(name):
            yield b"".join(row[at:at + old] + self.noise(new - old) for at in range(0, len(row), old))
        yield from (bytes(self.row_bytes(name)) for _ in range(self.size["hidden"] - self.source.size["hidden"]))


def sizes_of(arguments, source):
    size = dict(source.size)
    if arguments.preset:
        size.update(zip(SIZES, PRESETS[arguments.preset]))
    size.update({name: value for name in SIZES if (value := getattr(arguments, name)) is not None})
    for name in SIZES:
        if size.get(name, 0) < source.size.get(name, 0):
            refuse(f"--{name.replace('_', '-')} {size[name]}: the source has {source.size[name]}")
    if size["heads"] % size["kv_heads"] != 0:
        refuse(f"--kv-heads {size['kv_heads']}: must divide --heads, {size['heads']}")
    return size


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("destination")
    parser.add_argument("--preset", choices=PRESETS, help="; ".join(
        f"{name}: {' '.join(map(str, size))}" for name, size in PRESETS.items()))
    for name in SIZES:
        parser.add_argument("--" + name.replace("_", "-"), type=int, dest=name)
    parser.add_argument("--seed", type=int, default=1, help="of the noise")
    arguments = parser.parse_args()
    source = Source(arguments.source)
    size = sizes_of(arguments, source)
    padded = (PaddedBlock if source.is_block else Padded)(source, size, arguments.seed)

    os.makedirs(arguments.destination, exist_ok=True)
    if os.path.samefile(arguments.source, arguments.destination):
        refuse("source and destination are the same directory")
    padded.write(os.path.join(arguments.destination, "model.safetensors"))
    with open(os.path.join(arguments.destination, "config.json"), "w", encoding="utf-8") as file:
        json.dump(padded.config(), file, indent=1)
    for place in (arguments.source, os.path.join(os.path.abspath(arguments.source), os.pardir)):
        tokenizer = os.path.join(place, "tokenizer.model")
        if os.path.exists(tokenizer):
            shutil.copyfile(tokenizer, os.path.join(arguments.destination, "tokenizer.model"))
            break
    print(f"{arguments.destination}: {padded.parameters() / 1e6:.1f}M parameters")


if __name__ == "__main__":
    main()
