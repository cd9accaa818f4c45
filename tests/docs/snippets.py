#!/usr/bin/env python3
"""Runs what the documentation shows, so that it works when it is copied.

snippets.py --root ROOT --compiler CXX [--generate PROGRAM] [--acceptance PROGRAM] [--nvcc PROGRAM [--nvcc-host CXX]]
snippets.py --root ROOT --compiler CXX --blocks NAME [--include DIR]      only the C++ blocks of one document
snippets.py --self-test --compiler CXX

  C++ blocks       are compiled without a warning, linked with a small caller (tests/docs/callers) and run
  CUDA blocks      are compiled by nvcc
  commands         in blocks and in the text are run with the built programs, or stand in UNTESTED below with the reason
  Python blocks    are run with NumPy and a stand-in for torch; `acceptance` reads what they write
  links, pictures  and paths of the repository exist, those in comments of headers too; pictures have a background of
                   their own
  methods          the tables of docs/methods.md have those that `generate --list-methods` prints, and no others
  version          the newest of CHANGELOG.md is that of version.hpp

What needs a program that is not here is skipped, and said.
"""
import argparse
import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
FILES = ("README.md", "CONTRIBUTING.md", "docs/*.md", "examples/README.md", "models/README.md", "CHANGELOG.md")
WARNINGS = ["-std=c++20", "-Wall", "-Wextra", "-Werror"]

# How a command of the documentation is run: {generate} and {acceptance} are the built programs, {arrays} is where the
# Python block wrote p.npy and q.npy, {work} a directory for the rest. What is added after what the documentation says
# only shortens the run.
TREES = ("{acceptance} --target {arrays}/tree_rows.npy --draft {arrays}/tree_rows.npy --parents {arrays}/parents.npy"
         " --tokens {arrays}/tokens.npy")
