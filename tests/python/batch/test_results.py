"""Files of results: Parquet, and COCO's format as pycocotools reads it."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import numpy as np
import pytest
from pycocotools import mask as coco_masks
from pycocotools.coco import COCO

from endcap.batch.results import ImageRow, Results, to_table
from endcap.batch.run import _refuse_output_in_inputs
from endcap.batch.storage import BatchError, Storage
from endcap.detections import ClassScore, Detection, ImageDetections
from endcap.errors import InvalidArgumentError
from endcap.masks import encode_rle
from endcap.results import ImageResult, Task


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


def test_coco(output: Results, tmp_path: Path) -> None:
    mask = np.zeros((30, 40), bool)
    mask[5:10, 5:20] = True
    masked = Detection(
        (5.0, 5.0, 20.0, 10.0), 0.75, 0, None, 1,
        mask={"size": [30, 40], "counts": encode_rle(mask).decode()},
    )  # fmt: skip
    rotated = Detection((1.0, 1.0, 3.0, 5.0), 0.25, 1, "boat", 2, angle=0.5)
    posed = Detection((1.0, 1.0, 3.0, 5.0), 0.5, 3, "cat", 2, [(1.0, 2.0, 0.5)])
    write(output, detected("a.jpg", BOX), failed("b.jpg"))
    write(output, detected("c.jpg", masked), detected("d.jpg", rotated, rotated))
    write(output, detected("e.jpg", posed))
    location = output.write_coco(["dog", "boat"])
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO(location)
    assert [image["file_name"] for image in coco.dataset["images"]] == [
        "a.jpg", "b.jpg", "c.jpg", "d.jpg", "e.jpg",
    ]  # fmt: skip
    assert coco.dataset["images"][1]["status"] == "corrupt_image"
    assert {each["id"]: each["name"] for each in coco.dataset["categories"]} == {
        1: "dog", 2: "boat", 4: "cat",
    }  # fmt: skip
    assert [each["image_id"] for each in coco.dataset["annotations"]] == [1, 3, 4, 4, 5]
    assert coco.anns[1]["bbox"] == [1, 2, 10, 20]
    assert (coco.anns[1]["category_id"], coco.anns[1]["score"]) == (4, 0.5)
    np.testing.assert_array_equal(coco.annToMask(coco.anns[2]), mask)
    assert coco_masks.area(coco.anns[2]["segmentation"]) == 75
    assert len(coco.anns[3]["segmentation"][0]) == 8
    assert coco.anns[5]["keypoints"] == [1, 2, 0.5]


def test_coco_of_nothing(output: Results, tmp_path: Path) -> None:
    output.write_coco([])
    document = json.loads((tmp_path / "detections.json").read_text())
    assert (document["images"], document["annotations"], document["categories"]) == ([], [], [])


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
