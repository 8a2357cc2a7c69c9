"""Preprocessing on a GPU gives the CPU's numbers, bit for bit."""

from __future__ import annotations

import io
from typing import Any

import jpegs
import numpy as np
import pytest
from cuda_inputs import on_gpu
from lacking import lacking
from pictures import BAD, FILES, PIXELS
from PIL import Image
from tolerances import NVJPEG_STEPS

import endcap

SETTINGS: dict[str, dict[str, Any]] = {
    "ultralytics": {"size": (64, 96)},
    "torchvision": {"preset": "torchvision", "size": 56, "resize_shorter": 64},
    "inception": {"preset": "inception", "size": 75},
    "vgg": {"preset": "vgg", "size": 48, "resize_shorter": 56},
    "rtdetr": {"preset": "rtdetr", "size": 64},
    "ssd": {"preset": "ssd", "size": 60},
    "odd size": {"size": (61, 67)},
    "nearest": {"size": 64, "interpolation": "nearest"},
    "bicubic": {"size": 64, "interpolation": "bicubic"},
    "bicubic antialias": {"size": 24, "interpolation": "bicubic", "antialias": True},
    "area": {"size": 24, "interpolation": "area"},
    "float": {"size": 40, "quantize": "none"},
    "float16": {"size": 64, "dtype": "float16"},
    "uint8 nhwc": {"size": 64, "dtype": "uint8", "layout": "nhwc"},
    "int8": {"size": 64, "dtype": "int8"},
    "gray": {"size": 64, "color": "gray"},
    "bgr nhwc": {"size": 64, "color": "bgr", "layout": "nhwc"},
    "top left": {"size": (96, 64), "pad_align": "top_left", "upscale": False},
    "exif ignored": {"size": 64, "exif": "ignore"},
}


def assert_same(actual: endcap.PreprocessResult, expected: endcap.PreprocessResult) -> None:
    np.testing.assert_array_equal(actual.images.to_numpy(), expected.images)
    np.testing.assert_array_equal(actual.geometry, expected.geometry)
    np.testing.assert_array_equal(actual.status, expected.status)


@pytest.mark.parametrize("name", SETTINGS)
def test_every_kind_of_file_in_one_batch(name: str) -> None:
    files = list(FILES.values())
    expected = endcap.Preprocessor(**SETTINGS[name])(files)
    assert_same(endcap.Preprocessor(**SETTINGS[name], device="cuda")(files), expected)


@pytest.mark.parametrize("name", ["ultralytics", "torchvision", "float", "uint8 nhwc", "gray"])
@pytest.mark.parametrize("pixel_format", ["rgb", "bgr"])
def test_pixels(name: str, pixel_format: str) -> None:
    images = PIXELS[:2]
    expected = endcap.Preprocessor(**SETTINGS[name])(images, pixel_format=pixel_format)
    preprocessor = endcap.Preprocessor(**SETTINGS[name], device="cuda")
    assert_same(preprocessor(images, pixel_format=pixel_format), expected)