SHORT = "--prompts 1 --tokens 8 --seed 1"
TESTED = {
    "tools/demo": "{generate} --tokens 16",  # what it runs once it has built it
    "tools/demo --help": "{generate} --help",
    "tools/demo --compare": "{generate} --compare " + SHORT,
    "generate --compare": "{generate} --compare " + SHORT,
    "--compare --perplexity": "{generate} --compare --perplexity " + SHORT,
    "--search --budget 32": "{generate} --search --budget 32 --prompts 1 --tokens 16",
    "--show-tree": "{generate} --show-tree --tokens 8",
    "--show-tree-svg FILE": "{generate} --show-tree-svg {work}/tree.svg --tokens 8",
    "--show-tree-dot FILE": "{generate} --show-tree-dot {work}/tree.dot --tokens 8",
    "--prompt-file FILE --parallel N": "printf 'A man\\nHe\\n' > {work}/prompts && {generate} --prompt-file {work}/prompts --parallel 2 --tokens 8 --tree 2x1",
    "generate --drafter block": "{generate} --drafter block --tokens 8",
    "generate --lookup-paths 0": "{generate} --drafter block --lookup-paths 0 --tokens 8",
    "generate --method": "{generate} --method speculative_sampling/iid --tokens 8",
    "--typical-epsilon": "{generate} --method lossy/typical_acceptance --typical-epsilon 0.2 --tokens 8",
    "--typical-delta": "{generate} --method lossy/typical_acceptance --typical-delta 0.4 --tokens 8",
    "--decision-models": "{generate} --method recursive_rejection/early_stop --decision-models models/draft/early_stop --tokens 8",
    "--list-methods": "{generate} --list-methods",
    "tests/docs/method_map.py --fix": "python3 tests/docs/method_map.py",
    "tests/docs/numbers.py --fix": "python3 tests/docs/numbers.py",
    "tests/docs/lines.py --fix": "python3 tests/docs/lines.py",
    "tools/measure --write": "python3 tools/measure --check",
    "--draft-temperature": "{generate} --draft-temperature 1.2 --tokens 8",
    "generate --dump-decisions --temperature 1 > decisions.jsonl":
        "{generate} --dump-decisions --temperature 1 --tokens 60 --prompt Moses > {work}/decisions.jsonl",
    "examples/generate/train_early_stop.py decisions.jsonl models/draft-distilled/early_stop":
        "{generate} --dump-decisions --temperature 1 --tokens 60 --prompt Moses > {work}/some.jsonl && "
        "{python_with_numpy} examples/generate/train_early_stop.py {work}/some.jsonl {work}/early_stop",
    # Smaller than the presets: they are named below.
    "models/train/pad.py models/target build/padded/target --preset 300m":
        "{python} models/train/pad.py models/target {work}/target --hidden 512 --layers 9",
    "models/train/pad.py models/draft build/padded/draft --preset draft-8m":
        "{python} models/train/pad.py models/draft {work}/draft --preset draft-8m",
    "generate --target build/padded/target --draft build/padded/draft --method autoregressive":
        "{python} models/train/pad.py models/target {work}/target2 --layers 9 && "
        "{generate} --target {work}/target2 --draft models/draft --method autoregressive --tokens 8",
    "--hidden H --intermediate I --heads N --kv-heads K --layers L":
        "{python} models/train/pad.py models/draft {work}/draft2 --hidden 128 --intermediate 300 --heads 6 --kv-heads 2 --layers 3",
    "generate --precision int8": "{generate} --precision int8 --tokens 8",
    "generate --precision q8_0": "{generate} --precision q8_0 --tokens 8",
    "generate --precision bf16": "{generate} --precision bf16 --tokens 8",
    "generate --prompt-file FILE --drafter DIRECTORY":
        "printf 'A man\\nHe\\n' > {work}/prompts && {generate} --prompt-file {work}/prompts --drafter block --tokens 8 --tree 2x1",
    "generate --prompt-file FILE --parallel N": "printf 'A man\\nHe\\n' > {work}/prompts && {generate} --prompt-file {work}/prompts --parallel 2 --tokens 8",
    "--precision stored8": "{generate} --precision stored8 --tokens 8",
    "generate --kv-cache f32": "{generate} --kv-cache f32 --tokens 8",
    "--kv-cache f16": "{generate} --kv-cache f16 --tokens 8",
    "generate --precision stored8": "{generate} --precision stored8 --tokens 8",
    "generate --precision stored": "{generate} --precision stored --tokens 8",
    "--precision stored": "{generate} --precision stored --tokens 8",
    "--target p.npy --draft q.npy --drafts 3": "{acceptance} --target {arrays}/p.npy --draft {arrays}/q.npy --drafts 3",
    "--json": "{acceptance} --target {arrays}/p.npy --draft {arrays}/q.npy --drafts 3 --json",
    "--csv FILE": "{acceptance} --target {arrays}/p.npy --draft {arrays}/q.npy --drafts 3 --csv {work}/rates.csv",
    "--plot FILE.svg": "{acceptance} --target {arrays}/p.npy --draft {arrays}/q.npy --drafts 3 --plot {work}/rates.svg",
    "--logits --temperature T --top-k K --top-p P":
        "{acceptance} --target {arrays}/logits.npy --draft {arrays}/logits.npy --drafts 3 --logits --temperature 0.7 --top-k 5 --top-p 0.9",
    "--drafts 2,3,4": "{acceptance} --target {arrays}/p.npy --draft {arrays}/q.npy --drafts 2,3,4",
    "--latex": "{acceptance} --target {arrays}/p.npy --draft {arrays}/q.npy --drafts 3 --latex",
    "--baseline recursive_rejection/iid": "{acceptance} --target {arrays}/p.npy --draft {arrays}/q.npy --drafts 3 --baseline recursive_rejection/iid",
    "--groups texts.npy": "{acceptance} --target {arrays}/p.npy --draft {arrays}/q.npy --drafts 3 --groups {arrays}/texts.npy",
    "--by-rank": "{acceptance} --target {arrays}/p.npy --draft {arrays}/q.npy --drafts 3 --by-rank",
    "--per-row FILE": "{acceptance} --target {arrays}/p.npy --draft {arrays}/q.npy --drafts 3 --per-row {work}/rows.csv",
    "--parents parents.npy --tokens tokens.npy --law sequential": TREES + " --law sequential",
    "--law stratified --certain certain.npy": TREES + " --law stratified --certain {arrays}/certain.npy",
    "--trials N": TREES + " --law iid --trials 4",
    "--cases FILE.json": "{acceptance} --cases {work}/cases.json",
    "--tree-cases FILE.json": "{acceptance} --tree-cases {work}/trees.json",
    "c++ -std=c++20 -O2 -march=native -I include -I examples examples/embed_raw.cpp && ./a.out":
        "{compiler} -std=c++20 -O2 -march=native -I include -I examples examples/embed_raw.cpp -o {work}/a.out && {work}/a.out",
    "bench/pictures": "{python_with_matplotlib} bench/pictures --out {work}/pictures",
}
UNTESTED = {
    "tools/test": "it is what runs most tests",
    "tools/test --all": "it is what runs this test",
    "tools/release": "the test release.archive runs it",
    "tools/release --url URL": "the test release.archive runs it",
    "tests/abi/library.py --write": "the test abi.library compares what it writes",
    "tools/release --full": "builds and runs the tests",
    "conan create build/release/conan -s compiler.cppstd=20": "the test release.archive runs it, where Conan is there",
    "vcpkg install multidraft --overlay-ports=build/release/ports": "the test release.archive runs the port",
    "--device cuda": "needs a device; the option is looked up below, tests/generate runs the rest",
    "tools/setup && cmake -B build -DMULTIDRAFT_BUILD_EXAMPLES=ON && cmake --build build --target acceptance":
        "what ctest runs in was built so",
    "conan create . --build=missing -s compiler.cppstd=20": "the test consumers.conan runs it",
    "conan create . -nr -s compiler.cppstd=20": "the same without a network",
    "--overlay-ports=ports": "the test consumers.vcpkg uses it",
    "mpirun -n 4 build/examples/sharded --method nested_ranked_block/iid --requests 8 --json":
        "needs MPI; the test examples.sharded runs the program",
    "mpirun -n 4 build/examples/sharded --vocabulary 128256 --requests 8 --tree 4x2x2x1 --method ranked_block/iid":
        "needs MPI; the test examples.sharded runs the program",
    'mpirun -n 2 build/examples/tensor_parallel --prompt "And the LORD said unto Moses," --tree 3x2x1':
        "needs MPI; the test examples.tensor_parallel runs the program",
    "generate --precision f32": "the test examples.tensor_parallel compares its text",
    "generate --chat --precision stored": "tests/generate/chat.py runs it where the model is",
    "--draft-in-shards": "needs MPI; the test examples.sharded uses it",
    "--temperature": "of sharded; the test examples.sharded uses it",
    "--top-k": "of sharded; the test examples.sharded uses it",
    "--top-p": "of sharded; the test examples.sharded uses it",
    "--min-p": "of sharded; the test examples.sharded uses it",
    "--seed": "of sharded; the test examples.sharded uses it",
    "--host": "of sharded; the test examples.sharded uses it",
    "--compress-mode=size": "a flag of nvcc; bench/cuda_resources measures it",
    "--expt-relaxed-constexpr": "a flag of nvcc; the test consumers.nvcc compiles without it",
    "bench/pictures --data": "builds the programs and takes a quarter of an hour; its options are looked up below",
    "bench/paper_tables sweep --prompts 12 --seeds 1": "takes minutes; its options are looked up below",
    "bench/paper_tables NAME --prompts 16 --timed-prompts 8 --seeds 1": "takes up to hours; its options are looked up below",
    "bench/paper_tables chat --prompts 4": "takes minutes and wants a chat model; its options are looked up below",
    "bench/device --help": "the test bench.device runs the program",
    "bench/device --pack": "copies what is installed; the test bench.device runs the program",
    "bench/device --standin": "the test bench.device runs it",
    "bench/padded --prompts 2 --drafter models/block-drafter": "takes twenty-five minutes; its options are looked up below",
    "bench/run --only sample 'logits_processing|softmax_normaliser' bench/results/truncation": "builds and measures; CI runs the program",
    "bench/padded --engine llama.cpp --llama-root DIRECTORY --llama-programs DIRECTORY": "needs llama.cpp's programs",
    "tools/setup --llama": "builds llama.cpp",
    "pip install bindings/python": "the tests of the Python package install it",
    "tools/wheel --arm": "the test python.wheel_arm runs it, where it was run before",
    "tools/setup --smollm": "fetches a model of 93 MB",
    "tools/setup --llama && cmake -B build -DMULTIDRAFT_BUILD_EXAMPLES=ON && cmake --build build --target llama-multidraft":
        "builds llama.cpp",
    "cmake -B build": "the test configure.default runs it",
    "cmake --preset tests": "the test configure.presets looks at what it sets",
    "cmake --build --preset tests": "what ctest runs in was built so",
    "ctest --preset tests": "it is what runs this test",
    "cmake --list-presets": "the test configure.presets runs it",
    "cmake --build build": "the test configure.default runs it",
    "cmake --build build --target answer_states": "what it makes is only used in training",
    'cmake --install build --prefix "$HOME/.local"': "the test configure.default runs it, elsewhere",
}
# Options that stand alone, and the file that must have them.
LLAMA = "build/examples/llama_cpp/llama-multidraft -m target.gguf -md draft.gguf "
OPTIONS_OF = {
    # Run by the test llama_cpp.program, where llama.cpp is there.
    LLAMA + '-p "And the LORD said" -n 128 --temp 0.7 --tree 2x1x1': "examples/llama_cpp/main.cpp",
    LLAMA + '-f question.txt --chat -sys "Be brief." --tree auto --stream': "examples/llama_cpp/main.cpp",
    LLAMA + "--prompt-file questions.txt --parallel 8 --chat --tree 2x1 --json": "examples/llama_cpp/main.cpp",
    'build/examples/llama_cpp/llama-multidraft -m FILE.gguf --chat -p "Why is the sky blue?" --method naive/lookup':
        "examples/llama_cpp/main.cpp",
    "--parallel": "examples/llama_cpp/main.cpp",
    "--tree auto": "examples/llama_cpp/main.cpp",
    "--tree": "examples/llama_cpp/main.cpp",
    "--budget": "examples/llama_cpp/main.cpp",
    "--costs": "examples/llama_cpp/main.cpp",
    "bench/run --only batch /V: bench/results/prepared_rows": "bench/run",
    "bench/run --only NAME REGEX DIRECTORY": "bench/run",
    "bench/padded --engine llama.cpp --llama-programs DIRECTORY": "bench/padded",
    "--target": "examples/tensor_parallel/main.cpp",
    "--tokens": "examples/tensor_parallel/main.cpp",
    "--draft": "examples/tensor_parallel/main.cpp",
    "--method": "examples/llama_cpp/main.cpp",
    "--compare": "examples/llama_cpp/main.cpp",
    "--draft-temp": "examples/llama_cpp/main.cpp",
    "examples/llama_cpp/to_gguf.py models/target target.gguf --type f32": "examples/llama_cpp/to_gguf.py",
    "--device cuda": "examples/generate/main.cpp",
    "bench/pictures --data": "bench/pictures",
    "bench/paper_tables sweep --prompts 12 --seeds 1": "bench/paper_tables",
    "bench/paper_tables NAME --prompts 16 --timed-prompts 8 --seeds 1": "bench/paper_tables",
    "bench/paper_tables chat --prompts 4": "bench/paper_tables",
    "bench/padded --prompts 2 --drafter models/block-drafter": "bench/padded",
    "bench/goodput --measure": "bench/goodput",
    "bench/padded --engine llama.cpp --llama-root DIRECTORY --llama-programs DIRECTORY": "bench/padded",
    "llama-multidraft --method autoregressive": "examples/llama_cpp/main.cpp",
    "--engine llama.cpp": "bench/padded",
    # With a chat model: run by the test examples.chat.
    **dict.fromkeys((
        'tools/demo --chat "Why is the sky blue?"', "tools/demo --chat", "generate --chat", "generate --draft", "generate --draft lookup",
        "generate --draft DIRECTORY", "generate --drafter independent", "generate --seed",
        'tools/demo --target FILE.gguf --prompt "The capital of France is" --tokens 12', "generate --tokens", "generate --precision", "generate --kv-cache",
        "generate --method autoregressive", "generate --method naive/lookup", "generate --system", "generate --tokenizer"), "examples/generate/main.cpp"),
    # Run by the tests of generate and of bench/paper_tables.
    **dict.fromkeys((
        "--beams", "--candidates K", "--costs FILE", "--draft-temperature 0", "--drafter DIRECTORY", "--drafter block", "--drafter eagle", "--joint-threshold",
        "--least", "--method auto", "--stop-below", "--stop-by probabilities", "--tree 4x2x2x1", "--tree best",
        "--tree eagle", "--tree fork:3x4", "--tree reach", "generate --compare --json",
        "--list-methods --drafter eagle", "generate --drafter DIRECTORY", "generate --drafter build/block",
        "generate --drafter build/eagle", "generate --drafter eagle", "generate --dump-decisions", "generate --json",
        "generate --method lossy/target_initialised --stop-by probabilities", "generate --perplexity",
        "generate --search", "generate --tree auto"), "examples/generate/main.cpp"),
    **dict.fromkeys(("bench/paper_tables --list", "bench/paper_tables NAME", "bench/paper_tables mcsd.table_2"), "bench/paper_tables"),
    "--layers": "models/train/pad.py",
    "--dim 256 --layers 8 --heads 4 --kv-heads 2 --ffn 688 --lr 2e-3 --seed 1": "models/train/train.py",
    "--dim 96 --layers 2 --heads 3 --kv-heads 1 --ffn 256 --lr 4e-3 --seed 2": "models/train/train.py",
    "models/train/prepare.py build/corpus": "models/train/prepare.py",
    **dict.fromkeys(("models/train/features.py models/target build/corpus build/features --kind sampled --chunks 40",
                     "models/train/features.py models/target build/corpus build/features --kind corpus --chunks 40",
                     "models/train/features.py models/target build/corpus build/features --kind held-out",
                     "models/train/features.py models/target build/corpus build/features --kind prompts"),
                    "models/train/features.py"),
    **dict.fromkeys(("models/train/train_drafter.py block models/target build/features build/block --steps 2400",
                     "models/train/train_drafter.py independent models/target build/features build/draft --steps 9000 --from models/draft",
                     "models/train/train_drafter.py independent models/target build/features build/draft --steps 24000",
                     "models/train/train_drafter.py eagle models/target build/features build/eagle --steps 7200"),
                    "models/train/train_drafter.py"),
    "models/train/check_block_drafter.py models/target build/block": "models/train/check_block_drafter.py",
    **dict.fromkeys(("models/train/chat_prompts.py build/answers/held_out.jsonl --from models/smollm-drafter/held_out.json",
                     "models/train/chat_prompts.py build/answers/prompts.jsonl --count 9000 --corpus build/corpus/train.txt",
                     "models/train/chat_prompts.py build/answers/more.jsonl --count 60000 --seed 3 --corpus build/corpus/train.txt"),
                    "models/train/chat_prompts.py"),
    **dict.fromkeys(("build/examples/answer_states GGUF build/answers/held_out.jsonl build/answers/held-out-1 --seed 2",
                     "build/examples/answer_states GGUF build/answers/prompts.jsonl build/answers/sampled-1 --seed 1",
                     "build/examples/answer_states GGUF build/answers/more.jsonl build/answers/more --only-prompts"),
                    "models/train/answer_states.cpp"),
    "models/train/train_drafter.py block GGUF build/answers build/smollm --steps 6000 --answers --taps 3 15 29 --draft-vocabulary 12288 "
    "--units 576 --rank 48 --depths 3 --early 0.4 --batch 8 --anchors 20 --lr 1.2e-3 --threads 2": "models/train/train_drafter.py",
    "models/train/train_on_device.py GGUF build/answers/more build/smollm-gpu --like build/smollm --answer-seconds 40 --train-seconds 130":
        "models/train/train_on_device.py",
    "models/train/train_on_device.py models/target build/features/sampled build/block --like models/block-drafter --documents build/features/documents.npz "
    "--device cpu --length 256 --wave 1024 --answer-seconds 300 --train-seconds 3000 --seed 2": "models/train/train_on_device.py",
    **dict.fromkeys(("models/train/measure_drafter.py block GGUF build/answers build/smollm-gpu --answers",
                     "models/train/measure_drafter.py block GGUF build/answers build/smollm-gpu --answers "
                     "--reference build/smollm-gpu/reference.json"), "models/train/measure_drafter.py"),
    **dict.fromkeys(("models/train/measure_drafter.py block models/target build/features build/block",
                     "models/train/measure_drafter.py block models/target build/features build/block "
                     "--reference build/block/reference.json"), "models/train/measure_drafter.py"),
    "--dim 48 --layers 1 --heads 2 --kv-heads 1 --ffn 128 --lr 6e-3 --seed 3": "models/train/train.py",
}
PROGRAMS = ("generate", "acceptance", "mpirun", "cmake", "ctest", "conan", "vcpkg", "c++", "g++", "clang++", "nvcc", "python3", "pip")


