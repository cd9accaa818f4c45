"""The shipped pair at the cost of larger models: which sizes there are, and the models, made by models/train/pad.py."""
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
MODELS = ROOT / "build" / "padded" / "models"
# Size: presets of pad.py for target and draft; None for the shipped models.
SIZES = {"shipped": (None, None), "60m": ("60m", None), "300m": ("300m", "draft-8m"), "1b": ("1b", "draft-15m")}


def models_of(size, models=MODELS):
    """The directories of target and draft, made in `models` where they are not there yet."""
    found = []
    for source, preset in zip(("target", "draft"), SIZES[size]):
        shipped = ROOT / "models" / source
        directory = Path(models) / f"{source}-{preset}" if preset else shipped
        if not (directory / "config.json").exists():
            subprocess.run([sys.executable, ROOT / "models" / "train" / "pad.py", shipped, directory, "--preset", preset], check=True)
        found.append(directory)
    return found
