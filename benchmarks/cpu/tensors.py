"""Files to tensors: latency and peak memory of each peer.

A peer with the same arithmetic must return the same 8-bit steps: none off by more than MAX_STEPS,
and EQUAL_SHARE of them equal, since libraries choose their code by CPU. One that resizes or decodes
by another definition must return the same picture, by its own PSNR.

`python -m benchmarks.cpu.tensors PEER FILE` prints the bytes of memory that one call takes.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import ROOT
from benchmarks.cpu.peers import DECODE_ALONE, EXACT, FAST, PEERS, SIZE, Run, decode_alone, endcap
from benchmarks.images import Photograph
from benchmarks.results import Table
from benchmarks.timing import (
    Budget,
    Case,
    Entry,
    Figure,
    geometric_mean,
    load,
    measure,
    one_cpu,
    summarize,
)

MAX_STEPS = 1
EQUAL_SHARE = 0.999


@dataclass(frozen=True)
class Agreement:
    """How close two tensors are, in 8-bit steps (0 to 255)."""

    passed: bool
    share: float  # of the values that differ
    largest: int
    psnr_db: float

    @property
    def text(self) -> str:
        """Return a note."""
        if self.share == 0:
            return "equal"
        return f"{self.share:.3%} differ, at most {self.largest}, {self.psnr_db:.1f} dB"


def compare(tensor: Any, reference: Any, psnr_db: float | None) -> Agreement:
    """Compare a tensor with endcap's; with psnr_db None most steps must be equal.

    Raises:
        ValueError: The tensor is not a finite float32 [3, SIZE, SIZE].
    """
    pair = [np.asarray(each) for each in (tensor, reference)]
    for each in pair:
        if each.shape != (3, SIZE, SIZE) or each.dtype != np.float32:
            raise ValueError(f"a peer returned {each.dtype} {list(each.shape)}")
        if not np.isfinite(each).all():
            raise ValueError("a peer returned values that are not finite")
    steps = np.abs(np.rint(255 * pair[0]) - np.rint(255 * pair[1]))
    share, largest = np.count_nonzero(steps) / steps.size, int(steps.max())
    mean_square = float(np.square(steps, dtype=np.float64).mean())
    found_db = float(10 * np.log10(255**2 / mean_square)) if mean_square else float("inf")
    if psnr_db is None:
        passed = largest <= MAX_STEPS and share <= 1 - EQUAL_SHARE
    else:
        passed = found_db >= psnr_db
    return Agreement(passed, share, largest, found_db)


def latency(
    images: Sequence[Photograph], budget: Budget, say: Callable[[str], None]
) -> list[Table]:
    """Time every peer on every image, on one CPU; return the times and their ratios."""
    columns = [*PEERS, DECODE_ALONE]
    times = Table("JPEG to 640x640 tensor", "ms", columns)
    verified: dict[str, list[Agreement]] = {name: [] for name in PEERS}
    with one_cpu():
        runs = {name: load(peer.make) for name, peer in PEERS.items()}
        floor = load(decode_alone)
        for image in images:
            entries: dict[str, Entry] = {}
            for name, run in runs.items():
                entries[name] = _entry(name, run, image, verified[name])
            entries[DECODE_ALONE] = floor if isinstance(floor, str) else _case(floor, image)
            times.rows[image.name] = list(measure(entries, budget).values())
            for name, entry in entries.items():
                if isinstance(entry, str) and entry:
                    absent = entry is runs.get(name)
                    times.notes[name if absent else f"{image.name}, {name}"] = entry
            say(image.name)
    for name, agreements in verified.items():
        if agreements:
            times.notes.setdefault(name, min(agreements, key=lambda each: each.psnr_db).text)
    by_size = sorted(images, key=lambda image: image.width * image.height)
    places = sorted({0, len(by_size) // 2, len(by_size) - 1})
    times.drawn = [by_size[place].name for place in places]
    return [_ratios(times), times]


def _entry(name: str, run: Run | str, image: Photograph, verified: list[Agreement]) -> Entry:
    """Return the case, or why there is none: "" where the image is too small for the peer."""
    peer = PEERS[name]
    if isinstance(run, str):
        return run
    if max(image.width, image.height) < peer.min_side:
        return ""
    encoded = image.encoded
    reference = _reference(tuple(peer.reference.items()))
    agreement = compare(run(encoded), reference(encoded), peer.psnr_db)
    if not agreement.passed:
        return f"not verified: {agreement.text}"
    verified.append(agreement)
    return _case(run, image)


def _case(run: Run, image: Photograph) -> Case:
    encoded = image.encoded
    return Case(run, prepare=lambda: encoded)


@cache
def _reference(parameters: tuple[tuple[str, object], ...]) -> Run:
    return endcap(**dict(parameters))


def _ratios(times: Table) -> Table:
    """Return geometric means over the images of time / endcap's time, with their range."""
    title = f"Time / endcap's time, mean of {len(times.rows)} photographs"
    table = Table(title, "x", times.columns, drawn=["exact"])
    for name, column in (("exact", EXACT), ("fast", FAST)):
        base = times.columns.index(column)
        table.rows[name] = []
        for index in range(len(times.columns)):
            ratios = [
                theirs.median / ours.median
                for row in times.rows.values()
                if (theirs := row[index]) and (ours := row[base])
            ]
            table.rows[name].append(
                Figure(geometric_mean(ratios), min(ratios), max(ratios)) if ratios else None
            )
    return table


def two_threads(images: Sequence[Photograph], budget: Budget) -> Table:
    """Time endcap with one image a call on one thread and on two, on all CPUs."""
    import endcap as library

    table = Table("endcap, one image a call", "ms", ["1 thread", "2 threads"])
    for image in images:
        encoded = [image.encoded]
        ways = [library.Preprocessor(size=SIZE, threads=threads) for threads in (1, 2)]
        first, second = (way(encoded).images for way in ways)
        if not np.array_equal(first, second):
            table.notes[image.name] = "not verified: the tensors differ"
            continue
        out = np.empty_like(first)
        entries: dict[str, Entry] = {
            str(index): Case(partial(way, encoded, out=out)) for index, way in enumerate(ways)
        }
        table.rows[image.name] = list(measure(entries, budget).values())
    return table


def memory(image: Photograph, peers: Sequence[str] = tuple(PEERS)) -> Table:
    """Return the peak of the first call over the idle process, each peer in a fresh process."""
    title = f"Peak memory over the idle process, first call, {image.name}"
    table = Table(title, "MiB", list(peers), {"peak": []})
    for name in peers:
        command = [sys.executable, "-m", "benchmarks.cpu.tensors", name, str(image.path)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            table.rows["peak"].append(summarize([int(done.stdout.split()[-1]) / 2**20]))
        else:
            table.rows["peak"].append(None)
            table.notes[name] = (done.stderr.strip().splitlines() or ["no message"])[-1]
    return table


def _measure_memory(name: str, path: Path) -> int:
    run = load(PEERS[name].make)
    if isinstance(run, str):
        raise SystemExit(run)
    encoded = path.read_bytes()
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM starts again from what is in use now
    idle = _resident("VmRSS")
    run(encoded)
    return _resident("VmHWM") - idle


def _resident(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


if __name__ == "__main__":
    print(_measure_memory(sys.argv[1], Path(sys.argv[2])))
