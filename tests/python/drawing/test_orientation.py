"""Which way is up: here as in the core, whatever the EXIF block, and nowhere else."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

import endcap
from endcap.drawing.pictures import open_picture, oriented, read_oriented_size
from tests.support import bad_jpegs, jpegs

HEIGHT, WIDTH = 16, 24
PLAIN = jpegs.photo_jpeg(HEIGHT, WIDTH)
XMP = (
    b"http://ns.adobe.com/xap/1.0/\0<x:xmpmeta xmlns:x='adobe:ns:meta/'>"
    b'<rdf:Description tiff:Orientation="6"/></x:xmpmeta>'
)


def rotated(data: bytes) -> Image.Image:
    with open_picture(io.BytesIO(data)) as image:
        return oriented(image)


@pytest.mark.parametrize("byte_order", "<>")
@pytest.mark.parametrize("orientation", range(1, 9))
def test_pictures_are_oriented_as_by_the_core(orientation: int, byte_order: str) -> None:
    segment = jpegs.exif_segment(orientation, byte_order=byte_order)
    data = jpegs.with_exif(PLAIN, segment)
    expected = endcap.decode(data)
    assert np.array_equal(np.asarray(rotated(data)), expected)
    assert read_oriented_size(io.BytesIO(data)) == expected.shape[1::-1]


def test_an_orientation_in_xmp_alone_counts_for_nothing() -> None:
    data = jpegs.insert_segment(PLAIN, jpegs.APP1, XMP)
    with Image.open(io.BytesIO(data)) as image:
        assert image.getexif()[jpegs.ORIENTATION_TAG] == 6, "Pillow's rule"
    assert read_oriented_size(io.BytesIO(data)) == (WIDTH, HEIGHT)
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


def test_a_size_is_read_from_the_header_however_large_it_is() -> None:
    """Pillow warns of 100 million pixels, and refuses 225."""
    file = io.BytesIO()
    Image.new("L", (8, 8)).save(file, "JPEG")
    for side in (10_000, 15_000):
        size = 2 * side.to_bytes(2, "big")
        large = file.getvalue().replace(b"\x00\x08\x00\x08\x01\x01", size + b"\x01\x01")
        assert read_oriented_size(io.BytesIO(large)) == (side, side)
