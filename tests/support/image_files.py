"""PNG and BMP files of every kind for tests, written from the formats' definitions."""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.integer]

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
# Colour type -> samples of a pixel.
PNG_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
# First column and row, and the steps, of the seven passes of an interlaced PNG.
ADAM7 = (
    (0, 0, 8, 8),
    (4, 0, 8, 8),
    (0, 4, 4, 8),
    (2, 0, 4, 4),
    (0, 2, 2, 4),
    (1, 0, 2, 2),
    (0, 1, 1, 2),
)


def png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _packed_row(row: Samples, bits: int) -> bytes:
    """The samples of a row, the first in the highest bits."""
    if bits == 16:
        return row.astype(">u2").tobytes()
    if bits == 8:
        return row.astype(np.uint8).tobytes()
    places = 8 // bits
    padded = np.pad(row.ravel(), (0, -row.size % places)).reshape(-1, places)
    shifts = np.arange(places)[::-1] * bits
    return (padded << shifts).sum(axis=1).astype(np.uint8).tobytes()


def _filtered(rows: Samples, bits: int) -> bytes:
    """Rows with the filter byte before each; every second row is stored as differences upwards."""
    out = bytearray()
    before = b""
    for number, row in enumerate(rows):
        packed = _packed_row(row, bits)
        before = before or bytes(len(packed))
        if number % 2:
            out += b"\x02" + bytes((a - b) & 255 for a, b in zip(packed, before, strict=True))
        else:
            out += b"\x00" + packed
        before = packed
    return bytes(out)


def png(
    samples: Samples,
    color_type: int,
    bits: int,
    *,
    interlaced: bool = False,
    palette: Samples | None = None,
    transparency: bytes | None = None,
    chunks: Sequence[bytes] = (),
    parts: int = 1,
) -> bytes:
    """A PNG of samples [H, W, C]: `chunks` before the image data, which is in `parts` chunks."""
    height, width = samples.shape[:2]
    header = struct.pack(">IIBBBBB", width, height, bits, color_type, 0, 0, int(interlaced))
    passes = ADAM7 if interlaced else ((0, 0, 1, 1),)
    scan = b"".join(
        _filtered(part, bits)
        for x, y, step_x, step_y in passes
        if (part := samples[y::step_y, x::step_x]).size
    )
    data = zlib.compress(scan)
    cuts = np.linspace(0, len(data), parts + 1).astype(int)
    return b"".join(
        [
            PNG_SIGNATURE,
            png_chunk(b"IHDR", header),
            *([] if palette is None else [png_chunk(b"PLTE", palette.astype(np.uint8).tobytes())]),
            *([] if transparency is None else [png_chunk(b"tRNS", transparency)]),
            *chunks,
            *(png_chunk(b"IDAT", data[a:b]) for a, b in itertools.pairwise(cuts)),
            png_chunk(b"IEND", b""),
        ]
    )


def with_png_size(data: bytes, width: int, height: int) -> bytes:
    """The same file with another size in its header."""
    header = struct.pack(">II", width, height) + data[24:29]
    return data[:8] + png_chunk(b"IHDR", header) + data[33:]


def bmp(
    rows: Sequence[bytes],
    width: int,
    height: int,
    bits: int,
    *,
    compression: int = 0,
    palette: bytes = b"",
    header_bytes: int = 40,
    masks: Sequence[int] = (),
    top_down: bool = False,
) -> bytes:
    """A BMP of rows as they are stored, from the top to the bottom; RLE data is one row."""
    if header_bytes == 12:
        header = struct.pack("<IHHHH", 12, width, height, 1, bits)
    else:
        signed = -height if top_down else height
        colors = len(palette) // 4
        header = struct.pack(
            "<IiiHHIIiiII", header_bytes, width, signed, 1, bits, compression, 0, 0, 0, colors, 0
        )
        in_header = b"".join(struct.pack("<I", mask) for mask in masks)
        header += in_header.ljust(max(header_bytes - 40, len(in_header)), b"\0")
    stored = list(rows) if top_down or compression in (1, 2) else list(rows)[::-1]
    if compression not in (1, 2):
        stored = [row + bytes(-len(row) % 4) for row in stored]
    offset = 14 + len(header) + len(palette)
    body = header + palette + b"".join(stored)
    return b"BM" + struct.pack("<IHHI", 14 + len(body), 0, 0, offset) + body


def packed_indices(row: Samples, bits: int) -> bytes:
    """Palette indices of 1, 4 or 8 bits as a BMP stores them."""
    return _packed_row(row, bits)
