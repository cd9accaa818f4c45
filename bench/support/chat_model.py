"""The chat model of `tools/setup --smollm`: where it is, its drafter, and questions that no drafter was trained on."""
import json
import os
from pathlib import Path

MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
CACHE = os.environ.get("XDG_CACHE_HOME", "")  # a relative path is ignored, as tools/setup does
MODEL_FILE = (Path(CACHE) if os.path.isabs(CACHE) else Path.home() / ".cache") / "multidraft" / "smollm" / MODEL
DRAFTER = Path(__file__).resolve().parent.parent.parent / "models" / "smollm-drafter"


def held_out_questions(count):
    """{kind: [question]}, so many of each kind."""
    found = {}
    for one in json.loads((DRAFTER / "held_out.json").read_text(encoding="utf-8")):
        found.setdefault(one["kind"], []).append(one["prompt"])
    return {kind: of_kind[:count] for kind, of_kind in found.items()}
