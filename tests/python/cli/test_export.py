"""The reports that programs read: CSV, COCO, and a file that is written whole or not at all."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pycocotools.coco import COCO

from endcap.cli.coco import as_coco
from endcap.cli.pictures import PictureFolder
from endcap.cli.report import as_csv, csv_cell, summary
from endcap.client import Detection, ImageDetections, ImageResult
from endcap.masks import encode_rle
from tests.support.cli_runs import endcap, write_pictures


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Five images: two with detections, one without any, one corrupt, one rotated by its EXIF."""
    folder = write_pictures(tmp_path / "five")
    (folder / 'c, "the" corrupt one.jpg').write_bytes(b"C")
    (folder / "e.jpg").write_bytes(b"E")
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (200, 100)).save(folder / "rotated.jpg", exif=exif)
    return folder


def quietly(path: Path) -> COCO:
    with contextlib.redirect_stdout(io.StringIO()):
        return COCO(str(path))


def test_csv_keeps_every_digit_and_odd_names() -> None:
    box = (0.10000000149011612, 0.3333333432674408, 2.0000000233721948e-07, 1e6)
    result = ImageResult(
        "a\nb.jpg",
        "ok",
        ImageDetections.from_list([Detection(box, 0.30000001192092896, 0, "ä,", 3)]),
    )
    _, row = csv.reader(io.StringIO(as_csv([result])))
    assert row[:4] == ["a\nb.jpg", "ok", "0", "ä,"]
    assert tuple(map(float, row[4:])) == (0.30000001192092896, *box)


