"""A model of the Hugging Face Llama layout in PyTorch, with the hidden states of its layers, and its files.

Float32 arithmetic on the stored weights, as examples/transformer computes. Positions begin at 0. A GGUF file is read with
the package gguf.
"""
import json
import math
import os
import struct

import numpy as np
import torch
import torch.nn.functional as F


def read_tensors(path):
    """The tensors of a safetensors file (BF16, F32 or I32); BF16 as float32."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        dtype = {"BF16": torch.bfloat16, "F32": torch.float32, "I32": torch.int32}[entry["dtype"]]
        tensor = torch.frombuffer(bytearray(data[begin:end]), dtype=dtype).reshape(entry["shape"])
        tensors[name] = tensor.float() if tensor.is_floating_point() else tensor
    return tensors


def write_tensors(path, tensors):
    """Writes BF16, whole numbers as I32. A file that is there keeps its name until the new one is whole."""
    header, data, offset = {"__metadata__": {"format": "pt"}}, [], 0
    for name in sorted(tensors):
        tensor, kind = tensors[name].detach().contiguous(), "BF16"
        if tensor.is_floating_point():
            raw = tensor.to(torch.bfloat16).view(torch.int16).numpy().tobytes()
        else:
            raw, kind = tensor.to(torch.int32).numpy().tobytes(), "I32"
        header[name] = {"dtype": kind, "shape": list(tensors[name].shape), "data_offsets": [offset, offset + len(raw)]}
        offset += len(raw)
        data.append(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path + ".part", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(data))
    os.replace(path + ".part", path)


def read_gguf(path):
    """Configuration and tensors of a GGUF file of Llama layout, named as Hugging Face names them; embedding and head tied."""
    from gguf import GGUFReader
    from gguf.quants import dequantize

    reader = GGUFReader(path)
    field = lambda name: reader.fields["llama." + name].contents()
    config = {"hidden_size": field("embedding_length"), "intermediate_size": field("feed_forward_length"),
              "num_attention_heads": field("attention.head_count"), "num_key_value_heads": field("attention.head_count_kv"),
              "num_hidden_layers": field("block_count"), "rms_norm_eps": round(field("attention.layer_norm_rms_epsilon"), 9),
              "rope_theta": field("rope.freq_base"), "max_position_embeddings": field("context_length"), "hidden_act": "silu",
              "bos_token_id": reader.fields["tokenizer.ggml.bos_token_id"].contents(),
              "eos_token_id": reader.fields["tokenizer.ggml.eos_token_id"].contents()}
    names = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "attn_norm": "input_layernorm",
             "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
             "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
             "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
    tensors = {}
    for tensor in reader.tensors:
        *block, name = tensor.name.removesuffix(".weight").rsplit(".", 1)
        value = torch.from_numpy(np.array(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32))
        if name in ("attn_q", "attn_k"):  # pairs of numbers that are rotated are neighbours in the file, halves here
            heads = config["num_attention_heads" if name == "attn_q" else "num_key_value_heads"]
            value = value.view(heads, -1, 2, value.shape[-1]).transpose(1, 2).reshape(value.shape)
        prefix = f"model.layers.{block[0].removeprefix('blk.')}." if block else ""
        tensors[f"{prefix}{names[name]}.weight"] = value
    config["vocab_size"] = len(tensors["model.embed_tokens.weight"])
    return config, tensors


def rms_norm(x, weight, epsilon):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon) * weight


def angles(positions, head_dim, theta):
    """Cosines and sines, [.., head_dim], for rotate(): the second half repeats the first."""
    angle = positions[..., None].float() / theta ** (torch.arange(0, head_dim, 2).float() / head_dim)
    angle = torch.cat([angle, angle], -1)
    return angle.cos(), angle.sin()


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


class Llama(torch.nn.Module):
    """Weights as parameters named as in the file, with '.' replaced by '/'."""

    def __init__(self, directory):
        super().__init__()
        if os.path.isfile(directory):
            self.config, tensors = read_gguf(directory)
        else:
            with open(os.path.join(directory, "config.json"), encoding="utf-8") as file:
                self.config = json.load(file)
            tensors = read_tensors(os.path.join(directory, "model.safetensors"))
        c = self.config
        self.layers, self.heads, self.kv_heads = c["num_hidden_layers"], c["num_attention_heads"], c["num_key_value_heads"]
        self.head_dim = c.get("head_dim") or c["hidden_size"] // self.heads
        self.epsilon, self.theta = c["rms_norm_eps"], c["rope_theta"]
        for name, tensor in tensors.items():
            self.register_parameter(name.replace(".", "/"), torch.nn.Parameter(tensor))

    def weight(self, name):
        return getattr(self, name.replace(".", "/") + "/weight")

    @property
    def embedding(self):
        return self.weight("model.embed_tokens")

    def tensors(self):
        return {name.replace("/", "."): value for name, value in self.named_parameters()}

    def layer(self, at, x, attend):
        w = lambda name: self.weight(f"model.layers.{at}.{name}")
        y = rms_norm(x, w("input_layernorm"), self.epsilon)
        q, k, v = (F.linear(y, w(f"self_attn.{n}_proj")) for n in "qkv")
        x = x + F.linear(attend(at, q, k, v), w("self_attn.o_proj"))
        y = rms_norm(x, w("post_attention_layernorm"), self.epsilon)
        return x + F.linear(F.silu(F.linear(y, w("mlp.gate_proj"))) * F.linear(y, w("mlp.up_proj")), w("mlp.down_proj"))

    def states(self, tokens, taps=()):
        """[.., T] token ids -> the outputs of the layers in `taps` (0 the first), then what the head multiplies."""
        b, t = tokens.shape
        cos, sin = angles(torch.arange(t), self.head_dim, self.theta)

        def attend(_, q, k, v):
            split = lambda z, n: z.view(b, t, n, self.head_dim).transpose(1, 2)
            q, k, v = rotate(split(q, self.heads), cos, sin), rotate(split(k, self.kv_heads), cos, sin), split(v, self.kv_heads)
            k, v = (z.repeat_interleave(self.heads // self.kv_heads, 1) for z in (k, v))
            return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, -1)

        x, out = F.embedding(tokens, self.embedding), []
        for at in range(self.layers):
            x = self.layer(at, x, attend)
            if at in taps:
                out.append(x)
        return out + [rms_norm(x, self.weight("model.norm"), self.epsilon)]

    def logits(self, hidden):
        return F.linear(hidden, self.embedding)

    def forward(self, tokens):
        return self.logits(self.states(tokens)[-1])


class Cached:
    """Sequences of one length, a token of each at a time."""

    def __init__(self, model, batch, length):
        self.model, self.batch, self.at = model, batch, 0
        shape = (model.layers, batch, model.kv_heads, length, model.head_dim)
        self.k, self.v = torch.zeros(shape), torch.zeros(shape)
        self.cos, self.sin = angles(torch.arange(length), model.head_dim, model.theta)

    def step(self, tokens, taps=()):
        """[B] token ids -> as Llama.states, without the dimension of positions."""
        m, b, t = self.model, self.batch, self.at
        group = m.heads // m.kv_heads

        def attend(at, q, k, v):
            q = rotate(q.view(b, m.kv_heads, group, m.head_dim), self.cos[t], self.sin[t])
            self.k[at, :, :, t] = rotate(k.view(b, m.kv_heads, m.head_dim), self.cos[t], self.sin[t])
            self.v[at, :, :, t] = v.view(b, m.kv_heads, m.head_dim)
            keys, values = self.k[at, :, :, : t + 1], self.v[at, :, :, : t + 1]
            weights = (q @ keys.transpose(-1, -2) / math.sqrt(m.head_dim)).softmax(-1)
            return (weights @ values).reshape(b, -1)

        x, out = F.embedding(tokens, m.embedding), []
        for at in range(m.layers):
            x = m.layer(at, x, attend)
            if at in taps:
                out.append(x)
        self.at += 1
        return out + [rms_norm(x, m.weight("model.norm"), m.epsilon)]


def sample(logits, temperature, generator):
    """One token per row; `temperature` [B], 0 for the largest. By Gumbel noise."""
    noise = -torch.empty_like(logits).exponential_(generator=generator).log_()
    return torch.addcmul(logits, noise, temperature[:, None]).argmax(-1)


def check(model, reference):
    """The largest difference from the logits of reference_logits.json."""
    worst = 0.0
    with torch.no_grad():
        for case in reference:
            logits = model(torch.tensor([case["token_ids"]]))[0, -1]
            worst = max(worst, (logits - torch.tensor(case["logits"])).abs().max().item())
    return worst
