"""Generation with models of transformers: the shipped models, and small ones of other architectures."""

import functools
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


sample = functools.partial(hf.generate, temperature=1.0)


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
    both = sample(target, draft, ids, method=method, seed=[3, 4], eos_token_id=[], max_new_tokens=12, return_dict=True)
    assert both.sequences.shape == (2, 15) and sum(both.accepted) > 0
    again = sample(target, draft, ids, method=method, seed=[3, 4], eos_token_id=[], max_new_tokens=12, threads=2)
    assert torch.equal(both.sequences, again)
    # Draws depend on the text's id and not on the batch: the first text has id 0 in every batch.
    alone = sample(target, draft, ids[:1], method=method, seed=3, eos_token_id=[], max_new_tokens=12)
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
                result = sample(target, draft, ids, **kw)
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
    wanted = sample(target, draft, ids, **how)

    class Older(transformers.LlamaForCausalLM):
        def forward(self, input_ids, attention_mask=None, position_ids=None, past_key_values=None, use_cache=None):
            return super().forward(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids,
                                   past_key_values=past_key_values, use_cache=use_cache)

    for model in (target, draft):
        model.__class__ = Older
    assert torch.equal(sample(target, draft, ids, **how), wanted)


def law_of(model, text, **sampling):
    with torch.no_grad():
        return multidraft.distributions(model(torch.tensor([text])).logits[0, -1:], **sampling)[0]


@pytest.mark.parametrize("method, tree, seed", [("recursive_rejection/sequential", "3x1", 100),
                                                ("nested_ranked_block/stratified", "2x2", 200),
                                                ("traversal/iid", "2x1", 300),
                                                ("traversal/iid", "chosen", 400)])
