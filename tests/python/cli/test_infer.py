"""endcap infer against a real Triton server.

The server runs a Python model with the outputs of the ensemble and known responses, one for each
case of the command line.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from endcap.cli.pictures import PictureFolder
from endcap.client import ImageResult
from tests.support.cli_runs import (
    PROTOCOLS,
    assert_error_message,
    endcap,
    model_server,
)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_json_over_both_protocols(urls: dict[str, str], pictures: Path, protocol: str) -> None:
    result = endcap("infer", pictures, "--url", urls[protocol], "--protocol", protocol, "--json")
    assert result.exit_code == 0, result.output
    detections = [
        {"box": [8.0, 8.0, 40.0, 32.0], "score": 0.75, "class_id": 1, "label": "square"},
        {"box": [10.5, 12.25, 20.0, 30.0], "score": 0.5, "class_id": 7, "label": None},
    ]
    assert json.loads(result.stdout) == [
        {"image": str(pictures / name), "status": "ok", "detections": detections}
        for name in ("a.JPEG", "b.jpg")
    ]


def test_a_failing_image_does_not_concern_the_others(urls: dict[str, str], pictures: Path) -> None:
    contents = {"c.jpg": b"C", "d.jpg": b"B", "e.jpg": b"E"}
    for name, content in contents.items():
        (pictures / name).write_bytes(content)
    (pictures / "f.jpg").symlink_to("/proc/self/mem")  # a file that cannot be read, even by root
    (pictures / "g.jpg").mkdir()  # no file at all
    result = endcap("infer", pictures, "--url", urls["grpc"], "--json")
    rows = {Path(row["image"]).name: row for row in json.loads(result.stdout)}
    assert {name: row["status"] for name, row in rows.items()} == {
        "a.JPEG": "ok",
        "b.jpg": "ok",
        "c.jpg": "corrupt_image",
        "d.jpg": "image_limit",
        "e.jpg": "ok",
        "f.jpg": "unreadable",
    }
    assert rows["c.jpg"]["error"] == "image 0 is not a JPEG"
    assert rows["e.jpg"] == {
        "image": str(pictures / "e.jpg"), "status": "ok", "detections": []
    }  # fmt: skip
    assert result.exit_code == 1
    assert result.stderr == (
        f"endcap: 3 of 6 images failed, first {pictures / 'c.jpg'} "
        "(corrupt_image: image 0 is not a JPEG)\n"
    )


def test_the_table_shows_labels_scores_and_boxes(urls: dict[str, str], pictures: Path) -> None:
    (pictures / "e.jpg").write_bytes(b"E")
    (pictures / "f.jpg").write_bytes(b"C")
    result = endcap("infer", pictures, "--url", urls["grpc"])
    for part in ("square", "class 7", "0.750", "8.0     8.0    40.0    32.0", "no detections"):
        assert part in result.stdout
    assert "corrupt_image" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_a_detection_is_one_line_however_narrow_the_terminal(
    urls: dict[str, str], pictures: Path
) -> None:
    arguments = ["infer", pictures / "b.jpg", "--url", urls["grpc"]]
    wide, narrow = (endcap(*arguments, columns=columns).stdout for columns in (200, 24))
    assert narrow.splitlines()[-2:] == wide.splitlines()[-2:]
    assert narrow.splitlines()[0] == wide.splitlines()[0]
    assert wide.splitlines()[-1].split()[-1] == "30.0"


def test_labels_of_a_file_replace_the_servers(
    urls: dict[str, str], pictures: Path, tmp_path: Path
) -> None:
    names = tmp_path / "labels.txt"
    names.write_text("zero\none\n")
    arguments = ["--url", urls["grpc"], "--labels", names, "--json"]
    (row,) = json.loads(endcap("infer", pictures / "b.jpg", *arguments).stdout)
    assert [each["label"] for each in row["detections"]] == ["one", None]


def test_pictures_are_drawn(urls: dict[str, str], pictures: Path, tmp_path: Path) -> None:
    drawn = tmp_path / "drawn" / "here"
    (pictures / "c.jpg").write_bytes(b"C")
    result = endcap("infer", pictures, "--url", urls["grpc"], "--draw", drawn)
    assert result.exit_code == 1
    assert sorted(path.name for path in drawn.iterdir()) == [
        "a_detections.jpg", "b_detections.jpg"
    ]  # fmt: skip
    with Image.open(drawn / "b_detections.jpg") as picture:
        assert picture.size == (640, 480)
        assert picture.convert("RGB").getpixel((20, 31)) != (90, 90, 90)


def test_pictures_of_equal_names_do_not_replace_each_other(pictures: Path, tmp_path: Path) -> None:
    images = [tmp_path / name / "b.jpg" for name in ("one", "two", "three")]
    for image in images:
        image.parent.mkdir()
        image.write_bytes((pictures / "b.jpg").read_bytes())
    folder = PictureFolder(tmp_path / "drawn", [*images, images[0]])
    for image in reversed(images):  # the names follow from the list, not from who is first
        folder.add(ImageResult(str(image), "ok"), None)
        folder.add(ImageResult(str(image), "ok"), None)
    assert folder.written == 3
    assert sorted(path.name for path in (tmp_path / "drawn").iterdir()) == [
        "b_2_detections.jpg", "b_3_detections.jpg", "b_detections.jpg"
    ]  # fmt: skip


def test_a_picture_that_cannot_be_drawn_does_not_concern_the_others(
    urls: dict[str, str], pictures: Path, tmp_path: Path
) -> None:
    (pictures / "aa.jpg").write_bytes(b"\xff\xd8 nothing that Pillow reads")
    result = endcap("infer", pictures, "--url", urls["grpc"], "--draw", tmp_path / "drawn")
    assert result.exit_code == 1
    assert "6 detections in 3 images: 3 square, 3 class 7" in result.stdout
    assert "2 pictures in" in result.stderr
    assert "1 picture missing, the first:" in result.stderr
    assert f"{pictures / 'aa.jpg'} cannot be drawn" in result.stderr
    assert len(list((tmp_path / "drawn").iterdir())) == 2


def test_the_only_model_is_the_default(pictures: Path, tmp_path: Path) -> None:
    with model_server(tmp_path / "one", "cars") as urls:
        result = endcap("infer", pictures, "--url", urls["grpc"], "--json")
        assert result.exit_code == 0, result.stderr
        assert len(json.loads(result.stdout)) == 2
        taken = "endcap: the server has no model 'detect'; taking cars, the only one\n"
        assert taken in result.stderr
        strict = endcap("infer", pictures, "--url", urls["grpc"], "--model", "detect")
        assert_error_message(strict, "no model 'detect'", "--model cars")


def test_one_of_two_models_is_not_taken(pictures: Path, tmp_path: Path) -> None:
    with model_server(tmp_path / "two", "cars", "people") as urls:
        result = endcap("infer", pictures, "--url", urls["grpc"])
        assert_error_message(result, "no model 'detect'", "name one of these", "cars, people")
