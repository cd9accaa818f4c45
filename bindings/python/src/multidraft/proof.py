"""The exact law of the tokens that a verifier emits, for samplers and verifiers in Python over tiny vocabularies.

All draws go through a `Source`. `law_of_node` and `law_of_tree` run sampler and verifier once for every combination of
outcomes of the draws, and sum the probabilities. With `fractions.Fraction` in the rows the result is exact, and the law of
a lossless verifier equals the target's.

    def accept_or_not(source, p, q, children):          # speculative sampling of one child
        [x] = children
        if source.bernoulli(min(1, p[x] / q[x])):
            return 0, None                              # the child of rank 0
        return None, source.categorical(proof.residual(p, q))

    proof.prove_lossless(proof.draw_iid, accept_or_not, n=1)      # a Proof: .holds, .failures

`prove_lossless` runs a bank of rows: a wrong verifier is right on many a pair, p = 5:3:2 and q = 2:5:3 among them.
`is_lossless` looks at one pair of rows.

It is meant for some ten thousand combinations: vocabularies of three or four tokens, trees of a few nodes.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from ._arrays import integer
from ._errors import InvalidInput, refuse
from .tree import Tree, as_tree

Row = Sequence[Any]  #: probabilities: Fractions for exact laws, or floats
Draw = Callable[["Source", Row, int], Iterable[int]]  #: ``draw(source, q, n)``: the children of a node
Decide = Callable[["Source", Row, Row, list], tuple]  #: ``decide(source, p, q, children)``: (rank, None) or (None, token)
Verify = Callable[..., tuple]  #: ``verify(source, tree, tokens, target, draft)``: (path, token)
Model = Callable[[tuple], Row]  #: from a tuple of tokens, the text so far, to a row


class Source:
    """A source of draws that enumerates: each run of a function has one combination of outcomes."""

    def __init__(self):
        self._script = []  # the outcomes of this run's first draws
        self._open = []  # (index of the outcome, number of outcomes) of each draw
        self.probability = Fraction(1)

    def _restart(self, script):
        self._script = script
        self._open = []
        self.probability = Fraction(1)

    def categorical(self, weights: Iterable[Any]) -> int:
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

    def bernoulli(self, probability: Any) -> bool:
        """True with the given probability."""
        if not 0 <= probability <= 1:
            refuse("probability", probability, "it lies in [0, 1]")
        return self.categorical([1 - probability, probability]) == 1


def enumerate_draws(function: Callable[[Source], Any], limit: int = 2_000_000) -> dict:
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


def residual(p: Row, q: Row) -> list:
    """The part of p above q, (p - q)+, as weights."""
    return [max(a - b, 0) for a, b in zip(p, q)]


def draw_iid(source: Source, q: Row, n: int) -> list:
    """n independent draws."""
    return [source.categorical(q) for _ in range(n)]


def draw_sequential(source: Source, q: Row, n: int) -> list:
    """n draws without replacement, fewer if the support is smaller."""
    left = list(q)
    drawn = []
    while len(drawn) < n and sum(left) > 0:
        x = source.categorical(left)
        drawn.append(x)
        left[x] = 0
    return drawn


def draw_top(source: Source, q: Row, n: int) -> list:  # noqa: ARG001
    """The n most likely tokens, in order."""
    return sorted((x for x in range(len(q)) if q[x] > 0), key=lambda x: (-q[x], x))[:n]


def _row(name, row):
    row = list(row)
    total = sum(row)
    if any(not x >= 0 for x in row) or not abs(total - 1) <= (0 if isinstance(total, (int, Fraction)) else 1e-9):
        refuse(name, [str(x) for x in row], "a row is of probabilities that sum to 1; Fractions make it exact")
    return tuple(row)


def _token(name, x, vocabulary):
    if not hasattr(x, "__index__") or not 0 <= x < vocabulary:
        refuse(name, x, f"a token lies in [0, {vocabulary})")
    return x


def _decision(answer, children, vocabulary):
    """A verifier's answer at a node: (rank, None) or (None, token)."""
    if not isinstance(answer, (tuple, list)) or len(answer) != 2:
        refuse("decide(..)", answer, "(k, None) accepts the child of rank k, (None, token) emits another token")
    rank, token = answer
    if rank is None:
        return None, _token("decide(..)[1]", token, vocabulary)
    if token is not None:
        refuse("decide(..)", answer, "an accepted child is the token: (k, None)")
    if not hasattr(rank, "__index__") or not 0 <= rank < len(children):
        refuse("decide(..)[0]", rank, f"there are {len(children)} children, ranked from 0; None accepts none")
    return rank, None


