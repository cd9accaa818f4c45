"""A draft's rows of a few candidates: the decisions of whole rows with minus infinity elsewhere, by every door."""

import numpy as np
import pytest

import multidraft
from multidraft import Candidates, InvalidInput
from test_speculate import METHODS, TREES, Block, expect_law, features_of, with_features
from test_step import Model, V


def kept(logits, k):
    """Whole rows in which k entries are left."""
    return Candidates.largest(logits, k).whole()


def test_tokens_rise_and_are_checked():
    few = Candidates([[5, 2, 7], [0, 1, 9]], np.array([[1, 2, 3], [4, 5, 6]], np.float16), 10)
    assert few.tokens.tolist() == [[2, 5, 7], [0, 1, 9]] and few.logits.tolist() == [[2, 1, 3], [4, 5, 6]]
    assert few.tokens.dtype == np.int32 and few.logits.dtype == np.float32 and len(few) == 2 and "3 of 10" in repr(few)
    whole = few.whole()
    assert whole.shape == (2, 10) and np.isneginf(whole).sum() == 14 and whole[0, 5] == 1
    again = few.of_rows([1, 0, 1])
    assert again.tokens.tolist() == [[0, 1, 9], [2, 5, 7], [0, 1, 9]]
    rows = np.random.default_rng(1).normal(size=(3, 20)).astype(np.float32)
    rows[1, :] = 0  # ties: the lowest tokens
    largest = Candidates.largest(rows, 4)
    assert largest.tokens[1].tolist() == [0, 1, 2, 3]
    assert (np.sort(largest.logits[0]) == np.sort(rows[0])[-4:]).all()
    logits = np.zeros((1, 2), np.float32)
    for tokens, values, vocabulary, message in (([[3, 3]], logits, 10, "tokens\\[0\\] = 3: a row has each"), ([[0, 10]], logits, 10, "tokens\\[0, 1\\] = 10: a token is in"),
                                                ([[0, -1]], logits, 10, "-1"), ([[0, 1, 2]], logits, 10, "tokens.shape"), ([[0.0, 1.0]], logits, 10, "integers"),
                                                ([[0, 1]], logits, 1, "1 to 1 candidates"), ([[0, 1]], logits[0], 10, "two dimensions"),
                                                ([[0, 1]], logits.astype(int), 10, "float32"), ([[0, 1]], logits, 0, "vocabulary")):
        with pytest.raises(InvalidInput, match=message):
            Candidates(tokens, values, vocabulary)


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_decisions_are_those_of_whole_rows(method, kind, models):
    target, draft = models(24, seed=3)
    of_target = lambda texts: target(texts).astype(kind)  # noqa: E731

    def text(of_draft):
        return multidraft.speculate(method.name, TREES[method.shapes], of_target, of_draft, [1, 2], tokens=40, seed=5, temperature=0.9)

    few = text(lambda texts: Candidates.largest(draft(texts), 6))
    whole = text(lambda texts: kept(draft(texts), 6))
    assert few.tokens == whole.tokens and few.accepted == whole.accepted > 0


@pytest.mark.parametrize("method", ["nested_ranked_block/stratified", "recursive_rejection/sequential", "traversal/iid"])
def test_the_law_is_the_targets(method, models):
    vocabulary, runs = 5, 600
    target, draft = models(vocabulary, seed=20)
    counts = np.zeros((vocabulary, vocabulary))
    for seed in range(runs):
        counts[tuple(multidraft.speculate(method, "2x1", target, lambda texts: Candidates.largest(draft(texts), 3), [1, 2], tokens=2, seed=seed).tokens)] += 1
    expect_law(counts, target, [1, 2], runs, method)


