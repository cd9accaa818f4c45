"""Estimates over texts: ratios of sums with bootstrap intervals, differences, and which of many differences hold."""
import contextlib
import functools
import math
import random
import re
from collections import Counter

ROUNDS = 2000
LEVEL = 0.05  # the chance that one or more of all comparisons of a page hold by chance

# --- Texts -----------------------------------------------------------------------------------------------------------


def flat(kind, prompt, run):
    """A run of the program as sums that statistics are made of; `kind` and `prompt` say which text it is of."""
    whole = run["whole"]
    return {"kind": kind, "prompt": prompt, "runs": 1, "tokens": run["tokens"], "nll": run["nll"],
            **{f"whole_{name}": value for name, value in whole.items()},
            "tried": sum(run["tried_at_depth"]), "accepted": sum(run["accepted_at_depth"]),
            "next_known": run["next_known"], "next_right": run["next_right"], "run": run,
            **{name: run[name] for name in ("seconds", "plain_tokens", "plain_seconds") if name in run}}


def value_of(kind, prompt, value):
    """A number of a text, for `mean`."""
    return {"kind": kind, "prompt": prompt, "runs": 1, "value": value}


def clusters(texts, fields):
    """([(kind, prompt)], [{field: sum}]): what was made of one prompt is one text, in order of kind and prompt."""
    found = {}
    for text in texts:
        sums = found.setdefault((text["kind"], text["prompt"]), dict.fromkeys(fields, 0))
        for field in fields:
            sums[field] += text[field]
    keys = sorted(found)
    return keys, [found[key] for key in keys]


@functools.lru_cache(maxsize=8)
def resamples(keys, rounds):
    """Numbers of texts, a list a round, drawn with replacement from those of each kind."""
    dice = random.Random(12345)
    kinds = {}
    for k, (kind, _) in enumerate(keys):
        kinds.setdefault(kind, []).append(k)
    return [[k for of_kind in kinds.values() for k in dice.choices(of_kind, k=len(of_kind))] for _ in range(rounds)]


_planning = False  # tables are only counted: no intervals


@contextlib.contextmanager
def planning():
    """Estimates of tables that are only counted have two rounds."""
    global _planning
    _planning = True
    try:
        yield
    finally:
        _planning = False


class _Recorder(dict):
    """Sums that note which of them are read."""

    def __init__(self, sums):
        super().__init__(sums)
        self.read = set()

    def __getitem__(self, field):
        self.read.add(field)
        return super().__getitem__(field)


def _fields_of(texts, statistic):
    fields = [f for f, v in texts[0].items() if isinstance(v, (int, float)) and f not in ("kind", "prompt")]
    recorder = _Recorder(dict.fromkeys(fields, 1))
    statistic(recorder)
    return sorted(recorder.read)


class Estimate:
    """A statistic of texts: its value and 95 % interval; also its value in each resample of the texts."""

    def __init__(self, texts, statistic, rounds=ROUNDS):
        fields = _fields_of(texts, statistic)
        self.keys, sums = clusters(texts, fields)
        columns = {field: [one[field] for one in sums] for field in fields}
        of = lambda chosen: statistic({f: sum(map(column.__getitem__, chosen)) for f, column in columns.items()})
        self.value = of(range(len(sums)))
        self.rounds = [of(chosen) for chosen in resamples(tuple(self.keys), 2 if _planning else rounds)]
        self.low, self.high = bounds(self.rounds)

    def __iter__(self):
        return iter((self.value, self.low, self.high))


class Difference:
    """The difference of two estimates of the same texts, its 95 % interval, and the chance `p` of one as large if there is
    none, by its bootstrap error and the normal law; 1 for texts of which no error can be estimated."""

    def __init__(self, left, right):
        if left.keys != right.keys:
            raise ValueError("a difference is of the same texts")
        self.value = left.value - right.value
        rounds = [a - b for a, b in zip(left.rounds, right.rounds)]
        self.low, self.high = bounds(rounds)
        center = sum(rounds) / len(rounds)
        error = math.sqrt(sum((r - center) ** 2 for r in rounds) / (len(rounds) - 1))
        if min(Counter(kind for kind, _ in left.keys).values()) < 2:
            self.p = 1.0
        elif error < 1e-12:
            self.p = 1.0 if abs(self.value) < 1e-12 else 0.0
        else:
            self.p = math.erfc(abs(self.value) / error / math.sqrt(2))


def bounds(rounds):
    ordered = sorted(rounds)
    n = len(ordered)
    return ordered[int(0.025 * n)], ordered[min(n - 1, int(0.975 * n))]


def estimate(texts, statistic, rounds=ROUNDS):
    """`statistic` of the sums over texts, None without texts."""
    return Estimate(texts, statistic, rounds) if texts else None


def difference(left, right):
    return Difference(left, right)


