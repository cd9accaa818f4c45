"""A step of many requests, by an engine whose caches hold the tokens: a wrong entry, mask or position is noticed."""

import numpy as np
import pytest

import multidraft

V = 40


def row(seen, draft):
    rng = np.random.default_rng([7, *seen[-2:]])
    p = rng.normal(size=V) * 2
    return (p + 0.5 * rng.normal(size=V) if draft else p).astype(np.float32)


class Model:
    def __init__(self, count, draft, only_scored):
        self.caches = [np.full(200, -1) for _ in range(count)]
        self.draft, self.only_scored = draft, only_scored

    def __call__(self, inputs):
        logits = np.full((len(inputs), V), np.nan, np.float32)
        first = {}
        for k in range(len(inputs)):
            self.caches[inputs.requests[k]][inputs.entries[k]] = inputs.tokens[k]
        for b in range(len(self.caches)):
            mine = inputs.entries[inputs.requests == b]
            first[b] = self.first[b] if len(mine) else 0
        for k in range(len(inputs)):
            b = inputs.requests[k]
            cache = self.caches[b]
            seen = [*cache[:first[b]], *cache[first[b] + np.flatnonzero(inputs.mask[k])]]
            assert len(seen) == inputs.positions[k] + 1 and seen[-1] == inputs.tokens[k]
            logits[k] = row(seen, self.draft)
        return logits[inputs.scored] if self.only_scored else logits


def run(requests, tokens, threads=1, only_scored=False):
    requests = [dict(r, text=list(r["text"]), in_target=0, in_draft=0) for r in requests]
    target, draft = Model(len(requests), False, only_scored), Model(len(requests), True, only_scored)
    step = multidraft.Step(threads)
    while min(len(r["text"]) for r in requests) < tokens:
        step.start()
        target.first, draft.first = [r["in_target"] for r in requests], [r["in_draft"] for r in requests]
        for b, r in enumerate(requests):
            assert step.add(r["method"], r["text"], r["tree"], seed=r["seed"], temperature=r.get("temperature", 1.0),
                            in_target=r["in_target"], in_draft=r["in_draft"]) == b
        while inputs := step.next_level():
            step.draw(draft(inputs))
        step.verify(target(step.target_inputs()))
        for b, r in enumerate(requests):
            result = step.result(b)
            assert len(result.tokens) == len(result.path) + 1
            for cache, context, kept in ((target.caches[b], result.target_context, result.kept_in_target),
                                         (draft.caches[b], result.draft_context, result.kept_in_draft)):
                cache[context:context + len(kept)] = cache[context + kept]
            r["text"] += result.tokens.tolist()
            r["in_target"], r["in_draft"] = result.in_target, result.in_draft
            assert target.caches[b][:r["in_target"]].tolist() == r["text"][:r["in_target"]]
            assert draft.caches[b][:r["in_draft"]].tolist() == r["text"][:r["in_draft"]]
    return [r["text"][:tokens] for r in requests]


REQUESTS = [dict(method="nested_ranked_block/stratified", text=[1, 2, 3], tree="2x1", seed=5),
            dict(method="nested_ranked_block/stratified", text=[9], tree="1x1x1", seed=6, temperature=0.5),
            dict(method="recursive_rejection/sequential", text=[4, 5], tree="2x2", seed=7),
            dict(method="naive/sequential", text=[4, 5], tree=None, seed=8)]


@pytest.fixture(autouse=True)
def methods_are_here():
    if not {r["method"] for r in REQUESTS} <= set(multidraft.methods()):
        pytest.skip("the module was built without these methods")


def test_texts_do_not_depend_on_neighbours():
    together = run(REQUESTS, 50, threads=3)
    assert together == run(REQUESTS, 50, only_scored=True)
    assert together == [run([r], 50)[0] for r in REQUESTS]


def test_texts_are_those_of_speculate():
    def of(draft):
        return lambda texts: np.stack([row(text, draft) for text in texts])

    for r in REQUESTS[:3]:
        made = multidraft.speculate(r["method"], r["tree"], of(False), of(True), r["text"], tokens=60, seed=r["seed"],
                                    temperature=r.get("temperature", 1.0))
        assert run([r], 50)[0] == (r["text"] + list(made.tokens))[:50]


def test_prompts_are_read_in_pieces():
    step = multidraft.Step()
    assert step.add("naive/sequential", [1, 2], "1x1") == 0
    assert step.add_reading([5, 6, 7, 8], in_target=1, in_draft=2) == 1
    inputs = step.next_level()
    assert inputs.tokens.tolist() == [1, 2, 7, 8] and inputs.scored.tolist() == [1]
    step.draw(np.zeros((4, V), np.float32))
    while inputs := step.next_level():
        step.draw(np.zeros((len(inputs), V), np.float32))
    inputs = step.target_inputs()
    assert inputs.tokens[-3:].tolist() == [6, 7, 8] and inputs.entries[-3:].tolist() == [1, 2, 3]
    step.verify(np.zeros((len(inputs), V), np.float32))
    assert len(step.result(0).tokens) >= 1
    read = step.result(1)
    assert (len(read.tokens), read.in_target, read.in_draft) == (0, 4, 4)


