"""The benchmark's real run over the three pipelines, on one small picture."""

from __future__ import annotations

from pathlib import Path

import tolerances
from jpegs import photo_jpeg

from benchmarks.dali import differences, run
from benchmarks.dali.pipelines import CPU_PIPELINES
from benchmarks.images import Photograph
from benchmarks.timing import Budget

SHORT = Budget(0.0, fewest=2, most=2)
NAMES = [pipeline.key for pipeline in CPU_PIPELINES]


def test_every_pipeline_is_verified_and_timed(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    path.write_bytes(photo_jpeg(300, 431))
    said: list[str] = []
    plan = run.Plan(("photo",), SHORT, 3, SHORT)
    found = run.run(plan, [Photograph("photo", path, 431, 300)], said.append)
    assert said == ["photo", "threads: 1", "threads: 2", "GPU"]
    (image,) = found["latency"]["images"]
    for rows in (image["rows"], found["throughput"][0]["rows"]):
        assert [row["outcome"] for row in rows.values()] == ["timed"] * len(NAMES)
        notes = [row["note"] for row in rows.values()]
        assert notes[:3] == ["equal, bit for bit"] * 3
        assert "at most 1," in notes[3]
    assert found["latency"]["ratios"].keys() == set(NAMES)
    assert all(rate > 0 for rate in found["throughput"][0]["images_per_second"].values())


def test_differences_of_whole_pipelines() -> None:
    files = {"photo": photo_jpeg(300, 431), "other": photo_jpeg(97, 64)}
    assert differences.pipeline(NAMES[2], files).largest == 0
    found = differences.pipeline(NAMES[3], files)
    assert found.largest == tolerances.DALI_RESIZE_STEPS
    assert 0 < found.share <= tolerances.DALI_RESIZE_SHARE
