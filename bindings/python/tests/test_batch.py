import threading

import numpy as np
import pytest

import multidraft
from multidraft import Tree

SHAPES = {"any": ["3x2", "[[0], [1], [0, 0]]", "0", "2x1x2"], "pairs": ["2x2", "2x1", "0", "chain:3"],
          "forks": ["fork:3x2", "fork:2x4", "chain:1", "chain:2"], "chains": ["chain:3", "chain:1", "0", "chain:4"]}
ALL = list(multidraft.methods())


def make(method, vocabulary=40, dtype=np.float32, seed=0, **sampling):
    """Trees of every shape that the method accepts, with draws and the rows of both models."""
    rng = np.random.default_rng(seed)
    trees, logits = [], []
    shapes = SHAPES[multidraft.method(method).shapes]
    # Multiples of 1/8 below 8, exact in all types.
    rows = [(rng.integers(-64, 64, (len(Tree.parse(s)), vocabulary)) / 8).astype(np.float32) for s in shapes]
    target = [(rng.integers(-64, 64, r.shape) / 8).astype(np.float32) for r in rows]
    for b, (shape, q) in enumerate(zip(shapes, rows)):
        tree = Tree.parse(shape)
        of_row = {}

        def model(texts, tree=tree, q=q, of_row=of_row):
            # The order of calls determines the node: by level, then by node.
            depth = of_row.setdefault("depth", -1) + 1
            of_row["depth"] = depth
            level = [v for v in range(len(tree)) if tree.depths[v] == depth and len(tree.children(v))]
            assert len(level) == len(texts)
            return q[level].astype(dtype)

        drafted, _ = multidraft.draft_tree(method, tree, [1, 2, 3 + b], model, seed=7 + b, request=b, **sampling)
        trees.append(drafted)
        logits.append(q)
    return trees, np.concatenate(target).astype(dtype), np.concatenate(logits).astype(dtype)


def decide(method, trees, target, draft, **kw):
    count = len(trees)
    return multidraft.verify(method, trees, None, target, draft, seeds=[7 + b for b in range(count)],
                             ids=list(range(count)), positions=[2] * count, **kw)


def same(a, b):
    return all(x.accepted == y.accepted and x.tokens == y.tokens and np.array_equal(x.path, y.path) for x, y in zip(a, b))


@pytest.mark.parametrize("method", ALL)
def test_a_batch_is_its_trees_alone_on_any_threads_and_types(method):
    trees, target, draft = make(method)
    first = decide(method, trees, target, draft)
    assert same(first, decide(method, trees, target, draft, threads=3))
    assert same(first, decide(method, trees, target, draft, validate=True))
    begin = 0
    for b, tree in enumerate(trees):
        end = begin + len(tree.tree)
        alone = multidraft.verify(method, tree, None, target[begin:end], draft[begin:end], seeds=7 + b, ids=b,
                                  positions=2)
        assert same([first[b]], [alone])
        above = 0
        for node in alone.path:
            assert tree.tree.parents[node] == above
            above = node
        assert len(alone.tokens) == alone.accepted + 1 and 0 <= alone.tokens[-1] < 40
        begin = end
    halves, target_h, draft_h = make(method, dtype=np.float16)
    assert all(np.array_equal(a.tokens, b.tokens) for a, b in zip(trees, halves))
    assert same(first, decide(method, halves, target_h, draft_h))


def test_bfloat16():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    method = "recursive_rejection/sequential"
    trees, target, draft = make(method)
    assert same(decide(method, trees, target, draft),
                decide(method, trees, target.astype(ml_dtypes.bfloat16), draft.astype(ml_dtypes.bfloat16)))


def test_torch():
    torch = pytest.importorskip("torch")
    method = "nested_ranked_block/stratified"
    trees, target, draft = make(method)
    first = decide(method, trees, target, draft)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        assert same(first, decide(method, trees, torch.from_numpy(target).to(dtype), torch.from_numpy(draft).to(dtype)))
    with pytest.raises(ValueError, match="detach"):
        decide(method, trees, torch.from_numpy(target).requires_grad_(), torch.from_numpy(draft))