def test_draft_and_verify(models):
    target, draft = models(30, seed=8)
    text, tree = [4, 5], multidraft.Tree.parse("3x2")
    drafted, rows = multidraft.draft_tree("traversal/sequential", tree, text, lambda texts: Candidates.largest(draft(texts), 8), seed=2)
    assert isinstance(rows, Candidates) and len(rows) == len(tree)
    p = target(drafted.texts(text))
    found = multidraft.verify("traversal/sequential", drafted, target_logits=p, draft_logits=rows, validate=True)
    assert found.tokens == multidraft.verify("traversal/sequential", drafted, target_logits=p, draft_logits=rows.whole()).tokens
    # The same by calls of one's own, with the rows of nodes that have children.
    first = Candidates.largest(draft([text]), 8)
    children = multidraft.draft(first, tree=tree, level=0, law="sequential", seeds=2, positions=1)
    assert children.tokens[0].tolist() == drafted.tokens[1:4].tolist()
    assert (children.tokens == multidraft.draft(first.whole(), 3, nodes=0, law="sequential", seeds=2, positions=1).tokens).all()
    with pytest.raises(InvalidInput, match="not probabilities"):
        multidraft.verify("traversal/sequential", drafted, target_logits=np.full((10, 30), 1 / 30, np.float32), draft_logits=rows, probabilities=True)
    with pytest.raises(InvalidInput, match="one vocabulary"):
        multidraft.verify("traversal/sequential", drafted, target_logits=p[:, :29], draft_logits=rows)
    with pytest.raises(InvalidInput, match="the target's rows have all tokens"):
        multidraft.speculate("traversal/sequential", tree, lambda texts: Candidates.largest(target(texts), 8), draft, text)
    with pytest.raises(InvalidInput, match="whole rows for all levels"):
        multidraft.speculate("traversal/sequential", tree, target, lambda texts: Candidates.largest(draft(texts), 8) if len(texts) == 1 else draft(texts), text)
    with pytest.raises(InvalidInput, match="have 8 candidates"):
        multidraft.speculate("traversal/sequential", tree, target, lambda texts: Candidates.largest(draft(texts), 8 if len(texts) == 1 else 7), text)
    with pytest.raises(InvalidInput, match="logit of token 6"):
        multidraft.speculate("traversal/sequential", tree, target, lambda texts: Candidates([[2, 6]], np.array([[0, np.nan]], np.float32), 30), text)


class Few(Block):
    """The block draft of the tests with the 3 likeliest tokens of each row, before or with its term."""

    def rows(self, text, depth):
        self.block = super().rows(text, depth)
        return Candidates.largest(self.block, 3)

    parent_term = property()  # not there

    def term(self, depth, tokens):
        return Block.parent_term(self, depth, tokens)


class FewAfter(Few):
    def candidates_after(self, depth, tokens):
        return Candidates.largest((self.block[depth] + self.term(depth, tokens)).astype(np.float32), 3)


class WholeAfter(FewAfter):
    def candidates_after(self, depth, tokens):
        row = super().candidates_after(depth, tokens).whole()
        return Candidates(np.tile(np.arange(self.vocabulary), (len(row), 1)), row, self.vocabulary)


@pytest.mark.parametrize("drafter", [Few, FewAfter])
def test_a_block_draft_gives_candidates(drafter, models):
    vocabulary, runs = 5, 600
    target, _ = models(vocabulary, seed=10)
    counts = np.zeros((vocabulary, vocabulary))
    for seed in range(runs):
        result = multidraft.speculate("nested_ranked_block/stratified", "2x1", with_features(target), drafter(vocabulary), [1, 2], tokens=2, seed=seed)
        counts[tuple(result.tokens)] += 1
    expect_law(counts, target, [1, 2], runs, drafter.__name__)


def test_candidates_after_the_parents_token(models):
    target, _ = models(9, seed=10)
    texts = []
    for drafter in (FewAfter(9), WholeAfter(9)):
        result = multidraft.speculate("traversal/sequential", "2x1x1", with_features(target), drafter, [1, 2], tokens=60, seed=4)
        final = [1, 2] + result.tokens
        assert drafter.seen == [features_of(final[: k + 1]) for k in range(len(final) - 1)]
        assert drafter.calls == result.draft_calls <= result.target_calls
        texts.append(result.tokens)
    assert texts[0] == texts[1]

    class Both(Few):
        def parent_term(self, depth, tokens):
            return self.term(depth, tokens)

    with pytest.raises(InvalidInput, match="`candidates_after` that gives"):
        multidraft.speculate("traversal/sequential", "2x1", with_features(target), Both(9), [1, 2])
    wrong = FewAfter(9)
    wrong.candidates_after = lambda depth, tokens: wrong.block[[depth] * len(tokens)]
    with pytest.raises(InvalidInput, match="`Candidates` are wanted"):
        multidraft.speculate("traversal/sequential", "2x1", with_features(target), wrong, [1, 2])


