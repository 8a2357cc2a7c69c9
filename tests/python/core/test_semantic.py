"""Semantic segmentation: the class of each pixel, against the NumPy definition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st

import endcap
from tests.reference import class_maps, masks
from tests.support.forced_implementations import run_on_scalar_and_targets

Floats = npt.NDArray[np.float32]
INPUT = (48, 64)


def random_logits(seed: int, classes: int, size: tuple[int, int], *, levels: int = 0) -> Floats:
    """float32 [classes, *size]; with `levels` they take few values, so that ties are many."""
    logits = np.random.default_rng(seed).normal(0, 3, (classes, *size))
    return (np.round(logits * levels) / levels if levels else logits).astype(np.float32)


def letterbox(image: tuple[int, int], size: tuple[int, int]) -> Floats:
    """The geometry of an image of height and width in the middle of the model's input."""
    scale = min(size[0] / image[0], size[1] / image[1])
    rows, columns = max(1, round(image[0] * scale)), max(1, round(image[1] * scale))
    top, left = (size[0] - rows) // 2, (size[1] - columns) // 2
    return np.array(
        [columns / image[1], rows / image[0], left, top, image[1], image[0], 1, 0], np.float32
    )


def segment(head: Any, num_classes: int, geometry: Any = None, **fields: Any) -> class_maps.Map:
    fields = {"input_size": INPUT, **fields}
    maps = endcap.Postprocessor("semantic", num_classes, **fields)(head, geometry)
    assert isinstance(maps, list)
    (result,) = maps
    return result.class_map


def assert_equal_maps(head: Any, num_classes: int, geometry: Any = None, **fields: Any) -> None:
    """Every implementation gives the map of the definition."""
    expected = class_maps.class_map(head, geometry=geometry, **{"input_size": INPUT, **fields})
    scalar, others = run_on_scalar_and_targets(
        "masks", lambda: segment(head, num_classes, geometry, **fields)
    )
    np.testing.assert_array_equal(scalar, expected)
    for other in others:
        np.testing.assert_array_equal(other, scalar)


@pytest.mark.parametrize("resolution", ["source", "input", "prototype"])
@pytest.mark.parametrize("resize", ["bilinear", "nearest"])
@pytest.mark.parametrize("classes", [1, 2, 5, 19])
def test_logits(resolution: str, resize: str, classes: int) -> None:
    assert_equal_maps(
        random_logits(classes, classes, (12, 16)),
        classes,
        letterbox((37, 91), INPUT),
        mask_resolution=resolution,
        class_map_resize=resize,
    )


@given(
    st.integers(0, 1000),
    st.integers(1, 6),
    st.tuples(st.integers(1, 13), st.integers(1, 40)),
    st.tuples(st.integers(1, 50), st.integers(1, 50)),
    st.tuples(st.integers(1, 60), st.integers(1, 60)),
    st.sampled_from([0, 1, 4]),
    st.sampled_from(["bilinear", "nearest"]),
    st.sampled_from([np.float32, np.float16]),
)
def test_any_sizes(
    seed: int,
    classes: int,
    size: tuple[int, int],
    input_size: tuple[int, int],
    image: tuple[int, int],
    levels: int,
    resize: str,
    dtype: type[np.generic],
) -> None:
    """Odd sizes, ties, and float16, of which every value is a float32."""
    assert_equal_maps(
        random_logits(seed, classes, size, levels=levels).astype(dtype),
        classes,
        letterbox(image, input_size),
        input_size=input_size,
        class_map_resize=resize,
    )


@pytest.mark.parametrize("pads", [(-7, 3), (0.5, -0.5), (500, 500), (-500, -500)])
@pytest.mark.parametrize("resize", ["bilinear", "nearest"])
def test_crops_and_images_outside_of_the_input(pads: tuple[float, float], resize: str) -> None:
    geometry = letterbox((30, 40), INPUT)
    geometry[2:4] = pads
    assert_equal_maps(random_logits(3, 4, (12, 16)), 4, geometry, class_map_resize=resize)


