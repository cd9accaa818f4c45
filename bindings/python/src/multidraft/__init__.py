"""Multi-candidate (tree) speculative decoding: draft trees, their verification, acceptance rates and proofs.

    tree = multidraft.Tree.branching([3, 1])
    text = multidraft.speculate("recursive_rejection/sequential", tree, target, draft, [1, 2, 3], tokens=100)
    text.tokens, text.block_efficiency

where `target` and `draft` are functions from a list of token lists to an array (len, V) of logits. `speculate` consists
of two steps: `draft` draws children from rows of logits, and `verify` accepts a path through a tree, or a batch of trees.
`multidraft.analysis` has acceptance rates and bounds, `multidraft.proof` the exact law of a verifier written in Python.
`multidraft.cuda` has both steps for arrays in device memory. `multidraft.hf` generates with models of Hugging Face transformers, `multidraft.torch` has PyTorch's operators.

Invalid arguments raise `InvalidInput`, a `ValueError` that names argument, index and value.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import cuda, hf, torch
else:
    from . import _levels

    _core = _levels.load()  # before the modules that import it

from . import analysis, proof
from ._core import version as _version
from ._errors import InvalidInput
from .batch import PADDING, SUPPORT_ENDED, Children, DraftedTree, Verdict, compact, distributions, draft, verify
from .candidates import Candidates
from .controller import Controller
from .methods import Law, Method, law, laws, method, methods
from .speculate import BlockDraft, Generation, draft_tree, speculate
from .step import Step, StepInputs, StepResult
from .tree import Tree

__version__ = ".".join(str(_version() // 100**k % 100) for k in (2, 1, 0))

__all__ = [
    "BlockDraft",
    "Candidates",
    "Children",
    "Controller",
    "DraftedTree",
    "Generation",
    "InvalidInput",
    "Law",
    "Method",
    "PADDING",
    "SUPPORT_ENDED",
    "Step",
    "StepInputs",
    "StepResult",
    "Tree",
    "Verdict",
    "analysis",
    "compact",
    "distributions",
    "draft",
    "draft_tree",
    "law",
    "laws",
    "method",
    "methods",
    "proof",
    "speculate",
    "verify",
]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        # PyTorch and CUDA are not always there, so these are imported on first use.
        if name in ("cuda", "hf", "torch"):
            return importlib.import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
