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


def test_lists_of_drafted_trees_are_verified_as_they_were_drawn():
    method, text = "recursive_rejection/sequential", [1, 2, 3]
    tree, rows = multidraft.draft_tree(method, "2x1", text, draft, seed=7, temperature=0.5)
    other, more = multidraft.draft_tree(method, "2x1", text, draft, seed=8, temperature=0.7)
    p, q = np.concatenate([rows_of(tree, text), rows_of(other, text)]), np.concatenate([rows, more])
    verify = lambda trees=(tree, other), **kw: multidraft.verify(method, list(trees), None, p, q, temperature=1.0, **kw)  # noqa: E731
    given = [v.tokens for v in verify()]
    assert [v.tokens for v in verify(draft_sampling=([0.5, 0.7], 0, 1.0, 0.0))] == given
    assert [v.tokens for v in verify(draft_sampling=(np.array([0.5, 0.7], np.float32), 0, np.float32(1), 0.0))] == given
    refused(lambda: verify(draft_sampling=(1.0, 0, 1.0, 0.0)), "draft_sampling[0]", "this tree was drawn with (0.5, 0, 1.0, 0.0)")
    refused(lambda: verify(draft_sampling=([0.5, 0.5], 0, 1.0, 0.0)), "draft_sampling[1]", "this tree was drawn with (0.7, 0, 1.0, 0.0)")
    refused(lambda: verify(draft_sampling=(0.5, 0)), "draft_sampling")
    refused(lambda: multidraft.verify(method, tree, None, rows_of(tree, text), rows, temperature=1.0,
                                      draft_sampling=(np.float32(1), 0, 1.0, 0.0)), "draft_sampling")
    # A tree without its address would take the draws and the parameters of a call from the others, or they from it.
    plain = multidraft.DraftedTree(other.tree, other.tokens, other.certain, other.law)
    refused(lambda: verify((tree, plain), seeds=8, positions=[2, 2]), "tree[1]", "without an address")
    apart = multidraft.DraftedTree(tree.tree, tree.tokens, tree.certain, tree.law, 7, 2, 0)
    assert multidraft.verify(method, apart, None, rows_of(tree, text), rows, temperature=1.0, draft_sampling=(0.5, 0, 1.0, 0.0)).tokens == given[0]
    assert multidraft.verify(method, apart, None, rows_of(tree, text), rows).tokens


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


def test_trees_of_one_address_are_refused_in_a_call():
    method = "recursive_rejection/sequential"
    drawn = [multidraft.draft_tree(method, "2", [1, 2], draft, seed=7, request=r) for r in (0, 1, 0)]
    trees, rows = [tree for tree, _ in drawn], np.concatenate([r for _, r in drawn])
    p = np.concatenate([rows_of(tree, [1, 2]) for tree in trees])
    with pytest.raises(InvalidInput, match=r"tree\[2\] = drawn with seed 7, position 1 and request 0: so was tree\[0\]") as error:
        multidraft.verify(method, trees, None, p, rows)
    assert error.value.index == 2
    refused(lambda: multidraft.verify(method, trees[::2], None, p[:6], rows[:6], ids=0), "tree[1]")
    meant = multidraft.verify(method, trees, None, p, rows, ids=[0, 1, 0])
    assert meant[0].tokens == meant[2].tokens
    assert len(multidraft.verify(method, trees[:2], None, p[:6], rows[:6])) == 2


def test_stop_tokens_may_be_in_any_collection():
    run = lambda stop: multidraft.speculate("naive/iid", [-1, 0, 0], target, draft, np.array([1]), tokens=40, seed=2, stop=stop).tokens  # noqa: E731
    last = run(())[7]
    expected = run([last])
    assert len(expected) < 40
    for stop in ({last: "end"}, {last: "end"}.keys(), frozenset([last]), (last,), np.array([last])):
        assert run(stop) == expected
    refused(lambda: run("ab"), "stop")


class Odd:
    """Rows with one entry, or a whole row, that is no logit."""

    def __init__(self, value, everywhere=False, kind=np.float32):
        self.value, self.everywhere, self.kind = value, everywhere, kind

    def __call__(self, texts):
        rows = draft(texts).astype(self.kind)
        rows[:, slice(None) if self.everywhere else 3] = self.value
        return rows


