from pathlib import Path

import numpy as np
import pytest

import multidraft
from multidraft import analysis

P, Q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.5, 0.3])


def test_rates_by_hand():
    assert analysis.alpha_star(P, Q, 1, "iid") == pytest.approx(0.7)
    for method in ("recursive_rejection/iid", "recursive_rejection/sequential", "ranked/iid", "speculative_sampling/iid"):
        rate = analysis.acceptance(P, Q, 1, method)
        assert rate == pytest.approx(0.7) and rate.error == 0
    assert analysis.acceptance(P, Q, 3, "recursive_rejection/sequential") == pytest.approx(1)
    # Two independent candidates, accepted if the target draws one of them.
    assert analysis.acceptance(P, Q, 2, "naive/iid") == pytest.approx(sum(P * (1 - (1 - Q) ** 2)))
    assert analysis.acceptance(P, Q, 2, "naive/deterministic") == pytest.approx(0.5)
    assert analysis.acceptance(P.astype(np.float32), Q.astype(np.float32), 1, "recursive_rejection/iid") == pytest.approx(0.7)


def test_no_method_is_above_its_bound():
    rng = np.random.default_rng(0)
    for _ in range(5):
        p, q = (rng.dirichlet(np.ones(7)) for _ in range(2))
        for name, method in multidraft.methods().items():
            for n in ([1] if method.shapes == "chains" else [2] if method.shapes == "pairs" else [1, 2, 3]):
                try:
                    rate = analysis.acceptance(p, q, n, name)
                except ValueError as error:
                    assert "formula" in str(error)
                    continue
                assert rate <= analysis.alpha_star(p, q, n, method.law) + 1e-9, (name, n)


def test_rates_are_what_verify_does():
    rng = np.random.default_rng(1)
    p, q = (rng.dirichlet(np.ones(6)) for _ in range(2))
    logits = np.log(np.stack([p, p, p])).astype(np.float32), np.log(np.stack([q, q, q])).astype(np.float32)
    runs = 4000
    for method in ("recursive_rejection/sequential", "k_seq/iid", "ranked/iid"):
        law = multidraft.method(method).law
        drawn = multidraft.draft(np.repeat(logits[1][:1], runs, 0), 2, law=law, seeds=np.arange(runs), nodes=0, positions=0)
        trees = ["2"] * runs
        tokens = np.concatenate([np.zeros((runs, 1), np.int32), drawn.tokens], 1).ravel()
        rows = np.zeros(3 * runs, np.int64)
        verdicts = multidraft.verify(method, trees, tokens, *logits, law=drawn.law, seeds=np.arange(runs),
                                     target_rows=rows, draft_rows=rows, positions=0)
        rate = analysis.acceptance(p, q, 2, method)
        seen = np.mean([v.accepted for v in verdicts])
        assert abs(seen - rate) < 5 * np.sqrt(rate * (1 - rate) / runs)


def test_what_rates_are_worth():
    assert analysis.block_efficiency([0.5, 0.5]) == pytest.approx(1.75)
    assert analysis.improvement_factor(0.5, 2, 0.1) == pytest.approx(1.75 / 1.2)
    assert analysis.mbsu(1.5, 1, 0.5) == pytest.approx(1)
    best = analysis.best_tree([0.6, 0.3], 3, depth=2)
    assert best.tree == multidraft.Tree([-1, 0, 0, 1]) and best.accepted == pytest.approx(1.26)
    assert analysis.best_tree([[0.6, 0.3], [0.6, 0.3]], 3).accepted == pytest.approx(1.26)


@pytest.mark.parametrize("call, argument", [
    (lambda: analysis.alpha_star(P, Q[:2], 1, "iid"), "q.size"),
    (lambda: analysis.alpha_star(P * 2, Q, 1, "iid"), "sum(p)"),
    (lambda: analysis.alpha_star(-P, Q, 1, "iid"), "p"),
    (lambda: analysis.alpha_star(P, Q, 0, "iid"), "n"),
    (lambda: analysis.alpha_star(P, Q, 1, "luck"), "law"),
    (lambda: analysis.alpha_star([[1.0]], [[1.0]], 1, "iid"), "p.ndim"),
    (lambda: analysis.alpha_star(["a"], ["b"], 1, "iid"), "p.dtype"),
    (lambda: analysis.acceptance(P, Q, 1, "traversal/iid"), "method"),
    (lambda: analysis.acceptance(P, Q, 3, "spec_hub/top_paired"), "n"),
    (lambda: analysis.block_efficiency([1.5]), "rates"),
    (lambda: analysis.best_tree([0.9, 0.9], 3, depth=1), "rates"),
    (lambda: analysis.best_tree([0.9], 3), "depth"),
])
def test_refusals(call, argument):
    with pytest.raises(multidraft.InvalidInput) as refused:
        call()
    assert refused.value.argument == argument


