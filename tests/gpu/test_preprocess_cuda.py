"""Preprocessing on a GPU: the CPU's numbers, bit for bit, wherever pixels and results lie."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

import endcap
from tests.gpu.pictures import BAD, FILES, PIXELS
from tests.support import jpegs
from tests.support.cuda_inputs import HOLDERS, ByDlpack, ByInterface, on_gpu

# One setting for each arithmetic of the kernel, and two layouts.
SETTINGS: dict[str, dict[str, Any]] = {
    "ultralytics": {"size": (64, 96)},
    "torchvision": {"preset": "torchvision", "size": 56, "resize_shorter": 64},
    "bicubic": {"size": 64, "interpolation": "bicubic"},
    "float": {"size": 40, "quantize": "none"},
    "uint8 nhwc": {"size": 64, "dtype": "uint8", "layout": "nhwc"},
    "gray": {"size": 64, "color": "gray"},
    "fast": {"size": 16, "decode": "fast"},
}


SIZE = (32, 48)
PHOTO = jpegs.photo(40, 60)
JPEGS = [jpegs.photo_jpeg(30, 50), jpegs.photo_jpeg(64, 48, seed=1)]


def assert_same(actual: endcap.PreprocessResult, expected: endcap.PreprocessResult) -> None:
    assert isinstance(actual.images, endcap.CudaArray)
    assert actual.images.dtype == expected.images.dtype
    np.testing.assert_array_equal(actual.images.to_numpy(), expected.images)
    np.testing.assert_array_equal(actual.geometry, expected.geometry)
    np.testing.assert_array_equal(actual.status, expected.status)


@pytest.mark.parametrize("name", SETTINGS)
def test_every_kind_of_file_in_one_batch(name: str) -> None:
    files = list(FILES.values())
    expected = endcap.Preprocessor(**SETTINGS[name])(files)
    assert_same(endcap.Preprocessor(**SETTINGS[name], device="cuda")(files), expected)


@pytest.mark.parametrize("name", SETTINGS)
def test_pixels(name: str) -> None:
    images = PIXELS[:2]
    expected = endcap.Preprocessor(**SETTINGS[name])(images, pixel_format="bgr")
    preprocessor = endcap.Preprocessor(**SETTINGS[name], device="cuda")
    assert_same(preprocessor(images, pixel_format="bgr"), expected)


def test_a_bad_image_is_an_error_or_blank_and_touches_no_other() -> None:
    images = [BAD[0], FILES["4:2:0"], BAD[1], BAD[2], FILES["gray"], BAD[3]]
    options: dict[str, Any] = {"size": 64, "on_error": "blank"}
    expected = endcap.preprocess(images, **options)
    assert_same(endcap.preprocess(images, device="cuda", **options), expected)
    assert (expected.status != 0).sum() >= 3
    with pytest.raises(endcap.CorruptImageError, match="image index 2 of 3") as caught:
        endcap.preprocess([FILES["4:2:0"], FILES["gray"], BAD[1]], size=64, device="cuda")
    with pytest.raises(endcap.CorruptImageError) as on_cpu:
        endcap.preprocess([FILES["4:2:0"], FILES["gray"], BAD[1]], size=64)
    assert str(caught.value) == str(on_cpu.value)


def test_device_and_parameters() -> None:
    preprocessor = endcap.Preprocessor("torchvision", device="cuda:0", threads=2)
    assert preprocessor.device == "cuda:0"
    assert preprocessor.parameters == endcap.Preprocessor("torchvision").parameters


OTHER_FORMATS = {
    "PNG": {},
    "WEBP": {"quality": 80},
    "BMP": {},
    "GIF": {},
}


@pytest.mark.parametrize("decoder", ["auto", "cpu", "hybrid"])
def test_files_of_other_formats_among_jpegs(decoder: str) -> None:
    picture = Image.fromarray(jpegs.photo(70, 90, seed=2))
    batch = [FILES["4:2:0"]]
    for kind, options in OTHER_FORMATS.items():
        out = io.BytesIO()
        picture.save(out, kind, **options)
        batch += [out.getvalue(), out.getvalue()[:100]]
    settings = {"size": (64, 96), "formats": "jpeg,png,webp,bmp,gif", "on_error": "blank"}
    expected = endcap.Preprocessor(**settings)(batch)
    assert expected.status.tolist() == [0] + [0, 1] * len(OTHER_FORMATS)
    actual = endcap.Preprocessor(**settings, jpeg_decoder=decoder, device="cuda")(batch)
    assert_same(actual, expected)
    assert actual.decoders[1::2] == ("cpu",) * len(OTHER_FORMATS)


@pytest.mark.parametrize("truncated", ["reject", "accept"])
def test_truncated_files(truncated: str) -> None:
    whole, progressive = FILES["4:2:0"], FILES["progressive"]
    cut = whole[: len(whole) // 2]
    batch = [
        *(cut, cut + bytes(20_000), cut + b" " * 20_000),
        *(whole + bytes(500), whole[:-2], progressive[: len(progressive) // 2]),
    ]
    options: dict[str, Any] = {"size": 64, "on_error": "blank", "truncated": truncated}
    expected = endcap.Preprocessor(**options)(batch)
    assert_same(endcap.Preprocessor(**options, device="cuda")(batch), expected)
    assert expected.status.tolist() == ([1, 1, 1, 0, 0, 1] if truncated == "reject" else [0] * 6)


@pytest.mark.parametrize("decoder", ["auto", "hybrid", "cpu"])
def test_damaged_files(decoder: str) -> None:
    batch = []
    for name in ("4:2:0", "progressive", "gray"):
        damaged = bytearray(FILES[name])
        at = len(damaged) * 6 // 10
        damaged[at : at + 9] = b"\xff\xd5\x55\xfe\xfe\xfe\xff\xff\x00"
        batch += [FILES[name], bytes(damaged), bytes(damaged[:at])]
    options: dict[str, Any] = {"size": 64, "on_error": "blank"}
    assert endcap.Preprocessor(**options)(batch).status.tolist() == [0, 1, 1] * 3
    for decode in ("exact", "fast"):
        options |= {"damaged": "accept", "decode": decode}
        expected = endcap.Preprocessor(**options)(batch)
        assert expected.status.tolist() == [0] * 9
        actual = endcap.Preprocessor(**options, jpeg_decoder=decoder, device="cuda")(batch)
        assert_same(actual, expected)
    regions = np.array([[0, 0, 30, 20], [10, 40, 60, 90]], np.float32)
    expected = endcap.Preprocessor(**options)(batch[1], rois=regions)
    assert_same(endcap.Preprocessor(**options, device="cuda")(batch[1], rois=regions), expected)


def test_results_stay_when_the_next_batch_runs() -> None:
    preprocessor = endcap.Preprocessor(size=64, device="cuda")
    files = list(FILES.values())
    results = [preprocessor(file) for file in files]
    for file, result in zip(files, results, strict=True):
        assert_same(result, endcap.preprocess(file, size=64))


def test_decoder_that_ran_is_reported() -> None:
    exact = endcap.preprocess(FILES["4:2:0"], size=64, device="cuda")
    assert exact.decoders == ("hybrid",)
    assert {i.stage: i.kind for i in endcap.implementations() if i.ran_last}["preprocess"] == "cuda"
    with pytest.raises(endcap.InvalidArgumentError, match="exact"):
        endcap.Preprocessor(jpeg_decoder="nvjpeg", device="cuda")


@pytest.mark.parametrize("hold", HOLDERS)
@pytest.mark.parametrize("pixels", [PHOTO, PHOTO[:, :, 0].copy(), PHOTO[:, :, :1].copy()])
def test_pixels_on_the_gpu(hold: Any, pixels: np.ndarray) -> None:
    for pixel_format in ("rgb", "bgr"):
        options: dict[str, Any] = {"size": SIZE, "pixel_format": pixel_format}
        result = endcap.preprocess([hold(pixels), JPEGS[0]], device="cuda", **options)
        assert_same(result, endcap.preprocess([pixels, JPEGS[0]], **options))


def test_rows_of_pixels_may_lie_apart() -> None:
    cut = {"shape": (40, 20, 3), "strides": PHOTO.strides}
    result = endcap.preprocess(ByInterface(PHOTO, **cut), size=SIZE, device="cuda")
    assert_same(result, endcap.preprocess(PHOTO[:, :20], size=SIZE))


def test_a_file_on_the_gpu_is_downloaded() -> None:
    file = np.frombuffer(JPEGS[0], np.uint8)
    assert_same(
        endcap.preprocess(on_gpu(file), size=SIZE, device="cuda"),
        endcap.preprocess(file, size=SIZE),
    )


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (PHOTO.astype(np.float32), "uint8"),
        (PHOTO.view(np.int8), "uint8"),
        (np.zeros(8, np.float32), "uint8"),
        (np.zeros((4, 4, 2), np.uint8), "uint8 .4, 4, 2."),
        (np.zeros((1, 1, 4, 4, 3), np.uint8), "uint8 .1, 1, 4, 4, 3."),
    ],
)
def test_invalid_images_are_refused(image: np.ndarray, message: str) -> None:
    with pytest.raises(endcap.InvalidArgumentError, match=message):
        endcap.preprocess(on_gpu(image), size=SIZE, device="cuda")


@pytest.mark.parametrize("hold", HOLDERS)
def test_out_is_written_and_returned(hold: Any) -> None:
    out = hold(np.full((2, 3, *SIZE), 9, np.float32))
    result = endcap.preprocess(JPEGS, size=SIZE, device="cuda", out=out)
    assert result.images is out
    array = getattr(out, "_array", out)
    np.testing.assert_array_equal(array.to_numpy(), endcap.preprocess(JPEGS, size=SIZE).images)


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.zeros((2, 3, *SIZE), np.float32), "host memory"),
        ([], "host memory"),
    ],
)
def test_out_must_be_on_the_gpu(out: Any, message: str) -> None:
    with pytest.raises(endcap.InvalidArgumentError, match=message):
        endcap.preprocess(JPEGS, size=SIZE, device="cuda", out=out)


@pytest.mark.parametrize(
    "out", [np.zeros((1, 3, *SIZE), np.float32), np.zeros((2, 3, *SIZE), np.float16)]
)
def test_out_must_have_the_results_shape_and_dtype(out: np.ndarray) -> None:
    with pytest.raises(endcap.InvalidArgumentError, match="out is"):
        endcap.preprocess(JPEGS, size=SIZE, device="cuda", out=on_gpu(out))


def test_a_cpu_does_not_write_to_the_gpu() -> None:
    with pytest.raises(endcap.InvalidArgumentError, match="out is a CudaArray"):
        endcap.preprocess(JPEGS, size=SIZE, out=on_gpu(np.zeros((2, 3, *SIZE), np.float32)))


def test_an_empty_batch() -> None:
    result = endcap.preprocess([], size=SIZE, device="cuda")
    assert result.images.shape == (0, 3, *SIZE)
    assert result.decoders == ()


def test_producer_gets_the_stream() -> None:
    pixels = ByDlpack(PHOTO)
    for stream, told in ((None, 1), (0, 1), (1, 1), (2, 2)):
        endcap.preprocess(pixels, size=SIZE, device="cuda", stream=stream)
        assert pixels.streams.pop() == told


def test_result_has_its_stream() -> None:
    for stream, told in ((None, 0), (1, 0), (2, 2)):
        images = endcap.preprocess(PHOTO, size=SIZE, device="cuda", stream=stream).images
        assert images.stream == told


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
