"""What may be given as regions, what is refused, and what a bad one leaves of the others."""

from __future__ import annotations

import numpy as np
import pytest

import endcap
from tests.support import jpegs

HEIGHT, WIDTH = 120, 160
FILE = jpegs.photo_jpeg(HEIGHT, WIDTH)
GOOD = [10.0, 20.0, 60.0, 70.0]
BAD = {
    "outside": [WIDTH, 0, WIDTH + 9, 9],
    "left of it": [-9, 0, 0, 9],
    "empty": [0, 0, 0, 0],
    "empty inside a pixel": [5.5, 5, 5.5, 9],
    "inverted": [60, 20, 10, 70],
    "inverted inside a pixel": [5.7, 5, 5.2, 9],
    "nan": [float("nan"), 0, 9, 9],
    "infinite": [0, 0, float("inf"), 9],
    "infinite in float32": [0, 0, 1e300, 9],
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("image", [FILE, endcap.decode(FILE)], ids=["file", "pixels"])
def test_a_bad_region_is_named_or_blank_and_touches_no_other(bad: str, image: object) -> None:
    with pytest.raises(endcap.InvalidArgumentError, match="roi index 1 of 3 is"):
        endcap.preprocess(image, size=32, rois=[GOOD, BAD[bad], GOOD])
    alone = endcap.preprocess(image, size=32, rois=[GOOD])
    result = endcap.preprocess(image, size=32, rois=[GOOD, BAD[bad], GOOD], on_error="blank")
    assert result.status.tolist() == [0, endcap.Status.INVALID_ARGUMENT, 0]
    assert not result.images[1].any()
    assert result.geometry[1].tolist() == [1, 1, 0, 0, 0, 0, 1, 0]
    for i in (0, 2):
        np.testing.assert_array_equal(result.images[i], alone.images[0])
        np.testing.assert_array_equal(result.geometry[i], alone.geometry[0])


@pytest.mark.parametrize("none", [[], np.empty((0, 4), np.float32), np.zeros((0,), np.int64)])
def test_no_region_gives_no_tensor(none: object) -> None:
    result = endcap.preprocess(FILE, size=32, rois=none)
    assert result.images.shape == (0, 3, 32, 32)
    assert result.geometry.shape == (0, 8)
    assert result.status.shape == (0,)
    with pytest.raises(endcap.CorruptImageError):
        endcap.preprocess(b"no image", size=32, rois=none)


def test_a_thousand_regions() -> None:
    random = np.random.default_rng(4)
    corner = random.uniform(0, 90, (1000, 2))
    rois = np.concatenate([corner, corner + random.uniform(1, 60, (1000, 2))], axis=1)
    result = endcap.preprocess(FILE, size=24, rois=rois)
    assert (result.status == 0).all()
    for i in (0, 499, 999):
        alone = endcap.preprocess(FILE, size=24, rois=rois[i : i + 1])
        np.testing.assert_array_equal(result.images[i], alone.images[0])
    with pytest.raises(endcap.InvalidArgumentError, match="1001 rois; max_rois allows 1000"):
        endcap.preprocess(FILE, size=24, rois=[GOOD] * 1001)
    assert len(endcap.preprocess(FILE, size=24, rois=[GOOD] * 1001, max_rois=1001).images) == 1001


def test_bytes_of_tensors_are_bounded() -> None:
    with pytest.raises(
        endcap.InvalidArgumentError,
        match="the tensors of 219 rois take 1076428800 bytes; max_roi_bytes allows 1073741824",
    ):
        endcap.preprocess(FILE, rois=[GOOD] * 219)
    few = {"size": 24, "dtype": "uint8", "rois": [GOOD] * 3}
    assert len(endcap.preprocess(FILE, max_roi_bytes=3 * 3 * 24 * 24, **few).images) == 3
    with pytest.raises(endcap.InvalidArgumentError, match="max_roi_bytes allows 5183"):
        endcap.preprocess(FILE, max_roi_bytes=3 * 3 * 24 * 24 - 1, **few)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32, np.uint8])
def test_any_real_dtype(dtype: type[np.generic]) -> None:
    expected = endcap.preprocess(FILE, size=32, rois=[GOOD])
    actual = endcap.preprocess(FILE, size=32, rois=np.array([GOOD]).astype(dtype))
    np.testing.assert_array_equal(actual.images, expected.images)
    strided = np.zeros((2, 8), dtype)
    strided[0, ::2] = GOOD
    actual = endcap.preprocess(FILE, size=32, rois=strided[:1, ::2])
    np.testing.assert_array_equal(actual.images, expected.images)


@pytest.mark.parametrize(
    ("rois", "said"),
    [
        (GOOD, r"rois has shape \[4\]"),
        ([[1, 2, 3]], r"rois has shape \[1, 3\]"),
        ([[[1, 2, 3, 4]]], r"rois has shape \[1, 1, 4\]"),
        ([["a", "b", "c", "d"]], "rois is"),
        ([[1j, 0, 3, 4]], "rois is complex"),
        ([[1, 2], [1, 2, 3]], "rois is not an array"),
    ],
)
def test_other_shapes_and_types_are_refused(rois: object, said: str) -> None:
    with pytest.raises(endcap.InvalidArgumentError, match=said):
        endcap.preprocess(FILE, rois=rois)


def test_several_images_are_refused() -> None:
    with pytest.raises(endcap.InvalidArgumentError, match="list of 2 images: give one"):
        endcap.preprocess([FILE, FILE], rois=[GOOD])


def test_out_has_a_row_for_each_region() -> None:
    out = np.empty((2, 3, 32, 32), np.float32)
    result = endcap.preprocess(FILE, size=32, rois=[GOOD, GOOD], out=out)
    assert result.images is out
    assert out[1].any()
    with pytest.raises(endcap.InvalidArgumentError, match=r"shape \[1, 3, 32, 32\]"):
        endcap.preprocess(FILE, size=32, rois=[GOOD], out=out)


def test_a_corrupt_image_fails_every_region_but_where_its_damage_is_not_reached() -> None:
    cut = FILE[: len(FILE) // 2]
    top, bottom = [0, 0, 160, 8], [0, 100, 160, 120]
    with pytest.raises(endcap.CorruptImageError, match="cut short"):
        endcap.preprocess(cut, size=32, rois=[top, bottom])
    result = endcap.preprocess(cut, size=32, rois=[top, bottom], on_error="blank")
    assert (result.status == endcap.Status.CORRUPT_IMAGE).all()
    assert not result.images.any()
    above = endcap.preprocess(cut, size=32, rois=[top])
    whole = endcap.preprocess(FILE, size=32, rois=[top])
    np.testing.assert_array_equal(above.images, whole.images)


@pytest.mark.parametrize("threads", [1, 3])
def test_results_do_not_depend_on_threads(threads: int) -> None:
    pixels = endcap.decode(FILE)
    rois = [[i, 2 * i, i + 30, 2 * i + 20] for i in range(40)]
    expected = endcap.preprocess(FILE, size=48, rois=rois)
    for image in (FILE, pixels):
        actual = endcap.Preprocessor(size=48, threads=threads)(image, rois=rois)
        np.testing.assert_array_equal(actual.images, expected.images)