def test_the_law_of_sampled_tokens(shipped, method, tree, seed):
    """The first two tokens together, by chi-squared."""
    target, draft = shipped
    if tree == "chosen":
        tree = controller()
    sampling = dict(temperature=0.9, top_k=6)
    prompt = PROMPTS[0]
    rows, rounds = 128, 8
    counts = {}
    for k in range(rounds):
        result = sample(target, draft, torch.tensor([prompt] * rows), method=method, tree=tree, seed=seed + k,
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


def controller(**kw):
    """One whose choices do not depend on a clock, for models of which the target is slow."""
    return multidraft.Controller({1: 1.0, 17: 1.1}, {1: 0.01}, learns_times=False, **kw)


def test_trees_chosen_at_each_step(shipped):
    target, draft = shipped
    ids, mask = tensor(*PROMPTS)
    wanted = plain(target, ids, mask, 70)
    how = dict(attention_mask=mask, max_new_tokens=70, pad_token_id=0, return_dict=True)
    assert target not in hf._TIMES
    for tree in ("auto", "auto", controller()):
        found = hf.generate(target, draft, ids, tree=tree, temperature=0, **how)
        assert torch.equal(found.sequences, wanted)
    assert len(hf._TIMES[target]) == 1 and found.block_efficiency > 1.3 and found.tried_by_depth[2] > 0
    texts = [sample(target, draft, ids, tree=controller(nodes=8, depth=3), seed=7, **how) for _ in range(2)]
    assert torch.equal(texts[0].sequences, texts[1].sequences) and len(texts[0].tried_by_depth) == 3
    looked_up = hf.generate(target, None, ids, tree=controller(), temperature=0, **how)
    assert torch.equal(looked_up.sequences, wanted)
    assert torch.equal(target.generate(ids, attention_mask=mask, max_new_tokens=70, pad_token_id=0, do_sample=False,
                                       custom_generate=hf.custom_generate(draft, tree=controller())), wanted)
    # Too few tokens for measurements.
    short = hf.generate(target, draft, ids[:1], tree="auto", temperature=0, attention_mask=mask[:1], max_new_tokens=9, pad_token_id=0)
    assert torch.equal(short, plain(target, ids[:1], mask[:1], 9)) and len(hf._TIMES[target]) == 1


def test_trees_that_are_not_chosen(shipped):
    target, draft = shipped
    ids, mask = tensor(PROMPTS[1])
    for method, tree, part in (("multi_path_block/iid", "auto", "tree = auto: .*branch at the root only"),
                               ("shared_randomness", "auto", "fixed by the place"),
                               ("spec_hub/top_paired", controller(), "tree.children = 4: .*2 per node"),
                               ("block/iid", controller(), "tree.children = 4: .*1 per node")):
        with pytest.raises(multidraft.InvalidInput, match=part):
            hf.generate(target, draft, ids, attention_mask=mask, method=method, tree=tree, max_new_tokens=5)


def of_generate(run):
    return [run["token_ids"], run["target_calls"], pytest.approx(run["accepted_by_depth"])]


@pytest.mark.parametrize("run", RECORDED, ids=lambda run: run["method"])
def test_text_and_acceptance_are_those_of_generate(shipped, run):
    """The same draws and decisions as the C++ program with the same seed; the logits are equal up to rounding."""
    target, draft = shipped
    count = len(run["token_ids"])
    result = sample(target, draft, torch.tensor([run["prompt_ids"]]), method=run["method"], tree=run["tree"],
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
    result = sample(target, target, torch.tensor([[5, 6]]), tree="chain:4", method="speculative_sampling/iid",
                         max_new_tokens=41, eos_token_id=[], return_dict=True)
    assert result.steps == [[5] * 8 + [1]] and result.accepted == [32] and result.drafted == [32]
    assert result.whole_steps == [[5] * 8] and result.block_efficiency == 5 and result.acceptance_rate == 1
    assert result["sequences"].shape == (1, 43) and result.tried_by_depth == [8] * 4


def test_ends():
    target, draft = tiny(seed=4), tiny(seed=5)
    ids = torch.tensor([[5, 6, 7], [8, 9, 10]])
    text = sample(target, draft, ids, eos_token_id=[], max_new_tokens=20, seed=1)
    assert text.shape == (2, 23) and text.dtype == torch.int64
    stop = int(text[0, 9])
    ended = sample(target, draft, ids, eos_token_id=stop, pad_token_id=59, max_new_tokens=20, seed=1)
    for row, whole in zip(ended.tolist(), text.tolist()):
        new = whole[3:]
        new = new[: new.index(stop) + 1] if stop in new else new
        assert row == (whole[:3] + new + [59] * 20)[: ended.shape[1]]
    # The last trees are no deeper than the tokens left, so texts of different lengths differ in their last draws.
    assert sample(target, draft, ids, eos_token_id=[], max_length=10, seed=1).shape == (2, 10)
    assert torch.equal(sample(target, draft, ids, eos_token_id=[], max_new_tokens=1, seed=1)[:, :3], ids)
    assert torch.equal(sample(target, draft, ids, max_new_tokens=0), ids)
    # At the last position of the model.
    for kind in ("llama", "gpt2"):
        sizes = dict(n_positions=16) if kind == "gpt2" else dict(max_position_embeddings=16)
        short = tiny(kind, seed=4, **sizes), tiny(kind, seed=5, **sizes)
        full = sample(*short, ids, eos_token_id=[], max_new_tokens=50, tree="2x2x2")
        assert full.shape == (2, 17)
        assert torch.equal(plain(short[0], ids, torch.ones_like(ids), 14, eos_token_id=1000),
                           hf.generate(*short, ids, eos_token_id=[], max_new_tokens=50, temperature=0))


def test_beyond_the_drafts_positions_texts_go_on_without_drafts():
    ids = torch.tensor([[3, 4, 5, 6], [0, 7, 8, 9]])
    mask = torch.tensor([[1, 1, 1, 1], [0, 1, 1, 1]])
    target = tiny(seed=4)
    for kind in ("llama", "gpt2"):
        draft = tiny(kind, seed=5, **(dict(n_positions=16) if kind == "gpt2" else dict(max_position_embeddings=16)))
        found = hf.generate(target, draft, ids, attention_mask=mask, eos_token_id=[], max_new_tokens=40, temperature=0, tree="2x2x2",
                            return_dict=True)
        assert torch.equal(found.sequences, plain(target, ids, mask, 40, eos_token_id=1000))
        assert 0 < found.draft_calls < found.target_calls
        # A prompt that is longer from the start.
        long = torch.arange(20)[None] % 50 + 3
        assert torch.equal(hf.generate(target, draft, long, eos_token_id=[], max_new_tokens=8, temperature=0),
                           plain(target, long, torch.ones_like(long), 8, eos_token_id=1000))
    with pytest.raises(multidraft.InvalidInput, match="the target has 16 positions"):
        hf.generate(tiny(seed=5, max_position_embeddings=16), target, torch.ones(1, 17, dtype=torch.int64))


def test_the_generation_config_applies_beside_the_sampling_parameters():
    target, draft = tiny(seed=4), tiny(seed=5)
    ids = torch.tensor([[5, 6, 7]])
    free = hf.generate(target, draft, ids, eos_token_id=[], max_new_tokens=30, temperature=0)
    target.generation_config.repetition_penalty = 1.8
    expected = target.generate(ids, do_sample=False, max_new_tokens=30, eos_token_id=1000, pad_token_id=0)
    assert not torch.equal(free, expected)
    for given in (dict(temperature=0), dict(top_k=1), dict(do_sample=False)):
        assert torch.equal(hf.generate(target, draft, ids, eos_token_id=[], max_new_tokens=30, **given), expected), given
    target.generation_config.repetition_penalty = 1.0
    target.generation_config.bad_words_ids = [[int(free[0, 4])]]
    assert int(free[0, 4]) not in hf.generate(target, draft, ids, eos_token_id=[], max_new_tokens=30, temperature=0)[0, 3:].tolist()
    target.generation_config.bad_words_ids = None
    target.generation_config.max_new_tokens = 6
    assert hf.generate(target, draft, ids, eos_token_id=[], temperature=0).shape == (1, 9)


def test_criteria_and_streamers():
    target, draft = tiny(seed=4), tiny(seed=5)
    ids = torch.tensor([[5, 6, 7]])
    text = sample(target, draft, ids, eos_token_id=[], max_new_tokens=20, seed=1)
    length = transformers.MaxLengthCriteria(max_length=9)
    assert torch.equal(sample(target, draft, ids, eos_token_id=[], max_new_tokens=20, seed=1, stopping_criteria=[length]),
                       text[:, :9])
    seen = []

    def third_new_token(input_ids, scores):
        assert input_ids.shape[0] == 1 and scores is None
        seen.append(input_ids.shape[1])
        return torch.tensor([input_ids.shape[1] == 6])

    two = torch.cat([ids, ids + 20])
    assert sample(target, draft, two, eos_token_id=[], max_new_tokens=20, stopping_criteria=[third_new_token]).shape == (2, 6)
    assert sorted(seen) == [4, 4, 5, 5, 6, 6]

    class Streamer:
        def __init__(self):
            self.tokens, self.ended = [], False

        def put(self, value):
            self.tokens += value.reshape(-1).tolist()

        def end(self):
            self.ended = True

    streamer = Streamer()
    assert torch.equal(text, sample(target, draft, ids, eos_token_id=[], max_new_tokens=20, seed=1, streamer=streamer))
    assert streamer.tokens == text[0].tolist() and streamer.ended
    with pytest.raises(ValueError, match="one text"):
        sample(target, draft, two, streamer=Streamer())


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

    sampled = sample(target, draft, ids, attention_mask=mask, max_new_tokens=24, logits_processor=[even], eos_token_id=[])
    assert (sampled[:, 4:] % 2 == 0).all()
    with pytest.raises(ValueError, match="scores were"):
        sample(target, draft, ids, attention_mask=mask, logits_processor=[lambda i, s: s[:, :5]])
    with pytest.raises(ValueError, match="not a distribution"):
        sample(target, draft, ids, attention_mask=mask, method="naive/iid", logits_processor=[lambda i, s: s * np.nan])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_other_types(dtype):
    target, draft = tiny(seed=4).to(dtype), tiny(seed=4).to(torch.bfloat16)
    result = sample(target, draft, torch.tensor([[5, 6], [7, 8]]), max_new_tokens=20, eos_token_id=[], return_dict=True)
    assert result.sequences.shape == (2, 22) and sum(result.accepted) > 10


def test_prompts():
    target, draft = tiny(seed=4), tiny(seed=5)
    ids, mask = tensor([5, 6, 7, 8], [9], pad=50)
    how = dict(max_new_tokens=8, seed=2, eos_token_id=[])
    first = sample(target, draft, ids, attention_mask=mask, **how)
    # Without a mask, pad tokens are padding unless they are end tokens.
    assert torch.equal(first, sample(target, draft, ids, pad_token_id=50, **how))
    assert torch.equal(first, sample(target, draft, ids.int(), attention_mask=mask.bool(), **how))
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


def test_greedy_where_transformers_are():
    target, draft = tiny(seed=4), tiny(seed=5)
    ids = torch.tensor([[5, 6, 7], [8, 9, 10]])
    wanted = plain(target, ids, torch.ones_like(ids), 16)
    for how in (dict(), dict(do_sample=False), dict(temperature=0), dict(generation_config=transformers.GenerationConfig(max_new_tokens=16))):
        how = dict(max_new_tokens=16, pad_token_id=0, tree="2x2") | how
        if "generation_config" in how:
            del how["max_new_tokens"]
        assert torch.equal(hf.generate(target, draft, ids, **how), wanted), how
    # What the generation_config says, the model's own too.
    target.generation_config.repetition_penalty = 1.7
    penalised = plain(target, ids, torch.ones_like(ids), 16)
    assert not torch.equal(penalised, wanted) and torch.equal(hf.generate(target, draft, ids, max_new_tokens=16, pad_token_id=0), penalised)
    target.generation_config.repetition_penalty = None
    target.generation_config.do_sample = True
    torch.manual_seed(3)
    first = [hf.generate(target, draft, ids, max_new_tokens=16, eos_token_id=[]) for _ in range(2)]
    torch.manual_seed(3)
    again = [hf.generate(target, draft, ids, max_new_tokens=16, eos_token_id=[]) for _ in range(2)]
    assert torch.equal(first[0], again[0]) and torch.equal(first[1], again[1]) and not torch.equal(*first)
    target.generation_config.do_sample = False
    assert torch.equal(hf.generate(target, draft, ids, do_sample=True, temperature=0.8, top_k=20, top_p=0.9, min_p=0.01, seed=4, eos_token_id=[],
                                   max_new_tokens=16),
                       hf.generate(target, draft, ids, temperature=0.8, top_k=20, top_p=0.9, min_p=0.01, seed=4, eos_token_id=[], max_new_tokens=16))
    with pytest.raises(multidraft.InvalidInput, match="num_beams"):
        hf.generate(target, draft, ids, num_beams=2)
    with pytest.raises(multidraft.InvalidInput, match="draft here"):
        hf.generate(target, draft, ids, assistant_model=draft)
    with pytest.raises(ValueError, match="no_such_option"):
        hf.generate(target, draft, ids, no_such_option=1)


def test_options_of_transformers():
    target, draft = tiny(seed=4), tiny(seed=5)
    ids = torch.tensor([[5, 6, 7]])
    three = hf.generate(target, draft, ids, temperature=1.5, num_return_sequences=3, max_new_tokens=9, eos_token_id=[], seed=2)
    assert three.shape == (3, 12) and len({tuple(row) for row in three.tolist()}) == 3
    assert torch.equal(three[:1], hf.generate(target, draft, ids, temperature=1.5, max_new_tokens=9, eos_token_id=[], seed=2))
    # All that a tokenizer returns.
    whole = transformers.BatchEncoding({"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": torch.zeros_like(ids)})
    wanted = plain(target, ids, torch.ones_like(ids), 9)
    assert torch.equal(hf.generate(target, draft, whole, max_new_tokens=9), wanted)
    assert torch.equal(hf.generate(target, draft, **whole, max_new_tokens=9), wanted)
    with pytest.raises(multidraft.InvalidInput, match="reads them"):
        hf.generate(tiny("gpt2"), tiny("gpt2"), whole)

    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({f"<{i}>": i for i in range(59)} | {"abcdef": 59}, unk_token="<1>"))
    words = transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<1>")
    third = int(wanted[0, 5])
    stopped = hf.generate(target, draft, ids, max_new_tokens=9, stop_strings=[f"<{third}>"], tokenizer=words)
    assert int(stopped[0, -1]) == third and stopped.shape[1] <= 6
    with pytest.raises(multidraft.InvalidInput, match="tokenizer"):
        hf.generate(target, draft, ids, stop_strings=["x"])


def test_as_an_argument_of_transformers():
    target, draft = tiny(seed=4), tiny(seed=5)
    ids, mask = tensor([5, 6, 7, 8], [9, 10])
    how = dict(attention_mask=mask, max_new_tokens=12, pad_token_id=0)
    decode = hf.custom_generate(draft, tree="2x2x1", seed=3)
    assert torch.equal(target.generate(ids, custom_generate=decode, **how), plain(target, ids, mask, 12))
    sampled = target.generate(ids, custom_generate=decode, do_sample=True, temperature=0.7, top_k=0, **how)
    assert torch.equal(sampled, hf.generate(target, draft, ids, tree="2x2x1", seed=3, temperature=0.7, **how))
    told = target.generate(ids, custom_generate=decode, return_dict_in_generate=True, **how)
    assert isinstance(told, hf.Generated) and told.target_calls > 0
    # The parameters that the library has are its own; after others they stay processors.
    warpers = [transformers.TemperatureLogitsWarper(0.7), transformers.TopKLogitsWarper(5), transformers.TopPLogitsWarper(0.9)]
    assert hf._warpers([None, *warpers]) == ((0.7, 5, 0.9, 0.0), [None])
    assert hf._warpers(warpers[::-1]) == ((1.0, 0, 1.0, 0.0), warpers[::-1])
    assert hf._warpers([*warpers, None]) == ((1.0, 0, 1.0, 0.0), [*warpers, None])


def test_look_up_without_a_draft_model(shipped):
    target, _ = shipped
    ids, mask = tensor(PROMPTS[0] * 3, PROMPTS[1])
    wanted = plain(target, ids, mask, 40)
    for tree in (None, "3x1x1", "0"):
        found = hf.generate(target, None, ids, attention_mask=mask, tree=tree, temperature=0, max_new_tokens=40, pad_token_id=0, return_dict=True)
        assert torch.equal(found.sequences, wanted) and found.draft_calls == 0
        assert (sum(found.accepted) > 5) == (tree != "0")
    assert torch.equal(target.generate(ids, attention_mask=mask, custom_generate=hf.custom_generate(), max_new_tokens=40, pad_token_id=0), wanted)
    with pytest.raises(multidraft.InvalidInput, match="naive/deterministic"):
        hf.generate(target, None, ids, attention_mask=mask, method="naive/iid")


def test_what_is_looked_up():
    target = tiny(seed=4)
    ids = torch.tensor([[5, 6, 7, 9, 6, 7, 8, 5, 6, 7]])
    loop = hf._Loop(target, None, ids, None, "3x2", None, 5, None, (1.0, 0, 1.0, 0.0), None, 1, [], 0, None, None, None, 1)
    tokens = np.full((1, 10), multidraft.SUPPORT_ENDED, np.int32)
    loop.look_up(tokens)
    # After 5 6 7 a 9 came, after 6 7 an 8 too; nothing else after 7.
    assert tokens[0].tolist() == [-2, 9, 8, -2, 6, -2, 5, -2, -2, -2]


def test_the_law_of_look_up():
    target = tiny(vocabulary=6, seed=4, bos_token_id=1, eos_token_id=2)
    rows = 4000
    ids = torch.tensor([[3, 4, 5, 3, 4]] * rows)
    found = hf.generate(target, None, ids, tree="2x1", temperature=1.0, seed=5, max_new_tokens=2, eos_token_id=[], return_dict=True)
    assert sum(found.accepted) > rows / 50
    with torch.no_grad():
        p = torch.softmax(target(ids[:1]).logits[0, -1].double(), 0).numpy()
        texts = torch.cat([ids[:6], torch.arange(6)[:, None]], 1)
        law = p[:, None] * torch.softmax(target(texts).logits[:, -1].double(), 1).numpy()
    counts = np.zeros((6, 6))
    np.add.at(counts, tuple(found.sequences[:, -2:].numpy().T), 1)
    many = law * rows >= 5
    statistic = ((counts - law * rows)[many] ** 2 / (law * rows)[many]).sum()
    assert statistic < many.sum() + 6 * np.sqrt(2 * many.sum())


@pytest.mark.parametrize("kind", ["llama", "qwen2", "gpt2"])
def test_a_right_model_passes_its_check(kind):
    report = hf.check_model(tiny(kind), torch.tensor([[3, 1, 4, 1, 5, 9]]), tolerance=1e-3)
    assert report.fault == "" and report.distance < 1e-4
    with pytest.raises(multidraft.InvalidInput, match="5 tokens or more"):
        hf.check_model(tiny(kind), torch.tensor([3, 1, 4, 1]))
    with pytest.raises(multidraft.InvalidInput, match="one text is wanted"):
        hf.check_model(tiny(kind), torch.ones(2, 5, dtype=torch.int64))
    with pytest.raises(multidraft.InvalidInput, match=r"input_ids = 60"):
        hf.check_model(tiny(kind), torch.tensor([3, 1, 4, 1, 60]))


@pytest.mark.parametrize("wrong, fault", [
    ("mask", "the row of node 2 of a tree, text 0 of 2 differs"), ("positions", "of a tree, text 0 of 2 differs"),
    ("nan", "is no distribution"), ("constant", "rows after different tokens differ by 0.000000 at most")])
def test_what_a_model_does_wrong_is_found(wrong, fault):
    class Wrong(transformers.LlamaForCausalLM):
        def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, **more):
            if wrong == "mask":
                attention_mask = None
            if wrong == "positions":
                position_ids = None
            result = super().forward(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids,
                                     past_key_values=past_key_values, **more)
            if wrong == "nan" and past_key_values is not None:
                result.logits[..., 7] = float("nan")
            if wrong == "constant":
                result.logits = torch.zeros_like(result.logits)
            return result

    report = hf.check_model(Wrong(tiny().config).eval(), torch.tensor([3, 1, 4, 1, 5, 9]))
    assert fault in report.fault


