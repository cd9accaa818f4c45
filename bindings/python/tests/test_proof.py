from fractions import Fraction

import pytest

import multidraft
from multidraft import analysis, proof

P, Q = proof.fractions(5, 3, 2), proof.fractions(2, 5, 3)


def speculative_sampling(source, p, q, children):
    x = children[0]
    if source.bernoulli(min(1, p[x] / q[x])):
        return 0, None
    return None, source.categorical(proof.residual(p, q))


def recursive_rejection(source, p, q, children):
    """[MCSD] Algorithm 2: of children without replacement."""
    for k, x in enumerate(children):
        if source.bernoulli(min(1, p[x] / q[x])):
            return k, None
        p = proof.residual(p, q)
        p = [a / sum(p) for a in p]
        q = [0 if y == x else a for y, a in enumerate(q)]
        q = [a / sum(q) for a in q] if sum(q) else q
    return None, source.categorical(p)


def test_exact_laws():
    law = proof.law_of_node(proof.draw_iid, speculative_sampling, P, Q, 1)
    assert law.tokens == P and law.accepted == Fraction(7, 10)
    for n in (1, 2, 3):
        law = proof.law_of_node(proof.draw_sequential, recursive_rejection, P, Q, n)
        assert law.tokens == P
        assert float(law.accepted) == pytest.approx(
            analysis.acceptance([float(x) for x in P], [float(x) for x in Q], n, "recursive_rejection/sequential"))


def test_published_mismatches_are_seen():
    # Top-k candidates accepted with p / q; draws without replacement verified as independent ones.
    assert not proof.is_lossless(proof.draw_top, speculative_sampling, P, Q, 1)

    def with_the_wrong_law(source, p, q, children):
        for k, x in enumerate(children):
            if source.bernoulli(min(1, p[x] / q[x])):
                return k, None
            p = proof.residual(p, q)
            p = [a / sum(p) for a in p]
        return None, source.categorical(p)

    # Two tokens with p > q. With a single one every rejection would end with that token.
    p, q = proof.fractions(4, 3, 2, 1), proof.fractions(1, 2, 3, 4)
    assert proof.is_lossless(proof.draw_iid, with_the_wrong_law, p, q, 2)
    assert not proof.is_lossless(proof.draw_sequential, with_the_wrong_law, p, q, 2)


def test_the_rows_that_tokens_were_not_drawn_from_lose_the_law():
    """As candidate generators of transformers did: drawn from processed logits, verified with raw ones
    (github.com/huggingface/transformers, issue 47932)."""
    def top_2(row):
        kept = sorted(range(len(row)), key=lambda i: -row[i])[:2]
        return [x / sum(row[i] for i in kept) if i in kept else 0 * x for i, x in enumerate(row)]

    def draw_processed(source, q, n):
        return proof.draw_iid(source, top_2(q), n)

    def with_processed(source, p, q, children):
        return speculative_sampling(source, p, top_2(q), children)

    p, q = proof.fractions(4, 3, 2, 1), proof.fractions(1, 2, 3, 4)
    assert proof.is_lossless(draw_processed, with_processed, p, q, 1)
    raw = proof.law_of_node(draw_processed, speculative_sampling, p, q, 1)
    assert proof.distance(raw.tokens, p) > Fraction(1, 20)


def test_a_first_draw_with_integers_is_exact():
    law = dict(proof.enumerate_draws(lambda source: source.categorical([1, 1, 1])))
    assert law == {i: Fraction(1, 3) for i in range(3)}


def test_trees():
    def target(text):
        return proof.fractions(1 + len(text), 2, 3 + (text[-1] if text else 0))

    def draft(text):
        return proof.fractions(2, 1 + len(text), 2)

    wanted = proof.law_of_text(target, 3)
    assert sum(wanted.values()) == 1
    verify = proof.node_by_node(recursive_rejection)
    for tree in ("2x1", "1x2", "0", multidraft.Tree([-1, 0, 0, 1])):
        assert proof.law_of_tree(proof.draw_sequential, verify, tree, target, draft, 3) == wanted
    wrong = proof.law_of_tree(proof.draw_top, proof.node_by_node(speculative_sampling), "2x1", target, draft, 3)
    assert proof.distance(wrong, wanted) > Fraction(1, 10)


