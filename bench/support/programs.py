"""Programs of the examples, built for measurements."""
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build" / "bench"


def build_program(target, log, settings=()):
    """Builds a target in `BUILD`, optimised and without backends; the output goes to `log`. Ends the program where that fails."""
    BUILD.mkdir(parents=True, exist_ok=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    configure = ["cmake", "-S", ROOT, "-B", BUILD, "-DCMAKE_BUILD_TYPE=Release", "-DMULTIDRAFT_BUILD_EXAMPLES=ON",
                 "-DMULTIDRAFT_CUDA=OFF", "-DMULTIDRAFT_KOKKOS=OFF", "-DMULTIDRAFT_MPI=OFF", *settings]
    with log.open("w") as out:
        for command in (configure, ["cmake", "--build", BUILD, "--target", target, "--parallel", str(os.cpu_count())]):
            if subprocess.run(command, stdout=out, stderr=out).returncode != 0:
                sys.exit(f"{Path(sys.argv[0]).name}: the build failed; the output is in {log}")