@pytest.mark.parametrize("name", ["ultralytics", "torchvision", "float", "uint8 nhwc", "gray"])
@pytest.mark.parametrize("width", [40, 61])
def test_yuv(name: str, width: int) -> None:
    random = np.random.default_rng(width)
    y = random.integers(0, 256, (45, width), np.uint8)
    uv = random.integers(0, 256, (23, (width + 1) // 2, 2), np.uint8)
    u = random.integers(0, 256, (45, (width + 1) // 2), np.uint8)
    images = [
        endcap.nv12((y, uv), matrix="bt709"),
        endcap.planar_yuv(y, u, u[::-1], range="full"),
        endcap.planar_yuv(y, y, y[::-1], matrix="bt2020"),
    ]
    on_device = [
        endcap.nv12((on_gpu(y), on_gpu(uv)), matrix="bt709"),
        endcap.planar_yuv(on_gpu(y), on_gpu(u), on_gpu(u[::-1]), range="full"),
        endcap.planar_yuv(on_gpu(y), on_gpu(y), on_gpu(y[::-1]), matrix="bt2020"),
    ]
    expected = endcap.Preprocessor(**SETTINGS[name])(images * 2)
    preprocessor = endcap.Preprocessor(**SETTINGS[name], device="cuda")
    assert_same(preprocessor(images + on_device), expected)


def test_gray_pixels() -> None:
    expected = endcap.preprocess(PIXELS[2], size=32, pixel_format="gray")
    assert_same(endcap.preprocess(PIXELS[2], size=32, pixel_format="gray", device="cuda"), expected)


def test_bad_images_touch_no_other() -> None:
    batch = [BAD[0], FILES["4:2:0"], BAD[1], BAD[2], FILES["gray"], BAD[3]]
    options: dict[str, Any] = {"size": 64, "on_error": "blank"}
    expected = endcap.Preprocessor(**options)(batch)
    actual = endcap.Preprocessor(**options, device="cuda")(batch)
    assert_same(actual, expected)
    assert (expected.status != 0).sum() >= 3
    with pytest.raises(endcap.CorruptImageError, match="2"):
        endcap.Preprocessor(size=64, device="cuda")([FILES["4:2:0"], FILES["gray"], BAD[1]])


OTHER_FORMATS = {
    "PNG": {},
    "WEBP": {"quality": 80},
    "BMP": {},
    "GIF": {},
}


@pytest.mark.parametrize("decoder", ["auto", "cpu", "hybrid"])
@pytest.mark.parametrize("name", SETTINGS)
def test_files_of_other_formats_among_jpegs(name: str, decoder: str) -> None:
    picture = Image.fromarray(jpegs.photo(70, 90, seed=2))
    batch = [FILES["4:2:0"]]
    for kind, options in OTHER_FORMATS.items():
        out = io.BytesIO()
        picture.save(out, kind, **options)
        batch += [out.getvalue(), out.getvalue()[:100]]
    settings = {**SETTINGS[name], "formats": "jpeg,png,webp,bmp,gif", "on_error": "blank"}
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


def test_a_preprocessor_serves_batches_of_all_sizes_in_turn() -> None:
    preprocessor = endcap.Preprocessor(size=64, device="cuda")
    reference = endcap.Preprocessor(size=64)
    files = list(FILES.values())
    for count in (1, 7, 2, len(files), 1, 3):
        assert_same(preprocessor(files[:count]), reference(files[:count]))


def test_results_stay_when_the_next_batch_runs() -> None:
    preprocessor = endcap.Preprocessor(size=64, device="cuda")
    files = list(FILES.values())
    results = [preprocessor(file) for file in files]
    for file, result in zip(files, results, strict=True):
        assert_same(result, endcap.preprocess(file, size=64))


def test_a_full_size_picture() -> None:
    file = jpegs.encode(jpegs.photo(1080, 1920, seed=40))
    assert_same(endcap.preprocess(file, device="cuda"), endcap.preprocess(file))


def test_the_decoder_that_ran_is_told() -> None:
    exact = endcap.preprocess(FILES["4:2:0"], size=64, device="cuda")
    assert exact.decoders == ("hybrid",)
    assert {i.stage: i.kind for i in endcap.implementations() if i.ran_last}["preprocess"] == "cuda"
    with pytest.raises(endcap.InvalidArgumentError, match="exact"):
        endcap.Preprocessor(jpeg_decoder="nvjpeg", device="cuda")


@pytest.fixture
def nvjpeg(real_gpu: endcap.CudaState) -> endcap.NvjpegState:
    """nvJPEG and a GPU with a JPEG engine, or a skip; a failure where a GPU is required."""
    state = endcap.nvjpeg_state()
    if not state.available:
        lacking(f"nvJPEG cannot be used: {state.reason}")
    return state


def by_nvjpeg(images: list[Any], **options: Any) -> endcap.PreprocessResult:
    """Decoded by the GPU's JPEG engine."""
    result = endcap.preprocess(
        images, **options, decode="fast", jpeg_decoder="nvjpeg", device="cuda"
    )
    assert result.decoders == ("nvjpeg",) * len(images)
    return result


NVJPEG_OPTIONS: dict[str, Any] = {"size": 64, "dtype": "uint8", "fit": "stretch"}


def assert_near(actual: endcap.PreprocessResult, images: list[Any], **options: Any) -> None:
    expected = endcap.preprocess(images, **options).images.astype(np.int16)
    difference = np.abs(actual.images.to_numpy().astype(np.int16) - expected)
    assert difference.max() <= NVJPEG_STEPS


@pytest.mark.parametrize("kind", ["4:2:0", "4:4:4", "gray"])
def test_nvjpeg_is_near(nvjpeg: endcap.NvjpegState, kind: str) -> None:
    images = [FILES[kind]]
    assert_near(by_nvjpeg(images, **NVJPEG_OPTIONS), images, **NVJPEG_OPTIONS)


def test_nvjpeg_decodes_batches_in_turn(nvjpeg: endcap.NvjpegState) -> None:
    batches = [[FILES["4:2:0"], FILES["gray"]], [FILES["4:4:4"]], [FILES["4:2:0"]] * 3]
    results = [by_nvjpeg(images, **NVJPEG_OPTIONS) for images in batches]
    for images, result in zip(batches, results, strict=True):
        assert_near(result, images, **NVJPEG_OPTIONS)


def test_nvjpeg_decodes_a_large_picture_of_odd_size(nvjpeg: endcap.NvjpegState) -> None:
    images = [jpegs.encode(jpegs.photo(1079, 1919, seed=41))]
    options = NVJPEG_OPTIONS | {"size": 640}
    assert_near(by_nvjpeg(images, **options), images, **options)


def test_nvjpeg_by_name_refuses_what_its_engine_does_not_decode(
    nvjpeg: endcap.NvjpegState,
) -> None:
    images = [FILES["4:2:0"], FILES["progressive"], FILES["gray"]]
    options = NVJPEG_OPTIONS | {"decode": "fast", "jpeg_decoder": "nvjpeg", "device": "cuda"}
    result = endcap.preprocess(images, **options, on_error="blank")
    assert list(result.status) == [0, endcap.Status.UNSUPPORTED, 0]
    assert result.decoders == ("nvjpeg", "", "nvjpeg")
    with pytest.raises(endcap.UnsupportedError, match="'auto' or 'hybrid'"):
        endcap.preprocess(images, **options)


def test_auto_mixes_nvjpeg_and_cpu_threads_in_one_batch(nvjpeg: endcap.NvjpegState) -> None:
    photo = jpegs.photo(1088, 1920, seed=42)
    images = [jpegs.encode(photo)] * 8
    images[3] = jpegs.encode(photo, progressive=True)
    options = NVJPEG_OPTIONS | {"size": (1088, 1920)}  # so that `fast` does not shrink
    result = endcap.preprocess(images, **options, decode="fast", device="cuda")
    assert result.decoders == ("nvjpeg",) * 3 + ("hybrid",) + ("nvjpeg",) * 4
    assert_near(result, images, **options)


def test_nvjpeg_writes_every_plane_of_every_batch(nvjpeg: endcap.NvjpegState) -> None:
    """A plane that the engine left out would have the image of the batch before."""
    different = [jpegs.encode(jpegs.photo(480, 640, seed=50 + n)) for n in range(16)]
    processor = endcap.Preprocessor(
        **NVJPEG_OPTIONS, decode="fast", jpeg_decoder="nvjpeg", device="cuda"
    )
    singles = [processor(file).images.to_numpy()[0] for file in different]
    for turn in range(12):
        order = np.random.default_rng(turn).permutation(64) % 16
        images = processor([different[n] for n in order]).images.to_numpy()
        np.testing.assert_array_equal(images, np.stack([singles[n] for n in order]))