def test_floats_and_refusals():
    p, q = [0.5, 0.25, 0.25], [0.25, 0.5, 0.25]
    assert proof.is_lossless(proof.draw_iid, speculative_sampling, p, q, 1, tolerance=1e-12)
    with pytest.raises(ValueError, match="sum to 1"):
        proof.law_of_node(proof.draw_iid, speculative_sampling, [1, 1], [1, 0], 1)
    with pytest.raises(ValueError, match="one vocabulary"):
        proof.law_of_node(proof.draw_iid, speculative_sampling, [1], [1, 0], 1)
    with pytest.raises(ValueError, match="lies in"):
        proof.enumerate_draws(lambda source: source.bernoulli(2))
    with pytest.raises(ValueError, match="above 0"):
        proof.enumerate_draws(lambda source: source.categorical([0, 0]))
    with pytest.raises(ValueError, match="more ways"):
        proof.enumerate_draws(lambda source: tuple(source.categorical([1] * 9) for _ in range(5)), limit=100)
    assert proof.enumerate_draws(lambda source: source.bernoulli(Fraction(1, 3))) == {False: Fraction(2, 3),
                                                                                     True: Fraction(1, 3)}


def draft_not_renormalised(source, p, q, children):
    """Bug: the second candidate was drawn from what is left of q, which sums to less than 1."""
    for k, x in enumerate(children):
        if source.bernoulli(min(1, p[x] / q[x])):
            return k, None
        p = proof.residual(p, q)
        p = [a / sum(p) for a in p]
        q = [0 if y == x else a for y, a in enumerate(q)]
    return None, source.categorical(p)


def first_residual_emitted(source, p, q, children):
    """Bug: candidates are tested against residuals that are updated, but the token comes from the first of them."""
    first = p
    for k, x in enumerate(children):
        if source.bernoulli(min(1, p[x] / q[x])):
            return k, None
        p = proof.residual(p, q)
        p = [a / sum(p) for a in p]
        first = p if k == 0 else first
        q = [0 if y == x else a for y, a in enumerate(q)]
        q = [a / sum(q) for a in q] if sum(q) else q
    return None, source.categorical(first)


@pytest.mark.parametrize("wrong", [draft_not_renormalised, first_residual_emitted])
def test_the_bank_catches_what_one_pair_of_rows_does_not(wrong):
    for n in (1, 2, 3):
        assert proof.is_lossless(proof.draw_sequential, wrong, P, Q, n)
    found = proof.prove_lossless(proof.draw_sequential, wrong)
    assert not found and not found.holds and "not lossless" in str(found)
    failure = next(f for f in found.failures if f.error is None)
    assert failure.distance > 0 and not proof.is_lossless(proof.draw_sequential, wrong, failure.p, failure.q, int(failure.shape[4:]))
    assert str(failure.p[0]) in str(failure)
    by_kind = {f.kind for f in found.failures}
    assert {"plain", "no_mass", "ties", "almost_ties"} <= by_kind
    trees = proof.prove_lossless_of_trees(proof.draw_sequential, proof.node_by_node(wrong), trees=["2", "2x1"])
    assert not trees and any(f.vocabulary == 3 for f in trees.failures)


def test_right_verifiers_pass_the_bank():
    found = proof.prove_lossless(proof.draw_sequential, recursive_rejection)
    assert found, str(found)
    assert found.cases == 17 * 2 * 4 * 3 and not found.left_out and str(found).startswith("lossless: 0 of 408")
    assert proof.prove_lossless(proof.draw_iid, speculative_sampling, n=1, seeds=5)

    def in_floats(source, p, q, children):
        x = children[0]
        if source.bernoulli(min(1, p[x] / q[x])):
            return 0, None
        left = proof.residual(p, q)
        return None, source.categorical(left if any(left) else p)

    found = proof.prove_lossless(proof.draw_iid, in_floats, n=1, exact=False, seeds=5)
    assert found, str(found)
    assert {f.kind for f in proof.prove_lossless(proof.draw_iid, speculative_sampling, n=1, exact=False).failures} <= {"steep", "sharp"}
    found = proof.prove_lossless_of_trees(proof.draw_sequential, proof.node_by_node(recursive_rejection), seeds=1)
    assert found, str(found)


def test_what_else_the_bank_tells():
    # An exception is a failure, and names its rows; too many draws are not.
    found = proof.prove_lossless(proof.draw_sequential, lambda source, p, q, children: (None, [][0]), n=1, vocabularies=[2], seeds=1)
    assert len(found.failures) == 17 and isinstance(found.failures[0].error, IndexError) and "IndexError" in str(found)
    found = proof.prove_lossless(proof.draw_sequential, recursive_rejection, n=3, vocabularies=[4], seeds=1, limit=5)
    assert found.left_out and "too many draws" in str(found)
    # Nor do cases of which some were left out, and numbers from a generator are those of every vocabulary.
    assert not found and not found.failures and "not shown" in str(found)
    always = lambda source, p, q, children: (0, children[0])  # noqa: E731
    assert not proof.prove_lossless(proof.draw_iid, always, n=(k for k in (1, 2)), seeds=1)
    # All cases left out prove nothing.
    assert not proof.Proof()
    assert not proof.prove_lossless(proof.draw_top, speculative_sampling, n=1)
