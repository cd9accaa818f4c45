import numpy as np
import pytest

import multidraft
from multidraft import Tree

METHODS = [m for m in multidraft.methods().values()]
TREES = {"any": "3x1", "pairs": "2x1", "forks": "fork:3x2", "chains": "chain:2"}


def chi_squared(counts, expected):
    keep = expected > 5
    rest = expected[~keep].sum()
    c = np.append(counts[keep], counts[~keep].sum()) if rest > 0 else counts[keep]
    e = np.append(expected[keep], rest) if rest > 0 else expected[keep]
    return ((c - e) ** 2 / e).sum(), len(e) - 1


def expect_law(counts, target, text, runs, name):
    """Counts of a text's next two tokens against the target's law of them."""
    first = target.law(text)
    expected = np.stack([first[x] * target.law([*text, x]) for x in range(len(first))]) * runs
    statistic, freedom = chi_squared(counts.ravel(), expected.ravel())
    # Six standard deviations of a chi-squared, by Wilson and Hilferty.
    z = ((statistic / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / np.sqrt(2 / (9 * freedom))
    assert z < 5, (name, statistic, freedom)


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_the_law_of_the_text_is_the_targets(method, models):
    vocabulary, runs = 5, 600
    target, draft = models(vocabulary, seed=10)
    text = [1, 2]
    counts = np.zeros((vocabulary, vocabulary))
    for seed in range(runs):
        tokens = multidraft.speculate(method.name, TREES[method.shapes], target, draft, text, tokens=2, seed=seed).tokens
        counts[tokens[0], tokens[1]] += 1
    expect_law(counts, target, text, runs, method.name)


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_greedy_text_is_the_targets(method, models):
    target, draft = models(30, seed=4)
    text = [3]
    for _ in range(20):
        text.append(int(np.argmax(target([text])[0])))
    result = multidraft.speculate(method.name, TREES[method.shapes], target, draft, [3], tokens=20, temperature=0)
    assert result.tokens == text[1:]
    assert sum(result.steps) == 20 and result.target_calls == len(result.steps)
    assert result.block_efficiency == sum(result.whole_steps) / len(result.whole_steps)


def test_a_perfect_draft_is_accepted(models):
    target, _ = models(30, seed=4)
    for tokens in (50, 53):  # the end of the text does not matter
        result = multidraft.speculate("speculative_sampling/iid", "chain:4", target, target, [3], tokens=tokens, seed=1)
        assert result.whole_steps == [5] * 10 and result.block_efficiency == 5
        assert result.target_calls == len(result.steps) == -(-tokens // 5) and sum(result.steps) == tokens
    assert multidraft.speculate("speculative_sampling/iid", "chain:4", target, target, [3], tokens=4).block_efficiency == 0


class Block:
    """A block draft whose rows depend on the target's features, which tell the text they are of."""

    def __init__(self, vocabulary):
        self.vocabulary, self.seen, self.calls = vocabulary, [], 0

    def observe(self, features, positions):
        assert list(positions) == list(range(len(self.seen), len(self.seen) + len(positions)))
        self.seen += [tuple(row) for row in features.tolist()]

    def rows(self, text, depth):
        assert self.seen == [features_of(text[: k + 1]) for k in range(len(text) - 1)], "of the text but its last token"
        self.calls += 1
        row = np.cos(np.arange(depth * self.vocabulary) * (1 + len(text) % 3) + sum(self.seen[-1]))
        return row.reshape(depth, -1).astype(np.float32)

    def parent_term(self, depth, tokens):
        return np.stack([np.sin(depth + np.arange(self.vocabulary) * (2 + token)) for token in tokens])


def features_of(text):
    return float(len(text)), float(sum((k + 1) * token for k, token in enumerate(text)) % 97)


def with_features(target):
    return lambda contexts: (target(contexts), np.array([features_of(text) for text in contexts], np.float32))


@pytest.mark.parametrize("method", ["nested_ranked_block/stratified", "traversal/sequential", "naive/deterministic"])
def test_a_block_draft_observes_the_accepted_path(method, models):
    vocabulary, runs = 5, 600
    target, _ = models(vocabulary, seed=10)
    text = [1, 2]
    counts = np.zeros((vocabulary, vocabulary))
    for seed in range(runs):
        result = multidraft.speculate(method, "3x1", with_features(target), Block(vocabulary), text, tokens=2, seed=seed)
        counts[tuple(result.tokens)] += 1
    expect_law(counts, target, text, runs, method)
    draft = Block(vocabulary)
    result = multidraft.speculate(method, "3x2x1", with_features(target), draft, text, tokens=40, stop=[0], seed=3)
    final = text + result.tokens
    assert draft.seen == [features_of(final[: k + 1]) for k in range(len(final) - 1)]
    assert draft.calls == result.draft_calls <= result.target_calls
    with pytest.raises(multidraft.InvalidInput, match="the target returns"):
        multidraft.speculate(method, "3x1", target, Block(vocabulary), text)


def test_details(models):
    target, draft = models(12, seed=7)
    a = multidraft.speculate("recursive_rejection/sequential", "2x2", target, draft, [1], tokens=30, seed=5)
    b = multidraft.speculate("recursive_rejection/sequential", Tree.parse("2x2"), target, draft, np.array([1]), tokens=30,
                             seed=5, threads=2)
    assert a.tokens == b.tokens and len(a.tokens) == 30
    assert a.tokens != multidraft.speculate("recursive_rejection/sequential", "2x2", target, draft, [1], tokens=30,
                                            seed=6).tokens
    seen = []
    c = multidraft.speculate("recursive_rejection/sequential", "2x2", target, draft, [1], tokens=30, seed=5,
                             callback=seen.extend)
    assert seen == c.tokens
    stop = a.tokens[7]
    d = multidraft.speculate("recursive_rejection/sequential", "2x2", target, draft, [1], tokens=30, seed=5, stop=[stop])
    assert d.tokens == a.tokens[: a.tokens.index(stop) + 1]
    assert multidraft.speculate("naive/iid", "2", target, draft, [1], tokens=0).tokens == []
    # Rows of other types, and fewer children than the shape has.
    e = multidraft.speculate("recursive_rejection/sequential", "4x2", lambda t: target(t).astype(np.float64),
                             lambda t: draft(t).astype(np.float16), [1], tokens=20, top_k=2)
    assert len(e.tokens) == 20


def test_refusals(models):
    target, draft = models(12, seed=7)
    with pytest.raises(ValueError, match="one row of logits"):
        multidraft.speculate("naive/iid", "2", lambda t: target(t)[:0], draft, [1])
    with pytest.raises(ValueError, match="one vocabulary"):
        multidraft.speculate("naive/iid", "2", lambda t: target(t)[:, :5], draft, [1])
    with pytest.raises(ValueError, match="token to go on from"):
        multidraft.speculate("naive/iid", "2", target, draft, [])
    with pytest.raises(ValueError, match="not a distribution"):
        multidraft.speculate("naive/iid", "2", lambda t: target(t) * np.nan, draft, [1])
    with pytest.raises(ZeroDivisionError):
        multidraft.speculate("naive/iid", "2", lambda t: 1 / 0, draft, [1])


def rounded(rows, kind):
    """Rows that any type of 16 bits holds exactly."""
    values = np.round(np.asarray(rows, np.float32) * 4) / 4
    if kind == "bfloat16":
        return values.astype(pytest.importorskip("ml_dtypes").bfloat16)
    return values.astype(kind)


@pytest.mark.parametrize("kinds", [("float16", "float32"), ("float32", "float16"), ("bfloat16", "float32"), ("float32", "bfloat16")])
def test_levels_may_have_several_types(kinds, models):
    target, draft = models(9, seed=5)

    def text(of_level):
        calls = iter(range(10**6))
        return multidraft.speculate("recursive_rejection/sequential", "2x2", lambda texts: rounded(target(texts), "float32"),
                                    lambda texts: rounded(draft(texts), of_level(next(calls) % 2)), [1, 2], tokens=60, seed=3).tokens

    assert text(lambda level: kinds[level]) == text(lambda level: "float32")


def test_models_may_write_to_the_lists_that_they_get(models):
    target, draft = models(9, seed=5)

    def padding(model):
        def padded(texts):
            rows = model([list(t) for t in texts])
            for t in texts:
                t += [0] * 3
            return rows
        return padded

    plain = multidraft.speculate("recursive_rejection/sequential", "2x1", target, draft, [1, 2], tokens=40, seed=3)
    written = multidraft.speculate("recursive_rejection/sequential", "2x1", padding(target), padding(draft), [1, 2], tokens=40, seed=3)
    assert plain.tokens == written.tokens
