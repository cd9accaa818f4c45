#!/usr/bin/env python3
"""Writes the tables of methods in docs/methods.md and docs/method_map.md from the list and the headers, or checks them.

method_map.py [--root ROOT]        fails where a page differs from the repository
method_map.py [--root ROOT] --fix  writes both
method_map.py --self-test

A method of multidraft/methods/list.hpp has a sampler and a verifier, each with a header that holds the formula. From the list:
its name, law and summary. From the verifier's docstrings: what it costs, the sentence that begins with "Cost:" or else the
first about passes. Found by name: the proof and the tests that include it, the deliberate bugs that a proof must reject,
the benchmark that measures it, if there is one, and the papers that its headers cite. A method without a summary, a cost, a
proof or a reference fails.
"""
import argparse
import re
import sys
import tempfile
from pathlib import Path

PAGE = "docs/method_map.md"
METHODS = "docs/methods.md"
BEGIN, END = "<!-- written by tests/docs/method_map.py --fix -->\n", "<!-- to here -->\n"
HEAD = """# Map of methods

One line per method, written by `tests/docs/method_map.py --fix` and checked by the tests.
The verifier's header has the formula and the guarantees.
Every lossless method is also proved by `tests/proof/methods_by_*_test.cpp`, from the lists of `multidraft/methods/list.hpp`.
Descriptions: [methods.md](methods.md).
Keys: [references.md](references.md).

Methods with the same verifier and another drafter (`/best_first`, `/lookup`, `/stochastic_beam`, `/early_stop`, ..) have no line of their own: see their verifier here, and the drafter in `include/multidraft/decode/`.
The headers and tests of the lossy methods are in [methods.md](methods.md).
"""
LISTED = re.compile(r"struct (\w+)\s*:\s*listed_method<draft::(\w+),\s*(verify::[\w:<> ]+?)>\s*\{(.*?)\n\};", re.DOTALL)


def verifier_of(text):
    """`verify::merged<verify::k_seq<law::iid>>` -> ("k_seq", "iid")."""
    names = re.findall(r"verify::(\w+)", text)
    law = re.search(r"law::(\w+)", text)
    return names[-1], law.group(1) if law else None


def methods_of(root):
    """[(name, summary, sampler, verifier, law)] in the order of the lists."""
    text = (root / "include/multidraft/methods/list.hpp").read_text(encoding="utf-8")
    result = []
    for _, sampler, verifier, body in LISTED.findall(text):
        name = re.search(r'name = "([^"]+)"', body).group(1)
        summary = re.search(r'summary =((?:\s*"[^"]*")+);', body)
        result.append((name, "".join(re.findall(r'"([^"]*)"', summary.group(1))) if summary else "", sampler, *verifier_of(verifier)))
    return result


