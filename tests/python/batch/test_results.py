"""Files of results, in Parquet."""

from __future__ import annotations

from pathlib import Path

import pytest

from endcap.batch.results import ImageRow, Results, to_table
from endcap.batch.run import _refuse_output_in_inputs
from endcap.batch.storage import BatchError, Storage
from endcap.client.results import ImageResult, Task
from endcap.detections import ImageDetections
from endcap.errors import InvalidArgumentError
from endcap.predictions import ClassScore, Detection


def detected(name: str, *detections: Detection) -> ImageRow:
    result = ImageResult(name, "ok", ImageDetections.from_list(detections))
    return ImageRow(result, 40, 30)


def failed(name: str) -> ImageRow:
    return ImageRow(ImageResult(name, "corrupt_image", error="no image"))


BOX = Detection((1.0, 2.0, 11.0, 22.0), 0.5, 3, "cat", 7)


@pytest.fixture
def output(tmp_path: Path) -> Results:
    return Results(str(tmp_path), "model")


def write(output: Results, *rows: ImageRow, task: Task = Task.detection) -> None:
    output.write_part(to_table(rows, task))


def test_a_row_for_each_image(output: Results) -> None:
    write(output, detected("a.jpg", BOX), failed("b.jpg"))
    write(output, detected("c.jpg"))
    first, second, third = output.read()
    assert first["boxes"] == [[1, 2, 11, 22]]
    assert (first["scores"], first["class_ids"], first["labels"]) == ([0.5], [3], ["cat"])
    assert (first["width"], first["height"]) == (40, 30)
    assert (second["status"], second["error"], second["boxes"]) == (
        "corrupt_image", "no image", None,
    )  # fmt: skip
    assert second["width"] is None
    assert (third["boxes"], third["scores"], third["labels"]) == ([], [], None)


def test_classes(output: Results) -> None:
    classes = [ClassScore(2, 0.75, "red"), ClassScore(0, 0.25)]
    result = ImageResult("a.jpg", "ok", classes=classes, task=Task.classification)
    write(output, ImageRow(result), task=Task.classification)
    (row,) = output.read()
    assert (row["scores"], row["class_ids"]) == ([0.75, 0.25], [2, 0])
    assert row["labels"] == ["red", None]
    assert "boxes" not in row


def test_masks_angles_and_keypoints(output: Results) -> None:
    mask = {"size": [30, 40], "counts": "0"}
    write(output, detected("a.jpg", Detection((5.0, 5.0, 20.0, 10.0), 0.75, 0, None, 1, mask=mask)))
    write(output, detected("b.jpg", Detection((1.0, 1.0, 3.0, 5.0), 0.25, 1, "boat", 2, angle=0.5)))
    points = [(1.0, 2.0, 0.5)]
    write(output, detected("c.jpg", Detection((1.0, 1.0, 3.0, 5.0), 0.5, 3, "cat", 2, points)))
    masked, rotated, posed = output.read()
    assert (masked["masks"], masked["angles"], masked["keypoints"]) == ([mask], None, None)
    assert rotated["angles"] == [0.5]
    assert posed["keypoints"] == [[[1.0, 2.0, 0.5]]]


def test_results_of_another_model_or_program_are_refused(output: Results, tmp_path: Path) -> None:
    write(output, failed("a.jpg"))
    with pytest.raises(InvalidArgumentError, match="has results of another model"):
        list(Results(str(tmp_path), "another").read())
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InvalidArgumentError, match=r"has the file notes\.txt, which"):
        list(output.read())


def test_a_damaged_file_of_results_is_reported(output: Results, tmp_path: Path) -> None:
    (tmp_path / f"part-{0:020}.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(BatchError, match="cannot be used"):
        list(output.read())


def test_results_are_not_a_part_of_the_data_set(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    for inside in ("photos", "photos/results"):
        with pytest.raises(InvalidArgumentError, match=r"lies in .* folder elsewhere"):
            _refuse_output_in_inputs(Storage(str(tmp_path / inside)), [str(tmp_path / "photos")])
    _refuse_output_in_inputs(Storage(str(tmp_path / "photos2")), [str(tmp_path / "photos")])