def test_compiled_and_headless_models():
    target, draft = tiny(seed=4), tiny(seed=5)
    ids = torch.tensor([[5, 6, 7]])
    wanted = plain(target, ids, torch.ones_like(ids), 6)
    compiled = torch.compile(target, backend="eager")
    assert torch.equal(hf.generate(compiled, draft, ids, temperature=0, max_new_tokens=6), wanted)
    with pytest.raises(multidraft.InvalidInput, match="head is wanted"):
        hf.generate(target, draft.model, ids, temperature=0, max_new_tokens=6)


def wide_ties(shift=0):
    """A model in bfloat16 of which three tokens are always as likely."""
    model = tiny(vocabulary=8, seed=4, bos_token_id=1, eos_token_id=2)
    with torch.no_grad():
        model.lm_head.weight *= 2
        model.lm_head.weight[[1, 6]] = model.lm_head.weight[[2, 2]]
        model.lm_head.weight += shift * torch.randn_like(model.lm_head.weight)
    return model.to(torch.bfloat16)


def test_ties_of_the_last_token_of_top_k_are_kept():
    torch.manual_seed(1)
    rows = torch.randn(60, 40).mul(2).round().div(4)  # of few values
    rows[0], rows[1], rows[2, 3:], rows[3, 5] = 0, -torch.arange(40.0), -float("inf"), float("nan")
    for kind in (torch.float32, torch.bfloat16, torch.float16):
        x = rows.to(kind)
        for k in (1, 2, 7, 39, 40, 99):
            wanted = transformers.TopKLogitsWarper(k)(None, x.float())
            found = hf._cut(x.reshape(4, 15, 40), 0.7, k).reshape(60, 40)
            assert found.dtype == kind and torch.equal(found[torch.arange(60) != 3].float(), wanted[torch.arange(60) != 3])
            assert found[3].isnan().any()
        assert hf._cut(x, 0.7, 0) is x and hf._cut(x, 0.0, 3) is x
        # The parameters after it see what is left.
        for rows_of, warper, off in ((x[4:], transformers.MinPLogitsWarper(0.4), dict(min_p=0.4)),
                                     (torch.stack([torch.randperm(40) / 8 for _ in range(30)]).to(kind), transformers.TopPLogitsWarper(0.8), dict(top_p=0.8))):
            wanted = warper(None, transformers.TopKLogitsWarper(7)(None, rows_of.float())).softmax(1).numpy()
            found = multidraft.distributions(hf._cut(rows_of, 1.0, 7), **off)
            assert np.allclose(found, wanted, atol=1e-6) and (found == 0).sum() > 25 * len(found)


