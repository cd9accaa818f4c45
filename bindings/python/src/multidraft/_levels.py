"""Which compiled module the processor runs, where the package has several: wheels have those of x86-64-v2, v3 and v4."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable
from types import ModuleType

# What a level has and the one before has not, by the names of /proc/cpuinfo.
_NEEDED = {"v3": {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"},
           "v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}}


def level_of(flags: Iterable[str]) -> str:
    """The widest level of x86-64 of a processor with these flags."""
    found, flags = "v2", set(flags)
    for level, needed in _NEEDED.items():
        if not needed <= flags:
            break
        found = level
    return found


def flags_here() -> list[str]:
    """Those of this processor; none where they cannot be read."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next((line.split(":", 1)[1].split() for line in lines if line.startswith("flags")), [])
    except OSError:
        return []


def load() -> ModuleType:
    """The module `_core`. MULTIDRAFT_LEVEL=v2, v3 or v4 in the environment names its level, where there are several."""
    package = __package__
    others = [level for level in ("v2", "v4") if importlib.util.find_spec(f"{package}._core_{level}")]
    if not others:
        return importlib.import_module(f"{package}._core")
    level = os.environ.get("MULTIDRAFT_LEVEL") or level_of(flags_here())
    if level == "v4" and "v4" not in others:
        level = "v3"
    if level not in ("v3", *others):
        raise ImportError(f"multidraft: this build has no module for x86-64-{level}; it has {', '.join(sorted(['v3', *others]))}")
    module = importlib.import_module(f"{package}._core" if level == "v3" else f"{package}._core_{level}")
    sys.modules[f"{package}._core"] = module
    return module
