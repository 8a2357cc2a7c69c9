"""Files of results: Parquet, and COCO's format as pycocotools reads it."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from pycocotools import mask as coco_masks
from pycocotools.coco import COCO

from endcap.batch.errors import BatchError
from endcap.batch.inputs import Listing, Shard
from endcap.batch.job import counted_attempt, forget_attempts, open_job
from endcap.batch.results import (
    count_statuses,
    finished_parts,
    part_name,
    write_coco,
    write_part,
)
from endcap.batch.rows import ImageRow
from endcap.batch.storage import Storage
from endcap.detections import ClassScore, Detection, ImageDetections, ImageResult, Task
from endcap.errors import InvalidArgumentError
from endcap.masks import encode_rle


def detected(name: str, *detections: Detection) -> ImageRow:
    result = ImageResult(name, "ok", ImageDetections.from_list(detections))
    return ImageRow(result, 40, 30, {"read": 0.5, "network": 0.25})


def failed(name: str) -> ImageRow:
    return ImageRow(ImageResult(name, "corrupt_image", error="no image"))


BOX = Detection((1.0, 2.0, 11.0, 22.0), 0.5, 3, "cat", 7)


@pytest.fixture
def output(tmp_path: Path) -> Storage:
    return Storage(str(tmp_path))


def test_a_row_for_each_image(output: Storage, tmp_path: Path) -> None:
    batches = [[detected("a.jpg", BOX), failed("b.jpg")], [detected("c.jpg")]]
    statuses = write_part(output, 3, batches, Task.detection)
    assert statuses == {"ok": 2, "corrupt_image": 1}
    first, second, third = pq.read_table(tmp_path / part_name(3)).to_pylist()
    assert first["boxes"] == [[1, 2, 11, 22]]
    assert (first["scores"], first["class_ids"], first["labels"]) == ([0.5], [3], ["cat"])
    assert (first["width"], first["height"]) == (40, 30)
    assert first["seconds"] == {
        "read": 0.5, "preprocess": None, "network": 0.25, "postprocess": None,
    }  # fmt: skip
    assert (second["status"], second["error"], second["boxes"]) == (
        "corrupt_image", "no image", None,
    )  # fmt: skip
    assert (second["width"], second["seconds"]) == (None, None)
    assert (third["boxes"], third["scores"], third["labels"]) == ([], [], None)


def test_classes(output: Storage, tmp_path: Path) -> None:
    classes = [ClassScore(2, 0.75, "red"), ClassScore(0, 0.25)]
    result = ImageResult("a.jpg", "ok", classes=classes, task=Task.classification)
    write_part(output, 0, [[ImageRow(result)]], Task.classification)
    (row,) = pq.read_table(tmp_path / part_name(0)).to_pylist()
    assert (row["scores"], row["class_ids"]) == ([0.75, 0.25], [2, 0])
    assert row["labels"] == ["red", None]
    assert "boxes" not in row


def test_many_rows_are_written_in_parts_of_the_file(output: Storage, tmp_path: Path) -> None:
    batches = ([detected(f"{batch}/{row}") for row in range(300)] for batch in range(8))
    write_part(output, 0, batches, Task.detection)
    file = pq.ParquetFile(tmp_path / part_name(0))
    assert (file.metadata.num_rows, file.metadata.num_row_groups) == (2400, 2)


def test_an_empty_shard_has_a_file(output: Storage) -> None:
    write_part(output, 0, [], Task.detection)
    assert finished_parts(output) == {0}
    assert count_statuses(output, [0]) == {}


def test_a_part_that_fails_is_not_there(output: Storage, tmp_path: Path) -> None:
    def batches():  # type: ignore[no-untyped-def]
        yield [detected("a.jpg", BOX)]
        raise BatchError("the network is gone")

    with pytest.raises(BatchError, match="the network is gone"):
        write_part(output, 0, batches(), Task.detection)
    assert list(tmp_path.iterdir()) == []


def test_only_whole_names_are_parts(output: Storage, tmp_path: Path) -> None:
    for name in ("part-000001.parquet", "part-x.parquet", "part-000002.parquet.tmp", "notes"):
        (tmp_path / name).write_bytes(b"")
    assert finished_parts(output) == {1}


def test_coco(output: Storage, tmp_path: Path) -> None:
    mask = np.zeros((30, 40), bool)
    mask[5:10, 5:20] = True
    masked = Detection(
        (5.0, 5.0, 20.0, 10.0), 0.75, 0, None, 1,
        mask={"size": [30, 40], "counts": encode_rle(mask).decode()},
    )  # fmt: skip
    rotated = Detection((1.0, 1.0, 3.0, 5.0), 0.25, 1, "boat", 2, angle=0.5)
    posed = Detection((1.0, 1.0, 3.0, 5.0), 0.5, 3, "cat", 2, [(1.0, 2.0, 0.5)])
    write_part(output, 0, [[detected("a.jpg", BOX), failed("b.jpg")]], Task.detection)
    write_part(output, 1, [[detected("c.jpg", masked), detected("d.jpg", rotated, rotated)]],
               Task.detection)  # fmt: skip
    write_part(output, 2, [[detected("e.jpg", posed)]], Task.detection)
    location = write_coco(output, [0, 1, 2], ["dog", "boat"])
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


def test_coco_of_nothing(output: Storage, tmp_path: Path) -> None:
    write_coco(output, [], [])
    document = json.loads((tmp_path / "detections.json").read_text())
    assert (document["images"], document["annotations"], document["categories"]) == ([], [], [])


def test_attempts_are_counted_until_one_ends(output: Storage, tmp_path: Path) -> None:
    shard = Shard("files", "/photos", ("/photos/a.jpg", "/photos/b.jpg"), count=2)
    folder = tmp_path / "_endcap" / "attempts"
    for number in range(4):
        attempt = counted_attempt(output, 7, shard)
        attempt.__enter__()  # and its process is killed
        del attempt
        assert len(list(folder.iterdir())) == number + 1
    with counted_attempt(output, 8, shard):
        pass
    assert len(list(folder.iterdir())) == 4
    with counted_attempt(output, 7, shard):
        pass
    assert list(folder.iterdir()) == []


def test_too_many_attempts_end_the_run(output: Storage) -> None:
    shard = Shard("files", "/photos", ("/photos/a.jpg", "/photos/b.jpg"), count=2)
    storage = output
    for _ in range(5):
        with contextlib.suppress(KeyboardInterrupt), counted_attempt(storage, 7, shard):
            raise KeyboardInterrupt
    with (
        pytest.raises(BatchError, match=r"part 7 was lost 5 times; .*a\.jpg to /photos/b\.jpg"),
        counted_attempt(storage, 7, shard),
    ):
        raise AssertionError("it must not begin")
    forget_attempts(storage)
    with counted_attempt(storage, 7, shard):
        pass


def test_an_attempt_that_fails_does_not_count(output: Storage, tmp_path: Path) -> None:
    shard = Shard("files", "/photos", ("/photos/a.jpg",), count=1)
    for _ in range(6):
        with pytest.raises(BatchError, match="gone"), counted_attempt(output, 7, shard):
            raise BatchError("the server is gone")
    assert list((tmp_path / "_endcap" / "attempts").iterdir()) == []


def test_two_runs_may_have_one_output(output: Storage, tmp_path: Path) -> None:
    shard = Shard("files", "/photos", ("/photos/a.jpg",), count=1)
    with counted_attempt(output, 7, shard):
        forget_attempts(output)  # another run begins
        with counted_attempt(output, 7, shard):
            pass
    assert list((tmp_path / "_endcap" / "attempts").iterdir()) == []


def test_only_markers_are_removed(output: Storage, tmp_path: Path) -> None:
    folder = tmp_path / "_endcap" / "attempts"
    folder.mkdir(parents=True)
    for name in ("000007-0123456789abcdef", "000007-notes", "mine.txt"):
        (folder / name).write_text("")
    forget_attempts(output)
    assert sorted(path.name for path in folder.iterdir()) == ["000007-notes", "mine.txt"]


def test_results_are_no_part_of_the_data_set(tmp_path: Path) -> None:
    identity = {"inputs": [str(tmp_path / "photos")], "model": {}}
    (tmp_path / "photos").mkdir()
    for inside in ("photos", "photos/results"):
        with pytest.raises(InvalidArgumentError, match=r"lies in .* folder elsewhere"):
            open_job(str(tmp_path / inside), identity, Listing)
    assert list((tmp_path / "photos").iterdir()) == []
    assert open_job(str(tmp_path / "photos2"), identity, Listing).waiting == []


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"inputs": 7}', "\x00"])
def test_a_job_of_somebody_else_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "_endcap").mkdir()
    (tmp_path / "_endcap" / "job.json").write_text(content)
    with pytest.raises(
        (BatchError, InvalidArgumentError), match=r"cannot be used|results of other"
    ):
        open_job(str(tmp_path), {"inputs": [], "model": {}}, Listing)
    assert (tmp_path / "_endcap" / "job.json").read_text() == content


def test_only_markers_of_attempts_are_removed(output: Storage, tmp_path: Path) -> None:
    folder = tmp_path / "_endcap" / "attempts"
    kept = [folder / "000007-notes.txt", folder / "deep" / f"000007-{'0' * 16}"]
    for path in kept:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("precious")
    shard = Shard("files", "/photos", ("/photos/a.jpg",), count=1)
    with counted_attempt(output, 7, shard):
        pass
    forget_attempts(output)
    assert [path.read_text() for path in kept] == ["precious", "precious"]


@pytest.mark.parametrize("name", ["_endcap", "_endcap/model", "_endcap/attempts"])
def test_a_job_is_kept_behind_no_link(tmp_path: Path, name: str) -> None:
    link = tmp_path / "results" / name
    link.parent.mkdir(parents=True)
    (tmp_path / "victim").mkdir()
    link.symlink_to(tmp_path / "victim")
    with pytest.raises(InvalidArgumentError, match=f"{link} is a symbolic link"):
        open_job(str(tmp_path / "results"), {"inputs": [], "model": {}}, Listing)
    assert list((tmp_path / "victim").iterdir()) == []
