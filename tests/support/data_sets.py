"""Data sets of many image files: links to a few pictures, some of them damaged."""

from __future__ import annotations

from pathlib import Path

SAMPLES = Path(__file__).resolve().parents[2] / "model_repository" / "detect" / "samples"


def write_data_set(folder: Path, count: int, *, damaged: int = 0) -> None:
    """Write `count` JPEG files, of which `damaged` are truncated, evenly spread."""
    pictures = [SAMPLES / f"shapes_{size}.jpg" for size in ("320x240", "640x427", "1000x872")]
    folder.mkdir(parents=True, exist_ok=True)
    every = count // damaged if damaged else 0
    for number in range(count):
        file = folder / f"{number:05}.jpg"
        content = pictures[number % len(pictures)].read_bytes()
        is_damaged = every and number % every == 0 and number // every < damaged
        file.write_bytes(content[: len(content) // 2] if is_damaged else content)