@pytest.mark.parametrize("method", multidraft.methods().values(), ids=str)
def test_a_draft_that_is_no_distribution_is_reported(method):
    tree = {"any": "2x1", "pairs": "2x1", "forks": "fork:2x2", "chains": "chain:2"}[method.shapes]
    for wrong, what in ((Odd(np.nan), "draft(..) = nan: the row after node 0 has this logit of token 3"), (Odd(np.nan, True, np.float64), "token 0"),
                        (Odd(-np.inf, True), "draft(..) = -inf: the row after node 0"), (Odd(-np.inf, True, np.float16), "-inf"),
                        (lambda texts: multidraft.Candidates([[2, 4]], [[np.nan, 0.0]], V).of_rows([0] * len(texts)), "of token 2")):
        refused(lambda: multidraft.draft_tree(method, tree, [1, 2], wrong), what)  # noqa: B023
        refused(lambda: multidraft.speculate(method, tree, target, wrong, [1, 2], tokens=8), what)  # noqa: B023
    some = multidraft.speculate(method, tree, target, Odd(-np.inf), [1, 2], tokens=8)  # a token without mass
    assert len(some.tokens) == 8


def test_rows_are_read_as_they_are_or_refused():
    run = lambda p, q: multidraft.speculate("recursive_rejection/sequential", "2x1", p, q, [1], tokens=20, seed=4)  # noqa: E731
    plain = run(target, draft).tokens
    of = lambda model, change: lambda texts: change(model(texts))  # noqa: E731
    matrix = lambda x: x.view(np.matrix)  # noqa: E731
    assert run(of(target, matrix), of(draft, matrix)).tokens == plain
    assert run(of(target, lambda x: matrix(x.astype(float))), draft).tokens == run(of(target, lambda x: x.astype(float)), draft).tokens
    for change, part in ((np.ma.masked_array, "a masked array"), (lambda x: np.ma.masked_array(x.astype(float)), "a masked array"),
                         (lambda x: np.ma.masked_array(np.asfortranarray(x)), "a masked array"), (lambda x: np.round(x).astype(np.int64), "dtype = int64"),
                         (lambda x: x.astype(np.longdouble), f"dtype = {np.dtype(np.longdouble).name}"), (lambda x: x.astype(complex), "dtype = complex128"),
                         (lambda x: x > 0, "dtype = bool"), (lambda x: x.view(np.uint32), "dtype = uint32")):
        refused(lambda: run(of(target, change), draft), "target(..)", part)  # noqa: B023
        refused(lambda: run(target, of(draft, change)), "draft(..)", part)  # noqa: B023
    refused(lambda: run(lambda texts: np.zeros((len(texts), V + 1), np.float32), draft), f"draft(..).vocabulary = {V}", f"the target's rows have {V + 1}")


def test_tensors_are_read_as_they_are_or_refused():
    torch = pytest.importorskip("torch")
    run = lambda p, q=draft: multidraft.speculate("recursive_rejection/sequential", "2x1", p, q, torch.tensor([1]), tokens=20, seed=4)  # noqa: E731
    double = lambda texts: torch.from_numpy(target(texts)).double()  # noqa: E731
    negative = lambda x: torch._neg_view(-x)  # noqa: E731
    plain = run(double).tokens
    assert plain == run(lambda texts: target(texts).astype(float)).tokens
    for change, part in ((negative, "the negative bit"), (lambda x: negative(x.float()), "the negative bit"), (lambda x: x.requires_grad_(), "a gradient"),
                         (lambda x: x.float().requires_grad_(), "a gradient"), (lambda x: x.long(), "dtype = int64"), (lambda x: x.cfloat(), "complex64")):
        refused(lambda: run(lambda texts: change(double(texts))), "target(..)", part)  # noqa: B023
        refused(lambda: run(target, lambda texts: change(double(texts))), "draft(..)", part)  # noqa: B023
    assert run(lambda texts: negative(double(texts)).resolve_neg()).tokens == plain


class Seen:
    """A draft that keeps the features that it observes."""

    def __init__(self):
        self.features = []

    def observe(self, features, positions):
        self.features += features.tolist()
        assert features.dtype == np.float32

    def rows(self, text, depth):
        return np.zeros((depth, V), np.float32)


def test_features_of_any_type_are_read():
    torch = pytest.importorskip("torch")
    values = lambda texts: np.array([[len(text) / 4, -1.5] for text in texts], np.float32)  # noqa: E731

    def run(change):
        seen = Seen()
        multidraft.speculate("naive/iid", "1x1", lambda texts: (target(texts), change(values(texts))), seen, [1, 2], tokens=6, seed=2)
        return seen.features

    plain = run(lambda x: x)
    assert plain[:2] == [[0.25, -1.5], [0.5, -1.5]]
    assert run(lambda x: torch.from_numpy(x).bfloat16()) == run(lambda x: x.astype(pytest.importorskip("ml_dtypes").bfloat16)) == run(np.ndarray.tolist) == plain
    for change, part in ((np.ma.masked_array, "a masked array"), (lambda x: torch.from_numpy(x).requires_grad_(), "a gradient"),
                         (lambda x: torch._neg_view(torch.from_numpy(x)), "negative bit"), (lambda x: x[0], "shape = (2,)"), (lambda x: [["a"]], "target(..)[1] = list")):
        refused(lambda: run(change), "target(..)[1]", part)  # noqa: B023
