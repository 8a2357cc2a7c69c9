"""Peak memory of one call over the idle process, each peer in a fresh process."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.images import Photograph
from benchmarks.paths import ROOT
from benchmarks.preprocess.peers import PEERS
from benchmarks.timing import load

_STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class Memory:
    """Bytes of one peer: resident before its first call, and the most during it, above that."""

    idle_bytes: int | None
    peak_over_idle_bytes: int | None
    note: str


def run(image: Photograph) -> dict[str, Memory]:
    """Start one process a peer; its first call includes buffers and the tensor of 4.9 MB."""
    return {peer.name: run_one(peer.name, image.path) for peer in PEERS}


def measure_here(name: str, path: Path) -> Memory:
    """Return the measurement itself, for a process that has done nothing else."""
    (peer,) = (each for each in PEERS if each.name == name)
    single = load(peer.single)
    if not callable(single):
        return Memory(None, None, single.outcome)
    encoded = path.read_bytes()
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM starts again from what is in use now
    idle = _resident("VmRSS")
    single(encoded)
    return Memory(idle, _resident("VmHWM") - idle, "one call in a fresh process")


def run_one(name: str, path: Path) -> Memory:
    """One peer on one image file, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.preprocess.memory", name, str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return Memory(None, None, f"the process failed: {last}")
    return Memory(**json.loads(done.stdout.splitlines()[-1]))


def _resident(field: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


if __name__ == "__main__":
    print(json.dumps(vars(measure_here(sys.argv[1], Path(sys.argv[2])))))