def test_the_methods_that_are_not_here():
    from multidraft.methods import CPP_ONLY

    readme = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    assert f"{len(multidraft.methods())} of the library's {len(multidraft.methods()) + len(CPP_ONLY)} methods" in readme
    assert f"The other {len(CPP_ONLY)} are in C++ only" in readme
    families = {name.split("/")[0] for name in CPP_ONLY}
    assert not set(CPP_ONLY) & set(multidraft.methods()) and all(f"`{family}" in readme for family in families)
    with pytest.raises(multidraft.InvalidInput, match="naive/deterministic verifies candidates of any origin"):
        multidraft.method("naive/lookup")


ROW, OTHER = [0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]


@pytest.mark.parametrize("method, n", [("recursive_rejection/sequential", 2), ("naive/iid", 3), ("greedy_optimal/top_then_one", 2),
                                       ("speculative_sampling/iid", 1)])
def test_accepted_tokens_of_one_level_are_the_acceptance_rate(method, n):
    found = analysis.accepted_tokens(str(n), ROW, OTHER, method)
    assert abs(found - analysis.acceptance(ROW, OTHER, n, method)) < 5 * found.error < 0.05
    assert found.by_depth == (found,)


@pytest.mark.parametrize("method, tree", [("traversal/iid", "2x2"), ("multi_path_block/iid", "fork:2x3"), ("block/iid", "chain:3"),
                                          ("nested_ranked_block/stratified", "2x1x1"), ("spec_hub/top_paired", "2x2")])
def test_accepted_tokens_of_whole_trees(method, tree):
    def model(row):
        return lambda texts: np.log([np.roll(row, len(text)) for text in texts])

    calls = []
    found = analysis.accepted_tokens(tree, lambda texts: calls.extend(map(tuple, texts)) or model(ROW)(texts), model(OTHER), method, text=[1, 2])
    assert len(set(calls)) == len(calls)
    assert all(a >= b for a, b in zip(found.by_depth, found.by_depth[1:])) and found == pytest.approx(sum(found.by_depth))
    text = multidraft.speculate(method, tree, lambda texts: np.log([np.roll(ROW, 2)] * len(texts)), lambda texts: np.log([np.roll(OTHER, 2)] * len(texts)),
                                [1, 2], tokens=3000)
    constant = analysis.accepted_tokens(tree, np.roll(ROW, 2), np.roll(OTHER, 2), method)
    low, high = text.interval(0.9999)
    assert low < 1 + constant < high and high - low < 0.4
    assert abs(analysis.accepted_tokens(tree, ROW, ROW, method) - multidraft.Tree.parse(tree).depth) < 1e-9 or method != "block/iid"


def test_accepted_tokens_refuse():
    assert analysis.accepted_tokens("0", ROW, OTHER, "naive/iid") == 0
    for call, part in ((lambda: analysis.accepted_tokens("2", [0.5, 0.4], OTHER, "naive/iid"), "target = "),
                       (lambda: analysis.accepted_tokens("2", ROW, OTHER, "naive/iid", text=[]), "text.size = 0"),
                       (lambda: analysis.accepted_tokens("2", ROW, OTHER, "naive/iid", samples=1), "samples = 1"),
                       (lambda: analysis.accepted_tokens("2", ROW, OTHER, "block/iid"), "block/iid"),
                       (lambda: analysis.accepted_tokens("2", ROW, lambda texts: [1.0], "naive/iid"), r"draft\(..\).shape")):
        with pytest.raises(multidraft.InvalidInput, match=part):
            call()


def test_intervals_hold_the_mean():
    random = np.random.default_rng(1)
    held = 0
    for _ in range(400):
        low, high = multidraft.Generation([], whole_steps=random.choice([1, 2, 4], 200, p=[0.5, 0.3, 0.2]).tolist()).interval(0.9)
        held += low < 1.9 < high
    assert 320 < held < 390
    assert multidraft.Generation([], whole_steps=[3]).interval() == (0.0, np.inf)
    with pytest.raises(multidraft.InvalidInput, match="level = 1"):
        multidraft.Generation([], whole_steps=[3, 2]).interval(1.0)
