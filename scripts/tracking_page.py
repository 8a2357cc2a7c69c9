"""Writes the figures of trackers into docs/tracking.md, in place.

python scripts/tracking_page.py
python scripts/tracking_page.py --check     # exit code 1 where it would change
python scripts/tracking_page.py --measure   # quality anew before that: in build/bench-venv

The figures are those of benchmarks/results/tracking_quality.json, and tracking_memory.json, which
tests/triton/track_soak.py writes.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from benchmarks.pipelines.tables import TextTable, between_marks  # noqa: E402

Json = dict[str, Any]
PAGE = ROOT / "docs" / "tracking.md"
QUALITY = ROOT / "benchmarks" / "results" / "tracking_quality.json"
MEMORY = ROOT / "benchmarks" / "results" / "tracking_memory.json"
DECIMALS = 2
PACKAGES = ("ultralytics", "trackers", "trackeval")


def measure() -> Json:
    """Return the quality of every tracker."""
    from track_quality import SEQUENCES, TRACKERS
    from track_quality import measure as measure_one

    rows = []
    for tracker in TRACKERS:
        for boxes, quality in measure_one(tracker).items():
            figures = {
                name: round(value, DECIMALS) if isinstance(value, float) else value
                for name, value in asdict(quality).items()
            }
            row = {"tracker": tracker.name, "preset": tracker.preset, "boxes": boxes}
            rows.append(row | figures)
    return {
        "versions": {name: version(name) for name in PACKAGES},
        "sequences": len(SEQUENCES),
        "rows": rows,
    }


def fill(page: str, quality: Json, memory: Json) -> str:
    """Return the page with the figures of both documents."""
    return between_marks(page, f"{_quality(quality)}\n\n{_memory(memory)}")


def _quality(document: Json) -> str:
    header = ("tracker", "boxes", "HOTA", "DetA", "AssA", "MOTA", "IDF1", "id switches")
    names = ("hota", "det_a", "ass_a", "mota", "idf1")
    rows = [
        (
            row["tracker"],
            row["boxes"],
            *(f"{row[name]:.{DECIMALS}f}" for name in names),
            str(row["id_switches"]),
        )
        for row in document["rows"]
    ]
    beside = ", ".join(f"{name} {document['versions'][name]}" for name in PACKAGES)
    table = TextTable("", header, rows, words=2).markdown()
    return (
        f"Over {document['sequences']} made sequences with crossings, occlusions, exits and "
        f"returns, in percent; {beside}:\n\n{table}"
    )


def _memory(document: Json) -> str:
    rows = [(f"{point['frames']:,}", f"{point['mib']:.1f}") for point in document["points"]]
    table = TextTable("", ("frames", "server, MiB resident"), rows, words=0).markdown()
    return (
        f"A server's memory while {document['clients']} clients send {document['frames']:,} "
        f"frames of {document['sequences']:,} sequences to `track`, each with the right ids:"
        f"\n\n{table}"
    )


def main() -> int:
    """Return 1 where --check finds a difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    parser.add_argument("--measure", action="store_true", help="measure the quality before")
    arguments = parser.parse_args()
    if arguments.measure:
        QUALITY.write_text(json.dumps(measure(), indent=1) + "\n", encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    filled = fill(page, *(json.loads(path.read_text("utf-8")) for path in (QUALITY, MEMORY)))
    if arguments.check:
        if page != filled:
            print("docs/tracking.md is not that of the results: run scripts/tracking_page.py")
        return int(page != filled)
    PAGE.write_text(filled, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
