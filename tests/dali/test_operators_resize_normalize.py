"""fn.endcap.resize_normalize: bit for bit what endcap.preprocess makes of pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from nvidia.dali import fn, types

import endcap
from tests.dali.dali_runs import as_bytes, build, feed, run, to_samples
from tests.support import jpegs

SIDES = [(96, 128), (301, 200), (1, 1), (64, 64), (33, 517)]
PHOTOS = [jpegs.photo(*side, seed=i) for i, side in enumerate(SIDES)]
GRAYS = [jpegs.photo(*side, channels=1, seed=i) for i, side in enumerate(SIDES)]


def resize(images: list[npt.NDArray[Any]], **parameters: Any) -> list[Any]:
    return run(lambda images: fn.endcap.resize_normalize(images, **parameters), {"images": images})


@pytest.mark.parametrize("pixel_format", ["rgb", "bgr", "gray"])
def test_every_pixel_format(pixel_format: str) -> None:
    pixels = GRAYS if pixel_format == "gray" else PHOTOS
    fields: dict[str, Any] = {"preset": "torchvision", "size": 48, "resize_shorter": 56}
    images, geometry, status = resize(
        pixels, image_type=getattr(types, pixel_format.upper()), **fields
    )
    for i, picture in enumerate(pixels):
        wanted = endcap.preprocess(
            picture[..., 0] if pixel_format == "gray" else picture,
            pixel_format=pixel_format,
            **fields,
        )
        np.testing.assert_array_equal(images[i], wanted.images[0])
        np.testing.assert_array_equal(geometry[i], wanted.geometry[0])
        assert status[i] == [0]


def test_after_dali_s_own_decoder() -> None:
    file = jpegs.photo_jpeg(120, 90)

    def graph(encoded: Any) -> Any:
        pixels = fn.decoders.image(encoded, device="cpu")
        return pixels, *fn.endcap.resize_normalize(pixels, size=64)

    pixels, images, geometry, _ = run(graph, {"encoded": [as_bytes(file)]})
    wanted = endcap.preprocess(pixels[0], size=64)
    np.testing.assert_array_equal(images[0], wanted.images[0])
    np.testing.assert_array_equal(geometry[0], wanted.geometry[0])


def test_sizes_and_regions_of_each_sample() -> None:
    sizes = [np.array([16 + i, 24], np.int32) for i in range(2)]
    rois = [np.array([[1, 2, 30, 40]], np.float32), np.array([[0, 0, 9, 9]] * 2, np.float32)]
    images, geometry, status = run(
        lambda images, size, rois: fn.endcap.resize_normalize(images, size=size, rois=rois),
        {"images": PHOTOS[:2], "size": sizes, "rois": rois},
    )
    for i in range(2):
        wanted = endcap.preprocess(PHOTOS[i], rois=rois[i], size=(16 + i, 24))
        np.testing.assert_array_equal(images[i], wanted.images)
        np.testing.assert_array_equal(geometry[i], wanted.geometry)
        assert not status[i].any()


def test_an_image_without_pixels_has_a_status() -> None:
    empty = np.zeros((0, 5, 3), np.uint8)
    images, _, status = resize([PHOTOS[0], empty, PHOTOS[1]], size=32)
    assert [int(s[0]) for s in status] == [0, int(endcap.Status.INVALID_ARGUMENT), 0]
    assert not images[1].any()
    wanted = endcap.preprocess([PHOTOS[0], PHOTOS[1]], size=32).images
    np.testing.assert_array_equal(np.stack([images[0], images[2]]), wanted)
    with pytest.raises(ValueError, match="image index 1 of 2: "):
        resize([PHOTOS[0], empty], size=32, on_error="error")


@pytest.mark.parametrize(
    ("sample", "image_type", "message"),
    [
        (np.zeros((4, 4), np.uint8), types.RGB, "HWC"),
        (np.zeros((4, 4, 3), np.float32), types.RGB, "images are float of 3 dims: give uint8 of"),
        (np.zeros((4, 4, 4), np.uint8), types.RGB, "sample 0 of images has 4 channels: give 3"),
        (np.zeros((4, 4, 3), np.uint8), types.GRAY, "sample 0 of images has 3 channels: give 1"),
        (np.zeros((4, 4, 3), np.uint8), types.YCbCr, "image_type is .*: give types.RGB"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_images_that_cannot_be_used(sample: Any, image_type: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resize([sample], image_type=image_type)


def test_a_batch_with_a_known_layout() -> None:
    def graph() -> Any:
        pixels = fn.external_source(name="images", layout="HWC")
        return fn.endcap.resize_normalize(pixels, size=16)

    images, _, _ = feed(build(graph, [], 5), {"images": PHOTOS})
    assert images.layout() == "CHW"
    wanted = [endcap.preprocess(picture, size=16).images[0] for picture in PHOTOS]
    np.testing.assert_array_equal(np.stack(to_samples(images)), np.stack(wanted))