@pytest.mark.parametrize("way", ["temperature", "options", "custom_generate"])
def test_the_law_of_top_k_with_ties_is_that_of_transformers(way):
    target, draft = wide_ties(), wide_ties(0.3)
    rows, text = 3000, [3, 4, 5]
    ids = torch.tensor([text] * rows)
    how = dict(max_new_tokens=2, pad_token_id=0, top_k=3)
    torch.manual_seed(5)
    if way == "custom_generate":
        found = target.generate(ids, do_sample=True, eos_token_id=1000, custom_generate=hf.custom_generate(draft, tree="2x1"), **how)
    else:
        found = hf.generate(target, draft, ids, tree="2x1", eos_token_id=[], **how, **(dict(temperature=1.0) if way == "temperature" else dict(do_sample=True)))
    with torch.no_grad():
        warp = lambda texts: transformers.TopKLogitsWarper(3)(None, target(torch.tensor(texts)).logits[:, -1].float()).double().softmax(1).numpy()  # noqa: E731
        first, second = warp([text])[0], warp([[*text, x] for x in range(8)])
    kept = (first > 0).sum(), *(second > 0).sum(1)
    assert max(kept) > 3  # of which the library would keep three
    law = first[:, None] * second
    counts = np.zeros((8, 8))
    np.add.at(counts, tuple(found[:, -2:].numpy().T), 1)
    assert not counts[law == 0].any()
    many = law * rows >= 5
    statistic = ((counts - law * rows)[many] ** 2 / (law * rows)[many]).sum()
    assert statistic < many.sum() + 6 * np.sqrt(2 * many.sum())


