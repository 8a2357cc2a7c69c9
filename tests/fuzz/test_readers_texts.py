"""Readers of labels and of the orientation in pictures."""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from endcap.drawing.pictures import NOT_A_PICTURE, open_picture, oriented, read_oriented_size
from endcap.triton.labels import parse_labels, read_labels
from tests.fuzz.mutations import damaged, fuzzed, only_own_errors
from tests.support import jpegs

LABELS = "cat\ndog\r\nä b,c\n".encode()
PICTURE = jpegs.photo_jpeg(32, 24)


@fuzzed
@given(st.binary(max_size=200) | damaged(LABELS))
@example(b"\xef\xbb\xbf\n\r\n\x00")
def test_labels_files(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "labels.txt"
        file.write_bytes(content)
        with only_own_errors():
            labels = read_labels(file)
            assert not any("\n" in label for label in labels)


@fuzzed
@given(st.text(max_size=60) | st.text(max_size=40).map("[".__add__))
@example("[" * 100_000)
@example('["a", 1]')
@example("[1" + "0" * 5000 + "]")
@example('["\\ud800"]')
@example("[NaN]")
@example('[{"a": {}}]')
def test_labels_of_a_server(text: str) -> None:
    with only_own_errors():
        assert all(isinstance(label, str) for label in parse_labels(text))


@fuzzed
@given(damaged(PICTURE, parts=(b"\xff\xe1", b"Exif\0\0", b"II*\0", b"\xff\xd9", b"\xff\xff")))
def test_pictures(content: bytes) -> None:
    size = read_oriented_size(io.BytesIO(content))
    assert size is None or min(size) > 0
    # Its errors are Pillow's, and of these alone.
    with contextlib.suppress(*NOT_A_PICTURE), open_picture(io.BytesIO(content)) as image:
        oriented(image)
