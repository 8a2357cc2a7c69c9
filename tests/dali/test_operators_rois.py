"""Regions of each sample's image: an operator's samples have a row for each."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from nvidia.dali import fn

import endcap
from tests.dali.dali_runs import as_bytes, build, feed, run, run_files
from tests.support import jpegs

FILES = [jpegs.photo_jpeg(90 + 20 * i, 160 - 15 * i, seed=i) for i in range(4)]
ENCODED = [as_bytes(file) for file in FILES]
ROIS = [
    np.array([[20, 30, 90, 70], [0, 0, 50, 50], [10.5, 3.2, 11, 4]], np.float32),
    np.array([[5, 5, 20, 40]], np.float32),
    np.zeros((0, 4), np.float32),
    np.array([[1, 2, 30, 40], [-5, -5, 400, 400]], np.float32),
]


def run_rois(files: list[bytes], rois: list[Any], **parameters: Any) -> list[Any]:
    return run(
        lambda encoded, rois: fn.endcap.preprocess(encoded, rois=rois, **parameters),
        {"encoded": [as_bytes(f) for f in files], "rois": rois},
    )


def test_regions_of_each_sample() -> None:
    images, geometry, status = run_rois(FILES, ROIS, size=(40, 48))
    for i, rois in enumerate(ROIS):
        assert images[i].shape == (len(rois), 3, 40, 48)
        assert geometry[i].shape == (len(rois), 8)
        assert status[i].shape == (len(rois),)
        if len(rois):
            wanted = endcap.preprocess(FILES[i], rois=rois, size=(40, 48))
            np.testing.assert_array_equal(images[i], wanted.images)
            np.testing.assert_array_equal(geometry[i], wanted.geometry)
            np.testing.assert_array_equal(status[i], wanted.status)


def test_the_same_regions_for_all() -> None:
    flat = [20.0, 30, 60, 70, 0, 0, 50, 50]
    images, _, _ = run_files(FILES, rois=flat, size=32)
    for file, image in zip(FILES, images, strict=True):
        wanted = endcap.preprocess(file, rois=np.reshape(flat, (2, 4)), size=32)
        np.testing.assert_array_equal(image, wanted.images)


@pytest.mark.parametrize(("layout", "name"), [("nchw", "NCHW"), ("nhwc", "NHWC")])
def test_regions_are_another_dim(layout: str, name: str) -> None:
    pipeline = build(
        lambda encoded: fn.endcap.preprocess(encoded, rois=[0, 0, 9, 9], size=8, layout=layout),
        ["encoded"],
        1,
    )
    assert feed(pipeline, {"encoded": ENCODED[:1]})[0].layout() == name


def test_bad_regions_and_files_have_a_status() -> None:
    rois = [*ROIS[:1], np.array([[900, 900, 950, 950], [0, 0, 9, 9]], np.float32), *ROIS[2:]]
    files = [FILES[0], FILES[1], b"", b"no"]
    images, _, status = run_rois(files, rois, size=16)
    assert [list(s) for s in status] == [[0, 0, 0], [4, 0], [], [1, 1]]
    assert not images[1][0].any()
    assert images[1][1].any()
    assert not images[3].any()


def test_a_bad_region_ends_the_pipeline_where_errors_do() -> None:
    rois = [ROIS[0], np.array([[np.nan, 0, 1, 1]], np.float32), *ROIS[2:]]
    with pytest.raises(ValueError, match=r"invalid_argument: image index 1 of 4: .+"):
        run_rois(FILES, rois, size=16, on_error="error")


@pytest.mark.parametrize(
    ("rois", "came"),
    [
        (np.zeros(4, np.float32), r"float \[4\]"),
        (np.zeros((1, 5), np.float32), r"float \[1, 5\]"),
        (np.zeros((1, 4), np.float64), r"double \[1, 4\]"),
    ],
)
def test_regions_that_cannot_be_used(rois: npt.NDArray[Any], came: str) -> None:
    with pytest.raises(ValueError, match=f"rois of sample 0 is {came}: give"):
        run_rois(FILES[:1], [rois])


def test_more_regions_than_allowed() -> None:
    with pytest.raises(ValueError, match=r"image index 0 of 1: .*3 rois; max_rois allows 2"):
        run_rois(FILES[:1], [np.zeros((3, 4), np.float32)], max_rois=2, size=8)


@pytest.mark.parametrize("rois", [[1.0, 2, 3], [1.0] * 5])
def test_a_flat_list_that_is_no_regions(rois: list[float]) -> None:
    with pytest.raises(ValueError, match=r"rois has \d numbers: give x1"):
        run_files(FILES[:1], rois=rois)
