"""Arrays of other libraries, paths and Pillow images as inputs; memory of results."""

from __future__ import annotations

import io
import os
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import endcap
from endcap.errors import ImageLimitError, InvalidArgumentError
from tests.support import jpegs
from tests.support.sample_heads import yolov8_head

CPU = (1, 0)  # DLPack's device type and number
PIXELS = jpegs.photo(40, 60, seed=1)
FILE = jpegs.encode(PIXELS, orientation=6)


class Foreign:
    """An array of another library: it speaks DLPack and nothing else."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU


class Convertible:
    """An object that NumPy converts: it has `__array__` and nothing else."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self._array


@pytest.mark.parametrize("kind", [Foreign, Convertible])
@pytest.mark.parametrize("shape", [(30, 40), (30, 40, 3), (2, 30, 40, 3)])
def test_arrays_of_other_libraries_are_images(kind: Any, shape: tuple[int, ...]) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, shape, np.uint8)
    expected = endcap.preprocess(pixels, size=(16, 16))
    actual = endcap.preprocess(kind(pixels), size=(16, 16))
    assert len(actual.images) == (2 if len(shape) == 4 else 1)
    np.testing.assert_array_equal(actual.images, expected.images)


def test_files_and_heads_by_dlpack() -> None:
    file = np.frombuffer(FILE, np.uint8).copy()
    np.testing.assert_array_equal(endcap.decode(Foreign(file)), endcap.decode(file))
    head = yolov8_head(1, anchors=30, num_classes=3)
    postprocessor = endcap.Postprocessor(num_classes=3)
    np.testing.assert_array_equal(postprocessor(Foreign(head)).boxes, postprocessor(head).boxes)


@pytest.mark.parametrize(
    ("image", "advice"),
    [
        (np.zeros((3, 30, 40), np.float32), r"an image is float32 \[3, 30, 40\]: give uint8"),
        ([FILE, 12], "of type int: give encoded bytes"),
        (np.zeros((0, 40, 3), np.uint8), "at least 1"),
        (np.zeros((30, 0, 3), np.uint8), "at least 1"),
        (np.zeros((30, 40, 5), np.uint8), r"give uint8, \[H,W,3\] or \[H,W\] of pixels"),
        (np.zeros((1, 2, 30, 40, 3), np.uint8), "give uint8"),
        (np.zeros((), np.uint8), "give uint8"),
        (np.zeros(9, np.float32), "give uint8"),
        (np.zeros((2, 2), object), "give uint8"),
        (io.BytesIO(b"x"), r"of type BytesIO: give image.getvalue\(\)$"),
        (memoryview(b"abcd").cast("f"), r"an image is float32 \[1\]: give uint8"),
        (
            "HTTPS://host/a.jpg",
            "is the address HTTPS://host/a.jpg: download it, and give the bytes",
        ),
        (None, "of type NoneType: give encoded bytes, the path of a file, a Pillow image"),
    ],
)
def test_arguments_that_are_not_images(image: Any, advice: str) -> None:
    with pytest.raises(InvalidArgumentError, match=advice):
        endcap.preprocess(image, size=16)


class WithGradient:
    """A torch tensor that requires grad, which refuses both ways to its memory."""

    requires_grad = True

    def __array__(self, *arguments: Any, **options: Any) -> Any:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad.")

    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("Can't export tensors that require gradient")

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("head", lambda t: endcap.Postprocessor()(t)),
        (
            "geometry",
            lambda t: endcap.Postprocessor()(yolov8_head(1, anchors=40, num_classes=80), t),
        ),
        ("an image", lambda t: endcap.preprocess(t)),
        ("rois", lambda t: endcap.preprocess(jpegs.photo_jpeg(30, 40), rois=t)),
        ("mask", lambda t: endcap.masks.encode_rle(t)),
    ],
)
def test_a_tensor_that_requires_grad_is_refused(name: str, call: Any) -> None:
    with pytest.raises(
        endcap.InvalidArgumentError, match=rf"^{name} .* requires grad: give .*detach"
    ):
        call(WithGradient())


class Detachable(WithGradient):
    """The same, with the way that torch has to its memory."""

    def __init__(self, values: Any) -> None:
        self._values = np.float32(values)

    def detach(self) -> np.ndarray:
        return self._values