def test_ties_go_to_the_lower_class() -> None:
    assert (segment(np.full((3, 12, 16), -2.5, np.float32), 3) == 0).all()
    assert (segment(np.zeros((1, 12, 16), np.float32), 1) == 0).all()


def test_padding_has_no_effect() -> None:
    """Logits of another class in the padding do not reach into the image."""
    logits = np.zeros((2, *INPUT), np.float32)
    geometry = letterbox((20, 80), INPUT)
    top = int(geometry[3])
    logits[0, top : INPUT[0] - top] = 1
    logits[1, :top] = logits[1, INPUT[0] - top :] = 1000
    assert (segment(logits, 2, geometry) == 0).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64])
@pytest.mark.parametrize("size", [INPUT, (12, 16), (50, 7)])
@pytest.mark.parametrize("resolution", ["source", "input", "prototype"])
def test_class_ids(dtype: type[np.generic], size: tuple[int, int], resolution: str) -> None:
    ids = np.random.default_rng(0).integers(0, 7, size).astype(dtype)
    ids[0, 0] = 255  # ignore_label
    fields: dict[str, Any] = {"mask_resolution": resolution, "input_size": INPUT}
    geometry = letterbox((33, 70), INPUT)
    np.testing.assert_array_equal(
        segment(ids, 7, geometry, class_map=True, **fields),
        class_maps.class_map(ids, geometry=geometry, **fields),
    )


def test_class_ids_of_all_256_classes_and_of_one() -> None:
    ids = np.arange(256, dtype=np.uint8).reshape(16, 16)
    np.testing.assert_array_equal(segment(ids, 256, class_map=True, input_size=16), ids)
    ids = (ids % 2).astype(np.int64)
    np.testing.assert_array_equal(segment(ids, 1, class_map=True, input_size=16), ids)


def test_classes_that_are_kept() -> None:
    logits = random_logits(2, 5, (12, 16))
    assert_equal_maps(logits, 5, classes=[1, 4], ignore_label=255)
    assert_equal_maps(logits, 5, classes=[1, 4], ignore_label=0)
    assert set(np.unique(segment(logits, 5, classes=[1, 4], ignore_label=9))) == {1, 4, 9}


def test_batch_of_images_of_different_sizes() -> None:
    logits = np.stack([random_logits(seed, 4, (12, 16)) for seed in range(3)])
    geometry = np.stack([letterbox((10 + 9 * n, 20), INPUT) for n in range(3)])
    postprocessor = endcap.Postprocessor("semantic", 4, input_size=INPUT)
    maps = postprocessor(logits, geometry, np.array([0, 0, 3], np.int32))
    assert isinstance(maps, list)
    for n in range(2):
        expected = class_maps.class_map(logits[n], input_size=INPUT, geometry=geometry[n])
        np.testing.assert_array_equal(maps[n].class_map, expected)
    assert maps[2].class_map.shape == (0, 0)  # of an image that a stage before has refused
    assert maps[2].classes() == []


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_logits_that_are_not_finite(dtype: type[np.generic], value: float) -> None:
    logits = random_logits(0, 3, (12, 16)).astype(dtype)
    logits[1, 4, 7] = logits[2, 0, 0] = value

    def message() -> str:
        with pytest.raises(endcap.InvalidArgumentError) as error:
            segment(logits, 3)
        return str(error.value)

    scalar, others = run_on_scalar_and_targets("masks", message)
    assert "class 1 at row 4, column 7" in scalar
    assert "check the network's input" in scalar
    assert others == [scalar] * len(others)


