"""Clips, and `endcap infer` on them with a server of its own; runs where that is installed.

python -m benchmarks.video.served clip CLIP.mp4 WIDTH HEIGHT FRAMES
python -m benchmarks.video.served infer OUTPUT.json NETWORK.onnx ROUNDS CLIP.mp4...
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from endcap.cli import moving_shapes
from endcap.server import ServerPorts, ServerSettings, TritonServer
from endcap.video import VideoWriter

CONCURRENCY = 4
_RATE = re.compile(r"([\d.]+)/s$")
_MADE = {"preset": "medium", "crf": "21"}  # as cameras and encoders for the web have them


def make_clip(path: Path, width: int, height: int, frames: int) -> None:
    """Write a clip of moving shapes; beside it its first frame, CLIP.png."""
    ground = None
    with VideoWriter(path, frame_rate=moving_shapes.FRAME_RATE, options=_MADE) as writer:
        seconds = frames / moving_shapes.FRAME_RATE
        for number, (time, pixels) in enumerate(moving_shapes.frames(seconds)):
            large = Image.fromarray(pixels).resize((width, height), Image.Resampling.BICUBIC)
            if ground is None:
                ground = np.random.default_rng(0).normal(0, 4, (height, width, 1))
            noisy = np.clip(np.asarray(large) + np.roll(ground, number * 7, 1), 0, 255)
            writer.write(noisy.astype(np.uint8), time)
            if not number:
                Image.fromarray(noisy.astype(np.uint8)).save(path.with_suffix(".png"))


def infer(network: Path, clips: list[Path], rounds: int) -> dict[str, Any]:
    """Return for each clip its results, and frames a second of each round."""
    with tempfile.TemporaryDirectory(prefix="endcap-bench-") as scratch:
        repository = Path(scratch) / "models"
        command = [sys.executable, "-m", "endcap", "init", str(network), "-o", str(repository)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        ports = ServerPorts(http=0, grpc=0, metrics=0)
        settings = ServerSettings(ports=ports, client_shared_memory=True)
        with TritonServer(repository, settings) as server:
            url = server.grpc_url
            return {
                clip.name: {
                    "frames": _results(clip, url),
                    "frames_per_second": [_speed(clip, url) for _ in range(rounds)],
                    "by_shared_memory": [
                        _speed(clip, url, "--shm", "system") for _ in range(rounds)
                    ],
                }
                for clip in clips
            }


def _results(clip: Path, url: str) -> list[Any]:
    """Return boxes and ids of each frame; the server is warm then."""
    lines = _endcap(clip, url, "--json").splitlines()
    return [
        [[*each["box"], each["score"], each.get("track_id", -1)] for each in row["detections"]]
        for row in map(json.loads, lines)
    ]


def _speed(clip: Path, url: str, *options: str) -> float:
    """Return the frames a second that the command says."""
    found = [_RATE.search(line) for line in _endcap(clip, url, *options).splitlines()]
    return next(float(match[1]) for match in found if match)


def _endcap(clip: Path, url: str, *options: str) -> str:
    command = [sys.executable, "-m", "endcap", "infer", str(clip), "--url", url, "--track"]
    command += ["--concurrency", str(CONCURRENCY), *options]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main(what: str, *arguments: str) -> None:
    """Run a part."""
    if what == "clip":
        make_clip(Path(arguments[0]), *map(int, arguments[1:]))
        return
    output, network, rounds, *clips = arguments
    measured = infer(Path(network), [Path(clip) for clip in clips], int(rounds))
    Path(output).write_text(json.dumps(measured))


if __name__ == "__main__":
    main(*sys.argv[1:])
