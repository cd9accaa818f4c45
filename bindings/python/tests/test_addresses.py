"""What a tree of draft_tree knows of its draws, draws that would be the same, and models that answer in odd ways."""

from fractions import Fraction

import numpy as np
import pytest

import multidraft
from multidraft import InvalidInput, analysis, proof

V = 6
RNG = np.random.default_rng(3)
P, Q = RNG.normal(size=(2, V)).astype(np.float32)


def target(texts):
    return np.stack([np.roll(P, text[-1]) for text in texts])


def draft(texts):
    return np.stack([np.roll(Q, text[-1]) for text in texts])


def refused(call, *parts):
    with pytest.raises(InvalidInput) as error:
        call()
    for part in parts:
        assert part in str(error.value), str(error.value)


def rows_of(tree, text):
    paths = [list(text)]
    for v in range(1, len(tree.tree)):
        paths.append([*paths[tree.tree.parents[v]], int(tree.tokens[v])])
    return target(paths)


def test_a_drafted_tree_is_verified_as_it_was_drawn():
    method, text = "recursive_rejection/sequential", [1, 2, 3]
    tree, rows = multidraft.draft_tree(method, "2x1", text, draft, seed=7, request=3, temperature=0.5)
    p = rows_of(tree, text)
    assert np.array_equal(p, target(tree.texts(text)))
    refused(lambda: tree.texts([1, 2]), "text")
    given = multidraft.verify(method, tree, None, p, rows, seeds=7, positions=2, ids=3, temperature=1.0, draft_sampling=(0.5, 0, 1.0, 0.0))
    for verdict in (multidraft.verify(method, tree, None, p, rows, temperature=1.0), multidraft.verify(method, [tree], None, p, rows, temperature=1.0)[0]):
        assert verdict.tokens == given.tokens
    assert multidraft.verify(method, tree, None, p, rows, temperature=0.5, validate=True).tokens
    for name, value in (("seeds", 8), ("positions", 3), ("ids", 0), ("seeds", [8]), ("seeds", np.array([8]))):
        refused(lambda name=name, value=value: multidraft.verify(method, tree, None, p, rows, temperature=1.0, **{name: value}), name, "this tree was drawn with")
    refused(lambda: multidraft.verify(method, tree, None, p, rows, temperature=1.0, seeds=np.array([7, 8])), "seeds.size")
    refused(lambda: multidraft.verify(method, tree, None, p, rows, temperature=1.0, draft_sampling=(1.0, 0, 1.0, 0.0)), "draft_sampling")
    refused(lambda: multidraft.verify("recursive_rejection/iid", tree, None, p, rows, temperature=1.0, law="iid"), "law", "drawn by law 'sequential'")
    refused(lambda: multidraft.verify(method, tree, None, p, rows, temperature=1.0, certain=[0, 0, 0, 0, 0]), "certain")
    # Which parameters the target has is not known from those of the draft.
    refused(lambda: multidraft.verify(method, tree, None, p, rows), "temperature = None", "drawn with 0.5")
    filtered, rows = multidraft.draft_tree(method, "2x1", text, draft, seed=7, temperature=0.5, top_k=3)
    refused(lambda: multidraft.verify(method, [filtered], None, rows_of(filtered, text), rows, temperature=0.5), "top_k = None", "drawn with 3")
    assert multidraft.verify(method, filtered, None, rows_of(filtered, text), rows, temperature=0.5, top_k=3).tokens


def test_stop_tokens_may_be_one_or_a_set():
    run = lambda stop: multidraft.speculate("naive/iid", "2", target, draft, [1], tokens=40, seed=2, stop=stop).tokens  # noqa: E731
    plain = run(())
    last = plain[7]
    assert run([last]) == run({last}) == run(last) == plain[: plain.index(last) + 1]


def test_the_root_has_a_position():
    rows = np.zeros((2, V), np.float32)
    refused(lambda: multidraft.draft(rows, 2, law="iid", nodes=[0, 1]), "positions = None")
    refused(lambda: multidraft.verify("naive/iid", "1", [0, 1], rows, law="iid"), "positions = None")


def test_one_id_of_several_requests_tells_nothing_apart():
    rows = np.repeat(P[None], 3, 0)
    many = dict(law="iid", nodes=0, positions=5)
    refused(lambda: multidraft.draft(rows, 1, ids=3, **many), "ids = 3", "requests 0 and 1")
    assert len(set(multidraft.draft(rows, 1, ids=3, **{**many, "nodes": [0, 1, 2]}).counts.tolist())) == 1
    assert multidraft.draft(rows, 1, ids=3, seeds=[1, 2, 3], **many).counts.tolist() == [1, 1, 1]
    meant = multidraft.draft(rows, 1, ids=[3, 3, 3], **many).tokens
    assert (meant == meant[0]).all()
    call = dict(method="naive/iid", tree=["1", "1"], tokens=[0, 1, 0, 1], target_logits=np.repeat(P[None], 4, 0), law="iid", positions=5)
    refused(lambda: multidraft.verify(**call, ids=3), "ids = 3")
    assert len(multidraft.verify(**call, ids=3, seeds=[1, 2])) == 2


