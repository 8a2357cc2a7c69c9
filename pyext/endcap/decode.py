"""Encoded bytes to pixels."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

import endcap._core as _core
from endcap._images import Image, SizeLimits, open_image, to_buffer
from endcap.errors import InvalidArgumentError
from endcap.parameters import DecodeParameters, list_parameters, preprocess_defaults, to_parameters

if TYPE_CHECKING:
    from typing_extensions import Unpack


@list_parameters(DecodeParameters)
def decode(image: Image, **fields: Unpack[DecodeParameters]) -> npt.NDArray[np.uint8]:
    """Decode a JPEG, PNG or WebP file to RGB, or a BMP or GIF where that is accepted.

    A JPEG's pixels are libjpeg-turbo's by default. Samples of 16 bits keep their upper 8, and of an
    animation the first frame is decoded.

    Args:
        image: encoded bytes: bytes-like, or a 1-D uint8 array; or the path of a file of them. A
            memory-mapped file must not shrink meanwhile.
        fields: parameters of preprocess by name, those of ``endcap.parameters.DecodeParameters``,
            such as exif="ignore", formats="jpeg", max_pixels=10**7 or alpha="white".
            docs/parameters.md has their meanings and defaults.

    Returns:
        uint8 [H, W, 3], RGB.

    Raises:
        CorruptImageError: not an image, or damaged or truncated unless that is accepted.
        ImageLimitError: beyond one of the limits.
        UnsupportedError: a format that is not accepted or not known, or a kind of JPEG that is
            not decoded (12 bits, lossless, arithmetic coding).
        InvalidArgumentError: not encoded bytes, or another parameter.
        OSError: a file that cannot be read.
    """
    others = fields.keys() - DecodeParameters.__annotations__.keys()
    if others:
        raise InvalidArgumentError(
            f"'{min(others)}' is not a parameter of decode: there are "
            f"{', '.join(DecodeParameters.__annotations__)}"
        )
    limits = SizeLimits.from_parameters(preprocess_defaults())
    if (max_bytes := fields.get("max_bytes")) is not None:
        limits = replace(limits, max_bytes=max_bytes)
    buffer = to_buffer(open_image(image, "rgb", limits), limits)
    if getattr(buffer, "ndim", 1) != 1:
        raise InvalidArgumentError("the image holds pixels already: give encoded bytes")
    return _core.decode([buffer], to_parameters(fields))
