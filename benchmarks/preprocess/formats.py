"""PNG and WebP files to the letterboxed tensor, one thread, beside OpenCV and Pillow.

The photographs of the benchmark are stored again in each format. Every library decodes with the one
that it ships: endcap with the system's libpng, zlib and libwebp.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from PIL import Image

from benchmarks.images import Photograph
from benchmarks.preprocess import ours
from benchmarks.preprocess.entries import Loaded, compare, reference
from benchmarks.preprocess.one_thread import ratios_to
from benchmarks.preprocess.opencv import PEER as OPENCV
from benchmarks.preprocess.opencv import PLAIN as OPENCV_PLAIN
from benchmarks.preprocess.pillow import PEER as PILLOW
from benchmarks.timing import Budget, Case, Ready, Row, comparison, load, one_cpu

PHOTOGRAPHS = ("640x427 detailed", "810x1080", "1280x720", "1920x1080")
_PEERS = (ours.EXACT, OPENCV, OPENCV_PLAIN, PILLOW)


@dataclass(frozen=True)
class Form:
    """How a photograph is stored; `options` are Pillow's."""

    name: str
    format: str
    options: Mapping[str, object] = field(default_factory=dict)

    def encode(self, image: Photograph) -> bytes:
        """Return the file."""
        file = BytesIO()
        with Image.open(image.path) as picture:
            picture.convert("RGB").save(file, self.format, **self.options)
        return file.getvalue()


FORMS = (
    Form("PNG", "PNG"),
    Form("WebP, quality 90", "WEBP", {"quality": 90}),
    Form("WebP, lossless", "WEBP", {"lossless": True, "quality": 50}),
)


@dataclass(frozen=True)
class FileRows:
    """One file: its form, its picture, and the rows by peer."""

    form: str
    image: str
    encoded_bytes: int
    rows: dict[str, Row]


@dataclass(frozen=True)
class Formats:
    """All files.

    Attributes:
        files: By form, then by photograph.
        ratios: For each form the geometric means over its files, how many times the time of endcap
            a peer takes.
    """

    files: list[FileRows]
    ratios: dict[str, dict[str, float]]


def steps(photographs: int) -> int:
    """How often `run` will say that something is done."""
    return len(FORMS) * photographs


def run(images: list[Photograph], budget: Budget, done: Callable[[str], None]) -> Formats:
    """Verify and time every peer on every file; `done` is called after each file."""
    files = []
    with one_cpu():
        peers = {peer.name: (peer, load(peer.single)) for peer in _PEERS}
        for form in FORMS:
            for image in images:
                encoded = form.encode(image)
                entries: dict[str, Ready | Row] = {
                    name: run if isinstance(run, Row) else _verified(Loaded(peer, run), encoded)
                    for name, (peer, run) in peers.items()
                }
                rows = comparison(entries, ours.EXACT.name, budget)
                files.append(FileRows(form.name, image.name, len(encoded), rows))
                done(f"{form.name}, {image.name}")
    tables = {form.name: [each.rows for each in files if each.form == form.name] for form in FORMS}
    return Formats(files, {name: ratios_to(ours.EXACT.name, rows) for name, rows in tables.items()})


def _verified(loaded: Loaded, encoded: bytes) -> Ready | Row:
    peer = loaded.peer
    expected: Any = reference(peer.compared_with)(encoded)
    agreement = compare(loaded.run(encoded), expected, peer.psnr_db)
    if not agreement.passed:
        return Row("not verified", agreement.text)
    return Ready(Case(run=loaded.run, prepare=lambda: encoded), agreement.text)