class NodeLaw(NamedTuple):
    """The law of a verifier at one node."""

    tokens: list  #: the probability that each token is emitted
    accepted: object  #: the probability that a child is accepted


def law_of_node(draw: Draw, decide: Decide, p: Row, q: Row, n: int, limit: int = 2_000_000) -> NodeLaw:
    """The exact law of the token that one node emits.

    draw: ``draw(source, q, n)`` returns the children. decide: ``decide(source, p, q, children)`` returns (k, None) to
    accept the child of rank k, or (None, token). p, q: rows of target and draft. Returns a `NodeLaw`.
    """
    p, q = _row("p", p), _row("q", q)
    if len(p) != len(q):
        refuse("q.size", len(q), "target and draft have one vocabulary")

    def run(source):
        children = list(draw(source, q, n))
        for x in children:
            _token("draw(..)", x, len(p))
        rank, token = _decision(decide(source, p, q, list(children)), children, len(p))
        return (children[rank], True) if rank is not None else (token, False)

    found = enumerate_draws(run, limit)
    tokens = [found.get((x, True), 0) + found.get((x, False), 0) for x in range(len(p))]
    return NodeLaw(tokens, sum(w for (_, accepted), w in found.items() if accepted))


def node_by_node(decide: Decide) -> Verify:
    """A verifier for `law_of_tree` that descends from the root and calls `decide` at each node."""

    def verify(source, tree, tokens, target, draft):
        node = 0
        path = []
        while True:
            children = [c for c in tree.children(node) if tokens[c] is not None]
            p = target(node)
            if not children:
                return path, source.categorical(p)
            rank, token = _decision(decide(source, p, draft(node), [tokens[c] for c in children]), children, len(p))
            if rank is None:
                return path, token
            node = children[rank]
            path.append(node)

    return verify


def law_of_tree(draw: Draw, verify: Verify, tree: Tree | str | Sequence[int], target: Model, draft: Model, length: int,
                limit: int = 2_000_000) -> dict:
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
                tokens[child] = _token("draw(..)", x, len(row(draft, "draft", prefixes[v])))
                prefixes[child] = (*prefixes[v], x)
        path, following = verify(source, tree, list(tokens), lambda v: row(target, "target", prefixes[v]),
                                 lambda v: row(draft, "draft", prefixes[v]))
        before = 0
        for v in path:
            if v not in tree.children(before) or tokens[v] is None:
                refuse("verify(..)[0]", list(path), "a path goes from the root, which is not in it, from child to child")
            before = v
        _token("verify(..)[1]", following, len(row(target, "target", ())))
        return (*(tokens[v] for v in path), following)

    law = defaultdict(int)
    for emitted, probability in enumerate_draws(run, limit).items():
        ends = {emitted[:length]: probability}
        for _ in range(length - len(emitted)):
            ends = {(*text, x): w * px for text, w in ends.items()
                    for x, px in enumerate(row(target, "target", text)) if px > 0}
        for text, w in ends.items():
            law[text] += w
    return dict(law)


def law_of_text(target: Model, length: int) -> dict:
    """The law of the first `length` tokens of the target alone."""
    law: dict = {(): 1}
    for _ in range(length):
        law = {(*text, x): w * px for text, w in law.items()
               for x, px in enumerate(_row("target", target(text))) if px > 0}
    return law


def distance(a: dict | Row, b: dict | Row) -> Any:
    """The total variation distance of two laws (dicts or rows): half the sum of the absolute differences."""
    a = a if isinstance(a, dict) else dict(enumerate(a))
    b = b if isinstance(b, dict) else dict(enumerate(b))
    return sum(abs(a.get(k, 0) - b.get(k, 0)) for k in {*a, *b}) / 2


def is_lossless(draw: Draw, decide: Decide, p: Row, q: Row, n: int, tolerance: float = 0) -> bool:
    """Whether a verifier at one node has the target's law for this pair of rows, up to `tolerance` in total variation (for
    floats: 1e-12). A wrong verifier is right on many pairs: `prove_lossless` takes a bank of them."""
    return distance(law_of_node(draw, decide, p, q, n).tokens, list(p)) <= tolerance


def fractions(*weights: Any) -> list[Fraction]:
    """A row of exact probabilities: ``fractions(1, 2, 1)`` is 1/4, 1/2, 1/4."""
    return [Fraction(w) / sum(Fraction(x) for x in weights) for w in weights]


