"""Intervals of statistics of runs, by bootstrap over the runs."""
import random


def interval(values, statistic, rounds=400):
    """(value, low, high): a statistic of a list of runs with its 95 % bootstrap interval."""
    dice = random.Random(12345)
    n = len(values)
    found = sorted(statistic([values[dice.randrange(n)] for _ in range(n)]) for _ in range(rounds))
    return statistic(values), found[int(0.025 * rounds)], found[min(rounds - 1, int(0.975 * rounds))]


def rate(runs):
    """Tokens a second."""
    return sum(r["tokens"] for r in runs) / max(1e-9, sum(r["seconds"] for r in runs))
