"""The reports that programs read: CSV, COCO, and a file that is written whole or not at all."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from pycocotools.coco import COCO

from endcap.cli.export import as_coco, as_csv, csv_cell
from endcap.cli.report import summary
from endcap.client import Detection, ImageDetections, ImageResult
from endcap.drawing.orientation import oriented_size
from tests.support.cli_runs import endcap, model_server, write_pictures

HEADER = ["image", "status", "class_id", "label", "score", "x1", "y1", "x2", "y2"]
FOUND = [["1", "square", "0.75", "8.0", "8.0", "40.0", "32.0"],
         ["7", "", "0.5", "10.5", "12.25", "20.0", "30.0"]]  # fmt: skip


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with model_server(tmp_path_factory.mktemp("models")) as urls:
        yield urls["grpc"]


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Five images: two with detections, one without any, one corrupt, one rotated by its EXIF."""
    folder = write_pictures(tmp_path / "pictures")
    (folder / 'c, "the" corrupt one.jpg').write_bytes(b"C")
    (folder / "e.jpg").write_bytes(b"E")
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (200, 100)).save(folder / "rotated.jpg", exif=exif)
    return folder


def quietly(path: Path) -> COCO:
    with contextlib.redirect_stdout(io.StringIO()):
        return COCO(str(path))


def test_csv_has_a_row_per_detection_and_loses_no_image(url: str, pictures: Path) -> None:
    result = endcap("infer", pictures, "--url", url, "--csv")
    assert result.exit_code == 1
    rows = list(csv.reader(io.StringIO(result.stdout)))
    nothing = [""] * 7
    assert rows == [
        HEADER,
        *([str(pictures / "a.JPEG"), "ok", *row] for row in FOUND),
        *([str(pictures / "b.jpg"), "ok", *row] for row in FOUND),
        [str(pictures / 'c, "the" corrupt one.jpg'), "corrupt_image", *nothing],
        [str(pictures / "e.jpg"), "ok", *nothing],
        *([str(pictures / "rotated.jpg"), "ok", *row] for row in FOUND),
    ]


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


def test_a_size_is_read_from_the_header_however_large_it_is(tmp_path: Path) -> None:
    path = tmp_path / "x.jpg"
    Image.new("L", (8, 8)).save(path)
    data = path.read_bytes()
    for side in (10_000, 15_000):  # Pillow warns of 100 million pixels, and refuses 225
        size = side.to_bytes(2, "big")
        path.write_bytes(data.replace(b"\x00\x08\x00\x08\x01\x01", size + size + b"\x01\x01"))
        assert oriented_size(path) == (side, side)


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
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pictures", "report"]


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


def test_cells_are_no_formulas() -> None:
    found = Detection((1.0, 2.0, 3.0, 4.0), 0.5, 0, "=cmd|' /C calc'!A0")
    plain = Detection((-1.0, 2.0, 3.0, 4.0), 0.5, 1, "1-2")
    result = ImageResult("@a.jpg", "ok", ImageDetections.from_list([found, plain]))
    rows = list(csv.DictReader(io.StringIO(as_csv([result]))))
    assert [row["label"] for row in rows] == ["'=cmd|' /C calc'!A0", "1-2"]
    assert {row["image"] for row in rows} == {"'@a.jpg"}
    assert rows[1]["x1"] == "-1.0"
