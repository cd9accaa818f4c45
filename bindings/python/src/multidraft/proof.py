"""The exact law of the tokens that a verifier emits, for samplers and verifiers in Python over tiny vocabularies.

All draws go through a `Source`. `law_of_node` and `law_of_tree` run sampler and verifier once for every combination of
outcomes of the draws, and sum the probabilities. With `fractions.Fraction` in the rows the result is exact, and the law of
a lossless verifier equals the target's.

    def accept_or_not(source, p, q, children):          # speculative sampling of one child
        [x] = children
        if source.bernoulli(min(1, p[x] / q[x])):
            return 0, None                              # the child of rank 0
        return None, source.categorical(proof.residual(p, q))

    proof.is_lossless(proof.draw_iid, accept_or_not, p, q, n=1)

It is meant for some ten thousand combinations: vocabularies of three or four tokens, trees of a few nodes.
"""

from collections import defaultdict
from fractions import Fraction
from typing import NamedTuple

from ._errors import refuse
from .tree import as_tree


class Source:
    """A source of draws that enumerates: each run of a function has one combination of outcomes."""

    def __init__(self):
        self._script = []  # the outcomes of this run's first draws
        self._open = []  # (index of the outcome, number of outcomes) of each draw
        self.probability = 1

    def _restart(self, script):
        self._script = script
        self._open = []
        self.probability = 1

    def categorical(self, weights):
        """An index, with probability proportional to its weight."""
        weights = list(weights)
        for i, w in enumerate(weights):
            if not w >= 0:
                refuse("weights", w, "a weight is not negative", i)
        total = sum(weights)
        if not total > 0:
            refuse("weights", total, "one of the weights is above 0")
        branches = [i for i, w in enumerate(weights) if w > 0]
        taken = self._script[len(self._open)] if len(self._open) < len(self._script) else 0
        self._open.append((taken, len(branches)))
        i = branches[taken]
        self.probability = self.probability * weights[i] / total
        return i

    def bernoulli(self, probability):
        """True with the given probability."""
        if not 0 <= probability <= 1:
            refuse("probability", probability, "it lies in [0, 1]")
        return self.categorical([1 - probability, probability]) == 1


def enumerate_draws(function, limit=2_000_000):
    """Runs ``function(source)`` for every combination of outcomes of its draws, at most `limit`: {result: probability}.
    Results must be hashable."""
    source = Source()
    law = defaultdict(int)
    script = []
    for _ in range(limit):
        source._restart(script)
        law[function(source)] += source.probability
        # The last draw with an outcome left takes the next one; later draws start again.
        path = source._open
        while path and path[-1][0] + 1 == path[-1][1]:
            path.pop()
        if not path:
            return dict(law)
        script = [taken for taken, _ in path]
        script[-1] += 1
    refuse("limit", limit, "the draws can fall in more ways than this: take fewer tokens, nodes or children")


def residual(p, q):
    """The part of p above q, (p - q)+, as weights."""
    return [max(a - b, 0) for a, b in zip(p, q)]


def draw_iid(source, q, n):
    """n independent draws."""
    return [source.categorical(q) for _ in range(n)]


def draw_sequential(source, q, n):
    """n draws without replacement, fewer if the support is smaller."""
    left = list(q)
    drawn = []
    while len(drawn) < n and sum(left) > 0:
        x = source.categorical(left)
        drawn.append(x)
        left[x] = 0
    return drawn


def draw_top(source, q, n):  # noqa: ARG001
    """The n most likely tokens, in order."""
    return sorted((x for x in range(len(q)) if q[x] > 0), key=lambda x: (-q[x], x))[:n]


def _row(name, row):
    row = list(row)
    total = sum(row)
    if any(not x >= 0 for x in row) or not abs(total - 1) <= (0 if isinstance(total, (int, Fraction)) else 1e-9):
        refuse(name, [str(x) for x in row], "a row is of probabilities that sum to 1; Fractions make it exact")
    return row


class NodeLaw(NamedTuple):
    """The law of a verifier at one node."""

    tokens: list  #: the probability that each token is emitted
    accepted: object  #: the probability that a child is accepted