def test_rows_lie_anywhere():
    method = "traversal/sequential"
    trees, target, draft = make(method)
    first = decide(method, trees, target, draft)
    wide = np.full((len(target), 64), np.nan, np.float32)
    wide[:, :40] = target
    assert same(first, decide(method, trees, wide[:, :40], draft))
    order = np.random.default_rng(1).permutation(len(target))
    place = np.argsort(order)
    assert same(first, decide(method, trees, target[order], draft[::-1], target_rows=place,
                              draft_rows=np.arange(len(draft))[::-1].copy()))
    one = np.broadcast_to(target[:1], target.shape)  # a row that is seen several times
    for rows in (one, one[::-1]):
        assert same(decide(method, trees, np.ascontiguousarray(rows), draft), decide(method, trees, rows, draft))
    assert same(first, decide(method, trees, target[::-1].copy()[::-1], draft))
    assert np.array_equal(multidraft.distributions(target[::-1]), multidraft.distributions(target)[::-1])
    with pytest.raises(ValueError, match="overlap"):
        windows = np.lib.stride_tricks.as_strided(target, target.shape, (4, 4))
        decide(method, trees, windows, draft)
    frozen = target.copy()
    frozen.flags.writeable = False
    assert same(first, decide(method, trees, frozen, draft))


def test_sampling_is_the_same_for_one_value_and_for_one_a_tree():
    method = "recursive_rejection/sequential"
    w = dict(temperature=0.7, top_k=20, top_p=0.9, min_p=0.01)
    trees, target, draft = make(method, **w)
    each = {name: [value] * len(trees) for name, value in w.items()}
    assert same(decide(method, trees, target, draft, **w), decide(method, trees, target, draft, **each))
    p = multidraft.distributions(target, **w)
    assert p.shape == target.shape and np.allclose(p.sum(1), 1, atol=1e-5) and (p > 0).sum(1).max() <= 20
    exact = np.exp(target.astype(float))
    assert np.allclose(multidraft.distributions(target), exact / exact.sum(1, keepdims=True), rtol=1e-5)


def test_probabilities():
    """Rows of probabilities, to which sampling parameters do not apply."""
    method = "traversal/sequential"
    trees, target, draft = make(method, temperature=0.7)
    p, q = (multidraft.distributions(x, temperature=0.7) for x in (target, draft))
    assert same(decide(method, trees, target, draft, temperature=0.7), decide(method, trees, p, q, probabilities=True))
    assert same(decide(method, trees, p, q, probabilities=True), decide(method, trees, p, q, probabilities=True, top_k=0, top_p=[1.0] * len(trees)))
    for wrong, name in ((dict(top_k=1), "top_k"), (dict(temperature=-1), "temperature"), (dict(min_p=[0.1] * len(trees)), "min_p"),
                        (dict(draft_sampling=(0.7, 0, 1.0, 0.0)), "draft_sampling.temperature")):
        with pytest.raises(multidraft.InvalidInput, match="applies to probabilities") as refused:
            decide(method, trees, p, q, probabilities=True, **wrong)
        assert refused.value.argument == name
    with pytest.raises(ValueError, match="float32"):
        decide(method, trees, p.astype(np.float16), q.astype(np.float16), probabilities=True)
    with pytest.raises(ValueError, match="not a distribution"):
        decide(method, trees, 2 * p, q, probabilities=True, validate=True)


def test_draws():
    q = np.random.default_rng(0).normal(size=(5, 30)).astype(np.float32)
    nodes = np.arange(5)
    a = multidraft.draft(q, 4, law="sequential", seeds=3, nodes=nodes, positions=0)
    b = multidraft.draft(q, 4, law="sequential", seeds=3, nodes=nodes, threads=2, positions=0)
    assert np.array_equal(a.tokens, b.tokens) and a.tokens.shape == (5, 4) and a.law == "sequential"
    assert all(len(set(row)) == 4 for row in a.tokens.tolist()) and (a.counts == 4).all()
    assert not np.array_equal(a.tokens, multidraft.draft(q, 4, law="sequential", seeds=4, nodes=nodes, positions=0).tokens)
    few = multidraft.draft(q, 4, law="sequential", top_k=2, nodes=nodes, positions=0)
    assert (few.counts == 2).all() and (few.tokens[:, 2:] == multidraft.SUPPORT_ENDED).all()
    top = multidraft.draft(q, 3, law="deterministic", nodes=nodes, positions=0)
    assert np.array_equal(top.tokens, np.argsort(-q, axis=1)[:, :3])
    assert multidraft.draft(q[:0], 3, law="iid", nodes=0, positions=0).tokens.shape == (0, 3)
    none = multidraft.draft(q, 0, law="iid", nodes=nodes, positions=0)
    assert none.tokens.shape == (5, 0) and none.counts.tolist() == none.certain.tolist() == [0] * 5
    gumbel = multidraft.draft(q, 4, method="recursive_rejection/gumbel_top_k", nodes=nodes, positions=0)
    assert gumbel.law == "sequential" and "recursive_rejection/sequential" in gumbel.law.methods


