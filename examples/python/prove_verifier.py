"""Proves a verifier written in Python: its exact law over small vocabularies, in fractions."""

from multidraft import proof


def try_one_by_one(source, p, q, children):
    """[MCSD] Algorithm 2: children drawn without replacement, each accepted with min(1, p / q)."""
    for rank, x in enumerate(children):
        if source.bernoulli(min(1, p[x] / q[x])):
            return rank, None
        p = normalised(proof.residual(p, q))
        q = normalised([0 if y == x else weight for y, weight in enumerate(q)])
    return None, source.categorical(p)


def without_the_residual(source, p, q, children):
    """The same with one line missing."""
    for rank, x in enumerate(children):
        if source.bernoulli(min(1, p[x] / q[x])):
            return rank, None
        q = normalised([0 if y == x else weight for y, weight in enumerate(q)])
    return None, source.categorical(p)


def normalised(weights):
    total = sum(weights)
    return [w / total for w in weights] if total else weights


p, q = proof.fractions(4, 3, 2, 1), proof.fractions(1, 2, 3, 4)
for verifier in (try_one_by_one, without_the_residual):
    law = proof.law_of_node(proof.draw_sequential, verifier, p, q, n=2)
    print(verifier.__name__, "accepts with", law.accepted, "and emits", *law.tokens, "- the target has", *p)
    print("  lossless" if law.tokens == p else f"  not lossless: off by {proof.distance(law.tokens, p)}")
    # One pair of rows proves nothing about others.
    proved = proof.prove_lossless(proof.draw_sequential, verifier)
    print(f"  {len(proved.failures)} of {proved.cases} pairs of rows fail")


# Whole trees: the law of the next three tokens, against the target's own.
def target(text):
    return proof.fractions(1 + len(text), 2, 3 + (text[-1] if text else 0))


def draft(text):
    return proof.fractions(2, 1 + len(text), 2)


law = proof.law_of_tree(proof.draw_sequential, proof.node_by_node(try_one_by_one), "2x1", target, draft, length=3)
print("a tree 2x1: off by", proof.distance(law, proof.law_of_text(target, 3)))