def test_end_tokens_are_those_of_processors():
    target, draft = tiny(seed=4), tiny(seed=5)
    ids = torch.tensor([[5, 6, 7]])
    how = dict(max_new_tokens=14, pad_token_id=0)
    ends = list(range(3, 40))  # the text soon has one of them
    for option in (dict(min_new_tokens=8), dict(min_length=9), dict(exponential_decay_length_penalty=(2, 1.5))):
        wanted = target.generate(ids, eos_token_id=ends, **option, **how)
        assert torch.equal(hf.generate(target, draft, ids, eos_token_id=ends, **option, **how), wanted)
        of_config = transformers.GenerationConfig(**option, **how)
        assert torch.equal(hf.generate(target, draft, ids, eos_token_id=ends, generation_config=of_config), wanted)
        decode = hf.custom_generate(draft, eos_token_id=ends)
        with pytest.raises(multidraft.InvalidInput, match="eos_token_id = .*give it to target.generate"):
            target.generate(ids, custom_generate=decode, **option, **how)
        assert torch.equal(target.generate(ids, custom_generate=decode, eos_token_id=ends, **option, **how), wanted)
        assert hf.generate(target, draft, ids, eos_token_id=[], **option, **how).shape == (1, 17)
    # Without such processors it is the loop's.
    wanted = target.generate(ids, eos_token_id=ends, **how)
    assert wanted.shape[1] < 17 and torch.equal(target.generate(ids, custom_generate=hf.custom_generate(draft, eos_token_id=ends), **how), wanted)
    target.generation_config.min_new_tokens = 8
    assert torch.equal(hf.generate(target, draft, ids, eos_token_id=ends, temperature=0, **how), target.generate(ids, eos_token_id=ends, **how))


