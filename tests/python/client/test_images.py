"""Images as arguments, and their encoded bytes."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, JpegImagePlugin

import endcap
from endcap.client.detection import image_name, read_image, refuse_single
from endcap.client.errors import RequestError
from endcap.errors import InvalidArgumentError
from tests.support import jpegs
from tests.support.tolerances import JPEG_95_PIXELS

FILE = b"\xff\xd8 some bytes \x00\xff"
PHOTO = jpegs.photo(40, 56, seed=3)


def test_encoded_files_are_sent_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(FILE)
    given: list[Any] = [FILE, bytearray(FILE), memoryview(FILE), np.frombuffer(FILE, np.uint8)]
    strided = np.repeat(np.frombuffer(FILE, np.uint8), 2)[::2]
    for image in (*given, strided, path, str(path)):
        sent = read_image(image)
        assert (type(sent), sent) == (bytes, FILE)


def test_pixels_become_jpeg_without_subsampling() -> None:
    sent = read_image(PHOTO)
    with Image.open(io.BytesIO(bytes(sent))) as picture:
        assert picture.format == "JPEG"
        assert JpegImagePlugin.get_sampling(picture) == 0  # 4:4:4
        decoded = np.asarray(picture.convert("RGB")).astype(int)
    assert np.abs(decoded - PHOTO).mean() < JPEG_95_PIXELS
    assert len(read_image(PHOTO, jpeg_quality=30)) < len(sent) / 2


def test_the_order_of_channels_is_the_callers() -> None:
    bgr = np.ascontiguousarray(PHOTO[..., ::-1])
    for pixels, given in ((PHOTO, bgr), (PHOTO[..., 1], PHOTO[..., 1])):
        assert read_image(given, "bgr") == read_image(pixels)


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "LA", "CMYK"])
@pytest.mark.parametrize("color", ["rgb", "bgr"])
def test_pillow_images_are_sent_as_their_pixels(mode: str, color: Any) -> None:
    """They know the order of their channels themselves; gray pixels stay gray."""
    image = Image.fromarray(PHOTO).convert(mode)
    kept = "L" if mode in ("1", "L") else "RGB"
    sent = read_image(image, color)
    assert sent == read_image(np.asarray(image.convert(kept)))
    with Image.open(io.BytesIO(sent)) as picture:
        assert (picture.mode, picture.size) == (kept, (56, 40))


def test_pixels_in_yuv_are_sent_without_a_loss() -> None:
    y, uv = np.zeros((40, 60), np.uint8), np.zeros((20, 30, 2), np.uint8)
    for frame in (endcap.nv12((y, uv)), endcap.planar_yuv(y, uv[..., 0], uv[..., 1])):
        assert read_image(frame) == frame.to_y4m()


def test_arrays_of_other_libraries_and_of_one_channel() -> None:
    class Foreign:
        def __dlpack__(self, **options: Any) -> Any:
            return PHOTO.__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return PHOTO.__dlpack_device__()

    foreign: Any = Foreign()
    assert read_image(foreign) == read_image(PHOTO)
    assert read_image(PHOTO[..., :1]) == read_image(PHOTO[..., 0])


@pytest.mark.parametrize(
    ("image", "part"),
    [
        (PHOTO.astype(np.float32), "float32 [40, 56, 3]"),
        (PHOTO[..., :2], "uint8 [40, 56, 2]"),
        (np.dstack([PHOTO, PHOTO[..., :1]]), "uint8 [40, 56, 4]"),
        (PHOTO.transpose(2, 0, 1), "uint8 [3, 40, 56]"),
        (PHOTO[None], "uint8 [1, 40, 56, 3]"),
        (np.zeros((0, 56, 3), np.uint8), "uint8 [0, 56, 3]"),
        (np.zeros((), np.uint8), "uint8 []"),
        (5, "of type int"),
        (None, "of type NoneType"),
        (Image.new("I;16", (8, 8)), "the mode I;16"),
        (np.zeros((1, 70000), np.uint8), "70000 x 1 pixels"),
    ],
)
def test_other_objects_than_images_are_refused(image: Any, part: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_image(image)
    assert caught.value.status_name == "invalid_argument"
    assert part in str(caught.value)
    advice = ("[H,W,3]", "image.point(", "send a smaller image")
    assert any(words in str(caught.value) for words in advice)


def test_unreadable_files_have_a_reason(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    cases: dict[Path | str, str] = {
        tmp_path / "none.jpg": "cannot be read: No such file or directory",
        tmp_path: "cannot be read: Is a directory",
        tmp_path / "pipe": "it is a pipe or a device, which may never end",
        Path("/dev/zero"): "it is a pipe or a device, which may never end",
        "a\0b": "embedded null byte",
        "https://host/a.jpg": "is an address: download it",
    }
    for path, reason in cases.items():
        with pytest.raises(RequestError, match=reason) as caught:
            read_image(path)
        assert caught.value.status_name == "unreadable"


def test_names_are_paths_or_positions(tmp_path: Path) -> None:
    assert image_name(tmp_path / "a.jpg", 7) == str(tmp_path / "a.jpg")
    assert image_name("a.jpg", 7) == "a.jpg"
    assert image_name(FILE, 7) == "image 7"
    assert image_name(PHOTO, 0) == "image 0"


@pytest.mark.parametrize(
    "image",
    [FILE, bytearray(FILE), "a.jpg", Path("a.jpg"), PHOTO, Image.fromarray(PHOTO)],
    ids=lambda image: type(image).__name__,
)
def test_a_single_image_for_several_is_refused(image: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="detect_one"):
        refuse_single(image)
    refuse_single([image])


def test_several_images_are_not_refused() -> None:
    for images in (iter([FILE]), np.stack([PHOTO, PHOTO]), []):
        refuse_single(images)