class Document:
    """A Markdown file in parts: blocks by language, and its text without them."""

    def __init__(self, path, root):
        self.path, self.root = path, root
        self.name = str(path.relative_to(root))
        self.text = path.read_text(encoding="utf-8")
        self.blocks = []  # language, first line, content
        prose = self.text
        for found in re.finditer(r"^```(\S*)\n(.*?)^```$", self.text, re.M | re.S):
            self.blocks.append((found[1], self.line(found.start(2)), found[2]))
            prose = prose.replace(found[0], "\n" * found[0].count("\n"), 1)
        self.prose = prose

    def line(self, at):
        return self.text.count("\n", 0, at) + 1

    def of(self, *languages):
        return [(line, content) for language, line, content in self.blocks if language in languages]

    def spans(self):
        """Code in the text, with its line."""
        for found in re.finditer(r"`([^`\n]+)`", self.prose):
            yield self.prose.count("\n", 0, found.start()) + 1, found[1]


def run(command, **how):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=300, **how)


# --- C++ and CUDA ----------------------------------------------------------------------------------------------------


def compile_and_run(document, line, block, compiler, work, include=None):
    """A block with a main is run as it is; others with the caller that is named for the function they define."""
    where = f"{document.name}:{line}"
    source = work / f"block_{document.path.stem}_{line}.cpp"
    text = f'#line {line} "{document.name}"\n{block}'
    if not re.search(r"^int main\(", block, re.M):
        names = re.findall(r"^[\w:<>]+(?: const&?)? (\w+)\(", block, re.M)
        callers = [HERE / "callers" / f"{name}.hpp" for name in names]
        found = next((caller for caller in callers if caller.exists()), None)
        if found is None:
            return [f"{where}: has no main, and tests/docs/callers has no caller for {' or '.join(names) or 'it'}"]
        text += f'\n#include "{found}"\n'
    source.write_text(text)
    program = source.with_suffix("")
    built = run([compiler, *WARNINGS, "-I", include or document.root / "include", source, "-o", program])
    if built.returncode != 0:
        return [f"{where}: does not compile\n{built.stderr}"]
    ran = run([program])
    return [] if ran.returncode == 0 else [f"{where}: fails when it is called: {ran.stdout}{ran.stderr}"]


