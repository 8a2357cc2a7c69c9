"""preprocess with device="cuda": the CPU's numbers, wherever pixels and results lie."""

from __future__ import annotations

from typing import Any

import jpegs
import numpy as np
import pytest
from cuda_inputs import HOLDERS, ByDlpack, ByInterface, on_gpu, require_cuda

import endcap

require_cuda()
PIXELS = jpegs.photo(40, 60)
FILES = [jpegs.photo_jpeg(30, 50), jpegs.photo_jpeg(64, 48, seed=1)]
SIZE = (32, 48)


def assert_same(actual: endcap.PreprocessResult, expected: endcap.PreprocessResult) -> None:
    assert isinstance(actual.images, endcap.CudaArray)
    np.testing.assert_array_equal(actual.images.to_numpy(), expected.images)
    np.testing.assert_array_equal(actual.geometry, expected.geometry)
    np.testing.assert_array_equal(actual.status, expected.status)


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "int8"])
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_files_and_pixels_give_the_cpu_s_numbers(layout: str, dtype: str) -> None:
    options: dict[str, Any] = {"size": SIZE, "layout": layout, "dtype": dtype}
    images = [*FILES, PIXELS, PIXELS[:, :, 0]]
    result = endcap.preprocess(images, device="cuda", **options)
    assert_same(result, endcap.preprocess(images, **options))
    assert result.images.dtype == dtype
    assert result.decoders[2:] == ("", "")
    assert set(result.decoders[:2]) <= {"cpu", "hybrid", "nvjpeg"}


@pytest.mark.parametrize("preset", endcap.presets())
def test_presets(preset: str) -> None:
    preprocessor = endcap.Preprocessor(preset, device="cuda:0", threads=2)
    assert preprocessor.device == "cuda:0"
    assert preprocessor.parameters == endcap.Preprocessor(preset).parameters
    assert_same(preprocessor(FILES), endcap.Preprocessor(preset)(FILES))


@pytest.mark.parametrize("hold", HOLDERS)
@pytest.mark.parametrize("pixels", [PIXELS, PIXELS[:, :, 0].copy(), PIXELS[:, :, :1].copy()])
def test_pixels_on_the_gpu(hold: Any, pixels: np.ndarray) -> None:
    for pixel_format in ("rgb", "bgr"):
        options: dict[str, Any] = {"size": SIZE, "pixel_format": pixel_format}
        result = endcap.preprocess([hold(pixels), FILES[0]], device="cuda", **options)
        assert_same(result, endcap.preprocess([pixels, FILES[0]], **options))


def test_rows_of_pixels_may_lie_apart() -> None:
    cut = {"shape": (40, 20, 3), "strides": PIXELS.strides}
    result = endcap.preprocess(ByInterface(PIXELS, **cut), size=SIZE, device="cuda")
    assert_same(result, endcap.preprocess(PIXELS[:, :20], size=SIZE))


def test_a_file_on_the_gpu_is_downloaded() -> None:
    file = np.frombuffer(FILES[0], np.uint8)
    assert_same(
        endcap.preprocess(on_gpu(file), size=SIZE, device="cuda"),
        endcap.preprocess(file, size=SIZE),
    )


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (PIXELS.astype(np.float32), "uint8"),
        (PIXELS.view(np.int8), "uint8"),
        (np.zeros(8, np.float32), "uint8"),
        (np.zeros((4, 4, 2), np.uint8), "for example image.*0"),
        (np.zeros((1, 1, 4, 4, 3), np.uint8), "uint8 .1, 1, 4, 4, 3."),
    ],
)
def test_what_is_no_image(image: np.ndarray, message: str) -> None:
    with pytest.raises(endcap.InvalidArgumentError, match=message):
        endcap.preprocess(on_gpu(image), size=SIZE, device="cuda")


@pytest.mark.parametrize("hold", HOLDERS)
def test_out_is_written_and_returned(hold: Any) -> None:
    out = hold(np.full((2, 3, *SIZE), 9, np.float32))
    result = endcap.preprocess(FILES, size=SIZE, device="cuda", out=out)
    assert result.images is out
    array = getattr(out, "_array", out)
    np.testing.assert_array_equal(array.to_numpy(), endcap.preprocess(FILES, size=SIZE).images)


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.zeros((2, 3, *SIZE), np.float32), "host memory"),
        ([], "host memory"),
    ],
)
def test_out_must_be_on_the_gpu(out: Any, message: str) -> None:
    with pytest.raises(endcap.InvalidArgumentError, match=message):
        endcap.preprocess(FILES, size=SIZE, device="cuda", out=out)


