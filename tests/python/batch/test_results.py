"""Files of results: Parquet, and COCO's format as pycocotools reads it."""

from __future__ import annotations

import contextlib
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from pycocotools import mask as coco_masks
from pycocotools.coco import COCO

from endcap.batch.errors import BatchError
from endcap.batch.inputs import Shard
from endcap.batch.results import ImageRow, Results
from endcap.batch.run import _find_waiting, _refuse_output_in_inputs
from endcap.batch.storage import Storage
from endcap.detections import ClassScore, Detection, ImageDetections, ImageResult, Task
from endcap.errors import InvalidArgumentError
from endcap.masks import encode_rle


def detected(name: str, *detections: Detection) -> ImageRow:
    result = ImageResult(name, "ok", ImageDetections.from_list(detections))
    return ImageRow(result, 40, 30)


def failed(name: str) -> ImageRow:
    return ImageRow(ImageResult(name, "corrupt_image", error="no image"))


BOX = Detection((1.0, 2.0, 11.0, 22.0), 0.5, 3, "cat", 7)


@pytest.fixture
def output(tmp_path: Path) -> Results:
    return Results(str(tmp_path), "model")


def write(output: Results, number: int, batches: Any, task: Task = Task.detection) -> Counter[str]:
    return output.write_part(number, f"{number:016x}", batches, task)


def part(number: int) -> str:
    return f"part-{number:06}-{number:016x}.parquet"


def test_a_row_for_each_image(output: Results, tmp_path: Path) -> None:
    batches = [[detected("a.jpg", BOX), failed("b.jpg")], [detected("c.jpg")]]
    statuses = write(output, 3, batches)
    assert statuses == {"ok": 2, "corrupt_image": 1}
    first, second, third = pq.read_table(tmp_path / part(3)).to_pylist()
    assert first["boxes"] == [[1, 2, 11, 22]]
    assert (first["scores"], first["class_ids"], first["labels"]) == ([0.5], [3], ["cat"])
    assert (first["width"], first["height"]) == (40, 30)
    assert (second["status"], second["error"], second["boxes"]) == (
        "corrupt_image", "no image", None,
    )  # fmt: skip
    assert second["width"] is None
    assert (third["boxes"], third["scores"], third["labels"]) == ([], [], None)


def test_classes(output: Results, tmp_path: Path) -> None:
    classes = [ClassScore(2, 0.75, "red"), ClassScore(0, 0.25)]
    result = ImageResult("a.jpg", "ok", classes=classes, task=Task.classification)
    write(output, 0, [[ImageRow(result)]], Task.classification)
    (row,) = pq.read_table(tmp_path / part(0)).to_pylist()
    assert (row["scores"], row["class_ids"]) == ([0.75, 0.25], [2, 0])
    assert row["labels"] == ["red", None]
    assert "boxes" not in row


def test_many_rows_are_written_in_parts_of_the_file(output: Results, tmp_path: Path) -> None:
    batches = ([detected(f"{batch}/{row}") for row in range(300)] for batch in range(8))
    write(output, 0, batches)
    file = pq.ParquetFile(tmp_path / part(0))
    assert (file.metadata.num_rows, file.metadata.num_row_groups) == (2400, 2)


def test_an_empty_shard_has_a_file(output: Results) -> None:
    write(output, 0, [])
    assert list(output.find_parts()) == [f"{0:016x}"]
    assert list(output.read(["status"])) == []


def test_a_part_that_fails_is_not_there(output: Results, tmp_path: Path) -> None:
    def batches():  # type: ignore[no-untyped-def]
        yield [detected("a.jpg", BOX)]
        raise BatchError("the network is gone")

    with pytest.raises(BatchError, match="the network is gone"):
        write(output, 0, batches())
    assert list(tmp_path.iterdir()) == []


def test_coco(output: Results, tmp_path: Path) -> None:
    mask = np.zeros((30, 40), bool)
    mask[5:10, 5:20] = True
    masked = Detection(
        (5.0, 5.0, 20.0, 10.0), 0.75, 0, None, 1,
        mask={"size": [30, 40], "counts": encode_rle(mask).decode()},
    )  # fmt: skip
    rotated = Detection((1.0, 1.0, 3.0, 5.0), 0.25, 1, "boat", 2, angle=0.5)
    posed = Detection((1.0, 1.0, 3.0, 5.0), 0.5, 3, "cat", 2, [(1.0, 2.0, 0.5)])
    write(output, 0, [[detected("a.jpg", BOX), failed("b.jpg")]])
    write(output, 1, [[detected("c.jpg", masked), detected("d.jpg", rotated, rotated)]])
    write(output, 2, [[detected("e.jpg", posed)]])
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
    write(output, 0, [[failed("a.jpg")]])
    with pytest.raises(InvalidArgumentError, match="has results of another model"):
        Results(str(tmp_path), "another").find_parts()
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InvalidArgumentError, match=r"has the file notes\.txt, which"):
        output.find_parts()


def test_a_damaged_file_of_results_is_reported(output: Results, tmp_path: Path) -> None:
    (tmp_path / f"part-000000-{0:016x}.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(BatchError, match="cannot be used"):
        output.find_parts()


def test_only_what_is_not_done_is_waiting(output: Results, tmp_path: Path) -> None:
    """Image files by their paths, archives and row groups by the names of their results."""
    files = Shard("files", "/", ("/a.jpg", "/b.jpg", "/c.jpg"), count=3)
    tar, groups = Shard("tar", "/", ("/a.tar",)), Shard("parquet", "/", ("/a.parquet",), (0, 1))
    assert _find_waiting(output, [files, tar], Counter()) == {0: files, 1: tar}
    write(output, 0, [[failed("/a.jpg"), detected("/c.jpg")]])
    output.write_part(1, tar.key, [[detected("/a.tar/x.jpg")]], Task.detection)
    statuses: Counter[str] = Counter()
    waiting = _find_waiting(output, [files, tar, groups], statuses)
    assert waiting == {0: Shard("files", "/", ("/b.jpg",), count=1), 2: groups}
    assert statuses == {"ok": 2, "corrupt_image": 1}


def test_results_are_not_a_part_of_the_data_set(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    for inside in ("photos", "photos/results"):
        with pytest.raises(InvalidArgumentError, match=r"lies in .* folder elsewhere"):
            _refuse_output_in_inputs(Storage(str(tmp_path / inside)), [str(tmp_path / "photos")])
    _refuse_output_in_inputs(Storage(str(tmp_path / "photos2")), [str(tmp_path / "photos")])


def test_a_part_is_written_through_no_link(output: Results, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / f"part-000000-{0:016x}.parquet").symlink_to(victim)
    with pytest.raises(InvalidArgumentError, match="link"):
        write(output, 0, [[failed("a.jpg")]])
    assert victim.read_text() == "mine"