def steps(of_draft, only_scored):
    requests = [{"text": [1, 2], "tree": "2x1", "method": "nested_ranked_block/stratified", "seed": 3},
                {"text": [7], "tree": "1x1x1", "method": "recursive_rejection/sequential", "seed": 4}]
    for r in requests:
        r.update(in_target=0, in_draft=0)
    target, draft = Model(2, False, only_scored), Model(2, True, only_scored)
    step = multidraft.Step()
    while min(len(r["text"]) for r in requests) < 40:
        step.start()
        target.first, draft.first = [r["in_target"] for r in requests], [r["in_draft"] for r in requests]
        for r in requests:
            step.add(r["method"], r["text"], r["tree"], seed=r["seed"], in_target=r["in_target"], in_draft=r["in_draft"])
        while inputs := step.next_level():
            step.draw(of_draft(np.nan_to_num(draft(inputs))))
        step.verify(target(step.target_inputs()))
        for b, r in enumerate(requests):
            result = step.result(b)
            for cache, context, moved in ((target.caches[b], result.target_context, result.kept_in_target),
                                          (draft.caches[b], result.draft_context, result.kept_in_draft)):
                cache[context:context + len(moved)] = cache[context + moved]
            r["text"] += result.tokens.tolist()
            r["in_target"], r["in_draft"] = result.in_target, result.in_draft
    return [r["text"] for r in requests]


@pytest.mark.parametrize("only_scored", [False, True])
def test_a_step_of_many_requests(only_scored):
    few = steps(lambda rows: Candidates.largest(rows, 9), only_scored)
    assert few == steps(lambda rows: kept(rows, 9), only_scored)
    assert few != steps(lambda rows: kept(rows, 2), only_scored)


def test_what_a_step_refuses():
    step = multidraft.Step()
    step.start()
    step.add("traversal/sequential", [1], "2x1")
    step.next_level()
    rows = np.zeros((1, V), np.float32)
    step.draw(Candidates.largest(rows, 4))
    step.next_level()
    with pytest.raises(InvalidInput, match="all have candidates"):
        step.draw(np.repeat(rows, 2, 0))
    with pytest.raises(InvalidInput, match="rows of 4 of 40 candidates"):
        step.draw(Candidates.largest(np.repeat(rows, 2, 0), 5))
    step.draw(Candidates.largest(np.repeat(rows, 2, 0), 4))


def test_tensors(models):
    torch = pytest.importorskip("torch")
    logits = torch.tensor(np.random.default_rng(2).normal(size=(2, 50)), dtype=torch.bfloat16)
    values, tokens = torch.topk(logits, 8)
    few = Candidates(tokens, values, vocabulary=50)
    drawn = multidraft.draft(few, 3, nodes=[1, 2], law="stratified", seeds=[1, 2], positions=0)
    whole = multidraft.draft(few.whole(), 3, nodes=[1, 2], law="stratified", seeds=[1, 2], positions=0)
    assert (drawn.tokens == whole.tokens).all() and (drawn.certain == whole.certain).all()


