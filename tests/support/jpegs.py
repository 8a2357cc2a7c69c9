"""JPEG files for tests: pictures from a seed, encoded by Pillow, and surgery on their segments."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

Pixels = npt.NDArray[np.uint8]

SOI = b"\xff\xd8"
EOI = b"\xff\xd9"
SOS = 0xDA
SOF_MARKERS = tuple(m for m in range(0xC0, 0xD0) if m not in (0xC4, 0xC8, 0xCC))
APP1, APP14 = 0xE1, 0xEE
ORIENTATION_TAG = 0x0112
SHORT_TYPE = 3


def photo(height: int, width: int, *, channels: int = 3, seed: int = 0) -> Pixels:
    """A picture with what photographs have: soft shading, hard edges, texture and grain.

    uint8 [height, width, channels].
    """
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    picture = np.empty((height, width, channels), np.float32)
    for c in range(channels):
        fx, fy = random.uniform(0.004, 0.03, 2)
        phase = random.uniform(0, 6)
        picture[..., c] = 128 + 70 * np.sin(fx * x + fy * y + phase)
    for _ in range(6):
        radius = random.uniform(0.05, 0.3) * max(height, width)
        cy, cx = random.uniform(0, height), random.uniform(0, width)
        inside = (y - cy) ** 2 + (x - cx) ** 2 < radius**2
        picture[inside] = picture[inside] * 0.3 + random.uniform(0, 255, channels) * 0.7
    picture += 12 * np.sin(x * 0.9)[..., None] * np.cos(y * 0.7)[..., None]
    picture += random.normal(0, 6, picture.shape)
    return np.clip(np.rint(picture), 0, 255).astype(np.uint8)


def exif_segment(orientation: int, *, byte_order: str = "<") -> bytes:
    """The payload of an APP1 segment whose IFD0 holds one entry, the orientation."""
    mark = b"II" if byte_order == "<" else b"MM"
    header = mark + struct.pack(byte_order + "HI", 42, 8)
    entry = struct.pack(byte_order + "HHIHH", ORIENTATION_TAG, SHORT_TYPE, 1, orientation, 0)
    ifd = struct.pack(byte_order + "H", 1) + entry + struct.pack(byte_order + "I", 0)
    return b"Exif\0\0" + header + ifd


def encode(
    pixels: Pixels,
    *,
    quality: int = 90,
    subsampling: str = "4:2:0",
    progressive: bool = False,
    restart_blocks: int = 0,
    orientation: int | None = None,
    keep_rgb: bool = False,
) -> bytes:
    """Pixels [H, W], [H, W, 1], [H, W, 3] (RGB) or [H, W, 4] (CMYK, stored Adobe's way) -> JPEG.

    keep_rgb stores R, G, B without a color transform and says so in an Adobe segment.
    subsampling: 4:4:4, 4:2:2 or 4:2:0.
    """
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    mode = "L" if pixels.ndim == 2 else {3: "RGB", 4: "CMYK"}[pixels.shape[2]]
    size = (pixels.shape[1], pixels.shape[0])
    picture = Image.frombytes(mode, size, np.ascontiguousarray(pixels).tobytes())
    out = io.BytesIO()
    colored: dict[str, str | bool] = {}
    if mode == "RGB":
        colored = {"keep_rgb": True} if keep_rgb else {"subsampling": subsampling}
    picture.save(
        out,
        "JPEG",
        quality=quality,
        progressive=progressive,
        restart_marker_blocks=restart_blocks,
        **colored,
    )
    data = out.getvalue()
    return data if orientation is None else with_exif(data, exif_segment(orientation))


def photo_jpeg(height: int, width: int, *, seed: int = 0, quality: int = 90) -> bytes:
    """A colour picture as an ordinary baseline file."""
    return encode(photo(height, width, seed=seed), quality=quality)


class Segment(NamedTuple):
    """One segment before the image data: data[start:end] is marker, length and payload."""

    marker: int
    start: int
    end: int


def segments(data: bytes) -> Iterator[Segment]:
    """The segments after SOI, up to and including the first SOS."""
    position = 2
    while position + 4 <= len(data):
        marker = data[position + 1]
        end = position + 2 + int.from_bytes(data[position + 2 : position + 4], "big")
        yield Segment(marker, position, end)
        if marker == SOS:
            return
        position = end


def find_segment(data: bytes, markers: tuple[int, ...]) -> Segment:
    return next(s for s in segments(data) if s.marker in markers)


def insert_segment(data: bytes, marker: int, payload: bytes) -> bytes:
    """Put a segment first, right after SOI."""
    length = (len(payload) + 2).to_bytes(2, "big")
    return SOI + bytes([0xFF, marker]) + length + payload + data[2:]


def remove_segments(data: bytes, marker: int) -> bytes:
    for segment in reversed([s for s in segments(data) if s.marker == marker]):
        data = data[: segment.start] + data[segment.end :]
    return data


def with_exif(data: bytes, payload: bytes) -> bytes:
    return insert_segment(data, APP1, payload)


def patch(data: bytes, position: int, replacement: bytes) -> bytes:
    return data[:position] + replacement + data[position + len(replacement) :]


def with_size(data: bytes, height: int, width: int) -> bytes:
    """The same file, its frame header claiming another size."""
    frame = find_segment(data, SOF_MARKERS)
    return patch(data, frame.start + 5, struct.pack(">HH", height, width))


def with_precision(data: bytes, bits: int) -> bytes:
    return patch(data, find_segment(data, SOF_MARKERS).start + 4, bytes([bits]))


def with_frame_marker(data: bytes, marker: int) -> bytes:
    return patch(data, find_segment(data, SOF_MARKERS).start + 1, bytes([marker]))


def with_adobe_transform(data: bytes, transform: int) -> bytes:
    """The file's Adobe segment changed: 0 for RGB or CMYK, 1 for YCbCr, 2 for YCCK."""
    adobe = find_segment(data, (APP14,))
    return patch(data, adobe.end - 1, bytes([transform]))


def repeat_last_scan(data: bytes, times: int) -> bytes:
    """A progressive file whose last scan is sent `times` times more."""
    start = data.rindex(bytes([0xFF, SOS]))
    return data[:-2] + data[start:-2] * times + EOI
