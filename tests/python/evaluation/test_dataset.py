"""Reading annotations and results: what is taken, and what is refused with which message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from endcap.errors import InvalidArgumentError
from endcap.evaluation.annotations import load_dataset, load_predictions
from tests.support.coco_files import CATEGORIES, annotation, coco, dataset, write

BOX = [10.0, 20.0, 30.0, 40.0]
HUGE = 10**400  # a number in JSON that is none in float64


def test_images_categories_and_objects_are_read(tmp_path: Path) -> None:
    content = coco(2, [annotation(2, 7, BOX, area=5.5, iscrowd=1), annotation(1, 3, BOX)])
    read = load_dataset(tmp_path, write(tmp_path, content))
    assert list(read.images.items()) == [(1, tmp_path / "1.jpg"), (2, tmp_path / "2.jpg")]
    assert read.categories == {3: "cat", 7: "dog"}
    first, second = read.annotations
    assert first == {"image_id": 2, "category_id": 7, "bbox": BOX, "area": 5.5, "iscrowd": 1}
    assert (second["bbox"], second["area"], second["iscrowd"]) == (BOX, 1200.0, 0)


def test_area_and_iscrowd_may_be_missing(tmp_path: Path) -> None:
    row = annotation(1, 3, BOX)
    del row["area"], row["iscrowd"]
    (read,) = dataset(tmp_path, 1, [row]).annotations
    assert (read["area"], read["iscrowd"]) == (1200.0, 0)


def test_a_limit_takes_the_first_images_and_their_objects(tmp_path: Path) -> None:
    path = write(tmp_path, coco(3, [annotation(1, 3, BOX), annotation(3, 7, BOX)]))
    (tmp_path / "3.jpg").unlink()  # what the limit leaves out need not be there
    read = load_dataset(tmp_path, path, limit=2)
    assert list(read.images) == [1, 2]
    assert [each["image_id"] for each in read.annotations] == [1]
    assert read.other_image_ids == {3}


def without(key: str, kind: str) -> dict[str, Any]:
    content = coco(1, [annotation(1, 3, BOX)])
    del content[kind][0][key]
    return content


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "are not JSON"),
        ([], "not in COCO's format"),
        ({"images": [], "annotations": []}, "images, annotations, categories"),
        ({**coco(1, []), "images": [1]}, r"images\[0\] is not in COCO's format"),
        (without("id", "images"), r"images\[0\] lacks 'id'"),
        (without("bbox", "annotations"), r"annotations\[0\] lacks 'bbox'"),
        (coco(1, [annotation(2, 3, BOX)]), "image_id is 2, and no image has that id"),
        (coco(1, [annotation(1, 4, BOX)]), "category_id is 4, and no category has that id"),
        (coco(1, [annotation(1, 3, [0, 0, -1, 5])]), "sides from 0 are expected"),
        (coco(1, [annotation(1, 3, [0, 0, float("nan"), 5])]), r"bbox is \[.*nan.*finite"),
        (coco(1, [annotation(1, 3, [0, 0, HUGE, 5])]), r"annotations\[0\] is not in COCO's format"),
        (coco(1, [annotation(1, 3, BOX, area="x")]), r"annotations\[0\] .*could not convert"),
        (coco(1, [annotation(True, 3, BOX)]), "image_id is True, a whole number"),
        (coco(1, [annotation(1, 3, BOX)], [{"id": 2**63, "name": "cat"}]), "id is 9223"),
        (coco(1, [annotation(1, 3, BOX)], [{"id": 3.5, "name": "cat"}]), r"id is 3\.5"),
        (
            coco(1, [annotation(1, 3, BOX)], [{"id": 3, "name": ""}]),
            "name is '', a text is expected",
        ),
        ("[" * 100_000, "are nested too deep"),
        (coco(1, [annotation(1, 3, BOX)], [*CATEGORIES, CATEGORIES[0]]), "a category id twice"),
        (coco(2, []), "no object on all 2 images"),
        (coco(1, [annotation(1, 3, BOX, iscrowd=1)]), "no object"),
    ],
)
def test_invalid_annotations_are_refused(tmp_path: Path, content: Any, said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        load_dataset(tmp_path, write(tmp_path, content))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_byte_order_mark_is_accepted(tmp_path: Path, encoding: str) -> None:
    text = json.dumps(coco(1, [annotation(1, 3, BOX)]))
    path = write(tmp_path, coco(1, []))
    path.write_text(text, encoding=encoding)
    assert len(load_dataset(tmp_path, path).annotations) == 1


def test_whole_floats_are_ids(tmp_path: Path) -> None:
    content = coco(1, [annotation(1, 3, BOX)], [{"id": 3.0, "name": "cat"}])
    content["images"][0]["id"] = 1.0
    content["annotations"][0].update(image_id=1.0, category_id=3.0)
    read = load_dataset(tmp_path, write(tmp_path, content))
    ids = [*read.images, *read.categories, read.annotations[0]["image_id"]]
    assert [(each, type(each)) for each in ids] == [(1, int), (3, int), (1, int)]
    rows = [result(image_id=1.0, category_id=3.0)]
    found = load_predictions(write_results(tmp_path, rows), read).rows
    assert json.dumps(found) == json.dumps([result()])


@pytest.mark.parametrize("name", ["/etc/hostname", ".", "..", "a/..", "../1.jpg", "a/../../1.jpg"])
def test_file_names_outside_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    content = coco(1, [annotation(1, 3, BOX)])
    path = write(tmp_path, content)
    content["images"][0]["file_name"] = name
    path.write_text(json.dumps(content))
    with pytest.raises(InvalidArgumentError, match=r"images\[0\] .* file_name .* is not a file in"):
        load_dataset(tmp_path, path)


def test_folders_and_links_inside_the_folder_are_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / "a").symlink_to(tmp_path / "elsewhere")
    content = coco(2, [annotation(1, 3, BOX)])
    content["images"][0]["file_name"] = "a/1.jpg"
    content["images"][1]["file_name"] = "a/../..2.jpg"
    path = write(folder, content)
    assert load_dataset(folder, path).images[2] == folder / "a" / ".." / "..2.jpg"


def test_absent_files_are_counted_and_named(tmp_path: Path) -> None:
    path = write(tmp_path, coco(3, [annotation(1, 3, BOX)]))
    (tmp_path / "2.jpg").unlink()
    with pytest.raises(InvalidArgumentError, match=r"1 of 3 annotated images are not .*2\.jpg"):
        load_dataset(tmp_path, path)
    with pytest.raises(InvalidArgumentError, match=r"no\.json cannot be read: No such file"):
        load_dataset(tmp_path, tmp_path / "no.json")


# --- results --------------------------------------------------------------------------------------


def result(**changed: object) -> dict[str, object]:
    return {"image_id": 1, "category_id": 3, "bbox": BOX, "score": 0.5, **changed}


def write_results(folder: Path, rows: object) -> Path:
    path = folder / "results.json"
    path.write_text(json.dumps(rows))
    return path


def test_results_are_read(tmp_path: Path) -> None:
    truth = dataset(tmp_path, 2, [annotation(1, 3, BOX)])
    rows = [result(), result(image_id=2, category_id=7, score=0.1), result(bbox=[0, 0, 1, 1 / 3])]
    read = load_predictions(write_results(tmp_path, rows), truth)
    assert (read.rows, read.lowest_score) == (rows, 0.1)


def test_results_of_images_beyond_the_limit_are_skipped(tmp_path: Path) -> None:
    path = write(tmp_path, coco(2, [annotation(1, 3, BOX)]))
    truth = load_dataset(tmp_path, path, limit=1)
    read = load_predictions(write_results(tmp_path, [result(), result(image_id=2)]), truth)
    assert [row["image_id"] for row in read.rows] == [1]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({}, "a list of objects"),
        ([result(image_id=9)], r"\[0\] is not .* image_id is 9"),
        ([result(), result(category_id=4)], r"\[1\] is not .* category_id is 4"),
        ([result(score="high")], "could not convert string to float: 'high'"),
        ([result(score=HUGE)], r"\[0\] is not in COCO's format"),
        ([result(bbox=[1, 2, 3])], "x, y and sides from 0 are expected"),
    ],
)
def test_invalid_results_are_refused(tmp_path: Path, rows: object, said: str) -> None:
    truth = dataset(tmp_path, 1, [annotation(1, 3, BOX)])
    with pytest.raises(InvalidArgumentError, match=said):
        load_predictions(write_results(tmp_path, rows), truth)
