"""Sizes of each sample's own, and arguments that cannot be used."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from nvidia.dali import fn, types

import endcap
from tests.dali.dali_runs import as_bytes, build, feed, run, run_files, samples_of
from tests.support import jpegs

FILES = [jpegs.photo_jpeg(90 + 20 * i, 160 - 15 * i, seed=i) for i in range(4)]
ENCODED = [as_bytes(file) for file in FILES]


def run_sized(sizes: list[Any], **parameters: Any) -> list[Any]:
    return run(
        lambda encoded, size: fn.endcap.preprocess(encoded, size=size, **parameters),
        {"encoded": ENCODED[: len(sizes)], "size": sizes},
    )


def test_a_size_of_its_own_for_each_sample() -> None:
    sizes = [(64, 96), (96, 64), (33, 33), (64, 96)]
    given = [np.array(size, np.int32) for size in sizes]
    images, geometry, status = run_sized(given, mean=[0.4, 0.5, 0.6])
    for i, size in enumerate(sizes):
        alone = endcap.preprocess(FILES[i], size=size, mean=[0.4, 0.5, 0.6])
        np.testing.assert_array_equal(images[i], alone.images[0])
        np.testing.assert_array_equal(geometry[i], alone.geometry[0])
        assert status[i] == [0]


@pytest.mark.parametrize("shape", [(), (1,)])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_one_number_for_both_sides(shape: tuple[int, ...], dtype: type) -> None:
    images, _, _ = run_sized([np.full(shape, side, dtype) for side in (40, 50)])
    assert [image.shape for image in images] == [(3, 40, 40), (3, 50, 50)]


@pytest.mark.parametrize(
    ("size", "came"),
    [
        (np.array([0, 5], np.int32), "0,5"),
        (np.array(2**32 + 64, np.int64), "4294967360,4294967360"),
        (np.array([5, 5, 5], np.int32), r"int32 \[3\]"),
        (np.array([5.0, 5.0], np.float32), r"float \[2\]"),
    ],
    ids=str,
)
def test_a_size_that_cannot_be_used(size: npt.NDArray[Any], came: str) -> None:
    with pytest.raises(ValueError, match=f"size of sample 0 is {came}: give"):
        run_sized([size, size])


def test_a_crop_of_each_sample_s_own_is_within_its_image() -> None:
    sizes = [np.array(size, np.int32) for size in ((64, 64), (65, 64))]
    with pytest.raises(ValueError, match="image index 1 of 2: size is 65,64 with fit center_crop"):
        run_sized(sizes, fit="center_crop", resize_shorter=64)


def test_whole_numbers_beyond_32_bits_do_not_wrap() -> None:
    for size in (2**32 + 64, [64, 2**32 + 64]):
        with pytest.raises(ValueError, match=r"size is .*4294967360"):
            run_files(FILES[:1], size=size)
    with pytest.raises(ValueError, match=r"input_size is .*4294967360"):
        run(
            lambda head: fn.endcap.postprocess(head, head="yolov8", input_size=2**32 + 64),
            {"head": [np.zeros((84, 9), np.float32)]},
        )


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"fit": "crop"}, "fit.*crop.*letterbox"),
        ({"dtype": types.FLOAT64}, "dtype.*types.FLOAT"),
    ],
    ids=str,
)
def test_a_parameter_that_cannot_be_used(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        run_files(FILES[:1], **parameters)
    assert "image index" not in str(raised.value)


@pytest.mark.parametrize(
    "sample",
    [
        np.zeros((4, 4), np.uint8),
        np.zeros(100, np.float32),
    ],
    ids=lambda sample: f"{sample.dtype} {sample.shape}",
)
def test_an_input_that_is_no_file(sample: npt.NDArray[Any]) -> None:
    with pytest.raises(ValueError, match=r"encoded is .*: give the bytes of a file"):
        run(lambda encoded: fn.endcap.preprocess(encoded), {"encoded": [sample]})


def test_a_size_from_dali_s_own_arithmetic() -> None:
    def graph(encoded: Any) -> Any:
        shape = fn.peek_image_shape(encoded)
        half = fn.cast(shape[:2] // 2, dtype=types.INT32)
        return fn.endcap.preprocess(encoded, size=half)

    pipeline = build(graph, ["encoded"], 4)
    images = samples_of(feed(pipeline, {"encoded": ENCODED})[0])
    assert [i.shape[1:] for i in images] == [(45, 80), (55, 72), (65, 65), (75, 57)]
