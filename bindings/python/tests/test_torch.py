"""PyTorch operators, and trees given by links as in serving engines."""

import numpy as np
import pytest

import multidraft
from multidraft import Tree, _core

torch = pytest.importorskip("torch")

import multidraft.torch as ops  # noqa: E402

METHOD = "recursive_rejection/sequential"


def batch(count=3, vocabulary=20, tree="2x1", method=METHOD, seed=0):
    """Trees of one shape with the rows of both models: (tree, tokens, certain, target, draft)."""
    rng = np.random.default_rng(seed)
    tree = Tree.parse(tree)
    p, q = (torch.from_numpy(rng.normal(size=(count, len(tree), vocabulary)).astype(np.float32)) for _ in range(2))
    tokens = torch.zeros(count, len(tree), dtype=torch.int64)
    certain = torch.zeros(count, len(tree), dtype=torch.int32)
    for node in range(len(tree)):
        children = tree.children(node)
        if len(children):
            drawn = ops.draft(q[:, node], len(children), method=method, nodes=node, depths=int(tree.depths[node]),
                              seeds=list(range(count)), positions=4)
            tokens[:, children.start: children.stop] = drawn.tokens
            certain[:, node] = drawn.certain
    return tree, tokens, certain, p, q


def by_numpy(tree, tokens, certain, p, q, method=METHOD, **kw):
    count = len(tokens)
    return multidraft.verify(method, [tree] * count, tokens.numpy().ravel(), p.flatten(0, 1).numpy(), q.flatten(0, 1).numpy(),
                             law=multidraft.method(method).law, certain=certain.numpy().ravel(), seeds=np.arange(count),
                             positions=4, ids=0, **kw)


@pytest.mark.parametrize("method", [METHOD, "traversal/iid", "nested_ranked_block/stratified", "naive/deterministic"])
def test_verdicts_are_those_of_numpy(method):
    tree, tokens, certain, p, q = batch(count=5, tree="2x2", method=method)
    verdicts = ops.verify(method, tree, tokens, p, q, law=multidraft.method(method).law, certain=certain,
                          seeds=torch.arange(5), positions=4)
    assert verdicts.path.shape == (5, 2) and verdicts.path.dtype == torch.int32
    for b, one in enumerate(by_numpy(tree, tokens, certain, p, q, method)):
        assert verdicts.accepted[b] == one.accepted and verdicts.next[b] == one.tokens[-1]
        assert verdicts.path[b].tolist() == [*one.path.tolist(), *[-1] * (2 - one.accepted)]
    for dtype in (torch.float16, torch.bfloat16):
        drawn = ops.draft(q[:, 0].to(dtype), 2, method=method, nodes=0, seeds=torch.arange(5), positions=0)
        assert drawn.tokens.shape == (5, 2) and (drawn.tokens < 20).all()
    some = multidraft.draft(q[:, 0].numpy(), 2, method=method, seeds=np.arange(5), nodes=0, positions=4)
    assert np.array_equal(some.tokens, tokens[:, 1:3].numpy())


def test_a_seed_has_64_bits():
    q = torch.zeros(2, 30)
    large = 2**64 - 3
    a = ops.draft(q, 4, method=METHOD, seeds=large, ids=[0, 1], nodes=0, positions=0).tokens
    assert torch.equal(a, ops.draft(q, 4, method=METHOD, seeds=torch.tensor([large - 2**64] * 2), ids=[0, 1], nodes=0, positions=0).tokens)
    assert np.array_equal(a.numpy(), multidraft.draft(q.numpy(), 4, method=METHOD, seeds=large, ids=[0, 1], nodes=0, positions=0).tokens)


def arguments():
    tree, tokens, _, p, q = batch()
    three = torch.arange(3)
    draft = (q[:, 0], 2, METHOD, three * 0, three * 0, three, three, three, three * 0, 0.7, 5)
    verify = (METHOD, "sequential", torch.arange(4) * len(tree), torch.tensor(tree.parents.tolist() * 3, dtype=torch.int32),
              tokens.reshape(-1), None, p.flatten(0, 1), q.flatten(0, 1), None, None, three, three * 0 + 4, three * 0)
    return draft, verify


def test_operators_are_sound():
    """The checks of torch.library: schema, fake kernels, no undeclared writes, no aliases."""
    draft, verify = arguments()
    tests = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    torch.library.opcheck(torch.ops.multidraft.draft.default, draft, test_utils=tests)
    torch.library.opcheck(torch.ops.multidraft.verify.default, verify, test_utils=tests)
    torch.library.opcheck(torch.ops.multidraft.verify_linked_trees.default, linked()[:9] + ("naive/deterministic", "deterministic",
                          torch.arange(2), torch.zeros(2, dtype=torch.int64), torch.arange(2)), test_utils=tests[:2])