def test_boxes_that_require_grad_are_suppressed_without_it() -> None:
    boxes, scores = [[0, 0, 9, 9], [1, 1, 9, 9], [20, 20, 30, 30]], [0.5, 0.75, 0.25]
    rotated = [[*box, 0.5] for box in boxes]
    for suppress, given in ((endcap.nms, boxes), (endcap.nms_rotated, rotated)):
        kept = suppress(Detachable(given), Detachable(scores), iou_threshold=0.5)
        np.testing.assert_array_equal(kept, suppress(given, scores, iou_threshold=0.5))


VIEWS: dict[str, Any] = {
    "every 2nd pixel": lambda p: p[:, ::2],
    "every 2nd row": lambda p: p[::2],
    "flipped": lambda p: p[::-1],
    "mirrored": lambda p: p[:, ::-1],
    "cut out": lambda p: p[5:-5, 7:-3],
    "channels": lambda p: p[..., ::-1],
    "transposed": lambda p: np.transpose(p, (1, 0, 2)),
    "Fortran": np.asfortranarray,
}


def random_rows(count: int, columns: int) -> np.ndarray:
    rows = np.random.default_rng(columns).uniform(0, 60, (count, columns)).astype(np.float32)
    rows[:, 2:4] += 40
    return rows


SCORES = random_rows(120, 1)[:, 0]
# What reads arrays, and a view of which no two elements are neighbours in memory.
CALLS: dict[str, tuple[Any, Any]] = {
    **{
        name: (lambda p: endcap.preprocess(p, size=32).images, v(PIXELS))
        for name, v in VIEWS.items()
    },
    "decode": (endcap.decode, np.repeat(np.frombuffer(FILE, np.uint8), 2)[::2]),
    "nms": (lambda b: endcap.nms(b, SCORES[::2], 0.3), random_rows(120, 4)[::2]),
    "scores": (lambda s: endcap.nms(random_rows(60, 4), s, 0.3), SCORES[::2]),
    "nms_rotated": (lambda b: endcap.nms_rotated(b, SCORES[::2], 0.3), random_rows(120, 5)[::2]),
    "box_decode": (
        lambda h: endcap.box_decode(h, num_classes=3).boxes,
        np.ascontiguousarray(yolov8_head(1, anchors=50, num_classes=3).T).T,
    ),
    "postprocess": (
        lambda h: endcap.Postprocessor(num_classes=3)(h).boxes,
        yolov8_head(1, anchors=50, num_classes=3)[:, ::2],
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_arrays_may_be_strided_and_read_only_and_are_not_written(name: str) -> None:
    call, view = CALLS[name]
    expected, before = call(view.copy("C")), view.copy("C")
    given = view[...]
    given.setflags(write=False)
    np.testing.assert_array_equal(call(given), expected)
    np.testing.assert_array_equal(view, before)


def test_an_empty_batch_is_an_empty_result() -> None:
    result = endcap.preprocess([], size=(16, 24))
    assert result.images.shape == (0, 3, 16, 24)
    assert result.geometry.shape == (0, 8)
    assert result.status.shape == (0,)


def test_results_are_aligned_for_vectors() -> None:
    for count in (1, 2, 3):
        images = endcap.preprocess([jpegs.photo_jpeg(8, 8)] * count, size=(7, 5)).images
        assert images.ctypes.data % 64 == 0
        assert images.flags.writeable
        assert images.flags.c_contiguous


def test_memory_is_taken_again_when_nobody_holds_it_and_not_before() -> None:
    preprocessor = endcap.Preprocessor(size=(123, 321))
    image = jpegs.photo_jpeg(16, 16)
    held = preprocessor(image).images
    expected = held.copy()
    view = held[0, 1]
    first = held.ctypes.data
    del held
    others = [preprocessor(np.zeros((16, 16, 3), np.uint8)).images for _ in range(6)]
    assert first not in [other.ctypes.data for other in others]
    np.testing.assert_array_equal(view, expected[0, 1])
    del view
    assert preprocessor(image).images.ctypes.data == first


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "a.jpg"
    file.write_bytes(FILE)
    return file


@pytest.mark.parametrize("kind", [str, Path])
def test_a_path_is_the_file_s_bytes(path: Path, kind: type) -> None:
    expected = endcap.preprocess([FILE, PIXELS], size=64)
    given = endcap.preprocess([kind(path), PIXELS], size=64)
    np.testing.assert_array_equal(given.images, expected.images)
    np.testing.assert_array_equal(given.geometry, expected.geometry)
    np.testing.assert_array_equal(endcap.decode(kind(path)), endcap.decode(FILE))
    rois = [[1, 2, 20, 30]]
    np.testing.assert_array_equal(
        endcap.preprocess(kind(path), size=32, rois=rois).images,
        endcap.preprocess(FILE, size=32, rois=rois).images,
    )


def test_a_file_beyond_the_limit_is_not_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "large.jpg"
    file.write_bytes(FILE)
    os.truncate(file, 1 << 40)  # sparse: nothing could read it whole
    with pytest.raises(ImageLimitError):
        endcap.preprocess(file, size=32, max_bytes=1000)
    with pytest.raises(ImageLimitError):
        endcap.decode(file, max_bytes=1000)
    blank = endcap.preprocess([file, FILE], size=32, max_bytes=100_000, on_error="blank")
    assert blank.status.tolist() == [endcap.Status.IMAGE_LIMIT, 0]


def test_paths_of_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(InvalidArgumentError, match="is not a file: give the path of an image"):
            endcap.preprocess(tmp_path / name)
    with pytest.raises(FileNotFoundError, match=r"missing\.jpg"):
        endcap.preprocess(tmp_path / "missing.jpg")


@pytest.mark.parametrize("pixel_format", ["rgb", "bgr"])
def test_pillow_image_has_its_channels(pixel_format: str) -> None:
    expected = endcap.preprocess(PIXELS, size=64)
    given = endcap.preprocess(Image.fromarray(PIXELS), size=64, pixel_format=pixel_format)
    np.testing.assert_array_equal(given.images, expected.images)


@pytest.mark.parametrize("mode", ["L", "1", "P", "RGBA", "CMYK"])
def test_modes_are_converted_as_pillow_does(mode: str) -> None:
    image = Image.fromarray(PIXELS).convert(mode)
    expected = endcap.preprocess(np.asarray(image.convert("RGB")), size=64)
    np.testing.assert_array_equal(endcap.preprocess(image, size=64).images, expected.images)


@pytest.mark.parametrize("mode", ["I", "F", "I;16"])
def test_modes_of_more_than_8_bits_are_refused(mode: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"the mode {mode}, of more than 8 bits"):
        endcap.preprocess(Image.new(mode, (8, 8)))


ENCODED = np.zeros(8_000_000, np.uint8)[::2]
HUGE = np.zeros((600, 2000, 6), np.uint8)[:, :, ::2]  # [H,W,3], and no pixel is contiguous


@pytest.mark.parametrize(
    "image",
    [
        HUGE,
        HUGE[..., 0],
        np.broadcast_to(HUGE[:, ::-1], (4, *HUGE.shape)),
        endcap.nv12(HUGE[..., 0]),
        endcap.planar_yuv(HUGE[..., 0], *np.zeros((2, 300, 1000), np.uint8)),
        Image.fromarray(np.zeros((600, 2000), np.uint8)),
        ENCODED,
    ],
    ids=["pixels", "gray", "batch", "nv12", "planar", "pillow", "encoded"],
)
def test_limits_come_before_a_copy(image: Any) -> None:
    limits = {"max_pixels": 700_000, "max_bytes": 1000}
    preprocessor = endcap.Preprocessor(size=16, on_error="blank", **limits)
    endcap.Preprocessor(size=16, **limits)(np.zeros((2, 2, 3), np.uint8)[:, ::-1])  # warm
    tracemalloc.start()
    try:
        result = preprocessor(image)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    rejected = endcap.Status.CORRUPT_IMAGE if image is ENCODED else endcap.Status.IMAGE_LIMIT
    assert set(result.status.tolist()) == {rejected}
    assert peak < 400_000


def test_regions_are_counted_before_a_copy() -> None:
    many = np.broadcast_to(np.float64([0, 0, 1, 1]), (10**12, 4))
    with pytest.raises(InvalidArgumentError, match="1000000000000 rois; max_rois allows 1000"):
        endcap.preprocess(np.zeros((8, 8, 3), np.uint8), rois=many)
