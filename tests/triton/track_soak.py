"""Soak test of tracking on the real server: many frames of short sequences, and its memory.

Clients send sequences one after the other, each at once with those of the
others. Every frame must get the ids that the library gives, and the server must not grow.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tritonclient.grpc as grpc_client

from tests.support.track_scenes import make_scene
from tests.triton import track_models
from tests.triton.running_server import RunningServer, run_server
from tests.triton.track_calls import inputs_of, track_here

CLIENTS = 16
SCENES = 64
LENGTHS = (5, 10, 20, 40)  # frames of the sequences
POINTS = 10
# One arena: with more, what glibc keeps of each varies by several percent in a run.
ENVIRONMENT = {"MALLOC_ARENA_MAX": "1"}
# How much more the server may hold at the end than after a fifth of the frames, of what it held.
MOST_GROWTH = 0.01


@dataclass
class Tally:
    """What came of the frames; `lock` guards all of it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    frames: int = 0
    sequences: int = 0
    wrong: list[str] = field(default_factory=list)
    points: list[dict[str, float]] = field(default_factory=list)


def make_sequences() -> list[tuple[list[list[Any]], list[list[int]]]]:
    """Return the inputs of each sequence's frames, and their ids."""
    scenes = [
        make_scene(seed, frames=LENGTHS[seed % len(LENGTHS)], objects=8) for seed in range(SCENES)
    ]
    return [([inputs_of(frame) for frame in scene], track_here(scene)) for scene in scenes]


def send_sequences(
    server: RunningServer,
    number: int,
    sequences: list[tuple[list[list[Any]], list[list[int]]]],
    frames: int,
    tally: Tally,
) -> None:
    """Send sequences as one of the clients, until all clients together have sent the frames."""
    with grpc_client.InferenceServerClient(server.grpc) as client:
        for turn in range(frames):
            with tally.lock:
                if tally.frames >= frames:
                    return
                tally.sequences += 1
            inputs, expected = sequences[(5 * turn + number) % len(sequences)]
            for index, (tensors, ids) in enumerate(zip(inputs, expected, strict=True)):
                result = client.infer(
                    "track",
                    tensors,
                    sequence_id=f"{number} {turn}",
                    sequence_start=index == 0,
                    sequence_end=index == len(inputs) - 1,
                    client_timeout=60,
                )
                given = result.as_numpy("track_ids")[0, : len(ids)].tolist()
                count_frame(server, frames, tally, "" if given == ids else f"{given}, not {ids}")


def count_frame(server: RunningServer, frames: int, tally: Tally, wrong: str) -> None:
    """Count a response, and sample the memory at each tenth of the frames."""
    with tally.lock:
        tally.frames += 1
        if wrong:
            tally.wrong.append(wrong)
        if tally.frames % (frames // POINTS) == 0:
            mib = server.resident_bytes() / 2**20
            tally.points.append({"frames": tally.frames, "mib": round(mib, 1)})
            print(f"{tally.frames} frames, {mib:.1f} MiB", file=sys.stderr)


def run_soak(frames: int) -> dict[str, Any]:
    """Run the server and the clients; return the figures."""
    with tempfile.TemporaryDirectory(prefix="endcap-soak-") as folder:
        track_models.write_all(Path(folder))
        tally = Tally()
        sequences = make_sequences()
        with (
            run_server(
                Path(folder), "--model-control-mode=explicit", "--load-model=track"
            ) as server,
            ThreadPoolExecutor(CLIENTS) as pool,
        ):
            began = time.monotonic()
            sent = [
                pool.submit(send_sequences, server, number, sequences, frames, tally)
                for number in range(CLIENTS)
            ]
            for each in sent:
                each.result()
            seconds = time.monotonic() - began
            ended = server.metric("endcap_track_sequences_ended_total", model="track")
    return {
        "clients": CLIENTS,
        "frames": tally.frames,
        "sequences": tally.sequences,
        "sequences_ended": int(ended),
        "seconds": round(seconds, 1),
        "wrong": tally.wrong[:100],
        "points": tally.points,
    }


def growth(points: list[dict[str, float]]) -> float:
    """Return what the last point is above the one after a fifth of the frames, relative."""
    return points[-1]["mib"] / points[POINTS // 5 - 1]["mib"] - 1


def main() -> int:
    """Return 1 where ids were wrong, sequences did not end, or the server has grown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--output", type=Path, help="a JSON file for the figures")
    given = parser.parse_args()
    if ENVIRONMENT.items() - os.environ.items():
        command = [sys.executable, "-m", "tests.triton.track_soak", *sys.argv[1:]]
        return subprocess.run(command, env=os.environ | ENVIRONMENT, check=False).returncode
    figures = run_soak(given.frames)
    print(json.dumps(figures, indent=1))
    if given.output is not None:
        given.output.write_text(json.dumps(figures, indent=1) + "\n")
    all_ended = figures["sequences_ended"] == figures["sequences"]
    flat = growth(figures["points"]) <= MOST_GROWTH
    return 0 if all_ended and flat and not figures["wrong"] else 1


if __name__ == "__main__":
    sys.exit(main())
