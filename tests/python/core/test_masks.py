"""Instance masks against the reference, and errors of inputs that make none."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from endcap import InvalidArgumentError
from endcap.masks import decode_rle
from tests.reference import masks as reference
from tests.support.mask_scenes import (
    PATHS,
    RESOLUTIONS,
    Scene,
    geometry,
    letterboxed,
    random_scene,
    smooth,
)

pytestmark = pytest.mark.parametrize("path", PATHS)

INPUT = (96, 160)  # height, width; prototypes of 24 x 40
GEOMETRIES = {
    "padding above and below": letterboxed((50, 200), INPUT),
    "padding at the sides": letterboxed((300, 77), INPUT),
    "half a prototype pixel of padding": geometry((0.5, 0.5), (10, 2), (184, 280)),
    "a small picture": letterboxed((7, 9), INPUT),
    "a line": letterboxed((1, 300), INPUT),
    "stretched": geometry((160 / 61, 96 / 203), (0, 0), (203, 61)),
    "cropped": geometry((0.8, 0.8), (-40, 0), (120, 300)),
    "less than a prototype pixel": geometry((0.01, 0.01), (41.5, 33.5), (80, 80)),
    "before a prototype pixel's centre": geometry((0.01, 0.01), (44.2, 36.2), (80, 80)),
    "behind a prototype pixel's centre": geometry((0.01, 0.01), (42.5, 34.5), (80, 80)),
    "beside the input": geometry((1.0, 1.0), (500, -500), (30, 40)),
}


def assert_equals_reference(scene: Scene, resolution: str, path: str) -> np.ndarray:
    """Packed and as run lengths; returns the masks, bool [N, H, W]."""
    expected = [
        reference.mask(
            scene.prototypes, coefficients, box, resolution, scene.input_size, scene.geometry
        )
        for coefficients, box in zip(scene.coefficients, scene.boxes, strict=True)
    ]
    packed = scene.packed(resolution, path)
    size, rles = scene.encoded(resolution, path)
    for mask, bits, rle in zip(expected, packed, rles, strict=True):
        assert mask.shape == size
        np.testing.assert_array_equal(bits, np.packbits(mask, axis=-1))
        assert rle == reference.encode(mask)
        np.testing.assert_array_equal(decode_rle(rle, size), mask)
    return np.array(expected)


def whole_box(height: int, width: int) -> Scene:
    """Prototypes of 24 x 40 for an input that need not be a multiple of them."""
    random = np.random.default_rng(5)
    boxes = np.array([[0, 0, 1000, 1000]] * 3, np.float32)
    weights = random.normal(size=(3, 4)).astype(np.float32)
    return Scene(smooth(random, (4, 24, 40)), weights, boxes, (height, width))


SCENES: dict[str, tuple[Scene, str]] = {
    **{
        f"{source}, {resolution}": (random_scene(1, source=source), resolution)
        for source in (None, (1080, 1920), (333, 250), (20, 30))
        for resolution in RESOLUTIONS
    },
    **{f"input of {h}x{w}": (whole_box(h, w), "input") for h, w in ((641, 479), (23, 39), (1, 1))},
    # Signs are kept in words of 64 rows of prototypes.
    **{
        f"{rows} rows, {resolution}": (
            random_scene(1, shape=(8, rows, 40), source=(333, 250)),
            resolution,
        )
        for rows in (63, 64, 65, 130)
        for resolution in RESOLUTIONS
    },
    # Hundreds of pixels between prototype pixels.
    "tall": (random_scene(9, shape=(4, 12, 12), source=(5000, 300)), "source"),
    "wide": (random_scene(9, shape=(4, 12, 12), source=(300, 5000)), "source"),
    "many detections": (random_scene(6, count=300), "prototype"),
}


@pytest.mark.parametrize("name", SCENES)
def test_scenes(path: str, name: str) -> None:
    masks = assert_equals_reference(*SCENES[name], path)
    assert "input" in name or 0.04 < masks.mean() < 0.5  # there is something to get wrong


@pytest.mark.parametrize("name", GEOMETRIES)
def test_geometries(path: str, name: str) -> None:
    scene = dataclasses.replace(random_scene(2), geometry=GEOMETRIES[name])
    scene.prototypes[:] = np.random.default_rng(2).normal(size=scene.prototypes.shape)
    scene.boxes[::2] = [-1e4, -1e4, 1e4, 1e4]  # wherever the picture is
    masks = assert_equals_reference(scene, "source", path)
    assert masks.any()


@pytest.mark.parametrize("resolution", RESOLUTIONS)
def test_boxes_that_are_hard(path: str, resolution: str) -> None:
    inf, nan = np.inf, np.nan
    boxes = [
        [0, 0, 160, 96],
        [-1e30, -1e30, 1e30, 1e30],
        [-inf, -inf, inf, inf],
        [10, 10, 10, 10],  # empty
        [50, 50, 20, 20],  # inverted
        [-20, -20, -10, -10],
        [500, 500, 600, 600],
        [nan, 0, 100, 50],
        [0, 0, 100, nan],
        [31.5, 40.5, 32.5, 41.5],  # one pixel
        [32, 40, 33, 41],
        [159, 95, 160, 96],
        [0, 0, 1e-3, 1e-3],
        [7, 0, 9, 96],  # across a byte's end
        [8, 0, 16, 96],
        [0, 63, 160, 65],
    ]
    base = random_scene(3, count=len(boxes), source=(200, 300))
    assert_equals_reference(
        dataclasses.replace(base, boxes=np.array(boxes, np.float32)), resolution, path
    )


LEVELS = {
    "all inside": 1.0,
    "all outside": -1.0,
    "on the border": 0.0,
    "subnormal": 1e-45,
    "near the smallest": 3e-38,
    "near the greatest": 1.7e38,
    "minus the greatest": -3.4e38,
}


@pytest.mark.parametrize("resolution", RESOLUTIONS)
@pytest.mark.parametrize("pattern", ["even", "rows", "columns", "checkers", "noise"])
@pytest.mark.parametrize("level", LEVELS)
def test_prototypes_that_are_hard(path: str, resolution: str, pattern: str, level: str) -> None:
    y, x = np.mgrid[:24, :40]
    noise = np.random.default_rng(4).integers(-3, 4, (24, 40)) / np.float32(3)
    signs = {
        "even": np.ones((24, 40)),
        "rows": 1 - 2 * (y % 2),
        "columns": 1 - 2 * (x % 2),
        "checkers": 1 - 2 * ((x + y) % 2),
        "noise": noise,
    }[pattern]
    plane = (signs * LEVELS[level]).astype(np.float32)
    scene = Scene(
        plane[None],
        np.ones((2, 1), np.float32),
        np.array([[0, 0, 160, 96], [3, 5, 100, 71]], np.float32),
        INPUT,
        letterboxed((150, 333), INPUT),
    )
    assert_equals_reference(scene, resolution, path)


@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(st.integers(1, 40), st.integers(1, 70), st.integers(1, 40)),
    stride=st.integers(1, 9),
    source=st.none() | st.tuples(st.integers(1, 300), st.integers(1, 300)),
    resolution=st.sampled_from(RESOLUTIONS),
)
def test_any_size(
    path: str,
    seed: int,
    shape: tuple[int, int, int],
    stride: int,
    source: tuple[int, int] | None,
    resolution: str,
) -> None:
    scene = random_scene(seed, shape=shape, count=4, stride=stride, source=source)
    assert_equals_reference(scene, resolution, path)


@pytest.mark.parametrize("resolution", RESOLUTIONS)
def test_no_detection(path: str, resolution: str) -> None:
    scene = random_scene(7, count=0)
    assert scene.packed(resolution, path).shape[0] == 0
    assert scene.encoded(resolution, path)[1] == []


@pytest.mark.parametrize("resolution", RESOLUTIONS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_no_box_needs_may_be_anything(path: str, resolution: str, bad: float) -> None:
    """Only the box's part of the prototypes is read."""
    scene = random_scene(8, count=1)
    boxes = np.array([[60, 40, 100, 60]], np.float32)  # prototype pixels 15 to 24, 10 to 14
    clean = dataclasses.replace(scene, boxes=boxes)
    prototypes = np.full_like(scene.prototypes, bad)
    prototypes[:, 9:16, 14:26] = scene.prototypes[:, 9:16, 14:26]
    dirty = dataclasses.replace(clean, prototypes=prototypes)
    np.testing.assert_array_equal(dirty.packed(resolution, path), clean.packed(resolution, path))
    assert dirty.encoded(resolution, path) == clean.encoded(resolution, path)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_coefficient_is_refused(path: str, bad: float) -> None:
    scene = random_scene(1)
    scene.coefficients[5, 3] = bad
    for run in (scene.packed, scene.encoded):
        with pytest.raises(
            InvalidArgumentError, match=r"coefficient 3 of detection 5 is -?(nan|inf)"
        ):
            run("input", path)


