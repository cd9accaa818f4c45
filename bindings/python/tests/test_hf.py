"""Generation with models of transformers: the shipped models, and small ones of other architectures."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import multidraft

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from multidraft import hf  # noqa: E402

PROMPTS = [[1, 376, 264, 474, 568, 425, 1400, 4024], [1, 260, 651, 421], [1, 503, 4028, 4046, 4070, 4051, 4041, 4024, 303, 4027]]
RECORDED = json.loads((Path(__file__).parent / "generate.json").read_text(encoding="utf-8"))["runs"]
METHODS = list(multidraft.methods().values())


def tensor(*texts, pad=0):
    """(input_ids, attention_mask), padded on the left."""
    width = max(map(len, texts))
    ids = torch.tensor([[pad] * (width - len(t)) + list(t) for t in texts])
    mask = torch.tensor([[0] * (width - len(t)) + [1] * len(t) for t in texts])
    return ids, mask


def plain(model, ids, mask, tokens, **kw):
    """Greedy text by transformers' own loop."""
    return model.generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=tokens, pad_token_id=0, **kw)


def tiny(kind="llama", vocabulary=60, seed=0, **kw):
    torch.manual_seed(seed)
    sizes = dict(vocab_size=vocabulary, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                 num_key_value_heads=2, max_position_embeddings=128, initializer_range=0.4, bos_token_id=1, eos_token_id=2)
    if kind == "llama":
        return transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**sizes, **kw})).eval()
    if kind == "qwen2":
        return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**{**sizes, **kw})).eval()
    if kind == "mistral":
        return transformers.MistralForCausalLM(transformers.MistralConfig(**{**sizes, **kw})).eval()
    if kind == "gpt2":
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(**{**dict(
            vocab_size=vocabulary, n_embd=32, n_layer=2, n_head=4, n_positions=128, initializer_range=0.4, bos_token_id=1,
            eos_token_id=2), **kw})).eval()
    if kind == "gpt_neo":
        return transformers.GPTNeoForCausalLM(transformers.GPTNeoConfig(
            vocab_size=vocabulary, hidden_size=32, num_layers=2, attention_types=[[["global", "local"], 1]], num_heads=4, window_size=8,
            max_position_embeddings=128, bos_token_id=1, eos_token_id=2)).eval()
    raise ValueError(kind)


LONGROPE = dict(rope_parameters=dict(rope_type="longrope", rope_theta=10000.0, short_factor=[1.0] * 4, long_factor=[2.0] * 4,
                                     original_max_position_embeddings=16))


@pytest.mark.parametrize("method", ["recursive_rejection/sequential", "nested_ranked_block/stratified", "naive/deterministic"])
def test_greedy_text_is_that_of_the_target(shipped, method):
    target, draft = shipped
    ids, mask = tensor(*PROMPTS)
    wanted = plain(target, ids, mask, 24)
    result = hf.generate(target, draft, ids, attention_mask=mask, tree="3x1x1x1", method=method, temperature=0,
                         max_new_tokens=24, pad_token_id=0, return_dict=True)
    assert torch.equal(result.sequences, wanted)
    assert sum(result.new_tokens) == sum(map(sum, result.steps)) and result.block_efficiency > 1.2
    assert result.target_calls == max(map(len, result.steps))
    for b, prompt in enumerate(PROMPTS):
        alone = hf.generate(target, draft, torch.tensor([prompt]), tree="2x2", method=method, temperature=0, max_new_tokens=24)
        new = result.new_tokens[b]
        assert torch.equal(alone[0, len(prompt):][:new], wanted[b, ids.shape[1]:][:new])


@pytest.mark.parametrize("kind", ["llama", "qwen2", "mistral", "gpt2"])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_other_models(kind, attention):
    target, draft = tiny(kind, seed=1), tiny(kind, seed=2)
    for model in (target, draft):
        model.set_attn_implementation(attention)
    ids, mask = tensor([5, 6, 7, 8], [9], [4, 3, 10])
    wanted = plain(target, ids, mask, 30, eos_token_id=[7, 11])
    got = hf.generate(target, draft, ids, attention_mask=mask, tree="3x2x1", temperature=0, max_new_tokens=30, pad_token_id=0,
                      eos_token_id=[7, 11])
    assert torch.equal(got, wanted)


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_every_method(method):
    target = tiny(seed=1)
    draft = tiny(seed=1)
    with torch.no_grad():
        for weight in draft.parameters():
            weight += 0.02 * torch.randn_like(weight)
    ids = torch.tensor([[5, 6, 7], [8, 9, 10]])
    wanted = plain(target, ids, torch.ones_like(ids), 12)
    assert torch.equal(wanted, hf.generate(target, draft, ids, method=method, temperature=0, max_new_tokens=12, pad_token_id=0))
    both = hf.generate(target, draft, ids, method=method, seed=[3, 4], eos_token_id=[], max_new_tokens=12, return_dict=True)
    assert both.sequences.shape == (2, 15) and sum(both.accepted) > 0
    again = hf.generate(target, draft, ids, method=method, seed=[3, 4], eos_token_id=[], max_new_tokens=12, threads=2)
    assert torch.equal(both.sequences, again)
    # Draws depend on the text's id and not on the batch: the first text has id 0 in every batch.
    alone = hf.generate(target, draft, ids[:1], method=method, seed=3, eos_token_id=[], max_new_tokens=12)
    assert torch.equal(alone, both.sequences[:1])