def compile_cuda(document, line, block, options, work):
    """By the front end for device and host: code for a device would take a minute more and say nothing about the text."""
    source = work / f"block_{document.path.stem}_{line}.cu"
    source.write_text(f'#line {line} "{document.name}"\n{block}')
    host = ["-ccbin", options.nvcc_host] if options.nvcc_host else []
    built = run([options.nvcc, *host, "-std=c++20", "-dc", "-gencode", "arch=compute_90,code=lto_90", "--expt-relaxed-constexpr",
                 "--Werror=all-warnings", "-I", document.root / "include", source, "-o", source.with_suffix(".o")])
    return [] if built.returncode == 0 else [f"{document.name}:{line}: nvcc does not compile it\n{built.stderr}{built.stdout}"]


# --- Commands --------------------------------------------------------------------------------------------------------


def is_command(span):
    """Whether code in the text is something to type: an option, or a program with arguments."""
    if span.startswith("--"):
        return True
    first, _, rest = span.partition(" ")
    return bool(rest) and (first in PROGRAMS or re.fullmatch(r"(tools|bench|tests|examples|build)/[\w/.]+", first) is not None)


def commands_of(document):
    for line, block in document.of("sh", "bash", "console", "shell"):
        for number, text in enumerate(block.splitlines()):
            command = re.sub(r"\s+#.*", "", text).strip()
            if command:
                yield line + number, command
    for line, span in document.spans():
        if is_command(span) or span in TESTED:
            yield line, span


