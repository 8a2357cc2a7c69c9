"""Soak test of VideoReader with a real RTSP server: a program that is slower than the camera.

Every frame must be given or counted as dropped, what is given must be recent,
and the memory of the process must not grow.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

import rtsp_server

from endcap.video import VideoReader

POINTS = 10
PAUSE_S = 0.25  # the camera makes seven or eight frames in it
OLDEST_S = 0.5  # of 95 % of the frames: a busy machine holds up some
# How much more the process may hold at the end than after a fifth of the time, of what it held.
MOST_GROWTH = 0.01


def resident_mib() -> float:
    """Return what the process holds."""
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def run_soak(minutes: float) -> dict[str, Any]:
    """Read for some minutes; return the figures."""
    points: list[dict[str, float]] = []
    given = dropped = last = 0
    ages: list[float] = []
    with (
        rtsp_server.serving() as address,
        VideoReader(f"rtsp://{address}/h264", queue_size=4) as reader,
    ):
        began = time.monotonic()
        for frame in reader:
            given, dropped, last = given + 1, dropped + frame.dropped, frame.index
            ages.append(time.time() - frame.wall_time)
            time.sleep(PAUSE_S)
            passed = time.monotonic() - began
            if passed >= minutes * 60 / POINTS * (len(points) + 1):
                points.append({"minutes": round(passed / 60, 1), "mib": round(resident_mib(), 1)})
                print(f"{points[-1]}, {given} frames, {dropped} dropped", file=sys.stderr)
            if len(points) == POINTS:
                break
    return {
        "minutes": minutes,
        "frames": last + 1,
        "given": given,
        "dropped": dropped,
        "reconnects": reader.status.reconnects,
        "age_s": {"median": round(median(ages), 2), "p95": round(quantiles(ages, n=20)[-1], 2)},
        "points": points,
    }


def problems_of(figures: dict[str, Any]) -> list[str]:
    """Return what is wrong with the figures."""
    held = [point["mib"] for point in figures["points"]]
    wrong = []
    if figures["given"] + figures["dropped"] != figures["frames"]:
        wrong.append("frames were neither given nor counted as dropped")
    if figures["dropped"] < figures["given"]:
        wrong.append("fewer frames were dropped than given: the program was not slow")
    if figures["age_s"]["p95"] > OLDEST_S:
        wrong.append(f"5 % of the frames were more than {figures['age_s']['p95']} seconds old")
    if held[-1] > held[1] * (1 + MOST_GROWTH):
        wrong.append(f"the memory grew from {held[1]} to {held[-1]} MiB")
    return wrong


def main() -> int:
    """Return 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--output", type=Path, help="a JSON file for the figures")
    arguments = parser.parse_args()
    figures = run_soak(arguments.minutes)
    text = json.dumps(figures, indent=1)
    print(text)
    if arguments.output is not None:
        arguments.output.write_text(text + "\n")
    problems = problems_of(figures)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