def cost_of(root, verifier):
    """The sentence of a verifier's docstrings on its cost."""
    path = root / f"include/multidraft/verify/{verifier}.hpp"
    if not path.is_file():
        return ""
    comments = re.findall(r"^ *///(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    sentences = re.split(r"(?<=[.:])\s+(?=[A-Z`])", re.sub(r"\s+", " ", " ".join(comments)))
    after_cost = [following for before, following in zip(sentences, sentences[1:]) if before.endswith("Cost:")]
    inside = [sentence.split("Cost: ", 1)[1] for sentence in sentences if "Cost: " in sentence]
    found = (after_cost + inside + [sentence for sentence in sentences if re.search(r"\bpass(es)?\b", sentence)])
    return re.sub(r"^The decision at [^,]*, (in )?", "", found[0].strip().rstrip(".")).replace("|", "\\|") if found else ""


def keys_in(root, *headers):
    """The keys of docs/references.md that headers cite."""
    known = set(re.findall(r"^- \*\*\[([\w-]+)\]\*\*", (root / "docs/references.md").read_text(encoding="utf-8"), re.MULTILINE))
    found = []
    for header in headers:
        for key in re.findall(r"\[([A-Z][\w-]*)\]", (root / header).read_text(encoding="utf-8")):
            if key in known and key not in found:
                found.append(key)
    return found


def most_about(root, directory, verifier):
    """The two tests that name a verifier most often."""
    counts = {path: len(re.findall(rf"verify::{verifier}\b", path.read_text(encoding="utf-8")))
              for path in (root / directory).glob("*_test.cpp") if path.name != "bugs_test.cpp"}
    return sorted((path for path in counts if counts[path] > 0), key=lambda path: (-counts[path], path.name))[:2]


def bugs_of(root, verifier):
    """Those that use the verifier, by name or through another bug's header, and those named for it."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted((root / "tests/bugs").iterdir())
             if path.suffix in (".hpp", ".txt")}

    def uses(name, seen=()):
        text = texts[name]
        if f"verify/{verifier}.hpp" in text or f"\nverifier: {verifier}\n" in text:
            return True
        return any(uses(other, (*seen, name)) for other in re.findall(r'#include "bugs/([\w.]+)"', text)
                   if other in texts and other not in seen)

    return [name for name in texts if uses(name) or name.startswith((f"{verifier}_", f"plain_{verifier}"))]


def benchmarks_of(root, name):
    """{program: cases} whose case is named for a sampler or verifier."""
    found = {}
    for path in sorted((root / "bench").glob("*_bench.c*")):
        for case in re.findall(r"^BENCHMARK\(([^)]+)\)", path.read_text(encoding="utf-8"), re.MULTILINE):
            if re.search(rf"(?<![\w]){name}(_of_|<|\b(?!_))", case.replace("verify::", " ").replace("draft::", " ")):
                found.setdefault(path.name, []).append(case)
    return found


def linked(path):
    return f"[`{Path(path).name}`](../{path})"


def page(root):
    """The page, and what is missing."""
    lines = [HEAD, "| method | law | sampler | verifier | proof | bugs | benchmark | cited |", "|" + "---|" * 8]
    missing = []
    for name, summary, sampler, verifier, law in methods_of(root):
        sampler_header, header = f"include/multidraft/draft/{sampler}.hpp", f"include/multidraft/verify/{verifier}.hpp"
        for path in (sampler_header, header):
            if not (root / path).is_file():
                missing.append(f"{name}: no header {path}")
        own = root / f"tests/proof/{verifier}_test.cpp"
        proofs = [own] if own.is_file() else most_about(root, "tests/proof", verifier)
        drawn = root / f"tests/proof/{sampler}_test.cpp"
        if drawn.is_file() and drawn not in proofs:
            proofs.append(drawn)
        benchmarks = benchmarks_of(root, verifier)
        cited = keys_in(root, *[p for p in (header, sampler_header) if (root / p).is_file()])
        for what, found in (("proof", proofs), ("reference", cited), ("summary", summary), ("cost", cost_of(root, verifier))):
            if not found:
                missing.append(f"{name}: no {what} of {verifier}")
        lines.append("| " + " | ".join((
            f"`{name}`", f"`{law}`" if law else "its own", linked(sampler_header), linked(header),
            ", ".join(linked(p.relative_to(root)) for p in proofs),
            ", ".join(linked(f"tests/bugs/{bug}") for bug in bugs_of(root, verifier)),
            ", ".join(linked(f"bench/{program}") for program in benchmarks), " ".join(f"[{key}]" for key in cited))) + " |")
    return "\n".join(lines) + "\n", missing


def described(root):
    """docs/methods.md with its table of listed methods."""
    lines = ["| method | law | what it does | cost | source |", "|" + "---|" * 5]
    for name, summary, sampler, verifier, law in methods_of(root):
        headers = [path for path in (f"include/multidraft/verify/{verifier}.hpp", f"include/multidraft/draft/{sampler}.hpp") if (root / path).is_file()]
        cost = cost_of(root, verifier)
        lines.append(f"| `{name}` | {f'`{law}`' if law else 'its own'} | {summary} | {cost[:1].lower() + cost[1:] if cost[:2] != 'O(' else cost} | "
                     f"{' '.join(f'[{key}]' for key in keys_in(root, *headers))} |")
    head, begin, rest = (root / METHODS).read_text(encoding="utf-8").partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{METHODS} has no lines {BEGIN.strip()} and {END.strip()}")
    return head + begin + "\n" + "\n".join(lines) + "\n\n" + end + tail


def self_test():
    """A repository with one method: found, and what is taken away is missed."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        files = {
            "include/multidraft/methods/list.hpp": 'struct a_b : listed_method<draft::b, verify::a<law::b>> {\n'
                                              '    static constexpr std::string_view name = "a/b";\n'
                                              '    static constexpr std::string_view summary =\n        "what it "\n        "does";\n};\n',
            METHODS: f"Methods\n{BEGIN}old\n{END}rest\n",
            "include/multidraft/verify/a.hpp": "/// [Paper23] Lossless. Cost: one\n/// pass for each\n/// level. More.\n", "include/multidraft/draft/b.hpp": "",
            "docs/references.md": "- **[Paper23]** Title.\n", "tests/proof/a_test.cpp": "", "tests/bugs/c.hpp": '#include "multidraft/verify/a.hpp"\n',
            "bench/verify_bench.cpp": "BENCHMARK(node<verify::a<law::b>>)->Apply(x);\nBENCHMARK(a_further)->Apply(x);\n"}
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        text, missing = page(root)
        assert not missing, missing
        assert "| `a/b` | `b` | what it does | one pass for each level | [Paper23] |" in described(root), described(root)
        assert described(root).startswith("Methods\n") and described(root).endswith("rest\n") and "old" not in described(root)
        assert "a_test.cpp" in text and "c.hpp" in text and "verify_bench.cpp" in text and "[Paper23]" in text, text
        for taken, what in (("tests/proof/a_test.cpp", "proof"), ("include/multidraft/draft/b.hpp", "header")):
            (root / taken).unlink()
            assert any(what in m for m in page(root)[1]), taken
            (root / taken).write_text(files[taken], encoding="utf-8")
        (root / "include/multidraft/verify/a.hpp").write_text("/// [Unknown]\n", encoding="utf-8")
        assert all(any(what in m for m in page(root)[1]) for what in ("reference", "cost"))
    print("The checks find what they are for.")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent.parent)
    parser.add_argument("--fix", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    text, missing = page(options.root)
    for line in missing:
        print(line)
    differs = False
    for name, wanted in ((PAGE, text), (METHODS, described(options.root))):
        path = options.root / name
        if path.is_file() and path.read_text(encoding="utf-8") == wanted:
            continue
        if options.fix:
            path.write_text(wanted, encoding="utf-8")
        else:
            differs = True
            print(f"{name} differs from the repository; run tests/docs/method_map.py --fix")
    return 1 if missing or differs else 0


if __name__ == "__main__":
    sys.exit(main())