def test_the_law_is_checked():
    q = np.zeros((3, 8), np.float32)
    children = multidraft.draft(q[:1], 2, law="iid", nodes=0, positions=0)
    tokens = [0, *children.tokens[0]]
    with pytest.raises(multidraft.InvalidInput) as refused:
        multidraft.verify("recursive_rejection/sequential", "2", tokens, q, q, law=children.law, positions=0)
    assert refused.value.argument == "law" and "recursive_rejection/iid" in refused.value.reason
    assert multidraft.verify("recursive_rejection/iid", "2", tokens, q, q, law=children.law, positions=0).tokens
    with pytest.raises(ValueError, match="say how the children were drawn"):
        multidraft.verify("recursive_rejection/iid", "2", tokens, q, q, positions=0)
    with pytest.raises(ValueError, match="draws by law"):
        multidraft.draft(q, 2, law="iid", method="recursive_rejection/sequential", positions=0)
    with pytest.raises(ValueError, match="nearest"):
        multidraft.verify("recursive_rejektion", "2", tokens, q, q, law="iid", positions=0)


def test_a_row_that_is_no_distribution_is_the_fault_of_one_tree():
    method = "recursive_rejection/sequential"
    trees, target, draft = make(method)
    good = decide(method, trees, target, draft)
    target[0, 3] = np.nan
    bad = decide(method, trees, target, draft)
    assert bad[0].tokens == [-1] and bad[0].accepted == 0 and same(good[1:], bad[1:])
    with pytest.raises(ValueError, match=r"target\[0\] = nan.*token 3"):
        decide(method, trees, target, draft, validate=True)


