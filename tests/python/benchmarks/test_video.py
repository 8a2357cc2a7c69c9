"""What the benchmark of videos makes of its measurements."""

from __future__ import annotations

import io
from dataclasses import asdict
from typing import Any

import pytest
from rich.console import Console

from benchmarks import chart, report
from benchmarks.video.run import FLOOR, NAMES, OURS, OURS_SHARED, _compared, agreement

BOX = [10.0, 10.0, 60.0, 60.0, 0.9, 1.0]
OTHER = [100.0, 10.0, 160.0, 60.0, 0.8, 2.0]
MOVED = [112.0, 10.0, 172.0, 60.0, 0.8, 2.0]  # an IoU of 2/3 with the one before


def measured(frames: list[Any], *speeds: float) -> dict[str, Any]:
    shared = [100.0] * len(speeds)
    return {
        "clip.mp4": {
            "frames": frames,
            "frames_per_second": list(speeds),
            "by_shared_memory": shared,
        }
    }


def test_agreement_is_the_share_of_boxes_with_a_counterpart() -> None:
    assert agreement([[BOX, OTHER], []], [[OTHER, BOX], []]) == 1
    assert agreement([[BOX, OTHER]], [[BOX]]) == pytest.approx(2 / 3)
    assert agreement([[BOX, OTHER]], [[BOX, MOVED]]) == 0.5
    assert agreement([[BOX]], [[]]) == 0
    assert agreement([[BOX], [BOX]], [[BOX]]) == 0  # another number of frames
    assert agreement([[BOX]], [[BOX, BOX]]) == pytest.approx(2 / 3)


def test_ratios_are_of_ways_with_the_same_boxes() -> None:
    frames = [[BOX, OTHER]] * 4
    theirs = {
        "opencv": measured(frames, 10.0, 20.0, 30.0),
        "ultralytics": measured([[BOX]] * 4, 10.0),
        "network": measured([[]] * 4, 80.0),
    }
    clip = _compared("clip.mp4", "net", measured(frames, 50.0, 40.0, 60.0), theirs)
    assert clip.frames == 4
    assert clip.boxes_per_frame == 2
    assert clip.ratios == {OURS: 1, OURS_SHARED: 0.5, NAMES["opencv"]: 2.5, FLOOR: 0.625}
    speed = clip.speeds[NAMES["opencv"]]
    assert (speed.frames_per_second, speed.low, speed.high) == (20, 10, 30)
    refused = clip.speeds[NAMES["ultralytics"]]
    assert refused.frames_per_second is None
    assert refused.note == "not verified: 66.7% of the boxes are the same"
    broken = _compared("clip.mp4", "net", measured(frames, 50.0), {**theirs, "opencv": "no cv2"})
    assert broken.speeds[NAMES["opencv"]].note == "no cv2"

    document = {"video": [asdict(clip)]}
    text = io.StringIO()
    for table in report.tables(document):
        Console(file=text, width=160).print(table)
    assert "2.50x" in text.getvalue()
    assert "40.0 to 60.0" in text.getvalue()
    (panel,) = chart.panels_of(document)
    assert panel.bars == [
        (OURS, 50.0),
        (OURS_SHARED, 100.0),
        (NAMES["opencv"], 20.0),
        (FLOOR, 80.0),
    ]