def missing_options(command, text):
    """Options of a command that a program's source or help does not name."""
    return [option for option in re.findall(r"--[a-z][\w-]*", command) if not re.search(re.escape(option) + r"\b", text)]


def known_command(root, name, line, command):
    faults = []
    if command in OPTIONS_OF:
        source = root / OPTIONS_OF[command]
        for option in missing_options(command, source.read_text(encoding="utf-8")):
            faults.append(f"{name}:{line}: {OPTIONS_OF[command]} has no option {option}")
    elif command not in TESTED and command not in UNTESTED:
        faults.append(f"{name}:{line}: `{command}` is neither run by this test (TESTED) nor excused with a reason (UNTESTED)")
    return faults


def run_command(root, command, places, here):
    """Runs what TESTED says, in the repository; a list of faults, or the reason why it was skipped."""
    parts = TESTED[command].split(" && ")
    for part in parts:
        for need in re.findall(r"\{(\w+)\}", part):
            if not places.get(need):
                return f"`{command}` ({need} is not here)"
        words = [word.format(**places) for word in shlex.split(part)]
        into = Path(words[-1]) if words[-2:-1] == [">"] else None
        done = run(words[:-2] if into else words, cwd=root)
        if done.returncode != 0:
            return [f"{here}: `{command}` fails: {shlex.join(words)}\n{done.stderr.strip() or done.stdout.strip()}"]
        if into:
            into.write_text(done.stdout)
    return []


def tables_are_current(document, generate):
    """Text that shows the head of a table has the columns that the program prints."""
    faults = []
    heads = [(line, block.splitlines()[0]) for line, block in document.of("text") if block.startswith("method ")]
    if heads:
        printed = run([generate, "--compare", *shlex.split(SHORT)]).stdout.splitlines()[0]
        for line, head in heads:
            if head.split() != printed.split():
                faults.append(f"{document.name}:{line}: `generate --compare` prints other columns: {printed}")
    return faults


# --- Python ----------------------------------------------------------------------------------------------------------

