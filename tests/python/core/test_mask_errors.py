"""Prototypes, coefficients and geometries that make no masks: each error says which and why."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from mask_scenes import PATHS, RESOLUTIONS, geometry, random_scene

from endcap import InvalidArgumentError

pytestmark = pytest.mark.parametrize("path", PATHS)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_coefficient_that_is_not_finite(path: str, bad: float) -> None:
    scene = random_scene(1)
    scene.coefficients[5, 3] = bad
    for run in (scene.packed, scene.encoded):
        with pytest.raises(
            InvalidArgumentError, match=r"coefficient 3 of detection 5 is -?(nan|inf)"
        ):
            run("input", path)


@pytest.mark.parametrize("resolution", RESOLUTIONS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_prototype_that_is_not_finite(path: str, resolution: str, bad: float) -> None:
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
    with pytest.raises(InvalidArgumentError, match="masks need 1 to 65535"):
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