def test_pad_and_end_tokens_of_a_generation_config():
    target, draft = tiny(seed=4), tiny(seed=5)
    target.generation_config.pad_token_id = 30
    config = transformers.GenerationConfig(pad_token_id=50, eos_token_id=[7, 11], max_new_tokens=12)
    ids, mask = tensor([5, 6, 30, 8], [9], pad=50)
    wanted = target.generate(ids, attention_mask=mask, generation_config=config, do_sample=False)
    assert torch.equal(hf.generate(target, draft, ids, generation_config=config), wanted)
    assert torch.equal(target.generate(ids, generation_config=config, custom_generate=hf.custom_generate(draft)), wanted)


def test_inputs_that_are_not_read_are_refused():
    target, draft = tiny(seed=4), tiny(seed=5)
    ids, mask = tensor([5, 6, 7], [9])
    how = dict(attention_mask=mask, max_new_tokens=6, pad_token_id=0)
    wanted = plain(target, ids, mask, 6)
    own = torch.tensor([[0, 1, 2], [0, 0, 0]])
    full = transformers.DynamicCache()
    cache = "cache" if "cache" in hf._parameters(target) else "past_key_values"  # as transformers call it from 5.24 on
    with torch.no_grad():
        target(ids, **{cache: full})
    loops = (functools.partial(hf.generate, target, draft, ids), functools.partial(target.generate, ids, custom_generate=hf.custom_generate(draft)))
    for loop in loops:
        for given in (dict(position_ids=own), dict(position_ids=own + 7 * (mask == 0)), dict(use_cache=True), dict(logits_to_keep=1),
                      {cache: transformers.DynamicCache()}, dict(inputs_embeds=None)):
            assert torch.equal(loop(**given, **how), wanted), given
        for argument, given in (("position_ids", dict(position_ids=own + 1)), ("inputs_embeds", dict(inputs_embeds=torch.zeros(2, 3, 32))),
                                ("generation_config.force_words_ids", dict(force_words_ids=[[9]]))):
            with pytest.raises(multidraft.InvalidInput) as refused:
                loop(**given, **how)
            assert refused.value.argument == argument, refused.value
        with pytest.raises(multidraft.InvalidInput, match="DynamicCache of length 3"):
            loop(**{cache: full}, **how)
    gpt = tiny("gpt2")
    with pytest.raises(multidraft.InvalidInput, match="token_type_ids = Tensor"):
        gpt.generate(ids, token_type_ids=torch.zeros_like(ids), custom_generate=hf.custom_generate(), **how)
    with pytest.raises(multidraft.InvalidInput, match="position_ids = Tensor"):  # of a mapping, too
        hf.generate(target, draft, {"input_ids": ids, "position_ids": own + 1}, **how)
    # What transformers adds by itself for other models.
    for kind in ("gpt2", "qwen2", "mistral", "llama"):
        model = tiny(kind, seed=1)
        for more in (dict(), dict(cache_implementation="static")):
            assert torch.equal(model.generate(ids, custom_generate=hf.custom_generate(), **more, **how), plain(model, ids, mask, 6))
    hf._check_inputs(ids, {"cache_position": torch.arange(3), "attention_mask": None, "mm_encoder_outputs": {}, "output_router_logits": False,
                           "position_ids": torch.arange(3).expand(4, 2, 3), "past_key_values": None})
    for name, value in (("pixel_values", torch.zeros(1)), ("mm_encoder_outputs", {"image": 1}), ("cache_position", torch.arange(1, 4)),
                        ("position_ids", torch.arange(2)), ("past_key_values", ((1, 2),)), ("position_ids", [0, 1, 2])):
        with pytest.raises(multidraft.InvalidInput) as refused:
            hf._check_inputs(ids, {name: value})
        assert refused.value.argument == name


