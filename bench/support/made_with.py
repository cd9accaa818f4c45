"""What results are made with: the processor, the commit, the command, the first line that a tool prints."""
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCES = ("include", "examples", "bench", ":!bench/results")


def first_line(command):
    """What the command prints first, in the repository; "unknown" where it fails or is missing."""
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return done.stdout.splitlines()[0].strip() if done.returncode == 0 and done.stdout else "unknown"


def processor():
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")


def commit():
    """The short hash."""
    return first_line(["git", "rev-parse", "--short", "HEAD"])


def commit_of_sources():
    """The short hash of the last commit that changed what programs are made of, with "(changed)" where they differ from it."""
    changed = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", *SOURCES], cwd=ROOT, check=False).returncode != 0
    return first_line(["git", "log", "-1", "--format=%h", "--", *SOURCES]) + (" (changed)" if changed else "")


def commit_and_changes():
    """The whole hash, with "(changed)" where the sources differ from it."""
    unchanged = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", *SOURCES], cwd=ROOT, check=False).returncode == 0
    return first_line(["git", "rev-parse", "HEAD"]) + ("" if unchanged else " (changed)")


def command():
    """The command that runs, as from the root of the repository; paths outside it by their last part."""
    def shown(argument):
        path = Path(argument).resolve()
        if not path.exists():
            return argument
        return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name
    return " ".join(map(shown, sys.argv))


def write_made_with(out, cores=""):
    """Writes made_with.txt. `cores`: what there is to say of the cores."""
    (out / "made_with.txt").write_text(f"processor: {processor()}, {os.cpu_count()} cores{cores}\ncommit: {commit()}\ncommand: {command()}\n",
                                       encoding="utf-8")