BAD: dict[str, tuple[Any, dict[str, Any], str]] = {
    "another number of classes": (np.zeros((4, 12, 16), np.float32), {}, "ask for [3, *, *]"),
    "no pixels": (np.zeros((3, 0, 16), np.float32), {}, "height of prototypes or logits is 0"),
    "too many classes": (np.zeros((3, 12, 16), np.float32), {"num_classes": 257}, "1 to 256"),
    "ignore_label": (np.zeros((3, 12, 16), np.float32), {"ignore_label": 256}, "from 0 to 255"),
    "ignore_label of a class": (
        np.zeros((3, 12, 16), np.float32),
        {"classes": [1, 2], "ignore_label": 2},
        "ignore_label is 2, which is one of classes",
    ),
    "on_nan": (np.zeros((3, 12, 16), np.float32), {"on_nan": "drop"}, "give error"),
    "an id": (np.full((12, 16), 3, np.uint8), {"class_map": True}, "row 0, column 0 is 3: with"),
    "a negative id": (np.full((12, 16), -1, np.int32), {"class_map": True}, "is -1"),
    "a great id": (np.full((12, 16), 1 << 40, np.int64), {"class_map": True}, "is 1099511627776"),
    "floats for ids": (np.zeros((12, 16), np.float32), {"class_map": True}, "class_map is float32"),
}


@pytest.mark.parametrize("name", BAD)
def test_refused(name: str) -> None:
    head, fields, message = BAD[name]
    with pytest.raises(endcap.InvalidArgumentError) as error:
        segment(head, **{"num_classes": 3, **fields})
    assert message in str(error.value)


def test_geometry_without_an_image() -> None:
    geometry = letterbox((20, 20), INPUT)
    geometry[4] = 0
    with pytest.raises(endcap.InvalidArgumentError, match="image_w 0"):
        segment(np.zeros((3, 12, 16), np.float32), 3, geometry)


def test_geometry_of_an_image_that_is_too_large() -> None:
    """A client may send any geometry to a server's postprocess."""
    geometry = np.array([1e-3, 1e-3, 0, 0, 16385, 16384, 1, 0], np.float32)
    with pytest.raises(endcap.ImageLimitError, match=r"16385x16384 pixels .*check the geometry"):
        segment(random_logits(0, 2, INPUT), 2, geometry)


def test_no_boxes() -> None:
    with pytest.raises(endcap.InvalidArgumentError, match="has no boxes"):
        endcap.box_decode(np.zeros((3, 12, 16), np.float32), family="semantic", num_classes=3)


def test_map_of_an_image(tmp_path: Path) -> None:
    ids = np.zeros((10, 20), np.uint8)
    ids[2:7, 3:9], ids[9], ids[0, 0] = 1, 2, 255
    result = endcap.SegmentationMap(ids, ["road", "car"])
    rows = [(each.class_id, each.label, each.pixels) for each in result.classes()]
    assert rows == [(0, "road", 149), (1, "car", 30), (2, None, 20)]
    assert result.classes()[1].fraction == 0.15
    assert repr(result) == "<SegmentationMap 10x20: road 74.5%, car 15.0%, class 2 10.0%>"
    assert result.rle(1) == masks.encode(ids == 1)
    picture = result.to_pil()
    picture.save(tmp_path / "map.png")
    with PIL.Image.open(tmp_path / "map.png") as saved:
        assert saved.mode == "P"
        np.testing.assert_array_equal(np.asarray(saved), ids)
    colors = np.asarray(picture.convert("RGB"))
    assert colors[0, 0].tolist() == [0, 0, 0]
    assert len({tuple(colors[y, x]) for y, x in ((0, 1), (3, 4), (9, 0))}) == 3
    assert result.to_dict()["size"] == [10, 20]
    assert result.to_dict()["classes"][1] == {
        "class_id": 1,
        "label": "car",
        "pixels": 30,
        "fraction": 0.15,
        "rle": masks.encode(ids == 1).decode(),
    }
    drawn = result.draw(np.zeros((10, 20, 3), np.uint8), within=(400, 300))
    assert (drawn.mode, drawn.width) == ("RGB", 400)
    assert len(drawn.getcolors(1 << 20) or ()) > 4
    one = endcap.SegmentationMap((ids == 1).astype(np.uint8), ["car"])
    assert [each.label for each in one.classes()] == ["background", "car"]
    with pytest.raises(endcap.InvalidArgumentError, match=r"give uint8 \[H, W\]"):
        endcap.SegmentationMap(ids.astype(np.int32))  # type: ignore[arg-type]