TORCH = """
import numpy
numpy.random.seed(1)
class tensor:
    def __init__(self, values): self.values = values
    def __getitem__(self, at): return tensor(self.values[at])
    def float(self): return tensor(self.values.astype(numpy.float32))
    def numpy(self): return self.values
class torch:
    @staticmethod
    def softmax(x, axis):
        e = numpy.exp(x.values - x.values.max(axis, keepdims=True))
        return tensor(e / e.sum(axis, keepdims=True))
class output:
    def __init__(self, logits): self.logits = logits
class model:
    def __init__(self, spread): self.spread = spread
    def __call__(self, ids): return output(tensor(self.spread * numpy.random.randn(1, len(ids[0]), 50)))
target, draft, ids = model(2.0), model(1.0), [[1] * 20]
"""


def python_block(document, line, block, python, work):
    script = work / f"block_{line}.py"
    script.write_text(f"{TORCH}{block}\nnumpy.save('logits.npy', 3 * numpy.random.randn(20, 50).astype('f4'))\n"
                      f"numpy.save('texts.npy', numpy.arange(len(numpy.load('p.npy'))) // 2)\n"
                      f"numpy.save('tree_rows.npy', numpy.full((3, 4), 0.25))\n"
                      f"numpy.save('parents.npy', numpy.array([-1, 0, 0]))\n"
                      f"numpy.save('certain.npy', numpy.array([1, 0, 0]))\n"
                      f"numpy.save('tokens.npy', numpy.array([0, 1, 3]))\n")
    done = run([python, script], cwd=work)
    if done.returncode != 0:
        return [f"{document.name}:{line}: fails\n{done.stderr}"]
    return [] if (work / "p.npy").exists() and (work / "q.npy").exists() else [f"{document.name}:{line}: writes no p.npy and q.npy"]


def prepare(work, root):
    """The files that commands read, apart from arrays."""
    (work / "cases.json").write_text(json.dumps({"cases": [{"p": [0.5, 0.3, 0.2], "q": [0.2, 0.3, 0.5], "n": 2}]}))
    trees = json.loads((root / "tests" / "data" / "golden_trees.json").read_text())
    (work / "trees.json").write_text(json.dumps({"cases": trees["cases"][:1]}))


# --- Links, paths, methods, version ----------------------------------------------------------------------------------


def anchors(text):
    found = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.M):
        found.add(re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-"))
    return found


def broken_links(document):
    faults = []
    for found in re.finditer(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)", document.prose):
        line, target = document.prose.count("\n", 0, found.start()) + 1, found[3]
        where = f"{document.name}:{line}"
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (document.path.parent / name).resolve() if name else document.path
        if not file.exists():
            faults.append(f"{where}: {target} is not there")
        elif anchor and anchor not in anchors(file.read_text(encoding="utf-8")):
            faults.append(f"{where}: {file.name} has no heading #{anchor}")
        elif found[1]:
            if not found[2]:
                faults.append(f"{where}: the picture {target} has no text for those who cannot see it")
            if file.suffix == ".svg":
                faults += [f"{where}: {target}: {fault}" for fault in faults_of_picture(file)]
    return faults


def faults_of_picture(file):
    try:
        xml.etree.ElementTree.parse(file)
    except xml.etree.ElementTree.ParseError as error:
        return [f"is no picture: {error}"]
    # The first thing that is painted is a white background: pages may be dark.
    first = re.search(r"<(rect|path)\b[^>]*>", file.read_text(encoding="utf-8"))
    return [] if first and re.search(r"fill(=\"|: )#fff(fff)?\b", first[0]) else ["has no background"]


def missing_paths(document, roots):
    """Code that looks like a path of the repository, or of a header, must be one."""
    faults = []
    for line, span in document.spans():
        if re.search(r"[\s*<>{}|,]|\.\.", span) or "/" not in span:
            continue
        first = span.split("/")[0]
        bases = [document.root, document.path.parent]
        if first == "build":
            continue  # made by a build
        if first in roots or re.fullmatch(r"[\w/]+\.(hpp|cuh)", span):
            bases += [document.root / "include", document.root / "include" / "multidraft"]
            if not any((base / span).exists() for base in bases):
                faults.append(f"{document.name}:{line}: {span} is not there")
    return faults


def missing_paths_of_sources(root):
    """Files that the comments of headers and examples name are there."""
    faults = []
    for path in sorted([*(root / "include").rglob("*.[hc][pu][ph]"), *(root / "examples").rglob("*.[hc]pp")]):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for named in re.findall(r"\b(?:tests|docs|bench|examples|tools|models)/[\w./-]*\w\.\w+", line):
                if not (root / named).exists():
                    faults.append(f"{path.relative_to(root)}:{number}: {named} is not there")
    return faults


def unknown_keys(text, keys):
    """Papers that comments cite by a key, such as [MCSD], that docs/references.md does not have."""
    cited = [key for line in re.findall(r"//.*", text) for key in re.findall(r"(?<!\[)\[([A-Z][A-Za-z]\w*(?:-\d)?)\](?!\])", line)]
    return sorted(set(cited) - set(keys))


def unknown_citations(root):
    keys = re.findall(r"^- \*\*\[([\w-]+)\]\*\*", (root / "docs/references.md").read_text(encoding="utf-8"), re.M)
    faults = []
    for path in sorted((root / "include").rglob("*.[hc][pu][ph]")):
        for key in unknown_keys(path.read_text(encoding="utf-8"), keys):
            faults.append(f"{path.relative_to(root)}: docs/references.md has no [{key}]")
    return faults


def method_tables(text):
    """Names in the first column of the tables of methods; "/iid" stands for the verifier before it with another law."""
    names, inside = [], False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) < 3:
            inside = False
        elif cells[1] == "method" and len(cells) > 4 and ("source" in cells):
            inside = True
        elif inside:
            verifier = None
            for name in re.findall(r"`([^`]+)`", cells[1]):
                if name.startswith("/"):
                    name = f"{verifier}{name}"
                verifier = name.split("/")[0]
                names.append(name)
    return names


