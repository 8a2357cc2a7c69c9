"""Encoded bytes to pixels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from endcap import _core
from endcap._images import Image, SizeLimits, open_image, to_buffer
from endcap.errors import InvalidArgumentError
from endcap.parameters import FileFormats, preprocess_defaults, to_parameters


def decode(
    image: Image,
    *,
    exif: str | None = None,
    formats: FileFormats | None = None,
    max_pixels: int | None = None,
    max_side: int | None = None,
    max_bytes: int | None = None,
    max_scans: int | None = None,
    max_coefficient_bytes: int | None = None,
    max_decoded_bytes: int | None = None,
    truncated: str | None = None,
    damaged: str | None = None,
    alpha: str | None = None,
) -> npt.NDArray[np.uint8]:
    """Decode a JPEG, PNG or WebP file to RGB, or a BMP or GIF where that is accepted.

    A JPEG's pixels are libjpeg-turbo's by default. Samples of 16 bits keep their upper 8, and of an
    animation the first frame is decoded.

    Args:
        image: encoded bytes: bytes-like, or a 1-D uint8 array; or the path of a file of them. A
            memory-mapped file must not shrink meanwhile.
        exif: ``apply`` (default) applies the EXIF orientation, ``ignore``
            leaves it as stored.
        formats: the formats that are accepted, of ``jpeg``, ``png``, ``webp``, ``bmp`` and ``gif``
            (the first three).
        max_pixels: most pixels the header may claim (89478485); checked before any allocation,
            as are the next five.
        max_side: most pixels a side (65500).
        max_bytes: most bytes of file (64 MiB).
        max_scans: most scans of a progressive file (500).
        max_coefficient_bytes: most bytes of DCT coefficients, which a progressive or multi-scan
            file keeps of the whole image (256 MiB).
        max_decoded_bytes: most bytes held of a whole image that is not decoded row by row, such
            as a WebP (256 MiB).
        truncated: ``reject`` (default): a JPEG whose image data ends early is corrupt; ``accept``
            decodes it, and what is missing is gray or coarse.
        damaged: ``reject`` (default): a JPEG with damage is corrupt; ``accept`` returns the pixels
            that libjpeg-turbo makes up, for everything that it only warns about.
        alpha: ``drop`` (default) leaves the alpha channel out, ``white`` lays transparent pixels
            on white.

    Returns:
        uint8 [H, W, 3], RGB.

    Raises:
        CorruptImageError: not an image, or damaged or truncated unless that is accepted.
        ImageLimitError: beyond one of the limits.
        UnsupportedError: a format that is not accepted or not known, or a kind of JPEG that is
            not decoded (12 bits, lossless, arithmetic coding).
        InvalidArgumentError: not encoded bytes.
        OSError: a file that cannot be read.
    """
    limits = SizeLimits.from_parameters(preprocess_defaults())
    if max_bytes is not None:
        limits = replace(limits, max_bytes=max_bytes)
    buffer = to_buffer(open_image(image, "rgb", limits), limits)
    if getattr(buffer, "ndim", 1) != 1:
        raise InvalidArgumentError("the image holds pixels already: give encoded bytes")
    fields = to_parameters(
        {
            "exif": exif,
            "formats": formats,
            "max_pixels": max_pixels,
            "max_side": max_side,
            "max_bytes": max_bytes,
            "max_scans": max_scans,
            "max_coefficient_bytes": max_coefficient_bytes,
            "max_decoded_bytes": max_decoded_bytes,
            "truncated": truncated,
            "damaged": damaged,
            "alpha": alpha,
        }
    )
    return _core.decode([buffer], fields)