def test_coco_loads_in_pycocotools(url: str, pictures: Path, tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    result = endcap("infer", pictures, "--url", url, "--coco", "--output", file)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "1 of 5 images failed" in result.stderr
    data = quietly(file)
    assert {each["file_name"]: each["status"] for each in data.loadImgs(data.getImgIds())} == {
        name: "ok" if name[0] != "c" else "corrupt_image"
        for name in ("a.JPEG", "b.jpg", 'c, "the" corrupt one.jpg', "e.jpg", "rotated.jpg")
    }
    sizes = [(each["width"], each["height"]) for each in data.loadImgs(data.getImgIds())]
    assert sizes == [(96, 80), (640, 480), (0, 0), (0, 0), (100, 200)]
    names = {each["id"]: each["name"] for each in data.loadCats(data.getCatIds())}
    assert names == {1: "circle", 2: "square", 8: "class 7"}
    first, second = data.loadAnns(data.getAnnIds(imgIds=[5]))
    assert first["bbox"] == [8.0, 8.0, 32.0, 24.0]
    assert (first["area"], first["iscrowd"], first["score"]) == (768.0, 0, 0.75)
    assert (first["category_id"], second["category_id"]) == (2, 8)
    assert sorted(data.getAnnIds()) == [1, 2, 3, 4, 5, 6], "0 would mean no annotation"
    assert data.getAnnIds(imgIds=[3, 4]) == []


def test_names_in_coco_s_format_start_from_the_folder_of_all_images(tmp_path: Path) -> None:
    """As `endcap evaluate` with that folder takes them."""
    for names in (["photos/a.jpg", "photos/b/c.jpg"], ["photos/b/c.jpg"]):
        results = [ImageResult(str(tmp_path / name), "ok") for name in names]
        data = json.loads(as_coco(results, None))
        expected = ["a.jpg", "b/c.jpg"] if len(names) > 1 else ["c.jpg"]
        assert [each["file_name"] for each in data["images"]] == expected


def test_coco_without_labels_names_what_was_found() -> None:
    found = [Detection((0.0, 0.0, 1.0, 1.0), 0.5, class_id, None, 0) for class_id in (3, 0)]
    data = json.loads(as_coco([ImageResult("x.jpg", "ok", ImageDetections.from_list(found))], None))
    assert [(each["id"], each["name"]) for each in data["categories"]] == [
        (1, "class 0"), (4, "class 3")
    ]  # fmt: skip
    empty = json.loads(as_coco([ImageResult("x.jpg", "timeout", error="late")], ["ring"]))
    assert empty["annotations"] == []
    assert empty["images"][0]["status"] == "timeout"


def test_a_report_in_a_file_is_the_one_that_is_printed(
    url: str, pictures: Path, tmp_path: Path
) -> None:
    file = tmp_path / "report"
    for option in ((), ("--json",), ("--csv",), ("--coco",)):
        printed = endcap("infer", pictures, "--url", url, *option)
        result = endcap("infer", pictures, "--url", url, *option, "--output", file)
        assert result.exit_code == printed.exit_code == 1
        assert result.stdout == ""
        assert file.read_text() == printed.stdout != ""


def test_a_report_that_cannot_be_made_leaves_the_file_as_it_was(
    pictures: Path, tmp_path: Path
) -> None:
    file = tmp_path / "report"
    file.write_text("from before")
    result = endcap("infer", pictures, "--url", "127.0.0.1:9", "--output", file)
    assert result.exit_code == 2
    assert file.read_text() == "from before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["five", "report"]


def test_the_summary_counts_classes_and_failures() -> None:
    found = [
        Detection((0.0, 0.0, 1.0, 1.0), 0.5, class_id, None, 0)
        for class_id in range(13)
        for _ in range(20 - class_id)
    ]
    results = [
        ImageResult("a", "ok", ImageDetections.from_list(found)),
        ImageResult("b", "ok"),
        ImageResult("c", "timeout"),
    ]
    kinds = ", ".join(f"{20 - class_id} class {class_id}" for class_id in range(10))
    assert summary(results) == (
        f"182 detections in 2 images: {kinds}, 27 of other classes; 1 image failed"
    )
    assert summary(results[1:2]) == "0 detections in 1 image"


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t=", "\r=", "\n=", "\uff1d"])
def test_a_cell_that_may_be_a_formula_is_quoted(begin: str) -> None:
    assert csv_cell(f"{begin}cmd|' /C calc'!A0") == f"'{begin}cmd|' /C calc'!A0"
    assert csv_cell(f"a{begin}") == f"a{begin}"


@pytest.fixture
def figures(tmp_path: Path) -> ImageResult:
    """A rotated box with keypoints, and a mask of the picture's size."""
    image = tmp_path / "b.jpg"
    Image.new("RGB", (64, 48), (90, 90, 90)).save(image)
    mask = np.zeros((48, 64), bool)
    mask[10:30, 20:40] = True
    found = Detection(
        (10.0, 12.0, 30.0, 22.0),
        0.75,
        0,
        keypoints=[(11.0, 13.0, 0.75), (60.0, 47.0, 0.25)],
        angle=0.5,
        mask={"size": [48, 64], "counts": encode_rle(mask).decode()},
    )
    return ImageResult(str(image), "ok", ImageDetections.from_list([found]))


def test_figures_in_coco_s_format(figures: ImageResult, tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    file.write_text(as_coco([figures], None))
    data = quietly(file)
    (found,) = data.loadAnns(data.getAnnIds())
    assert (data.annToMask(found) != 0).sum() == 400
    assert found["keypoints"] == [11.0, 13.0, 0.75, 60.0, 47.0, 0.25]
    assert found["num_keypoints"] == 2
    x, y, width, height = found["bbox"]
    xs, ys = zip(*figures.detections[0].corners(), strict=True)
    assert (x, y, x + width, y + height) == pytest.approx((min(xs), min(ys), max(xs), max(ys)))


def test_csv_has_the_angle(figures: ImageResult) -> None:
    header, row = csv.reader(io.StringIO(as_csv([figures])))
    assert (header[-1], float(row[-1])) == ("angle", 0.5)


def test_masks_of_another_size_than_the_picture_are_named(
    figures: ImageResult, tmp_path: Path
) -> None:
    Image.new("RGB", (640, 480)).save(figures.image)
    folder = PictureFolder(tmp_path / "drawn", [Path(figures.image)])
    folder.add(figures, None)
    written, masks = folder.summary()
    assert written == f"1 picture in {tmp_path / 'drawn'}/"
    assert "they are of 48x64 (height x width), not of the picture's size" in masks