def faults_of_methods(documents, listed):
    faults = []
    page = next(document for document in documents if document.name.endswith("methods.md"))
    shown = method_tables(page.text)
    if len(shown) != len(set(shown)):
        faults.append(f"{page.name}: methods that stand twice: {sorted({name for name in shown if shown.count(name) > 1})}")
    for name in sorted(set(listed) - set(shown)):
        faults.append(f"{page.name}: its tables lack the method {name} of `generate --list-methods`")
    for name in sorted(set(shown) - set(listed)):
        faults.append(f"{page.name}: `generate --list-methods` has no method {name}")
    verifiers = {name.split("/")[0] for name in listed if "/" in name}
    for document in documents:
        for line, span in document.spans():
            named = re.fullmatch(r"([a-z_]+)/[a-z_+]+", span)
            if named and named[1] in verifiers and span not in listed:
                faults.append(f"{document.name}:{line}: `generate` has no method {span}")
    return faults


def faults_of_version(changelog, header, readme):
    newest = re.search(r"^## \[(\d+\.\d+\.\d+)\]", changelog, re.M)
    parts = [re.search(rf"MULTIDRAFT_VERSION_{part} (\d+)", header)[1] for part in ("MAJOR", "MINOR", "PATCH")]
    version = ".".join(parts)
    faults = []
    if newest is None or newest[1] != version:
        faults.append(f"CHANGELOG.md: the newest version is {newest[1] if newest else 'missing'}, version.hpp says {version}")
    for found in re.findall(r"find_package\(multidraft (\d+\.\d+)", readme):
        if found != ".".join(parts[:2]):
            faults.append(f"README.md: find_package(multidraft {found}), but this is {version}")
    return faults


# --- All of it -------------------------------------------------------------------------------------------------------


def documents_of(root):
    return [Document(path, root) for pattern in FILES for path in sorted(root.glob(pattern))]


def python_with(module):
    for name in (sys.executable, "/usr/bin/python3"):
        if shutil.which(name) and run([name, "-c", f"import {module}"]).returncode == 0:
            return name
    return None


def check(root, options):
    faults, skipped, jobs = [], [], []
    documents = documents_of(root)
    roots = {path.name for path in root.iterdir() if path.is_dir() and not path.name.startswith(".")}
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        prepare(work, root)
        with_numpy = python_with("numpy")
        places = {"generate": options.generate, "acceptance": options.acceptance, "compiler": options.compiler, "work": name,
                  "arrays": name if with_numpy else None, "python": sys.executable, "python_with_numpy": with_numpy,
                  "python_with_matplotlib": python_with("matplotlib")}
        with ThreadPoolExecutor(2) as pool:
            for document in documents:
                for line, block in document.of("cuda"):
                    if options.nvcc:
                        jobs.append(pool.submit(compile_cuda, document, line, block, options, work))
                    else:
                        skipped.append(f"{document.name}:{line}: nvcc is not here")
                for line, block in document.of("cpp", "c++"):
                    jobs.append(pool.submit(compile_and_run, document, line, block, options.compiler, work))
                for line, block in document.of("python"):
                    if "import multidraft" in block:
                        continue  # run by the tests of the package
                    if with_numpy:
                        faults += python_block(document, line, block, with_numpy, work)
                    else:
                        skipped.append(f"{document.name}:{line}: NumPy is not here")
                faults += broken_links(document) + missing_paths(document, roots)
            faults += missing_paths_of_sources(root)
            faults += unknown_citations(root)
            tried = {}
            for document in documents:
                for line, command in commands_of(document):
                    faults += known_command(root, document.name, line, command)
                    if command in TESTED and command not in tried:
                        tried[command] = pool.submit(run_command, root, command, places, f"{document.name}:{line}")
            for command in [*TESTED, *UNTESTED]:
                if not any(command in (c for _, c in commands_of(document)) for document in documents):
                    print(f"note: no document has `{command}` any more")
            if options.generate:
                jobs += [pool.submit(tables_are_current, document, options.generate) for document in documents]
                listed = [one["name"] for one in json.loads(run([options.generate, "--list-methods", "--json"]).stdout)]
                faults += faults_of_methods(documents, listed)
            else:
                skipped.append("methods and columns: generate is not here")
            ran = len(tried)
            for job in [*jobs, *tried.values()]:
                found = job.result()
                if isinstance(found, str):
                    ran -= 1
                    skipped.append(found)
                else:
                    faults += found
    faults += faults_of_version((root / "CHANGELOG.md").read_text(), (root / "include/multidraft/version.hpp").read_text(),
                                (root / "README.md").read_text())
    for one in skipped:
        print(f"skipped: {one}")
    for fault in faults:
        print(fault)
    blocks = sum(len(document.blocks) for document in documents)
    print(f"{len(documents)} documents, {blocks} blocks, {ran} commands run, {len(skipped)} skipped, {len(faults)} faults")
    return 1 if faults else 0


def check_blocks(root, name, options):
    """The C++ blocks of a document alone, over headers elsewhere."""
    document = Document(root / name, root)
    blocks = document.of("cpp", "c++")
    with tempfile.TemporaryDirectory() as work:
        faults = [fault for line, block in blocks
                  for fault in compile_and_run(document, line, block, options.compiler, Path(work), options.include)]
    print(*faults, f"{name}: {len(blocks)} blocks, {len(faults)} faults", sep="\n")
    return 1 if faults or not blocks else 0


