"""The drafters that train_drafter.py trains: an independent model, a block drafter, a feature head.

Each has
    rows(tokens, states, anchors)   [S, T] ids, [S, T, taps + 1, width], [S, A] positions
                                    -> logits [S, A, steps, V], row k of anchor t for the token at t + 1 + k,
                                       given the true tokens before it
    steps                           how many tokens it drafts from an anchor
    tensors()                       what is written to model.safetensors

states[:, t] are the target's hidden states after the token at t: the outputs of the layers of `taps`, then what the
head multiplies, which no drafter reads.

The block drafter
-----------------
The layout and the names are those of DSpark's checkpoints (DeepSpec, Qwen3DSparkModel): config.json says block_size,
target_layer_ids (0 the first layer's output), markov_rank, mask_token_id. Embedding and head are the target's.

Context. Tokens x_0 .. x_t, the anchor x_t the last of them: the target sampled it and has not been run on it, so hidden
states exist at positions 0 .. t-1 only. For each of these, once, when it is accepted:

    f_s = RMSNorm(fc [h_s^(1); h_s^(4); h_s^(6)]; hidden_norm)
    in each layer l:  K_s = rotate(RMSNorm(W_k f_s; k_norm), s),  V_s = W_v f_s        per key-value head

f_s is not normalised again by input_layernorm: that is for the block alone. h^(l) is the residual stream after layer l,
before any norm. The rotation is the target's (theta 10,000, halves of a head paired), s the position of the token.

Block. Slots k = 0 .. 5 at positions t + k, all six always:

    o_0 = e(x_t);  o_k = m for k > 0                          e the target's embedding, m the tensor mask_embedding
    in each layer:  y = RMSNorm(o; input_layernorm)
                    q = rotate(RMSNorm(W_q y; q_norm), t + k), K = rotate(RMSNorm(W_k y; k_norm), t + k), V = W_v y
                    every slot attends to all context positions s < t and to all six slots (no causal mask in the block);
                    scores q K / sqrt(64), softmax;  o += W_o attention
                    y = RMSNorm(o; post_attention_layernorm);  o += W_down(silu(W_gate y) * (W_up y))
    u_k = E RMSNorm(o_k; norm)                                E the target's head (tied to its embedding): base rows

q_norm and k_norm are over the 64 numbers of a head, one weight for all heads. Every RMSNorm has epsilon 1e-5.
Four heads, two key-value heads: query head h reads key-value head h / 2. Other targets have other numbers: config.json.

Row. The row for the token at t + 1 + k, whose parent (the token at t + k; the anchor for k = 0) is a:

    logits = u_k + W2 W1[a]                                   markov_w1 [V, r]: a row a token; markov_w2 [V, r]

The keys and values of the block are thrown away after the call. Those of accepted tokens come from the target's states.

Draft vocabulary. With draft_vocab_size, less than vocab_size, the rows are of some of the target's tokens only: number i is
token i + d2t[i], tokens increasing. E is these rows of the target's head; markov_w1 and markov_w2 have a row for each of
them, and a parent that is none of them has no term. The other tokens have probability 0.

In training each number of the hidden states is divided by its standard deviation, for a few are far larger than the others.
What is written has this in fc.

The feature head
----------------
One layer in the manner of EAGLE-3 (names as in its checkpoints: fc, midlayer, norm; config.json has the layers, 0 the
first one's output, in eagle_config as SpecForge writes them). Causal over all positions.
At position s the input pairs the state of s with the token after it:

    g_s = fc [h_s^(1); h_s^(4); h_s^(6)]
    y = [RMSNorm(e(x_{s+1}); input_layernorm); RMSNorm(g_s; hidden_norm)]         512 numbers, into W_q, W_k, W_v
    z = g_s + W_o attention, at rotary position s;  z += MLP(RMSNorm(z; post_attention_layernorm))
    logits for the token at s + 2 = E RMSNorm(z; norm)

Without a state of its own (the second drafted token and later) a position takes z of its parent in place of g.
"""
import json
import math
import os

import torch
import torch.nn as nn
import torch.nn.functional as F

from llama import Llama, angles, read_tensors, rms_norm, rotate, write_tensors

EPSILON = 1e-5


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return rms_norm(x, self.weight, EPSILON)


def linear(inputs, outputs, std=0.02):
    matrix = nn.Linear(inputs, outputs, bias=False)
    nn.init.normal_(matrix.weight, std=std)
    return matrix


