"""`Detect` for Ray Data, called as Ray calls it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from endcap.batch import Detect, PipelineSpec
from endcap.client.results import Task
from endcap.errors import InvalidArgumentError

REPOSITORY = Path(__file__).resolve().parents[3] / "model_repository"
SAMPLE = REPOSITORY / "detect" / "samples" / "shapes_640x427.jpg"


def make_batch(*images: bytes | None) -> pa.Table:
    columns = {
        "path": [f"{number}.jpg" for number in range(len(images))],
        "bytes": pa.array(images, pa.binary()),
        "label": list(range(len(images))),
    }
    return pa.table(columns)


@pytest.fixture(scope="module")
def detect() -> Detect:
    return Detect(REPOSITORY)


def test_detections(detect: Detect) -> None:
    assert detect.task is Task.detection
    table = detect(make_batch(SAMPLE.read_bytes(), b"no image", None))
    good, corrupt, unreadable = table.to_pylist()
    assert (good["path"], good["status"], good["label"]) == ("0.jpg", "ok", 0)
    assert (good["width"], good["height"]) == (640, 427)
    assert len(good["boxes"]) == len(good["scores"]) > 0
    assert (corrupt["status"], corrupt["boxes"]) == ("corrupt_image", None)
    assert (unreadable["status"], unreadable["error"]) == ("unreadable", "there are no bytes")
    assert "bytes" not in table.column_names


def test_paths_are_not_needed(detect: Detect) -> None:
    table = detect(pa.table({"bytes": [SAMPLE.read_bytes()]}))
    assert table["path"].to_pylist() == ["image 0"]
    assert table["status"].to_pylist() == ["ok"]


def test_a_spec_travels(detect: Detect) -> None:
    batch = make_batch(SAMPLE.read_bytes())
    ours = Detect(PipelineSpec.from_repository(REPOSITORY))(batch)
    assert ours["boxes"].to_pylist() == detect(batch)["boxes"].to_pylist()


def test_unusable_arguments_are_reported(detect: Detect) -> None:
    with pytest.raises(InvalidArgumentError, match='give map_batches batch_format="pyarrow"'):
        detect({"bytes": [b""]})
    with pytest.raises(InvalidArgumentError, match="with the columns image, and"):
        detect(pa.table({"image": [b""]}))
    with pytest.raises(InvalidArgumentError, match="either a repository or the url"):
        Detect()
    with pytest.raises(InvalidArgumentError, match="either a repository or the url"):
        Detect(REPOSITORY, url="127.0.0.1:8001")