def self_test(compiler):
    """Plants a mistake of every kind and expects to be told of each, and of nothing in what is right."""
    root = HERE.parent.parent
    work = Path(tempfile.mkdtemp())
    try:
        def document(text):
            file = work / "page.md"
            file.write_text(text)
            made = Document(file, work)
            made.root = root
            return made

        def block(text):
            made = document(f"```cpp\n{text}\n```\n")
            (line, content), = made.of("cpp")
            return compile_and_run(made, line, content, compiler, work)

        right = '#include "multidraft/version.hpp"\nint main() { return MULTIDRAFT_VERSION_MAJOR; }'
        expectations = [
            ("a block that is right", block(right), ""),
            ("a name that is gone", block(right.replace("VERSION_MAJOR", "EDITION")), "does not compile"),
            ("a header that is gone", block(right.replace("version.hpp", "edition.hpp")), "does not compile"),
            ("a warning", block("int main() { int unused; }"), "does not compile"),
            ("a block that fails", block("int main() { return 3; }"), "fails when it is called"),
            ("a function without a caller", block("int nobody(int x) { return x; }"), "no caller"),
            ("a link that is right", broken_links(document("# A heading\n[to it](#a-heading), [and](page.md)")), ""),
            ("a link to nowhere", broken_links(document("[x](nowhere.md)")), "nowhere.md is not there"),
            ("a heading that is gone", broken_links(document("# A\n[x](#b)")), "no heading"),
            ("a picture that is gone", broken_links(document("![x](x.svg)")), "x.svg is not there"),
            ("a path that is gone", missing_paths(document("see `tests/nothing.py`"), {"tests"}), "tests/nothing.py"),
            ("a header in the text that is gone", missing_paths(document("see `core/nothing.hpp`"), {"tests"}), "core/nothing.hpp"),
            ("a path that is right", missing_paths(document("`tests/docs/snippets.py`, `group/group.hpp`"), {"tests"}), ""),
        ]
        (work / "clear.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"><rect fill="#000000"/></svg>')
        expectations.append(("a picture without a background", broken_links(document("![x](clear.svg)")), "no background"))
        unknown = [known_command(root, "page.md", line, command)
                   for line, command in commands_of(document("```sh\ntools/dance\n```\n`generate --faster` and `generate`\n"))]
        expectations += [("an unknown command", unknown[0], "`tools/dance`"), ("an unknown option", unknown[1], "`generate --faster`"),
                         ("only these two", [str(len(unknown))], "2")]
        expectations.append(("an option that is gone", missing_options("--one 1 --two", "--one --twofold"), "--two"))
        broken = run_command(root, "tools/demo", {"generate": "false"}, "page.md:1")
        expectations += [("a command that fails", broken, "fails"),
                         ("a program that is not here", [run_command(root, "tools/demo", {}, "page.md:1")], "is not here")]
        table = "| method | candidates | source |\n|---|---|---|\n| `a/x`, `/y` | | |\n| `b` | | |\n"
        (work / "methods.md").write_text(table)
        methods = [Document(work / "methods.md", work)]
        expectations += [("methods that are right", faults_of_methods(methods, ["a/x", "a/y", "b"]), ""),
                         ("a method that is missing", faults_of_methods(methods, ["a/x", "a/y", "b", "c"]), "lack the method c"),
                         ("a method too many", faults_of_methods(methods, ["a/x", "b"]), "no method a/y")]
        expectations += [("a paper that is cited", unknown_keys("/// so ([MCSD] Alg. 1) [[nodiscard]]", ["MCSD"]), ""),
                         ("a paper that is not there", unknown_keys("// so ([Nobody24])", ["MCSD"]), "Nobody24")]
        header = "MULTIDRAFT_VERSION_MAJOR 1\nMULTIDRAFT_VERSION_MINOR 2\nMULTIDRAFT_VERSION_PATCH 3\n"
        expectations += [("a version that is right", faults_of_version("## [Unreleased]\n## [1.2.3]\n## [1.2.2]", header, ""), ""),
                         ("a version that is old", faults_of_version("## [1.2.2]", header, ""), "1.2.2"),
                         ("a package version", faults_of_version("## [1.2.3]", header, "find_package(multidraft 0.1)"), "0.1")]
        wrong = 0
        for what, found, wanted in expectations:
            said = "\n".join(found)
            if (said == "") if wanted == "" else (wanted in said):
                continue
            wrong += 1
            print(f"{what}: expected {wanted!r}, got {said!r}")
        print(f"{len(expectations)} planted, {wrong} wrong")
        return 1 if wrong else 0
    finally:
        shutil.rmtree(work)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=HERE.parent.parent)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--generate", default="")
    parser.add_argument("--acceptance", default="")
    parser.add_argument("--nvcc", default="")
    parser.add_argument("--nvcc-host", default="", help="nvcc's compiler for the host")
    parser.add_argument("--blocks", default="", metavar="NAME", help="only the C++ blocks of this document")
    parser.add_argument("--include", type=Path, help="with --blocks: the headers, if not those of ROOT")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        sys.exit(self_test(options.compiler))
    if options.blocks:
        sys.exit(check_blocks(options.root.resolve(), options.blocks, options))
    sys.exit(check(options.root.resolve(), options))


if __name__ == "__main__":
    main()