def test_compiled_whole():
    draft, verify = arguments()

    def step(q, p, *rest):
        drawn, _, _ = torch.ops.multidraft.draft(q * 2, *draft[1:])
        path, accepted, following = torch.ops.multidraft.verify(*verify[:6], p + 1, *rest)
        return drawn + 1, path, accepted, following * 2

    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    inputs = (draft[0], verify[6], *verify[7:])
    for plain, fast in zip(step(*inputs), compiled(*inputs)):
        assert torch.equal(plain, fast)


def linked():
    """Two trees: links, tokens, and targets that have one token each.

        0 -> 1, 3          0 -> 4, 1 (in this order)
        1 -> 2   3 -> 4    4 -> 5      1 -> 2, 3
                 4 -> 5
    """
    candidates = torch.tensor([[0, 1, 2, 3, 4, 5], [7, 8, 9, 10, 11, 12]])
    child = torch.tensor([[1, 2, -1, 4, 5, -1], [4, 2, -1, -1, 5, -1]])
    sibling = torch.tensor([[-1, 3, -1, -1, -1, -1], [-1, -1, 3, -1, 1, -1]])
    index = torch.arange(12).reshape(2, 6)
    says = torch.tensor([[3, 0, 0, 4, 5, 18], [11, 0, 0, 0, 12, 18]])
    target = torch.nn.functional.one_hot(says, 20).float()
    predicts = torch.full((12,), -7, dtype=torch.int32)
    accept_index = torch.full((2, 4), -7, dtype=torch.int32)
    accepted = torch.full((2,), -7, dtype=torch.int32)
    return predicts, accept_index, accepted, candidates, index, child, sibling, target, torch.full((2, 6, 20), 1 / 20)


def test_linked_trees():
    tensors = linked()
    for method, law in [("naive/deterministic", "deterministic"), (METHOD, "sequential"), ("naive/iid", "iid")]:
        for t in tensors[:3]:
            t.fill_(-7)
        ops.verify_linked_trees(*tensors, method=method, law=law, seeds=5, positions=0)
        predicts, accept_index, accepted = tensors[:3]
        assert predicts.tolist() == [3, -7, -7, 4, 5, 18, 11, -7, -7, -7, 12, 18]
        assert accept_index.tolist() == [[0, 3, 4, 5], [6, 10, 11, -1]]
        assert accepted.tolist() == [3, 2]
    # Nodes may have their entries anywhere. Rows that are not distributions get no token.
    predicts, accept_index, accepted, candidates, index, child, sibling, target, draft = linked()
    target[1, 0, 3] = float("nan")
    ops.verify_linked_trees(predicts, accept_index, accepted, candidates, 11 - index, child, sibling, target, positions=0)
    assert accept_index.tolist() == [[11, 8, 7, 6], [5, -1, -1, -1]] and accepted.tolist() == [3, 0]
    assert predicts[11] == 3 and predicts[6] == 18 and predicts[5] == -1


def test_the_law_of_linked_trees():
    """Tokens after the root of a tree whose children are in another order than its nodes, by chi-squared."""
    rng = np.random.default_rng(0)
    p, q = (torch.softmax(torch.from_numpy(rng.normal(size=8).astype(np.float32)), 0) for _ in range(2))
    runs = 4000
    drawn = multidraft.draft(np.log(q.numpy())[None].repeat(runs, 0), 3, law="sequential", seeds=np.arange(runs), nodes=0, positions=0).tokens
    candidates = torch.zeros(runs, 4, dtype=torch.int64)
    candidates[:, [2, 3, 1]] = torch.from_numpy(drawn.astype(np.int64))
    links = torch.tensor([[2, -1, -1, -1]]).repeat(runs, 1), torch.tensor([[-1, -1, 3, 1]]).repeat(runs, 1)
    predicts = torch.zeros(runs * 4, dtype=torch.int32)
    accept_index, accepted = torch.zeros(runs, 2, dtype=torch.int32), torch.zeros(runs, dtype=torch.int32)
    ops.verify_linked_trees(predicts, accept_index, accepted, candidates, torch.arange(runs * 4).reshape(runs, 4), *links,
                            p.expand(runs, 4, 8).contiguous(), q.expand(runs, 4, 8).contiguous(), method=METHOD, law="sequential",
                            seeds=torch.arange(runs), ids=0, positions=0)
    counts = np.bincount(predicts[::4].numpy(), minlength=8)
    wanted = p.numpy() * runs
    statistic = ((counts - wanted) ** 2 / wanted).sum()
    assert statistic < 40  # 7 degrees of freedom: a correct law passes with probability 1 - 1e-6
    rate = multidraft.analysis.acceptance(p.numpy().astype(float) / float(p.double().sum()), q.numpy().astype(float) /
                                          float(q.double().sum()), 3, METHOD)
    assert abs(accepted.double().mean() - rate) < 5 * np.sqrt(rate * (1 - rate) / runs) + 1e-3


