"""Which EXIF orientation counts: the table of decode.h, compared with Pillow."""

from __future__ import annotations

import io
import struct
import warnings
from collections.abc import Sequence

import numpy as np
import pytest
from PIL import Image, ImageOps

import endcap
from tests.support import jpegs
from tests.support.bad_jpegs import harmless_exif

PLAIN = jpegs.photo_jpeg(16, 24)
PREFIX = b"Exif\0\0"
XMP = b"http://ns.adobe.com/xap/1.0/\0<x:xmpmeta/>"
# Type of TIFF 6.0 -> how struct writes a value.
TYPES = {1: "B", 2: "B", 3: "H", 4: "I", 6: "b", 7: "B", 8: "h", 9: "i", 11: "f", 12: "d"}
TYPES |= {5: "I", 10: "i", 13: "I", 16: "Q"}
NAMES = {1: "BYTE", 2: "ASCII", 3: "SHORT", 4: "LONG", 5: "RATIONAL", 6: "SBYTE"}
NAMES |= {7: "UNDEFINED", 8: "SSHORT", 9: "SLONG", 10: "SRATIONAL", 11: "FLOAT", 12: "DOUBLE"}
NAMES |= {13: "IFD", 16: "LONG8"}
MAKE, EXIF_IFD = 0x010F, 0x8769

Entry = tuple[int, int, int, bytes]  # tag, type, count, values


def pack_values(kind: int, values: Sequence[float], order: str = "<") -> bytes:
    if kind in (5, 10):
        return b"".join(struct.pack(order + "ii", value, 1) for value in values)
    return b"".join(struct.pack(order + TYPES[kind], value) for value in values)


def orientation(kind: int, *values: float, order: str = "<") -> Entry:
    return jpegs.ORIENTATION_TAG, kind, len(values), pack_values(kind, values, order)


def tiff(
    *entries: Entry, order: str = "<", directory: int = 8, claimed: int | None = None
) -> bytes:
    """A TIFF structure with one IFD, and the values that do not fit into it behind."""
    mark = b"II" if order == "<" else b"MM"
    count = len(entries) if claimed is None else claimed
    written = struct.pack(order + "H", count)
    behind = directory + 2 + 12 * len(entries) + 4
    outside = b""
    for tag, kind, values_count, values in entries:
        written += struct.pack(order + "HHI", tag, kind, values_count)
        if len(values) > 4:
            written += struct.pack(order + "I", behind + len(outside))
            outside += values
        else:
            written += values.ljust(4, b"\0")
    header = mark + struct.pack(order + "HI", 42, directory)
    return header.ljust(directory, b"\0") + written + bytes(4) + outside


def jpeg(*segments: bytes) -> bytes:
    data = PLAIN
    for segment in reversed(segments):
        data = jpegs.with_exif(data, segment)
    return data


def block(*entries: Entry, order: str = "<") -> bytes:
    return PREFIX + tiff(*entries, order=order)


SIX, EIGHT, ONE = (orientation(3, value) for value in (6, 8, 1))
FAR = struct.pack("<I", 9999)
IN_PARTS = tiff(SIX, directory=60)
LATE = struct.pack("<HHHIHHI", 1, jpegs.ORIENTATION_TAG, 3, 1, 6, 0, 0)
CASES: dict[str, list[bytes]] = {
    "the largest number": [block(orientation(4, 2**32 - 1))],
    "9": [block(orientation(4, 9))],
    "LONG with 6 in its lower half": [block(orientation(4, 65542))],
    "-6": [block(orientation(9, -6))],
    "half": [block(orientation(11, 6.5))],
    "NaN": [block(orientation(12, float("nan")))],
    "six halves": [block((jpegs.ORIENTATION_TAG, 5, 1, struct.pack("<II", 12, 2)))],
    "a rational over 0": [block((jpegs.ORIENTATION_TAG, 5, 1, struct.pack("<II", 6, 0)))],
    "a negative rational": [block((jpegs.ORIENTATION_TAG, 10, 1, struct.pack("<ii", -6, -1)))],
    "the first of several": [block(orientation(3, 6, 1, 1, 1, 1))],
    "SHORT 6 and 1": [block(orientation(3, 6, 1))],
    "count 0": [block((jpegs.ORIENTATION_TAG, 3, 0, b"\6\0"))],
    "type 0": [block((jpegs.ORIENTATION_TAG, 0, 1, b"\6\0"))],
    "type 17": [block((jpegs.ORIENTATION_TAG, 17, 1, b"\6\0"))],
    "two entries": [block(SIX, ONE)],
    "two entries, 1 first": [block(ONE, SIX)],
    "of an unknown type, then another": [block((jpegs.ORIENTATION_TAG, 0, 1, b"\1\0"), SIX)],
    "text, then another": [block(orientation(2, 54), SIX)],
    "values past the end": [block((jpegs.ORIENTATION_TAG, 3, 9, FAR))],
    "after an entry with values past the end": [block((MAKE, 2, 5, FAR), SIX)],
    "after an entry that claims too much": [block((MAKE, 2, 2**31, FAR), SIX)],
    "after a good entry": [block((MAKE, 2, 7, b"endcap\0"), SIX)],
    "more entries claimed than there are": [PREFIX + tiff(SIX, claimed=9)[:-4]],
    "cut in the entry": [block(SIX)[:27]],
    "42 in the other order, II": [block(SIX).replace(b"II*\0", b"II\0*")],
    "42 in the other order, MM": [
        block(orientation(3, 6, order=">"), order=">").replace(b"MM\0*", b"MM*\0")
    ],
    "two prefixes": [PREFIX + block(SIX)],
    "XMP before": [XMP, block(SIX)],
    "another APP1 segment before": [b"something else\0", block(EIGHT)],
    "two segments": [block(SIX), block(EIGHT)],
    "two segments, 1 first": [block(ONE), block(SIX)],
    "two segments, the first without": [block((MAKE, 2, 2, b"a\0")), block(SIX)],
    "two segments, the first damaged": [PREFIX + b"neither II nor MM", block(SIX)],
    "two segments, the first empty": [PREFIX, block(SIX)],
    "one block in two segments": [PREFIX + IN_PARTS[:30], PREFIX + IN_PARTS[30:]],
    "one block in three segments": [PREFIX + IN_PARTS[:63], PREFIX + b"", PREFIX + IN_PARTS[63:]],
    "thumbnail's IFD": [block((MAKE, 2, 2, b"a\0"))[:-4] + struct.pack("<I", 26) + LATE],
    "Exif IFD": [block((EXIF_IFD, 4, 1, struct.pack("<I", 26))) + LATE],
}
CASES |= {name: [payload] for name, payload in harmless_exif().items()}
for each in TYPES:
    for number in (1, 2, 3):
        for endian in "<>":
            CASES[f"{NAMES[each]}, {number} values, {endian}"] = [
                block(orientation(each, *[6] * number, order=endian), order=endian)
            ]


@pytest.mark.parametrize("name", CASES)
def test_orientation_is_pillows(name: str) -> None:
    data = jpeg(*CASES[name])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of damaged blocks
        expected = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))))
    np.testing.assert_array_equal(endcap.decode(data), expected)


def test_cases_turn_and_do_not() -> None:
    """The 24x16 image comes out as 16x24 or not, and both are compared above."""
    turned = {
        name for name, segments in CASES.items() if endcap.decode(jpeg(*segments)).shape[0] > 16
    }
    assert {"SLONG, 1 values, >", "SHORT, 2 values, <", "one block in two segments"} <= turned
    assert not {"BYTE, 1 values, <", "two segments, 1 first", "thumbnail's IFD"} & turned
