"""Where the chat model of `tools/setup --smollm` is."""
import os
from pathlib import Path

MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
CACHE = os.environ.get("XDG_CACHE_HOME", "")  # a relative path is ignored, as tools/setup does
MODEL_FILE = (Path(CACHE) if os.path.isabs(CACHE) else Path.home() / ".cache") / "multidraft" / "smollm" / MODEL