def calls(model):
    """A list that gets the numbers of columns of each call's tokens and mask (None: the model's own)."""
    seen = []
    model.register_forward_pre_hook(
        lambda module, args, kw: seen.append((kw["input_ids"].shape[1], None if kw["attention_mask"] is None else
                                              kw["attention_mask"].shape[-1])), with_kwargs=True)
    return seen


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_prompts_are_read_with_the_first_tree(kind, attention, monkeypatch):
    """One call less than with prompts in a call of their own, as long ones are, and the same texts."""
    target, draft = tiny(kind, seed=4), tiny(kind, seed=4)
    with torch.no_grad():
        for weight in draft.parameters():
            weight += 0.03 * torch.randn_like(weight)
    for model in (target, draft):
        model.set_attn_implementation(attention)
    of_target, of_draft = calls(target), calls(draft)

    def even(input_ids, scores):
        return scores.masked_fill(torch.arange(scores.shape[1]) % 2 == 1, -float("inf"))

    long = [5, 6, 7, 8, 9, 10, 11, 12, 13, 14]
    for prompts in ([long], [[9]], [long, [9], [4, 3, 10]], [[9], [4]]):
        for how in (dict(), dict(tree="2x2", method="traversal/iid", top_k=9), dict(tree="chain:3", max_new_tokens=2),
                    dict(max_new_tokens=1), dict(tree="0", seed=[5] * len(prompts)), dict(logits_processor=[even], eos_token_id=[6, 8])):
            ids, mask = tensor(*prompts)
            kw = {**dict(max_new_tokens=14, seed=3, eos_token_id=[7], pad_token_id=0, attention_mask=mask, return_dict=True), **how}
            results = []
            for entries in (hf._MASK_ENTRIES, 0):
                monkeypatch.setattr(hf, "_MASK_ENTRIES", entries)
                of_target.clear(), of_draft.clear()
                result = hf.generate(target, draft, ids, **kw)
                gap = max(map(len, prompts)) - 1
                alone = [(gap, None)] * (entries == 0 and gap > 0)
                assert of_target[: len(alone)] == alone and len(of_target) == result.target_calls + len(alone)
                assert len(of_draft) == result.draft_calls
                drafts = bool(of_draft)
                assert of_draft[: len(alone)] == alone * drafts
                if not alone:  # the prompt, and then the tree or its root
                    assert of_target[0][0] > gap and of_target[0][0] == of_target[0][1]
                    assert not drafts or of_draft[0] == (gap + 1, gap + 1)
                results.append((result, drafts and alone))
            monkeypatch.undo()
            (one, _), (two, more) = results
            assert torch.equal(one.sequences, two.sequences) and one.target_calls == two.target_calls
            assert one.steps == two.steps and one.accepted == two.accepted and two.draft_calls == one.draft_calls + bool(more)


def test_models_that_return_all_logits():
    """Their forward takes no logits_to_keep."""
    target, draft = tiny(seed=4), tiny(seed=5)
    ids, mask = tensor([5, 6, 7, 8], [9])
    how = dict(attention_mask=mask, max_new_tokens=12, eos_token_id=[], seed=2)
    wanted = hf.generate(target, draft, ids, **how)

    class Older(transformers.LlamaForCausalLM):
        def forward(self, input_ids, attention_mask=None, position_ids=None, past_key_values=None, use_cache=None):
            return super().forward(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids,
                                   past_key_values=past_key_values, use_cache=use_cache)

    for model in (target, draft):
        model.__class__ = Older
    assert torch.equal(hf.generate(target, draft, ids, **how), wanted)


def law_of(model, text, **sampling):
    with torch.no_grad():
        return multidraft.distributions(model(torch.tensor([text])).logits[0, -1:], **sampling)[0]