def test_seeds_of_returned_texts():
    target, draft = tiny(seed=4), tiny(seed=5)
    ids = torch.tensor([[5, 6, 7], [8, 9, 10]])
    how = dict(temperature=1.5, max_new_tokens=9, eos_token_id=[], tree="2x1")
    four = hf.generate(target, draft, ids, num_return_sequences=2, seed=[1, 2, 3, 4], **how)
    assert torch.equal(four, hf.generate(target, draft, ids.repeat_interleave(2, 0), seed=[1, 2, 3, 4], **how))
    config = transformers.GenerationConfig(num_return_sequences=2, do_sample=True)
    assert torch.equal(four, hf.generate(target, draft, ids, seed=[1, 2, 3, 4], generation_config=config, **how))
    with pytest.raises(multidraft.InvalidInput, match="seed.size = 2: .*4 requests"):
        hf.generate(target, draft, ids, num_return_sequences=2, seed=[1, 2], **how)
    # No new tokens.
    how = dict(how, max_new_tokens=0)
    none = hf.generate(target, draft, ids, num_return_sequences=2, seed=[1, 2, 3, 4], **how)
    assert isinstance(none, torch.Tensor) and torch.equal(none, ids.repeat_interleave(2, 0))
    told = hf.generate(target, draft, ids, num_return_sequences=2, return_dict=True, **how)
    assert isinstance(told, hf.Generated) and torch.equal(told.sequences, none) and told.new_tokens == [0] * 4