@pytest.mark.parametrize("resolution", RESOLUTIONS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_non_finite_prototype_is_refused(path: str, resolution: str, bad: float) -> None:
    scene = random_scene(2)
    scene.boxes[:] = [0, 0, 8, 8]
    scene.boxes[7] = [0, 0, 160, 96]
    scene.prototypes[2, 20, 33] = bad
    with pytest.raises(InvalidArgumentError, match="of detection 7 at row 20, column 33 of the"):
        scene.encoded(resolution, path)


@pytest.mark.parametrize("place", [(0, 0), (23, 39), (23, 0), (10, 17)])
def test_sums_that_overflow(path: str, place: tuple[int, int]) -> None:
    scene = random_scene(3, count=1)
    scene.boxes[0] = [0, 0, 160, 96]
    scene.prototypes[:, place[0], place[1]] = 3e38
    scene.coefficients[:] = 1
    with pytest.raises(InvalidArgumentError, match=f"row {place[0]}, column {place[1]} of .* inf"):
        scene.packed("input", path)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (geometry((0, 1), (0, 0), (10, 10)), "scale 0 and padding 0"),
        (geometry((1, np.nan), (0, 0), (10, 10)), "scale nan"),
        (geometry((1, 1), (np.inf, 0), (10, 10)), "padding inf"),
        (geometry((1, 1), (0, 0), (10, 65536)), "image_w 65536"),
        (geometry((1, 1), (0, 0), (0, 10)), "image_h 0"),
    ],
)
def test_geometries_that_place_nothing(path: str, row: np.ndarray, message: str) -> None:
    scene = dataclasses.replace(random_scene(4), geometry=row)
    with pytest.raises(InvalidArgumentError, match=message):
        scene.encoded("source", path)
    assert len(scene.encoded("input", path)[1]) == 12  # which does not look at it


@pytest.mark.parametrize("input_size", [(0, 10), (10, -1), (65536, 10)])
def test_inputs_of_no_size(path: str, input_size: tuple[int, int]) -> None:
    scene = dataclasses.replace(random_scene(5), input_size=input_size)
    with pytest.raises(InvalidArgumentError, match=r"the input's \w+ is -?\d+: give 1 to 65535"):
        scene.packed("input", path)


def test_lengths_that_do_not_fit(path: str) -> None:
    scene = random_scene(6)
    for other in (
        dataclasses.replace(scene, boxes=scene.boxes[:5]),
        dataclasses.replace(scene, coefficients=scene.coefficients[:, :7]),
    ):
        with pytest.raises(
            InvalidArgumentError, match=r"each detection needs 4 and 8|coefficients \[N,M\]"
        ):
            other.encoded("input", path)