def test_a_model_may_return_one_array_again_and_again():
    def again(model):
        kept = np.zeros((64, V), np.float32)

        def answer(texts):
            kept[: len(texts)] = model(texts)
            return kept[: len(texts)]

        return answer

    for method in ("recursive_rejection/sequential", "naive/deterministic"):
        a, b = (analysis.accepted_tokens("2x2", p, q, method, text=[1], samples=200) for p, q in ((target, draft), (again(target), again(draft))))
        assert float(a) == float(b)
        a, b = (multidraft.speculate(method, "2x2", p, q, [1], tokens=40, seed=2).tokens
                for p, q in ((target, draft), (again(target), again(draft))))
        assert a == b


def test_rows_in_double_precision_may_have_any_offset():
    method = "recursive_rejection/sequential"
    texts = [multidraft.speculate(method, "2x1", lambda t, x=x: target(t).astype(np.float64) + x, lambda t, x=x: draft(t).astype(np.float64) - x, [1],
                                  tokens=60, seed=4).tokens for x in (0.0, 2.0**40)]
    assert texts[0] == texts[1]
    listed = multidraft.speculate(method, "2x1", lambda t: (target(t).astype(np.float64) + 2.0**40).tolist(), draft, [1], tokens=60, seed=4)
    assert listed.tokens == texts[0]
    turned = multidraft.speculate(method, "2x1", lambda t: np.asfortranarray(target(t)), draft, [1], tokens=60, seed=4)
    assert turned.tokens == multidraft.speculate(method, "2x1", target, draft, [1], tokens=60, seed=4).tokens


def test_answers_that_are_no_rows_are_refused_by_the_model():
    run = lambda p, q: lambda: multidraft.speculate("recursive_rejection/sequential", "2x1", p, q, [1], tokens=8)  # noqa: E731
    refused(run(None, draft), "target = NoneType")
    refused(run(target, object()), "draft = object")
    refused(run(lambda t: (target(t), target(t)), draft), "target(..)", "features")
    refused(run(lambda t: [[1.0, 2.0], [3.0]][: len(t)] if len(t) > 1 else [["a"]], draft), "target(..)")
    refused(run(target, lambda t: np.full((len(t), V), np.nan, np.float32)), "draft(..) = nan", "node 0")
    refused(run(target, lambda t: np.zeros((len(t), V + 1), np.float32)), "one vocabulary")
    refused(lambda: analysis.accepted_tokens("2", target, lambda t: np.zeros((len(t), V + 1), np.float32), "naive/deterministic", text=[1], samples=4),
            "draft.vocabulary = 7")
    refused(lambda: analysis.accepted_tokens("2", [0.5, 0.7], [0.5, 0.5], "naive/iid", text=[1], samples=4), "target = 1.2")
    controller = multidraft.Controller({1: 0.02, 8: 0.022}, {1: 0.002})
    controller.start()
    controller.choose(4)
    for value in (float("nan"), float("inf"), -5.0):
        refused(lambda value=value: controller.learn([], target=value), "target = ")


def test_rows_are_named_as_they_are_given():
    rows = np.repeat(P[None], 2, 0)
    refused(lambda: multidraft.verify("naive/iid", "1", [0, 1], rows, law="iid", positions=0, target_rows=[0, 9]), "target_rows[1] = 9")


def test_a_proof_refuses_answers_that_mean_nothing():
    p, q = proof.fractions(1, 2, 1), proof.fractions(2, 1, 1)
    law = lambda answer: lambda: proof.law_of_node(proof.draw_iid, lambda s, p, q, c: answer, p, q, 1)  # noqa: E731
    refused(law((-1, 2)), "decide(..)")
    refused(law((-1, None)), "decide(..)[0] = -1")
    refused(law((1, None)), "decide(..)[0] = 1")
    refused(law((0, 2)), "decide(..)")
    refused(law((None, 9)), "decide(..)[1] = 9")
    refused(law((None, None)), "decide(..)[1] = None")
    refused(law(3), "decide(..) = 3")
    refused(lambda: proof.law_of_node(lambda s, q, n: [7], lambda s, p, q, c: (0, None), p, q, 1), "draw(..) = 7")
    verify = lambda source, tree, tokens, target, draft: ([2], 0)  # noqa: E731
    refused(lambda: proof.law_of_tree(proof.draw_iid, verify, "1x1", lambda t: p, lambda t: q, 2), "verify(..)[0] = [2]")

    def in_place(source, p, q, children):
        p[0] = Fraction(0)
        return None, 0

    with pytest.raises(TypeError):
        proof.law_of_node(proof.draw_iid, in_place, p, q, 1)
