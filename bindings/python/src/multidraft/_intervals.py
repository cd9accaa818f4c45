"""Confidence intervals of tokens per call of the target."""

import math
from statistics import NormalDist

from ._arrays import real
from ._errors import refuse


def interval(steps, level):
    """Of the block efficiency of texts, given as the tokens of each of their steps: (low, high), by the normal approximation
    over blocks of n^(1/3) consecutive steps of a text of n, since neighbouring steps are alike. (0, inf) for fewer than two
    blocks."""
    level = real("level", level)
    if not 0 < level < 1:
        refuse("level", level, "it is the probability of an interval, such as 0.95")
    blocks = []
    for text in steps:
        size = max(1, round(len(text) ** (1 / 3)))
        blocks += [text[k: k + size] for k in range(0, len(text), size)]
    if len(blocks) < 2:
        return 0.0, math.inf
    calls = sum(map(len, blocks))
    mean = sum(map(sum, blocks)) / calls
    spread = sum((sum(block) - mean * len(block)) ** 2 for block in blocks) * len(blocks) / (len(blocks) - 1)
    half = NormalDist().inv_cdf((1 + level) / 2) * math.sqrt(spread) / calls
    return max(0.0, mean - half), mean + half
