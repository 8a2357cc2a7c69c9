"""The three pipelines against endcap.preprocess: equal bits, or one 8-bit step of DALI's resize."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tolerances
from jpegs import encode, encode_sampled, photo, photo_jpeg

import endcap
import endcap.dali

A, B, C = (f"detection_preprocess{decoder}" for decoder in ("", "_dali_decode", "_dali_only"))
ORIENTATION = 6

# Sides that shrink, grow and fit; that end in half a pixel, to even both ways; an odd pixel of
# padding on either axis; less than a pixel wide when resized.
SIZES = [(640, 640), (427, 640), (872, 1000), (1080, 810), (311, 203), (641, 1280), (1280, 643)]
SIZES += [(1281, 1920), (37, 1000), (7, 3), (1, 1), (2000, 3), (3, 2000)]


def run(function: str, files: list[bytes], **parameters: Any) -> list[npt.NDArray[Any]]:
    """images, geometry and status of a batch."""
    pipeline = getattr(endcap.dali, function)(
        batch_size=len(files),
        num_threads=2,
        device_id=None,
        prefetch_queue_depth=1,
        exec_async=False,
        exec_pipelined=False,
        **parameters,
    )
    pipeline.build()
    pipeline.feed_input("encoded", [np.frombuffer(file, np.uint8) for file in files])
    return [np.array(output.as_array()) for output in pipeline.run()]


def exif_of_dali() -> str:
    """DALI 2.0 did not know EXIF orientation, 2.4 does."""
    from nvidia.dali import backend

    oriented = backend.GetSchema("decoders__Image").HasArgument("adjust_orientation")
    return "apply" if oriented else "ignore"


def noise(height: int, width: int, channels: int = 3) -> npt.NDArray[np.uint8]:
    random = np.random.default_rng(height)
    values: npt.NDArray[np.uint8] = random.integers(0, 256, (height, width, channels), np.uint8)
    return values


def chessboard(height: int, width: int) -> npt.NDArray[np.uint8]:
    y, x = np.mgrid[0:height, 0:width]
    board = ((y // 3 + x // 3) % 2 * 255).astype(np.uint8)
    return np.repeat(board[..., None], 3, axis=2)


@pytest.fixture(scope="module")
def files() -> list[bytes]:
    """A batch of every size and of the kinds of file there are."""
    import cv2

    picture = photo(131, 253)
    sampled = [cv2.IMWRITE_JPEG_SAMPLING_FACTOR_411, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_440]
    return [
        *(photo_jpeg(height, width, seed=height) for height, width in SIZES),
        *(encode(picture, orientation=orientation) for orientation in range(1, 9)),
        *(encode_sampled(picture, factor) for factor in sampled),
        encode(picture, subsampling="4:4:4"),
        encode(picture, progressive=True),
        encode(picture[..., 0]),
        encode(noise(999, 1001)),
        encode(chessboard(872, 1000)),
    ]


def check_geometry(found: npt.NDArray[Any], wanted: npt.NDArray[Any], *, oriented: bool) -> None:
    """All but the source index, which in DALI is that of a sample alone."""
    np.testing.assert_array_equal(found[:, :ORIENTATION], wanted[:, :ORIENTATION])
    orientation = np.ones(len(wanted)) if oriented else wanted[:, ORIENTATION]
    np.testing.assert_array_equal(found[:, ORIENTATION], orientation)
    assert not found[:, ORIENTATION + 1].any()


@pytest.mark.parametrize("function", [A, B])
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"size": (384, 640), "quantize": "none", "interpolation": "bicubic"},
        {"preset": "torchvision"},
        {"size": (96, 64), "pad_align": "top_left", "upscale": False, "color": "bgr"},
    ],
    ids=lambda parameters: " ".join(parameters) or "defaults",
)
def test_what_endcap_does_is_equal(
    function: str, parameters: dict[str, Any], files: list[bytes]
) -> None:
    """DALI's decoder applies EXIF orientation, also where a preset would not, or never."""
    exif = {"exif": exif_of_dali()} if function == B else {}
    wanted = endcap.preprocess(files, **parameters, **exif)
    images, geometry, status = run(function, files, **parameters)
    np.testing.assert_array_equal(images, wanted.images)
    check_geometry(geometry, wanted.geometry, oriented=function == B)
    assert not status.any()
    assert status.shape == (len(files), 1)


def steps(function: str, files: list[bytes], **parameters: Any) -> npt.NDArray[np.float32]:
    """Differences from endcap.preprocess, in 8-bit steps."""
    wanted = endcap.preprocess(files, exif=exif_of_dali(), **parameters)
    images, geometry, status = run(function, files, **parameters)
    check_geometry(geometry, wanted.geometry, oriented=True)
    assert not status.any()
    found: npt.NDArray[np.float32] = np.abs(images - wanted.images) * np.float32(255)
    return found


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"size": (384, 640)},
        {"size": (640, 480), "upscale": False, "pad_value": 0},
    ],
    ids=lambda parameters: " ".join(parameters) or "defaults",
)
def test_the_letterbox_of_dali(parameters: dict[str, Any], files: list[bytes]) -> None:
    found = steps(C, files, **parameters)
    whole = np.rint(found)
    assert whole.max() == tolerances.DALI_RESIZE_STEPS
    assert np.abs(found - whole).max() <= tolerances.NORMALISED_STEPS
    assert (whole > 0).mean() <= tolerances.DALI_RESIZE_SHARE


def test_normalised_by_dali(files: list[bytes]) -> None:
    """Mean and std of each channel: what is left is the step of the resize, divided by std."""
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    found = steps(C, files, size=320, mean=mean, std=std) * np.reshape(std, (3, 1, 1))
    assert np.rint(found).max() == tolerances.DALI_RESIZE_STEPS
    assert np.abs(found - np.rint(found)).max() <= tolerances.NORMALISED_STEPS


def test_channels_last(files: list[bytes]) -> None:
    found = steps(C, files[:3], layout="nhwc")
    assert found.shape == (3, 640, 640, 3)
    assert np.rint(found).max() <= tolerances.DALI_RESIZE_STEPS


@pytest.mark.parametrize("function", [B, C])
def test_inks(function: str) -> None:
    """The decoder's step, to which a resize may add one."""
    found = steps(function, [encode(noise(431, 653, channels=4))])
    most = tolerances.DALI_CMYK_STEPS + tolerances.DALI_RESIZE_STEPS
    assert 0 < np.rint(found).max() <= most