@pytest.mark.parametrize("method, tree, seed", [("recursive_rejection/sequential", "3x1", 100),
                                                ("nested_ranked_block/stratified", "2x2", 200),
                                                ("traversal/iid", "2x1", 300)])
def test_the_law_of_sampled_tokens(shipped, method, tree, seed):
    """The first two tokens together, by chi-squared."""
    target, draft = shipped
    sampling = dict(temperature=0.9, top_k=6)
    prompt = PROMPTS[0]
    rows, rounds = 128, 8
    counts = {}
    for k in range(rounds):
        result = hf.generate(target, draft, torch.tensor([prompt] * rows), method=method, tree=tree, seed=seed + k,
                             max_new_tokens=2, eos_token_id=[], **sampling)
        for pair in map(tuple, result[:, len(prompt):].tolist()):
            counts[pair] = counts.get(pair, 0) + 1
    first = law_of(target, prompt, **sampling)
    expected = {}
    for x in np.flatnonzero(first).tolist():
        second = law_of(target, [*prompt, x], **sampling)
        expected.update({(x, y): first[x] * second[y] * rows * rounds for y in np.flatnonzero(second).tolist()})
    assert set(counts) <= set(expected)
    large = [pair for pair, e in expected.items() if e > 5]
    seen = np.array([*(counts.get(pair, 0) for pair in large), sum(n for pair, n in counts.items() if pair not in set(large))])
    wanted = np.array([*(expected[pair] for pair in large), sum(e for pair, e in expected.items() if pair not in set(large))])
    statistic, freedom = ((seen - wanted) ** 2 / wanted).sum(), len(wanted) - 1
    z = ((statistic / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / np.sqrt(2 / (9 * freedom))  # Wilson and Hilferty
    assert z < 5, (statistic, freedom)


def of_generate(run):
    return [run["token_ids"], run["target_calls"], pytest.approx(run["accepted_by_depth"])]


@pytest.mark.parametrize("run", RECORDED, ids=lambda run: run["method"])
def test_text_and_acceptance_are_those_of_generate(shipped, run):
    """The same draws and decisions as the C++ program with the same seed; the logits are equal up to rounding."""
    target, draft = shipped
    count = len(run["token_ids"])
    result = hf.generate(target, draft, torch.tensor([run["prompt_ids"]]), method=run["method"], tree=run["tree"],
                         temperature=run["temperature"], top_k=run["top_k"], top_p=run["top_p"], seed=run["seed"],
                         max_new_tokens=count, eos_token_id=[], return_dict=True)
    rates = [a / t for a, t in zip(result.accepted_by_depth, result.tried_by_depth)]
    assert [result.sequences[0, len(run["prompt_ids"]):].tolist(), result.target_calls, rates] == of_generate(run)


@pytest.mark.skipif("MULTIDRAFT_GENERATE" not in os.environ, reason="MULTIDRAFT_GENERATE does not name the program generate")
@pytest.mark.parametrize("run", RECORDED, ids=lambda run: run["method"])
def test_the_record_is_what_generate_writes(run):
    done = subprocess.run(
        [os.environ["MULTIDRAFT_GENERATE"], "--json", "--ignore-eos", "--precision", "f32", "--tokens",
         str(len(run["token_ids"])), "--tree", run["tree"], "--method", run["method"], "--temperature",
         str(run["temperature"]), "--top-k", str(run["top_k"]), "--top-p", str(run["top_p"]), "--seed", str(run["seed"]),
         "--prompt", run["prompt"]], stdout=subprocess.PIPE, text=True, check=True, timeout=600)
    written = json.loads(done.stdout)
    assert [written["token_ids"], written["target_calls"], written["acceptance_rate_by_depth"]] == of_generate(run)


def test_a_perfect_draft_is_accepted_and_caches_hold_the_text():
    target = tiny(seed=3)
    result = hf.generate(target, target, torch.tensor([[5, 6]]), tree="chain:4", method="speculative_sampling/iid",
                         max_new_tokens=41, eos_token_id=[], return_dict=True)
    assert result.steps == [[5] * 8 + [1]] and result.accepted == [32] and result.drafted == [32]
    assert result.block_efficiency == 41 / 9 and result.acceptance_rate == 1
    assert result["sequences"].shape == (1, 43) and result.tried_by_depth == [8] * 4


def test_ends():
    target, draft = tiny(seed=4), tiny(seed=5)
    ids = torch.tensor([[5, 6, 7], [8, 9, 10]])
    text = hf.generate(target, draft, ids, eos_token_id=[], max_new_tokens=20, seed=1)
    assert text.shape == (2, 23) and text.dtype == torch.int64
    stop = int(text[0, 9])
    ended = hf.generate(target, draft, ids, eos_token_id=stop, pad_token_id=59, max_new_tokens=20, seed=1)
    for row, whole in zip(ended.tolist(), text.tolist()):
        new = whole[3:]
        new = new[: new.index(stop) + 1] if stop in new else new
        assert row == (whole[:3] + new + [59] * 20)[: ended.shape[1]]
    # The last trees are no deeper than the tokens left, so texts of different lengths differ in their last draws.
    assert hf.generate(target, draft, ids, eos_token_id=[], max_length=10, seed=1).shape == (2, 10)
    assert torch.equal(hf.generate(target, draft, ids, eos_token_id=[], max_new_tokens=1, seed=1)[:, :3], ids)
    assert torch.equal(hf.generate(target, draft, ids, max_new_tokens=0), ids)
    # At the last position of the model.
    for kind in ("llama", "gpt2"):
        sizes = dict(n_positions=16) if kind == "gpt2" else dict(max_position_embeddings=16)
        short = tiny(kind, seed=4, **sizes), tiny(kind, seed=5, **sizes)
        full = hf.generate(*short, ids, eos_token_id=[], max_new_tokens=50, tree="2x2x2")
        assert full.shape == (2, 17)
        assert torch.equal(plain(short[0], ids, torch.ones_like(ids), 14, eos_token_id=1000),
                           hf.generate(*short, ids, eos_token_id=[], max_new_tokens=50, temperature=0))


def test_criteria_and_streamers():
    target, draft = tiny(seed=4), tiny(seed=5)
    ids = torch.tensor([[5, 6, 7]])
    text = hf.generate(target, draft, ids, eos_token_id=[], max_new_tokens=20, seed=1)
    length = transformers.MaxLengthCriteria(max_length=9)
    assert torch.equal(hf.generate(target, draft, ids, eos_token_id=[], max_new_tokens=20, seed=1, stopping_criteria=[length]),
                       text[:, :9])
    seen = []

    def third_new_token(input_ids, scores):
        assert input_ids.shape[0] == 1 and scores is None
        seen.append(input_ids.shape[1])
        return torch.tensor([input_ids.shape[1] == 6])

    two = torch.cat([ids, ids + 20])
    assert hf.generate(target, draft, two, eos_token_id=[], max_new_tokens=20, stopping_criteria=[third_new_token]).shape == (2, 6)
    assert sorted(seen) == [4, 4, 5, 5, 6, 6]

    class Streamer:
        def __init__(self):
            self.tokens, self.ended = [], False

        def put(self, value):
            self.tokens += value.reshape(-1).tolist()

        def end(self):
            self.ended = True

    streamer = Streamer()
    assert torch.equal(text, hf.generate(target, draft, ids, eos_token_id=[], max_new_tokens=20, seed=1, streamer=streamer))
    assert streamer.tokens == text[0].tolist() and streamer.ended
    with pytest.raises(ValueError, match="one text"):
        hf.generate(target, draft, two, streamer=Streamer())


def test_processors():
    from transformers.generation import logits_process

    target, draft = tiny(seed=4), tiny(seed=4)
    ids, mask = tensor([5, 6, 7, 8], [9, 10])
    processors = [logits_process.RepetitionPenaltyLogitsProcessor(1.7), logits_process.NoRepeatNGramLogitsProcessor(2),
                  logits_process.MinNewTokensLengthLogitsProcessor(4, 9, [2])]
    wanted = plain(target, ids, mask, 24, logits_processor=logits_process.LogitsProcessorList(processors))
    got = hf.generate(target, draft, ids, attention_mask=mask, tree="3x2x1", temperature=0, max_new_tokens=24, pad_token_id=0,
                      logits_processor=processors, return_dict=True)
    assert torch.equal(got.sequences, wanted) and sum(got.accepted) > 10

    def even(input_ids, scores):
        scores = scores.clone()
        scores[:, 1::2] = -float("inf")
        return scores

    sampled = hf.generate(target, draft, ids, attention_mask=mask, max_new_tokens=24, logits_processor=[even], eos_token_id=[])
    assert (sampled[:, 4:] % 2 == 0).all()
    with pytest.raises(ValueError, match="scores were"):
        hf.generate(target, draft, ids, attention_mask=mask, logits_processor=[lambda i, s: s[:, :5]])
    with pytest.raises(ValueError, match="not a distribution"):
        hf.generate(target, draft, ids, attention_mask=mask, method="naive/iid", logits_processor=[lambda i, s: s * np.nan])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_other_types(dtype):
    target, draft = tiny(seed=4).to(dtype), tiny(seed=4).to(torch.bfloat16)
    result = hf.generate(target, draft, torch.tensor([[5, 6], [7, 8]]), max_new_tokens=20, eos_token_id=[], return_dict=True)
    assert result.sequences.shape == (2, 22) and sum(result.accepted) > 10


def test_prompts():
    target, draft = tiny(seed=4), tiny(seed=5)
    ids, mask = tensor([5, 6, 7, 8], [9], pad=50)
    how = dict(max_new_tokens=8, seed=2, eos_token_id=[])
    first = hf.generate(target, draft, ids, attention_mask=mask, **how)
    # Without a mask, pad tokens are padding unless they are end tokens.
    assert torch.equal(first, hf.generate(target, draft, ids, pad_token_id=50, **how))
    assert torch.equal(first, hf.generate(target, draft, ids.int(), attention_mask=mask.bool(), **how))
    # Texts with the same seed have different draws.
    same = hf.generate(target, draft, torch.tensor([[5, 6]] * 8), max_new_tokens=8, eos_token_id=[], temperature=1.5)
    assert len({tuple(row) for row in same.tolist()}) > 1


def test_refusals():
    target, draft = tiny(), tiny(seed=1)
    ids = torch.tensor([[5, 6, 7], [8, 9, 10]])
    mask = torch.ones_like(ids)
    # 20 new tokens, the default, exceed the window of the model that has one.
    mamba = type("Mamba", (), {"config": type("C", (), {"layer_types": ["mamba"]})(), "forward": lambda self: None})()
    t5 = type("T5", (), {"config": type("C", (), {"is_encoder_decoder": True})(), "forward": lambda self: None})()
    alibi = type("Falcon", (), {"config": type("C", (), {"alibi": True})(), "forward": lambda self: None})()
    flash = tiny()
    flash.config._attn_implementation = "flash_attention_2"
    for argument, part, call in [
            ("input_ids", "torch.Tensor", dict(input_ids=[[1]])), ("input_ids.shape", "(batch, length)", dict(input_ids=ids[0])),
            ("input_ids.shape", "at least one", dict(input_ids=ids[:, :0])), ("input_ids.dtype", "int64", dict(input_ids=ids.float())),
            ("input_ids[1]", "[0, 60)", dict(input_ids=torch.tensor([[1], [60]]))),
            ("attention_mask.shape", "input_ids", dict(attention_mask=mask[:1])),
            ("attention_mask", "on the left", dict(attention_mask=torch.tensor([[1, 1, 1], [1, 1, 0]]))),
            ("attention_mask", "go on from", dict(attention_mask=mask * 0)),
            ("draft.config.vocab_size", "one vocabulary", dict(draft=tiny(vocabulary=61))),
            ("draft", "keys and values", dict(draft=mamba)), ("target", "encoder", dict(target=t5)), ("draft", "transformers", dict(draft=3)),
            ("target.config._attn_implementation", "sdpa", dict(target=flash)),
            ("target", "sees 4 tokens", dict(target=tiny("mistral", sliding_window=4))),
            ("draft", "sees 8 tokens", dict(draft=tiny("gpt_neo"))), ("target", "changes at 16 tokens", dict(target=tiny(**LONGROPE))),
            ("target", "ALiBi", dict(target=alibi)),
            ("method", "nearest", dict(method="no")), ("shape", "whole numbers", dict(tree="3x")),
            ("max_length", "already", dict(max_length=2)), ("max_length", "max_new_tokens", dict(max_length=9, max_new_tokens=2)),
            ("max_new_tokens", "lies in", dict(max_new_tokens=-1)), ("seed.size", "one value", dict(seed=[1])),
            ("draft_sampling", "min_p", dict(draft_sampling=(1, 2))), ("threads", "lies in", dict(threads=0)),
            ("input_ids.shape[1]", "128 positions", dict(input_ids=torch.ones(1, 200, dtype=torch.int64)))]:
        with pytest.raises(multidraft.InvalidInput) as refused:
            hf.generate(**{**dict(target=target, draft=draft, input_ids=ids), **call})
        assert refused.value.argument == argument and part in str(refused.value), refused.value
    for wrong in (dict(temperature=-1), dict(top_p=0), dict(temperature=float("nan")), dict(top_k=-2), dict(tree="2x2", method="block/iid")):
        with pytest.raises(ValueError):
            hf.generate(target, draft, ids, **wrong)