def test_refusals():
    tree, tokens, _, p, q = batch()
    good = dict(method=METHOD, tree=tree, tokens=tokens, target_logits=p, draft_logits=q, law="sequential", seeds=[1, 2, 3], positions=0)
    assert ops.verify(**good).next.shape == (3,)
    for argument, part, change in [
            ("tokens.shape", "(batch, 5)", dict(tokens=tokens[0])), ("target_logits.shape", "(3, 5, vocabulary)", dict(target_logits=p[:2])),
            ("draft_logits.shape", "(3, 5, vocabulary)", dict(draft_logits=q[0])), ("draft_logits", "reads them", dict(draft_logits=None)),
            ("target.dtype", "torch.float32", dict(target_logits=p.double())), ("tokens.dtype", "integers", dict(tokens=tokens.float())),
            ("law", "iid", dict(law="iid")), ("certain", "certain", dict(method="ranked/stratified", law="stratified")),
            ("seeds.shape", "(3,)", dict(seeds=torch.zeros(2, dtype=torch.int64))), ("tokens", "", dict(tokens=tokens + 2**40)),
            ("seeds", "lies in", dict(seeds=-1)), ("threads", "lies in", dict(threads=0))]:
        with pytest.raises(multidraft.InvalidInput) as refused:
            ops.verify(**{**good, **change})
        assert refused.value.argument == argument and part in str(refused.value), refused.value
    with pytest.raises(multidraft.InvalidInput, match="logits.shape"):
        ops.draft(p, 2, method=METHOD, nodes=0, seeds=[1, 2, 3], positions=0)
    names = ["predicts", "accept_index", "accept_token_num", "candidates", "retrieve_index", "retrieve_next_token",
             "retrieve_next_sibling", "target_probs", "draft_probs"]
    for name, value, argument in [
            ("retrieve_next_token", torch.full((2, 6), 0), "retrieve_next_token"), ("retrieve_next_token", torch.full((2, 6), 6), "retrieve_next_token"),
            ("retrieve_next_sibling", torch.full((2, 6), 1), "retrieve_next_sibling"), ("retrieve_next_token", torch.full((2, 6), -2), "retrieve_next_token"),
            ("retrieve_index", torch.full((2, 6), 12), "retrieve_index"), ("candidates", torch.zeros(6), "candidates.shape"),
            ("candidates", torch.full((2, 6), 20), "tokens"), ("accept_index", torch.zeros(2, 3, dtype=torch.int32), "accept_index.shape[1]"),
            ("accept_index", torch.zeros(2, 0, dtype=torch.int32), "accept_index.shape"), ("predicts", torch.zeros(2, 6), "predicts.shape"),
            ("target_probs", torch.ones(2, 5, 20), "target_probs.shape"), ("target_probs", torch.ones(2, 6, 20).double(), "target_probs.dtype"),
            ("accept_token_num", torch.zeros(3), "accept_token_num.shape"), ("retrieve_index", torch.zeros(2, 6), "retrieve_index.dtype")]:
        tensors = dict(zip(names, linked()))
        tensors[name] = value
        with pytest.raises(multidraft.InvalidInput) as refused:
            ops.verify_linked_trees(**tensors, positions=0)
        assert refused.value.argument == argument, refused.value
        assert all((tensors[k] == -7).all() for k in names[:3] if k != name)
    with pytest.raises(multidraft.InvalidInput, match="certain"):
        ops.verify_linked_trees(*linked(), method="ranked/stratified", law="stratified", positions=0)
    with pytest.raises(multidraft.InvalidInput, match="reads them"):
        ops.verify_linked_trees(*linked()[:8], method=METHOD, law="sequential", positions=0)


def test_draws_that_would_be_the_same_are_refused():
    rows = torch.zeros(2, 6)
    for more in (dict(nodes=0), dict(nodes=[1, 1]), dict(nodes=0, seeds=[4, 4]), dict(nodes=0, ids=5, seeds=[1, 1])):
        with pytest.raises(multidraft.InvalidInput, match="would get the same draws"):
            ops.draft(rows, 1, law="iid", positions=3, **more)
    assert ops.draft(rows, 1, law="iid", positions=3, nodes=[0, 1]).tokens.shape == (2, 1)
    with pytest.raises(multidraft.InvalidInput, match="depths = None"):
        ops.draft(rows, 1, law="shared_randomness", positions=3, nodes=[1, 2])