@pytest.mark.parametrize(
    "out", [np.zeros((1, 3, *SIZE), np.float32), np.zeros((2, 3, *SIZE), np.float16)]
)
def test_out_must_have_the_results_shape_and_dtype(out: np.ndarray) -> None:
    with pytest.raises(endcap.InvalidArgumentError, match="out is"):
        endcap.preprocess(FILES, size=SIZE, device="cuda", out=on_gpu(out))


def test_a_cpu_does_not_write_to_the_gpu() -> None:
    with pytest.raises(endcap.InvalidArgumentError, match="out is a CudaArray"):
        endcap.preprocess(FILES, size=SIZE, out=on_gpu(np.zeros((2, 3, *SIZE), np.float32)))


def test_an_array_of_another_gpu_is_refused() -> None:
    class Elsewhere(ByDlpack):
        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 1)

    with pytest.raises(endcap.InvalidArgumentError, match="lies on cuda:1"):
        endcap.preprocess(Elsewhere(PIXELS), size=SIZE, device="cuda:0")


def test_a_bad_image_is_an_error_or_blank() -> None:
    images = [FILES[0], b"no image", FILES[1]]
    with pytest.raises(endcap.CorruptImageError, match="image index 1 of 3") as caught:
        endcap.preprocess(images, size=SIZE, device="cuda")
    with pytest.raises(endcap.CorruptImageError) as expected:
        endcap.preprocess(images, size=SIZE)
    assert str(caught.value) == str(expected.value)
    options: dict[str, Any] = {"size": SIZE, "on_error": "blank"}
    blank = endcap.preprocess(images, device="cuda", **options)
    assert_same(blank, endcap.preprocess(images, **options))
    assert blank.status.tolist() == [0, endcap.Status.CORRUPT_IMAGE, 0]


def test_an_empty_batch() -> None:
    result = endcap.preprocess([], size=SIZE, device="cuda")
    assert result.images.shape == (0, 3, *SIZE)
    assert result.decoders == ()


def test_a_producer_is_told_the_stream() -> None:
    pixels = ByDlpack(PIXELS)
    for stream, told in ((None, 1), (0, 1), (1, 1), (2, 2)):
        endcap.preprocess(pixels, size=SIZE, device="cuda", stream=stream)
        assert pixels.streams.pop() == told


def test_a_result_tells_its_stream() -> None:
    for stream, told in ((None, 0), (1, 0), (2, 2)):
        images = endcap.preprocess(PIXELS, size=SIZE, device="cuda", stream=stream).images
        assert images.stream == told


def test_results_go_on_to_the_next_stage() -> None:
    square = endcap.preprocess(PIXELS, size=SIZE, dtype="uint8", layout="nhwc", device="cuda")
    on_host = endcap.preprocess(PIXELS, size=SIZE, dtype="uint8", layout="nhwc")
    again = endcap.preprocess(
        ByInterface(square.images.to_numpy()[0]), size=20, fit="stretch", device="cuda"
    )
    assert_same(again, endcap.preprocess(on_host.images[0], size=20, fit="stretch"))


def test_a_batch_in_one_array_is_as_many_images() -> None:
    batch = np.stack([jpegs.photo(40, 60, seed=seed) for seed in range(5)])
    expected = endcap.Preprocessor(size=64)(list(batch))
    processor = endcap.Preprocessor(size=64, device="cuda")
    for images in (batch, on_gpu(batch), ByInterface(batch)):
        assert_same(processor(images), expected)
    every_other = ByInterface(batch, shape=(3, 40, 60, 3), strides=(2 * batch[0].nbytes, 180, 3, 1))
    assert_same(processor(every_other), endcap.Preprocessor(size=64)(list(batch[::2])))
    assert processor(on_gpu(batch[:0])).images.shape == (0, 3, 64, 64)
    with pytest.raises(endcap.InvalidArgumentError, match="5 images were given: give one"):
        processor(on_gpu(batch), rois=[[0, 0, 9, 9]])
    with pytest.raises(endcap.InvalidArgumentError, match="not 4-D"):
        processor([on_gpu(batch), on_gpu(batch)])