def holm(chances, level=LEVEL):
    """Which of several differences hold at one level for all of them (Holm 1979): the chances in order, the k-th smallest
    of n compared with level / (n - k + 1)."""
    holds = [False] * len(chances)
    order = sorted(range(len(chances)), key=chances.__getitem__)
    for k, i in enumerate(order):
        if chances[i] > level / (len(chances) - k):
            break
        holds[i] = True
    return holds


def judge(comparisons):
    """A verdict for each comparison of a page: whether the sign is the paper's. One that cannot be otherwise is none."""
    counted = [c for c in comparisons if c["p"] is not None and not c["by_mathematics"]]
    holds = dict(zip(map(id, counted), holm([c["p"] for c in counted])))
    verdicts = []
    for c in comparisons:
        if c["here"] is None:
            verdicts.append("not run")
        elif c["by_mathematics"]:
            verdicts.append("holds by mathematics")
        elif not holds[id(c)]:
            verdicts.append("no difference found")
        else:
            verdicts.append("same sign" if c["difference"] * (c["paper"][0] - c["paper"][1]) > 0 else "other sign")
    return verdicts


def mean_of(values):
    return sum(values) / len(values)


# --- Statistics of sums ----------------------------------------------------------------------------------------------


def mean(s):
    return s["value"] / max(1, s["runs"])


def block_efficiency(s):
    """Tokens a target call of whole steps (generation_metrics)."""
    return s["whole_tokens"] / max(1, s["whole_target_calls"])


def acceptance(s):
    return s["accepted"] / max(1, s["tried"])


def accepted_fraction(depth):
    return lambda s: s["whole_accepted"] / max(1, s["whole_target_calls"]) / depth


def drafted_a_call(s):
    return s["whole_drafted"] / max(1, s["whole_target_calls"])


def token_rate(s):
    return s["tokens"] / max(1e-9, s["seconds"])


def speed_up(s):
    """Tokens a second, over those of the target alone, which continued the same prompts just before and after each run."""
    return token_rate(s) / max(1e-9, s["plain_tokens"] / max(1e-9, s["plain_seconds"]))


def perplexity(s):
    return math.exp(s["nll"] / max(1, s["tokens"]))


def next_right(s):
    """Of the prompts that end where the text has a token's end."""
    return s["next_right"] / max(1, s["next_known"])


def mbsu(depth, ratio):
    """Memory-bound speed-up; `ratio`: sizes of draft and target."""
    return lambda s: block_efficiency(s) / (depth * ratio + 1)


def relative(value, base):
    """value / base; None where there is no base to compare with."""
    return value / base if base > 0 else None


def shown(estimate_or_triple, digits=3):
    value, low, high = estimate_or_triple
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


# --- Beside the held-out text ----------------------------------------------------------------------------------------


def words(text):
    """Lower-cased runs of letters and digits, as ROUGE compares them."""
    return re.findall(r"[a-z0-9]+", text.lower())


def grams(found, n):
    return Counter(tuple(found[k: k + n]) for k in range(len(found) - n + 1))


def longest_common(a, b):
    """The length of the longest common subsequence."""
    row = [0] * (len(b) + 1)
    for x in a:
        before = 0
        for k, y in enumerate(b):
            row[k + 1], before = (before + 1 if x == y else max(row[k], row[k + 1])), row[k + 1]
    return row[-1]


def f_measure(common, found, wanted):
    return 2 * common / (found + wanted) if common else 0.0


def with_scores(texts):
    """Texts with ROUGE-2, ROUGE-L (their F measures) and the counts of BLEU against the text that was held out, which is cut to
    as many words as were generated: texts end where the limit of tokens is."""
    found = []
    for text in texts:
        own, other = words(text["run"]["text"]), words(text["run"]["reference"])
        other = other[: len(own)]
        two, wanted = grams(own, 2), grams(other, 2)
        scores = {"rouge_2": f_measure((two & wanted).total(), two.total(), wanted.total()),
                  "rouge_l": f_measure(longest_common(own, other), len(own), len(other)),
                  "words": len(own), "words_wanted": len(other)}
        for n in range(1, 5):
            of_text = grams(own, n)
            scores |= {f"same_{n}": (of_text & grams(other, n)).total(), f"of_{n}": of_text.total()}
        found.append({**text, **scores})
    return found


def rouge_2(s):
    return s["rouge_2"] / max(1, s["runs"])


def rouge_l(s):
    return s["rouge_l"] / max(1, s["runs"])


def bleu(s):
    """BLEU of all texts together, 0 to 100, of n-grams up to 4 without smoothing."""
    parts = [(s[f"same_{n}"], s[f"of_{n}"]) for n in range(1, 5)]
    missing = any(same == 0 for same, _ in parts)
    brevity = min(0.0, 1 - s["words_wanted"] / max(1, s["words"]))
    return 0.0 if missing else 100 * math.exp(brevity + sum(math.log(same / count) for same, count in parts) / 4)
