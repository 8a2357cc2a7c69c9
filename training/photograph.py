"""What a camera makes of a painted picture: exposure, focus, noise, and a JPEG file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import cv2
import numpy as np
import numpy.typing as npt

from .backgrounds import Plane

Sampling = Literal["4:2:0", "4:2:2", "4:4:4"]
_SAMPLING_FACTORS: dict[Sampling, int] = {
    "4:2:0": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420,
    "4:2:2": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_422,
    "4:4:4": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444,
}


@dataclass(frozen=True)
class JpegKind:
    """How a file is written: quality 0..100, chroma sampling, progressive, one component."""

    quality: int
    sampling: Sampling = "4:2:0"
    progressive: bool = False
    one_component: bool = False


def random_jpeg_kind(rng: np.random.Generator, *, gray: bool) -> JpegKind:
    """Quality 35..95, mostly 4:2:0, one in ten progressive, half of the gray one component."""
    quality, chroma = int(rng.integers(35, 96)), rng.random()
    return JpegKind(
        quality,
        sampling="4:2:0" if chroma < 0.6 else "4:4:4" if chroma < 0.85 else "4:2:2",
        progressive=bool(rng.random() < 0.1),
        one_component=bool(rng.random() < 0.5) and gray,
    )


def photograph(
    rng: np.random.Generator, picture: Plane, *, gray: bool, kind: JpegKind | None
) -> bytes:
    """Photograph a picture.

    Args:
        rng: source of exposure, focus, noise, and of the kind of file when `kind` is None.
        picture: float32 [H, W, 3] RGB in 0..1.
        gray: whether the photograph has no colour.
        kind: how the file is written.

    Returns:
        A JPEG file.

    Raises:
        RuntimeError: OpenCV writes no JPEG of this kind.
    """
    exposed = np.power(picture, np.float32(rng.uniform(0.75, 1.35)))
    if rng.random() < 0.35:
        sigma = rng.uniform(0.3, 1.2) * max(1.0, max(picture.shape) / 640)
        exposed = cv2.GaussianBlur(exposed, (0, 0), sigma)
    if gray:
        exposed = np.repeat(cv2.cvtColor(exposed, cv2.COLOR_RGB2GRAY)[..., None], 3, axis=2)
    noise = rng.standard_normal(exposed.shape[:2], dtype=np.float32)[..., None]
    exposed = exposed * 255.0 + noise * np.float32(rng.uniform(0.0, 9.0))
    pixels = np.clip(exposed + 0.5, 0.0, 255.0).astype(np.uint8)
    return _encode(pixels, random_jpeg_kind(rng, gray=gray) if kind is None else kind)


def _encode(pixels: npt.NDArray[np.uint8], kind: JpegKind) -> bytes:
    stored = pixels[..., 0] if kind.one_component else pixels[..., ::-1]
    options = [cv2.IMWRITE_JPEG_QUALITY, kind.quality]
    options += [cv2.IMWRITE_JPEG_PROGRESSIVE, int(kind.progressive)]
    if not kind.one_component:
        options += [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, _SAMPLING_FACTORS[kind.sampling]]
    written, encoded = cv2.imencode(".jpg", stored, options)
    if not written:
        raise RuntimeError(f"OpenCV wrote no JPEG of the kind {kind}; allowed qualities: 0 to 100.")
    return encoded.tobytes()


def decode(jpeg: bytes) -> npt.NDArray[np.uint8]:
    """Return the pixels of a JPEG file, uint8 [H, W, 3] RGB."""
    pixels = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
    return np.ascontiguousarray(pixels[..., ::-1]).astype(np.uint8, copy=False)