def test_no_trees():
    none = torch.zeros(0, 6, dtype=torch.int64)
    ops.verify_linked_trees(torch.zeros(0, dtype=torch.int32), torch.zeros(0, 4, dtype=torch.int32), torch.zeros(0, dtype=torch.int32),
                            none, none, none, none, torch.zeros(0, 6, 20), positions=0)
    tree = Tree.parse("2")
    empty = ops.verify("naive/iid", tree, torch.zeros(0, 3, dtype=torch.int64), torch.zeros(0, 3, 8), law="iid", positions=0)
    assert empty.path.shape == (0, 1) and empty.next.shape == (0,)
    assert ops.draft(torch.zeros(0, 8), 3, method=METHOD, nodes=0, positions=0).tokens.shape == (0, 3)
    assert [len(x) for x in _core.trees_of_links(np.zeros((0, 0), np.int32), np.zeros((0, 0), np.int32))] == [1, 0, 0]


def test_tensors_for_tensors():
    logits = torch.randn(6, 9, generator=torch.Generator().manual_seed(1))
    for n, options in ((2, dict(nodes=0, positions=0)), (None, dict(tree="2x1", level=0, positions=0))):
        children = multidraft.draft(logits[:1], n, law="sequential", seeds=3, **options)
        assert all(isinstance(x, torch.Tensor) and x.dtype == torch.int32 for x in (children.tokens, children.counts, children.certain))
        same = multidraft.draft(logits[:1].numpy(), n, law="sequential", seeds=3, **options)
        assert isinstance(same.tokens, np.ndarray) and children.tokens.tolist() == same.tokens.tolist()
    tokens = torch.cat([torch.zeros(1, dtype=torch.int32), children.tokens[0]])
    for rows in (None, [0, 1, 2]):
        verdict = multidraft.verify("recursive_rejection/sequential", "2", tokens, logits[:3], logits[:1], law=children.law, target_rows=rows, positions=0)
        assert isinstance(verdict.path, torch.Tensor) and len(verdict.path) == verdict.accepted
    two = multidraft.verify("naive/sequential", ["2", "2"], [tokens, tokens], logits, law=children.law, seeds=[1, 2], positions=0)
    assert all(isinstance(v.path, torch.Tensor) for v in two)
    tree = multidraft.Tree.parse("2x1")
    assert torch.equal(tree.mask(torch.bool, 2), torch.from_numpy(tree.mask(bool, 2)))
    assert tree.mask(torch.bfloat16).dtype == torch.bfloat16 and torch.equal(tree.mask(torch.bfloat16).float(), tree.mask(torch.float32))


def test_the_entry_at_fault_is_named():
    rows, ints = torch.randn(6, 8), lambda *x: torch.tensor(x)  # noqa: E731

    def verify(*offsets, **kw):
        return torch.ops.multidraft.verify("naive/iid", "iid", ints(*offsets), ints(-1, 0, 0, -1, 0, 0), ints(0, 1, 2, 0, 1, 2), None, rows, None, None, None,
                                           ints(1, 2), ints(0, 0), None, **kw)

    assert verify(0, 3, 6)[2].shape == (2,)
    for offsets, index in (((0, 3, 60), 2), ((0, 7, 6), 1), ((1, 3, 6), 0), ((0, 0, 6), 1), ((0, 3, 3), 2), ((0, 3, 5), 2), ((0, -1, 6), 1)):
        with pytest.raises(multidraft.InvalidInput) as refused:
            verify(*offsets)
        assert (refused.value.argument, refused.value.index, refused.value.value) == ("offsets", index, str(offsets[index])), refused.value
    with pytest.raises(multidraft.InvalidInput, match="offsets.size = 2"):
        verify(0, 6)
    with pytest.raises(multidraft.InvalidInput, match=r"requests\[1\] = 9"):
        torch.ops.multidraft.draft(rows[:2], 1, "naive/iid", ints(0, 0), ints(0, 0), ints(0, 9), ints(1, 2), ints(0, 0), None)


def test_probabilities_take_no_sampling_parameters():
    tree, tokens, certain, p, q = batch()
    how = dict(method=METHOD, tree=tree, tokens=tokens, target_logits=p.softmax(2), draft_logits=q.softmax(2), law="sequential", seeds=[0, 1, 2],
               positions=4, probabilities=True)
    assert ops.verify(**how).next.min() >= 0
    for name, wrong in (("temperature", dict(temperature=0.5)), ("top_k", dict(top_k=3)), ("draft_sampling.top_p", dict(draft_sampling=(1, 0, 0.5, 0)))):
        with pytest.raises(multidraft.InvalidInput, match="applies to probabilities") as refused:
            ops.verify(**{**how, **wrong})
        assert refused.value.argument == name