def test_threads_at_once():
    method = "nested_ranked_block/stratified"
    trees, target, draft = make(method)
    first = decide(method, trees, target, draft)
    wrong = []

    def work(threads):
        for k in range(20):
            if not same(first, decide(method, trees, target, draft, threads=threads)):
                wrong.append(k)
            try:  # each thread has its own last error
                multidraft.method(f"no method {threads}.{k}")
                wrong.append("none")
            except ValueError as error:
                if f"no method {threads}.{k}" not in str(error):
                    wrong.append(str(error))

    workers = [threading.Thread(target=work, args=(1 + k % 2,)) for k in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_the_boundary_refuses_and_does_not_fall():
    """Invalid types, shapes, strides and values of every argument raise an exception and nothing else."""
    rng = np.random.default_rng(3)
    good = dict(method="traversal/sequential", tree="2x1", tokens=[0, 1, 2, 3, 4], target_logits=rng.normal(size=(5, 8)).astype(np.float32),
                draft_logits=rng.normal(size=(5, 8)).astype(np.float32), law="sequential", seeds=1, positions=0)
    assert multidraft.verify(**good).tokens
    base = good["target_logits"]
    arrays = [None, 3, "text", [], [[]], object(), base[0], base[:, :, None], base[:2], base[:, :0], base[:0], base.T,
              base[:, ::2], base.astype(float), base.astype(int), base.astype(complex), base.astype(object), base.astype(str),
              base.view(np.uint16), np.zeros((5, 7), np.float32), np.zeros((5, 8), bool), np.ma.masked_array(base) * 1j,
              memoryview(b"abc"), b"bytes", {"a": 1}]
    numbers = [None, "x", 1.5, -1, 2**70, [1, 2], [[1]], np.zeros(3), object(), True, [2**63], float("nan")]
    wrong = {"method": [None, 3, "", "x" * 10000, "naive/iid\0", b"naive/iid", ["naive/iid"]],
             "tree": [None, 3.5, "", "9" * 50, [[-1]], [-1, 5], [0], object(), [], [-1, 0, 0, 1], "chain:9"],
             "tokens": [[], [0], [0, 1, 2, 3, 8], [0, 1, 2, 3, -1], [0, 1, 2, 3, -4], [0, -2, 2, 3, 4], [0, 1, 1, 3, 4], [0.5] * 5, "abcde", None,
                        [2**40] * 5, 7, object(), {}, [None] * 5],
             "target_logits": arrays, "draft_logits": arrays, "law": [None, 3, "", "luck", object()],
             "seeds": numbers, "positions": numbers,
             "temperature": [-1, float("nan"), float("inf"), 10**400, "hot", None, [1, 2], object()],
             "top_k": [-1, 1.5, 2**40, "k", None], "top_p": [0, 1.1, -1, float("nan"), "p", None], "min_p": [-1, 2, None],
             "threads": [0, -1, 1.5, 10**9, None, "2"],
             "target_rows": [[0], [0, 1, 2, 3, 5], [0, 1, 2, 3, -1], "rows", [0.5] * 5],
             "draft_rows": [[0], [0, 1, 2, 3, 2**40]], "certain": [], "ids": ["x", [1, 2], -1, 2**40]}
    for name, values in wrong.items():
        for value in values:
            try:
                result = multidraft.verify(**{**good, name: value})
            except ValueError:
                continue
            # A few are valid: None for a default, or a value that happens to be valid.
            assert result.tokens and (value is None or name in ("seeds", "ids")), (name, value)


def test_zero_sizes():
    assert multidraft.verify("recursive_rejection/iid", [-1], [5], np.zeros((1, 4), np.float32),
                             np.zeros((1, 4), np.float32), law="iid", positions=0).accepted == 0
    with pytest.raises(ValueError):
        multidraft.verify("recursive_rejection/iid", [-1], [5], np.zeros((1, 0), np.float32),
                          np.zeros((1, 0), np.float32), law="iid", positions=0)


@pytest.mark.parametrize("method", ALL)
def test_the_usual_call_is_that_of_arrays(method, monkeypatch):
    """One tree with plain numbers takes a way of its own through the module."""
    trees, target, draft = make(method, seed=5)
    nodes = len(trees[0].tree)
    p, q = target[:nodes], draft[:nodes]
    shape, tokens, certain, law = trees[0][:4]
    calls = dict(seeds=7, positions=2, ids=3, temperature=0.8, top_k=30, top_p=0.95, min_p=0.001)
    of_rows = np.arange(nodes)
    general = multidraft.verify(method, shape, tokens, p, q, law=law, certain=certain, target_rows=of_rows, **calls)
    seen = []
    usual = multidraft._core.verify_usual
    monkeypatch.setattr(multidraft._core, "verify_usual", lambda *a: seen.append(usual(*a)) or seen[-1])
    as_object = multidraft.method(method)
    in_place = [True] * 4 + [multidraft._core.has_dtype(2) == 1]  # float16 may be converted
    for verdict in (multidraft.verify(method, shape, tokens, p, q, law=law, certain=certain, **calls),
                    multidraft.verify(as_object, shape, tokens.astype(np.int64), p, q, law=str(law), certain=certain.tolist(), **calls),
                    multidraft.verify(method, trees[0]._replace(position=None), None, p, q, **calls),
                    multidraft.verify(method, shape, tokens.tolist(), np.pad(p, ((0, 2), (0, 3)))[:, :-3], q, law=law,
                                      certain=certain, **calls),
                    multidraft.verify(method, shape, tokens, p.astype(np.float16), q.astype(np.float16), law=law,
                                      certain=certain, **calls)):
        assert same([verdict], [general]) and type(verdict) is type(general) and verdict.path.dtype == np.int32
        assert (seen.pop(0) is verdict) == in_place.pop(0)
    monkeypatch.undo()
    rows = draft[:3]
    calls["nodes"] = [1, 2, 3]
    if multidraft.method(method).drawn_by_text:
        calls["depths"] = 1
    alone = multidraft.draft(rows, 2, method=method, **calls)
    calls["seeds"] = [7] * 3
    general = multidraft.draft(rows, 2, method=method, **calls)
    assert all(np.array_equal(a, b) for a, b in ((alone.tokens, general.tokens), (alone.counts, general.counts),
                                                 (alone.certain, general.certain)))
    assert alone.law is general.law and alone.tokens.shape == (3, 2) and alone.tokens.flags.writeable
    with pytest.raises(AttributeError):
        alone.law = "iid"


@pytest.mark.parametrize("given", [
    dict(threads=True), dict(seeds=-1), dict(seeds=2**64), dict(positions=2**31), dict(temperature=float("nan")), dict(top_k=2**40),
    dict(tokens=[0, 1]), dict(tokens=[0, 40, 1, 2]), dict(law="stratified"), dict(law="la\0w"), dict(method="naive\0/sequential"),
    dict(target_logits=np.zeros((3, 40), np.float32)), dict(target_logits=np.zeros((4, 0), np.float32)),
    dict(target_logits=np.zeros((4, 40))), dict(target_logits=np.zeros((4, 80), np.float32)[:, ::2]), dict(ids=-1), dict(tree=[-1, 5])])
def test_the_usual_call_leaves_refusals_to_the_general_one(given):
    arguments = dict(method="naive/sequential", tree=Tree.branching([3]), tokens=np.arange(4, dtype=np.int32),
                     target_logits=np.zeros((4, 40), np.float32), law="sequential", positions=0) | given
    with pytest.raises(multidraft.InvalidInput) as first:
        multidraft.verify(**arguments)
    with pytest.raises(multidraft.InvalidInput) as second:
        multidraft.verify(**arguments, draft_sampling=(1.0, 0, 1.0, 0.0))
    assert str(first.value) == str(second.value)


def own_loop(method, tree, p, q, seed, nodes_of):
    """An engine's own loop over the levels, as in the README."""
    tokens, certain, levels = [np.zeros(1, np.int32)], [], []
    for level in range(tree.depth):
        rows = [q[t] for t in tokens[-1]]
        children = multidraft.draft(np.stack(rows), method=method, seeds=seed, positions=0, **nodes_of(tree, level))
        tokens.append(children.tokens.ravel())
        certain.append(children.certain)
        levels += rows
    tokens = np.concatenate(tokens)
    certain = np.append(np.concatenate(certain), np.zeros(len(tree) - len(levels), np.int32))
    return multidraft.verify(method, tree, tokens, np.stack([p[t] for t in tokens]), np.stack(levels), law=children.law,
                             certain=certain, seeds=seed, positions=0)


@pytest.mark.parametrize("method, shape", [("recursive_rejection/sequential", "2x2"), ("nested_ranked_block/stratified", "2x2"),
                                           ("block/iid", "chain:2")])
def test_a_loop_over_levels_keeps_the_law_of_the_target(method, shape):
    """The emitted pairs of tokens, chi-squared of 15 degrees of freedom. With the root's draws once more on the second level it
    is hundreds: a call that does not say which nodes its rows are is refused."""
    rng = np.random.default_rng(4)
    p, q = (rng.normal(size=(4, 4)).astype(np.float32) * 1.5 for _ in range(2))
    tree = Tree.parse(shape)
    runs = 4000

    def statistic(nodes_of):
        counts = np.zeros((4, 4))
        for seed in range(runs):
            found = own_loop(method, tree, p, q, seed, nodes_of).tokens
            if len(found) < 2:  # the next step's token
                row = np.exp(p[found[0]].astype(float))
                counts[found[0]] += row / row.sum()
            else:
                counts[found[0], found[1]] += 1
        law = np.exp(p.astype(float))
        law /= law.sum(1, keepdims=True)
        expected = runs * law[0][:, None] * law
        return ((counts - expected) ** 2 / expected).sum()

    assert statistic(lambda tree, level: dict(tree=tree, level=level)) < 45  # p = 1e-4
    again = statistic(lambda tree, level: dict(n=len(tree.children(0)), nodes=np.arange(len(tree.children(0)) ** level)))
    assert again > 90
    with pytest.raises(multidraft.InvalidInput, match="address"):
        statistic(lambda tree, level: dict(n=2))


def test_the_nodes_of_draws():
    rng = np.random.default_rng(2)
    q = rng.normal(size=(6, 30)).astype(np.float32)
    tree = Tree.parse("[[0], [1], [2], [0, 0], [0, 1], [2, 0]]")
    # Two requests; of level 1 the first node has two children, the third has one.
    both = multidraft.draft(q[:4], law="sequential", tree=tree, level=1, seeds=[3, 4], positions=9)
    assert both.counts.tolist() == [2, 1, 2, 1] and both.tokens[1::2, 1].tolist() == [multidraft.PADDING] * 2
    for row, (seed, node, n) in enumerate([(3, 1, 2), (3, 3, 1), (4, 1, 2), (4, 3, 1)]):
        alone = multidraft.draft(q[row:row + 1], n, law="sequential", nodes=node, seeds=seed, positions=9)
        assert alone.tokens[0].tolist() == both.tokens[row, :n].tolist()
    by_text = multidraft.draft(q[:2], 1, method="shared_randomness", tree="2x1", level=1, seeds=3, positions=0)
    given = multidraft.draft(q[:2], 1, method="shared_randomness", nodes=[1, 2], depths=1, seeds=3, positions=0)
    assert np.array_equal(by_text.tokens, given.tokens)
    for call, argument in ((dict(n=2), "nodes"), (dict(nodes=0), "n"), (dict(n=2, nodes=0), "nodes"), (dict(n=2, nodes=[1, 1] * 3), "nodes"),
                           (dict(tree="6x2"), "level"), (dict(tree="6x2", level=2), "level"), (dict(tree="5x2", level=1), "logits.shape[0]"),
                           (dict(tree="6x2", level=1, n=3), "n"), (dict(tree="6x2", level=1, nodes=0), "nodes"),
                           (dict(tree="6x2", level=1, depths=0), "depths"), (dict(n=2, nodes=0, level=0), "level"),
                           (dict(n=2, nodes=np.arange(6), method="shared_randomness", law=None), "depths"),
                           (dict(n=2, nodes=0, seeds=[0, 1, 2, 3, 4, 1]), "nodes"), (dict(tree="0", level=0), "logits.shape[0]")):
        with pytest.raises(multidraft.InvalidInput) as refused:
            multidraft.draft(q, **{"law": "sequential", "positions": 0, **call})
        assert refused.value.argument == argument, str(refused.value)
    assert multidraft.draft(q, 2, law="sequential", nodes=0, ids=np.arange(6), positions=0).counts.tolist() == [2] * 6


def test_equal_draws_in_a_batch_are_refused():
    trees, target, draft = make("recursive_rejection/sequential")
    trees = [tree._replace(position=None) for tree in trees]  # which know no more than their law
    with pytest.raises(multidraft.InvalidInput, match="same draws"):
        multidraft.verify("recursive_rejection/sequential", trees, None, target, draft, seeds=5, positions=2)


def test_lists_that_nodes_share():
    """One list of candidates for both nodes of a level."""
    rows = np.zeros((7, 8), np.float32)
    tokens = [0, 1, 2, 3, 4, 3, 4]
    assert "traversal/sequential" not in multidraft.law("shared_lists/sequential").methods
    verdict = multidraft.verify("recursive_rejection/sequential", "2x2", tokens, rows, rows, law="shared_lists/sequential", positions=0)
    assert verdict.tokens
    with pytest.raises(multidraft.InvalidInput, match="recursive_rejection/sequential"):
        multidraft.verify("traversal/sequential", "2x2", tokens, rows, rows, law="shared_lists/sequential", positions=0)


def test_absent_children():
    rows = np.zeros((4, 8), np.float32)
    for token in (multidraft.PADDING, -1):
        refused = "shape, " if token == -1 else None
        call = dict(tree="3", tokens=[0, 1, 2, token], target_logits=rows, draft_logits=rows, law="sequential", positions=0)
        if refused:
            with pytest.raises(multidraft.InvalidInput, match="never left out"):
                multidraft.verify("recursive_rejection/sequential", **call)
        else:
            assert multidraft.verify("recursive_rejection/sequential", **call).tokens
        assert multidraft.verify("naive/sequential", **call).tokens
    with pytest.raises(multidraft.InvalidInput, match="more tokens to draw"):
        multidraft.verify("recursive_rejection/sequential", "3", [0, 1, 2, multidraft.SUPPORT_ENDED], rows, rows, law="sequential",
                          validate=True, positions=0)


SHAPE_REFUSED = [("block/iid", "3x1"), ("speculative_sampling/iid", "2x1"), ("multi_path_block/iid", "2x2"), ("multi_path_block/iid", [-1, 0, 0, 1]),
                 ("spec_hub/top_paired", "3x1")]


@pytest.mark.parametrize("method, tree", SHAPE_REFUSED)
def test_a_shape_that_the_method_does_not_take(method, tree, models):
    nodes = len(Tree.parse(tree) if isinstance(tree, str) else Tree(tree))
    rows = np.full((nodes, 8), np.nan, np.float32)  # the shape is named first
    target, draft = models(8)
    for call in (lambda: multidraft.verify(method, tree, [0] * nodes, rows, rows, law=multidraft.method(method).law, certain=[0] * nodes, positions=0),
                 lambda: multidraft.speculate(method, tree, target, draft, [1]), lambda: multidraft.draft_tree(method, tree, [1], draft)):
        with pytest.raises(multidraft.InvalidInput, match=f"{method} takes") as refused:
            call()
        assert refused.value.argument == "tree"
    assert target.calls == draft.calls == 0


def test_every_shape_of_a_method_is_taken():
    for method in multidraft.methods().values():
        assert all(method.takes(Tree.parse(shape)) for shape in SHAPES[method.shapes])
        assert all(method.takes(Tree.parse(shape)) == (method.shapes == "any") for shape in ("3x2", "2x3", "[[0], [1], [0, 0]]")
                   if method.shapes != "pairs" or shape != "[[0], [1], [0, 0]]")


def test_other_parameters_than_those_of_the_draws_are_named():
    rng = np.random.default_rng(0)
    p, q = (rng.normal(size=(4, 30)).astype(np.float32) for _ in range(2))
    drawn = multidraft.draft(q[:1], 3, law="sequential", nodes=0, seeds=1, positions=0)
    call = dict(method="recursive_rejection/sequential", tree="3", tokens=[0, *drawn.tokens[0]], target_logits=p, draft_logits=q, law=drawn.law, positions=0)
    assert multidraft.verify(**call, validate=True).tokens[-1] >= 0
    with pytest.raises(multidraft.InvalidInput, match="other sampling parameters"):
        multidraft.verify(**call, draft_sampling=(1.0, 1, 1.0, 0.0), validate=True)


def test_a_text_does_not_end_in_silence(models):
    target, draft = models(8)
    target.table[:, 3, :] = np.nan
    with pytest.raises(multidraft.InvalidInput, match=r"target\[\d+\] = nan.*not a distribution"):
        multidraft.speculate("recursive_rejection/sequential", "2x1", target, draft, [3], tokens=4)


def test_numbers_are_not_cut_to_32_bits():
    rows = np.zeros((3, 8), np.float32)
    good = dict(method="naive/iid", tree="2", tokens=[0, 1, 2], target_logits=rows, law="iid", positions=0)
    large = 2**32 + 1
    for change, argument in ((dict(tokens=np.array([0, 1, large])), "tokens"), (dict(ids=np.array([large])), "ids"),
                             (dict(positions=np.array([large])), "positions"), (dict(top_k=[large]), "top_k"), (dict(top_k=large), "top_k"),
                             (dict(tree=np.array([-1, 0, 2**32])), "parents")):
        with pytest.raises(multidraft.InvalidInput) as refused:
            multidraft.verify(**{**good, **change})
        assert refused.value.argument == argument
    with pytest.raises(multidraft.InvalidInput, match="float64"):
        multidraft.verify(**{**good, "target_logits": rows.astype(float)})
    with pytest.raises(multidraft.InvalidInput, match="temperature.dtype"):
        multidraft.verify(**good, temperature=[None])
    with pytest.raises(multidraft.InvalidInput, match="branching"):
        multidraft.verify(**{**good, "tree": [4, 2, 2]})


def test_lists_for_several_nodes_keep_their_law():
    q = np.random.default_rng(3).normal(size=(4, 9)).astype(np.float32)
    for how in (dict(nodes=0), dict(tree="2x2", level=0), dict(nodes=0, method="recursive_rejection/iid")):
        children = multidraft.draft(q[:1], None if "tree" in how else 2, law="shared_lists/iid", positions=0, **how)
        assert children.law == "shared_lists/iid"
        assert np.array_equal(children.tokens, multidraft.draft(q[:1], 2, law="iid", nodes=0, positions=0).tokens)
    tokens = [0, *children.tokens[0], *children.tokens[0], *children.tokens[0]]  # one list for all nodes
    rows = np.random.default_rng(4).normal(size=(7, 9)).astype(np.float32)
    of_law = {name for name, m in multidraft.methods().items() if m.law == "iid" and m.shapes in ("any", "pairs")}
    assert {"recursive_rejection/iid", "naive/iid"} <= set(children.law.methods) and "traversal/iid" not in children.law.methods
    for method in of_law:
        verify = lambda: multidraft.verify(method, "2x2", tokens, rows, np.repeat(q[:1], 3, 0), law=children.law, positions=0)  # noqa: B023, E731
        if method in children.law.methods:
            assert verify().tokens[-1] >= 0
        else:
            with pytest.raises(multidraft.InvalidInput) as refused:
                verify()
            assert refused.value.argument == "law" and "recursive_rejection/iid" in refused.value.reason
    with pytest.raises(multidraft.InvalidInput, match="law = shared_lists/iid"):
        multidraft.draft(q[:1], 2, law="shared_lists/iid", method="traversal/iid", nodes=0, positions=0)


def test_lists_of_trees():
    rows = np.zeros((4, 8), np.float32)
    tree, _ = multidraft.draft_tree("naive/iid", "1", [3], lambda texts: rows[: len(texts)])
    for trees, argument, index, part in (([], "tree.size", -1, "one or more"), ((), "tree.size", -1, "one or more"),
                                         ([tree, "1"], "tree", 0, "others of this list have none"), (["1", tree], "tree", 1, "of this list")):
        with pytest.raises(multidraft.InvalidInput, match=part) as refused:
            multidraft.verify("naive/iid", trees, [0, 1, 0, 1], rows, law="iid", positions=0)
        assert (refused.value.argument, refused.value.index) == (argument, index)


def test_masks_of_numpy_are_refused():
    masked = lambda values: np.ma.masked_array(values, mask=np.arange(len(values)) == 1)  # noqa: E731
    rows = np.zeros((3, 8), np.float32)
    for call, argument in (
            (lambda: multidraft.verify("naive/iid", "2", masked([0, 1, 2]), rows, law="iid", positions=0), "tokens"),
            (lambda: multidraft.verify("naive/iid", "2", [masked([0, 1, 2])], rows, law="iid", positions=0), "tokens[0]"),
            (lambda: multidraft.draft(rows, 1, law="iid", nodes=masked([0, 1, 2]), positions=0), "nodes"),
            (lambda: multidraft.distributions(rows, temperature=masked([1.0, 2.0, 3.0])), "temperature"),
            (lambda: multidraft.Tree(masked([-1, 0, 0])), "parents"),
            (lambda: multidraft.Candidates(np.ma.masked_array([[0, 1]]), [[0.0, 1.0]], 5), "tokens"),
            (lambda: multidraft.analysis.alpha_star(masked([0.5, 0.5]), [0.5, 0.5], 1, "iid"), "p"),
            (lambda: multidraft.analysis.block_efficiency(masked([0.5, 0.5])), "rates"),
            (lambda: multidraft.compact(masked(np.zeros(3)), 1, [1]), "cache"),
            (lambda: multidraft.compact(np.zeros((3, 2)), 1, masked([0, 1])), "kept")):
        with pytest.raises(multidraft.InvalidInput, match="a masked array") as refused:
            call()
        assert refused.value.argument == argument


def test_a_cache_with_a_gradient_is_not_written_to():
    torch = pytest.importorskip("torch")
    cache = torch.arange(6.0).requires_grad_()
    with pytest.raises(multidraft.InvalidInput, match="cache = a tensor with a gradient"):
        multidraft.compact(cache, 2, [1, 3])
    assert cache.tolist() == [0, 1, 2, 3, 4, 5]
    assert multidraft.compact(cache.detach(), 2, [1, 3]) == 4 and cache.tolist()[:4] == [0, 1, 3, 5]