def _only(rng, vocabulary, keep):
    weights = [rng.randint(1, 20) if keep(i) else 0 for i in range(vocabulary)]
    return weights if any(weights) else [1] + [0] * (vocabulary - 1)


def _ties(rng, vocabulary):
    weights = [rng.randrange(4) for _ in range(vocabulary)]
    return weights if any(weights) else [1] + [0] * (vocabulary - 1)


def _tails(rng, vocabulary, low, high):
    """10^low to 10^high for each token but one, and 0 for some."""
    row = [0 if rng.random() < 0.2 else Fraction(rng.randint(1, 9), 10 ** rng.randint(-high, -low)) for _ in range(vocabulary)]
    row[rng.randrange(vocabulary)] = Fraction(1)
    return row


def _almost(rng, weights):
    return [w * (1 + Fraction(rng.randint(-5, 5), 10**14)) for w in weights]


def _rows_of_kind(kind, vocabulary, rng):
    a, b = rng.randrange(vocabulary), rng.randrange(vocabulary)
    p, q = (_only(rng, vocabulary, lambda i: True) for _ in range(2))
    if kind == "no_mass":
        p, q = _only(rng, vocabulary, lambda i: i != a), _only(rng, vocabulary, lambda i: i != b)
    elif kind == "disjoint":
        p, q = _only(rng, vocabulary, lambda i: i % 2 == 0), _only(rng, vocabulary, lambda i: i % 2 == 1)
    elif kind in ("one_hot_target", "greedy"):
        p = _only(rng, vocabulary, lambda i: i == a)
    if kind in ("one_hot_draft", "greedy"):
        q = _only(rng, vocabulary, lambda i: i == b)
    elif kind == "narrow_draft":
        q = _only(rng, vocabulary, lambda i: i in (a, (a + 1) % vocabulary))
    elif kind == "equal":
        q = p
    elif kind == "almost_equal":
        q = _almost(rng, p)
    elif kind == "ties":
        p, q = _ties(rng, vocabulary), _ties(rng, vocabulary)
    elif kind == "almost_ties":
        p, q = _almost(rng, _ties(rng, vocabulary)), _almost(rng, _ties(rng, vocabulary))
    elif kind == "cut":
        p, q = (_only(rng, vocabulary, lambda i: rng.random() < 0.5) for _ in range(2))
    if kind in ("sharp_draft", "sharp"):
        q = _tails(rng, vocabulary, -10, -4)
    if kind == "sharp":
        p = _tails(rng, vocabulary, -10, -4)
    if kind in ("steep_draft", "steep"):
        q = _tails(rng, vocabulary, -45, -30)
    if kind in ("steep_target", "steep"):
        p = _tails(rng, vocabulary, -45, -30)
    return fractions(*p), fractions(*q)


#: The kinds of rows of `prove_lossless`: all tokens with mass; some without, none with mass in both; one-hot rows, at
#: temperature 0 both; a draft of two tokens; equal rows, almost equal ones; ties of p, of q and of p / q, and almost ties; rows
#: cut as by top-k; all but 1e-4 to 1e-10, or all but 1e-30 to 1e-45, on one token.
KINDS = ("plain", "no_mass", "disjoint", "one_hot_target", "one_hot_draft", "narrow_draft", "equal", "almost_equal", "greedy", "ties",
         "almost_ties", "cut", "sharp_draft", "sharp", "steep_draft", "steep_target", "steep")


class Failure(NamedTuple):
    """Rows for which the law is not the target's."""

    kind: str  #: one of `KINDS`
    vocabulary: int
    shape: str  #: the number of children, or the tree
    seed: int
    p: list  #: the target's row, of a tree that at the root
    q: list  #: the draft's
    distance: Any  #: total variation from the target; None if the verifier raised an exception
    error: Exception | None

    def __str__(self):
        what = f"raised {type(self.error).__name__}: {self.error}" if self.error else f"total variation {self.distance}"
        return (f"{self.kind}, V = {self.vocabulary}, {self.shape}, seed {self.seed}: {what}; p = ({', '.join(map(str, self.p))}), "
                f"q = ({', '.join(map(str, self.q))})")


