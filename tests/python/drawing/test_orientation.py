"""Which way is up: here as in the core, whatever the EXIF block, and nowhere else."""

from __future__ import annotations

import io
import struct

import bad_jpegs
import jpegs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import endcap
from endcap.drawing.orientation import open_picture, oriented, oriented_size

HEIGHT, WIDTH = 16, 24
PLAIN = jpegs.photo_jpeg(HEIGHT, WIDTH)
XMP = (
    b"http://ns.adobe.com/xap/1.0/\0<x:xmpmeta xmlns:x='adobe:ns:meta/'>"
    b'<rdf:Description tiff:Orientation="6"/></x:xmpmeta>'
)


def rotated(data: bytes) -> Image.Image:
    with open_picture(io.BytesIO(data)) as image:
        return oriented(image)


def orientation_of_the_core(data: bytes) -> int:
    return int(endcap.preprocess(data, size=8).geometry[0, 6])


@pytest.mark.parametrize("byte_order", "<>")
@pytest.mark.parametrize("orientation", range(1, 9))
def test_pictures_are_oriented_as_by_the_core(orientation: int, byte_order: str) -> None:
    segment = jpegs.exif_segment(orientation, byte_order=byte_order)
    data = jpegs.with_exif(PLAIN, segment)
    expected = endcap.decode(data)
    assert np.array_equal(np.asarray(rotated(data)), expected)
    assert oriented_size(io.BytesIO(data)) == expected.shape[1::-1]


def test_an_orientation_in_xmp_alone_counts_for_nothing() -> None:
    data = jpegs.insert_segment(PLAIN, jpegs.APP1, XMP)
    with Image.open(io.BytesIO(data)) as image:
        assert image.getexif()[jpegs.ORIENTATION_TAG] == 6, "Pillow's rule"
    assert oriented_size(io.BytesIO(data)) == (WIDTH, HEIGHT)
    assert np.array_equal(np.asarray(rotated(data)), endcap.decode(data))


@pytest.mark.parametrize(
    "payload", [bad_jpegs.UNWRITABLE_EXIF, *bad_jpegs.harmless_exif().values()]
)
def test_a_damaged_block_is_read_as_the_core_reads_it(payload: bytes) -> None:
    data = jpegs.with_exif(PLAIN, payload)
    assert np.array_equal(np.asarray(rotated(data)), endcap.decode(data))


def test_the_copy_says_nothing_of_an_orientation() -> None:
    data = jpegs.insert_segment(jpegs.with_exif(PLAIN, bad_jpegs.UNWRITABLE_EXIF), jpegs.APP1, XMP)
    with open_picture(io.BytesIO(data)) as image:
        copy = oriented(image)
        assert {"exif", "xmp"} <= set(image.info), "the given one is as it was"
    assert jpegs.ORIENTATION_TAG not in copy.getexif()


entries = st.tuples(
    st.sampled_from([jpegs.ORIENTATION_TAG, 0x010F, 0x011A]),
    st.sampled_from([0, 1, 3, 4, 65535]),  # types
    st.sampled_from([0, 1, 2]),  # counts
    st.integers(0, 9),
    st.integers(0, 9),
)


@given(
    order=st.sampled_from("<>"),
    magic=st.sampled_from([42, 42, 42, 43]),
    directory=st.sampled_from([0, 8, 8, 8, 10, 1 << 31]),
    claimed=st.integers(0, 4),
    listed=st.lists(entries, max_size=3),
    cut=st.integers(0, 14),
)
def test_any_block_is_read_as_the_core_reads_it(
    order: str,
    magic: int,
    directory: int,
    claimed: int,
    listed: list[tuple[int, int, int, int, int]],
    cut: int,
) -> None:
    head = (b"II" if order == "<" else b"MM") + struct.pack(f"{order}HI", magic, directory)
    body = b"".join(struct.pack(f"{order}HHIHH", *entry) for entry in listed)
    block = head + struct.pack(f"{order}H", claimed) + body
    data = jpegs.with_exif(PLAIN, b"Exif\0\0" + block[: len(block) - cut])
    swapped = orientation_of_the_core(data) >= 5
    assert oriented_size(io.BytesIO(data)) == ((HEIGHT, WIDTH) if swapped else (WIDTH, HEIGHT))
    assert np.array_equal(np.asarray(rotated(data)), endcap.decode(data))
