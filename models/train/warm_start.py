"""Where the training of a block drafter begins: at what the target already computes.

The first drafter layer is the target's first, the last its last. Their keys and values of context positions are fitted
by least squares from the hidden states that the drafter sees; `fc` is the projection that loses least of them
(reduced-rank regression). The term of the parent is the logarithm of how much oftener than by chance a token follows
another in the training text, at half its size and rank. An MLP with fewer units than the target's has those that add
most to its output. All of it is trained on. For the shipped pair the first row's sum of min(p, q) on batches of training
is .30 at the first step; from a random beginning it is after 150.
"""
import torch
import torch.nn.functional as F

from llama import rms_norm


def context_inputs(target, tokens, at, norm="input_layernorm"):
    """What the keys and values of layer `at` are made of, as examples/transformer computes it; or, by the other norm, nearly
    what its MLP reads: without what its attention adds."""
    x = F.embedding(tokens, target.embedding) if at == 0 else target.states(tokens, (at - 1,))[0]
    return rms_norm(x, target.weight(f"model.layers.{at}.{norm}"), target.epsilon)


def ridge(x, y, strength=1e-3):
    gram = x.T @ x
    return torch.linalg.solve(gram + strength * gram.diagonal().mean() * torch.eye(len(gram)), x.T @ y)


def bigram_term(pairs, vocabulary, rank, shrink=20.0):
    """log p(b | a) / p(b), shrunk towards 0 for rare a, as W1 [V, rank] and W2 [V, rank]."""
    counts = torch.zeros(vocabulary, vocabulary)
    counts.index_put_((pairs[:, 0], pairs[:, 1]), torch.ones(len(pairs)), accumulate=True)
    p = (counts.sum(0) + 0.1) / (counts.sum() + 0.1 * vocabulary)
    ratio = (counts + shrink * p) / ((counts.sum(1, keepdim=True) + shrink) * p)
    u, s, v = torch.svd_lowrank(ratio.clamp(0.05, 1000).log(), q=rank, niter=3)
    return u * s.sqrt(), v * s.sqrt()


@torch.no_grad()
def warm_start(drafter, target, tokens, states, read, pairs, size=0.5):
    """Some thirty training sequences: `tokens` [N, T], `states`, and `read` [N, T], which positions are not padding. `pairs`
    [M, 2]: tokens and those that follow them, for the term of the parent."""
    layers, width = len(drafter.layers), len(drafter.norm.weight)
    of = [0, target.layers - 1] if layers == 2 else [target.layers - 1 - i for i in range(layers)][::-1]
    wanted = []
    inputs = []
    for at in of:
        inputs.append(torch.cat([context_inputs(target, part, at) for part in tokens.split(8)])[read])
        for name in "kv":
            wanted.append(F.linear(inputs[-1], target.weight(f"model.layers.{at}.self_attn.{name}_proj")))
    sizes = [w.pow(2).mean().sqrt() for w in wanted]
    y = torch.cat([w / s for w, s in zip(wanted, sizes)], -1)
    source = states[:, :, : len(drafter.taps)].flatten(2) if drafter.taps else drafter.embed(tokens)
    source = source[read] * drafter.feature_scale
    plain = ridge(source, y)
    fitted = source @ plain
    power, directions = torch.linalg.eigh(fitted.T @ fitted / len(fitted))
    keep = min(width, len(power), source.shape[1])
    scale = power.flip(0)[:keep].clamp_min(1e-6) ** 0.25
    drafter.fc.weight[:keep] = (plain @ directions.flip(1)[:, :keep] / scale).T
    features = drafter.hidden_norm(drafter.fc(source))
    for i, (mine, at) in enumerate(zip(drafter.layers, of)):
        weight = lambda name: target.weight(f"model.layers.{at}.{name}")
        a = mine.self_attn
        for name in ("q_proj", "o_proj"):
            getattr(a, name).weight.copy_(weight("self_attn." + name))
        a.k_proj.weight.copy_(ridge(features, wanted[2 * i]).T)
        a.v_proj.weight.copy_(ridge(features, wanted[2 * i + 1]).T)
        a.k_norm.weight.fill_(sizes[2 * i])
        q = F.linear(inputs[i][: int(read[:8].sum())], weight("self_attn.q_proj"))
        a.q_norm.weight.fill_(q.pow(2).mean().sqrt())
        units = slice(None)
        if drafter.units < len(weight("mlp.gate_proj")):
            y = context_inputs(target, tokens[:8], at, "post_attention_layernorm")[read[:8]]
            active = F.silu(F.linear(y, weight("mlp.gate_proj"))) * F.linear(y, weight("mlp.up_proj"))
            power = active.pow(2).mean(0) * weight("mlp.down_proj").pow(2).sum(0)
            units = power.topk(drafter.units).indices
        mine.mlp.gate_proj.weight.copy_(weight("mlp.gate_proj")[units])
        mine.mlp.up_proj.weight.copy_(weight("mlp.up_proj")[units])
        mine.mlp.down_proj.weight.copy_(weight("mlp.down_proj")[:, units])
        for name in ("input_layernorm", "post_attention_layernorm"):
            getattr(mine, name).weight.copy_(weight(name))
    drafter.norm.weight.copy_(target.weight("model.norm"))
    drafter.mask_embedding.copy_(torch.randn(width) * target.embedding.pow(2).mean().sqrt())
    if drafter.markov_head is not None:
        pairs = drafter.number_of[pairs]
        w1, w2 = bigram_term(pairs[(pairs >= 0).all(1)], len(drafter.draft_tokens), drafter.rank)
        drafter.markov_head.markov_w1.weight.copy_(w1)
        drafter.markov_head.markov_w2.weight.copy_(w2 * size)