def test_candidates_of_all_kinds():
    few = Candidates([[1, 2]], [[1.0, 2.0]], 5)
    assert few.logits.tolist() == [[-1, 0]] and few.logits.dtype == np.float32  # of double precision: less the largest
    assert Candidates([[1, 2]], np.array([[1, 2]], np.float32), 5).logits.tolist() == [[1, 2]]
    for scale in (1e9, 1e300):
        assert Candidates([[4, 2]], np.array([[scale, scale * (1 + 1e-9)]]), 5).logits[0, 0] == 0
    assert Candidates([[0, 1]], np.array([[1e9, 1e9 + 1]]), 5).logits.tolist() == [[-1, 0]]
    assert Candidates.largest(np.array([[1e9, 1e9 + 1, 0]]), 2).logits.tolist() == [[-1, 0]]
    assert Candidates([[1, 2]], np.array([[1.0, 2.0]]).view(np.matrix), 5).logits.tolist() == [[-1, 0]]
    for call, part in ((lambda: Candidates([[1, 2]], [["a", "b"]], 5), "logits = list"), (lambda: Candidates([[1, 2]], [[1.0, 2.0], [3.0]], 5), "logits = list"),
                       (lambda: Candidates([[1, 2], [3]], [[1.0, 2.0]], 5), "tokens"), (lambda: Candidates([[1, 2]], 3.0, 5), "logits.shape = float"),
                       (lambda: Candidates([[1, 2]], np.zeros((1, 2), np.longdouble), 5), "logits.dtype"),
                       (lambda: Candidates([[1, 2]], np.ma.masked_array(np.zeros((1, 2))), 5), "a masked array"),
                       (lambda: Candidates.largest(np.array([[0, 1, 2], [3, np.nan, 4]], np.float32), 2), r"logits\[1, 1\] = nan"),
                       (lambda: few.of_rows([0, 9]), r"numbers\[1\] = 9: there are 1 rows"), (lambda: few.of_rows([-1]), r"numbers\[0\] = -1")):
        with pytest.raises(InvalidInput, match=part):
            call()


def test_candidates_are_joined():
    rows = np.random.default_rng(2).normal(size=(5, 12)).astype(np.float32)
    parts = [Candidates.largest(rows[:2], 3), Candidates.largest(rows[2:], 3)]
    whole = Candidates.concatenate(parts)
    assert np.array_equal(whole.whole(), Candidates.largest(rows, 3).whole()) and len(Candidates.concatenate(parts[:1])) == 2
    for wrong, part in (([], r"parts = \[\]"), (parts[0], "parts = Candidates"), ([parts[0], rows], r"parts\[1\] = ndarray"),
                        ([parts[0], Candidates.largest(rows, 4)], r"parts\[1\] = .*3 of 12"), ([parts[0], Candidates.largest(rows[:, :9], 3)], r"parts\[1\]")):
        with pytest.raises(InvalidInput, match=part):
            Candidates.concatenate(wrong)


def test_the_levels_of_a_tree_are_joined(models):
    """The loop of the README with candidates."""
    target, draft = models(20, seed=8)
    tree, text = multidraft.Tree.branching([3, 2]), [1, 2]
    tokens, rows = [np.array(text[-1:])], []
    for level in range(tree.depth):
        rows.append(Candidates.largest(draft([[*text, max(t, 0)] for t in tokens[-1].tolist()]), 6))
        children = multidraft.draft(rows[-1], tree=tree, level=level, law="sequential", seeds=5, positions=1)
        tokens.append(children.tokens.ravel())
    how = dict(law=children.law, seeds=5, positions=1)
    p = target([text] * len(tree))
    verdict = multidraft.verify("recursive_rejection/sequential", tree, np.concatenate(tokens), p, Candidates.concatenate(rows), **how)
    whole = multidraft.verify("recursive_rejection/sequential", tree, np.concatenate(tokens), p, np.concatenate([r.whole() for r in rows]), **how)
    assert verdict.tokens == whole.tokens


def test_accepted_tokens_of_candidates(models):
    target, draft = models(12, seed=8)
    rates = [multidraft.analysis.accepted_tokens("2x1", target, of, "recursive_rejection/sequential", text=[1], samples=300)
             for of in (lambda texts: Candidates.largest(draft(texts), 5), lambda texts: kept(draft(texts), 5))]
    assert rates[0] == rates[1] > 0.3
    with pytest.raises(InvalidInput, match="the target's rows have all tokens"):
        multidraft.analysis.accepted_tokens("2x1", lambda texts: Candidates.largest(target(texts), 5), draft, "naive/iid", text=[1], samples=3)


def test_operators_refuse_candidates():
    torch = pytest.importorskip("torch")
    import multidraft.torch as ops

    few = Candidates([[1, 2]], [[1.0, 2.0]], 5)
    with pytest.raises(InvalidInput, match="logits = Candidates.*whole"):
        ops.draft(few, 1, law="iid", nodes=0, positions=0)
    with pytest.raises(InvalidInput, match="draft_logits = Candidates.*whole"):
        ops.verify("naive/iid", "1", torch.zeros(1, 2, dtype=torch.int64), torch.zeros(1, 2, 5), few, law="iid", positions=0)