class Attention(nn.Module):
    def __init__(self, width, inputs, heads, kv_heads, theta, norms, std):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim, self.theta = heads, kv_heads, width // heads, theta
        self.q_proj, self.o_proj = linear(inputs, width), linear(width, width, std)
        self.k_proj, self.v_proj = (linear(inputs, kv_heads * self.head_dim) for _ in "kv")
        if norms:
            self.q_norm, self.k_norm = Norm(self.head_dim), Norm(self.head_dim)
        self.norms = norms

    def queries(self, x, positions):
        q = self.q_proj(x).unflatten(-1, (self.heads, self.head_dim))
        return rotate(self.q_norm(q) if self.norms else q, *self.angles(positions))

    def keys_values(self, x, positions):
        """[S, N, ..] -> [S, N, heads, head_dim], a key-value head repeated for each of its query heads."""
        k, v = (p(x).unflatten(-1, (self.kv_heads, self.head_dim)) for p in (self.k_proj, self.v_proj))
        k = rotate(self.k_norm(k) if self.norms else k, *self.angles(positions))
        return (z.repeat_interleave(self.heads // self.kv_heads, -2) for z in (k, v))

    def angles(self, positions):
        return (z.unsqueeze(-2) for z in angles(positions, self.head_dim, self.theta))

    def forward(self, q, k, v, mask):
        """[S, N, heads, head_dim]; mask [S, 1, N, keys], True where attended."""
        out = F.scaled_dot_product_attention(*(z.transpose(1, 2) for z in (q, k, v)), attn_mask=mask)
        return self.o_proj(out.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, width, units, std):
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = linear(width, units), linear(width, units), linear(units, width, std)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, width, units, heads, kv_heads, theta, inputs, norms, layers):
        super().__init__()
        std = 0.02 / math.sqrt(2 * layers)
        self.input_layernorm, self.post_attention_layernorm = Norm(width), Norm(width)
        self.self_attn = Attention(width, inputs, heads, kv_heads, theta, norms, std)
        self.mlp = Mlp(width, units, std)


class MarkovHead(nn.Module):
    def __init__(self, vocabulary, rank):
        super().__init__()
        self.markov_w1, self.markov_w2 = nn.Embedding(vocabulary, rank), linear(rank, vocabulary)
        nn.init.normal_(self.markov_w1.weight, std=0.25)
        nn.init.zeros_(self.markov_w2.weight)  # begins without a term of the parent

    def forward(self, parents):
        """Numbers of the draft vocabulary; no term for -1."""
        return self.markov_w2(self.markov_w1(parents.clamp_min(0)) * (parents >= 0)[..., None])


class Drafter(nn.Module):
    """What a drafter takes from the target and does not train: embedding and head."""

    def __init__(self, target):
        super().__init__()
        self.target_config = target.config
        self.register_buffer("embedding", target.embedding.detach().clone(), persistent=False)

    def embed(self, tokens):
        return F.embedding(tokens, self.embedding)

    def tensors(self):
        return dict(self.named_parameters())

    def load(self, directory):
        self.load_state_dict(read_tensors(os.path.join(directory, "model.safetensors")))

    def save(self, directory):
        os.makedirs(directory, exist_ok=True)
        write_tensors(os.path.join(directory, "model.safetensors"), self.tensors())
        with open(os.path.join(directory, "config.json"), "w", encoding="utf-8") as file:
            json.dump(self.config(), file, indent=1)
            file.write("\n")

    def shape(self):
        c = self.target_config
        return c["hidden_size"], c["intermediate_size"], c["num_attention_heads"], c["num_key_value_heads"], c["rope_theta"]

    def common_config(self):
        c = self.target_config
        names = ("vocab_size", "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "hidden_act",
                 "max_position_embeddings", "rms_norm_eps", "rope_theta", "bos_token_id", "eos_token_id")
        return {name: c[name] for name in names} | {
            "head_dim": c["hidden_size"] // c["num_attention_heads"], "num_target_layers": c["num_hidden_layers"],
            "tie_word_embeddings": True, "embedding_and_head_of": "target", "torch_dtype": "bfloat16"}


class BlockDrafter(Drafter):
    def __init__(self, target, layers=2, block=6, rank=64, taps=(1, 4, 6), units=0, draft_tokens=None):
        """`units` of the MLP, 0: the target's. `draft_tokens`: the draft vocabulary, increasing; None: all tokens."""
        super().__init__(target)
        width, of_target, heads, kv_heads, theta = self.shape()
        units = self.units = units or of_target
        self.steps, self.rank, self.taps = block, rank, list(taps)
        self.fc, self.hidden_norm = linear(width * max(1, len(taps)), width), Norm(width)
        self.layers = nn.ModuleList(Layer(width, units, heads, kv_heads, theta, width, True, layers) for _ in range(layers))
        self.norm = Norm(width)
        self.mask_embedding = nn.Parameter(0.5 * torch.randn(width))
        self.limited, self.low_precision = draft_tokens is not None, False  # the layers' products in bfloat16
        tokens = draft_tokens if self.limited else torch.arange(len(self.embedding))
        self.markov_head = MarkovHead(len(tokens), rank) if rank else None
        self.register_buffer("feature_scale", torch.ones(self.fc.in_features))
        self.register_buffer("draft_tokens", tokens.clone())
        self.choose(tokens)

    def choose(self, draft_tokens):
        """Sets the draft vocabulary, as many tokens as before."""
        self.draft_tokens.copy_(draft_tokens)
        self.number_of = torch.full((len(self.embedding),), -1)
        self.number_of[self.draft_tokens] = torch.arange(len(self.draft_tokens))
        self.head = self.embedding[self.draft_tokens] if self.limited else self.embedding

    def tensors(self):
        with torch.no_grad():
            tensors = super().tensors() | {"fc.weight": self.fc.weight * self.feature_scale}
        if self.limited:
            tensors["d2t"] = self.draft_tokens - torch.arange(len(self.draft_tokens))
        return tensors

    def load(self, directory):
        tensors = read_tensors(os.path.join(directory, "model.safetensors"))
        if self.limited:
            self.choose(tensors.pop("d2t").long() + torch.arange(len(self.draft_tokens)))
        buffers = {"feature_scale": torch.ones(self.fc.in_features), "draft_tokens": self.draft_tokens}
        self.load_state_dict(tensors | buffers)

    def config(self):
        limited = {"draft_vocab_size": len(self.draft_tokens)} if self.limited else {}
        return {"architectures": ["Qwen3DSparkModel"], "model_type": "qwen3"} | self.common_config() | limited | {
            "intermediate_size": self.units,
            "num_hidden_layers": len(self.layers), "block_size": self.steps, "target_layer_ids": self.taps or [-1],
            "mask_token_id": 0, "mask_embedding": "tensor of that name, in place of the embedding of mask_token_id",
            "markov_rank": self.rank, "markov_head_type": "vanilla", "enable_confidence_head": False,
            "attention_bias": False, "layer_types": ["full_attention"] * len(self.layers)}

    def base(self, tokens, states, anchors):
        """The rows u_k, before the term of the parent: [S, A, steps, width] that the head multiplies."""
        s, t = tokens.shape
        a, b = anchors.shape[1], self.steps
        source = states[:, :, : len(self.taps)].flatten(2) if self.taps else self.embed(tokens)
        features = self.hidden_norm(self.fc(source * self.feature_scale))
        slots = (anchors[:, :, None] + torch.arange(b)).flatten(1)
        position, block = torch.arange(t), torch.arange(a * b) // b
        seen = position < anchors.repeat_interleave(b, 1)[:, :, None]
        own = (block[:, None] == block).expand(s, -1, -1)
        mask = torch.cat([seen, own], 2)[:, None]
        x = torch.cat([self.embed(tokens.gather(1, anchors))[:, :, None], self.mask_embedding.expand(s, a, b - 1, -1)], 2)
        x = x.flatten(1, 2)
        for layer in self.layers:
            at = layer.self_attn
            y = layer.input_layernorm(x)
            both = zip(at.keys_values(features, position), at.keys_values(y, slots))
            x = x + at(at.queries(y, slots), *(torch.cat(pair, 1) for pair in both), mask)
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return self.norm(x).unflatten(1, (a, b))

    def rows(self, tokens, states, anchors, depths=None):
        """The rows of all depths, or of `depths` [S, A, n] of each anchor."""
        with torch.autocast(tokens.device.type, torch.bfloat16, enabled=self.low_precision):
            base = self.base(tokens, states, anchors)
        base = base.float()
        if depths is None:
            depths = torch.arange(self.steps).expand(anchors.shape + (-1,))
        else:
            base = base.gather(2, depths[..., None].expand(-1, -1, -1, base.shape[-1]))
        logits = F.linear(base, self.head)
        if self.markov_head is None:
            return logits
        # Beyond the end of a text there is no parent, and no row that counts.
        at = (anchors[:, :, None] + depths).clamp_max(tokens.shape[1] - 1)
        parents = tokens.gather(1, at.flatten(1))
        return logits + self.markov_head(self.number_of[parents]).unflatten(1, depths.shape[1:])


class FeatureHead(Drafter):
    def __init__(self, target, steps=4, taps=(1, 4, 6)):
        super().__init__(target)
        width, units, heads, kv_heads, theta = self.shape()
        self.steps, self.taps = steps, list(taps)
        self.fc = linear(width * len(taps), width)
        self.midlayer = Layer(width, units, heads, kv_heads, theta, 2 * width, False, 1)
        self.midlayer.hidden_norm = Norm(width)
        self.norm = Norm(width)

    def config(self):
        return {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama"} | self.common_config() | {
            "num_hidden_layers": 1, "draft_vocab_size": len(self.embedding), "trained_steps": self.steps,
            "eagle_config": {"eagle_aux_hidden_state_layer_ids": self.taps, "use_aux_hidden_state": True}}

    def all_rows(self, tokens, states):
        """Row k of position t is for the token at t + 1 + k: [steps][S, T - 1, width], which the head multiplies.

        Position s = t - 1 is where the anchor t is read, so anchors begin at 1. Drafted steps see the keys of their own
        chain at the positions after s, and those from the target's states at s and before.
        """
        s, t = tokens.shape
        n = t - 1
        layer, at = self.midlayer, self.midlayer.self_attn
        hidden = self.fc(states[:, :n, : len(self.taps)].flatten(2))
        position = torch.arange(n)
        causal = torch.ones(n, n, dtype=torch.bool).tril()
        keys, values, out = [], [], []
        scale = 1 / math.sqrt(at.head_dim)
        for step in range(self.steps):
            # The input at position s + step, in the chain that began at s: the token after that position.
            following = F.pad(tokens[:, 1 + step:], (0, step))
            y = torch.cat([layer.input_layernorm(self.embed(following)), layer.hidden_norm(hidden)], -1)
            q = at.queries(y, position + step)
            k, v = at.keys_values(y, position + step)
            keys.append(k)
            values.append(v)
            scores = (torch.einsum("snhd,smhd->shnm", q, keys[0]) * scale).masked_fill(~causal, float("-inf"))
            own = [(q * k).sum(-1).transpose(1, 2)[..., None] * scale for k in keys[1:]]
            weights = torch.cat([scores] + own, -1).softmax(-1)
            mixed = torch.einsum("shnm,smhd->snhd", weights[..., :n], values[0])
            for i, v in enumerate(values[1:]):
                mixed = mixed + weights[..., n + i].transpose(1, 2)[..., None] * v
            hidden = hidden + at.o_proj(mixed.flatten(2))
            hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
            out.append(self.norm(hidden))
        return out

    def rows(self, tokens, states, anchors):
        out = torch.stack(self.all_rows(tokens, states), 2)  # [S, T - 1, steps, width], anchor t at t - 1
        at = (anchors - 1)[:, :, None, None].expand(-1, -1, self.steps, out.shape[-1])
        return F.linear(out.gather(1, at), self.embedding)


class Independent(nn.Module):
    """A model of its own, such as models/draft. It reads no states; its row at a position is that of every depth."""

    steps, taps = 1, []

    def __init__(self, directory):
        super().__init__()
        self.model, self.directory = Llama(directory), directory

    def tensors(self):
        return self.model.tensors()

    def load(self, directory):
        self.model = Llama(directory)

    def save(self, directory):
        os.makedirs(directory, exist_ok=True)
        write_tensors(os.path.join(directory, "model.safetensors"), self.tensors())
        with open(os.path.join(directory, "config.json"), "w", encoding="utf-8") as file:
            json.dump(self.model.config, file, indent=1)

    def rows(self, tokens, states, anchors):
        hidden = self.model.states(tokens)[-1]
        at = (anchors[:, :, None] + torch.arange(self.steps)).flatten(1)
        hidden = hidden.gather(1, at[..., None].expand(-1, -1, hidden.shape[-1]))
        return self.model.logits(hidden).unflatten(1, anchors.shape[1:] + (self.steps,))
