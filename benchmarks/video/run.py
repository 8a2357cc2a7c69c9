"""Frames a second from an H.264 clip to tracks: endcap's command beside its peers.

All run on the same two CPUs, one after the other, the Triton server of endcap among them. Starting
Python, the server and networks does not count.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.paths import BUILD, ROOT
from benchmarks.server_process import ServerPartError
from benchmarks.timing import cpu_count, cpus

CPUS = 2
FOLDER = BUILD / "bench-video"
# Trained to see what is in the clips, and small: what is around the network counts for more.
SHAPES = ROOT / "model_repository" / "detector" / "1" / "model.onnx"
OURS = "endcap infer --track"
OURS_SHARED = "endcap infer --track --shm system"
FLOOR = "ONNX Runtime, the network alone"
NAMES = {
    "opencv": "OpenCV, ONNX Runtime, ultralytics' tracker",
    "ultralytics": "ultralytics, model.track",
    "network": FLOOR,
}
_SAME_IOU = 0.8
_LEAST_AGREEMENT = 0.9  # shares of boxes: pixels differ by how chroma is enlarged


@dataclass(frozen=True)
class Plan:
    """What is measured: width and height of clips, their frames, rounds, and names of networks."""

    networks: tuple[str, ...] = ("yolo11n", "shapes")
    sizes: tuple[tuple[int, int], ...] = ((1280, 720), (1920, 1080))
    frames: int = 300
    rounds: int = 3


COMPLETE = Plan()
QUICK = Plan(sizes=((1280, 720),), frames=60, rounds=1)


@dataclass(frozen=True)
class Speed:
    """Frames a second of one way; None where it was not measured, for the reason in `note`."""

    frames_per_second: float | None
    low: float | None
    high: float | None
    note: str


@dataclass(frozen=True)
class Clip:
    """One clip, its speeds by name, and how many times endcap's speed is theirs."""

    name: str
    network: str
    frames: int
    boxes_per_frame: float
    speeds: dict[str, Speed]
    ratios: dict[str, float]


def steps(plan: Plan) -> int:
    """How often `run` will say that something is done."""
    return len(plan.sizes) + len(plan.networks) * (2 + len(NAMES))


def run(plan: Plan, server_python: Path, done: Callable[[str], None]) -> list[Clip]:
    """Make clips and network, run each way by itself, and compare. Raises ServerPartError."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    clips = []
    for width, height in plan.sizes:
        clip = FOLDER / f"{width}x{height}_{plan.frames}.mp4"
        if not clip.exists():
            arguments = ["clip", clip, width, height, plan.frames]
            _python(server_python, "benchmarks.video.served", arguments)
        clips.append(clip)
        done(clip.name)
    results = []
    for name in plan.networks:
        network = FOLDER / f"{name}.onnx"
        if name == "shapes":
            network.write_bytes(SHAPES.read_bytes())
        elif not network.exists():
            arguments = [clips[0].with_suffix(".png"), network]
            _python(Path(sys.executable), "benchmarks.video.network", arguments)
        done(network.name)
        results += _measure(network, clips, plan.rounds, server_python, done)
    return results


def _measure(
    network: Path, clips: list[Path], rounds: int, server_python: Path, done: Callable[[str], None]
) -> list[Clip]:
    with cpus(min(CPUS, cpu_count())):
        arguments = ["infer", network, rounds, *clips]
        ours = _measured(server_python, "benchmarks.video.served", arguments)
        done(OURS)
        theirs: dict[str, Any] = {}
        for name in NAMES:
            try:
                arguments = [name, network, rounds, *clips]
                theirs[name] = _measured(Path(sys.executable), "benchmarks.video.peers", arguments)
            except ServerPartError as error:
                theirs[name] = str(error)
            done(NAMES[name])
    return [_compared(clip.name, network.stem, ours, theirs) for clip in clips]


def _compared(clip: str, network: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Clip:
    expected = ours[clip]["frames"]
    boxes = sum(map(len, expected))
    speeds = {
        OURS: _speed(ours[clip]["frames_per_second"], f"{boxes} boxes"),
        OURS_SHARED: _speed(ours[clip]["by_shared_memory"], "the same"),
    }
    for key, name in NAMES.items():
        measured = theirs[key]
        if isinstance(measured, str):
            speeds[name] = Speed(None, None, None, measured)
            continue
        if name == FLOOR:
            speeds[name] = _speed(measured[clip]["frames_per_second"], "the floor of all")
            continue
        share = agreement(expected, measured[clip]["frames"])
        note = f"{share:.1%} of the boxes are the same"
        if share < _LEAST_AGREEMENT:
            speeds[name] = Speed(None, None, None, f"not verified: {note}")
        else:
            speeds[name] = _speed(measured[clip]["frames_per_second"], note)
    base = speeds[OURS].frames_per_second or 0.0
    ratios = {
        name: base / speed.frames_per_second
        for name, speed in speeds.items()
        if speed.frames_per_second
    }
    return Clip(clip, network, len(expected), boxes / max(1, len(expected)), speeds, ratios)


def agreement(ours: list[Any], theirs: list[Any]) -> float:
    """Return the share of boxes, of both, that have a counterpart with an IoU of 0.8 in a frame.

    Tracks that ultralytics returns hold the filter's boxes, and no boxes without a track.
    """
    if len(ours) != len(theirs):
        return 0.0
    counts = [_matched(np.array(a), np.array(b)) for a, b in zip(ours, theirs, strict=True)]
    total = sum(map(len, ours)) + sum(map(len, theirs))
    return 2 * sum(counts) / total if total else 0.0


def _matched(ours: Any, theirs: Any) -> int:
    if not len(ours) or not len(theirs):
        return 0
    low = np.maximum(ours[:, None, :2], theirs[None, :, :2])
    high = np.minimum(ours[:, None, 2:4], theirs[None, :, 2:4])
    shared = np.prod(np.maximum(high - low, 0), axis=2)
    areas = [np.prod(each[:, 2:4] - each[:, :2], axis=1) for each in (ours, theirs)]
    iou = shared / np.maximum(areas[0][:, None] + areas[1][None] - shared, 1e-9)
    return int(min((iou.max(axis=1) > _SAME_IOU).sum(), (iou.max(axis=0) > _SAME_IOU).sum()))


def _speed(measured: list[float], note: str) -> Speed:
    return Speed(statistics.median(measured), min(measured), max(measured), note)


def _measured(python: Path, module: str, arguments: list[Any]) -> dict[str, Any]:
    output = FOLDER / "measured.json"
    _python(python, module, [arguments[0], output, *arguments[1:]])
    found: dict[str, Any] = json.loads(output.read_text())
    return found


def _python(python: Path, module: str, arguments: list[Any]) -> None:
    command = [str(python), "-m", module, *map(str, arguments)]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        last = (finished.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise ServerPartError(f"{module} failed: {last}")