@pytest.mark.parametrize("call, argument", [
    (lambda step: step.add("naive/sequential", []), "text.size"),
    (lambda step: step.add("no/method", [1]), "method"),
    (lambda step: step.add("naive/sequential", [1, -2]), "text"),
    (lambda step: step.add_reading([1, -2]), "text"),
    (lambda step: step.add_reading([1, 2], in_draft=3), "in_draft"),
    (lambda step: step.add("block/iid", [1, 2], "2"), "tree"),
    (lambda step: step.add(None, [1, 2]), "method"),
    (lambda step: step.add("naive/sequential", [1, 2], draft_sampling=0.5), "draft_sampling"),
    (lambda step: (step.add("naive/sequential", [1, 2], "1x1"), step.next_level(), step.draw(np.zeros((2, V), np.float32)),
                   step.next_level(), step.draw(np.zeros((1, V + 1), np.float32))), "logits.shape[1]"),
    (lambda step: (step.add("naive/sequential", [1], "1"), step.next_level(), step.draw(np.ma.masked_array(np.zeros((1, V), np.float32)))),
     "logits"),
    (lambda step: (step.add("naive/sequential", [1], "1"), step.next_level(), step.draw(np.zeros((1, V), ">f4"))), "logits.dtype"),
    (lambda step: step.add("naive/sequential", [1, 2], in_target=2), "in_target"),
    (lambda step: (step.add("naive/sequential", [1]), step.add("naive/sequential", [2])), "id"),
    (lambda step: step.draw(np.zeros((1, V), np.float32)), "draw"),
    (lambda step: step.verify(np.zeros((1, V), np.float32)), "verify"),
    (lambda step: step.result(0), "step"),
    (lambda step: (step.add("naive/sequential", [1, 2], "1"), step.next_level(), step.draw(np.zeros((3, V), np.float32))), "logits.shape[0]"),
])
def test_refusals(call, argument):
    with pytest.raises(multidraft.InvalidInput) as refused:
        call(multidraft.Step())
    assert refused.value.argument == argument


def stepped(kinds):
    """The tokens of a step whose levels have rows of these types."""
    step = multidraft.Step()
    rng = np.random.default_rng(1)
    for seed in range(20):
        step.add("recursive_rejection/sequential", [1, 2], "2x2", seed=seed)
    level = 0
    while inputs := step.next_level():
        values = np.round(rng.normal(size=(len(inputs), V)) * 4) / 4
        if kinds[level] == "broadcast":
            values = np.broadcast_to((np.arange(V, dtype=np.float32) % 5) / 4, (len(inputs), V))
        kind = {"bfloat16": lambda: pytest.importorskip("ml_dtypes").bfloat16, "broadcast": lambda: np.float32}.get(kinds[level], lambda: kinds[level])()
        step.draw(values if kinds[level] == "broadcast" else values.astype(kind))
        level += 1
    inputs = step.target_inputs()
    step.verify((np.round(rng.normal(size=(len(inputs), V)) * 4) / 4).astype(np.float32))
    return [step.result(b).tokens.tolist() for b in range(20)]


@pytest.mark.parametrize("kinds", [("float16", "float32"), ("float32", "float16"), ("bfloat16", "float32"), ("float32", "bfloat16")])
def test_levels_may_have_several_types(kinds):
    assert stepped(kinds) == stepped(("float32", "float32"))


def test_rows_may_be_one_row_seen_several_times():
    assert all(stepped(("broadcast", "broadcast")))


def test_a_step_that_only_reads_draws_from_no_rows():
    step = multidraft.Step()
    step.add_reading([1, 2, 3])
    inputs = step.next_level()
    step.draw(np.zeros((len(inputs), V), np.float32)[inputs.scored])
    assert step.next_level() is None


@pytest.mark.parametrize("wrong", [
    lambda step: step.add("naive/sequential", [1, -2], "1"), lambda step: step.add("naive/sequential", [7], "1", seed=1),
    lambda step: step.add("naive/sequential", [1], "1", seed=2, temperature=-1.0), lambda step: step.add_reading([1, -2]),
    lambda step: step.add("naive/sequential", [1, 2], "1", seed=2, in_target=2), lambda step: step.add_reading([1, 2], in_draft=3)])
def test_a_refused_request_leaves_no_trace(wrong):
    def tokens(*calls):
        step = multidraft.Step()
        step.add("naive/sequential", [1, 2], "1", seed=1)
        for call in calls:
            with pytest.raises(multidraft.InvalidInput):
                call(step)
        assert step.add("naive/sequential", [4], "1", seed=3) == 1
        while inputs := step.next_level():
            assert len(inputs.offsets) == 3 and inputs.offsets[-1] == len(inputs)
            step.draw(np.zeros((len(inputs), V), np.float32))
        inputs = step.target_inputs()
        assert len(inputs.offsets) == 3 and inputs.offsets.tolist() == np.searchsorted(inputs.requests, [0, 1, 2]).tolist()
        assert inputs.mask.shape == (len(inputs), 64)
        step.verify(np.zeros((len(inputs), V), np.float32))
        return [step.result(b).tokens.tolist() for b in range(2)]

    assert tokens(wrong, wrong, wrong) == tokens()