def test_a_draft_that_is_no_distribution_is_reported():
    target, draft = tiny(seed=4), tiny(seed=5)
    ids = torch.tensor([[5, 6, 7], [8, 9, 10]])
    with torch.no_grad():
        draft.lm_head.weight[3] = float("nan")
    for method in ("recursive_rejection/sequential", "naive/deterministic", "nested_ranked_block/stratified"):
        for how in (dict(temperature=0), dict(temperature=1.0, top_k=9), dict(do_sample=True)):
            with pytest.raises(multidraft.InvalidInput, match=r"draft\(..\) = nan: the row after node 0 of text 0 has this logit of token 3"):
                hf.generate(target, draft, ids, method=method, max_new_tokens=6, **how)
    draft = tiny(seed=5)
    draft.lm_head.forward = lambda x: torch.full((*x.shape[:-1], 60), -float("inf"))
    with pytest.raises(multidraft.InvalidInput, match=r"draft\(..\) = -inf: the row after node 0 of text 0"):
        hf.generate(target, draft, ids, max_new_tokens=6)


def test_more_refusals():
    target, draft = tiny(seed=4), tiny(seed=5)
    ids = torch.tensor([[5, 6, 7]])
    wide = tiny(seed=5)
    wide.lm_head = torch.nn.Linear(32, 64, bias=False)
    keep, end = (lambda i, s: s), (lambda i, s: torch.tensor([False]))
    for argument, index, given in (
            ("temperature", -1, dict(temperature=-1.0)), ("top_p", -1, dict(top_p=0.0)), ("min_p", -1, dict(min_p=2.0)), ("top_k", -1, dict(top_k=-2)),
            ("temperature.dtype", -1, dict(temperature="hot")),
            ("draft_sampling.temperature", -1, dict(draft_sampling=(-1.0, 0, 1.0, 0.0))), ("logits_processor(..)", -1, dict(logits_processor=[lambda i, s: None])),
            ("logits_processor", -1, dict(logits_processor=keep)), ("stopping_criteria", -1, dict(stopping_criteria=end)),
            ("logits_processor", 1, dict(logits_processor=[keep, 3])), ("stopping_criteria", 0, dict(stopping_criteria=["stop"])),
            ("draft(..).logits.shape[-1]", -1, dict(draft=wide)), ("num_return_sequences", -1, dict(num_return_sequences=-1))):
        with pytest.raises(multidraft.InvalidInput) as refused:
            hf.generate(**{**dict(target=target, draft=draft, input_ids=ids, max_new_tokens=6), **given})
        assert (refused.value.argument, refused.value.index) == (argument, index), refused.value

    class Bare:
        """A model without `generate`."""

        def __init__(self, model):
            self.config, self.device, self.dtype, self.model = model.config, model.device, model.dtype, model

        def forward(self, input_ids, attention_mask=None, position_ids=None, past_key_values=None, use_cache=None):
            cache = "cache" if "cache" in hf._parameters(self.model) else "past_key_values"
            return self.model(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, **{cache: past_key_values})

        __call__ = forward

    assert torch.equal(hf.generate(Bare(target), draft, ids, temperature=0, max_new_tokens=6), plain(target, ids, torch.ones_like(ids), 6, eos_token_id=1000))
    with pytest.raises(multidraft.InvalidInput, match="repetition_penalty = float: Bare has no `generate`"):
        hf.generate(Bare(target), draft, ids, max_new_tokens=6, repetition_penalty=1.2)
