"""Every kind of bad image that a caller may send, by name, and harmless oddities."""

from __future__ import annotations

import io
import struct
from typing import NamedTuple

import numpy as np
from PIL import Image

import endcap
from tests.support import jpegs

# Pillow finds this orientation, and cannot write the block anew: the picture's width is a text.
UNWRITABLE_EXIF = b"Exif\0\0II*\0\x08\0\0\0" + struct.pack(
    "<HHHIHHHHI4sI",
    2,
    *(jpegs.ORIENTATION_TAG, jpegs.SHORT_TYPE, 1, 6, 0),
    *(0x0100, 2, 4, b"me!\0"),
    0,
)


class BadFile(NamedTuple):
    name: str
    data: bytes
    error: type[endcap.EndcapError]
    status: endcap.Status

    def __str__(self) -> str:
        return self.name


def _png() -> bytes:
    out = io.BytesIO()
    Image.fromarray(jpegs.photo(16, 16)).save(out, "PNG")
    return out.getvalue()


def _padded(data: bytes, size_bytes: int) -> bytes:
    """The file made larger with zeros before its end marker."""
    return data[:-2] + bytes(max(0, size_bytes - len(data))) + jpegs.EOI


def _two_components(data: bytes) -> bytes:
    frame = jpegs.find_segment(data, jpegs.SOF_MARKERS)
    count_at = frame.start + 9
    shorter = data[: frame.end - 3] + data[frame.end :]
    length = (frame.end - frame.start - 2 - 3).to_bytes(2, "big")
    return jpegs.patch(jpegs.patch(shorter, frame.start + 2, length), count_at, b"\x02")


def bomb(height: int, width: int, *, size_bytes: int = 5000) -> bytes:
    """A file of about size_bytes whose header claims height x width."""
    small = jpegs.photo_jpeg(32, 32)
    return jpegs.with_size(_padded(small, size_bytes), height, width)


def bad_files() -> list[BadFile]:
    good = jpegs.photo_jpeg(96, 128)
    progressive = jpegs.encode(jpegs.photo(96, 128), progressive=True)
    corrupt = (endcap.CorruptImageError, endcap.Status.CORRUPT_IMAGE)
    limit = (endcap.ImageLimitError, endcap.Status.IMAGE_LIMIT)
    unsupported = (endcap.UnsupportedError, endcap.Status.UNSUPPORTED)
    files = [
        ("empty", b"", corrupt),
        ("one_byte", b"\xff", corrupt),
        ("start_marker_only", jpegs.SOI, corrupt),
        ("start_and_end_only", jpegs.SOI + jpegs.EOI, corrupt),
        ("png_cut", _png()[:-40], corrupt),
        ("text", b"this is no picture at all, but a line of text", corrupt),
        ("zeros", bytes(1000), corrupt),
        ("truncated_in_header", good[:40], corrupt),
        ("truncated_before_scan", good[: jpegs.find_segment(good, (jpegs.SOS,)).start], corrupt),
        ("truncated_half", good[: len(good) // 2], corrupt),
        ("truncated_progressive", progressive[: len(progressive) // 2], corrupt),
        ("bomb_64250", bomb(64250, 64250), limit),
        ("bomb_65500", bomb(65500, 65500), limit),
        ("side_over_65500", bomb(8, 65535), limit),
        ("claims_9000", bomb(9000, 9000), corrupt),
        ("height_0", jpegs.with_size(good, 0, 128), corrupt),
        ("width_0", jpegs.with_size(good, 96, 0), corrupt),
        ("precision_12", jpegs.with_precision(good, 12), unsupported),
        ("lossless", jpegs.with_frame_marker(good, 0xC3), unsupported),
        ("hierarchical", jpegs.with_frame_marker(good, 0xC5), unsupported),
        ("arithmetic", jpegs.with_frame_marker(good, 0xC9), unsupported),
        ("arithmetic_progressive", jpegs.with_frame_marker(good, 0xCA), unsupported),
        ("two_components", _two_components(good), unsupported),
        ("scan_bomb", jpegs.repeat_last_scan(progressive, 600), limit),
        ("truncated_then_zeros", good[: len(good) // 2] + bytes(20_000), corrupt),
        ("truncated_then_spaces", good[: len(good) // 2] + b" " * 20_000, corrupt),
        ("truncated_progressive_then_zeros", progressive[:-60] + bytes(20_000), corrupt),
        (
            "coefficient_bomb",
            jpegs.with_size(_padded(progressive, 600_000), 9450, 9450),
            limit,
        ),
    ]
    return [BadFile(name, data, error, status) for name, data, (error, status) in files]


def harmless_exif() -> dict[str, bytes]:
    """APP1 payloads that a reader must get over: none of them names a usable orientation."""
    exif = b"Exif\0\0"
    entry = struct.pack("<HHIHH", jpegs.ORIENTATION_TAG, jpegs.SHORT_TYPE, 1, 6, 0)
    noise = np.random.default_rng(3).integers(0, 256, 60000, np.uint8).tobytes()

    def tiff(ifd_offset: int, rest: bytes) -> bytes:
        return exif + b"II" + struct.pack("<HI", 42, ifd_offset) + rest

    other_entry = struct.pack("<HHII", 0x010F, 4, 1, 8)
    return {
        "largest_segment_of_zeros": exif + bytes(65533 - len(exif)),
        "noise": exif + noise,
        "nothing_after_prefix": exif,
        "cut_in_tiff_header": exif + b"II*\0",
        "neither_byte_order": exif + b"XX" + struct.pack("<HI", 42, 8) + b"\1\0" + entry,
        "wrong_magic": exif + b"II" + struct.pack("<HI", 43, 8) + b"\1\0" + entry,
        "offset_past_the_end": tiff(0xFFFFFFF0, b"\1\0" + entry),
        "offset_at_the_end": tiff(22, b"\1\0" + entry),
        "ifd_that_follows_itself": tiff(8, b"\1\0" + other_entry + struct.pack("<I", 8)),
        "claims_65535_entries": tiff(8, b"\xff\xff" + other_entry * 3),
        "orientation_0": jpegs.exif_segment(0),
        "orientation_9": jpegs.exif_segment(9),
        "orientation_65535": jpegs.exif_segment(65535, byte_order=">"),
        "orientation_as_text": tiff(
            8, b"\1\0" + struct.pack("<HHI4s", jpegs.ORIENTATION_TAG, 2, 4, b"\6\0\0\0")
        ),
    }
