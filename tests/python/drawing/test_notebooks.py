"""What notebooks show of results: tables in HTML, and pictures."""

from __future__ import annotations

import base64
import dataclasses
import html.parser
import io
import re
from pathlib import Path

import jpegs
import numpy as np
import pytest
from PIL import Image

import endcap
from endcap.client import ClassScore, Detection, ImageDetections, ImageResult, Task
from endcap.drawing import draw_class, draw_detections
from endcap.results import Results

HOSTILE = "<script>alert(1)</script>&\"'"


class _Reader(html.parser.HTMLParser):
    """The tags, and the texts of cells by row."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.rows: list[list[str]] = []
        self.texts: list[str] = []
        self._in_cell = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self._in_cell = True

    def handle_endtag(self, tag: str) -> None:
        self._in_cell = self._in_cell and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self._in_cell:
            self.rows[-1][-1] += data
        else:
            self.texts.append(data)


def detections(number: int, label: str | None = "bus") -> ImageDetections:
    return ImageDetections.from_list(
        Detection((8, 6, 40.25, 30), 0.9 - n / 1000, n, label) for n in range(number)
    )


def read(text: str | None) -> _Reader:
    assert text is not None
    reader = _Reader(text)
    assert set(reader.tags) <= {"div", "p", "table", "thead", "tbody", "tr", "th", "td", "img"}
    return reader


def test_a_table_of_detections() -> None:
    reader = read(detections(2)._repr_html_())
    assert reader.texts == ["2 detections (2 bus)"]
    assert reader.rows == [
        ["", "class", "score", "x1", "y1", "x2", "y2"],
        ["0", "bus", "0.900", "8.0", "6.0", "40.2", "30.0"],
        ["1", "bus", "0.899", "8.0", "6.0", "40.2", "30.0"],
    ]
    assert read(detections(0)._repr_html_()).texts == ["0 detections"]


def test_a_table_has_20_rows_and_the_count_of_the_rest() -> None:
    reader = read(detections(20)._repr_html_())
    assert (len(reader.rows), reader.texts[-1]) == (21, "20 detections (20 bus)")
    reader = read(detections(1234)._repr_html_())
    assert (len(reader.rows), reader.texts[-1]) == (21, "and 1214 more")


def test_names_are_escaped(tmp_path: Path) -> None:
    hostile = detections(1, HOSTILE)
    results = [
        ImageResult(HOSTILE, "ok", hostile),
        ImageResult(HOSTILE, HOSTILE, error=HOSTILE),
        ImageResult(HOSTILE, "ok", classes=[ClassScore(0, 0.5, HOSTILE)], task=Task.classification),
    ]
    for shown in (hostile, *results, Results(results)):
        text = shown._repr_html_()
        assert "script" not in read(text).tags
        cells = [cell for row in read(text).rows for cell in row]
        assert HOSTILE in "".join([*read(text).texts, *cells])


def test_columns_of_what_only_some_heads_have() -> None:
    found = ImageDetections.from_list(
        [
            Detection(
                (0, 0, 4, 4),
                0.5,
                3,
                keypoints=[(1, 1, 1), (2, 2, 0)],
                angle=0.25,
                mask={"size": [4, 6], "counts": "08"},
                classification=ClassScore(1, 0.75, "van"),
            )
        ]
    )
    titles, row = read(found._repr_html_()).rows
    assert titles[7:] == ["angle", "keypoints", "mask", "classification"]
    assert row[1] == "class 3"
    assert row[7:] == ["0.250", "2", "4 x 6", "van 0.750"]


def test_tracks_have_a_column() -> None:
    tracked = dataclasses.replace(detections(2), track_ids=np.array([7, -1], np.int64))
    assert [row[-1] for row in read(tracked._repr_html_()).rows] == ["track", "7", ""]


def test_batches_of_the_library() -> None:
    rng = np.random.default_rng(1)
    head = rng.random((2, 7, 40), np.float32)
    pixels = np.zeros((64, 64, 3), np.uint8)
    geometry = endcap.preprocess([pixels, pixels], size=64).geometry
    batch = endcap.Postprocessor("yolov8", num_classes=3)(head, geometry)
    titles, *rows = read(batch._repr_html_()).rows
    assert titles == ["image", "result", "status"]
    assert [row[1].split(" (")[0] for row in rows] == [f"{len(each)} detections" for each in batch]
    assert [row[2] for row in rows] == ["ok", "ok"]
    one = endcap.Postprocessor("yolov8", num_classes=3)(head[:1], geometry[:1])
    assert one._repr_html_() == one[0]._repr_html_()
    classify = endcap.Postprocessor("classification", num_classes=4, top_k=2)
    scores = np.array([[0, 1, 2, 3], [9, 1, 2, 3]], np.float32)
    assert [row[:2] for row in read(classify(scores)._repr_html_()).rows] == [
        ["image", "class"], ["0", "class 3"], ["1", "class 0"]
    ]  # fmt: skip
    assert [row[0] for row in read(classify(scores[:1])._repr_html_()).rows] == [
        "class", "class 3", "class 2"
    ]  # fmt: skip


def test_results_of_many_images() -> None:
    results = Results(
        [
            ImageResult("a.jpg", "ok", detections(3)),
            ImageResult("b.jpg", "corrupt_image", error="no JPEG"),
            *[ImageResult(f"{n}.jpg", "ok") for n in range(40)],
        ]
    )
    reader = read(results._repr_html_())
    assert reader.texts == ["42 images: 41 ok, 1 corrupt_image", "and 22 more"]
    assert reader.rows[1:3] == [
        ["0", "a.jpg", "ok", "3 detections (3 bus)"], ["1", "b.jpg", "corrupt_image", "no JPEG"]
    ]  # fmt: skip
    assert repr(results).endswith("and 22 more]")
    assert repr(results[:2]) == repr([*results[:2]])


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "photo.jpg"
    path.write_bytes(jpegs.photo_jpeg(300, 400))
    return path


def test_every_kind_of_image_is_drawn_on(photo: Path) -> None:
    found = detections(1)
    with Image.open(photo) as opened:
        expected = np.asarray(draw_detections(opened, found))
        pixels = np.asarray(opened)
        for image in (photo, str(photo), photo.read_bytes(), pixels, opened):
            assert (np.asarray(found.draw(image)) == expected).all()
        gray = found.draw(pixels[..., 0].copy())
    assert (gray.size, gray.mode) == (opened.size, "RGB")
    encoded = np.frombuffer(photo.read_bytes(), np.uint8)
    assert (np.asarray(found.draw(encoded)) == expected).all()
    assert found.draw(photo, within=(80, 80)).size == (80, 60)
    assert photo.read_bytes().startswith(b"\xff\xd8"), "the file is left alone"


def test_the_orientation_of_a_file_is_applied_unless_boxes_ignore_it(photo: Path) -> None:
    rotated = jpegs.with_exif(photo.read_bytes(), jpegs.exif_segment(6))
    width, height = Image.open(io.BytesIO(rotated)).size
    assert detections(1).draw(rotated).size == (height, width)
    assert detections(1).draw(rotated, upright=False).size == (width, height)
    photo.write_bytes(rotated)
    assert ImageResult(str(photo), "ok").draw().size == (height, width)
    assert ImageResult(str(photo), "ok", upright=False).draw().size == (width, height)


@pytest.mark.parametrize(
    ("image", "error", "message"),
    [
        (b"none", endcap.CorruptImageError, "cannot be read by Pillow"),
        (b"", endcap.CorruptImageError, "cannot be read by Pillow"),
        (np.zeros((4, 4, 3), np.float32), endcap.InvalidArgumentError, "float32"),
        (np.zeros((4, 4, 2), np.uint8), endcap.InvalidArgumentError, "[4, 4, 2]"),
        (np.zeros((0, 4, 3), np.uint8), endcap.InvalidArgumentError, "[0, 4, 3]"),
        (7, endcap.InvalidArgumentError, "of type int"),
        ("no/file.jpg", FileNotFoundError, "No such file"),
    ],
)
def test_what_cannot_be_drawn_on(image: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        detections(1).draw(image)


def test_yuv_cannot_be_drawn_on() -> None:
    frame = endcap.nv12(np.zeros((6, 4), np.uint8))
    with pytest.raises(endcap.InvalidArgumentError, match="in YUV cannot be drawn on"):
        detections(1).draw(frame)


def test_a_result_draws_its_own_file(photo: Path) -> None:
    result = ImageResult(str(photo), "ok", detections(2))
    assert (np.asarray(result.draw()) == np.asarray(result.detections.draw(photo))).all()
    best = ClassScore(1, 0.5, "bus")
    classified = ImageResult(str(photo), "ok", classes=[best], task=Task.classification)
    with Image.open(photo) as opened:
        assert (np.asarray(classified.draw()) == np.asarray(draw_class(opened, best))).all()
    in_memory = ImageResult("image 0", "ok", detections(1))
    with pytest.raises(endcap.InvalidArgumentError, match=r"image 0 is no file: .*draw\(image\)"):
        in_memory.draw()
    assert in_memory.draw(photo).size == (400, 300)
    with pytest.raises(endcap.InvalidArgumentError, match=r"failed .corrupt_image: bad.; look at"):
        ImageResult(str(photo), "corrupt_image", error="bad").draw()


def test_html_of_a_result_has_the_picture_of_its_file(photo: Path) -> None:
    result = ImageResult(str(photo), "ok", detections(2))
    reader = read(result._repr_html_())
    assert reader.tags.count("img") == 1
    assert len(reader.rows) == 3
    content = re.search(r'src="data:image/jpeg;base64,([^"]+)"', result._repr_html_())
    assert content is not None
    expected = io.BytesIO()
    result.draw().save(expected, "JPEG", quality=85)
    assert base64.b64decode(content[1]) == expected.getvalue()
    Image.new("RGB", (2000, 500)).save(photo)
    content = re.search(r'base64,([^"]+)"', result._repr_html_())
    assert content is not None
    with Image.open(io.BytesIO(base64.b64decode(content[1]))) as picture:
        assert picture.size == (640, 160)
    photo.unlink()
    assert "img" not in read(result._repr_html_()).tags
    assert "img" not in read(ImageResult("image 0", "ok", detections(1))._repr_html_()).tags
