"""Where the chat model of `tools/setup --smollm` is."""
import os
from pathlib import Path

MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL_FILE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "multidraft" / "smollm" / MODEL
