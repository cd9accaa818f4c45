"""The shipped pair at the cost of larger models: which sizes there are, and the models, made by models/train/pad.py."""
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
MODELS = ROOT / "build" / "padded" / "models"
# Size: presets of pad.py for target and draft; None for the shipped models.
SIZES = {"shipped": (None, None), "60m": ("60m", None), "300m": ("300m", "draft-8m"), "1b": ("1b", "draft-15m")}


def padded(source, directory, preset):
    """Makes `directory` from the model in `source` where it is not there yet, or older."""
    made = directory / "config.json"
    if not made.exists() or made.stat().st_mtime < (source / "model.safetensors").stat().st_mtime:
        subprocess.run([sys.executable, ROOT / "models" / "train" / "pad.py", source, directory, "--preset", preset], check=True)
    return directory


def models_of(size, models=MODELS):
    """The directories of target and draft, made in `models` where they are not there yet."""
    shipped = [ROOT / "models" / source for source in ("target", "draft-distilled")]
    return [padded(source, Path(models) / f"{source.name}-{preset}", preset) if preset else source
            for source, preset in zip(shipped, SIZES[size])]


def block_drafter_of(size, source, models=MODELS):
    """The directory of a block drafter of that target, made in `models` from one of the shipped target."""
    preset = SIZES[size][0]
    return padded(Path(source), Path(models) / f"{Path(source).name}-{preset}", preset) if preset else Path(source)


def gguf_of(directory, llama_root=None, models=MODELS):
    """The model's file for llama.cpp, BF16, made where it is not there yet, or older, by the Python of `llama_root`."""
    made = Path(models) / f"{directory.name}.gguf"
    if not made.exists() or made.stat().st_mtime < (Path(directory) / "model.safetensors").stat().st_mtime:
        made.parent.mkdir(parents=True, exist_ok=True)
        part = made.with_suffix(".part")
        subprocess.run([Path(llama_root) / "bin" / "python3" if llama_root else sys.executable, ROOT / "examples" / "llama_cpp" / "to_gguf.py",
                        directory, part, "--type", "bf16", "--tokenizer", ROOT / "models" / "tokenizer.model"], check=True)
        part.rename(made)
    return made