def law_of_node(draw, decide, p, q, n):
    """The exact law of the token that one node emits.

    draw: ``draw(source, q, n)`` returns the children. decide: ``decide(source, p, q, children)`` returns (k, None) to
    accept the child of rank k, or (None, token). p, q: rows of target and draft. Returns a `NodeLaw`.
    """
    p, q = _row("p", p), _row("q", q)
    if len(p) != len(q):
        refuse("q.size", len(q), "target and draft have one vocabulary")

    def run(source):
        children = list(draw(source, q, n))
        rank, token = decide(source, p, q, children)
        return (children[rank], True) if rank is not None else (token, False)

    found = enumerate_draws(run)
    tokens = [found.get((x, True), 0) + found.get((x, False), 0) for x in range(len(p))]
    return NodeLaw(tokens, sum(w for (_, accepted), w in found.items() if accepted))


def node_by_node(decide):
    """A verifier for `law_of_tree` that descends from the root and calls `decide` at each node."""

    def verify(source, tree, tokens, target, draft):
        node = 0
        path = []
        while True:
            children = [c for c in tree.children(node) if tokens[c] is not None]
            p = target(node)
            if not children:
                return path, source.categorical(p)
            rank, token = decide(source, p, draft(node), [tokens[c] for c in children])
            if rank is None:
                return path, token
            node = children[rank]
            path.append(node)

    return verify


def law_of_tree(draw, verify, tree, target, draft, length):
    """The exact law of the first `length` tokens if the first step is speculative and the target continues alone.

    draw: as in `law_of_node`, called for each node with children. verify: ``verify(source, tree, tokens, target, draft)``
    returns (path, token): the accepted nodes below the root, and the token that follows. ``tokens[v]`` is None for the
    root and for children that could not be drawn; ``target(v)`` and ``draft(v)`` are the rows after node v. target, draft:
    functions from a tuple of tokens, the text so far, to a row.

    Returns {tokens: probability}, which for a lossless verifier equals `law_of_text(target, length)`.
    """
    tree = as_tree(tree)
    rows_of = {}

    def row(model, name, prefix):
        key = (name, prefix)
        if key not in rows_of:
            rows_of[key] = _row(name, model(prefix))
        return rows_of[key]

    def run(source):
        tokens = [None] * len(tree)
        prefixes = {0: ()}
        for v in range(len(tree)):
            children = tree.children(v)
            if v not in prefixes or len(children) == 0:
                continue
            drawn = list(draw(source, row(draft, "draft", prefixes[v]), len(children)))
            for child, x in zip(children, drawn):
                tokens[child] = x
                prefixes[child] = (*prefixes[v], x)
        path, following = verify(source, tree, tokens, lambda v: row(target, "target", prefixes[v]),
                                 lambda v: row(draft, "draft", prefixes[v]))
        return (*(tokens[v] for v in path), following)

    law = defaultdict(int)
    for emitted, probability in enumerate_draws(run).items():
        ends = {emitted[:length]: probability}
        for _ in range(length - len(emitted)):
            ends = {(*text, x): w * px for text, w in ends.items()
                    for x, px in enumerate(row(target, "target", text)) if px > 0}
        for text, w in ends.items():
            law[text] += w
    return dict(law)


def law_of_text(target, length):
    """The law of the first `length` tokens of the target alone."""
    law = {(): 1}
    for _ in range(length):
        law = {(*text, x): w * px for text, w in law.items()
               for x, px in enumerate(_row("target", target(text))) if px > 0}
    return law


def distance(a, b):
    """The total variation distance of two laws (dicts or rows): half the sum of the absolute differences."""
    a = a if isinstance(a, dict) else dict(enumerate(a))
    b = b if isinstance(b, dict) else dict(enumerate(b))
    return sum(abs(a.get(k, 0) - b.get(k, 0)) for k in {*a, *b}) / 2


def is_lossless(draw, decide, p, q, n, tolerance=0):
    """Whether a verifier at one node has the target's law, up to `tolerance` in total variation (for floats: 1e-12)."""
    return distance(law_of_node(draw, decide, p, q, n).tokens, list(p)) <= tolerance


def fractions(*weights):
    """A row of exact probabilities: ``fractions(1, 2, 1)`` is 1/4, 1/2, 1/4."""
    return [Fraction(w) / sum(Fraction(x) for x in weights) for w in weights]
