"""Readers of labels, of metrics and of the orientation in pictures."""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path

import jpegs
from hypothesis import example, given
from hypothesis import strategies as st
from metrics_text import EARLIER, LATER
from mutations import damaged, fuzzed, only_own_errors
from rich.console import Group

from endcap.drawing.orientation import NOT_A_PICTURE, open_picture, oriented, oriented_size
from endcap.terminal.console import PlainConsole
from endcap.tools.top.metrics import parse_metrics
from endcap.tools.top.rates import compare
from endcap.tools.top.table import as_lines
from endcap.triton.labels import parse_labels, read_labels

LABELS = "cat\ndog\r\nä b,c\n".encode()
PICTURE = jpegs.photo_jpeg(32, 24)
METRICS = LATER.encode()


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
@given(damaged(METRICS, parts=(b"{", b"}", b'"', b"NaN", b"+Inf", b"# TYPE", b"\\", b"\n", b",")))
def test_metrics_of_a_server(content: bytes) -> None:
    with contextlib.suppress(ValueError):  # which it promises, and `scrape` explains
        later = parse_metrics(content.decode(errors="replace"), 2.0)
        lines = as_lines(compare(parse_metrics(EARLIER, 0.0), later), 80)
        PlainConsole(file=io.StringIO(), width=80).print(Group(*lines))


@fuzzed
@given(damaged(PICTURE, parts=(b"\xff\xe1", b"Exif\0\0", b"II*\0", b"\xff\xd9", b"\xff\xff")))
def test_pictures(content: bytes) -> None:
    size = oriented_size(io.BytesIO(content))
    assert size is None or min(size) > 0
    # Its errors are Pillow's, and of these alone.
    with contextlib.suppress(*NOT_A_PICTURE), open_picture(io.BytesIO(content)) as image:
        oriented(image)