@dataclass
class Proof:
    """The result of `prove_lossless`. True in a condition if it holds."""

    cases: int = 0
    failures: list[Failure] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)  #: cases in which the draws can fall in too many ways

    @property
    def holds(self) -> bool:
        """Whether the law was the target's in every case, of which none was left out."""
        return self.cases > 0 and not self.failures and not self.left_out

    def __bool__(self):
        return self.holds

    def __str__(self):
        what = "lossless" if self.holds else "not lossless" if self.failures else "not shown: cases were left out"
        lines = [f"{what}: {len(self.failures)} of {self.cases} cases failed"]
        lines += [f"    {failure}" for failure in self.failures[:5]] + ["    .."] * (len(self.failures) > 5)
        return "\n".join(lines + [f"    too many draws: {case}" for case in self.left_out])

    def _add(self, where, p, q, law, wanted, tolerance):
        try:
            found = distance(law(), wanted())
        except InvalidInput as error:
            if error.argument == "limit":
                self.left_out.append("{}, V = {}, {}, seed {}".format(*where))
                return
            self.failures.append(Failure(*where, p, q, None, error))
        except Exception as error:
            self.failures.append(Failure(*where, p, q, None, error))
        else:
            if not found <= tolerance:
                self.failures.append(Failure(*where, p, q, found, None))
        self.cases += 1


def _bank(exact, tolerance, seeds, seed):
    tolerance = (0 if exact else 1e-12) if tolerance is None else tolerance
    convert = (lambda row: row) if exact else (lambda row: [float(x) for x in row])
    return tolerance, convert, range(seed, seed + integer("seeds", seeds, 1, 10**6))


def prove_lossless(draw: Draw, decide: Decide, *, n: int | Iterable[int] = (1, 2, 3), vocabularies: Iterable[int] = (1, 2, 3, 4),
                   seeds: int = 2, seed: int = 1, exact: bool = True, tolerance: float | None = None, limit: int = 20_000) -> Proof:
    """Proves that a verifier at one node has the target's law, or finds rows for which it does not, over a bank of rows: `KINDS`,
    several vocabularies and numbers of children, `seeds` random pairs of each. A few seconds.

    draw, decide: as for `law_of_node`. exact: rows of Fractions, else of floats, with a `tolerance` of 1e-12; a residual may
    then vanish by rounding, which a verifier has to survive. An exception is a failure. limit: of the combinations of outcomes of one case.

    >>> proof.prove_lossless(proof.draw_iid, accept_or_not, n=1).holds
    True
    """
    result = Proof()
    tolerance, convert, numbers = _bank(exact, tolerance, seeds, seed)
    several = (int(n),) if hasattr(n, "__index__") else tuple(n)
    for vocabulary in tuple(vocabularies):
        for children in several:
            for kind in KINDS:
                for k in numbers:
                    p, q = map(convert, _rows_of_kind(kind, vocabulary, random.Random(f"{kind} {vocabulary} {k}")))
                    result._add((kind, vocabulary, f"n = {children}", k), p, q,
                                lambda p=p, q=q, m=children: law_of_node(draw, decide, p, q, m, limit).tokens,
                                lambda p=p: p, tolerance)
    return result


def prove_lossless_of_trees(draw: Draw, verify: Verify, *, trees: Iterable[Tree | str | Sequence[int]] = ("1", "2", "1x1", "2x1", "1x2"),
                            vocabularies: Iterable[int] = (2, 3), seeds: int = 2, seed: int = 1, exact: bool = True,
                            tolerance: float | None = None, limit: int = 20_000) -> Proof:
    """`prove_lossless` for a verifier of trees, as for `law_of_tree`: the law of the tokens of one step and those that the target
    adds, as many as the tree has levels and one. Each text has rows of its own."""
    result = Proof()
    tolerance, convert, numbers = _bank(exact, tolerance, seeds, seed)
    several = tuple(map(as_tree, trees))
    for vocabulary in vocabularies:
        for tree in several:
            for kind in KINDS:
                for k in numbers:
                    models: dict = {}

                    def rows(text, kind=kind, vocabulary=vocabulary, k=k, models=models):
                        if text not in models:
                            rng = random.Random(f"{kind} {vocabulary} {k} {text}")
                            models[text] = tuple(map(convert, _rows_of_kind(kind, vocabulary, rng)))
                        return models[text]

                    def target(text, rows=rows):
                        return rows(text)[0]

                    def draft(text, rows=rows):
                        return rows(text)[1]

                    result._add((kind, vocabulary, repr(tree), k), *rows(()),
                                lambda tree=tree, p=target, q=draft: law_of_tree(draw, verify, tree, p, q, tree.depth + 1, limit),
                                lambda tree=tree, p=target: law_of_text(p, tree.depth + 1), tolerance)
    return result
